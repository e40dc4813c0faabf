//! Whether two arguments of one task name a byte that one of them writes.
//!
//! Sorted by backing and start, arguments whose bounds do not meet fall out in one pass: that settles ranges and slices of
//! rows. What remains of a backing is drawn as rectangles over the pitch that its tiles have, and swept; arguments that are
//! neither a range nor a tile of that pitch are compared one by one with those whose bounds they meet, within a fixed
//! amount of work.

use super::error::SubmitError;
use super::rectangles::Board;
use crate::overlap::{self, Footprint, Shared};
use crate::rights::Tag;
use crate::wire::chip_args::MAX_TENSORS;
use crate::wire::record::Holds;
use crate::wire::tensor::{RawTensor, Tensor};

/// Steps that the comparisons one by one may take for one task: all pairs of 256 ordinary views, and about 10 ms at worst.
const STEPS: u32 = 600_000;

/// Room to work in for a submit of up to `N` tensors. Whoever submits keeps one.
#[derive(Debug)]
pub struct Scratch<const N: usize = MAX_TENSORS> {
    spans: heapless::Vec<Span, N>,
    board: Board<N>,
}

impl<const N: usize> Scratch<N> {
    /// Empty.
    #[must_use]
    pub const fn new() -> Self {
        Self { spans: heapless::Vec::new(), board: Board::new() }
    }
}

impl<const N: usize> Default for Scratch<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// An argument's bounds, and what it is sorted by.
#[derive(Clone, Copy, Debug)]
struct Span {
    backing: Backing,
    start: u64,
    end: u64,
    index: u16,
    writes: bool,
    /// Neither a range nor a tile of the pitch at hand.
    other: bool,
}

/// The 20 meaningful bytes of an identity, in some order that is cheap to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Backing {
    buffer_id: u64,
    owner_instance_id: u64,
    generation: u32,
}

/// Two arguments by index, and what is known about them.
enum Found {
    Clash(u16, u16),
    TooComplex(u16, u16),
}

/// Refuses arguments of which one writes a byte that another one names.
pub(super) fn check<H: Holds<RawTensor>, const N: usize>(
    tensors: &[Tensor<H>],
    tags: &[Tag],
    scratch: &mut Scratch<N>,
) -> Result<(), SubmitError> {
    let Scratch { spans, board } = scratch;
    spans.clear();
    if !tags.iter().any(|tag| tag.writes()) {
        return Ok(());
    }
    for (index, (tensor, tag)) in (0_u16..).zip(tensors.iter().zip(tags)) {
        if tag.needs().is_some() {
            // There are no more tensors than places: the caller has seen to it.
            let _ = spans.push(Span::of(tensor, index, tag.writes()));
        }
    }
    // One backing is the frequent case, and the dear one: a single number sorts several times as fast. The sort's own panic, on an
    // order that contradicts itself, cannot come: these are numbers.
    if spans.iter().all(|span| spans.first().is_some_and(|first| first.backing == span.backing)) {
        spans.sort_unstable_by_key(|span| span.start);
    } else {
        spans.sort_unstable_by_key(|span| (span.backing, span.start));
    }
    let mut steps = STEPS;
    let mut rest = spans.as_mut_slice();
    while let Some(backing) = rest.first().map(|span| span.backing) {
        let len = rest.iter().take_while(|span| span.backing == backing).count();
        let Some((group, behind)) = rest.split_at_mut_checked(len) else { break };
        rest = behind;
        if bounds_are_apart(group) {
            continue;
        }
        if let Some(found) = in_group(tensors, group, board, &mut steps) {
            return Err(error_of(tensors, &found));
        }
    }
    Ok(())
}

impl Span {
    fn of<H: Holds<RawTensor>>(tensor: &Tensor<H>, index: u16, writes: bool) -> Self {
        let identity = tensor.descriptor().identity();
        let view = tensor.view();
        Self {
            backing: Backing {
                buffer_id: identity.buffer_id(),
                owner_instance_id: u64::from_le_bytes(identity.owner_instance_id().0),
                generation: identity.generation().get(),
            },
            start: view.byte_offset(),
            end: view.end(),
            index,
            writes,
            other: false,
        }
    }
}

/// No written bounds of a backing's arguments meet any other's. They are sorted by start.
fn bounds_are_apart(group: &[Span]) -> bool {
    let (mut end_of_any, mut end_of_written) = (0, 0);
    for span in group {
        if span.start < if span.writes { end_of_any } else { end_of_written } {
            return false;
        }
        end_of_any = span.end.max(end_of_any);
        if span.writes {
            end_of_written = span.end.max(end_of_written);
        }
    }
    true
}

/// A clash among the arguments of one backing.
fn in_group<H: Holds<RawTensor>, const N: usize>(
    tensors: &[Tensor<H>],
    group: &mut [Span],
    board: &mut Board<N>,
    steps: &mut u32,
) -> Option<Found> {
    let base = group.first()?.start;
    let footprint =
        |span: &Span| tensors.get(usize::from(span.index)).map(|tensor| Footprint::of(&tensor.view()));
    // The pitch of the first tile; without tiles everything lies in one row.
    let pitch = group.iter().find_map(|span| match footprint(span)?.dimensions() {
        [tile] => Some(tile.step),
        _ => None,
    });
    let pitch = pitch.unwrap_or(u64::MAX);
    let mut others = false;
    board.clear();
    for span in &mut *group {
        let footprint = footprint(span)?;
        span.other = match footprint.dimensions() {
            [] => false,
            [tile] => tile.step != pitch,
            _ => true,
        };
        if span.other {
            others = true;
        } else {
            board.draw(&footprint, base, pitch, span.index, span.writes);
        }
    }
    if let Some((first, second)) = board.sweep() {
        return Some(Found::Clash(first, second));
    }
    if others { one_by_one(tensors, group, steps) } else { None }
}

/// Compares what is no rectangle with all whose bounds it meets.
fn one_by_one<H: Holds<RawTensor>>(tensors: &[Tensor<H>], group: &[Span], steps: &mut u32) -> Option<Found> {
    let view = |span: &Span| tensors.get(usize::from(span.index)).map(Tensor::view);
    let mut rest = group;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        let own = view(first)?;
        for second in behind.iter().take_while(|span| span.start < first.end) {
            if !(first.writes || second.writes) || !(first.other || second.other) {
                continue;
            }
            match overlap::shared_within(&own, &view(second)?, steps) {
                Shared::Nothing => {}
                Shared::Bytes => return Some(Found::Clash(first.index, second.index)),
                Shared::Unknown => return Some(Found::TooComplex(first.index, second.index)),
            }
        }
    }
    None
}

#[cold]
fn error_of<H: Holds<RawTensor>>(tensors: &[Tensor<H>], found: &Found) -> SubmitError {
    let (Found::Clash(one, other) | Found::TooComplex(one, other)) = *found;
    let (first, second) = (usize::from(one.min(other)), usize::from(one.max(other)));
    let (Some(a), Some(b)) = (tensors.get(first), tensors.get(second)) else {
        return SubmitError::TooManyTensors { found: tensors.len(), limit: second };
    };
    let identity = a.descriptor().identity();
    match found {
        Found::Clash(..) => {
            let (a, b) = (a.view(), b.view());
            let byte = overlap::first_common_byte(&a, &b).unwrap_or(a.byte_offset().max(b.byte_offset()));
            SubmitError::Clash { first, second, identity, byte }
        }
        Found::TooComplex(..) => SubmitError::TooComplex { first, second, identity },
    }
}
