//! What is live in a device's memory: the ranges that its host gave out, and the identities that lie in them.

use bufabi_core::import_table::{ImportBucket, ImportSlot, ImportTable, InsertRefusal, Lookup};
use bufabi_core::region::Part;
use bufabi_core::wire::body::Body;
use bufabi_core::{Access, Code, Descriptor, KeyedHash, RawDescriptor};
use heapless::Vec;

/// Where an identity's bytes are, and what its owner grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backing {
    /// The first byte's address.
    pub address: u64,
    /// Bytes.
    pub nbytes: u64,
    /// What the owner grants.
    pub access: Access,
}

impl Backing {
    /// `nbytes` bytes from `address` on all lie in it.
    #[must_use]
    pub fn holds(&self, address: u64, nbytes: u64) -> bool {
        let offset = address.checked_sub(self.address);
        offset.and_then(|offset| self.nbytes.checked_sub(offset)).is_some_and(|room| nbytes <= room)
    }
}

/// The table of a device's live memory: at most `ALLOCATIONS` ranges, and `IMPORTS` identities in `BUCKETS`
/// ([`ImportBucket::count_for`]) that are remembered.
///
/// The ranges come from the host, which alone knows whether an identity is live; what is checked here is that every byte which a
/// task can reach lies in one range that is, and that an identity always comes with one descriptor, at one address.
#[derive(Debug)]
pub struct LiveMemory<const ALLOCATIONS: usize, const IMPORTS: usize, const BUCKETS: usize> {
    heap: Part,
    /// In the order of their addresses, apart from one another.
    allocations: Vec<Part, ALLOCATIONS>,
    imports: ImportTable<Backing, [ImportSlot<Backing>; IMPORTS], [ImportBucket; BUCKETS]>,
}

