//! Bit maps of small backings, one bit for a byte: for views whose runs cannot be walked.

use crate::overlap::Footprint;

/// Bits of a word.
const BITS: u64 = 64;

/// Two maps of equal size: what is left, and a place to paint.
#[derive(Debug)]
pub(super) struct Maps<'a> {
    left: &'a mut [u64],
    other: &'a mut [u64],
}

impl<'a> Maps<'a> {
    /// Maps of `nbytes` bits each in lent words; `None` when they do not suffice.
    pub(super) fn new(words: &'a mut [u64], nbytes: u64) -> Option<Self> {
        let needed = usize::try_from(nbytes.div_ceil(BITS)).ok()?;
        let (left, rest) = words.split_at_mut_checked(needed)?;
        let (other, _) = rest.split_at_mut_checked(needed)?;
        Some(Self { left, other })
    }

    /// What is left is the bytes that both have.
    pub(super) fn start(&mut self, a: &Footprint, b: &Footprint) {
        paint(self.left, a);
        paint(self.other, b);
        self.left.iter_mut().zip(self.other.iter()).for_each(|(left, other)| *left &= other);
    }

    /// Takes the bytes of a footprint away.
    pub(super) fn take_away(&mut self, footprint: &Footprint) {
        paint(self.other, footprint);
        self.left.iter_mut().zip(self.other.iter()).for_each(|(left, other)| *left &= !other);
    }

    /// The lowest byte that is left.
    pub(super) fn first(&self) -> Option<u64> {
        let (number, word) = (0_u64..).zip(self.left.iter()).find(|&(_, &word)| word != 0)?;
        Some(number.saturating_mul(BITS).saturating_add(u64::from(word.trailing_zeros())))
    }
}

/// Makes the map that of the footprint, in steps that grow with the logarithms of its counts.
fn paint(map: &mut [u64], footprint: &Footprint) {
    map.fill(0);
    paint_run(map, footprint.origin(), footprint.run());
    for dimension in footprint.dimensions() {
        let mut painted = 1;
        while painted < dimension.count {
            // Positions 0..painted are there; moved by `more`, they and themselves are 0..painted + more.
            let more = painted.min(dimension.count.saturating_sub(painted));
            add_moved(map, dimension.step.saturating_mul(more));
            painted = painted.saturating_add(more);
        }
    }
}

fn paint_run(map: &mut [u64], origin: u64, nbytes: u64) {
    let end = origin.saturating_add(nbytes);
    for (number, word) in (0_u64..).zip(map.iter_mut()) {
        let base = number.saturating_mul(BITS);
        let from = origin.saturating_sub(base).min(BITS);
        let to = end.saturating_sub(base).min(BITS);
        *word = low_bits(to) & !low_bits(from);
    }
}

fn low_bits(count: u64) -> u64 {
    u32::try_from(count)
        .ok()
        .and_then(|count| 1_u64.checked_shl(count))
        .map_or(u64::MAX, |bit| bit.wrapping_sub(1))
}

/// Adds the map itself, moved up by so many bits.
fn add_moved(map: &mut [u64], by: u64) {
    let Ok(words) = usize::try_from(by.checked_div(BITS).unwrap_or(0)) else { return };
    let bits = u32::try_from(by.checked_rem(BITS).unwrap_or(0)).unwrap_or(0);
    for to in (words..map.len()).rev() {
        let from = to.wrapping_sub(words);
        let upper = map.get(from).copied().unwrap_or(0) << bits;
        let below = from.checked_sub(1).and_then(|below| map.get(below)).copied().unwrap_or(0);
        // A shift by all 64 bits is none at all.
        let lower = below.checked_shr(64_u32.wrapping_sub(bits)).unwrap_or(0);
        if let Some(word) = map.get_mut(to) {
            *word |= upper | lower;
        }
    }
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]
mod tests {
    use super::*;
    use crate::view::View;
    use crate::wire::dtype::DType;
    use std::collections::BTreeSet;
    use std::vec;
    use std::vec::Vec;

    fn bytes(footprint: &Footprint) -> BTreeSet<u64> {
        let mut all: Vec<u64> = (footprint.origin()..footprint.origin() + footprint.run()).collect();
        for dimension in footprint.dimensions() {
            all =
                (0..dimension.count).flat_map(|i| all.iter().map(move |b| b + i * dimension.step)).collect();
        }
        all.into_iter().collect()
    }

    #[test]
    fn a_painted_map_has_the_bytes_of_the_footprint() {
        for (offset, shapes, strides) in [
            (0, &[320_u32][..], &[1_u32][..]),
            (63, &[5, 7, 3], &[50, 6, 1]),
            (130, &[3, 4, 2], &[7, 5, 64]),
            (7, &[2, 2], &[64, 128]),
            (1, &[19, 3], &[13, 11]),
            (319, &[1], &[1]),
        ] {
            let view = Footprint::of(&View::new(offset, DType::Uint8, shapes, strides, 512).unwrap());
            let mut map = vec![u64::MAX; 8];
            paint(&mut map, &view);
            let painted: BTreeSet<u64> =
                (0..512).filter(|&b| map[usize::try_from(b / 64).unwrap()] >> (b % 64) & 1 == 1).collect();
            assert_eq!(painted, bytes(&view));
        }
    }

    #[test]
    fn what_is_left_is_what_both_have_and_nobody_took() {
        let of = |offset, n| Footprint::single_run(offset, n);
        let mut words = [0; 8];
        assert!(Maps::new(&mut words, 257).is_none());
        let mut maps = Maps::new(&mut words, 256).unwrap();
        maps.start(&of(10, 200), &of(100, 156));
        assert_eq!(maps.first(), Some(100));
        maps.take_away(&of(0, 130));
        assert_eq!(maps.first(), Some(130));
        maps.take_away(&of(130, 80));
        assert_eq!(maps.first(), None);
    }
}
