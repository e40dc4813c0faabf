//! The records of the wire, made of what they say and taken apart again.

use core::ffi::{c_char, c_void};
use core::num::NonZeroU64;

use bufabi_core::wire::backend::BackendKind;
use bufabi_core::wire::blob::{self, RawBlobHeader};
use bufabi_core::wire::body::{Body, ShmName};
use bufabi_core::wire::descriptor;
use bufabi_core::wire::identity::RawIdentity;
use bufabi_core::{Blob, Code, Descriptor, RawDescriptor, RawTensor, Tensor, View};
use zerocopy::little_endian::I32;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use super::boundary::{answer, noted};
use super::number;
use super::parameter::{Out, OutSlice, apart_from, given, given_slice, span_of, span_of_slice};
use super::status::Status;

/// What a descriptor says. Which of the last five a backend has, and needs: FORK_SHM, FORK_COW, VMM_WINDOW and DEVICE_MALLOC `base`,
/// POSIX_SHM `shm_name`, VMM_SHAREABLE the other three, REMOTE_SIDECAR none of them. The rest is 0.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct DescriptorFields {
    /// The allocation's name; its generation is not 0.
    pub identity: RawIdentity,
    /// Bytes of the backing.
    pub nbytes: u64,
    /// For people reading logs; 0 is none.
    pub owner_worker_path_id: u32,
    /// HOST 0, DEVICE 1. Only REMOTE_SIDECAR has a choice; for the others it follows from the backend, and is not looked at.
    pub address_space: i32,
    /// READ 0, WRITE 1, READWRITE 2.
    pub access: i32,
    /// FORK_SHM 0, POSIX_SHM 1, VMM_WINDOW 2, REMOTE_SIDECAR 3, DEVICE_MALLOC 4, FORK_COW 5, VMM_SHAREABLE 6.
    pub backend_kind: i32,
    /// The backing's address, not 0.
    pub base: u64,
    /// The object's name without a leading slash, 1 to 32 characters from 0x21 to 0x7E but no `/`, and a closing NUL.
    pub shm_name: [c_char; 40],
    /// The exporter's device.
    pub device_id: i32,
    /// 0.
    pub reserved: u32,
    /// The driver's handle, not 0.
    pub shareable_handle: u64,
    /// Bytes to map, at least `nbytes`.
    pub mapping_bytes: u64,
}

/// Where the elements of a tensor lie in its backing.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct ViewFields {
    /// Bytes from the backing's start to the first element.
    pub byte_offset: u64,
    /// The elements' type: 0 to 14.
    pub dtype: i32,
    /// Dimensions, 1 to 5.
    pub ndims: u32,
    /// Elements of each dimension, none 0; 0 past `ndims`.
    pub shapes: [u32; 5],
    /// Elements from one index to the next, none 0; 0 past `ndims`.
    pub strides: [u32; 5],
}

impl DescriptorFields {
    fn decode(&self) -> Result<descriptor::DescriptorFields, Code> {
        let access = number::access(self.access)?;
        let kind = number::backend_kind(self.backend_kind)?;
        let identity = self.identity.decode().ok_or(Code::Generation)?;
        let base = || NonZeroU64::new(self.base).ok_or(Code::BodyNullBase);
        let body = match kind {
            BackendKind::ForkShm => Body::ForkShm { base: base()? },
            BackendKind::PosixShm => Body::PosixShm { name: shm_name(self.shm_name.as_bytes())? },
            BackendKind::VmmWindow => Body::VmmWindow { base: base()? },
            BackendKind::RemoteSidecar => {
                Body::RemoteSidecar { address_space: number::address_space(self.address_space)? }
            }
            BackendKind::DeviceMalloc => Body::DeviceMalloc { base: base()? },
            BackendKind::ForkCow => Body::ForkCow { base: base()? },
            BackendKind::VmmShareable => Body::VmmShareable {
                device_id: self.device_id,
                shareable_handle: NonZeroU64::new(self.shareable_handle).ok_or(Code::BodyShareableHandle)?,
                mapping_bytes: self.mapping_bytes,
            },
        };
        let (nbytes, owner_worker_path_id) = (self.nbytes, self.owner_worker_path_id);
        Ok(descriptor::DescriptorFields { identity, access, nbytes, owner_worker_path_id, body })
    }

