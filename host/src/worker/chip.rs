//! A simulated chip: its kernels know of a task what `ChipStorageTaskArgs` says, and of memory what that task's mappings hold.

use bufabi_core::wire::chip_args::{MAX_SCALARS, MAX_TENSORS, MaterializeError};
use bufabi_core::{Blob, ChipStorageTaskArgs, ChipTensor, Code, View};

use super::failure::Failure;
use super::kernel::Kernels;
use crate::consumer::{Consumer, Import, ImportError};
use crate::memory::Operand;

/// The memory that a task of a chip may reach: the mappings of its arguments.
#[derive(Clone, Copy, Debug)]
struct ChipMemory<'a>(&'a [Import]);

impl<'a> ChipMemory<'a> {
    /// The operand that a chip's tensor describes, if all of it lies in one live mapping. Rights are those of that mapping.
    /// `hint` is the mapping to look at first.
    fn operand(&self, tensor: &ChipTensor, hint: usize) -> Option<Operand<'a>> {
        let (address, size) = (tensor.addr.get(), tensor.size.get());
        let holds = |import: &&Import| {
            let start = address.checked_sub(import.address());
            start.and_then(|start| import.nbytes().checked_sub(start)).is_some_and(|room| size <= room)
        };
        let import = self.0.get(hint).filter(holds).or_else(|| self.0.iter().find(holds))?;
        let start = usize::try_from(address.checked_sub(import.address())?).ok()?;
        let (shapes, strides) = (tensor.shapes.map(|slot| slot.get()), tensor.strides.map(|slot| slot.get()));
        let dtype = tensor.element_type()?;
        let view = View::from_slots(0, tensor.ndims.get(), dtype, shapes, strides, size).ok()?;
        import.operand_from(start, view).ok()
    }
}

/// Runs a task as a chip does: makes its arguments from the blob, each backing resolved once, and launches the kernel on them.
/// `imports` are the mappings that it used, in order.
pub(super) fn run<K: Kernels + ?Sized>(
    kernels: &K,
    kernel: u32,
    consumer: &Consumer,
    blob: &Blob<'_>,
    arguments: &mut ChipStorageTaskArgs,
    imports: &mut Vec<Import>,
) -> Result<(), Failure> {
    let materialized = arguments.materialize(blob, |_, tensor| {
        let import = consumer.import(&tensor.descriptor())?;
        let base = import.address();
        imports.push(import);
        Ok::<u64, ImportError>(base)
    });
    materialized.map_err(|error| match error {
        MaterializeError::Resolve { index, error } => Failure::new(error.code(), Some(index), &error),
        MaterializeError::Chip { index, error } => Failure::new(error.code(), Some(index), &error),
        MaterializeError::TooMany(error) => Failure::new(error.code(), None, &error),
    })?;
    launch(kernels, kernel, arguments, ChipMemory(imports))
}

/// Launches a kernel on what the arguments say, and on nothing else.
fn launch<K: Kernels + ?Sized>(
    kernels: &K,
    kernel: u32,
    arguments: &ChipStorageTaskArgs,
    memory: ChipMemory<'_>,
) -> Result<(), Failure> {
    let mut operands = heapless::Vec::<Operand<'_>, MAX_TENSORS>::new();
    for (index, tensor) in arguments.tensors().iter().enumerate() {
        let unmapped = || {
            let text = format_args!("no mapping of the task holds {:#x}", tensor.addr.get());
            Failure::new(Code::AddressNotMapped, Some(index), &text)
        };
        let operand = memory.operand(tensor, index).ok_or_else(unmapped)?;
        operands.push(operand).map_err(|_| unmapped())?;
    }
    let scalars: heapless::Vec<u64, MAX_SCALARS> =
        arguments.scalars().iter().map(|scalar| scalar.get()).collect();
    kernels.run(kernel, &operands, &scalars).map_err(Failure::from)
}
