//! The rules of the wire, asked from C.

use core::ffi::c_void;
use core::slice;

use bufabi_core::wire::tensor::RawTensor;
use bufabi_core::{Blob, BlobError, Code, Descriptor, RawDescriptor, Tensor};

use super::argument::{Span, apart};
use super::boundary::{answer, noted};
use super::status::Status;

/// Checks the `len` bytes of a descriptor: exactly 88. Any alignment.
///
/// # Safety
/// `bytes` points to `len` readable bytes that nobody writes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_descriptor_check(bytes: *const c_void, len: usize) -> Status {
    answer("descriptor_check", || {
        Span::check(bytes, len, 1)?;
        if len != RawDescriptor::SIZE {
            return Err(Code::Size);
        }
        // SAFETY: not NULL, aligned for u8, without a wrap and within isize::MAX: checked by Span. Readable and unwritten for
        // the call: the caller's promise above. The slice does not outlive this closure.
        let bytes = unsafe { slice::from_raw_parts(bytes.cast::<u8>(), len) };
        Descriptor::from_bytes(bytes).map(drop).map_err(|error| noted(error.code(), &error))
    })
}

/// Checks the `len` bytes of a tensor: exactly 144. Any alignment.
///
/// # Safety
/// `bytes` points to `len` readable bytes that nobody writes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_tensor_check(bytes: *const c_void, len: usize) -> Status {
    answer("tensor_check", || {
        Span::check(bytes, len, 1)?;
        if len != RawTensor::SIZE {
            return Err(Code::Size);
        }
        // SAFETY: not NULL, aligned for u8, without a wrap and within isize::MAX: checked by Span. Readable and unwritten for
        // the call: the caller's promise above. The slice does not outlive this closure.
        let bytes = unsafe { slice::from_raw_parts(bytes.cast::<u8>(), len) };
        Tensor::from_bytes(bytes).map(drop).map_err(|error| noted(error.code(), &error))
    })
}

/// Checks a blob that starts at `bytes`, of which `readable` bytes are at hand; any alignment, and bytes behind the blob are allowed.
/// On success `*tensors` and `*scalars` are its counts. On a bad tensor, `*tensors` is its index, from 0. Otherwise neither
/// is written.
///
/// # Safety
/// `bytes` points to `readable` readable bytes that nobody writes during the call; `tensors` and `scalars` each to an int32_t
/// that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_blob_check(
    bytes: *const c_void,
    readable: usize,
    tensors: *mut i32,
    scalars: *mut i32,
) -> Status {
    answer("blob_check", || {
        apart(&[Span::check(bytes, readable, 1)?, Span::of(tensors)?, Span::of(scalars)?])?;
        // SAFETY: not NULL, aligned for u8, without a wrap and within isize::MAX: checked by Span. Readable and unwritten for
        // the call: the caller's promise above, and that the two out-parameters lie elsewhere was just checked. The slice
        // does not outlive this closure.
        let bytes = unsafe { slice::from_raw_parts(bytes.cast::<u8>(), readable) };
        match Blob::from_bytes(bytes) {
            Ok(blob) => {
                let count = |count| i32::try_from(count).map_err(|_| Code::PastEnd);
                let (tensor_count, scalar_count) = (count(blob.tensor_count())?, count(blob.scalar_count())?);
                // SAFETY: not NULL and aligned for i32: checked by Span. Writable: the caller's promise above.
                unsafe { tensors.write(tensor_count) };
                // SAFETY: as for the line above.
                unsafe { scalars.write(scalar_count) };
                Ok(())
            }
            Err(error) => {
                if let BlobError::Tensor { index, .. } = error {
                    // A bad tensor's index is below the count, which came from an i32.
                    let index = i32::try_from(index).unwrap_or(i32::MAX);
                    // SAFETY: not NULL and aligned for i32: checked by Span. Writable: the caller's promise above.
                    unsafe { tensors.write(index) };
                }
                Err(noted(error.code(), &error))
            }
        }
    })
}
