//! Memory that processes inherit over a fork: a table of it, which they inherit with it.
//!
//! A descriptor of FORK_SHM or FORK_COW carries an address. It means something only in a process that is descended, by forks
//! without exec, from the one that mapped the memory, and only if the fork came after the mapping. So the owner enters what
//! it maps into a table of its process; a fork copies the table as it was at that moment, and exec loses it.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bufabi_core::{Access, Descriptor, OwnerInstanceId};

use super::mapping::Mapping;
use crate::sys::OsError;
use crate::sys::process::current_pid;

/// What a process and its forks have of the same memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
static REGIONS: RwLock<Regions> = RwLock::new(Regions { entries: BTreeMap::new(), longest: 0 });
/// Tells the regions of this process apart.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Where a region lies in the table: those of one owner and kind in the order of their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    owner: [u8; 8],
    sharing: Sharing,
    base: u64,
    /// Several can start at one address: parts of memory that is there already.
    number: u64,
}

struct Entry {
    memory: Arc<Mapping>,
    ledger: Option<Arc<dyn Ledger>>,
}

struct Regions {
    entries: BTreeMap<Key, Entry>,
    /// Bytes of the longest region that there ever was: none that starts so far before an address holds it.
    longest: u64,
}

impl Regions {
    /// The regions that may hold what lies at `base`, the nearest first.
    fn before(
        &self,
        owner: OwnerInstanceId,
        sharing: Sharing,
        base: u64,
    ) -> impl Iterator<Item = (u64, &Entry)> {
        let key = |base, number| Key { owner: owner.0, sharing, base, number };
        let range = key(base.saturating_sub(self.longest), 0)..=key(base, u64::MAX);
        self.entries.range(range).rev().map(|(key, entry)| (key.base, entry))
    }
}

/// Memory of one owner that every process forked from now on finds at the same address. It is in the table until this is dropped,
/// and in those processes for ever.
#[derive(Debug)]
pub struct InheritedRegion {
    key: Key,
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
        let key = Key { owner: owner.0, sharing, base: memory.address(), number };
        let entry = Entry { memory: Arc::clone(&memory), ledger };
        let mut regions = REGIONS.write().unwrap_or_else(PoisonError::into_inner);
        regions.longest = regions.longest.max(memory.nbytes());
        regions.entries.insert(key, entry);
        drop(regions);
        Self { key, memory, creator: current_pid() }
    }

    /// Whose it is.
    #[must_use]
    pub const fn owner(&self) -> OwnerInstanceId {
        OwnerInstanceId(self.key.owner)
    }

    /// What forks have of it.
    #[must_use]
    pub const fn sharing(&self) -> Sharing {
        self.key.sharing
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
            regions.entries.remove(&self.key);
        }
    }
}

/// What a descriptor names at `base`, if this process has inherited it, or mapped it itself for its forks. The owner's forks
/// have its bytes for no more than `access`.
pub(crate) fn find(descriptor: &Descriptor, base: u64, sharing: Sharing, access: Access) -> Option<Mapping> {
    let owner = descriptor.identity().owner_instance_id();
    let nbytes = usize::try_from(descriptor.nbytes()).ok()?;
    let regions = REGIONS.read().unwrap_or_else(PoisonError::into_inner);
    regions.before(owner, sharing, base).find_map(|(start, entry)| {
        let offset = usize::try_from(base.checked_sub(start)?).ok()?;
        if entry.ledger.as_ref().is_some_and(|ledger| !ledger.agrees(descriptor, offset)) {
            return None;
        }
        if !entry.memory.access().grants(access) {
            return None;
        }
        Mapping::part(&entry.memory, offset, nbytes, access, None).ok()
    })
}

#[cfg(test)]
mod tests {
    use core::num::{NonZeroU32, NonZeroU64};
    use core::ptr::NonNull;
    use std::sync::atomic::AtomicU8;

