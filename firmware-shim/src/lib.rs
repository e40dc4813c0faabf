//! bufabi-firmware.
