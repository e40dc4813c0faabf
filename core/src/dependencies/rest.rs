//! What is left of a piece that later writes may have hidden: the lowest byte that a view still has in common with it.

use super::backing::{BackingSlot, Kind, OTHER};
use super::groups::GroupSlot;
use super::layout::{self, Layout};
use super::paint::Maps;
use super::pool::{Memory, NONE, Pool};
use super::tree::{self, Node};
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

    /// The lowest byte that a view has in common with a piece of which no write hides any.
    pub(super) fn first_common(
        &self,
        asked: &Shape,
        piece: &Shape,
        steps: &mut u32,
        words: &mut [u64],
    ) -> FirstCommon {
        match overlap::first_common_of_footprints(&asked.footprint, &piece.footprint) {
            FirstCommon::NotBelow(_) => self.first_left(asked, piece, u64::MAX, steps, words),
            found @ (FirstCommon::Nowhere | FirstCommon::At(_)) => found,
        }
    }

    /// The lowest byte that a view has in common with a piece, and that nobody wrote after `sequence`.
    pub(super) fn first_left(
        &self,
        asked: &Shape,
        piece: &Shape,
        sequence: u64,
        steps: &mut u32,
        words: &mut [u64],
    ) -> FirstCommon {
        let walked = self.walk(asked, piece, sequence, steps);
        match (walked, Maps::new(words, self.backing.nbytes)) {
            (FirstCommon::NotBelow(_), Some(maps)) => self.painted(maps, asked, piece, sequence),
            _ => walked,
        }
    }

    /// From run to run of what both have, past what was written since.
    fn walk(&self, asked: &Shape, piece: &Shape, sequence: u64, steps: &mut u32) -> FirstCommon {
        let mut at = asked.footprint.origin().max(piece.footprint.origin());
        if !(asked.nested && piece.nested) {
            return FirstCommon::NotBelow(at);
        }
        let mut looked_at = NONE;
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
            match self.cover(at, sequence) {
                Cover::Hidden { group, end } => {
                    // Often one write hides all of it.
                    if group != looked_at {
                        let later = &self.groups.at(group).footprint;
                        if hides(later, &asked.footprint) || hides(later, &piece.footprint) {
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
    fn cover(&self, byte: u64, sequence: u64) -> Cover {
        let mut answer = Cover::Visible;
        for (number, plane) in self.backing.planes.iter().enumerate() {
            if plane.writes == NONE {
                continue;
            }
            let cell = layout::cell(byte, plane.pitch);
            tree::search(self.nodes, plane.writes, &cell, |_, piece| {
                let group = self.groups.at(piece.group());
                if group.sequence <= sequence {
                    return true;
                }
                let end = if group.nested {
                    // All that the group wrote was written since, what others wrote after it too.
                    layout::next_run(&group.footprint, byte)
                        .filter(|&(start, _)| start == byte)
                        .map(|(_, end)| end)
                } else {
                    match overlap::first_common_of_footprints(
                        &group.footprint,
                        &Footprint::single_run(byte, 1),
                    ) {
                        FirstCommon::At(_) => Some(byte.saturating_add(1)),
                        FirstCommon::Nowhere => None,
                        FirstCommon::NotBelow(_) => {
                            answer = Cover::Unknown;
                            None
                        }
                    }
                };
                match end {
                    Some(end) => {
                        answer = Cover::Hidden { group: piece.group(), end };
                        false
                    }
                    None => true,
                }
            });
            if number == OTHER || matches!(answer, Cover::Hidden { .. }) {
                break;
            }
        }
        answer
    }

    fn painted(&self, mut maps: Maps<'_>, asked: &Shape, piece: &Shape, sequence: u64) -> FirstCommon {
        maps.start(&asked.footprint, &piece.footprint);
        for plane in self.backing.planes.iter().filter(|plane| plane.writes != NONE) {
            for area in Layout::of(&bounds(&asked.footprint), plane.pitch).areas() {
                tree::search(self.nodes, plane.writes, area, |_, later| {
                    let group = self.groups.at(later.group());
                    if group.sequence > sequence {
                        maps.take_away(&group.footprint);
                    }
                    true
                });
            }
        }
        maps.first().map_or(FirstCommon::Nowhere, FirstCommon::At)
    }

    /// A write hides bytes of a shadowed piece that is older than it.
    pub(super) fn hides_something(&self, write: &GroupSlot) -> bool {
        let mut found = false;
        for plane in &self.backing.planes {
            for root in [Kind::Write, Kind::Read]
                .map(|kind| plane.root(kind))
                .into_iter()
                .filter(|&root| root != NONE)
            {
                for area in Layout::of(&write.footprint, plane.pitch).areas() {
                    tree::search(self.nodes, root, area, |_, piece| {
                        found = piece.shadowed
                            && self.groups.at(piece.group()).sequence < write.sequence
                            && overlap::relate_footprints(&write.footprint, &self.shape(piece).footprint)
                                .may_overlap();
                        !found
                    });
                    if found {
                        return true;
                    }
                }
            }
        }
        false
    }
}

/// One write covers all of another view.
fn hides(later: &Footprint, earlier: &Footprint) -> bool {
    later.spans(earlier) && overlap::relate_footprints(later, earlier).covers()
}

/// The range from a footprint's first byte to its last.
fn bounds(footprint: &Footprint) -> Footprint {
    Footprint::single_run(footprint.origin(), footprint.extent())
}
