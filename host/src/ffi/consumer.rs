//! Consumers: each identity mapped once, whoever asks and however often.

use bufabi_core::wire::identity::RawIdentity;
use bufabi_core::{Code, Descriptor, RawDescriptor};
use zerocopy::{FromBytes, Immutable};

use super::boundary::{answer, noted};
use super::endpoint::{ENDPOINTS, EndpointHandle};
use super::handle::{Kind, Table};
use super::mapping::{MappingHandle, insert};
use super::parameter::{Out, apart_from, given, span_of};
use super::status::Status;
use super::vmm::{VMMS, VmmHandle};
use crate::backend::{self, vmm_shareable::VmmShareable};
use crate::consumer::{Consumer, DEFAULT_CAPACITY, Resolution};
use crate::sys::fault;

/// It was mapped just now.
pub const RESOLUTION_MAPPED_NOW: i32 = 0;
/// It was mapped already.
pub const RESOLUTION_ALREADY_MAPPED: i32 = 1;
/// It is this process's own: the owner's mapping serves.
pub const RESOLUTION_OWN: i32 = 2;
/// This process inherited it over a fork: nothing was mapped.
pub const RESOLUTION_INHERITED: i32 = 3;

/// A consumer. 0 is none.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct ConsumerHandle {
    /// Nothing to be read into.
    pub token: u64,
}

/// What a consumer has done so far.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct ConsumerCounters {
    /// Mappings that were made.
    pub imports: u64,
    /// Times that one was there already.
    pub hits: u64,
    /// Mappings that were removed to make room.
    pub evictions: u64,
    /// Mappings that are there now.
    pub live: u32,
    /// 0.
    pub reserved: u32,
}

/// One of `BUFABI_RESOLUTION_...`.
pub(super) const fn resolution_number(resolution: Resolution) -> i32 {
    match resolution {
        Resolution::MappedNow => RESOLUTION_MAPPED_NOW,
        Resolution::AlreadyMapped => RESOLUTION_ALREADY_MAPPED,
        Resolution::Own => RESOLUTION_OWN,
        Resolution::Inherited => RESOLUTION_INHERITED,
    }
}

/// Consumers.
pub(super) static CONSUMERS: Table<Consumer> = Table::new(Kind::Consumer);

/// Makes a consumer with up to `capacity` mappings at once; 0 stands for 4,096. Identities of `endpoint` resolve to its own mappings, and
/// device memory that is shared by handle is imported through `vmm`; either may be a handle of 0, for none.
///
/// # Safety
/// `consumer` points to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_consumer_create(
    endpoint: EndpointHandle,
    vmm: VmmHandle,
    capacity: u32,
    consumer: *mut ConsumerHandle,
) -> Status {
    answer("consumer_create", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(consumer) }?;
        let endpoint = match endpoint.token {
            0 => None,
            token => Some(ENDPOINTS.get(token)?.as_ref().clone()),
        };
        let mut backends = backend::of_host();
        if vmm.token != 0 {
            backends.push(Box::new(VmmShareable::new(VMMS.get(vmm.token)?.driver().clone())));
        }
        let capacity = if capacity == 0 { DEFAULT_CAPACITY } else { usize::try_from(capacity).unwrap_or(0) };
        let consumer = Consumer::with_backends(endpoint, backends, capacity);
        let consumer = consumer.map_err(|error| noted(error.code(), &error))?;
        out.set(ConsumerHandle { token: CONSUMERS.insert(consumer)? });
        Ok(())
    })
}

/// Resolves a descriptor: maps it when its identity is new, and gives the same mapping ever after. `*resolution` is one of
/// `BUFABI_RESOLUTION_...`. The mapping stays as long as its handle.
///
/// # Safety
/// `descriptor` points to a descriptor that nobody writes during the call, `resolution` and `mapping` to an int32_t and a handle
/// that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_consumer_import(
    consumer: ConsumerHandle,
    descriptor: *const RawDescriptor,
    resolution: *mut i32,
    mapping: *mut MappingHandle,
) -> Status {
    answer("consumer_import", || {
        // SAFETY: the caller's promise above.
        let descriptor = unsafe { given(descriptor) }?;
        // SAFETY: the caller's promise above.
        let resolution = unsafe { Out::new(resolution) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(mapping) }?;
        apart_from(&[resolution.span(), out.span()], &[span_of(descriptor)])?;
        let consumer = CONSUMERS.get(consumer.token)?;
        let descriptor = Descriptor::from_raw(descriptor).map_err(|error| noted(error.code(), &error))?;
        let import = consumer.import(&descriptor).map_err(|error| noted(error.code(), &error))?;
        let (how, access) = (import.resolution(), import.access());
        out.set(insert(import.into_mapping(), access)?);
        resolution.set(resolution_number(how));
        Ok(())
    })
}

/// Drops what was mapped for an identity, as is due when its owner has released it. That nothing was is no error; it is refused while a
/// handle to the mapping is there.
///
/// # Safety
/// `identity` points to an identity that nobody writes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_consumer_forget(
    consumer: ConsumerHandle,
    identity: *const RawIdentity,
) -> Status {
    answer("consumer_forget", || {
        // SAFETY: the caller's promise above.
        let identity = unsafe { given(identity) }?.decode().ok_or(Code::Generation)?;
        CONSUMERS.get(consumer.token)?.release(identity).map_err(|error| noted(error.code(), &error))
    })
}

/// Drops every mapping that nobody uses, and says how many.
///
/// # Safety
/// `evicted` points to a uint32_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_consumer_evict_unused(consumer: ConsumerHandle, evicted: *mut u32) -> Status {
    answer("consumer_evict_unused", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(evicted) }?;
        out.set(CONSUMERS.get(consumer.token)?.evict_unused());
        Ok(())
    })
}

/// Drops every mapping, trying all; what could not be is kept for another try, and `*kept` says how many, whatever the status, which is
/// that of the first. Nothing new is imported from now on.
///
/// # Safety
/// `kept` points to a uint32_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_consumer_close(consumer: ConsumerHandle, kept: *mut u32) -> Status {
    answer("consumer_close", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(kept) }?;
        let consumer = CONSUMERS.get(consumer.token)?;
        let closed = consumer.close();
        out.set(closed.map_or_else(|error| error.kept, |()| 0));
        closed.map_err(|error| noted(error.first.code(), &error))
    })
}

/// What it has done so far.
///
/// # Safety
/// `counters` points to counters that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_consumer_counters(
    consumer: ConsumerHandle,
    counters: *mut ConsumerCounters,
) -> Status {
    answer("consumer_counters", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(counters) }?;
        let counters = CONSUMERS.get(consumer.token)?.counters();
        let (imports, hits, evictions) = (counters.imports, counters.hits, counters.evictions);
        out.set(ConsumerCounters { imports, hits, evictions, live: counters.live, reserved: 0 });
        Ok(())
    })
}

/// Releases the consumer. Mappings stay as long as handles to them, and go with the last.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_consumer_release(consumer: ConsumerHandle) -> Status {
    answer("consumer_release", || CONSUMERS.remove(consumer.token).map(drop))
}

/// From now on this process survives a peer that shrinks a shared-memory object under its mapping: the lost pages read as zeros, and
/// further imports of it are refused. It installs a handler for SIGBUS, which passes on what is not its own; a program that has one
/// installs it afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_survive_shrinking_objects() -> Status {
    answer("survive_shrinking_objects", || {
        fault::survive_shrinking_objects().map_err(|error| noted(error.code(), &error))
    })
}
