//! What a device that runs tasks and its host share. It runs anywhere that Rust's `core` does: no std, no heap, no unsafe code.
//!
//! - [`kernel`]: what tasks compute, over operands that lie in any kind of memory.
//! - [`mailbox`]: where the two find each other in the device's memory, and [`message`]: what they say.
//! - [`live`]: what of its memory a device's host has given out.
//! - [`tasks`]: the device's side: it answers requests and runs tasks.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod kernel;
pub mod live;
pub mod mailbox;
pub mod message;
pub mod tasks;
