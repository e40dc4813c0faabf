//! Any bytes as a tensor, and as what a chip reads, against a second reading of the rules.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bufabi_fuzz::tensor(bytes));
