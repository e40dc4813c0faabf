//! Waiting for the other side of a mailbox: spin for a while if that can help, then sleep.

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use crate::sys::OsError;
use crate::sys::affinity::only_processor;
use crate::sys::event::Watch;

/// How long to spin before sleeping, unless told otherwise: about what it takes to wake somebody who sleeps.
pub const DEFAULT_SPIN: Duration = Duration::from_micros(50);

/// Looks at the other side between two looks at the clock.
const LOOKS: u32 = 32;

/// Sleeps between two looks at who may run where.
const AFFINITY_LIFETIME: u32 = 256;

/// How long it is worth spinning now. A spin that finds nothing halves the next one, down to a sixteenth; one that does, or a sleep
/// that a full spin would have made needless, restores it. Who shares its only processor with another never spins.
#[derive(Debug)]
pub(super) struct Spin {
    limit: Duration,
    budget: Duration,
    is_alone: bool,
    sleeps_until_look: u32,
}

impl Spin {
    pub(super) const fn new(limit: Duration) -> Self {
        Self { limit, budget: limit, is_alone: true, sleeps_until_look: 0 }
    }

    /// Works out anew, from time to time, whether one of the other sides shares this one's only processor.
    fn look_at_affinity(&mut self, others: impl IntoIterator<Item = i32>) {
        if self.limit.is_zero() {
            return;
        }
        if let Some(left) = self.sleeps_until_look.checked_sub(1) {
            self.sleeps_until_look = left;
            return;
        }
        self.sleeps_until_look = AFFINITY_LIFETIME;
        let here = only_processor(None).ok().flatten();
        self.is_alone = here.is_none()
            || others.into_iter().all(|other| only_processor(Some(other)).ok().flatten() != here);
    }

    /// Spins until `ready` gives something or it is no longer worth it.
    fn spin<T>(&mut self, ready: &mut impl FnMut() -> Option<T>) -> Option<T> {
        if self.limit.is_zero() || !self.is_alone {
            return None;
        }
        let start = Instant::now();
        while start.elapsed() < self.budget {
            for _ in 0..LOOKS {
                if let Some(found) = ready() {
                    self.budget = self.limit;
                    return Some(found);
                }
                core::hint::spin_loop();
            }
        }
        None
    }

    /// Takes note of how long a spin that found nothing and the sleep behind it took.
    fn slept(&mut self, waited: Duration) {
        self.budget = if waited < self.limit.saturating_mul(2) {
            self.limit
        } else {
            self.budget.div_f32(2.0).max(self.limit.div_f32(16.0))
        };
    }
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited<T> {
    /// What was waited for.
    Ready(T),
    /// Something else happened; it was told.
    Woken,
    /// The time came.
    TimedOut,
}

/// Waits until `ready` gives something, something that is watched happens, or the time comes.
///
/// `asleep` sets and clears the flags that the other sides look at before they ring. `others` are their process numbers.
pub(super) fn wait<T>(
    spin: &mut Spin,
    watch: &Watch,
    until: Option<Instant>,
    mut ready: impl FnMut() -> Option<T>,
    asleep: impl Fn(bool),
    others: impl IntoIterator<Item = i32>,
    happened: impl FnMut(u64),
) -> Result<Waited<T>, OsError> {
    if let Some(found) = ready().or_else(|| spin.spin(&mut ready)) {
        return Ok(Waited::Ready(found));
    }
    let start = Instant::now();
    asleep(true);
    // Between the flag and the look: see the proof in `mailbox`.
    fence(Ordering::SeqCst);
    let found = ready();
    let woken = match found {
        Some(_) => Ok(true),
        None => watch.wait(until, happened),
    };
    asleep(false);
    if let Some(found) = found {
        return Ok(Waited::Ready(found));
    }
    let woken = woken?;
    spin.slept(start.elapsed());
    spin.look_at_affinity(others);
    Ok(match ready() {
        Some(found) => Waited::Ready(found),
        None if woken => Waited::Woken,
        None => Waited::TimedOut,
    })
}
