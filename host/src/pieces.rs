//! A range of bytes some at a time: for copies whose size is a claim, or more than is to be kept at once.

use core::ops::Range;

/// The pieces of `range`, in order, each of at most `most` bytes, which is not 0: where it starts, and how long
/// it is.
pub(crate) fn pieces(range: Range<u64>, most: usize) -> impl Iterator<Item = (u64, usize)> {
    let mut start = range.start;
    core::iter::from_fn(move || {
        let left = range.end.checked_sub(start).filter(|&left| left > 0)?;
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(most);
        let piece = (start, length);
        start = start.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pieces_of_a_range_are_all_of_it_in_order() {
        let all = |range, most| pieces(range, most).collect::<Vec<_>>();
        assert_eq!(all(10..33, 10), [(10, 10), (20, 10), (30, 3)]);
        assert_eq!(all(0..20, 10), [(0, 10), (10, 10)]);
        assert_eq!(all(7..8, usize::MAX), [(7, 1)]);
        assert_eq!(all(5..5, 10), []);
        assert_eq!(all(Range { start: 6, end: 5 }, 10), []);
        let end = u64::MAX;
        assert_eq!(all(end - 3..end, 2), [(end - 3, 2), (end - 1, 1)]);
    }
}
