//! Memory that processes inherit over a fork: a table of it, which they inherit with it.
//!
//! A descriptor of FORK_SHM or FORK_COW carries an address. It means something only in a process that is descended, by forks
//! without exec, from the one that mapped the memory, and only if the fork came after the mapping. So the owner enters what
//! it maps into a table of its process; a fork copies the table as it was at that moment, and exec loses it.

use core::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bufabi_core::{Access, Descriptor, OwnerInstanceId};

use super::mapping::Mapping;
use crate::sys::OsError;
use crate::sys::process::current_pid;

/// What a process and its forks have of the same memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// The same bytes: FORK_SHM.
    Shared,
    /// Each its own, as they were at the fork until it stores: FORK_COW.
    Copied,
}

/// Whether a region's owner stands by what a descriptor claims of it, as far as it tells its forks.
pub(crate) trait Ledger: fmt::Debug + Send + Sync {
    /// The `descriptor` names what is live, `offset` bytes behind the region's start.
    fn agrees(&self, descriptor: &Descriptor, offset: usize) -> bool;
}

/// The regions of this process and of those that it is descended from.
static REGIONS: RwLock<Vec<Entry>> = RwLock::new(Vec::new());
/// Tells the regions of this process apart.
static NEXT: AtomicU64 = AtomicU64::new(0);

struct Entry {
    number: u64,
    owner: OwnerInstanceId,
    sharing: Sharing,
    memory: Arc<Mapping>,
    ledger: Option<Arc<dyn Ledger>>,
}

/// Memory of one owner that every process forked from now on finds at the same address. It is in the table until this is dropped,
/// and in those processes for ever.
#[derive(Debug)]
pub struct InheritedRegion {
    number: u64,
    owner: OwnerInstanceId,
    sharing: Sharing,
    memory: Arc<Mapping>,
    creator: u32,
}

impl InheritedRegion {
    /// New memory, zero, for the endpoint of that name. It is taken from the machine as it is touched.
    ///
    /// # Errors
    /// [`OsError`]: ENOMEM when no address space or no further mapping is left.
    pub fn new(owner: OwnerInstanceId, nbytes: usize, sharing: Sharing) -> Result<Self, OsError> {
        let memory = match sharing {
            Sharing::Shared => Mapping::inherited(nbytes)?,
            Sharing::Copied => Mapping::copied(nbytes)?,
        };
        Ok(Self::enter(owner, memory, sharing, None))
    }

    /// Memory that is there already: what [`Mapping::of_memory`] stands for. `sharing` says how forks share it.
    #[must_use]
    pub fn of_memory(owner: OwnerInstanceId, memory: Mapping, sharing: Sharing) -> Self {
        Self::enter(owner, memory, sharing, None)
    }

    /// As [`new`](Self::new), shared; what resolves in it is what `ledger` agrees with.
    pub(crate) fn with_ledger(
        owner: OwnerInstanceId,
        nbytes: usize,
        ledger: Arc<dyn Ledger>,
    ) -> Result<Self, OsError> {
        Ok(Self::enter(owner, Mapping::inherited(nbytes)?, Sharing::Shared, Some(ledger)))
    }

    fn enter(
        owner: OwnerInstanceId,
        memory: Mapping,
        sharing: Sharing,
        ledger: Option<Arc<dyn Ledger>>,
    ) -> Self {
        let memory = Arc::new(memory);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let entry = Entry { number, owner, sharing, memory: Arc::clone(&memory), ledger };
        REGIONS.write().unwrap_or_else(PoisonError::into_inner).push(entry);
        Self { number, owner, sharing, memory, creator: current_pid() }
    }

    /// Whose it is.
    #[must_use]
    pub const fn owner(&self) -> OwnerInstanceId {
        self.owner
    }

    /// What forks have of it.
    #[must_use]
    pub const fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// The memory.
    #[must_use]
    pub fn memory(&self) -> &Mapping {
        &self.memory
    }

    /// The memory, to keep it.
    pub(crate) const fn shared_memory(&self) -> &Arc<Mapping> {
        &self.memory
    }
}

impl Drop for InheritedRegion {
    fn drop(&mut self) {
        // In a fork it stays, for whoever is still told of it.
        if self.creator == current_pid() {
            let mut regions = REGIONS.write().unwrap_or_else(PoisonError::into_inner);
            regions.retain(|entry| entry.number != self.number);
        }
    }
}

/// What a descriptor names at `base`, if this process has inherited it, or mapped it itself for its forks. The owner's forks
/// have its bytes for no more than `access`.
pub(crate) fn find(descriptor: &Descriptor, base: u64, sharing: Sharing, access: Access) -> Option<Mapping> {
    let owner = descriptor.identity().owner_instance_id();
    let nbytes = usize::try_from(descriptor.nbytes()).ok()?;
    let regions = REGIONS.read().unwrap_or_else(PoisonError::into_inner);
    regions.iter().filter(|entry| entry.owner == owner && entry.sharing == sharing).find_map(|entry| {
        let offset = usize::try_from(base.checked_sub(entry.memory.address())?).ok()?;
        if entry.ledger.as_ref().is_some_and(|ledger| !ledger.agrees(descriptor, offset)) {
            return None;
        }
        if !entry.memory.access().grants(access) {
            return None;
        }
        Mapping::part(&entry.memory, offset, nbytes, access, None).ok()
    })
}
