//! What a view must wait for: the live pieces that it meets, one edge for each task and hazard.

use core::cmp::Reverse;
use core::fmt;

use super::argument::ArgumentSlot;
use super::backing::{BackingSlot, Kind, OTHER, Planes};
use super::groups::EntrySlot;
use super::layout::{self, Layout};
use super::paint::{self, Maps, UsedUp};
use super::pool::{Memory, NONE, Pool, index};
use super::rest::{Shape, Sight};
use super::state::State;
use super::tasks::{Handle, TaskSlot, Tasks};
use super::tree::{self, Node, Search};
use crate::overlap::FirstCommon;
use crate::wire::identity::Identity;

/// In what way a task must wait for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hazard {
    /// It reads what the other wrote.
    ReadAfterWrite,
    /// It writes what the other wrote.
    WriteAfterWrite,
    /// It writes what the other read.
    WriteAfterRead,
}

impl Hazard {
    /// All three.
    pub const ALL: [Self; 3] = [Self::ReadAfterWrite, Self::WriteAfterWrite, Self::WriteAfterRead];

    /// What is waited for.
    #[inline]
    const fn kind(self) -> Kind {
        match self {
            Self::ReadAfterWrite | Self::WriteAfterWrite => Kind::Write,
            Self::WriteAfterRead => Kind::Read,
        }
    }

    /// Its place in [`ALL`](Self::ALL).
    #[inline]
    #[expect(clippy::as_conversions, reason = "the number of a variant")]
    const fn index(self) -> usize {
        self as usize
    }

    /// `raw`, `waw` or `war`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadAfterWrite => "raw",
            Self::WriteAfterWrite => "waw",
            Self::WriteAfterRead => "war",
        }
    }
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One task waits for another, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The task that is waited for.
    pub before: Handle,
    /// Its number.
    pub task: u64,
    /// In what way.
    pub hazard: Hazard,
    /// The backing that it is about, the one of lowest rank if there are several.
    pub identity: Identity,
    /// Its rank.
    pub rank: u32,
    /// The lowest byte of it that it is about.
    pub byte: u64,
}

impl Edge {
    /// What storage for edges can hold at first.
    pub const NONE: Self = Self {
        before: Handle { slot: NONE, stamp: 0 },
        task: 0,
        hazard: Hazard::ReadAfterWrite,
        identity: BackingSlot::EMPTY.identity,
        rank: 0,
        byte: 0,
    };
}

/// The edges of one submit, as they are found.
#[derive(Debug)]
pub(super) struct Found<M: Memory> {
    edges: M::Of<Edge>,
    len: u32,
    /// Tasks that have an edge.
    pub(super) tasks: u32,
    pub(super) is_full: bool,
}

impl<M: Memory> Found<M> {
    pub(super) const fn new(edges: M::Of<Edge>) -> Self {
        Self { edges, len: 0, tasks: 0, is_full: false }
    }

    pub(super) fn clear(&mut self) {
        (self.len, self.tasks, self.is_full) = (0, 0, false);
    }

    pub(super) fn capacity(&self) -> u32 {
        super::pool::count(self.edges.as_ref().len())
    }

    pub(super) fn edges(&self) -> &[Edge] {
        self.edges.as_ref().get(..index(self.len)).unwrap_or(&[])
    }

    /// Notes all tasks of a group, from its first entry on.
    #[inline]
    fn note_all(
        &mut self,
        entries: &Pool<M, EntrySlot>,
        tasks: &mut Tasks<M>,
        first_entry: u32,
        why: &Why,
        byte: u64,
    ) {
        let mut next = first_entry;
        while next != NONE {
            let entry = entries.at(next);
            self.note(&mut tasks.slots, entry.task, why, byte);
            next = entry.in_group[1];
        }
    }

