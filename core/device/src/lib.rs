//! What a device that runs tasks and its host share. It runs anywhere that Rust's `core` does: no std, no heap, no unsafe code.
//!
//! - [`kernel`]: what tasks compute, over operands that lie in any kind of memory.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod kernel;
