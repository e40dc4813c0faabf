//! How much one answer may cost before the safe answer is given instead.

/// Steps that one question may take. A step is a handful of divisions, at most 25 ns on a server core of today, so that the
/// slowest answer stays below 50 microseconds.
pub(super) const STEPS: u32 = 2_000;

/// What is left of the steps.
#[derive(Debug)]
pub(super) struct Work {
    given: u32,
    left: u32,
}

impl Work {
    pub(super) const fn new() -> Self {
        Self::of(STEPS)
    }

    /// As many as one question may take, but no more than `available`.
    pub(super) const fn of(available: u32) -> Self {
        let given = if available < STEPS { available } else { STEPS };
        Self { given, left: given }
    }

    /// Takes one step; `false` when none is left.
    #[inline]
    pub(super) const fn step(&mut self) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    /// Takes several steps at once; `false`, and none is left, when there were not so many.
    #[inline]
    pub(super) const fn steps(&mut self, count: u32) -> bool {
        match self.left.checked_sub(count) {
            Some(left) => {
                self.left = left;
                true
            }
            None => {
                self.left = 0;
                false
            }
        }
    }

    /// No step is left: an answer "no" that came since may be due to that.
    #[inline]
    pub(super) const fn is_used_up(&self) -> bool {
        self.left == 0
    }

    /// How many were taken.
    pub(super) const fn steps_taken(&self) -> u32 {
        self.given.saturating_sub(self.left)
    }
}
