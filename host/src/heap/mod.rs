//! A heap that was mapped shared before its workers were forked: slabs of it are at the same address in all of them.
//!
//! Every slab starts at a multiple of 1,024 bytes and lives until it is released, or until its handle or its scope is gone and the
//! last task that names it is done; views of it that are alive in this process keep its place too. A heap with nothing live
//! serves any request up to its size. A slab has the bytes that were there before.

mod ledger;
mod scope;
#[cfg(test)]
mod tests;

use core::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bufabi_core::wire::body::Body;
use bufabi_core::{Access, DType, Identity, View};

pub use scope::Scope;

use self::ledger::SlabLedger;
use crate::memory::{InheritedRegion, Mapping};
use crate::owner::{Buffer, CreateError, Endpoint, FreeError, Made, Resource};
use crate::space::Space;
use crate::sys::process::current_pid;

/// What slabs are aligned to, bytes.
pub const ALIGNMENT: u64 = 1024;

/// A heap of one endpoint. Clones are the same heap; it is unmapped when they and all slabs are gone.
#[derive(Clone, Debug)]
pub struct ForkHeap {
    endpoint: Endpoint,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    region: InheritedRegion,
    space: Mutex<Space>,
    ledger: Arc<SlabLedger>,
    creator: u32,
}

impl ForkHeap {
    /// Maps a heap of `nbytes` bytes, zero, which only processes forked from now on have. Memory is taken as it is touched.
    ///
    /// # Errors
    /// [`CreateError`]; nothing is left behind then.
    pub fn new(endpoint: &Endpoint, nbytes: u64) -> Result<Self, CreateError> {
        endpoint.check_creator()?;
        let too_large = CreateError::NbytesTooLarge { nbytes };
        let length = isize::try_from(nbytes).map_err(|_| too_large)?.unsigned_abs();
        if length == 0 {
            return Err(CreateError::NbytesZero);
        }
        let ledger = Arc::new(SlabLedger::new(length).map_err(CreateError::Os)?);
        let owner = endpoint.owner_instance_id();
        let told = Arc::clone(&ledger);
        let region = InheritedRegion::with_ledger(owner, length, told).map_err(CreateError::Os)?;
        // A mapping starts at a page and ends in the address space.
        let space = Space::new(region.memory().address(), nbytes, ALIGNMENT).ok_or(too_large)?;
        let shared = Shared { region, space: Mutex::new(space), ledger, creator: current_pid() };
        Ok(Self { endpoint: endpoint.clone(), shared: Arc::new(shared) })
    }

    /// A slab of `nbytes` bytes that grants `access` to its consumers.
    ///
    /// # Errors
    /// [`CreateError`]; nothing is left behind then.
    pub fn create_buffer(&self, nbytes: u64, access: Access) -> Result<Buffer, CreateError> {
        self.endpoint.own(nbytes, access, |identity| self.make_slab(identity, nbytes, access))
    }

    /// A slab for a dense tensor of that shape, for reading and writing.
    ///
    /// # Errors
    /// As [`create_buffer`](Self::create_buffer), and [`CreateError::View`] for a shape that no tensor has.
    pub fn alloc_shared(&self, shapes: &[u32], dtype: DType) -> Result<Buffer, CreateError> {
        let view = View::row_major(0, dtype, shapes, u64::MAX).map_err(CreateError::View)?;
        self.create_buffer(view.extent(), Access::ReadWrite)
    }

    /// A scope: what is allocated in it is freed when it ends and the last task that names it is done.
    #[must_use]
    pub const fn scope(&self) -> Scope<'_> {
        Scope::new(self)
    }

    /// Its size, bytes.
    #[must_use]
    pub fn nbytes(&self) -> u64 {
        self.shared.region.memory().nbytes()
    }

    /// Slabs that are not free.
    #[must_use]
    pub fn live(&self) -> usize {
        self.shared.space().live()
    }

    /// The longest slab that it can serve now, bytes.
    #[must_use]
    pub fn largest_free(&self) -> u64 {
        self.shared.space().largest_free()
    }

    fn make_slab(&self, identity: Identity, nbytes: u64, access: Access) -> Result<Made, CreateError> {
        let shared = &self.shared;
        let address = shared.space().take(nbytes).map_err(CreateError::Space)?;
        // From here on the place is given back when something fails.
        let place = Place { heap: Arc::clone(shared), address };
        let nowhere = CreateError::NbytesTooLarge { nbytes };
        let base = NonZeroU64::new(address).ok_or(nowhere)?;
        let memory = shared.region.shared_memory();
        let offset = usize::try_from(address.saturating_sub(memory.address())).map_err(|_| nowhere)?;
        let length = usize::try_from(nbytes).map_err(|_| nowhere)?;
        let mapping = Mapping::part(memory, offset, length, Access::ReadWrite, Some(Box::new(place)));
        let mapping = mapping.map_err(|_| nowhere)?;
        let listing = Listing { heap: Arc::clone(shared), offset, is_listed: true };
        shared.ledger.enter(offset, identity, nbytes, access);
        Ok(Made { body: Body::ForkShm { base }, mapping: Some(mapping), resource: Some(Box::new(listing)) })
    }
}

impl Shared {
    fn space(&self) -> MutexGuard<'_, Space> {
        // Every step on it is whole, so a panic elsewhere leaves it as it should be.
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A slab's addresses, which nobody else has as long as something in this process reaches them.
struct Place {
    heap: Arc<Shared>,
    address: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.heap.creator == current_pid() {
            // It was taken, and is given back this once.
            let _ = self.heap.space().give_back(self.address);
        }
    }
}

/// A slab's line in the ledger.
#[derive(Debug)]
struct Listing {
    heap: Arc<Shared>,
    offset: usize,
    is_listed: bool,
}

impl Resource for Listing {
    fn revoke(&mut self) {
        if self.is_listed && self.heap.creator == current_pid() {
            self.heap.ledger.strike(self.offset);
        }
        self.is_listed = false;
    }

    fn free(&mut self) -> Result<(), FreeError> {
        self.revoke();
        Ok(())
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.revoke();
    }
}
