//! Footprints of a few thousand bytes as bits: what decides where views overlap themselves and no structure helps.

use super::footprint::Footprint;

const WORDS: usize = 64;

/// Bytes that a window shows.
pub(super) const WIDTH: u64 = 4_096;

/// The bytes of a footprint within a short range, a bit for each.
pub(super) struct Window {
    words: [u64; WORDS],
    used: usize,
}

impl Window {
    /// Both, in windows over the same range, with the range's first byte: as much as is needed to tell what they share.
    /// `None` when that is too wide.
    pub(super) fn of_both(a: &Footprint, b: &Footprint) -> Option<(u64, Self, Self)> {
        let (a, b) = (a.trimmed_to(b), b.trimmed_to(a));
        Self::over(&a, &b)
    }

    /// Whether all bytes of `b` are `a`'s; `None` when the window is not wide enough to tell.
    pub(super) fn covers(a: &Footprint, b: &Footprint) -> Option<bool> {
        let (_, a, b) = Self::over(&a.trimmed_to(b), b)?;
        Some(a.words.iter().zip(&b.words).all(|(own, other)| other & !own == 0))
    }

    /// The first byte of the range from `start` on that two windows share.
    pub(super) fn first_common(&self, other: &Self, start: u64) -> Option<u64> {
        let words = (0_u64..).step_by(64).zip(self.words.iter().zip(&other.words));
        let (place, common) = words.map(|(place, (a, b))| (place, a & b)).find(|&(_, common)| common != 0)?;
        Some(start.saturating_add(place).saturating_add(u64::from(common.trailing_zeros())))
    }

    fn over(a: &Footprint, b: &Footprint) -> Option<(u64, Self, Self)> {
        let start = a.origin().min(b.origin());
        let width = a.end().max(b.end()).saturating_sub(start);
        if width > WIDTH {
            return None;
        }
        let used = usize::try_from(width.div_ceil(64)).ok()?;
        Some((start, Self::of(a, start, used)?, Self::of(b, start, used)?))
    }

    /// All of a footprint, in so many words from `start` on.
    fn of(footprint: &Footprint, start: u64, used: usize) -> Option<Self> {
        let mut window = Self { words: [0; WORDS], used };
        let first = footprint.origin().checked_sub(start)?;
        *window.words.get_mut(usize::try_from(first >> 6).ok()?)? = 1 << (first & 63);
        window.spread(1, footprint.run())?;
        for dimension in footprint.dimensions() {
            window.spread(dimension.step, dimension.count)?;
        }
        Some(window)
    }

    /// Repeats what is there `count` times, `step` bytes apart, by doubling.
    fn spread(&mut self, step: u64, count: u64) -> Option<()> {
        let mut done = 1_u64;
        while done < count {
            let added = done.min(count.saturating_sub(done));
            self.add_moved(step.checked_mul(added)?)?;
            done = done.saturating_add(added);
        }
        Some(())
    }

    /// Adds what is there once more, `distance` bytes later.
    fn add_moved(&mut self, distance: u64) -> Option<()> {
        let (words, bits) = (usize::try_from(distance >> 6).ok()?, u32::try_from(distance & 63).ok()?);
        // From the end down, so that what is read has not been written yet.
        for to in (words..self.used).rev() {
            let from = to.wrapping_sub(words);
            let low = from.checked_sub(1).and_then(|before| self.words.get(before)).copied().unwrap_or(0);
            let carried = low.checked_shr(64_u32.wrapping_sub(bits)).unwrap_or(0);
            let moved = self.words.get(from)? << bits | carried;
            *self.words.get_mut(to)? |= moved;
        }
        Some(())
    }
}
