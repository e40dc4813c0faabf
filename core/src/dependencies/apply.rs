//! What a task changes: its reads are added, then its writes, which cut what they cover.

use super::area::Area;
use super::argument::ArgumentSlot;
use super::backing::{Kind, OTHER, PITCHES};
use super::groups::{GroupSlot, hash_of};
use super::layout::{Layout, ONE_ROW};
use super::lookup::STEPS;
use super::pool::{Memory, NONE};
use super::rest::{Shape, Sight};
use super::state::State;
use super::tree;
use crate::overlap::{self, FirstCommon, Relation};

/// Steps of a write's that may be taken to see whether anything is left of one piece that is overwritten again.
const STEPS_FOR_A_PIECE: u32 = 256;

/// Room that a home needs for every range in it when it is laid out anew: a piece becomes three.
const MORE_PIECES: u32 = 2;

impl<M: Memory> State<M> {
    /// Pieces that an argument needs at first, if its backing's home stays as it is.
    pub(super) fn pieces_needed(&self, argument: &ArgumentSlot) -> u32 {
        let footprint = &argument.shape.footprint;
        let pitch = match footprint.dimensions() {
            [] => self.backings.slots.at(argument.backing).plane(0).pitch,
            [rows] => rows.step,
            _ => ONE_ROW,
        };
        u32::try_from(Layout::of(footprint, pitch).areas().len()).unwrap_or(u32::MAX)
    }

    /// The task has read that argument.
    #[inline]
    pub(super) fn read(&mut self, argument: &ArgumentSlot, task: u32) {
        let footprint = &argument.shape.footprint;
        let hash = hash_of(&self.hash, argument.backing, Kind::Read, footprint);
        let group = self.groups.find(hash, argument.backing, Kind::Read, footprint);
        if group == NONE {
            self.add_group(argument, task, Kind::Read, hash);
        } else if self.newest_task(group) != task {
            self.add_entry(task, group);
        }
    }

    /// The task has written that argument.
    #[inline]
    pub(super) fn write(&mut self, argument: &ArgumentSlot, task: u32) {
        let footprint = &argument.shape.footprint;
        let hash = hash_of(&self.hash, argument.backing, Kind::Write, footprint);
        let equal = self.groups.find(hash, argument.backing, Kind::Write, footprint);
        self.steps = STEPS;
        self.cut_all(argument, Kind::Read);
        if equal == NONE {
            self.cut_all(argument, Kind::Write);
            self.add_group(argument, task, Kind::Write, hash);
        } else {
            // Nothing later overlaps it, and what is older has met those bytes before: only the task changes.
            self.take_over(equal, task);
        }
        self.tidy(argument.backing);
    }

    fn newest_task(&self, group: u32) -> u32 {
        self.entries.at(self.groups.slots.at(group).first_entry).task
    }

    fn take_over(&mut self, group: u32, task: u32) {
        let entry = self.groups.slots.at(group).first_entry;
        if entry == NONE {
            self.leave_tombstones(group);
        } else {
            self.remove_entry(entry);
        }
        self.add_entry(task, group);
        self.sequence = self.sequence.saturating_add(1);
        let group = self.groups.slots.at_mut(group);
        group.sequence = self.sequence;
        // A view that is still whole has three pieces at most.
        let mut leaf = group.first_piece;
        while leaf != NONE {
            let piece = self.nodes.at_mut(leaf);
            piece.set_writer(task);
            leaf = piece.links[1];
        }
    }

    fn add_group(&mut self, argument: &ArgumentSlot, task: u32, kind: Kind, hash: u64) {
        let Shape { footprint, nested } = &argument.shape;
        let number = argument.backing;
        let plane = self.home_of(argument);
        self.sequence = self.sequence.saturating_add(1);
        let sequence = self.sequence;
        let group = self.groups.insert(hash, || GroupSlot {
            footprint: *footprint,
            hash,
            sequence,
            backing: number,
            kind,
            plane: u8::try_from(plane).unwrap_or(0),
            whole: true,
            nested: *nested,
            ..GroupSlot::EMPTY
        });
        self.add_entry(task, group);
        self.backings.add_group(number);
        let pitch = self.backings.slots.at(number).plane(plane).pitch;
        for &area in Layout::of(footprint, pitch).areas() {
            self.add_piece(group, area, false);
            self.reserved = self.reserved.saturating_sub(1);
        }
    }

    /// The plane of an argument, made or laid out anew if need be.
    fn home_of(&mut self, argument: &ArgumentSlot) -> usize {
        let backing = self.backings.slots.at(argument.backing);
        let [pitch, home] = match argument.shape.footprint.dimensions() {
            [] => return 0,
            [rows] => [rows.step, backing.plane(0).pitch],
            _ => return OTHER,
        };
        if home == pitch {
            return 0;
        }
        if home == ONE_ROW || backing.plane(0).is_empty() {
            let leaves = [Kind::Write, Kind::Read]
                .map(|kind| tree::count_leaves(&self.nodes, backing.plane(0).root(kind)))
                .into_iter()
                .fold(0, u32::saturating_add);
            // The arguments of this submit that still come may be ranges too.
            let more = leaves.saturating_add(self.reserved).saturating_mul(MORE_PIECES);
            if self.spare_pieces() >= more {
                self.lay_out_anew(argument.backing, pitch);
                self.reserved = self.reserved.saturating_mul(MORE_PIECES.saturating_add(1));
                return 0;
            }
        }
        let planes = &mut self.backings.slots.at_mut(argument.backing).planes;
        let further = planes.iter_mut().enumerate().take(PITCHES).skip(1);
        match further.into_iter().min_by_key(|(_, plane)| (plane.pitch != pitch, !plane.is_empty())) {
            Some((number, plane)) if plane.pitch == pitch || plane.is_empty() => {
                plane.pitch = pitch;
                number
            }
            _ => OTHER,
        }
    }