    fn encode(fields: &descriptor::DescriptorFields) -> Self {
        let mut encoded = Self::new_zeroed();
        encoded.identity = fields.identity.encode();
        encoded.nbytes = fields.nbytes;
        encoded.owner_worker_path_id = fields.owner_worker_path_id;
        encoded.address_space = i32::from(fields.body.address_space().to_wire());
        encoded.access = i32::from(fields.access.to_wire());
        encoded.backend_kind = i32::from(fields.body.backend_kind().to_wire());
        match fields.body {
            Body::ForkShm { base }
            | Body::VmmWindow { base }
            | Body::DeviceMalloc { base }
            | Body::ForkCow { base } => encoded.base = base.get(),
            Body::PosixShm { name } => {
                for (slot, byte) in encoded.shm_name.as_mut_bytes().iter_mut().zip(name.as_str().bytes()) {
                    *slot = byte;
                }
            }
            Body::RemoteSidecar { .. } => {}
            Body::VmmShareable { device_id, shareable_handle, mapping_bytes } => {
                encoded.device_id = device_id;
                encoded.shareable_handle = shareable_handle.get();
                encoded.mapping_bytes = mapping_bytes;
            }
        }
        encoded
    }
}

/// A name up to its NUL.
fn shm_name(bytes: &[u8]) -> Result<ShmName, Code> {
    let name = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    if name.is_empty() {
        return Err(Code::BodyShmNameEmpty);
    }
    if name.len() > 32 {
        return Err(Code::BodyLen);
    }
    str::from_utf8(name).ok().and_then(ShmName::new).ok_or(Code::BodyShmNameChar)
}

impl ViewFields {
    /// The view, if it is legal and ends within `nbytes`.
    pub(super) fn decode(&self, nbytes: u64) -> Result<View, Code> {
        let Self { byte_offset, ndims, shapes, strides, .. } = *self;
        // The rank comes first among the rules of the wire.
        if !(1..=5).contains(&ndims) {
            return Err(Code::Ndims);
        }
        let dtype = number::dtype(self.dtype)?;
        View::from_slots(byte_offset, ndims, dtype, shapes, strides, nbytes)
            .map_err(|error| noted(error.code(), &error))
    }

    pub(super) fn encode(view: &View) -> Self {
        Self {
            byte_offset: view.byte_offset(),
            dtype: i32::from(view.dtype().to_wire()),
            ndims: u32::from(view.ndims()),
            shapes: *view.shape_slots(),
            strides: *view.stride_slots(),
        }
    }
}

/// The tensor of a record that C gives, checked where it lies.
pub(super) fn tensor(raw: &RawTensor) -> Result<Tensor<&RawTensor>, Code> {
    Tensor::from_raw(raw).map_err(|error| noted(error.code(), &error))
}

/// Whether two identities name one allocation; their padding takes no part. `*equal` is 0 or 1.
///
/// # Safety
/// `first` and `second` each point to an identity that nobody writes during the call, `equal` to an int32_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_identity_equal(
    first: *const RawIdentity,
    second: *const RawIdentity,
    equal: *mut i32,
) -> Status {
    answer("identity_equal", || {
        // SAFETY: the caller's promise above.
        let first = unsafe { given(first) }?;
        // SAFETY: the caller's promise above.
        let second = unsafe { given(second) }?;
        // SAFETY: the caller's promise above.
        let equal = unsafe { Out::new(equal) }?;
        apart_from(&[equal.span()], &[span_of(first), span_of(second)])?;
        let decode = |identity: &RawIdentity| identity.decode().ok_or(Code::Generation);
        equal.set(i32::from(decode(first)? == decode(second)?));
        Ok(())
    })
}

/// Bytes of an element of that type: 1, 2, 4 or 8.
///
/// # Safety
/// `nbytes` points to a uint32_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_dtype_size(dtype: i32, nbytes: *mut u32) -> Status {
    answer("dtype_size", || {
        // SAFETY: the caller's promise above.
        let nbytes = unsafe { Out::new(nbytes) }?;
        nbytes.set(number::dtype(dtype)?.size());
        Ok(())
    })
}

/// Writes the descriptor that says this, padding and tail zero; only if it breaks no rule.
///
/// # Safety
/// `fields` points to fields that nobody writes during the call, `descriptor` to a descriptor that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_descriptor_encode(
    fields: *const DescriptorFields,
    descriptor: *mut RawDescriptor,
) -> Status {
    answer("descriptor_encode", || {
        // SAFETY: the caller's promise above.
        let fields = unsafe { given(fields) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(descriptor) }?;
        apart_from(&[out.span()], &[span_of(fields)])?;
        let descriptor = Descriptor::new(&fields.decode()?).map_err(|error| noted(error.code(), &error))?;
        out.set(*descriptor.raw());
        Ok(())
    })
}

