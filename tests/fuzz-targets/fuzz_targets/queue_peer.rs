//! Any bytes as calls of both ends of a message queue and as writes of a hostile peer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bufabi_fuzz::queue(bytes));
