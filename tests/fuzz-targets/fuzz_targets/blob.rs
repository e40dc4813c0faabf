//! Any bytes as a task's arguments, against a second reading of the rules.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bufabi_fuzz::blob(bytes));
