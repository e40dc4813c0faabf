//! Any two views of one small backing, against the sets of their bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bufabi_fuzz::overlap(bytes));
