//! Backings: found by identity, each with its planes; and those without a live view, kept until their slot is needed.

use core::num::NonZeroU32;

use super::layout::ONE_ROW;
use super::pool::{Memory, NONE, Pool, Slot, index};
use super::table::{Chained, Table};
use crate::keyed_hash::KeyedHash;
use crate::wire::identity::{Identity, OwnerInstanceId};

/// Planes that hold areas: the first is home to all ranges.
pub(super) const PITCHES: usize = 4;
/// The plane of views that are neither ranges nor rows of one of the pitches: they lie in it by their bounds.
pub(super) const OTHER: usize = PITCHES;
const PLANES: usize = 5;

/// Whether something is read or written: which of a plane's two trees it lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Write,
    Read,
}

/// One way to lay a backing out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plane {
    /// 0 when it has not been used.
    pub(super) pitch: u64,
    pub(super) writes: u32,
    pub(super) reads: u32,
}

impl Plane {
    const UNUSED: Self = Self { pitch: 0, writes: NONE, reads: NONE };
    const ROW: Self = Self { pitch: ONE_ROW, ..Self::UNUSED };

    pub(super) const fn is_empty(&self) -> bool {
        self.writes == NONE && self.reads == NONE
    }

    #[inline]
    pub(super) const fn root(&self, kind: Kind) -> u32 {
        match kind {
            Kind::Write => self.writes,
            Kind::Read => self.reads,
        }
    }

    #[inline]
    pub(super) const fn root_mut(&mut self, kind: Kind) -> &mut u32 {
        match kind {
            Kind::Write => &mut self.writes,
            Kind::Read => &mut self.reads,
        }
    }
}

/// Some planes of a backing, one bit each, and as an iterator their numbers: nearly always there is one or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Planes(u8);

impl Planes {
    pub(super) const NONE: Self = Self(0);
}

impl Iterator for Planes {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let lowest = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (lowest < u8::BITS).then(|| index(lowest))
    }
}

/// Storage for one backing that live views name.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct BackingSlot {
    pub(super) identity: Identity,
    pub(super) nbytes: u64,
    /// The submit that last named it.
    stamp: u64,
    next_in_bucket: u32,
    /// Groups that lie in it.
    pub(super) groups: u32,
    pub(super) planes: [Plane; PLANES],
    /// Pieces of which bytes may have been written since.
    pub(super) shadowed: u32,
    /// Groups of writes without a task, which still hide bytes of others: a list and its length.
    pub(super) first_tombstone: u32,
    pub(super) tombstones: u32,
    /// So many of them make a sweep worth its while.
    pub(super) sweep_at: u32,
    /// Neighbours among those without a live view.
    older: u32,
    younger: u32,
}

/// Tombstones of a backing below which no sweep is worth its while.
pub(super) const FEW_TOMBSTONES: u32 = 16;

impl BackingSlot {
    /// A slot without a backing.
    pub const EMPTY: Self = Self::new(Identity::new(OwnerInstanceId([0; 8]), 0, NonZeroU32::MIN), 0, 0);

    const fn new(identity: Identity, nbytes: u64, stamp: u64) -> Self {
        Self {
            identity,
            nbytes,
            planes: [Plane::ROW, Plane::UNUSED, Plane::UNUSED, Plane::UNUSED, Plane::ROW],
            groups: 0,
            shadowed: 0,
            first_tombstone: NONE,
            tombstones: 0,
            sweep_at: FEW_TOMBSTONES,
            stamp,
            next_in_bucket: NONE,
            older: NONE,
            younger: NONE,
        }
    }

    /// The planes that have anything of that kind.
    #[inline]
    pub(super) fn planes_with(&self, kind: Kind) -> Planes {
        let bits = self.planes.iter().rev().map(|plane| u8::from(plane.root(kind) != NONE));
        Planes(bits.fold(0, |planes, bit| planes << 1 | bit))
    }

    #[inline]
    pub(super) fn plane(&self, plane: usize) -> &Plane {
        self.planes.get(plane).unwrap_or(&Plane::ROW)
    }
}

impl Slot for BackingSlot {
    const EMPTY: Self = Self::EMPTY;
    fn next_free(&self) -> u32 {
        self.younger
    }
    fn set_next_free(&mut self, slot: u32) {
        self.younger = slot;
    }
}

