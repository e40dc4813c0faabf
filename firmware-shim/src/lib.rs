//! The core's checks for a device's firmware, behind C's calling convention.
#![no_std]