/// Checks the `len` bytes of a descriptor, as `bufabi_descriptor_check` does, and writes what it says. What its backend does not
/// have is 0.
///
/// # Safety
/// `bytes` points to `len` readable bytes that nobody writes during the call, `fields` to fields that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_descriptor_decode(
    bytes: *const c_void,
    len: usize,
    fields: *mut DescriptorFields,
) -> Status {
    answer("descriptor_decode", || {
        // SAFETY: the caller's promise above.
        let bytes = unsafe { record(bytes, len) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(fields) }?;
        apart_from(&[out.span()], &[span_of_slice(bytes)])?;
        let descriptor = Descriptor::decode(bytes).map_err(|error| noted(error.code(), &error))?;
        out.set(DescriptorFields::encode(&descriptor.fields()));
        Ok(())
    })
}

/// Makes a dense row-major view of `ndims` dimensions, 1 to 5; it may lie anywhere in a backing of any size.
///
/// # Safety
/// `shapes` points to `ndims` numbers that nobody writes during the call, `view` to a view that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_view_row_major(
    byte_offset: u64,
    dtype: i32,
    shapes: *const u32,
    ndims: u32,
    view: *mut ViewFields,
) -> Status {
    answer("view_row_major", || {
        if !(1..=5).contains(&ndims) {
            return Err(Code::Ndims);
        }
        // SAFETY: the caller's promise above.
        let shapes = unsafe { given_slice(shapes, usize::try_from(ndims).unwrap_or(0)) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(view) }?;
        apart_from(&[out.span()], &[span_of_slice(shapes)])?;
        let view = View::row_major(byte_offset, number::dtype(dtype)?, shapes, u64::MAX);
        out.set(ViewFields::encode(&view.map_err(|error| noted(error.code(), &error))?));
        Ok(())
    })
}

/// Writes the tensor of a backing and a view of it, padding zero; only if neither breaks a rule.
///
/// # Safety
/// `descriptor` and `view` point to a descriptor and a view that nobody writes during the call, `tensor` to a tensor that may be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_tensor_encode(
    descriptor: *const RawDescriptor,
    view: *const ViewFields,
    tensor: *mut RawTensor,
) -> Status {
    answer("tensor_encode", || {
        // SAFETY: the caller's promise above.
        let descriptor = unsafe { given(descriptor) }?;
        // SAFETY: the caller's promise above.
        let view = unsafe { given(view) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(tensor) }?;
        apart_from(&[out.span()], &[span_of(descriptor), span_of(view)])?;
        let descriptor = Descriptor::from_raw(descriptor).map_err(|error| noted(error.code(), &error))?;
        let view = view.decode(descriptor.nbytes())?;
        let tensor = Tensor::new(&descriptor, &view).map_err(|error| noted(error.code(), &error))?;
        out.set(*tensor.raw());
        Ok(())
    })
}

/// Checks the `len` bytes of a tensor, as `bufabi_tensor_check` does, and writes its backing, padding zero, and its view.
///
/// # Safety
/// `bytes` points to `len` readable bytes that nobody writes during the call, `descriptor` and `view` to a descriptor and a view that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_tensor_decode(
    bytes: *const c_void,
    len: usize,
    descriptor: *mut RawDescriptor,
    view: *mut ViewFields,
) -> Status {
    answer("tensor_decode", || {
        // SAFETY: the caller's promise above.
        let bytes = unsafe { record(bytes, len) }?;
        // SAFETY: the caller's promise above.
        let descriptor = unsafe { Out::new(descriptor) }?;
        // SAFETY: the caller's promise above.
        let view = unsafe { Out::new(view) }?;
        apart_from(&[descriptor.span(), view.span()], &[span_of_slice(bytes)])?;
        let tensor = Tensor::decode(bytes).map_err(|error| noted(error.code(), &error))?;
        descriptor.set(*tensor.descriptor().raw());
        view.set(ViewFields::encode(&tensor.view()));
        Ok(())
    })
}

/// Bytes of a blob with so many tensors and scalars.
///
/// # Safety
/// `nbytes` points to a size_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_blob_size(tensors: usize, scalars: usize, nbytes: *mut usize) -> Status {
    answer("blob_size", || {
        // SAFETY: the caller's promise above.
        let nbytes = unsafe { Out::new(nbytes) }?;
        nbytes.set(blob::encoded_size(tensors, scalars).ok_or(Code::TooManyArguments)?);
        Ok(())
    })
}

