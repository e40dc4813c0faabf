//! Buffers, in the hands of the endpoint that made or wrapped them.

use core::num::NonZeroU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bufabi_core::{Access, Code, Descriptor, RawDescriptor, RawTensor, Tensor, View};
use zerocopy::{FromBytes, Immutable};

use super::boundary::{answer, noted};
use super::endpoint::{ENDPOINTS, EndpointHandle};
use super::handle::{Kind, Table};
use super::mapping::{MappingHandle, insert};
use super::number;
use super::parameter::{Out, apart_from, given, span_of};
use super::record::ViewFields;
use super::status::Status;
use super::vmm::{VMMS, VmmHandle, admission};
use crate::owner::{Buffer, Endpoint, OwnError, ReleaseError, WrapError, Wrapped};
use crate::sys::event;
use crate::vmm::Shareable;

/// A buffer that an endpoint of this process made or wraps. 0 is none.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct BufferHandle {
    /// Nothing to be read into.
    pub token: u64,
}

/// What stands behind a handle.
#[derive(Debug)]
pub(super) enum Named {
    /// The endpoint's own.
    Made(Buffer),
    /// Somebody else's.
    Wrapped(Wrapped),
}

#[derive(Debug)]
struct Owned {
    endpoint: Endpoint,
    named: Mutex<Named>,
}

static TABLE: Table<Owned> = Table::new(Kind::Buffer);

impl Owned {
    fn named(&self) -> MutexGuard<'_, Named> {
        // Every step on a buffer is whole, so a panic elsewhere leaves it as it should be.
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Named {
    fn descriptor(&self) -> Result<Descriptor, OwnError> {
        match self {
            Self::Made(buffer) => buffer.descriptor(),
            Self::Wrapped(wrapped) => wrapped.descriptor(),
        }
    }

    fn nbytes(&self) -> u64 {
        match self {
            Self::Made(buffer) => buffer.nbytes(),
            Self::Wrapped(wrapped) => wrapped.nbytes(),
        }
    }

    fn tensor(&self, view: &View) -> Result<Tensor, OwnError> {
        match self {
            Self::Made(buffer) => buffer.tensor(view),
            Self::Wrapped(wrapped) => wrapped.tensor(view),
        }
    }

    fn release(&mut self) -> Result<(), ReleaseError> {
        match self {
            Self::Made(buffer) => buffer.release(),
            Self::Wrapped(wrapped) => wrapped.release(),
        }
    }

    fn release_when_idle(&mut self, until: Instant) -> Result<(), ReleaseError> {
        match self {
            Self::Made(buffer) => buffer.release_when_idle(until),
            Self::Wrapped(wrapped) => wrapped.release_when_idle(until),
        }
    }
}

/// Enters a buffer of that endpoint.
pub(super) fn enter(endpoint: &Endpoint, named: Named) -> Result<BufferHandle, Code> {
    let owned = Owned { endpoint: endpoint.clone(), named: Mutex::new(named) };
    Ok(BufferHandle { token: TABLE.insert(owned)? })
}

/// Makes a buffer of `nbytes` bytes, zero, in POSIX shared memory, that grants `access` to its consumers: READ 0, WRITE 1, READWRITE 2.
///
/// # Safety
/// `buffer` points to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_buffer_create(
    endpoint: EndpointHandle,
    nbytes: u64,
    access: i32,
    buffer: *mut BufferHandle,
) -> Status {
    answer("buffer_create", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(buffer) }?;
        let (endpoint, access) = (ENDPOINTS.get(endpoint.token)?, number::access(access)?);
        let buffer = endpoint.create_buffer(nbytes, access).map_err(|error| noted(error.code(), &error))?;
        out.set(enter(&endpoint, Named::Made(buffer))?);
        Ok(())
    })
}

/// Makes a buffer of shared device memory: `nbytes` bytes, zero, that grants `access` to whoever imports it. `vmm` is this endpoint's.
/// `admission` is one of `BUFABI_ADMISSION_...`.
///
/// # Safety
/// `buffer` points to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_buffer_create_shareable(
    endpoint: EndpointHandle,
    vmm: VmmHandle,
    nbytes: u64,
    access: i32,
    admission: i32,
    buffer: *mut BufferHandle,
) -> Status {
    answer("buffer_create_shareable", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(buffer) }?;
        let (endpoint, vmm) = (ENDPOINTS.get(endpoint.token)?, VMMS.get(vmm.token)?);
        let (access, admission) = (number::access(access)?, self::admission(admission)?);
        let buffer = endpoint.create_shareable(vmm.driver(), nbytes, access, admission);
        let buffer = buffer.map_err(|error| noted(error.code(), &error))?;
        out.set(enter(&endpoint, Named::Made(buffer))?);
        Ok(())
    })
}

/// Names device memory that somebody else allocated and exports, by the identity that it has there. Releasing it frees nothing.
///
/// # Safety
/// `descriptor` points to a descriptor that nobody writes during the call, `buffer` to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_buffer_wrap_vmm_shareable(
    endpoint: EndpointHandle,
    descriptor: *const RawDescriptor,
    buffer: *mut BufferHandle,
) -> Status {
    answer("buffer_wrap_vmm_shareable", || {
        // SAFETY: the caller's promise above.
        let descriptor = unsafe { given(descriptor) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(buffer) }?;
        apart_from(&[out.span()], &[span_of(descriptor)])?;
        let endpoint = ENDPOINTS.get(endpoint.token)?;
        let descriptor = Descriptor::from_raw(descriptor).map_err(|error| noted(error.code(), &error))?;
        let shareable =
            Shareable::from_descriptor(&descriptor).map_err(|error| noted(error.code(), &error))?;
        let wrapped = endpoint.wrap_vmm_shareable(&shareable, descriptor.owner_worker_path_id());
        let wrapped = wrapped.map_err(|error| noted(error.code(), &error))?;
        out.set(enter(&endpoint, Named::Wrapped(wrapped))?);
        Ok(())
    })
}