    use bufabi_core::Identity;
    use bufabi_core::wire::body::Body;
    use bufabi_core::wire::descriptor::DescriptorFields;

    use super::*;

    fn descriptor(base: u64, nbytes: u64) -> Descriptor {
        let identity = Identity::new(OwnerInstanceId([9; 8]), 1, NonZeroU32::MIN);
        let body = Body::ForkCow { base: NonZeroU64::new(base).unwrap() };
        let fields =
            DescriptorFields { identity, access: Access::Read, nbytes, owner_worker_path_id: 0, body };
        Descriptor::new(&fields).unwrap()
    }

    #[test]
    fn memory_that_was_there_before_is_found_until_its_region_is_gone_and_kept_as_long_as_it_is_used() {
        let bytes: Arc<[AtomicU8]> = (0..100).map(AtomicU8::new).collect();
        let base = NonNull::from(&*bytes).cast();
        let keeper = Box::new(Arc::clone(&bytes));
        // SAFETY: the bytes are the keeper's too, no fork gives its copy of them back, and a cell that is atomic may be stored to.
        let memory = unsafe { Mapping::of_memory(base, 100, Access::Read, keeper) };
        let region = InheritedRegion::of_memory(OwnerInstanceId([9; 8]), memory, Sharing::Copied);
        let start = region.memory().address();
        let found = |nbytes| {
            let descriptor = descriptor(start + 10, nbytes);
            find(&descriptor, start + 10, Sharing::Copied, Access::Read)
        };
        assert!(found(91).is_none(), "a byte more than there is");
        assert!(find(&descriptor(start, 1), start, Sharing::Shared, Access::Read).is_none());
        assert!(find(&descriptor(start, 1), start, Sharing::Copied, Access::Write).is_none());
        let part = found(90).unwrap();
        let mut byte = [0];
        part.read(89, &mut byte).unwrap();
        assert_eq!(byte, [99]);
        drop(region);
        assert!(found(90).is_none());
        assert_eq!(Arc::strong_count(&bytes), 2, "a part of it is in use");
        drop(part);
        assert_eq!(Arc::strong_count(&bytes), 1);
    }
    #[test]
    fn among_many_regions_each_is_found_in_its_place_and_one_around_others_behind_them() {
        // Large enough that whatever looks at all of them each time hangs.
        const COUNT: usize = 20_000;
        let bytes: Arc<[AtomicU8]> = (0..COUNT + 2).map(|_| AtomicU8::new(0)).collect();
        let region = |start: usize, nbytes| {
            let base = NonNull::from(&bytes[start..]).cast();
            let keeper = Box::new(Arc::clone(&bytes));
            // SAFETY: as above; the bytes lie within those of the keeper.
            let memory = unsafe { Mapping::of_memory(base, nbytes, Access::Read, keeper) };
            InheritedRegion::of_memory(OwnerInstanceId([8; 8]), memory, Sharing::Copied)
        };
        let whole = region(0, COUNT + 2);
        let ones: Vec<_> = (1..=COUNT).map(|start| region(start, 1)).collect();
        let found = |start: u64, nbytes| {
            let mut fields = descriptor(start, nbytes).fields();
            fields.identity = Identity::new(OwnerInstanceId([8; 8]), 1, NonZeroU32::MIN);
            find(&Descriptor::new(&fields).unwrap(), start, Sharing::Copied, Access::Read)
        };
        let start = whole.memory().address();
        for one in &ones {
            assert_eq!(
                found(one.memory().address(), 1).map(|part| part.address()),
                Some(one.memory().address())
            );
        }
        assert_eq!(found(start + 7, 9).map(|part| part.nbytes()), Some(9), "only the whole holds that");
        drop(whole);
        assert!(found(start + 7, 9).is_none());
        assert!(found(start + 7, 1).is_some());
        drop(ones);
        assert!(found(start + 7, 1).is_none());
        assert_eq!(Arc::strong_count(&bytes), 1);
    }
}