/// Writes the blob of these tensors and scalars to the `capacity` bytes at `blob`, any alignment, and its size to `*nbytes`. Each tensor
/// is checked, and written with its padding zero. On a status other than 0 nothing was written.
///
/// # Safety
/// `tensors` and `scalars` point to as many as said, which nobody writes during the call; `blob` to `capacity` bytes and `nbytes` to a
/// size_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_blob_encode(
    tensors: *const RawTensor,
    tensor_count: usize,
    scalars: *const u64,
    scalar_count: usize,
    blob: *mut c_void,
    capacity: usize,
    nbytes: *mut usize,
) -> Status {
    answer("blob_encode", || {
        // SAFETY: the caller's promise above.
        let raw = unsafe { given_slice(tensors, tensor_count) }?;
        // SAFETY: the caller's promise above.
        let scalars = unsafe { given_slice(scalars, scalar_count) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { OutSlice::new(blob.cast::<u8>(), capacity) }?;
        // SAFETY: the caller's promise above.
        let nbytes = unsafe { Out::new(nbytes) }?;
        apart_from(&[out.span(), nbytes.span()], &[span_of_slice(raw), span_of_slice(scalars)])?;
        let size = blob::encoded_size(raw.len(), scalars.len()).ok_or(Code::TooManyArguments)?;
        if size > out.len() {
            return Err(Code::BufferTooSmall);
        }
        for raw in raw {
            tensor(raw)?;
        }
        // Both counts fit: their blob's size is a number.
        let count = |count: usize| I32::new(i32::try_from(count).unwrap_or(i32::MAX));
        let header = RawBlobHeader { tensor_count: count(raw.len()), scalar_count: count(scalars.len()) };
        let mut at = 0_usize;
        let mut write = |bytes: &[u8]| {
            out.set_from(at, bytes);
            at = at.saturating_add(bytes.len());
        };
        write(header.as_bytes());
        for raw in raw {
            // Its padding is written as zero, whatever it came with.
            write(tensor(raw)?.to_owned().raw().as_bytes());
        }
        for scalar in scalars {
            write(&scalar.to_le_bytes());
        }
        nbytes.set(size);
        Ok(())
    })
}

/// Checks a blob as `bufabi_blob_check` does, and copies its tensors and scalars out. The counts are written whenever they are known, so
/// also when there is not room for all; then nothing else is written.
///
/// # Safety
/// `bytes` points to `readable` readable bytes that nobody writes during the call; `tensors` and `scalars` to as many as their
/// capacities say that may be written, `tensor_count` and `scalar_count` each to a size_t that may be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_blob_decode(
    bytes: *const c_void,
    readable: usize,
    tensors: *mut RawTensor,
    tensor_capacity: usize,
    scalars: *mut u64,
    scalar_capacity: usize,
    tensor_count: *mut usize,
    scalar_count: *mut usize,
) -> Status {
    answer("blob_decode", || {
        // SAFETY: the caller's promise above.
        let bytes = unsafe { record(bytes, readable) }?;
        // SAFETY: the caller's promise above.
        let tensors = unsafe { OutSlice::new(tensors, tensor_capacity) }?;
        // SAFETY: the caller's promise above.
        let scalars = unsafe { OutSlice::new(scalars, scalar_capacity) }?;
        // SAFETY: the caller's promise above.
        let tensor_count = unsafe { Out::new(tensor_count) }?;
        // SAFETY: the caller's promise above.
        let scalar_count = unsafe { Out::new(scalar_count) }?;
        let written = [tensors.span(), scalars.span(), tensor_count.span(), scalar_count.span()];
        apart_from(&written, &[span_of_slice(bytes)])?;
        let blob = Blob::from_bytes(bytes).map_err(|error| noted(error.code(), &error))?;
        tensor_count.set(blob.tensor_count());
        scalar_count.set(blob.scalar_count());
        if blob.tensor_count() > tensors.len() || blob.scalar_count() > scalars.len() {
            return Err(Code::BufferTooSmall);
        }
        tensors.fill(blob.tensors().map(|tensor| *tensor.to_owned().raw()));
        scalars.fill(blob.scalars());
        Ok(())
    })
}

/// The bytes of a record, which are one at least: NULL is refused whatever the length.
///
/// # Safety
/// As for [`given_slice`].
unsafe fn record<'a>(bytes: *const c_void, len: usize) -> Result<&'a [u8], Code> {
    if bytes.is_null() {
        return Err(Code::NullPointer);
    }
    // SAFETY: the caller's promise.
    unsafe { given_slice(bytes.cast::<u8>(), len) }
}
