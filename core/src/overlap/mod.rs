//! Whether two views of one backing share a byte, whether one covers the other, and where they first meet: exactly.
//!
//! A byte belongs to a view when an element of it lies there; the gaps of a strided view belong to nobody. The answer is exact for
//! every pair of legal views, of any steps, orders of dimensions, ranks, element types and offsets. A pair made to be
//! hard could cost more than any bound: past a fixed number of steps the answer is [`Relation::MayOverlap`], which is safe,
//! and which the caller can count. How it works, and why it is right, is told in docs/decisions/overlap.md.
//!
//! The backing is not looked at: whoever asks about views of two different backings gets an answer without a meaning.

mod congruence;
mod cover;
mod equation;
mod first_common;
mod footprint;
mod itself;
mod tiles;
mod window;
mod work;

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]
mod tests;

pub use footprint::{Dimension, Footprint};
pub use itself::may_overlap_itself;

use self::equation::Answer;
use self::window::Window;
use self::work::Work;
use crate::view::View;

/// How the bytes of one view lie to those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// No byte belongs to both.
    Disjoint,
    /// Some byte belongs to both.
    Overlapping {
        /// Every byte of the second belongs to the first.
        covers: bool,
    },
    /// The work bound was passed: they may overlap, and the first is not known to cover the second.
    MayOverlap,
}

impl Relation {
    /// Some byte may belong to both.
    #[must_use]
    #[inline]
    pub const fn may_overlap(self) -> bool {
        !matches!(self, Self::Disjoint)
    }

    /// The first is known to cover the second.
    #[must_use]
    #[inline]
    pub const fn covers(self) -> bool {
        matches!(self, Self::Overlapping { covers: true })
    }
}

/// Where two views first meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FirstCommon {
    /// No byte belongs to both.
    Nowhere,
    /// The lowest byte that belongs to both, in bytes from the backing's start.
    At(u64),
    /// The work bound was passed: no byte below this one belongs to both, and perhaps none above.
    NotBelow(u64),
}

/// How the bytes of `a` lie to those of `b`. Costs a few nanoseconds for ranges that are apart and for tiles of one array, below a
/// microsecond for nearly all other pairs, and never more than the fixed work bound.
#[must_use]
#[inline]
pub fn relate(a: &View, b: &View) -> Relation {
    if are_apart(a, b) {
        return Relation::Disjoint;
    }
    relate_meeting(a, b)
}

/// [`relate`] of views in normal form, for those who keep it.
#[must_use]
pub fn relate_footprints(a: &Footprint, b: &Footprint) -> Relation {
    relate_by(a, b, &mut Work::new())
}

/// [`relate_footprints`], for many pairs that share a number of steps: what this one took, and one more, is taken from them.
pub(crate) fn relate_within(a: &Footprint, b: &Footprint, steps: &mut u32) -> Relation {
    let Some(available) = steps.checked_sub(1) else { return Relation::MayOverlap };
    let mut work = Work::of(available);
    let relation = relate_by(a, b, &mut work);
    *steps = available.saturating_sub(work.steps_taken());
    relation
}

fn relate_by(a: &Footprint, b: &Footprint, work: &mut Work) -> Relation {
    if a == b {
        return Relation::Overlapping { covers: true };
    }
    match share_a_byte(a, b, work) {
        Answer::No => Relation::Disjoint,
        Answer::Yes => match cover::covers(a, b, work) {
            Answer::Yes => Relation::Overlapping { covers: true },
            Answer::No => Relation::Overlapping { covers: false },
            Answer::Unknown => Relation::MayOverlap,
        },
        Answer::Unknown => Relation::MayOverlap,
    }
}

/// Whether two footprints have a byte in common: by the equation, and by looking when that is not solved in time.
fn share_a_byte(a: &Footprint, b: &Footprint, work: &mut Work) -> Answer {
    match equation::share_a_byte(a, b, work) {
        Answer::Unknown => match Window::of_both(a, b) {
            Some((start, a, b)) => Answer::of(a.first_common(&b, start).is_some()),
            None => Answer::Unknown,
        },
        answer @ (Answer::Yes | Answer::No) => answer,
    }
}