    /// Notes that a task must be waited for, once for each hazard, with the lowest rank and byte.
    #[inline]
    fn note(&mut self, tasks: &mut Pool<M, TaskSlot>, slot: u32, why: &Why, byte: u64) {
        let task = tasks.at_mut(slot);
        if task.found_by != why.stamp {
            task.found_by = why.stamp;
            task.edges = [NONE; 3];
            self.tasks = self.tasks.saturating_add(1);
        }
        let Some(number) = task.edges.get_mut(why.hazard.index()) else { return };
        if *number == NONE {
            let Some(edge) = self.edges.as_mut().get_mut(index(self.len)) else {
                self.is_full = true;
                return;
            };
            *number = self.len;
            self.len = self.len.saturating_add(1);
            *edge = Edge {
                before: Handle { slot, stamp: task.stamp },
                task: task.number,
                hazard: why.hazard,
                identity: why.identity,
                rank: why.rank,
                byte,
            };
        } else if let Some(edge) = self.edges.as_mut().get_mut(index(*number))
            && (why.rank, byte) < (edge.rank, edge.byte)
        {
            (edge.identity, edge.rank, edge.byte) = (why.identity, why.rank, byte);
        }
    }
}

/// Why edges are looked for.
struct Why {
    stamp: u64,
    hazard: Hazard,
    identity: Identity,
    rank: u32,
}

/// Steps that the lookup of one argument may take for pieces that are not edges at once, before it gives the safe answer: one
/// for a piece that is looked at or a run that is walked, and those of the overlap test. At some 100 ns, 30 ms.
pub(super) const STEPS: u32 = 1 << 18;

/// Where the backing is small, it paints when it has taken so many.
const STEPS_BEFORE_PAINTING: u32 = 1 << 14;

impl<M: Memory> State<M> {
    /// Finds what one argument must wait for.
    #[inline]
    pub(super) fn look_up(&mut self, argument: &ArgumentSlot, stamp: u64) {
        let backing = self.backings.slots.at(argument.backing);
        let writes = backing.planes_with(Kind::Write);
        let waits_for_reads = argument.writes && self.orders_writes();
        let reads = if waits_for_reads { backing.planes_with(Kind::Read) } else { Planes::NONE };
        if writes != Planes::NONE || reads != Planes::NONE {
            self.look_up_in(argument, stamp, writes, reads);
        }
    }

    /// The same where those planes have anything.
    fn look_up_in(&mut self, argument: &ArgumentSlot, stamp: u64, writes: Planes, reads: Planes) {
        let backing = self.backings.slots.at(argument.backing);
        let paints_soon = backing.nbytes <= paint::SMALL && paint::fits(self.words.as_ref(), backing.nbytes);
        let mut steps = if paints_soon { STEPS_BEFORE_PAINTING } else { STEPS };
        let mut why =
            Why { stamp, hazard: Hazard::ReadAfterWrite, identity: backing.identity, rank: argument.rank };
        if argument.reads {
            self.find(argument, writes, &why, &mut steps);
        }
        if argument.writes && self.orders_writes() {
            why.hazard = Hazard::WriteAfterWrite;
            self.find(argument, writes, &why, &mut steps);
            why.hazard = Hazard::WriteAfterRead;
            self.find(argument, reads, &why, &mut steps);
        }
    }

    #[inline]
    fn find(&mut self, argument: &ArgumentSlot, planes: Planes, why: &Why, steps: &mut u32) {
        for number in planes {
            if !self.meet(argument, number, why, steps, None) {
                self.find_by_painting(argument, planes, why, steps);
                return;
            }
        }
    }

    #[cold]
    fn find_by_painting(&mut self, argument: &ArgumentSlot, planes: Planes, why: &Why, steps: &mut u32) {
        if let Err(newest) = self.paint(argument, why) {
            for number in planes {
                self.meet(argument, number, why, steps, Some(newest));
            }
        }
    }

