//! A consumer: it maps each identity once, whoever asks and however often, and keeps the mapping for the next time.

mod error;
#[cfg(test)]
mod tests;

use core::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bufabi_core::import_table::{
    ImportBucket, ImportSlot, ImportTable, InsertRefusal, InsertRefused, Lookup, ViewsAlive,
};
use bufabi_core::keyed_hash::KeyedHash;
use bufabi_core::wire::record::Holds;
use bufabi_core::{Access, Descriptor, Identity, RawDescriptor, RawTensor, Tensor, View, ViewError};

pub use crate::backend::Resolution;
pub use error::{CloseError, ImportError};

use crate::backend::{self, Backend, ResolveError};
use crate::memory::{Mapping, Operand};
use crate::owner::Endpoint;
use crate::sys::OsError;
use crate::sys::memory::slots;
use crate::sys::random::random_bytes;

/// Identities that a consumer has mapped at once, unless its maker says otherwise.
pub const DEFAULT_CAPACITY: usize = 4096;

/// How long an import waits for another thread that is making the same mapping.
const PATIENCE: Duration = Duration::from_secs(10);

/// Resolves descriptors to mappings of this process. Any number of threads may ask it.
#[derive(Debug)]
pub struct Consumer {
    state: Mutex<State>,
    /// Told whenever a mapping that somebody waits for was made, or could not be.
    settled: Condvar,
    endpoint: Option<Endpoint>,
    backends: Vec<Box<dyn Backend>>,
}

#[derive(Debug)]
struct State {
    table: Table,
    counters: Counters,
    is_closed: bool,
}

/// A mapping, or none yet while some thread makes it. Whoever uses it has a count of its own.
type Slot = Option<Arc<Mapping>>;
type Table = ImportTable<Slot, Box<[ImportSlot<Slot>]>, Box<[ImportBucket]>>;

/// What a consumer has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Mappings that are there now.
    pub live: u32,
    /// Mappings that were made.
    pub imports: u64,
    /// Times that one was there already.
    pub hits: u64,
    /// Mappings that were removed to make room.
    pub evictions: u64,
}

/// A mapping that somebody uses; it stays until this is dropped.
#[derive(Clone, Debug)]
pub struct Import {
    mapping: Arc<Mapping>,
    access: Access,
    resolution: Resolution,
}

impl Import {
    /// How it was come by.
    #[must_use]
    pub const fn resolution(&self) -> Resolution {
        self.resolution
    }

    /// What its owner grants. An owner's own mapping allows more.
    #[must_use]
    pub const fn access(&self) -> Access {
        self.access
    }

    /// The mapping alone, which counts as a use of it as well.
    #[must_use]
    pub fn into_mapping(self) -> Arc<Mapping> {
        self.mapping
    }

    /// A view of it, with the rights that its owner grants.
    ///
    /// # Errors
    /// As [`Mapping::operand`].
    pub fn operand(&self, view: View) -> Result<Operand<'_>, ViewError> {
        self.operand_from(0, view)
    }

    /// As [`operand`](Self::operand), the view's offset counting from byte `start` on.
    ///
    /// # Errors
    /// As [`Mapping::operand_from`].
    pub fn operand_from(&self, start: usize, view: View) -> Result<Operand<'_>, ViewError> {
        Ok(self.mapping.operand_from(start, view)?.limited_to(self.access))
    }
}

impl Deref for Import {
    type Target = Mapping;

    fn deref(&self) -> &Mapping {
        &self.mapping
    }
}

impl Consumer {
    /// A consumer of what every host process can reach: POSIX shared memory, and what it inherited. Identities of `endpoint`, if there is one, resolve to its own mappings.
    ///
    /// # Errors
    /// [`OsError`] when no random bytes can be had.
    pub fn new(endpoint: Option<Endpoint>) -> Result<Self, OsError> {
        Self::with_backends(endpoint, backend::of_host(), DEFAULT_CAPACITY)
    }

    /// A consumer of those kinds of backings, with so many mapped at once.
    ///
    /// # Errors
    /// [`OsError`] when no random bytes can be had, or the machine has no memory for so many.
    pub fn with_backends(
        endpoint: Option<Endpoint>,
        backends: Vec<Box<dyn Backend>>,
        capacity: usize,
    ) -> Result<Self, OsError> {
        let [low, high] = [random_bytes()?, random_bytes()?].map(u64::from_le_bytes);
        let entries = slots(capacity, || ImportSlot::EMPTY)?;
        let buckets = slots(ImportBucket::count_for(capacity), || ImportBucket::EMPTY)?;
        let table = ImportTable::new(KeyedHash::new([low, high]), entries, buckets);
        let state = State { table, counters: Counters::default(), is_closed: false };
        Ok(Self { state: Mutex::new(state), settled: Condvar::new(), endpoint, backends })
    }

