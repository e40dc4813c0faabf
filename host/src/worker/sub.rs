//! A sub-worker: a host process that computes on mapped arguments.

use bufabi_core::Blob;
use bufabi_core::wire::chip_args::{MAX_SCALARS, MAX_TENSORS, TooManyArguments};

use super::failure::Failure;
use super::kernel::Kernels;
use crate::consumer::{Consumer, Import};
use crate::memory::Operand;

/// Runs a task on its arguments, each mapped and seen through its view. `imports` are the mappings that it used, in order.
pub(super) fn run<K: Kernels + ?Sized>(
    kernels: &K,
    kernel: u32,
    consumer: &Consumer,
    blob: &Blob<'_>,
    imports: &mut Vec<Import>,
) -> Result<(), Failure> {
    let (tensors, scalars) = (blob.tensor_count(), blob.scalar_count());
    let too_many = |error: TooManyArguments| Failure::new(error.code(), None, &error);
    TooManyArguments::check(tensors, scalars).map_err(too_many)?;
    for (index, tensor) in blob.tensors().enumerate() {
        let import = consumer.import(&tensor.descriptor());
        imports.push(import.map_err(|error| Failure::new(error.code(), Some(index), &error))?);
    }
    let mut operands = heapless::Vec::<Operand<'_>, MAX_TENSORS>::new();
    for (index, (tensor, import)) in blob.tensors().zip(imports.iter()).enumerate() {
        let operand = import.operand(tensor.view());
        let operand = operand.map_err(|error| Failure::new(error.code(), Some(index), &error))?;
        operands.push(operand).map_err(|_| too_many(TooManyArguments { tensors, scalars }))?;
    }
    let scalars: heapless::Vec<u64, MAX_SCALARS> = blob.scalars().collect();
    kernels.run(kernel, &operands, &scalars).map_err(Failure::from)
}
