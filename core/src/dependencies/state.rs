//! All that a tracker holds, and the steps that keep groups, pieces and entries together.

use core::mem;

use super::area::Area;
use super::argument::ArgumentSlot;
use super::backing::{Backings, FEW_TOMBSTONES, Kind};
use super::groups::{EntrySlot, Groups};
use super::lookup::{Found, STEPS};
use super::pool::{Memory, NONE, Pool};
use super::rest::Sight;
use super::tasks::Tasks;
use super::tree::{self, Node};
use super::{Policy, Storage};
use crate::keyed_hash::KeyedHash;

/// Everything.
#[derive(Debug)]
pub(super) struct State<M: Memory> {
    pub(super) nodes: Pool<M, Node>,
    pub(super) pieces: u32,
    pub(super) groups: Groups<M>,
    pub(super) entries: Pool<M, EntrySlot>,
    pub(super) backings: Backings<M>,
    pub(super) tasks: Tasks<M>,
    pub(super) found: Found<M>,
    pub(super) words: M::Of<u64>,
    pub(super) hash: KeyedHash,
    pub(super) policy: Policy,
    /// Groups so far.
    pub(super) sequence: u64,
    /// Submits so far.
    pub(super) stamp: u64,
    pub(super) inexact: u64,
    /// Pieces that the arguments of the current submit still need.
    pub(super) reserved: u32,
    /// Steps that the current write may still take to see what is left of others.
    pub(super) steps: u32,
}

impl<M: Memory> State<M> {
    pub(super) fn new(policy: Policy, hash: KeyedHash, storage: Storage<M>) -> (Self, M::Of<ArgumentSlot>) {
        let state = Self {
            nodes: Pool::new(storage.pieces),
            pieces: 0,
            groups: Groups::new(storage.groups, storage.group_buckets),
            entries: Pool::new(storage.entries),
            backings: Backings::new(storage.backings, storage.backing_buckets),
            tasks: Tasks::new(storage.tasks, storage.links),
            found: Found::new(storage.edges),
            words: storage.words,
            hash,
            policy,
            sequence: 0,
            stamp: 0,
            inexact: 0,
            reserved: 0,
            steps: 0,
        };
        (state, storage.arguments)
    }

    /// Writes wait too.
    #[inline]
    pub(super) const fn orders_writes(&self) -> bool {
        matches!(self.policy, Policy::Full)
    }

    /// Pieces that it can hold: a tree of them has as many inner nodes.
    pub(super) const fn piece_capacity(&self) -> u32 {
        self.nodes.capacity() >> 1
    }

    pub(super) const fn pieces_left(&self) -> u32 {
        self.piece_capacity().saturating_sub(self.pieces)
    }

    /// Pieces that nothing is about to need.
    pub(super) const fn spare_pieces(&self) -> u32 {
        self.pieces_left().saturating_sub(self.reserved)
    }

    pub(super) const fn entries_left(&self) -> u32 {
        let (entries, groups) = (self.entries.left(), self.groups.slots.left());
        if entries < groups { entries } else { groups }
    }

    /// Gives a group one more piece, of those that are left.
    #[inline]
    pub(super) fn add_piece(&mut self, group: u32, area: Area, shadowed: bool) {
        let Self { nodes, groups, entries, backings, .. } = self;
        let slot = groups.slots.at_mut(group);
        let writer = match slot.kind {
            Kind::Write => entries.at(slot.first_entry).task,
            Kind::Read => NONE,
        };
        let mut first = NONE;
        let leaf = nodes.take(|leaf| {
            first = mem::replace(&mut slot.first_piece, leaf);
            let mut piece = Node::leaf(area, group, writer);
            (piece.links, piece.shadowed) = ([NONE, first], shadowed);
            piece
        });
        if first != NONE {
            nodes.at_mut(first).links[0] = leaf;
        }
        let backing = backings.slots.at_mut(slot.backing);
        backing.shadowed = backing.shadowed.saturating_add(u32::from(shadowed));
        if let Some(plane) = backing.planes.get_mut(usize::from(slot.plane)) {
            tree::insert(nodes, plane.root_mut(slot.kind), leaf);
        }
        self.pieces = self.pieces.saturating_add(1);
    }

    /// Removes a piece, and its group with its entries when it was the last.
    pub(super) fn remove_piece(&mut self, leaf: u32) {
        let piece = self.nodes.at(leaf);
        let (group, [before, after], shadowed) = (piece.group(), piece.links, piece.shadowed);
        // Of what is left an equal view would get too little.
        self.groups.no_longer_whole(group);
        let slot = self.groups.slots.at_mut(group);
        let (number, plane, kind) = (slot.backing, slot.plane, slot.kind);
        if before == NONE {
            slot.first_piece = after;
        } else {
            self.nodes.at_mut(before).links[1] = after;
        }
        if after != NONE {
            self.nodes.at_mut(after).links[0] = before;
        }
        let backing = self.backings.slots.at_mut(number);
        backing.shadowed = backing.shadowed.saturating_sub(u32::from(shadowed));
        if let Some(plane) = backing.planes.get_mut(usize::from(plane)) {
            tree::remove(&mut self.nodes, plane.root_mut(kind), leaf);
        }
        self.nodes.give_back(leaf);
        self.pieces = self.pieces.saturating_sub(1);
        if before == NONE && after == NONE {
            self.remove_empty_group(group, number);
        }
    }