impl Chained for BackingSlot {
    fn next_in_bucket(&self) -> u32 {
        self.next_in_bucket
    }
    fn set_next_in_bucket(&mut self, slot: u32) {
        self.next_in_bucket = slot;
    }
}

/// All backings.
#[derive(Debug)]
pub(super) struct Backings<M: Memory> {
    pub(super) slots: Pool<M, BackingSlot>,
    table: Table<M>,
    oldest_idle: u32,
    youngest_idle: u32,
    idle: u32,
}

impl<M: Memory> Backings<M> {
    pub(super) fn new(slots: M::Of<BackingSlot>, buckets: M::Of<u32>) -> Self {
        let (slots, table) = (Pool::new(slots), Table::new(buckets));
        Self { slots, table, oldest_idle: NONE, youngest_idle: NONE, idle: 0 }
    }

    /// Backings that live views name.
    pub(super) const fn in_use(&self) -> u32 {
        self.slots.in_use().saturating_sub(self.idle)
    }

    #[inline]
    pub(super) fn find(&self, hash: &KeyedHash, identity: Identity) -> u32 {
        self.table.find(&self.slots, hash.identity(identity), |slot| slot.identity == identity)
    }

    /// The backing of that identity, from now on if need be; [`NONE`] when all slots have live views or are named by the same
    /// submit. One without live views tells nobody anything, so making one and forgetting another is no change of state.
    #[inline]
    pub(super) fn obtain(&mut self, hash: &KeyedHash, identity: Identity, nbytes: u64, stamp: u64) -> u32 {
        let found = self.find(hash, identity);
        if found == NONE {
            return self.make(hash, identity, nbytes, stamp);
        }
        let backing = self.slots.at_mut(found);
        backing.nbytes = backing.nbytes.max(nbytes);
        backing.stamp = stamp;
        found
    }

    #[cold]
    fn make(&mut self, hash: &KeyedHash, identity: Identity, nbytes: u64, stamp: u64) -> u32 {
        if self.slots.left() == 0 {
            // Those that this submit names are needed; they are no more than its arguments.
            let mut oldest = self.oldest_idle;
            while oldest != NONE && self.slots.at(oldest).stamp == stamp {
                oldest = self.slots.at(oldest).younger;
            }
            if oldest == NONE {
                return NONE;
            }
            self.forget(hash, oldest);
        }
        let slot = self.slots.take(|_| BackingSlot::new(identity, nbytes, stamp));
        self.table.insert(&mut self.slots, hash.identity(identity), slot);
        self.enter_idle(slot);
        slot
    }

    /// Forgets a backing without live views.
    pub(super) fn forget(&mut self, hash: &KeyedHash, slot: u32) {
        let identity = self.slots.at(slot).identity;
        self.leave_idle(slot);
        self.table.remove(&mut self.slots, hash.identity(identity), slot);
        self.slots.give_back(slot);
    }

    /// Counts a group that came.
    #[inline]
    pub(super) fn add_group(&mut self, slot: u32) {
        let backing = self.slots.at_mut(slot);
        let first = backing.groups == 0;
        backing.groups = backing.groups.saturating_add(1);
        if first {
            self.leave_idle(slot);
        }
    }

    /// Counts a group that went.
    #[inline]
    pub(super) fn remove_group(&mut self, slot: u32) {
        let backing = self.slots.at_mut(slot);
        backing.groups = backing.groups.saturating_sub(1);
        if backing.groups == 0 {
            self.enter_idle(slot);
        }
    }

    fn enter_idle(&mut self, slot: u32) {
        let before = self.youngest_idle;
        let backing = self.slots.at_mut(slot);
        (backing.older, backing.younger) = (before, NONE);
        *(if before == NONE { &mut self.oldest_idle } else { &mut self.slots.at_mut(before).younger }) = slot;
        self.youngest_idle = slot;
        self.idle = self.idle.saturating_add(1);
    }

    fn leave_idle(&mut self, slot: u32) {
        let BackingSlot { older, younger, .. } = *self.slots.at(slot);
        *(if older == NONE { &mut self.oldest_idle } else { &mut self.slots.at_mut(older).younger }) =
            younger;
        *(if younger == NONE { &mut self.youngest_idle } else { &mut self.slots.at_mut(younger).older }) =
            older;
        self.idle = self.idle.saturating_sub(1);
    }
}
