//! What a chip reads, made for C from what came over the wire.

use core::ffi::c_void;
use core::slice;

use bufabi_core::wire::chip_args::MaterializeError;
use bufabi_core::wire::tensor::RawTensor;
use bufabi_core::{Blob, BlobError, ChipStorageTaskArgs, ChipTensor, Code, Tensor};

use super::argument::{Span, apart};
use super::boundary::{answer, answer_of, noted};
use super::status::Status;

/// Makes a chip's tensor of the `len` bytes of a tensor, exactly 144 at any alignment, and the address at which its backing was
/// resolved. It is written to the 128 bytes at `chip_tensor_128`, aligned to 64, and only on success.
///
/// # Safety
/// `tensor` points to `len` readable bytes that nobody writes during the call; `chip_tensor_128` to 128 bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_chip_tensor_from(
    tensor: *const c_void,
    len: usize,
    base: u64,
    chip_tensor_128: *mut c_void,
) -> Status {
    let out = chip_tensor_128.cast::<ChipTensor>();
    answer("chip_tensor_from", || {
        apart(&[Span::check(tensor, len, 1)?, Span::of(out)?])?;
        if len != RawTensor::SIZE {
            return Err(Code::Size);
        }
        // SAFETY: not NULL, aligned for u8, without a wrap and within isize::MAX: checked by Span. Readable and unwritten for
        // the call: the caller's promise above, and that the result lies elsewhere was just checked. The slice does
        // not outlive this closure.
        let bytes = unsafe { slice::from_raw_parts(tensor.cast::<u8>(), len) };
        let tensor = Tensor::from_bytes(bytes).map_err(|error| noted(error.code(), &error))?;
        let mut chip_tensor = ChipTensor::ZERO;
        chip_tensor.materialize_into(&tensor, base).map_err(|error| noted(error.code(), &error))?;
        // SAFETY: not NULL and aligned to 64: checked by Span. Writable: the caller's promise above.
        unsafe { out.write(chip_tensor) };
        Ok(())
    })
}

/// Finds the address of a tensor's backing and writes it to `*base`. `tensor` is 144 checked bytes at any alignment, alive for
/// the call; `context` is what the caller of `bufabi_blob_materialize` gave. Any status but 0 ends that call, which answers with it.
///
/// It writes neither the blob nor the task's arguments, and returns: it neither unwinds nor jumps out.
pub type Resolve =
    Option<unsafe extern "C" fn(context: *mut c_void, tensor: *const c_void, base: *mut u64) -> Status>;

/// Checks the blob that starts at `bytes`, of which `readable` bytes are at hand, as `bufabi_blob_check` does, has `resolve` find the
/// address of each tensor's backing, once and in order, and fills the 33,856 bytes at `task_args`, aligned to 64.
///
/// Nothing is written and nothing resolved unless the whole blob is legal. When `resolve` or the address it gave stops the
/// work, the counts in `task_args` are 0. `*tensor_index` is written when one tensor was at fault: its index, from 0.
///
/// # Safety
/// `bytes` points to `readable` readable bytes that nobody writes during the call; `task_args` to 33,856 bytes that may be
/// written and have been written before (a static object has); `tensor_index` to an int32_t that may be written; `resolve` to
/// a function that keeps to what its type says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_blob_materialize(
    bytes: *const c_void,
    readable: usize,
    resolve: Resolve,
    context: *mut c_void,
    task_args: *mut c_void,
    tensor_index: *mut i32,
) -> Status {
    let out = task_args.cast::<ChipStorageTaskArgs>();
    answer_of("blob_materialize", || {
        apart(&[Span::check(bytes, readable, 1)?, Span::of(out)?, Span::of(tensor_index)?])?;
        let resolve = resolve.ok_or(Code::NullPointer)?;
        // SAFETY: not NULL, aligned for u8, without a wrap and within isize::MAX: checked by Span. Readable and unwritten for
        // the call: the caller's promise above, and that both results lie elsewhere was just checked. The slice does
        // not outlive this closure.
        let bytes = unsafe { slice::from_raw_parts(bytes.cast::<u8>(), readable) };
        let set_index = |index: usize| {
            let index = i32::try_from(index).unwrap_or(i32::MAX);
            // SAFETY: not NULL and aligned for i32: checked by Span. Writable: the caller's promise above.
            unsafe { tensor_index.write(index) };
        };
        let blob = Blob::from_bytes(bytes).map_err(|error| {
            if let BlobError::Tensor { index, .. } = error {
                set_index(usize::try_from(index).unwrap_or(usize::MAX));
            }
            noted(error.code(), &error)
        })?;
        // SAFETY: not NULL and aligned to 64: checked by Span. Written before and writable, by nobody else during the call: the
        // caller's promise above; any bytes are a value of it. It does not outlive this closure.
        let task_args = unsafe { &mut *out };
        let base_of = |_: usize, tensor: &Tensor<&RawTensor>| {
            let mut base = 0_u64;
            let tensor: *const RawTensor = tensor.raw();
            // SAFETY: the caller's promise above for `resolve`, which gets its own context, the address of a checked tensor
            // inside the blob, and that of a local u64.
            let status = unsafe { resolve(context, tensor.cast(), &raw mut base) };
            if status == 0 { Ok(base) } else { Err(status) }
        };
        match task_args.materialize(&blob, base_of) {
            Ok(()) => Ok(0),
            Err(MaterializeError::Resolve { index, error }) => {
                set_index(index);
                Ok(error)
            }
            Err(MaterializeError::Chip { index, error }) => {
                set_index(index);
                Err(noted(error.code(), &error))
            }
            Err(MaterializeError::TooMany(error)) => Err(noted(error.code(), &error)),
        }
    })
}