    fn remove_empty_group(&mut self, group: u32, backing: u32) {
        let mut entry = self.groups.slots.at(group).first_entry;
        if entry == NONE {
            self.leave_tombstones(group);
        }
        while entry != NONE {
            let next = self.entries.at(entry).in_group[1];
            self.leave_task(entry);
            self.entries.give_back(entry);
            entry = next;
        }
        self.groups.slots.give_back(group);
        self.backings.remove_group(backing);
    }

    /// Removes a group with its pieces and entries.
    pub(super) fn remove_group(&mut self, group: u32) {
        // The group goes with its last piece, and then reads as something else: so it is asked before.
        let mut leaf = self.groups.slots.at(group).first_piece;
        while leaf != NONE {
            let after = self.nodes.at(leaf).links[1];
            self.remove_piece(leaf);
            leaf = after;
        }
    }

    /// A live pair of a task and a group's view, the newest of both. The pieces of a write learn of it when they are added, or by
    /// [`take_over`](Self::take_over).
    #[inline]
    pub(super) fn add_entry(&mut self, task: u32, group: u32) {
        let Self { groups, entries, tasks, .. } = self;
        let (mut in_group, mut of_task) = (NONE, NONE);
        let entry = entries.take(|entry| {
            in_group = mem::replace(&mut groups.slots.at_mut(group).first_entry, entry);
            of_task = mem::replace(&mut tasks.slots.at_mut(task).first_entry, entry);
            EntrySlot { task, group, in_group: [NONE, in_group], of_task: [NONE, of_task] }
        });
        if in_group != NONE {
            entries.at_mut(in_group).in_group[0] = entry;
        }
        if of_task != NONE {
            entries.at_mut(of_task).of_task[0] = entry;
        }
    }

    fn leave_task(&mut self, entry: u32) {
        let EntrySlot { task, of_task: [before, after], .. } = *self.entries.at(entry);
        if before == NONE {
            self.tasks.slots.at_mut(task).first_entry = after;
        } else {
            self.entries.at_mut(before).of_task[1] = after;
        }
        if after != NONE {
            self.entries.at_mut(after).of_task[0] = before;
        }
    }

    /// Removes an entry and leaves its group without one, if it was the last.
    pub(super) fn remove_entry(&mut self, entry: u32) {
        self.leave_task(entry);
        let EntrySlot { group, in_group: [before, after], .. } = *self.entries.at(entry);
        if before == NONE {
            self.groups.slots.at_mut(group).first_entry = after;
        } else {
            self.entries.at_mut(before).in_group[1] = after;
        }
        if after != NONE {
            self.entries.at_mut(after).in_group[0] = before;
        }
        self.entries.give_back(entry);
    }

    /// A write without a task goes into the list of those that still hide bytes of others. Nothing of it needs to be hidden any
    /// longer, for it makes no edge.
    pub(super) fn enter_tombstones(&mut self, group: u32) {
        let mut leaf = self.groups.slots.at(group).first_piece;
        let backing = self.backings.slots.at_mut(self.groups.slots.at(group).backing);
        while leaf != NONE {
            let piece = self.nodes.at_mut(leaf);
            backing.shadowed = backing.shadowed.saturating_sub(u32::from(piece.shadowed));
            piece.shadowed = false;
            piece.set_writer(NONE);
            leaf = piece.links[1];
        }
        let first = backing.first_tombstone;
        backing.first_tombstone = group;
        backing.tombstones = backing.tombstones.saturating_add(1);
        self.groups.slots.at_mut(group).tombstones = [NONE, first];
        if first != NONE {
            self.groups.slots.at_mut(first).tombstones[0] = group;
        }
    }

    pub(super) fn leave_tombstones(&mut self, group: u32) {
        let slot = self.groups.slots.at(group);
        let [before, after] = slot.tombstones;
        let backing = self.backings.slots.at_mut(slot.backing);
        backing.tombstones = backing.tombstones.saturating_sub(1);
        if before == NONE {
            backing.first_tombstone = after;
        } else {
            self.groups.slots.at_mut(before).tombstones[1] = after;
        }
        if after != NONE {
            self.groups.slots.at_mut(after).tombstones[0] = before;
        }
    }

    /// Removes tombstones that hide nothing, when that is certain or worth its while.
    pub(super) fn tidy(&mut self, number: u32) {
        let backing = self.backings.slots.at(number);
        if backing.tombstones == 0 || (backing.shadowed > 0 && backing.tombstones < backing.sweep_at) {
            return;
        }
        let mut steps = STEPS;
        let mut group = backing.first_tombstone;
        while group != NONE {
            let next = self.groups.slots.at(group).tombstones[1];
            if !self.hides_something(group, &mut steps) {
                self.remove_group(group);
            }
            group = next;
        }
        let backing = self.backings.slots.at_mut(number);
        backing.sweep_at = backing.tombstones.saturating_mul(2).max(FEW_TOMBSTONES);
    }

    /// A write hides bytes of a piece that is older, as far as the steps allow to know.
    pub(super) fn hides_something(&self, group: u32, steps: &mut u32) -> bool {
        let write = self.groups.slots.at(group);
        let backing = self.backings.slots.at(write.backing);
        let sight = Sight { nodes: &self.nodes, groups: &self.groups.slots, backing };
        backing.shadowed > 0 && sight.hides_something(write, steps)
    }
}