/// Names memory that somebody else allocated on this endpoint's chip, by its device address, which is not 0. Releasing it frees nothing.
///
/// # Safety
/// `buffer` points to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_buffer_wrap_device_malloc(
    endpoint: EndpointHandle,
    base: u64,
    nbytes: u64,
    access: i32,
    buffer: *mut BufferHandle,
) -> Status {
    answer("buffer_wrap_device_malloc", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(buffer) }?;
        out.set(wrap_addresses(endpoint, base, nbytes, access, Endpoint::wrap_device_malloc)?);
        Ok(())
    })
}

/// Names a part of a communication domain's window on this endpoint's chip, by its device address, which is not 0. Releasing it frees
/// nothing.
///
/// # Safety
/// `buffer` points to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_buffer_wrap_vmm_window(
    endpoint: EndpointHandle,
    base: u64,
    nbytes: u64,
    access: i32,
    buffer: *mut BufferHandle,
) -> Status {
    answer("buffer_wrap_vmm_window", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(buffer) }?;
        out.set(wrap_addresses(endpoint, base, nbytes, access, Endpoint::wrap_vmm_window)?);
        Ok(())
    })
}

fn wrap_addresses(
    endpoint: EndpointHandle,
    base: u64,
    nbytes: u64,
    access: i32,
    wrap: fn(&Endpoint, NonZeroU64, u64, Access) -> Result<Wrapped, WrapError>,
) -> Result<BufferHandle, Code> {
    let endpoint = ENDPOINTS.get(endpoint.token)?;
    let base = NonZeroU64::new(base).ok_or(Code::BodyNullBase)?;
    let wrapped = wrap(&endpoint, base, nbytes, number::access(access)?);
    enter(&endpoint, Named::Wrapped(wrapped.map_err(|error| noted(error.code(), &error))?))
}

/// What a consumer needs to reach it. None comes from a buffer whose release has begun.
///
/// # Safety
/// `descriptor` points to a descriptor that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_buffer_descriptor(
    buffer: BufferHandle,
    descriptor: *mut RawDescriptor,
) -> Status {
    answer("buffer_descriptor", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(descriptor) }?;
        let owned = TABLE.get(buffer.token)?;
        let descriptor = owned.named().descriptor();
        out.set(*descriptor.map_err(|error| noted(error.code(), &error))?.raw());
        Ok(())
    })
}

/// A view of it, as a task's argument. None comes from a buffer whose release has begun.
///
/// # Safety
/// `view` points to a view that nobody writes during the call, `tensor` to a tensor that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_buffer_tensor(
    buffer: BufferHandle,
    view: *const ViewFields,
    tensor: *mut RawTensor,
) -> Status {
    answer("buffer_tensor", || {
        // SAFETY: the caller's promise above.
        let view = unsafe { given(view) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(tensor) }?;
        apart_from(&[out.span()], &[span_of(view)])?;
        let owned = TABLE.get(buffer.token)?;
        let named = owned.named();
        let tensor = named.tensor(&view.decode(named.nbytes())?);
        out.set(*tensor.map_err(|error| noted(error.code(), &error))?.raw());
        Ok(())
    })
}

/// The owner's own mapping, for loads and stores whatever is granted to others. While the mapping is there the buffer is not
/// released.
///
/// # Safety
/// `mapping` points to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_buffer_map(buffer: BufferHandle, mapping: *mut MappingHandle) -> Status {
    answer("buffer_map", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(mapping) }?;
        let owned = TABLE.get(buffer.token)?;
        let descriptor = owned.named().descriptor().map_err(|error| noted(error.code(), &error))?;
        let mapping = owned.endpoint.own_mapping(&descriptor);
        let mapping = mapping.map_err(|error| noted(error.code(), &error))?;
        let access = mapping.access();
        out.set(insert(mapping, access)?);
        Ok(())
    })
}

/// Releases it: the handle is none from now on. While tasks, views or mappings hold it, it is refused and nothing has changed; when
/// the operating system refuses a part, the rest is done, the handle stays, and it can be called again.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_buffer_release(buffer: BufferHandle) -> Status {
    answer("buffer_release", || release(buffer, Named::release))
}

/// As `bufabi_buffer_release`, but waits up to so long for the tasks that hold it; some other thread has to see to it that they finish.
/// Nothing new comes from it from now on.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_buffer_release_when_idle(buffer: BufferHandle, nanoseconds: u64) -> Status {
    answer("buffer_release_when_idle", || {
        let until = deadline(nanoseconds);
        release(buffer, |named| named.release_when_idle(until))
    })
}

/// Lets go of it in any case: the handle is none from now on, and what can be released is, now or when the last task that holds it is
/// done. Mappings stay as long as they are held.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_buffer_abandon(buffer: BufferHandle) -> Status {
    answer("buffer_abandon", || TABLE.remove(buffer.token).map(drop))
}

fn release(
    buffer: BufferHandle,
    release: impl FnOnce(&mut Named) -> Result<(), ReleaseError>,
) -> Result<(), Code> {
    let owned = TABLE.get(buffer.token)?;
    // Who comes second finds the handle gone, or the buffer released.
    release(&mut owned.named()).map_err(|error| noted(error.code(), &error))?;
    TABLE.remove(buffer.token).map(drop)
}

/// The moment so long from now.
pub(super) fn deadline(nanoseconds: u64) -> Instant {
    event::deadline(Duration::from_nanos(nanoseconds))
}
