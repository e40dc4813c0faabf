//! A sub-worker: a host process that computes on mapped arguments.

use bufabi_core::Blob;
use bufabi_core::wire::chip_args::{MAX_SCALARS, MAX_TENSORS, TooManyArguments};

use super::failure::Failure;
use super::kernel::{HostArgument, Kernels};
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
    let imported = consumer.import_all(blob.tensors(), imports);
    imported.map_err(|(index, error)| Failure::new(error.code(), Some(index), &error))?;
    let mut arguments = heapless::Vec::<HostArgument<'_>, MAX_TENSORS>::new();
    for (tensor, import) in blob.tensors().zip(imports.iter()) {
        let argument = HostArgument { import, view: tensor.view() };
        arguments.push(argument).map_err(|_| too_many(TooManyArguments { tensors, scalars }))?;
    }
    let scalars: heapless::Vec<u64, MAX_SCALARS> = blob.scalars().collect();
    kernels.run_on_host(kernel, &arguments, &scalars)
}

/// Runs a kernel on operands in those mappings.
pub(super) fn run_in_place<K: Kernels + ?Sized>(
    kernels: &K,
    kernel: u32,
    arguments: &[HostArgument<'_>],
    scalars: &[u64],
) -> Result<(), Failure> {
    let mut operands = heapless::Vec::<Operand<'_>, MAX_TENSORS>::new();
    for (index, &HostArgument { import, view }) in arguments.iter().enumerate() {
        let operand = import.operand(view);
        let operand = operand.map_err(|error| Failure::new(error.code(), Some(index), &error))?;
        let too_many = TooManyArguments { tensors: arguments.len(), scalars: scalars.len() };
        operands.push(operand).map_err(|_| Failure::new(too_many.code(), None, &too_many))?;
    }
    kernels.run(kernel, &operands, scalars).map_err(Failure::from)
}
