//! Runs a kernel on its operands, whatever the type of their elements.

use bufabi_core::DType;
use half::{bf16, f16};

use super::call::{Call, Kernel};
use super::elementwise;
use super::error::KernelError;
use super::matrix;
use super::number::{Element, Number};
use super::operand::Operand;

impl Call {
    /// Words of memory that it computes in.
    #[must_use]
    pub const fn scratch_words(self) -> usize {
        if self.kernel.accumulates() { matrix::SCRATCH_WORDS } else { 0 }
    }

    /// Checks the operands and runs it on them, inputs first and the output last. All its stores are done when it returns.
    ///
    /// `scratch` are [`scratch_words`](Self::scratch_words) of memory, whatever is in them.
    ///
    /// # Errors
    /// Why it does not run on these arguments. Nothing was written then.
    pub fn run(
        self,
        operands: &[impl Operand],
        scalars: &[u64],
        scratch: &mut [u64],
    ) -> Result<(), KernelError> {
        self.check(operands.iter().map(Operand::view), scalars)?;
        for (index, operand) in operands.iter().enumerate() {
            let granted = operand.access();
            if let Some(needed) = self.needs(index, operands.len())
                && !granted.grants(needed)
            {
                return Err(KernelError::Denied { operand: index, granted, needed });
            }
        }
        let (expected, found) = (self.scratch_words(), scratch.len());
        if found < expected {
            return Err(KernelError::Scratch { expected, found });
        }
        compute(self, operands, scalars.first().copied().unwrap_or(0), scratch);
        Ok(())
    }
}

/// Runs a call that has been checked.
fn compute(call: Call, operands: &[impl Operand], scalar: u64, scratch: &mut [u64]) {
    let Some(dtype) = operands.first().map(|operand| operand.view().dtype()) else { return };
    match call.kernel {
        Kernel::None => {}
        Kernel::Fill | Kernel::Copy => match dtype.size() {
            1 => carry::<u8>(call.kernel, operands, scalar),
            2 => carry::<u16>(call.kernel, operands, scalar),
            4 => carry::<u32>(call.kernel, operands, scalar),
            _ => carry::<u64>(call.kernel, operands, scalar),
        },
        Kernel::Add | Kernel::Mul | Kernel::Scale | Kernel::MatMul | Kernel::SumRows => match dtype {
            DType::Float32 => arithmetic::<f32>(call, operands, scalar, scratch),
            DType::Float16 => arithmetic::<f16>(call, operands, scalar, scratch),
            DType::Bfloat16 => arithmetic::<bf16>(call, operands, scalar, scratch),
            DType::Int8 => arithmetic::<i8>(call, operands, scalar, scratch),
            DType::Int16 => arithmetic::<i16>(call, operands, scalar, scratch),
            DType::Int32 => arithmetic::<i32>(call, operands, scalar, scratch),
            DType::Int64 => arithmetic::<i64>(call, operands, scalar, scratch),
            DType::Uint8 => arithmetic::<u8>(call, operands, scalar, scratch),
            DType::Uint16 => arithmetic::<u16>(call, operands, scalar, scratch),
            DType::Uint32 => arithmetic::<u32>(call, operands, scalar, scratch),
            DType::Uint64 => arithmetic::<u64>(call, operands, scalar, scratch),
            DType::Bool | DType::Fp8E4M3Fn | DType::Fp8E8M0 | DType::Fp4E2M1 => {}
        },
    }
}

/// Fill and copy, by the size of an element.
fn carry<T: Element>(kernel: Kernel, operands: &[impl Operand], scalar: u64) {
    let operand = |index: usize| operands.get(index).and_then(Operand::elements::<T>);
    match (kernel, operand(0), operand(1)) {
        (Kernel::Fill, Some(c), _) => elementwise::fill(&c, T::from_scalar(scalar)),
        (Kernel::Copy, Some(a), Some(c)) => elementwise::copy(&a, &c),
        _ => {}
    }
}

/// What computes, by the type of an element.
fn arithmetic<T: Number>(call: Call, operands: &[impl Operand], scalar: u64, scratch: &mut [u64]) {
    let operand = |index: usize| operands.get(index).and_then(Operand::elements::<T>);
    match (call.kernel, operand(0), operand(1), operand(2)) {
        (Kernel::Add, Some(a), Some(b), Some(c)) => elementwise::zip(&a, &b, &c, T::add),
        (Kernel::Mul, Some(a), Some(b), Some(c)) => elementwise::zip(&a, &b, &c, T::mul),
        (Kernel::Scale, Some(a), Some(c), _) => {
            let factor = T::from_scalar(scalar).widen();
            elementwise::map(&a, &c, |value| T::mul(value, factor));
        }
        (Kernel::MatMul, Some(a), Some(b), Some(c)) => matrix::matmul(&a, &b, &c, call.accumulate, scratch),
        (Kernel::SumRows, Some(a), Some(c), _) => matrix::sum_rows(&a, &c, call.accumulate, scratch),
        _ => {}
    }
}