    /// Resolves a descriptor: maps it when its identity is new, and gives the same mapping ever after.
    ///
    /// # Errors
    /// [`ImportError`]; the first mapping of an identity stays, whatever comes later.
    #[inline]
    pub fn import<H: Holds<RawDescriptor>>(&self, descriptor: &Descriptor<H>) -> Result<Import, ImportError> {
        let mut state = self.state();
        if let Some(hit) = state.hit(descriptor) {
            return hit;
        }
        self.import_new(state, &descriptor.to_owned())
    }

    /// As [`import`](Self::import), of what all of those tensors name, in order, into `imports`.
    ///
    /// # Errors
    /// The first one that is not to be had, by its place, and why; those before it are in `imports`.
    pub(crate) fn import_all<'a>(
        &self,
        tensors: impl Iterator<Item = Tensor<&'a RawTensor>>,
        imports: &mut Vec<Import>,
    ) -> Result<(), (usize, ImportError)> {
        // Locked once: what is mapped already is found faster than a lock is taken.
        let mut state = self.state();
        for (index, tensor) in tensors.enumerate() {
            let descriptor = tensor.descriptor();
            let import = match state.hit(&descriptor) {
                Some(hit) => hit,
                None => {
                    let made = self.import_new(state, &descriptor.to_owned());
                    state = self.state();
                    made
                }
            };
            imports.push(import.map_err(|error| (index, error))?);
        }
        Ok(())
    }

    #[cold]
    fn import_new<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        descriptor: &Descriptor,
    ) -> Result<Import, ImportError> {
        // That holds for what needs no mapping as well.
        if state.is_closed {
            return Err(ImportError::Closed);
        }
        let (identity, access) = (descriptor.identity(), descriptor.access());
        let own =
            self.endpoint.as_ref().filter(|own| own.owner_instance_id() == identity.owner_instance_id());
        if let Some(endpoint) = own {
            drop(state);
            let mapping = endpoint.own_mapping(descriptor).map_err(ImportError::Own)?;
            return Ok(Import { mapping, access, resolution: Resolution::Own });
        }
        let kind = descriptor.backend_kind();
        let backend = self.backends.iter().find(|backend| backend.kind() == kind);
        let unknown = ImportError::Resolve(ResolveError::NotResolvable { backend_kind: kind });
        let backend = backend.ok_or(unknown)?;
        let start = Instant::now();
        loop {
            if let Some(hit) = state.hit(descriptor) {
                return hit;
            }
            if state.is_closed {
                return Err(ImportError::Closed);
            }
            match state.table.find(descriptor) {
                // Another thread makes it: it tells when it is done, or has failed.
                Lookup::Hit(..) => {
                    let left = PATIENCE.saturating_sub(start.elapsed());
                    if left.is_zero() {
                        return Err(ImportError::TimedOut { identity });
                    }
                    let waited = self.settled.wait_timeout(state, left);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                Lookup::Conflict(fields) => return Err(ImportError::Conflict { identity, fields }),
                Lookup::Vacant => break,
            }
        }
        state.insert(descriptor)?;
        drop(state);
        // The lock is free meanwhile: the operating system may take its time.
        let making = Making { consumer: self, identity };
        let mapping = Arc::new(backend.map(descriptor).map_err(ImportError::Resolve)?);
        making.made(&mapping);
        Ok(Import { mapping, access, resolution: backend.resolution() })
    }

    /// Drops what was mapped for an identity. That nothing was is no error.
    ///
    /// # Errors
    /// [`ImportError::ViewsAlive`], [`ImportError::Unmap`]; the mapping stays then.
    pub fn release(&self, identity: Identity) -> Result<(), ImportError> {
        let mut state = self.state();
        let Some(key) = state.table.find_identity(identity) else { return Ok(()) };
        match state.table.get_mut(key).map(take_unused) {
            None | Some(Ok(())) => {
                drop(state.table.remove(identity));
                Ok(())
            }
            Some(Err(Kept::InUse { views })) => Err(ImportError::ViewsAlive { identity, views }),
            Some(Err(Kept::Unmap(error))) => Err(ImportError::Unmap { identity, error }),
        }
    }

    /// Drops every mapping that nobody uses, and says how many.
    pub fn evict_unused(&self) -> u32 {
        let mut state = self.state();
        let mut evicted = 0_u32;
        for _ in 0..state.table.len() {
            if state.evict_one() {
                evicted = evicted.saturating_add(1);
            }
        }
        evicted
    }

    /// Drops every mapping, trying all. What could not be dropped is kept for another try. Nothing new is imported from now on.
    ///
    /// # Errors
    /// [`CloseError`] with the first reason for which one was kept, and how many were.
    pub fn close(&self) -> Result<(), CloseError> {
        let mut state = self.state();
        state.is_closed = true;
        let closed = state.table.close(|descriptor, slot| {
            let identity = descriptor.identity();
            take_unused(slot).map_err(|kept| match kept {
                Kept::InUse { views } => ImportError::ViewsAlive { identity, views },
                Kept::Unmap(error) => ImportError::Unmap { identity, error },
            })
        });
        closed.map_err(|error| CloseError { first: error.into(), kept: state.table.len() })
    }

    /// What it has done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let state = self.state();
        Counters { live: state.table.len(), ..state.counters }
    }

    #[inline]
    fn state(&self) -> MutexGuard<'_, State> {
        // Every step on the table is whole, so a panic elsewhere leaves it as it should be.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A mapping that this thread makes, for which others may wait. However the making ends, they are told.
