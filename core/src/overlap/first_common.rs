//! The lowest byte that two footprints have in common.

use super::equation::{Answer, share_a_byte};
use super::footprint::Footprint;
use super::window::Window;
use super::work::Work;

/// The work was used up before the answer was found.
pub(super) struct UsedUp;

/// The lowest byte that lies in both, if there is one.
///
/// One of the two is taken apart from its largest dimension down: the first slice that shares a byte is searched for, the
/// lowest byte of that slice is found in the same way, and later slices are looked at only as long as they start before it.
/// Where one of the two is nested that is one slice of each dimension.
pub(super) fn lowest(a: &Footprint, b: &Footprint, work: &mut Work) -> Result<Option<u64>, UsedUp> {
    if !yes(share_a_byte(a, b, work))? {
        return Ok(None);
    }
    if !a.is_nested()
        && !b.is_nested()
        && let Some((start, a, b)) = Window::of_both(a, b)
    {
        return Ok(a.first_common(&b, start));
    }
    let (apart, other) = if a.is_nested() { (a, b) } else { (b, a) };
    lowest_before(apart, other, u64::MAX, work)
}

/// The lowest common byte of all those below `limit`.
fn lowest_before(a: &Footprint, b: &Footprint, limit: u64, work: &mut Work) -> Result<Option<u64>, UsedUp> {
    let Some((index, &dimension)) = a.dimensions().iter().enumerate().next_back() else {
        if !b.is_range() {
            return lowest_before(b, a, limit, work);
        }
        let first = a.origin().max(b.origin());
        return Ok((!a.is_apart_from(b) && first < limit).then_some(first));
    };
    let (mut first, _) = a.places_meeting(dimension, b.origin(), limit);
    let mut found: Option<u64> = None;
    loop {
        let (_, last) = a.places_meeting(dimension, b.origin(), b.end().min(found.unwrap_or(limit)));
        if first > last {
            return Ok(found);
        }
        let Some(place) = first_sharing_slice(a, index, first..=last, b, work)? else {
            return Ok(found);
        };
        let slice = a.slice(index, place, 1);
        if let Some(byte) = lowest_before(&slice, b, found.unwrap_or(limit), work)? {
            found = Some(byte);
        }
        first = place.wrapping_add(1);
    }
}

/// The first place in dimension `index` of `a` whose slice shares a byte with `b`: slices in growing numbers, and then halves
/// of those in which there is one.
fn first_sharing_slice(
    a: &Footprint,
    index: usize,
    places: core::ops::RangeInclusive<u64>,
    b: &Footprint,
    work: &mut Work,
) -> Result<Option<u64>, UsedUp> {
    let (mut first, last) = places.into_inner();
    let mut count = 1_u64;
    // Some slice from `first` to `first + count - 1` is looked for.
    loop {
        if first > last {
            return Ok(None);
        }
        count = count.min(last.wrapping_sub(first).wrapping_add(1));
        if yes(share_a_byte(&a.slice(index, first, count), b, work))? {
            break;
        }
        first = first.wrapping_add(count);
        count = count.saturating_mul(4);
    }
    while count > 1 {
        let half = count >> 1;
        if yes(share_a_byte(&a.slice(index, first, half), b, work))? {
            count = half;
        } else {
            first = first.wrapping_add(half);
            count = count.wrapping_sub(half);
        }
    }
    Ok(Some(first))
}

fn yes(answer: Answer) -> Result<bool, UsedUp> {
    match answer {
        Answer::Yes => Ok(true),
        Answer::No => Ok(false),
        Answer::Unknown => Err(UsedUp),
    }
}
