//! Firmware that runs tasks on QEMU's bare aarch64 `virt` machine, for a host that put the machine's memory into a file.
//!
//! It reads the start record, attaches to the queue, and answers the host's requests until it is told to stop. What it does with
//! them is in `bufabi-device`; here is the board: its memory, its clock, its end.
#![cfg_attr(all(target_arch = "aarch64", target_os = "none"), no_std, no_main)]

#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod board;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod clock;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod memory;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod queue;

/// There is no board here: it is built for `aarch64-unknown-none`, and the host's `"device": "qemu"` starts it.
#[cfg(not(all(target_arch = "aarch64", target_os = "none")))]
const fn main() {}
