//! What tasks compute on this machine: the kernels that devices run too, on operands in mappings of this process.

pub use bufabi_device::kernel::{Call, Kernel, is_value};

use bufabi_core::Access;

use crate::memory::Operand;
use crate::worker::{KernelError, Kernels};

/// The kernels of a worker.
#[derive(Clone, Copy, Debug, Default)]
pub struct StandardKernels;

impl Kernels for StandardKernels {
    fn run(&self, kernel: u32, operands: &[Operand<'_>], scalars: &[u64]) -> Result<(), KernelError> {
        let call = Call::from_number(kernel).ok_or(KernelError::Unknown { kernel })?;
        call.run(operands, scalars, &mut vec![0; call.scratch_words()])
    }

    fn needs(&self, kernel: u32, operand: usize, count: usize) -> Option<Access> {
        Call::from_number(kernel)?.needs(operand, count)
    }
}

#[cfg(test)]
#[expect(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::wildcard_enum_match_arm,
    reason = "test arithmetic, and what is left over"
)]
mod tests;
