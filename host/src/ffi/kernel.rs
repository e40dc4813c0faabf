//! Kernels: a function of C's that workers run, and the numbers of this library's own.

use core::ffi::{c_char, c_void};

use bufabi_core::Code;
use bufabi_core::wire::chip_args::MAX_TENSORS;

use super::boundary::answer;
use super::parameter::{Out, apart_from, given_slice, span_of_slice};
use super::record::ViewFields;
use super::status::Status;
use super::worker::text;
use crate::kernels::{Call, Kernel};
use crate::memory::Operand;
use crate::worker::{KernelError, Kernels};

/// One argument of a kernel: a view of memory that is mapped while the kernel runs.
#[repr(C)]
pub struct OperandFields {
    /// The first element.
    pub data: *mut c_void,
    /// Bytes from the first element's first to the last element's last.
    pub nbytes: u64,
    /// Type, shape and strides; the offset is already in `data`, and 0.
    pub view: ViewFields,
    /// What may be done with it: READ 0, WRITE 1, READWRITE 2.
    pub access: i32,
    /// 0.
    pub reserved: u32,
}

/// Runs kernel number `kernel` on its operands, inputs first and outputs last, and returns when all its stores are done: 0, or why it did
/// not run, as a status or as any number of its own. It runs in a worker's process, which is a fork of the one that started the
/// workers, so that `context` is what it was then.
///
/// It touches no more than the operands say, and returns: it neither unwinds nor jumps out.
pub type RunKernel = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        kernel: u32,
        operands: *const OperandFields,
        operand_count: usize,
        scalars: *const u64,
        scalar_count: usize,
    ) -> Status,
>;

/// Kernels that are a function of C's.
pub(super) struct Foreign {
    pub(super) run:
        unsafe extern "C" fn(*mut c_void, u32, *const OperandFields, usize, *const u64, usize) -> Status,
    pub(super) context: *mut c_void,
}

impl Kernels for Foreign {
    fn run(&self, kernel: u32, operands: &[Operand<'_>], scalars: &[u64]) -> Result<(), KernelError> {
        let operands: heapless::Vec<OperandFields, MAX_TENSORS> =
            operands.iter().map(OperandFields::of).collect();
        let (count, scalar_count) = (operands.len(), scalars.len());
        // SAFETY: what the function's type asks of it was promised when the workers were started, and that its context is good; both are
        // in this process what they were in its parent at the fork. The two arrays are local and as long as said.
        let status = unsafe {
            (self.run)(self.context, kernel, operands.as_ptr(), count, scalars.as_ptr(), scalar_count)
        };
        if status == 0 { Ok(()) } else { Err(KernelError::Failed { number: status }) }
    }
}

impl OperandFields {
    fn of(operand: &Operand<'_>) -> Self {
        let view = operand.view();
        let offset = usize::try_from(view.byte_offset()).unwrap_or(0);
        Self {
            // The operand's memory reaches to the view's end.
            data: operand.base().as_ptr().wrapping_add(offset).cast(),
            nbytes: view.extent(),
            view: ViewFields { byte_offset: 0, ..ViewFields::encode(view) },
            access: i32::from(operand.access().to_wire()),
            reserved: 0,
        }
    }
}

/// The number of this library's kernel of that name: none, fill, copy, add, mul, scale, matmul, sum_rows. `accumulate` other than 0 adds the
/// result to what the output holds, which matmul and sum_rows can.
///
/// # Safety
/// `name` points to `name_bytes` bytes that nobody writes during the call, `kernel` to a uint32_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_kernel_number(
    name: *const c_char,
    name_bytes: usize,
    accumulate: i32,
    kernel: *mut u32,
) -> Status {
    answer("kernel_number", || {
        // SAFETY: the caller's promise above.
        let name = unsafe { given_slice(name, name_bytes) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(kernel) }?;
        apart_from(&[out.span()], &[span_of_slice(name)])?;
        let kernel = Kernel::from_name(text(name)?).ok_or(Code::KernelUnknown)?;
        out.set(Call { kernel, accumulate: accumulate != 0 }.number());
        Ok(())
    })
}
