//! Bit maps, one bit for a byte: for views whose runs cannot be walked.

use crate::overlap::Footprint;

/// Bits of a word.
const BITS: u64 = 64;

/// Bytes of a backing up to which a lookup paints whatever is there: 1024 words a map.
pub(super) const SMALL: u64 = 1 << 16;

/// Words that may be painted in larger ones for one hazard of an argument: at some 2 ns, 8 ms.
const WORDS: u64 = 1 << 22;

/// The bytes of one view that are left, and a place to paint others.
#[derive(Debug)]
pub(super) struct Maps<'a> {
    /// From the view's first word to its last.
    left: &'a mut [u64],
    first: usize,
    /// From the backing's first word to the view's last.
    other: &'a mut [u64],
    /// Words that may still be painted.
    work: u64,
}

/// More words would have to be painted than one lookup may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UsedUp;

/// The maps of a backing of `nbytes` bytes fit in `words`.
pub(super) fn fits(words: &[u64], nbytes: u64) -> bool {
    words_of(nbytes) <= words.len() >> 1
}

impl<'a> Maps<'a> {
    /// All of a view in a backing of `nbytes` bytes, whose maps fit in the words.
    pub(super) fn new(words: &'a mut [u64], nbytes: u64, view: &Footprint) -> Result<Self, UsedUp> {
        let (left, other) = words.split_at_mut(words.len() >> 1);
        let (first, end) = (word_of(view.origin()), words_of(view.end()));
        let left = left.get_mut(first..end).ok_or(UsedUp)?;
        let other = other.get_mut(..end).ok_or(UsedUp)?;
        let mut work = if nbytes <= SMALL { u64::MAX } else { WORDS };
        paint(left, first, view, &mut work)?;
        Ok(Self { left, first, other, work })
    }

    /// The lowest byte of a footprint that is left.
    pub(super) fn look(&mut self, footprint: &Footprint) -> Result<Option<u64>, UsedUp> {
        self.visit(footprint, false)
    }

    /// The same, and afterwards none of them is left.
    pub(super) fn take(&mut self, footprint: &Footprint) -> Result<Option<u64>, UsedUp> {
        self.visit(footprint, true)
    }

    fn visit(&mut self, footprint: &Footprint, takes: bool) -> Result<Option<u64>, UsedUp> {
        let start = word_of(footprint.origin());
        let end = words_of(footprint.end()).min(self.other.len());
        let from = start.max(self.first);
        if from >= end {
            return Ok(None);
        }
        let painted = self.other.get_mut(start..end).unwrap_or_default();
        paint(painted, start, footprint, &mut self.work)?;
        let painted = painted.iter().skip(from.saturating_sub(start));
        let left = self.left.iter_mut().skip(from.saturating_sub(self.first));
        let mut found = None;
        for (number, (left, &painted)) in (from..).zip(left.zip(painted)) {
            let common = *left & painted;
            if common != 0 && found.is_none() {
                found = Some((number, common.trailing_zeros()));
                if !takes {
                    break;
                }
            }
            if takes {
                *left &= !painted;
            }
        }
        Ok(found.map(|(word, bit)| byte_of(word).saturating_add(u64::from(bit))))
    }

    /// Nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.left.iter().all(|&word| word == 0)
    }
}

/// The word that has a byte's bit.
fn word_of(byte: u64) -> usize {
    usize::try_from(byte.checked_div(BITS).unwrap_or(0)).unwrap_or(usize::MAX)
}

/// The words that have the bits of so many bytes.
fn words_of(nbytes: u64) -> usize {
    usize::try_from(nbytes.div_ceil(BITS)).unwrap_or(usize::MAX)
}

/// The first byte of a word.
fn byte_of(word: usize) -> u64 {
    u64::try_from(word).unwrap_or(u64::MAX).saturating_mul(BITS)
}

