//! The side that makes a region and frees it.

use std::sync::Arc;
use std::time::Instant;

use bufabi_core::region::{AccessError, RegionParts};
use bufabi_core::{Access, Code, Descriptor};

use super::error::{CloseError, ProvideError};
use super::gate::Gate;
use super::memory::{Parts, RegionMemory};
use super::part::CopiedPart;
use crate::owner::{Buffer, CreateError, Endpoint, FreeError, Made, OwnError, Resource};
use crate::vmm::{Admission, AllocationRequest, MemfdDriver, SharedAllocation, VmmDriver};

/// A region that this process made: two ordinary buffers of its endpoint, with one lifetime.
#[derive(Debug)]
pub struct ProvidedRegion {
    // Dropped in this order: the buffers when nothing of ours uses their memory.
    memory: Option<Parts>,
    gate: Arc<Gate>,
    parts: RegionParts,
    /// PAYLOAD and COUNTER; each is `None` once it was released.
    buffers: [Option<Buffer>; 2],
}

impl ProvidedRegion {
    /// Makes both parts or none, of POSIX shared memory, zero.
    ///
    /// # Errors
    /// [`ProvideError`]; nothing is left behind then.
    pub fn create(endpoint: &Endpoint, payload_bytes: u64, counter_bytes: u64) -> Result<Self, ProvideError> {
        check_counter_size(counter_bytes)?;
        let buffers = endpoint.create_pair([payload_bytes, counter_bytes]).map_err(ProvideError::Create)?;
        Self::of_buffers(endpoint, buffers)
    }

    /// As [`create`](Self::create), of software device memory. `driver` is the endpoint's; it permits the processes that may
    /// attach by the handles in both descriptors, and its broker serves them.
    ///
    /// # Errors
    /// [`ProvideError`]; nothing is left behind then.
    pub fn create_shareable(
        endpoint: &Endpoint,
        driver: &Arc<MemfdDriver>,
        payload_bytes: u64,
        counter_bytes: u64,
        admission: Admission,
    ) -> Result<Self, ProvideError> {
        check_counter_size(counter_bytes)?;
        let nbytes = [payload_bytes, counter_bytes];
        let buffers =
            endpoint.create_shareable_pair(driver, nbytes, admission).map_err(ProvideError::Create)?;
        Self::of_buffers(endpoint, buffers)
    }

    /// As [`create`](Self::create), of memory of a device that this process's CPU does not map: the driver copies what is read and
    /// written, and a wait looks again after longer and longer pauses. `driver` is the endpoint's; it permits the processes that may
    /// attach by the handles in both descriptors.
    ///
    /// # Errors
    /// [`ProvideError`]; nothing is left behind then.
    pub fn create_copying<D>(
        endpoint: &Endpoint,
        driver: &Arc<D>,
        payload_bytes: u64,
        counter_bytes: u64,
        admission: Admission,
    ) -> Result<Self, ProvideError>
    where
        D: VmmDriver<Physical: Send + Sync, Range: Send + Sync> + Send + Sync + 'static,
    {
        check_counter_size(counter_bytes)?;
        let mut memory: Vec<Arc<dyn CopiedPart>> = Vec::new();
        let access = Access::ReadWrite;
        let buffers = endpoint.own_pair([payload_bytes, counter_bytes], access, |identity, nbytes| {
            let request = AllocationRequest { identity, nbytes, access, admission };
            let allocation = SharedAllocation::new(driver, &request).map_err(CreateError::Vmm)?;
            let (body, allocation) = (allocation.shareable().body(), Arc::new(allocation));
            memory.push(allocation.clone());
            let resource: Box<dyn Resource> = Box::new(Lent(Some(allocation)));
            Ok::<_, CreateError>(Made { body, mapping: None, resource: Some(resource) })
        });
        let buffers = buffers.map_err(ProvideError::Create)?;
        let parts = parts_of(&buffers)?;
        let memory = <[_; 2]>::try_from(memory).ok().map(Parts::Copied);
        Ok(Self { memory, gate: Arc::default(), parts, buffers: buffers.map(Some) })
    }

