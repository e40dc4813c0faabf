//! Groups: equal views of one kind share one, with its pieces. A write's group has one task, a read's the list of its readers.

use super::backing::Kind;
use super::pool::{Memory, NONE, Pool, Slot};
use super::table::{Chained, Table};
use crate::keyed_hash::KeyedHash;
use crate::overlap::{Dimension, Footprint};

/// Storage for one group of equal views: what a lookup needs of it is one line of a cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct GroupSlot {
    /// The newest first. None: a tombstone.
    pub(super) first_entry: u32,
    pub(super) first_piece: u32,
    /// When it was written, or first read: one more for every group.
    pub(super) sequence: u64,
    /// The hash under which it is found.
    pub(super) hash: u64,
    pub(super) backing: u32,
    pub(super) next_in_bucket: u32,
    /// Neighbours among the backing's tombstones.
    pub(super) tombstones: [u32; 2],
    pub(super) kind: Kind,
    pub(super) plane: u8,
    /// It is found by equal views: its pieces are all that it covers, and nothing of it has been written since.
    pub(super) whole: bool,
    /// The footprint is nested, so that its runs can be walked.
    pub(super) nested: bool,
    pub(super) footprint: Footprint,
}

impl GroupSlot {
    /// A slot without a group.
    pub const EMPTY: Self = Self {
        footprint: Footprint::single_run(0, 0),
        hash: 0,
        sequence: 0,
        backing: NONE,
        first_piece: NONE,
        first_entry: NONE,
        next_in_bucket: NONE,
        tombstones: [NONE; 2],
        kind: Kind::Write,
        plane: 0,
        whole: false,
        nested: true,
    };
}

impl Slot for GroupSlot {
    const EMPTY: Self = Self::EMPTY;
    fn next_free(&self) -> u32 {
        self.next_in_bucket
    }
    fn set_next_free(&mut self, slot: u32) {
        self.next_in_bucket = slot;
    }
}

impl Chained for GroupSlot {
    fn next_in_bucket(&self) -> u32 {
        self.next_in_bucket
    }
    fn set_next_in_bucket(&mut self, slot: u32) {
        self.next_in_bucket = slot;
    }
}

/// Storage for one live pair of task and view.
#[derive(Clone, Debug)]
pub struct EntrySlot {
    pub(super) task: u32,
    pub(super) group: u32,
    /// The entries before and after it in its group.
    pub(super) in_group: [u32; 2],
    /// The entries before and after it of its task.
    pub(super) of_task: [u32; 2],
}

impl EntrySlot {
    /// A slot without an entry.
    pub const EMPTY: Self = Self { task: NONE, group: NONE, in_group: [NONE; 2], of_task: [NONE; 2] };
}

impl Slot for EntrySlot {
    const EMPTY: Self = Self::EMPTY;
    fn next_free(&self) -> u32 {
        self.group
    }
    fn set_next_free(&mut self, slot: u32) {
        self.group = slot;
    }
}

/// All groups, and the table that finds those that are whole.
#[derive(Debug)]
pub(super) struct Groups<M: Memory> {
    pub(super) slots: Pool<M, GroupSlot>,
    table: Table<M>,
}

impl<M: Memory> Groups<M> {
    pub(super) fn new(slots: M::Of<GroupSlot>, buckets: M::Of<u32>) -> Self {
        Self { slots: Pool::new(slots), table: Table::new(buckets) }
    }

    /// The whole group of equal views; [`NONE`] when there is none.
    #[inline]
    pub(super) fn find(&self, hash: u64, backing: u32, kind: Kind, footprint: &Footprint) -> u32 {
        self.table.find(&self.slots, hash, |group| {
            group.hash == hash
                && group.backing == backing
                && group.kind == kind
                && is_same(&group.footprint, footprint)
        })
    }

    /// A new group, found from now on under that hash, which it has.
    #[inline]
    pub(super) fn insert(&mut self, hash: u64, group: impl FnOnce() -> GroupSlot) -> u32 {
        let slot = self.slots.take(|_| group());
        self.table.insert(&mut self.slots, hash, slot);
        slot
    }

    /// From now on equal views have a group of their own.
    pub(super) fn no_longer_whole(&mut self, slot: u32) {
        let group = self.slots.at_mut(slot);
        if group.whole {
            group.whole = false;
            let hash = group.hash;
            self.table.remove(&mut self.slots, hash, slot);
        }
    }
}

#[inline]
fn is_same(a: &Footprint, b: &Footprint) -> bool {
    a.origin() == b.origin() && a.run() == b.run() && a.dimensions() == b.dimensions()
}

/// Under what a group is found.
#[inline]
pub(super) fn hash_of(hash: &KeyedHash, backing: u32, kind: Kind, footprint: &Footprint) -> u64 {
    let kind = match kind {
        Kind::Write => 0,
        Kind::Read => 1_u64 << 32,
    };
    let seed = hash.words(u64::from(backing) | kind, footprint.origin(), footprint.run());
    footprint.dimensions().iter().fold(seed, |sum, &Dimension { step, count }| hash.words(sum, step, count))
}
