//! Any sequence of tasks over two small backings, against the definition byte by byte.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bufabi_fuzz::dependencies(bytes));