    fn of_buffers(endpoint: &Endpoint, buffers: [Buffer; 2]) -> Result<Self, ProvideError> {
        let parts = parts_of(&buffers)?;
        let map = |buffer: &Buffer| {
            let descriptor = buffer.descriptor().map_err(ProvideError::Own)?;
            endpoint.own_mapping(&descriptor).map_err(ProvideError::Own)
        };
        let [payload, counter] = &buffers;
        let memory = Some(Parts::Mapped([map(payload)?, map(counter)?]));
        Ok(Self { memory, gate: Arc::default(), parts, buffers: buffers.map(Some) })
    }

    /// The identities of both parts.
    #[must_use]
    pub const fn parts(&self) -> RegionParts {
        self.parts
    }

    /// What another process needs to attach: PAYLOAD's and COUNTER's descriptors.
    ///
    /// # Errors
    /// [`OwnError`] once the region was closed.
    pub fn descriptors(&self) -> Result<[Descriptor; 2], OwnError> {
        let stale = |identity| OwnError::Owner(bufabi_core::owner_table::OwnerError::Closing { identity });
        let [payload, counter] = &self.buffers;
        let payload = payload.as_ref().ok_or(stale(self.parts.payload()))?.descriptor()?;
        let counter = counter.as_ref().ok_or(stale(self.parts.counter()))?.descriptor()?;
        Ok([payload, counter])
    }

    /// The region's bytes, for one user. As many as are there must be dropped before the region closes.
    ///
    /// # Errors
    /// [`AccessError`] once the region was closed.
    pub fn memory(&self) -> Result<RegionMemory, AccessError> {
        let closed = AccessError::new(Code::Released, 0);
        RegionMemory::enter(self.memory.as_ref().ok_or(closed)?, &self.gate)
    }

    /// Refuses whatever is begun from now on, waits for what is under way, unmaps, and frees both parts, each once, when no
    /// submitted task names them any more. It waits until `until`, and can be called again.
    ///
    /// # Errors
    /// [`CloseError`]; what was done stays done.
    pub fn close(&mut self, until: Instant) -> Result<(), CloseError> {
        self.gate.shut(Code::Released, 0);
        let users = self.gate.wait(until);
        if users > 0 {
            return Err(CloseError::InUse { users });
        }
        self.memory = None;
        let mut first = Ok(());
        for slot in &mut self.buffers {
            let Some(buffer) = slot else { continue };
            match buffer.release_when_idle(until) {
                Ok(()) => *slot = None,
                Err(error) => first = first.and(Err(CloseError::Release(error))),
            }
        }
        first
    }
}

/// Device memory whose region may use it beside its owner: what is left of it when it is freed goes with the last user.
#[derive(Debug)]
struct Lent<D: VmmDriver>(Option<Arc<SharedAllocation<D>>>);

impl<D> Resource for Lent<D>
where
    D: VmmDriver<Physical: Send + Sync, Range: Send + Sync> + Send + Sync,
{
    fn free(&mut self) -> Result<(), FreeError> {
        let Some(mut allocation) = self.0.take().and_then(Arc::into_inner) else { return Ok(()) };
        allocation.release().map_err(|error| {
            self.0 = Some(Arc::new(allocation));
            FreeError::Vmm(error)
        })
    }
}

fn parts_of([payload, counter]: &[Buffer; 2]) -> Result<RegionParts, ProvideError> {
    let payload = payload.descriptor().map_err(ProvideError::Own)?;
    let counter = counter.descriptor().map_err(ProvideError::Own)?;
    RegionParts::check(&payload, &counter).map_err(ProvideError::Parts)
}

const fn check_counter_size(found: u64) -> Result<(), ProvideError> {
    if found == 0 || !found.is_multiple_of(4) { Err(ProvideError::CounterSize { found }) } else { Ok(()) }
}