/// Makes a map that begins with word `first` that of the footprint, which begins in it, in steps that grow with the logarithms
/// of its counts. What lies behind the map is left out.
fn paint(map: &mut [u64], first: usize, footprint: &Footprint, work: &mut u64) -> Result<(), UsedUp> {
    let mut charge = |words: usize| match work.checked_sub(u64::try_from(words).unwrap_or(u64::MAX)) {
        Some(left) => {
            *work = left;
            Ok(())
        }
        None => Err(UsedUp),
    };
    // Once here, and once where it is compared.
    charge(map.len().saturating_mul(2))?;
    map.fill(0);
    let origin = footprint.origin().saturating_sub(byte_of(first));
    let mut end = origin.saturating_add(footprint.run());
    paint_run(map, origin, end);
    for dimension in footprint.dimensions() {
        let mut painted = 1;
        while painted < dimension.count {
            // Positions 0..painted are there; moved by `more`, they and themselves are 0..painted + more.
            let more = painted.min(dimension.count.saturating_sub(painted));
            let by = dimension.step.saturating_mul(more);
            let start = word_of(origin.saturating_add(by));
            end = end.saturating_add(by);
            let behind = words_of(end).min(map.len());
            charge(behind.saturating_sub(start))?;
            add_moved(map, start, behind, by);
            painted = painted.saturating_add(more);
        }
    }
    Ok(())
}

fn paint_run(map: &mut [u64], origin: u64, end: u64) {
    let first = word_of(origin);
    for (number, word) in (first..).zip(map.iter_mut().skip(first)) {
        let base = byte_of(number);
        if base >= end {
            return;
        }
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

/// Adds the map itself, moved up by so many bits, to the words from `start` up to `behind`.
fn add_moved(map: &mut [u64], start: usize, behind: usize, by: u64) {
    let words = word_of(by);
    let bits = u32::try_from(by.checked_rem(BITS).unwrap_or(0)).unwrap_or(0);
    for to in (start..behind).rev() {
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
            for first in 0..=word_of(offset) {
                for len in 0..=8 - first {
                    let mut map = vec![u64::MAX; len];
                    paint(&mut map, first, &view, &mut 10_000).unwrap();
                    let window = byte_of(first)..byte_of(first + len);
                    let painted: BTreeSet<u64> = window
                        .clone()
                        .filter(|&b| map[word_of(b - window.start)] >> (b % 64) & 1 == 1)
                        .collect();
                    assert_eq!(painted, bytes(&view).range(window).copied().collect());
                }
            }
        }
    }

    #[test]
    fn what_is_left_is_what_nobody_took() {
        let of = |offset, n| Footprint::single_run(offset, n);
        let mut words = [u64::MAX; 8];
        assert!(fits(&words, 256) && !fits(&words, 257));
        let mut maps = Maps::new(&mut words, 256, &of(70, 140)).unwrap();
        assert_eq!(maps.look(&of(100, 156)), Ok(Some(100)));
        assert_eq!(maps.take(&of(0, 130)), Ok(Some(70)));
        assert_eq!(maps.take(&of(0, 130)), Ok(None));
        assert_eq!(maps.look(&of(100, 156)), Ok(Some(130)));
        for apart in [of(0, 70), of(0, 3), of(210, 46), of(250, 6)] {
            assert_eq!(maps.look(&apart), Ok(None));
        }
        assert!(!maps.is_empty());
        assert_eq!(maps.take(&of(130, 80)), Ok(Some(130)));
        assert!(maps.is_empty());
    }

    #[test]
    fn a_map_that_is_small_is_painted_at_any_cost_and_a_larger_one_within_a_bound() {
        let mut words = vec![0; 2 << 14];
        for (nbytes, most) in [(SMALL, u64::MAX), (1 << 20, WORDS >> 15)] {
            let view = Footprint::single_run(0, nbytes);
            let mut maps = Maps::new(&mut words, nbytes, &view).unwrap();
            let times = (0..1024_u64).take_while(|_| maps.look(&view) == Ok(Some(0))).count();
            assert_eq!(u64::try_from(times).unwrap(), (most - 1).min(1024));
        }
    }
}
