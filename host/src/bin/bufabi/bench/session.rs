//! Timing: an operation and something plain in turn, in passes long enough for the clock, and the median of each.

use std::hint::black_box;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use crate::terminal::tell;

/// A pass takes at least so long: a thousand times what the clock's own look takes.
const PASS: Duration = Duration::from_micros(25);
/// All passes of a figure, those of what stands beside it included.
const BUDGET: Duration = Duration::from_millis(60);
/// Passes of a figure, at most.
const PASSES: usize = 501;
/// And at least, however long they take.
const FEW: usize = 5;

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) name: String,
    /// The median, of one operation.
    pub(super) nanoseconds: f64,
    pub(super) goal: Option<f64>,
    /// What was measured in turn with it.
    pub(super) beside: String,
    pub(super) beside_nanoseconds: f64,
    pub(super) passes: usize,
}

impl Figure {
    pub(super) fn is_reached(&self) -> Option<bool> {
        self.goal.map(|goal| self.nanoseconds <= goal)
    }
}

/// What a figure should be, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Goal {
    /// At most so many.
    AtMost(f64),
    /// At most so much longer than what stands beside it.
    Plus(f64),
    /// At most so many times what stands beside it.
    Times(f64),
}

impl Goal {
    fn of(self, beside: f64) -> f64 {
        match self {
            Self::AtMost(goal) => goal,
            Self::Plus(more) => beside + more,
            Self::Times(factor) => beside * factor,
        }
    }
}

/// All figures of a run.
pub(super) struct Session {
    only: String,
    figures: Vec<Figure>,
    shows_progress: bool,
}

impl Session {
    pub(super) fn new(only: String) -> Self {
        Self { only, figures: Vec::new(), shows_progress: stderr().is_terminal() }
    }

    /// Whether one of those names is asked for: what none asks for need not be prepared.
    pub(super) fn wants(&self, names: &[&str]) -> bool {
        names.iter().any(|name| name.contains(&self.only))
    }

    /// Measures an operation, a call of which does it `times` times, beside a plain copy of the `nbytes` bytes that it is about.
    pub(super) fn copy<R>(
        &mut self,
        name: &str,
        goal: Goal,
        nbytes: usize,
        times: u32,
        operation: impl FnMut() -> R,
    ) {
        self.timed(name, goal, nbytes, times, calls(operation));
    }

    /// As [`copy`](Self::copy), of an operation that is called so many times by itself and tells what they took, without what it
    /// had to do in between.
    pub(super) fn timed(
        &mut self,
        name: &str,
        goal: Goal,
        nbytes: usize,
        times: u32,
        operation: impl FnMut(u32) -> Duration,
    ) {
        let (bytes, mut into) = (vec![7_u8; nbytes], vec![0_u8; nbytes]);
        let copy = move || black_box(&mut into).copy_from_slice(black_box(&bytes));
        self.add(name, goal, times, operation, &format!("copy of {nbytes} bytes"), calls(copy));
    }

    /// Measures an operation beside another one.
    pub(super) fn beside<R, S>(
        &mut self,
        name: &str,
        goal: Goal,
        operation: impl FnMut() -> R,
        beside: &str,
        other: impl FnMut() -> S,
    ) {
        self.add(name, goal, 1, calls(operation), beside, calls(other));
    }

    /// The median time of something that cannot be there while what it stands beside is measured.
    pub(super) fn before<R>(&self, operation: impl FnMut() -> R) -> f64 {
        let mut operation = calls(operation);
        let count = count_of(&mut operation);
        let mut passes = Vec::new();
        let start = Instant::now();
        while goes_on(passes.len(), start) {
            passes.push(mean(count, &mut operation));
        }
        median(&mut passes)
    }

    /// Measures an operation beside one of which that is the median time.
    pub(super) fn after<R>(
        &mut self,
        name: &str,
        goal: Goal,
        operation: impl FnMut() -> R,
        beside: &str,
        beside_nanoseconds: f64,
    ) {
        let known = |count: u32| Duration::from_secs_f64(beside_nanoseconds * 1e-9 * f64::from(count));
        self.add(name, goal, 1, calls(operation), beside, known);
    }