impl<const ALLOCATIONS: usize, const IMPORTS: usize, const BUCKETS: usize>
    LiveMemory<ALLOCATIONS, IMPORTS, BUCKETS>
{
    /// A heap of which nothing was given out.
    #[must_use]
    pub fn new(heap: Part, seed: [u64; 2]) -> Self {
        let slots = [const { ImportSlot::EMPTY }; IMPORTS];
        let imports = ImportTable::new(KeyedHash::new(seed), slots, [ImportBucket::EMPTY; BUCKETS]);
        Self { heap, allocations: Vec::new(), imports }
    }

    /// Takes note of a range that was given out.
    ///
    /// # Errors
    /// [`Code::DeviceAllocation`] when it is empty, not all of the heap, or not apart from the others;
    /// [`Code::DeviceAllocationsFull`].
    pub fn allocate(&mut self, range: Part) -> Result<(), Code> {
        let heap = Backing { address: self.heap.base, nbytes: self.heap.nbytes, access: Access::ReadWrite };
        if range.nbytes == 0 || !heap.holds(range.base, range.nbytes) {
            return Err(Code::DeviceAllocation);
        }
        // All of them lie in the heap, whose end does not wrap.
        let end = |part: &Part| part.base.saturating_add(part.nbytes);
        let place = self.allocations.partition_point(|other| other.base < range.base);
        let before = place.checked_sub(1).and_then(|before| self.allocations.get(before));
        let behind = self.allocations.get(place);
        if before.is_some_and(|before| end(before) > range.base)
            || behind.is_some_and(|behind| end(&range) > behind.base)
        {
            return Err(Code::DeviceAllocation);
        }
        if self.allocations.is_full() {
            return Err(Code::DeviceAllocationsFull);
        }
        let mut moved = range;
        self.allocations.iter_mut().skip(place).for_each(|slot| core::mem::swap(slot, &mut moved));
        self.allocations.push(moved).map_err(|_| Code::DeviceAllocationsFull)
    }

    /// Forgets a range, and every identity that lies in it.
    ///
    /// # Errors
    /// [`Code::DeviceAllocation`] when none starts there.
    pub fn free(&mut self, address: u64) -> Result<(), Code> {
        let place = self.allocations.binary_search_by_key(&address, |range| range.base);
        let place = place.map_err(|_| Code::DeviceAllocation)?;
        let mut range = self.allocations.pop().ok_or(Code::DeviceAllocation)?;
        self.allocations.iter_mut().skip(place).rev().for_each(|slot| core::mem::swap(slot, &mut range));
        let freed = Backing { address: range.base, nbytes: range.nbytes, access: Access::ReadWrite };
        // What fails stays: an import goes when its address is one that is gone.
        let stays = |backing: &Backing| if freed.holds(backing.address, 1) { Ok(()) } else { Err(()) };
        let _ = self.imports.close(|_, backing| stays(backing));
        Ok(())
    }

    /// Where the bytes behind a descriptor are, if they are where the host says.
    ///
    /// # Errors
    /// [`Code::NotResolvable`] for a backing that no device resolves; [`Code::ImportConflict`] when the descriptor is another one
    /// than its identity came with before, or says itself that it is elsewhere; [`Code::DeviceAllocation`] when not all of its
    /// bytes lie in one range that is live.
    pub fn resolve(
        &mut self,
        descriptor: &Descriptor<&RawDescriptor>,
        address: u64,
    ) -> Result<Backing, Code> {
        match self.imports.find(descriptor) {
            Lookup::Hit(_, &backing) if backing.address == address => return Ok(backing),
            Lookup::Hit(..) | Lookup::Conflict(_) => return Err(Code::ImportConflict),
            Lookup::Vacant => {}
        }
        match descriptor.body() {
            Body::DeviceMalloc { base } | Body::VmmWindow { base } if base.get() != address => {
                return Err(Code::ImportConflict);
            }
            Body::RemoteSidecar { .. } => return Err(Code::NotResolvable),
            // A copy of the host's that it put here.
            Body::ForkShm { .. }
            | Body::PosixShm { .. }
            | Body::ForkCow { .. }
            | Body::VmmShareable { .. }
            | Body::DeviceMalloc { .. }
            | Body::VmmWindow { .. } => {}
        }
        let backing = Backing { address, nbytes: descriptor.nbytes(), access: descriptor.access() };
        let before = self.allocations.partition_point(|range| range.base <= address).checked_sub(1);
        let range = before.and_then(|before| self.allocations.get(before)).ok_or(Code::DeviceAllocation)?;
        let live = Backing { address: range.base, nbytes: range.nbytes, access: Access::ReadWrite };
        if !live.holds(address, backing.nbytes) {
            return Err(Code::DeviceAllocation);
        }
        if let Err(refused) = self.imports.insert(descriptor, backing)
            && matches!(refused.refusal, InsertRefusal::Full { .. } | InsertRefusal::Crowded { .. })
            && self.imports.evict().is_some()
        {
            // It is remembered now, or was at least seen to be right.
            let _ = self.imports.insert(descriptor, backing);
        }
        Ok(backing)
    }
}

#[cfg(test)]
mod tests {
    use core::num::{NonZeroU32, NonZeroU64};

    use bufabi_core::wire::body::ShmName;
    use bufabi_core::wire::descriptor::DescriptorFields;
    use bufabi_core::{Identity, OwnerInstanceId};

    use super::*;

    type Live = LiveMemory<3, 2, { ImportBucket::count_for(2) }>;

    fn live() -> Live {
        LiveMemory::new(Part { base: 1000, nbytes: 1000 }, [1, 2])
    }

    fn descriptor(buffer_id: u64, nbytes: u64, body: Body) -> Descriptor {
        let identity = Identity::new(OwnerInstanceId([7; 8]), buffer_id, NonZeroU32::MIN);
        let fields =
            DescriptorFields { identity, access: Access::Read, nbytes, owner_worker_path_id: 0, body };
        Descriptor::new(&fields).unwrap()
    }

    fn on_the_device(buffer_id: u64, nbytes: u64, base: u64) -> Descriptor {
        descriptor(buffer_id, nbytes, Body::DeviceMalloc { base: NonZeroU64::new(base).unwrap() })
    }

    fn staged(buffer_id: u64, nbytes: u64) -> Descriptor {
        descriptor(buffer_id, nbytes, Body::PosixShm { name: ShmName::new("x").unwrap() })
    }

