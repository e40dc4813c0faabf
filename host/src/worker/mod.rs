//! Worker processes: what they run, and how a task gets to one and its answer back.

pub mod kernel;

pub use kernel::{KernelError, Kernels};
