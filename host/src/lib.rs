//! bufabi-host.
