//! Memory that workers inherit over their fork: a heap of slabs, and regions of which an endpoint names parts.

use core::ffi::c_void;
use core::ptr::NonNull;
use std::sync::Arc;

use bufabi_core::{Access, Code, OwnerInstanceId};
use zerocopy::{FromBytes, Immutable};

use super::argument::Span;
use super::boundary::{answer, noted};
use super::buffer::{BufferHandle, Named, enter};
use super::endpoint::{ENDPOINTS, EndpointHandle};
use super::handle::{Kind, Table};
use super::mapping::{MappingHandle, insert};
use super::number;
use super::parameter::{Out, apart_from, given, span_of};
use super::record::ViewFields;
use super::status::Status;
use crate::heap::ForkHeap;
use crate::memory::{InheritedRegion, Mapping, Sharing};
use crate::owner::Endpoint;

/// Forks and this process see each other's stores.
pub const SHARING_SHARED: i32 = 0;
/// A fork has the bytes as they were then, and keeps its stores to itself.
pub const SHARING_COPIED: i32 = 1;

/// A heap that workers inherit. 0 is none.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct HeapHandle {
    /// Nothing to be read into.
    pub token: u64,
}

/// Memory that workers inherit. 0 is none.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct InheritedHandle {
    /// Nothing to be read into.
    pub token: u64,
}

#[derive(Debug)]
struct Heap {
    endpoint: Endpoint,
    heap: ForkHeap,
}

static HEAPS: Table<Heap> = Table::new(Kind::Heap);
static REGIONS: Table<InheritedRegion> = Table::new(Kind::Inherited);

/// Maps a heap of `nbytes` bytes, zero, that workers started from now on have at the same address. Memory is taken as it is touched.
///
/// # Safety
/// `heap` points to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_heap_create(
    endpoint: EndpointHandle,
    nbytes: u64,
    heap: *mut HeapHandle,
) -> Status {
    answer("heap_create", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(heap) }?;
        let endpoint = ENDPOINTS.get(endpoint.token)?.as_ref().clone();
        let heap = ForkHeap::new(&endpoint, nbytes).map_err(|error| noted(error.code(), &error))?;
        out.set(HeapHandle { token: HEAPS.insert(Heap { endpoint, heap })? });
        Ok(())
    })
}

/// A slab of the heap, aligned to 1,024 bytes, that grants `access` to its consumers. It has the bytes that were there before.
///
/// # Safety
/// `buffer` points to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_heap_create_buffer(
    heap: HeapHandle,
    nbytes: u64,
    access: i32,
    buffer: *mut BufferHandle,
) -> Status {
    answer("heap_create_buffer", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(buffer) }?;
        let Heap { endpoint, heap } = &*HEAPS.get(heap.token)?;
        let buffer = heap.create_buffer(nbytes, number::access(access)?);
        let buffer = buffer.map_err(|error| noted(error.code(), &error))?;
        out.set(enter(endpoint, Named::Made(buffer))?);
        Ok(())
    })
}

/// A slab for a dense tensor of the shape of `view`, for reading and writing; offset and strides are not looked at.
///
/// # Safety
/// `view` points to a view that nobody writes during the call, `buffer` to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_heap_alloc_shared(
    heap: HeapHandle,
    view: *const ViewFields,
    buffer: *mut BufferHandle,
) -> Status {
    answer("heap_alloc_shared", || {
        // SAFETY: the caller's promise above.
        let view = unsafe { given(view) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(buffer) }?;
        apart_from(&[out.span()], &[span_of(view)])?;
        let Heap { endpoint, heap } = &*HEAPS.get(heap.token)?;
        let ndims = usize::try_from(view.ndims).unwrap_or(usize::MAX);
        let shapes = view.shapes.get(..ndims).ok_or(Code::Ndims)?;
        let buffer = heap.alloc_shared(shapes, number::dtype(view.dtype)?);
        let buffer = buffer.map_err(|error| noted(error.code(), &error))?;
        out.set(enter(endpoint, Named::Made(buffer))?);
        Ok(())
    })
}

/// Slabs that are not free, and the bytes of the longest one that could be had now.
///
/// # Safety
/// `live` points to a size_t and `largest` to a uint64_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_heap_count(heap: HeapHandle, live: *mut usize, largest: *mut u64) -> Status {
    answer("heap_count", || {
        // SAFETY: the caller's promise above.
        let live = unsafe { Out::new(live) }?;
        // SAFETY: the caller's promise above.
        let largest = unsafe { Out::new(largest) }?;
        apart_from(&[live.span(), largest.span()], &[])?;
        let heap = HEAPS.get(heap.token)?;
        live.set(heap.heap.live());
        largest.set(heap.heap.largest_free());
        Ok(())
    })
}

