//! Time, as the caller tells it, and how long a waiting call goes on looking.

use core::time::Duration;

/// What a waiting call looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The counter whose change it waits for, in bytes from COUNTER's start.
    pub counter: u64,
    /// The value that was not enough. Any other is a reason to look again.
    pub seen: u32,
    /// The byte by which this side may tell the other one that it sleeps, in bytes from COUNTER's start; `None` where
    /// nobody looks at one.
    pub sleep_flag: Option<u64>,
}

/// The time, and a way to let it pass.
pub trait Clock {
    /// Time since some moment that stays the same. It must go on, and never back.
    fn now(&mut self) -> Duration;

    /// Lets time pass, at most about `left`, and returns when it is worth another look: after a few turns of a loop, a yield, or
    /// a sleep until the watched counter has another value. A sleep ends after 1 ms at the latest, since the other side need not
    /// know of sleepers, and may give up by its abort flag alone.
    fn pause(&mut self, watch: Watch, left: Duration);

    /// Called instead when one look was all and found nothing: nothing is waited for, but whoever only ever looks may be due to learn
    /// whether the other side is still there. The default does nothing.
    fn glance(&mut self) {}
}

/// What is left of a limit. One look comes before the first [`again`](Self::again), so a limit of 0 is one look.
///
/// It counts nanoseconds in 64 bits, 584 years: the arithmetic of [`Duration`] has a path to a panic, which a compiler does not
/// always see to be closed.
#[derive(Debug)]
pub struct Patience {
    limit: u64,
    deadline: Option<u64>,
}

impl Patience {
    /// That much patience, counted from the first look that found nothing.
    #[must_use]
    pub const fn new(limit: Duration) -> Self {
        Self { limit: nanoseconds(limit), deadline: None }
    }

    /// Lets time pass and asks for another look; `false` when the limit is over.
    pub fn again(&mut self, clock: &mut impl Clock, watch: Watch) -> bool {
        if self.limit == 0 {
            clock.glance();
            return false;
        }
        let now = nanoseconds(clock.now());
        let deadline = *self.deadline.get_or_insert(now.saturating_add(self.limit));
        let left = deadline.saturating_sub(now);
        if left == 0 {
            return false;
        }
        clock.pause(watch, Duration::from_nanos(left));
        true
    }
}

/// As many as 64 bits can say.
#[expect(clippy::as_conversions, reason = "widening, and From is not const")]
const fn nanoseconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each pause takes what it is told to, at most `step`.
    struct Steps {
        now: Duration,
        step: Duration,
        pauses: u32,
    }

    impl Clock for Steps {
        fn now(&mut self) -> Duration {
            self.now
        }

        fn pause(&mut self, _: Watch, left: Duration) {
            self.now = self.now.checked_add(left.min(self.step)).unwrap();
            self.pauses = self.pauses.checked_add(1).unwrap();
        }
    }

    #[test]
    fn a_limit_is_kept_and_none_is_one_look() {
        let watch = Watch { counter: 0, seen: 0, sleep_flag: None };
        for (limit, step, pauses) in [(0, 1, 0), (10, 3, 4), (10, 10, 1), (10, 100, 1)] {
            let mut clock = Steps { now: Duration::from_secs(9), step: Duration::from_secs(step), pauses: 0 };
            let mut patience = Patience::new(Duration::from_secs(limit));
            while patience.again(&mut clock, watch) {}
            assert_eq!((clock.pauses, clock.now.as_secs()), (pauses, limit.checked_add(9).unwrap()));
        }
    }

    #[test]
    fn a_limit_past_the_end_of_time_does_not_wrap() {
        let watch = Watch { counter: 0, seen: 0, sleep_flag: None };
        let mut clock = Steps { now: Duration::from_secs(9), step: Duration::from_secs(1), pauses: 0 };
        assert!(Patience::new(Duration::MAX).again(&mut clock, watch));
    }
}
