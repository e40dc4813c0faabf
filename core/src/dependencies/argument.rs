//! A task's arguments: as they are given, and as a submit keeps them.

use super::pool::NONE;
use super::rest::Shape;
use crate::overlap::Footprint;
use crate::rights::Tag;
use crate::view::View;
use crate::wire::identity::Identity;

/// One view that a task names.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// The backing.
    pub identity: Identity,
    /// Bytes of the backing.
    pub nbytes: u64,
    /// The bytes of it that the task touches.
    pub view: View,
    /// What it does with them.
    pub tag: Tag,
    /// The caller's order of backings: an edge that several cause is told by the lowest.
    pub rank: u32,
}

/// Storage for one argument of the task that is being submitted.
#[derive(Clone, Debug)]
pub struct ArgumentSlot {
    pub(super) shape: Shape,
    pub(super) backing: u32,
    pub(super) rank: u32,
    pub(super) reads: bool,
    pub(super) writes: bool,
}

impl ArgumentSlot {
    /// A slot without an argument.
    pub const EMPTY: Self = Self {
        shape: Shape { footprint: Footprint::single_run(0, 0), nested: true },
        backing: NONE,
        rank: 0,
        reads: false,
        writes: false,
    };

    #[inline]
    pub(super) fn new(argument: &Argument, backing: u32) -> Self {
        let view = &argument.view;
        let shape = if view.is_contiguous() {
            Shape { footprint: Footprint::single_run(view.byte_offset(), view.extent()), nested: true }
        } else {
            let footprint = Footprint::of(view);
            // One step is always larger than the run.
            Shape { footprint, nested: footprint.dimensions().len() <= 1 || footprint.is_nested() }
        };
        Self {
            shape,
            backing,
            rank: argument.rank,
            reads: argument.tag.reads(),
            writes: argument.tag.writes(),
        }
    }
}
