//! Regions: two buffers over which this process and a running task talk.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bufabi_core::region::RegionParts;
use bufabi_core::{Code, Descriptor, RawDescriptor};
use zerocopy::{FromBytes, Immutable};

use super::boundary::{answer, noted};
use super::buffer::deadline;
use super::consumer::{CONSUMERS, ConsumerHandle};
use super::endpoint::{ENDPOINTS, EndpointHandle};
use super::handle::{Kind, Table};
use super::parameter::{Out, OutSlice, apart_from, given, span_of};
use super::status::Status;
use super::vmm::{VMMS, VmmHandle, admission};
use crate::region::{AttachedRegion, ProvidedRegion, RegionMemory};

/// A region, made here or attached to. 0 is none.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct RegionHandle {
    /// Nothing to be read into.
    pub token: u64,
}

/// A region of either side.
#[derive(Debug)]
enum Shared {
    Provided(ProvidedRegion),
    Attached(AttachedRegion<'static>),
}

static TABLE: Table<Mutex<Shared>> = Table::new(Kind::Region);

// A region's steps are whole, so a panic elsewhere leaves it as it should be.
fn locked(region: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    region.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The memory of a region, for one user, and what it consists of.
fn used(region: RegionHandle) -> Result<(RegionMemory, RegionParts), Code> {
    let region = TABLE.get(region.token)?;
    let region = locked(&region);
    let (memory, parts) = match &*region {
        Shared::Provided(region) => (region.memory(), region.parts()),
        Shared::Attached(region) => (region.memory(), region.parts()),
    };
    Ok((memory.map_err(|error| noted(error.code(), &error))?, parts))
}

/// The memory of a region, for one user, and where PAYLOAD is mapped; 0 when it is not.
pub(super) fn memory(region: RegionHandle) -> Result<(RegionMemory, u64), Code> {
    let (memory, parts) = used(region)?;
    let base = memory.allows_sleeping().then(|| memory.view(parts).ok()).flatten();
    Ok((memory, base.map_or(0, |view| view.payload().base)))
}

fn enter(region: Shared) -> Result<RegionHandle, Code> {
    Ok(RegionHandle { token: TABLE.insert(Mutex::new(region))? })
}

/// Makes a region of POSIX shared memory, zero: PAYLOAD, and COUNTER, whose bytes are a multiple of 4. Both are buffers of the
/// endpoint, made both or not at all.
///
/// # Safety
/// `region` points to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_region_create(
    endpoint: EndpointHandle,
    payload_bytes: u64,
    counter_bytes: u64,
    region: *mut RegionHandle,
) -> Status {
    answer("region_create", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(region) }?;
        let endpoint = ENDPOINTS.get(endpoint.token)?;
        let made = ProvidedRegion::create(&endpoint, payload_bytes, counter_bytes);
        out.set(enter(Shared::Provided(made.map_err(|error| noted(error.code(), &error))?))?);
        Ok(())
    })
}

/// As `bufabi_region_create`, of device memory that is shared by handle, for those that `bufabi_vmm_permit` lets in, or anyone:
/// `admission` is one of `BUFABI_ADMISSION_...`. `vmm` is the endpoint's.
///
/// # Safety
/// `region` points to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_region_create_shareable(
    endpoint: EndpointHandle,
    vmm: VmmHandle,
    payload_bytes: u64,
    counter_bytes: u64,
    admission: i32,
    region: *mut RegionHandle,
) -> Status {
    answer("region_create_shareable", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(region) }?;
        let admission = self::admission(admission)?;
        let (endpoint, vmm) = (ENDPOINTS.get(endpoint.token)?, VMMS.get(vmm.token)?);
        let driver = vmm.driver();
        let made =
            ProvidedRegion::create_shareable(&endpoint, driver, payload_bytes, counter_bytes, admission);
        out.set(enter(Shared::Provided(made.map_err(|error| noted(error.code(), &error))?))?);
        Ok(())
    })
}

/// Attaches to a region that another process made, by its two descriptors, through a consumer: both parts are mapped or none.
///
/// # Safety
/// `payload` and `counter` each point to a descriptor that nobody writes during the call, `region` to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_region_attach(
    consumer: ConsumerHandle,
    payload: *const RawDescriptor,
    counter: *const RawDescriptor,
    region: *mut RegionHandle,
) -> Status {
    answer("region_attach", || {
        // SAFETY: the caller's promise above.
        let payload = unsafe { given(payload) }?;
        // SAFETY: the caller's promise above.
        let counter = unsafe { given(counter) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(region) }?;
        apart_from(&[out.span()], &[span_of(payload), span_of(counter)])?;
        let consumer = CONSUMERS.get(consumer.token)?;
        let decode = |raw| match Descriptor::from_raw(raw) {
            Ok(descriptor) => Ok(descriptor.to_owned()),
            Err(error) => Err(noted(error.code(), &error)),
        };
        let (payload, counter) = (decode(payload)?, decode(counter)?);
        let attached = AttachedRegion::attach_shared(consumer, &payload, &counter);
        out.set(enter(Shared::Attached(attached.map_err(|error| noted(error.code(), &error))?))?);
        Ok(())
    })
}

/// What another process needs to attach: the descriptors of PAYLOAD and COUNTER. Only of a region that was made here.
///
/// # Safety
/// `payload` and `counter` each point to a descriptor that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_region_descriptors(
    region: RegionHandle,
    payload: *mut RawDescriptor,
    counter: *mut RawDescriptor,
) -> Status {
    answer("region_descriptors", || {
        // SAFETY: the caller's promise above.
        let payload = unsafe { Out::new(payload) }?;
        // SAFETY: the caller's promise above.
        let counter = unsafe { Out::new(counter) }?;
        apart_from(&[payload.span(), counter.span()], &[])?;
        let region = TABLE.get(region.token)?;
        let Shared::Provided(region) = &*locked(&region) else { return Err(Code::OtherOwner) };
        let descriptors = region.descriptors().map_err(|error| noted(error.code(), &error))?;
        payload.set(*descriptors[0].raw());
        counter.set(*descriptors[1].raw());
        Ok(())
    })
}

/// The six scalars of the region, with its addresses in this process, for a task that runs here.
///
/// # Safety
/// `scalars` points to six numbers that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_region_scalars(region: RegionHandle, scalars: *mut u64) -> Status {
    answer("region_scalars", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { OutSlice::new(scalars, 6) }?;
        let (memory, parts) = used(region)?;
        let view = memory.view(parts).map_err(|error| noted(error.code(), &error))?;
        out.set(&view.to_scalars());
        Ok(())
    })
}

/// Refuses whatever is begun on the region from now on, waits up to so many nanoseconds for what is under way, a queue that is attached
/// included, and lets go of it: a region that was made here is freed as soon as no unfinished task names it. When that fails, the
/// handle stays, for another try; else it is none any more.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_region_release(region: RegionHandle, limit_nanoseconds: u64) -> Status {
    answer("region_release", || {
        let until = deadline(limit_nanoseconds);
        let shared = TABLE.get(region.token)?;
        let closed = match &mut *locked(&shared) {
            Shared::Provided(region) => region.close(until),
            Shared::Attached(region) => region.close(until),
        };
        closed.map_err(|error| noted(error.code(), &error))?;
        TABLE.remove(region.token).map(drop)
    })
}