/// Every byte of `b` is known to belong to `a`.
#[must_use]
pub fn covers(a: &View, b: &View) -> bool {
    relate(a, b).covers()
}

/// The lowest byte that belongs to both, in bytes from the backing's start; past the work bound, one below which there is
/// none.
#[must_use]
pub fn first_common(a: &View, b: &View) -> FirstCommon {
    if are_apart(a, b) {
        return FirstCommon::Nowhere;
    }
    first_common_of_footprints(&Footprint::of(a), &Footprint::of(b))
}

/// [`first_common`] of views in normal form.
#[must_use]
pub fn first_common_of_footprints(a: &Footprint, b: &Footprint) -> FirstCommon {
    first_common_by(a, b, &mut Work::new())
}

/// [`first_common_of_footprints`], for many pairs that share a number of steps: what this one took, and one more, is taken
/// from them.
pub(crate) fn first_common_within(a: &Footprint, b: &Footprint, steps: &mut u32) -> FirstCommon {
    let Some(available) = steps.checked_sub(1) else {
        return FirstCommon::NotBelow(a.origin().max(b.origin()));
    };
    let mut work = Work::of(available);
    let first = first_common_by(a, b, &mut work);
    *steps = available.saturating_sub(work.steps_taken());
    first
}

fn first_common_by(a: &Footprint, b: &Footprint, work: &mut Work) -> FirstCommon {
    if a.origin() == b.origin() {
        return FirstCommon::At(a.origin());
    }
    match first_common::lowest(a, b, work) {
        Ok(Some(byte)) => FirstCommon::At(byte),
        Ok(None) => FirstCommon::Nowhere,
        Err(first_common::UsedUp) => match Window::of_both(a, b) {
            Some((start, a, b)) => a.first_common(&b, start).map_or(FirstCommon::Nowhere, FirstCommon::At),
            None => FirstCommon::NotBelow(a.origin().max(b.origin())),
        },
    }
}

/// The lowest byte that belongs to both, in bytes from the backing's start, and `None` when there is none. Past the work
/// bound, where that is not known, it is the lowest byte that their bounds have in common.
#[must_use]
pub fn first_common_byte(a: &View, b: &View) -> Option<u64> {
    match first_common(a, b) {
        FirstCommon::Nowhere => None,
        FirstCommon::At(byte) | FirstCommon::NotBelow(byte) => Some(byte),
    }
}

/// What two views have in common, as far as the steps allowed to find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shared {
    /// No byte.
    Nothing,
    /// Some byte.
    Bytes,
    /// The work bound was passed, or no step was left.
    Unknown,
}

/// What two views have in common, for many pairs that share a number of steps: what this one took is taken from them.
pub(crate) fn shared_within(a: &View, b: &View, steps: &mut u32) -> Shared {
    if are_apart(a, b) {
        return Shared::Nothing;
    }
    let mut work = Work::of(*steps);
    let tiles = if tiles::are_alike(a, b) && work.step() { tiles::share_a_byte(a, b) } else { None };
    let answer = match tiles {
        Some(shared) => Answer::of(shared),
        None => share_a_byte(&Footprint::of(a), &Footprint::of(b), &mut work),
    };
    *steps = steps.saturating_sub(work.steps_taken());
    match answer {
        Answer::No => Shared::Nothing,
        Answer::Yes => Shared::Bytes,
        Answer::Unknown => Shared::Unknown,
    }
}

#[inline]
const fn are_apart(a: &View, b: &View) -> bool {
    a.end() <= b.byte_offset() || b.end() <= a.byte_offset()
}

fn relate_meeting(a: &View, b: &View) -> Relation {
    if tiles::are_alike(a, b) {
        match tiles::share_a_byte(a, b) {
            Some(false) => return Relation::Disjoint,
            Some(true) if a.byte_offset() > b.byte_offset() || a.end() < b.end() => {
                return Relation::Overlapping { covers: false };
            }
            Some(true) => {
                if let Some(covers) = tiles::covers(a, b) {
                    return Relation::Overlapping { covers };
                }
            }
            None => {}
        }
    }
    relate_footprints(&Footprint::of(a), &Footprint::of(b))
}
