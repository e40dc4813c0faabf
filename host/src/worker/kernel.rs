//! What a worker runs: kernels by number, over operands that lie in its own mappings.

pub use bufabi_device::kernel::KernelError;

use bufabi_core::{Access, View};

use super::failure::Failure;
use super::sub::run_in_place;
use crate::consumer::Import;
use crate::memory::Operand;

/// One argument of a task in a host process: a view of what was mapped for it.
#[derive(Clone, Copy, Debug)]
pub struct HostArgument<'a> {
    /// The mapping, and what its owner grants. A clone keeps it mapped beyond the task.
    pub import: &'a Import,
    /// Where its elements lie in it.
    pub view: View,
}

/// The kernels of a worker. Tags do not travel: a kernel that accumulates has another number than one that overwrites.
pub trait Kernels {
    /// Runs kernel number `kernel`, inputs first and outputs last, and returns when all its stores are done.
    ///
    /// # Errors
    /// Why it does not run on these arguments. Nothing was written then.
    fn run(&self, kernel: u32, operands: &[Operand<'_>], scalars: &[u64]) -> Result<(), KernelError>;

    /// What kernel number `kernel` does with operand number `operand` of `count`, for a device that has to copy operands there and
    /// back. Kernels that do not say are taken to read and write everything that they may.
    fn needs(&self, kernel: u32, operand: usize, count: usize) -> Option<Access> {
        let _ = (kernel, operand, count);
        Some(Access::ReadWrite)
    }

    /// Runs kernel number `kernel` in a host process. Unless it is said otherwise that is [`run`](Self::run), on operands; whoever
    /// lets views live on behind the task keeps their mappings.
    ///
    /// # Errors
    /// Why the task failed.
    fn run_on_host(
        &self,
        kernel: u32,
        arguments: &[HostArgument<'_>],
        scalars: &[u64],
    ) -> Result<(), Failure> {
        run_in_place(self, kernel, arguments, scalars)
    }

    /// Calls `fork`, which starts a worker's process, and comes back in this one alone: for what has to be done before and after,
    /// such as by the runtime of another language. It is called exactly once.
    fn around_fork(&self, fork: &mut dyn FnMut()) {
        fork();
    }

    /// Calls `life`, which is the whole life of a process that was just forked, and gives its exit status. It is called exactly
    /// once.
    fn in_fork(&self, life: &mut dyn FnMut() -> i32) -> i32 {
        life()
    }
}
