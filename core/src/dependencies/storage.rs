//! The slots that a tracker works in: how many of what, and how to have them.

use core::fmt;

use super::argument::ArgumentSlot;
use super::backing::BackingSlot;
use super::groups::{EntrySlot, GroupSlot};
use super::lookup::Edge;
use super::pool::Memory;
use super::tasks::{LinkSlot, TaskSlot};
use super::tree::Node;

/// What a tracker is lent or given. The number of each is a capacity.
#[derive(Debug)]
pub struct Storage<M: Memory> {
    /// Tasks that have not been retired.
    pub tasks: M::Of<TaskSlot>,
    /// Tasks that wait for others, counted once for each of those: the fan-out of all tasks together.
    pub links: M::Of<LinkSlot>,
    /// Live pairs of a task and a view.
    pub entries: M::Of<EntrySlot>,
    /// Views that differ: as many as entries, and more if tasks are retired before those that they wait for.
    pub groups: M::Of<GroupSlot>,
    /// For the table that finds groups: as many as groups, rounded up to a power of two.
    pub group_buckets: M::Of<u32>,
    /// Two for each piece. A range or a tile is one piece, at times two or three. What is more is for the pieces into which
    /// writes cut others; without them, those are found by more steps.
    pub pieces: M::Of<Node>,
    /// Backings with live views.
    pub backings: M::Of<BackingSlot>,
    /// For the table that finds backings: as many as backings, rounded up to a power of two.
    pub backing_buckets: M::Of<u32>,
    /// Arguments of one submit.
    pub arguments: M::Of<ArgumentSlot>,
    /// Edges of one submit: the fan-in, counted for each hazard.
    pub edges: M::Of<Edge>,
    /// Bit maps for views of odd shapes: [`Storage::words_for`] the largest backing in which such views are told apart to the
    /// byte even where others were written over them. None are needed for ranges and tiles.
    pub words: M::Of<u64>,
}

/// Memory that can be had by asking, as a host's heap.
pub trait Allocate: Memory {
    /// So many of that value.
    fn filled<T: Clone + fmt::Debug + 'static>(value: T, len: usize) -> Self::Of<T>;
}

/// How much of everything a tracker shall hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacities {
    /// Tasks that have not been retired.
    pub tasks: usize,
    /// Tasks that wait for others, counted once for each of those.
    pub links: usize,
    /// Live pairs of a task and a view.
    pub entries: usize,
    /// Pieces; at least one for each entry.
    pub pieces: usize,
    /// Backings with live views.
    pub backings: usize,
    /// Arguments of one submit.
    pub arguments: usize,
    /// Edges of one submit.
    pub edges: usize,
    /// Bytes of the largest backing in which views of any shape are told apart to the byte; 0 if there are only ranges and
    /// tiles.
    pub odd_nbytes: usize,
}

impl Capacities {
    /// For so many tasks of a few arguments each, on so many backings.
    #[must_use]
    pub const fn for_tasks(tasks: usize, backings: usize) -> Self {
        let entries = tasks.saturating_mul(4);
        Self {
            tasks,
            links: tasks.saturating_mul(8),
            entries,
            pieces: entries.saturating_mul(4),
            backings,
            arguments: 256,
            edges: 1024,
            odd_nbytes: 1 << 16,
        }
    }
}

impl<M: Allocate> Storage<M> {
    /// Storage for that much.
    #[must_use]
    pub fn allocate(capacities: &Capacities) -> Self {
        let buckets = |slots: usize| slots.checked_next_power_of_two().unwrap_or(slots);
        Self {
            tasks: M::filled(TaskSlot::EMPTY, capacities.tasks),
            links: M::filled(LinkSlot::EMPTY, capacities.links),
            entries: M::filled(EntrySlot::EMPTY, capacities.entries),
            groups: M::filled(GroupSlot::EMPTY, capacities.entries),
            group_buckets: M::filled(0, buckets(capacities.entries)),
            pieces: M::filled(Node::EMPTY, capacities.pieces.saturating_mul(2)),
            backings: M::filled(BackingSlot::EMPTY, capacities.backings),
            backing_buckets: M::filled(0, buckets(capacities.backings)),
            arguments: M::filled(ArgumentSlot::EMPTY, capacities.arguments),
            edges: M::filled(Edge::NONE, capacities.edges),
            words: M::filled(0, Self::words_for(capacities.odd_nbytes)),
        }
    }
}

impl<M: Memory> Storage<M> {
    /// Words of bit maps that backings of so many bytes need.
    #[must_use]
    pub const fn words_for(nbytes: usize) -> usize {
        nbytes.div_ceil(64).saturating_mul(2)
    }
}
