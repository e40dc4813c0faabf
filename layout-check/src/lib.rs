//! bufabi-layout-check.
