//! Proves that Rust, C and the written tables agree on every byte.
//!
//! Core states each record once, and asserts sizes, offsets and widths there. From that statement come a frozen text, a C header
//! with the same assertions, and the tables of `docs/wire-abi.md`; from core's one table of errors a frozen text, C's
//! constants and a table; from the firmware library's entry points their C header. All of them are committed. A test
//! makes them again and fails on the first line that differs; `cargo run -p bufabi-layout-check -- --write` writes them
//! anew, for a change that is meant.
#![forbid(unsafe_code)]

pub mod c_headers;
pub mod codes;
pub mod documents;
pub mod drift;
pub mod frozen;
mod trait_facts;