    fn add(
        &mut self,
        name: &str,
        goal: Goal,
        times: u32,
        mut operation: impl FnMut(u32) -> Duration,
        beside: &str,
        mut other: impl FnMut(u32) -> Duration,
    ) {
        if !name.contains(&self.only) {
            return;
        }
        if self.shows_progress {
            tell(format_args!("\r\x1b[K\x1b[2m{name}\x1b[0m"));
        }
        let (count, other_count) = (count_of(&mut operation), count_of(&mut other));
        let (mut passes, mut other_passes) = (Vec::new(), Vec::new());
        let start = Instant::now();
        while goes_on(passes.len(), start) {
            passes.push(mean(count, &mut operation));
            other_passes.push(mean(other_count, &mut other));
        }
        let count = passes.len();
        let beside_nanoseconds = median(&mut other_passes);
        self.figures.push(Figure {
            name: name.to_owned(),
            nanoseconds: median(&mut passes) / f64::from(times),
            goal: Some(goal.of(beside_nanoseconds)),
            beside: beside.to_owned(),
            beside_nanoseconds,
            passes: count,
        });
    }

    /// What was measured.
    pub(super) fn finish(self) -> Vec<Figure> {
        if self.shows_progress {
            tell(format_args!("\r\x1b[K"));
        }
        self.figures
    }
}

/// Whether there is time for another pass.
fn goes_on(passes: usize, start: Instant) -> bool {
    passes < PASSES && (passes < FEW || start.elapsed() < BUDGET)
}

/// So many calls in a row, and what they took.
fn calls<R>(mut operation: impl FnMut() -> R) -> impl FnMut(u32) -> Duration {
    move |count| {
        let start = Instant::now();
        for _ in 0..count {
            black_box(operation());
        }
        start.elapsed()
    }
}

/// How many calls make a pass long enough.
fn count_of(operation: &mut impl FnMut(u32) -> Duration) -> u32 {
    let mut count = 1_u32;
    while operation(count) < PASS && count < 1 << 20 {
        count = count.saturating_mul(2);
    }
    count
}

/// What one of so many calls took, nanoseconds.
fn mean(count: u32, operation: &mut impl FnMut(u32) -> Duration) -> f64 {
    operation(count).as_secs_f64() * 1e9 / f64::from(count)
}

/// The middle one; 0 of none.
pub(super) fn median(times: &mut [f64]) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_a_number_or_follows_from_what_stands_beside_it() {
        assert_eq!(
            [Goal::AtMost(5.0), Goal::Plus(400.0), Goal::Times(1.5)].map(|goal| goal.of(100.0)),
            [5.0, 500.0, 150.0]
        );
        let figure = |nanoseconds, goal| Figure {
            name: String::new(),
            nanoseconds,
            goal,
            beside: String::new(),
            beside_nanoseconds: 1.0,
            passes: 1,
        };
        assert_eq!(figure(5.0, Some(5.0)).is_reached(), Some(true));
        assert_eq!(figure(5.1, Some(5.0)).is_reached(), Some(false));
        assert_eq!(figure(5.0, None).is_reached(), None);
    }

    #[test]
    fn the_median_is_the_middle_one_whatever_the_order() {
        assert_eq!(median(&mut [9.0, 1.0, 5.0]), 5.0);
        assert_eq!(median(&mut []), 0.0);
    }

    #[test]
    fn only_what_is_asked_for_is_measured_and_a_call_may_do_it_many_times() {
        let mut session = Session::new("wanted".to_owned());
        let mut calls = 0_u32;
        session.copy("other", Goal::AtMost(1.0), 8, 1, || calls += 1);
        assert_eq!(calls, 0);
        session.copy("the wanted one", Goal::AtMost(f64::INFINITY), 8, 4, || calls += 1);
        assert!(calls > 0);
        let figures = session.finish();
        assert_eq!(figures.len(), 1);
        assert_eq!((figures[0].name.as_str(), figures[0].is_reached()), ("the wanted one", Some(true)));
        assert_eq!(figures[0].beside, "copy of 8 bytes");
    }
}
