//! Times of round trips, each of them exact, in memory that does not grow with how many are short.

/// Shorter times than this, in nanoseconds, are counted; each longer one is kept. Of those a minute holds less than a million.
const COUNTED: usize = 1 << 16;

/// How long things took, in nanoseconds.
pub(super) struct Times {
    /// How many took that long.
    counts: Vec<u64>,
    longer: Vec<u64>,
    count: u64,
}

impl Times {
    pub(super) fn new() -> Self {
        Self { counts: vec![0; COUNTED], longer: Vec::new(), count: 0 }
    }

    pub(super) fn add(&mut self, nanoseconds: u64) {
        self.count = self.count.saturating_add(1);
        match usize::try_from(nanoseconds).ok().and_then(|at| self.counts.get_mut(at)) {
            Some(count) => *count = count.saturating_add(1),
            None => self.longer.push(nanoseconds),
        }
    }

    /// How many there are.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// The times in order.
    pub(super) fn sorted(mut self) -> Sorted {
        self.longer.sort_unstable();
        Sorted(self)
    }
}

/// Times in order.
pub(super) struct Sorted(Times);

impl Sorted {
    /// The time that stands behind that part of all of them, the longest one behind all, 0 if there are none.
    pub(super) fn at(&self, part: u64, of: u64) -> u64 {
        let last = self.0.count.saturating_sub(1);
        let mut before = self.0.count.saturating_mul(part).checked_div(of).unwrap_or(0).min(last);
        for (nanoseconds, &count) in (0..).zip(&self.0.counts) {
            if before < count {
                return nanoseconds;
            }
            before = before.saturating_sub(count);
        }
        usize::try_from(before).ok().and_then(|at| self.0.longer.get(at)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_is_that_of_the_sorted_times() {
        let edge = u64::try_from(COUNTED).unwrap();
        let times = [5, edge, 3, 3, u64::MAX, edge - 1, 0, edge + 1, 5, 700];
        let (mut counted, mut sorted) = (Times::new(), times);
        times.into_iter().for_each(|time| counted.add(time));
        sorted.sort_unstable();
        assert_eq!(counted.count(), 10);
        let counted = counted.sorted();
        let ranks: Vec<u64> = (0..10).map(|rank| counted.at(rank, 10)).collect();
        assert_eq!(ranks, sorted);
        assert_eq!(counted.at(1, 1), u64::MAX);
        assert_eq!(Times::new().sorted().at(1, 2), 0);
    }
}
