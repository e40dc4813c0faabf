//! Whether every byte of one footprint lies in another.

use super::equation::{Answer, share_a_byte};
use super::footprint::Footprint;
use super::window::{WIDTH, Window};
use super::work::Work;

/// How often a part may be halved, which bounds the stack.
const MAX_DEPTH: u32 = 32;

/// What making a window costs, in steps.
const WINDOW: u32 = 40;

/// What cutting a slice out costs, in steps.
const SLICE: u32 = 3;

/// Whether every byte of `b` lies in `a`.
///
/// What a nested footprint leaves out between its first byte and its last are the gaps of its dimensions, each a footprint
/// itself; `b` is covered when it lies within the bounds and meets none of them.
#[inline]
pub(super) fn covers(a: &Footprint, b: &Footprint, work: &mut Work) -> Answer {
    if !a.spans(b) {
        return Answer::No;
    }
    match a.first_entangled() {
        None => match misses_gaps(a, b, work) {
            Answer::Unknown => Window::covers(a, b).map_or(Answer::Unknown, Answer::of),
            answer @ (Answer::Yes | Answer::No) => answer,
        },
        Some(_) => covers_part(a, b, work, MAX_DEPTH),
    }
}

/// Whether `b`, within the bounds of the nested `a`, has no byte in its gaps.
fn misses_gaps(a: &Footprint, b: &Footprint, work: &mut Work) -> Answer {
    let mut answer = Answer::Yes;
    for index in 0..a.dimensions().len() {
        let Some(gaps) = a.gaps(index) else { continue };
        match share_a_byte(&gaps, b, work) {
            Answer::Yes => return Answer::No,
            Answer::Unknown => answer = Answer::Unknown,
            Answer::No => {}
        }
    }
    answer
}

/// The same for an `a` that is not nested: a part that is no block of it and that no single slice covers is halved, until the
/// part fits a window. Every byte would at last be a part of its own, so that the answer is exact as long as the
/// work lasts.
fn covers_part(a: &Footprint, b: &Footprint, work: &mut Work, depth: u32) -> Answer {
    if b.extent() <= WIDTH {
        if !work.steps(WINDOW) {
            return Answer::Unknown;
        }
        if let Some(covers) = Window::covers(a, b) {
            return Answer::of(covers);
        }
    }
    // When a part is not covered, its first byte mostly says so at once.
    match share_a_byte(a, &Footprint::single_run(b.origin(), 1), work) {
        Answer::Yes => {}
        answer @ (Answer::No | Answer::Unknown) => return answer,
    }
    let block = match a.places_of(b) {
        Some(places) => share_a_byte(&places, &Footprint::single_run(b.origin(), 1), work),
        None => Answer::No,
    };
    match block {
        Answer::No => {}
        answer @ (Answer::Yes | Answer::Unknown) => return answer,
    }
    match one_slice_covers(a, b, work) {
        Answer::No => {}
        answer @ (Answer::Yes | Answer::Unknown) => return answer,
    }
    let Some((first, second)) = halves(b) else { return Answer::No };
    let Some(depth) = depth.checked_sub(1) else { return Answer::Unknown };
    match covers_part(a, &first, work, depth) {
        Answer::Yes => covers_part(a, &second, work, depth),
        answer @ (Answer::No | Answer::Unknown) => answer,
    }
}

/// Whether a single one of the nested slices of `a` covers `b`.
fn one_slice_covers(a: &Footprint, b: &Footprint, work: &mut Work) -> Answer {
    if !a.spans(b) {
        return Answer::No;
    }
    let Some(index) = a.first_entangled() else { return misses_gaps(a, b, work) };
    for slice in a.slices_spanning(index, b) {
        if !work.steps(SLICE) {
            return Answer::Unknown;
        }
        match one_slice_covers(&slice, b, work) {
            Answer::No => {}
            answer @ (Answer::Yes | Answer::Unknown) => return answer,
        }
    }
    Answer::No
}

/// The two halves of the dimension that reaches furthest, or of the run; `None` for a single byte.
fn halves(b: &Footprint) -> Option<(Footprint, Footprint)> {
    if let Some((last, dimension)) = b.dimensions().iter().enumerate().next_back() {
        let half = dimension.count >> 1;
        return Some((b.slice(last, 0, half), b.slice(last, half, dimension.count.wrapping_sub(half))));
    }
    let half = b.run() >> 1;
    (half > 0).then(|| (b.slice_run(0, half), b.slice_run(half, b.run().wrapping_sub(half))))
}