    /// Lays the ranges of a backing out in rows of a pitch.
    fn lay_out_anew(&mut self, number: u32, pitch: u64) {
        let old = *self.backings.slots.at(number).plane(0);
        if let Some(plane) = self.backings.slots.at_mut(number).planes.first_mut() {
            plane.pitch = pitch;
        }
        for kind in [Kind::Write, Kind::Read] {
            let (mut root, mut new_root) = (old.root(kind), NONE);
            let mut done = NONE;
            while root != NONE {
                let leaf = tree::any_leaf(&self.nodes, root);
                tree::remove(&mut self.nodes, &mut root, leaf);
                self.nodes.at_mut(leaf).set_chain(done);
                done = leaf;
            }
            if let Some(plane) = self.backings.slots.at_mut(number).planes.first_mut() {
                *plane.root_mut(kind) = NONE;
            }
            let mut leaf = done;
            while leaf != NONE {
                let piece = self.nodes.at(leaf).clone();
                let range = super::layout::footprint(&piece.area, old.pitch);
                let layout = Layout::of(&range, pitch);
                if let [first, further @ ..] = layout.areas() {
                    self.nodes.at_mut(leaf).area = *first;
                    let root = match self.backings.slots.at_mut(number).planes.first_mut() {
                        Some(plane) => plane.root_mut(kind),
                        None => &mut new_root,
                    };
                    tree::insert(&mut self.nodes, root, leaf);
                    for &area in further {
                        self.add_piece(piece.group(), area, piece.shadowed);
                    }
                }
                leaf = piece.chain();
            }
        }
    }

    /// Cuts a write out of all that was read, or written, before.
    fn cut_all(&mut self, argument: &ArgumentSlot, kind: Kind) {
        for number in self.backings.slots.at(argument.backing).planes_with(kind) {
            let pitch = self.backings.slots.at(argument.backing).plane(number).pitch;
            let layout = Layout::of(&argument.shape.footprint, pitch);
            for &area in layout.areas() {
                // Cutting changes the tree, so what the write meets is noted first.
                let root = self.backings.slots.at(argument.backing).plane(number).root(kind);
                let mut leaf = tree::collect(&mut self.nodes, root, &area, NONE);
                let exact = layout.exact && number != OTHER;
                while leaf != NONE {
                    let next = self.nodes.at(leaf).chain();
                    self.cut(leaf, &argument.shape, exact.then_some(area));
                    leaf = next;
                }
            }
        }
    }

    /// Cuts a write out of one piece: by its area, if both have exact ones in the plane.
    fn cut(&mut self, leaf: u32, write: &Shape, area: Option<Area>) {
        let piece = self.nodes.at(leaf);
        if let Some(area) = &area {
            if area.contains(&piece.area) {
                self.remove_piece(leaf);
            } else {
                self.trim(leaf, area);
            }
            return;
        }
        let group = self.groups.slots.at(piece.group());
        let backing = self.backings.slots.at(group.backing);
        let sight = Sight { nodes: &self.nodes, groups: &self.groups.slots, backing };
        let shape = sight.shape(piece);
        match overlap::relate_within(&write.footprint, &shape.footprint, &mut self.steps) {
            Relation::Disjoint => {}
            Relation::Overlapping { covers: true } => self.remove_piece(leaf),
            Relation::Overlapping { covers: false } | Relation::MayOverlap => self.shadow(leaf),
        }
    }

    /// Cuts an area out of a piece that it meets and does not cover.
    fn trim(&mut self, leaf: u32, area: &Area) {
        let piece = self.nodes.at(leaf).clone();
        let mut rest = piece.area.without(area).into_iter().flatten();
        let Some(first) = rest.next() else { return };
        let further = u32::try_from(rest.clone().count()).unwrap_or(u32::MAX);
        if self.spare_pieces() < further {
            self.shadow(leaf);
            return;
        }
        self.groups.no_longer_whole(piece.group());
        tree::shrink(&mut self.nodes, leaf, first);
        for area in rest {
            self.add_piece(piece.group(), area, piece.shadowed);
        }
    }

    /// Some bytes of a piece are written, and it stays as it is; or goes, if it is seen that earlier writes hid the last.
    fn shadow(&mut self, leaf: u32) {
        let piece = self.nodes.at(leaf);
        let (number, shadowed) = (piece.group(), piece.shadowed);
        self.groups.no_longer_whole(number);
        let group = self.groups.slots.at(number);
        let (backing, is_tombstone) = (group.backing, group.first_entry == NONE);
        if shadowed || is_tombstone {
            if self.nothing_is_left(leaf) {
                self.remove_piece(leaf);
            }
        } else {
            self.nodes.at_mut(leaf).shadowed = true;
            let backing = self.backings.slots.at_mut(backing);
            backing.shadowed = backing.shadowed.saturating_add(1);
        }
    }

    /// Later writes are known to hide all of a piece.
    fn nothing_is_left(&mut self, leaf: u32) -> bool {
        let piece = self.nodes.at(leaf);
        let group = self.groups.slots.at(piece.group());
        let backing = self.backings.slots.at(group.backing);
        let sight = Sight { nodes: &self.nodes, groups: &self.groups.slots, backing };
        let shape = sight.shape(piece);
        let given = self.steps.min(STEPS_FOR_A_PIECE);
        let mut left = given;
        let first = sight.first_left(&shape, &shape, group.sequence, &mut left);
        self.steps = self.steps.saturating_sub(given.saturating_sub(left));
        first == FirstCommon::Nowhere
    }
}