    /// Notes the pieces that are met in one plane. Where it is not known whether anything is left of one, it gives the safe answer
    /// and counts it; or ends with `false`, if all can be painted instead. Where that was tried, it passes over those that are
    /// newer than `unpainted`.
    fn meet(
        &mut self,
        argument: &ArgumentSlot,
        number: usize,
        why: &Why,
        steps: &mut u32,
        unpainted: Option<u64>,
    ) -> bool {
        let Self { nodes, groups, backings, entries, tasks, found, words, inexact, .. } = self;
        let backing = backings.slots.at(argument.backing);
        let plane = backing.plane(number);
        let kind = why.hazard.kind();
        let root = plane.root(kind);
        let layout = Layout::of(&argument.shape.footprint, plane.pitch);
        let exact = layout.exact && number != OTHER;
        for area in layout.areas() {
            let mut search = Search::new(nodes, root, area);
            while let Some(piece) = search.next(nodes) {
                // A write without a task makes no edge.
                if (kind == Kind::Write && piece.writer() == NONE)
                    || unpainted.is_some_and(|newest| groups.slots.at(piece.group()).sequence > newest)
                {
                    continue;
                }
                let byte = if exact && !piece.shadowed {
                    layout::first_common_byte(area, &piece.area, plane.pitch)
                } else {
                    let sight = Sight { nodes, groups: &groups.slots, backing };
                    match first_common(&sight, &argument.shape, piece, steps) {
                        FirstCommon::Nowhere => continue,
                        FirstCommon::At(byte) => byte,
                        FirstCommon::NotBelow(byte) => {
                            if unpainted.is_none() && paint::fits(words.as_ref(), backing.nbytes) {
                                return false;
                            }
                            *inexact = inexact.saturating_add(1);
                            byte
                        }
                    }
                };
                match kind {
                    Kind::Write => found.note(&mut tasks.slots, piece.writer(), why, byte),
                    Kind::Read => {
                        let first_entry = groups.slots.at(piece.group()).first_entry;
                        found.note_all(entries, tasks, first_entry, why, byte);
                    }
                }
            }
        }
        true
    }

    /// Notes what is left of all pieces that are met: they are painted one by one, the newest first, and each write takes its
    /// bytes away from those that older ones may still have.
    ///
    /// # Errors
    /// More words would have to be painted than one lookup may: the number of the newest group that is not painted.
    fn paint(&mut self, argument: &ArgumentSlot, why: &Why) -> Result<(), u64> {
        let kind = why.hazard.kind();
        let Self { nodes, groups, backings, entries, tasks, found, words, .. } = self;
        let backing = backings.slots.at(argument.backing);
        let asked = &argument.shape.footprint;
        let mut maps = Maps::new(words.as_mut(), backing.nbytes, asked).map_err(|UsedUp| u64::MAX)?;
        let mut chain = NONE;
        for plane in &backing.planes {
            // One area, so that no piece is met twice.
            let area = Layout::of(asked, plane.pitch).hull();
            chain = tree::collect(nodes, plane.writes, &area, chain);
            if kind == Kind::Read {
                chain = tree::collect(nodes, plane.reads, &area, chain);
            }
        }
        chain = tree::sort_chain(nodes, chain, |piece| Reverse(groups.slots.at(piece.group()).sequence));
        let sight = Sight { nodes, groups: &groups.slots, backing };
        while chain != NONE && !maps.is_empty() {
            let piece = nodes.at(chain);
            let group = groups.slots.at(piece.group());
            let footprint = sight.shape(piece).footprint;
            let first = match group.kind {
                Kind::Write => maps.take(&footprint),
                Kind::Read => maps.look(&footprint),
            }
            .map_err(|UsedUp| group.sequence)?;
            if let Some(byte) = first.filter(|_| group.kind == kind) {
                found.note_all(entries, tasks, group.first_entry, why, byte);
            }
            chain = piece.chain();
        }
        Ok(())
    }
}

#[inline(never)]
fn first_common<M: Memory>(
    sight: &Sight<'_, M>,
    asked: &Shape,
    piece: &Node,
    steps: &mut u32,
) -> FirstCommon {
    sight.first_common(asked, piece, steps)
}
