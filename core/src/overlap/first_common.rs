//! The lowest byte that two footprints have in common.

use super::equation::{Answer, share_a_byte};
use super::footprint::Footprint;
use super::work::Work;

/// The work was used up before the answer was found.
pub(super) struct UsedUp;

/// The lowest byte that lies in both, if there is one.
///
/// One of the two is taken apart from its largest dimension down: the first slice that shares a byte is searched for, the
/// lowest byte of that slice is found in the same way, and later slices are looked at only as long as they start before it.
/// Where nothing overlaps itself that is one slice of each dimension.
pub(super) fn lowest(a: &Footprint, b: &Footprint, work: &mut Work) -> Result<Option<u64>, UsedUp> {
    if yes(share_a_byte(a, b, work))? { lowest_before(a, b, u64::MAX, work) } else { Ok(None) }
}

/// The lowest common byte of all those below `limit`.
fn lowest_before(a: &Footprint, b: &Footprint, limit: u64, work: &mut Work) -> Result<Option<u64>, UsedUp> {
    let Some((index, dimension)) = a.dimensions().iter().enumerate().next_back() else {
        if !b.is_range() {
            return lowest_before(b, a, limit, work);
        }
        let first = a.origin().max(b.origin());
        return Ok((!a.is_apart_from(b) && first < limit).then_some(first));
    };
    let (step, inner) = (dimension.step, a.extent().saturating_sub(dimension.reach()));
    let place_of = |bytes: u64| bytes.checked_div(step).unwrap_or(0);
    // The first slice that ends behind the other's first byte, and the last one that starts before its end.
    let before = b.origin().saturating_add(1).saturating_sub(a.origin().saturating_add(inner));
    let mut first = place_of(before.saturating_add(step.wrapping_sub(1)));
    let last_of = dimension.count.saturating_sub(1);
    let last_below = |limit: u64| {
        let behind = limit.min(b.end()).checked_sub(a.origin())?.checked_sub(1)?;
        Some(place_of(behind).min(last_of))
    };
    let mut found = None;
    while let Some(last) = last_below(found.unwrap_or(limit)) {
        let Some(place) = first_sharing_slice(a, index, first..=last, b, work)? else { break };
        let slice = a.slice(index, place, 1);
        if let Some(byte) = lowest_before(&slice, b, found.unwrap_or(limit), work)? {
            found = Some(byte);
        }
        first = place.wrapping_add(1);
    }
    Ok(found)
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
