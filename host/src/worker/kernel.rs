//! What a worker runs: kernels by number, over operands that lie in its own mappings.

pub use bufabi_device::kernel::KernelError;

use bufabi_core::Access;

use crate::memory::Operand;

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
}