struct Making<'a> {
    consumer: &'a Consumer,
    identity: Identity,
}

impl Making<'_> {
    fn made(self, mapping: &Arc<Mapping>) {
        let mut state = self.consumer.state();
        let key = state.table.find_identity(self.identity);
        if let Some(slot) = key.and_then(|key| state.table.get_mut(key)) {
            *slot = Some(Arc::clone(mapping));
            state.counters.imports = state.counters.imports.wrapping_add(1);
        }
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let mut state = self.consumer.state();
        let key = state.table.find_identity(self.identity);
        if key.and_then(|key| state.table.get_mut(key)).is_some_and(|slot| slot.is_none()) {
            // It was not made, so it was never handed out, and nobody uses it.
            drop(state.table.remove(self.identity));
        }
        drop(state);
        self.consumer.settled.notify_all();
    }
}

impl State {
    /// What is mapped for a descriptor already, if it is still to be had.
    #[inline]
    fn hit<H: Holds<RawDescriptor>>(
        &mut self,
        descriptor: &Descriptor<H>,
    ) -> Option<Result<Import, ImportError>> {
        let Lookup::Hit(_, Some(mapping)) = self.table.find(descriptor) else { return None };
        if mapping.is_damaged() {
            return Some(Err(ImportError::Shrank { identity: descriptor.identity() }));
        }
        // What could not be unmapped when it was closed is kept for another try, and serves nobody.
        if self.is_closed {
            return Some(Err(ImportError::Closed));
        }
        let mapping = Arc::clone(mapping);
        self.counters.hits = self.counters.hits.wrapping_add(1);
        Some(Ok(Import { mapping, access: descriptor.access(), resolution: Resolution::AlreadyMapped }))
    }

    /// Enters a descriptor whose mapping is still to be made; in a full table something that nobody uses makes room.
    fn insert(&mut self, descriptor: &Descriptor) -> Result<(), ImportError> {
        for _ in 0..=self.table.len() {
            match self.table.insert(descriptor, None) {
                Ok(_) => return Ok(()),
                Err(InsertRefused { refusal: InsertRefusal::Full { .. }, .. }) if self.evict_some() => {}
                Err(InsertRefused { refusal, .. }) => return Err(ImportError::Refused(refusal)),
            }
        }
        Err(ImportError::Refused(InsertRefusal::Full { capacity: self.table.capacity() }))
    }

    /// Makes room for one, going through all in the order in which they came or were found in use.
    fn evict_some(&mut self) -> bool {
        (0..self.table.len()).any(|_| self.evict_one())
    }

    /// Drops the one that came first if nobody uses it, or puts it last. Says whether it was dropped.
    fn evict_one(&mut self) -> bool {
        let Some((descriptor, mut slot)) = self.table.evict() else { return false };
        let dropped = take_unused(&mut slot).is_ok();
        if dropped {
            self.counters.evictions = self.counters.evictions.wrapping_add(1);
        } else {
            // Its place was free a moment ago.
            drop(self.table.insert(&descriptor, slot));
        }
        dropped
    }
}

/// Why a mapping was not dropped.
enum Kept {
    /// Somebody uses it, or makes it.
    InUse {
        /// How many do.
        views: usize,
    },
    /// It did not unmap.
    Unmap(OsError),
}

/// Unmaps a mapping that nobody uses, and else leaves it. The table is locked: nobody begins to use it meanwhile.
fn take_unused(slot: &mut Slot) -> Result<(), Kept> {
    let Some(mut mapping) = slot.take() else { return Err(Kept::InUse { views: 0 }) };
    if Arc::get_mut(&mut mapping).is_none() {
        let views = Arc::strong_count(&mapping).saturating_sub(1);
        *slot = Some(mapping);
        return Err(Kept::InUse { views });
    }
    match Arc::into_inner(mapping).map(Mapping::unmap) {
        None | Some(Ok(())) => Ok(()),
        Some(Err((mapping, error))) => {
            *slot = Some(Arc::new(mapping));
            Err(Kept::Unmap(error))
        }
    }
}

impl From<ViewsAlive> for ImportError {
    fn from(ViewsAlive { identity, .. }: ViewsAlive) -> Self {
        Self::ViewsAlive { identity, views: 1 }
    }
}
