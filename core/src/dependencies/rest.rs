//! What is left of a piece that later writes may have hidden: the lowest byte that a view still has in common with it.

use super::backing::{BackingSlot, Kind, OTHER};
use super::groups::GroupSlot;
use super::layout::{self, Layout};
use super::pool::{Memory, NONE, Pool};
use super::tree::{Node, Search};
use crate::overlap::{self, FirstCommon, Footprint};

/// A view's bytes, and whether its runs can be walked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) footprint: Footprint,
    pub(super) nested: bool,
}

/// One backing, to look at.
#[derive(Debug)]
pub(super) struct Sight<'a, M: Memory> {
    pub(super) nodes: &'a Pool<M, Node>,
    pub(super) groups: &'a Pool<M, GroupSlot>,
    pub(super) backing: &'a BackingSlot,
}

/// What is common at a byte, and from where to where.
enum Cover {
    /// Written by that group, up to this byte.
    Hidden {
        group: u32,
        end: u64,
    },
    /// Not written since.
    Visible,
    Unknown,
}

impl<M: Memory> Sight<'_, M> {
    /// The bytes of a piece.
    pub(super) fn shape(&self, piece: &Node) -> Shape {
        let group = self.groups.at(piece.group());
        let plane = usize::from(group.plane);
        if plane == OTHER {
            return Shape { footprint: group.footprint, nested: group.nested };
        }
        let footprint = layout::footprint(&piece.area, self.backing.plane(plane).pitch);
        Shape { footprint, nested: true }
    }

    /// The lowest byte that a view has in common with a piece, and that nobody wrote after it.
    pub(super) fn first_common(&self, asked: &Shape, piece: &Node, steps: &mut u32) -> FirstCommon {
        let shape = self.shape(piece);
        if piece.shadowed {
            // No more than half of what is left, so that one piece does not take them all from the others.
            let mut left = *steps >> 1;
            *steps = steps.saturating_sub(left);
            let first = self.first_left(asked, &shape, self.groups.at(piece.group()).sequence, &mut left);
            *steps = steps.saturating_add(left);
            first
        } else {
            overlap::first_common_within(&asked.footprint, &shape.footprint, steps)
        }
    }

    /// The lowest byte that a view has in common with a piece, and that nobody wrote after `sequence`: from run to run of what
    /// both have, past what was written since.
    pub(super) fn first_left(
        &self,
        asked: &Shape,
        piece: &Shape,
        sequence: u64,
        steps: &mut u32,
    ) -> FirstCommon {
        let mut at = asked.footprint.origin().max(piece.footprint.origin());
        if !(asked.nested && piece.nested) {
            return FirstCommon::NotBelow(at);
        }
        let (mut looked_at, mut hidden) = (NONE, 0_u32);
        loop {
            let Some(left) = steps.checked_sub(1) else { return FirstCommon::NotBelow(at) };
            *steps = left;
            let Some((start, _)) = layout::next_run(&asked.footprint, at) else {
                return FirstCommon::Nowhere;
            };
            let Some((common, _)) = layout::next_run(&piece.footprint, start) else {
                return FirstCommon::Nowhere;
            };
            at = common;
            if common > start {
                continue;
            }
            match self.cover(at, sequence, steps) {
                Cover::Hidden { group, end } => {
                    // Often one write hides all of it. That is asked after 1, 2, 4 ... runs, since it costs more than a run.
                    hidden = hidden.saturating_add(1);
                    if hidden.is_power_of_two() && group != looked_at {
                        let later = &self.groups.at(group).footprint;
                        if hides(later, &asked.footprint, steps) || hides(later, &piece.footprint, steps) {
                            return FirstCommon::Nowhere;
                        }
                        looked_at = group;
                    }
                    at = end;
                }
                Cover::Visible => return FirstCommon::At(at),
                Cover::Unknown => return FirstCommon::NotBelow(at),
            }
        }
    }

    /// Who wrote that byte after `sequence`.
    fn cover(&self, byte: u64, sequence: u64, steps: &mut u32) -> Cover {
        let mut answer = Cover::Visible;
        for (number, plane) in self.backing.planes.iter().enumerate() {
            if plane.writes == NONE {
                continue;
            }
            let cell = layout::cell(byte, plane.pitch);
            let mut search = Search::new(self.nodes, plane.writes, &cell);
            while let Some(piece) = search.next(self.nodes) {
                let group = self.groups.at(piece.group());
                let Some(left) = steps.checked_sub(1) else { return Cover::Unknown };
                *steps = left;
                if group.sequence <= sequence {
                    continue;
                }
                let end = if group.nested {
                    // All that the group wrote was written since, what others wrote after it too.
                    layout::next_run(&group.footprint, byte)
                        .filter(|&(start, _)| start == byte)
                        .map(|(_, end)| end)
                } else {
                    let one = Footprint::single_run(byte, 1);
                    match overlap::first_common_within(&group.footprint, &one, steps) {
                        FirstCommon::At(_) => Some(byte.saturating_add(1)),
                        FirstCommon::Nowhere => None,
                        FirstCommon::NotBelow(_) => {
                            answer = Cover::Unknown;
                            None
                        }
                    }
                };
                if let Some(end) = end {
                    return Cover::Hidden { group: piece.group(), end };
                }
            }
            if number == OTHER {
                break;
            }
        }
        answer
    }

    /// A write hides bytes of a shadowed piece that is older than it, or may: that is not known when the steps are used up.
    pub(super) fn hides_something(&self, write: &GroupSlot, steps: &mut u32) -> bool {
        for plane in &self.backing.planes {
            for root in [Kind::Write, Kind::Read]
                .map(|kind| plane.root(kind))
                .into_iter()
                .filter(|&root| root != NONE)
            {
                for area in Layout::of(&write.footprint, plane.pitch).areas() {
                    let mut search = Search::new(self.nodes, root, area);
                    while let Some(piece) = search.next(self.nodes) {
                        *steps = steps.saturating_sub(1);
                        if piece.shadowed
                            && self.groups.at(piece.group()).sequence < write.sequence
                            && overlap::relate_within(&write.footprint, &self.shape(piece).footprint, steps)
                                .may_overlap()
                        {
                            return true;
                        }
                    }
                }
            }
        }
        false
    }
}

/// One write covers all of another view.
fn hides(later: &Footprint, earlier: &Footprint, steps: &mut u32) -> bool {
    later.spans(earlier) && overlap::relate_within(later, earlier, steps).covers()
}