    fn resolve(live: &mut Live, descriptor: &Descriptor, address: u64) -> Result<u64, Code> {
        let raw = *descriptor.raw();
        live.resolve(&Descriptor::from_raw(&raw).unwrap(), address).map(|backing| backing.address)
    }

    #[test]
    fn ranges_lie_in_the_heap_apart_from_one_another_and_are_freed_by_their_address() {
        let mut live = live();
        let mut allocate = |base, nbytes| live.allocate(Part { base, nbytes });
        let refused = Err(Code::DeviceAllocation);
        assert_eq!(allocate(999, 5), refused);
        assert_eq!(allocate(1000, 1001), refused);
        assert_eq!(allocate(1000, 0), refused);
        assert_eq!(allocate(u64::MAX, 2), refused);
        assert_eq!(allocate(1500, 100), Ok(()));
        assert_eq!(allocate(1599, 1), refused);
        assert_eq!(allocate(1499, 2), refused);
        assert_eq!(allocate(1400, 300), refused);
        assert_eq!(allocate(1600, 400), Ok(()));
        assert_eq!(allocate(1000, 500), Ok(()));
        assert_eq!(live.free(1001), refused);
        assert_eq!(live.free(1500), Ok(()));
        assert_eq!(live.free(1500), refused);
        let mut allocate = |base, nbytes| live.allocate(Part { base, nbytes });
        assert_eq!(allocate(1500, 1), Ok(()));
        assert_eq!(allocate(1501, 1), Err(Code::DeviceAllocationsFull));
    }

    #[test]
    fn an_identity_is_at_one_address_in_one_live_range_and_goes_with_it() {
        let mut live = live();
        live.allocate(Part { base: 1100, nbytes: 100 }).unwrap();
        live.allocate(Part { base: 1200, nbytes: 100 }).unwrap();
        let found = on_the_device(1, 100, 1200);
        assert_eq!(resolve(&mut live, &found, 1200), Ok(1200));
        assert_eq!(resolve(&mut live, &found, 1200), Ok(1200));
        assert_eq!(resolve(&mut live, &found, 1100), Err(Code::ImportConflict), "it says where it is itself");
        let changed = on_the_device(1, 99, 1200);
        assert_eq!(resolve(&mut live, &changed, 1200), Err(Code::ImportConflict));
        // Two ranges that touch are still two.
        assert_eq!(resolve(&mut live, &on_the_device(2, 101, 1199), 1199), Err(Code::DeviceAllocation));
        assert_eq!(resolve(&mut live, &on_the_device(2, 10, 1050), 1050), Err(Code::DeviceAllocation));
        assert_eq!(resolve(&mut live, &on_the_device(2, 10, 999), 999), Err(Code::DeviceAllocation));
        let copy = staged(3, 50);
        assert_eq!(resolve(&mut live, &copy, 1110), Ok(1110));
        assert_eq!(resolve(&mut live, &copy, 1120), Err(Code::ImportConflict), "one identity, one address");
        live.free(1100).unwrap();
        assert_eq!(resolve(&mut live, &copy, 1110), Err(Code::DeviceAllocation));
        assert_eq!(resolve(&mut live, &copy, 1210), Ok(1210), "copied anew, to another place");
        assert_eq!(resolve(&mut live, &found, 1200), Ok(1200), "its own range is there still");
        let elsewhere = Body::RemoteSidecar { address_space: bufabi_core::wire::backend::AddressSpace::Host };
        assert_eq!(resolve(&mut live, &descriptor(4, 1, elsewhere), 1200), Err(Code::NotResolvable));
    }

    #[test]
    fn more_identities_than_are_remembered_are_resolved_all_the_same() {
        let mut live = live();
        live.allocate(Part { base: 1000, nbytes: 1000 }).unwrap();
        for round in 0..2 {
            for buffer_id in 1..9_u64 {
                let address = buffer_id.wrapping_mul(100).wrapping_add(1000);
                assert_eq!(resolve(&mut live, &staged(buffer_id, 100), address), Ok(address), "{round}");
            }
        }
    }
}