/// Releases the handle. The heap is unmapped when its slabs are gone too.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_heap_release(heap: HeapHandle) -> Status {
    answer("heap_release", || HEAPS.remove(heap.token).map(drop))
}

fn sharing(number: i32) -> Result<Sharing, Code> {
    match number {
        SHARING_SHARED => Ok(Sharing::Shared),
        SHARING_COPIED => Ok(Sharing::Copied),
        _ => Err(Code::OptionUnknown),
    }
}

fn owner(endpoint: EndpointHandle) -> Result<OwnerInstanceId, Code> {
    Ok(ENDPOINTS.get(endpoint.token)?.owner_instance_id())
}

/// Maps `nbytes` bytes, zero, that workers started from now on inherit. `sharing` is one of `BUFABI_SHARING_...`.
///
/// # Safety
/// `inherited` points to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_inherited_create(
    endpoint: EndpointHandle,
    nbytes: u64,
    sharing: i32,
    inherited: *mut InheritedHandle,
) -> Status {
    answer("inherited_create", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(inherited) }?;
        let (owner, sharing) = (owner(endpoint)?, self::sharing(sharing)?);
        if nbytes == 0 {
            return Err(Code::NbytesZero);
        }
        let nbytes = usize::try_from(nbytes).ok().filter(|&nbytes| isize::try_from(nbytes).is_ok());
        let nbytes = nbytes.ok_or(Code::NbytesTooLarge)?;
        let region = InheritedRegion::new(owner, nbytes, sharing);
        let region = region.map_err(|error| noted(error.code(), &error))?;
        out.set(InheritedHandle { token: REGIONS.insert(region)? });
        Ok(())
    })
}

/// The same of memory that is there already: `sharing` says how forks have it, which for memory of malloc is `BUFABI_SHARING_COPIED`.
///
/// # Safety
/// `memory` points to `nbytes` bytes that may be read and written, from now until the handle and every buffer that names a part of them
/// are released. `inherited` points to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_inherited_from(
    endpoint: EndpointHandle,
    memory: *mut c_void,
    nbytes: usize,
    sharing: i32,
    inherited: *mut InheritedHandle,
) -> Status {
    answer("inherited_from", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(inherited) }?;
        if nbytes == 0 {
            return Err(Code::NbytesZero);
        }
        let span = Span::check(memory, nbytes, 1)?;
        apart_from(&[out.span()], &[Some(span)])?;
        let (owner, sharing) = (owner(endpoint)?, self::sharing(sharing)?);
        let base = NonNull::new(memory.cast::<u8>()).ok_or(Code::NullPointer)?;
        // SAFETY: the caller's promise above, for as long as anything names it; C's memory is nothing that Rust refers to.
        let memory = unsafe { Mapping::of_memory(base, nbytes, Access::ReadWrite, Box::new(())) };
        let region = InheritedRegion::of_memory(owner, memory, sharing);
        out.set(InheritedHandle { token: REGIONS.insert(region)? });
        Ok(())
    })
}

/// The memory, for loads and stores.
///
/// # Safety
/// `mapping` points to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_inherited_map(
    inherited: InheritedHandle,
    mapping: *mut MappingHandle,
) -> Status {
    answer("inherited_map", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(mapping) }?;
        let memory = Arc::clone(REGIONS.get(inherited.token)?.shared_memory());
        let access = memory.access();
        out.set(insert(memory, access)?);
        Ok(())
    })
}

/// Names `nbytes` bytes from `offset` on of it as a buffer of its endpoint: FORK_SHM when it is shared; FORK_COW, which grants READ alone,
/// when forks have copies. Releasing the buffer frees nothing.
///
/// # Safety
/// `buffer` points to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_buffer_wrap_fork_inherited(
    endpoint: EndpointHandle,
    inherited: InheritedHandle,
    offset: u64,
    nbytes: u64,
    access: i32,
    buffer: *mut BufferHandle,
) -> Status {
    answer("buffer_wrap_fork_inherited", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(buffer) }?;
        let (endpoint, region) = (ENDPOINTS.get(endpoint.token)?, REGIONS.get(inherited.token)?);
        let wrapped = endpoint.wrap_fork_inherited(&region, offset, nbytes, number::access(access)?);
        let wrapped = wrapped.map_err(|error| noted(error.code(), &error))?;
        out.set(enter(&endpoint, Named::Wrapped(wrapped))?);
        Ok(())
    })
}

/// Releases the handle. The memory stays while buffers name parts of it.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_inherited_release(inherited: InheritedHandle) -> Status {
    answer("inherited_release", || REGIONS.remove(inherited.token).map(drop))
}
