//! Whether two footprints share a byte: a bounded linear Diophantine equation, made small and then solved.
//!
//! A byte is shared when some place in every dimension of both, and a place in each run, give the same address. With the places of
//! the second counted from its end all signs are the same: find integers `0 <= v <= most` with
//! `sum(coefficient * v) + w = target` and `0 <= w <= slack`, the slack being what the two runs leave free. Merging what
//! merges leaves at most one unknown for ranges and tiles of one pitch, two for tiles of two pitches: those are
//! answered in closed form. Beyond that the largest coefficients are tried, at those values only that the others can
//! complete by size and by their greatest common divisor.

use super::congruence::first_in_range;
use super::footprint::{Dimension, Footprint};
use super::work::Work;
use crate::view::MAX_NDIMS;

/// An answer that may not have been found within the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    No,
    Yes,
    /// The work was used up first.
    Unknown,
}

impl Answer {
    #[inline]
    pub(super) const fn of(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }
}

/// One unknown of the equation.
#[derive(Clone, Copy, Default)]
struct Term {
    coefficient: u64,
    /// The largest value of the unknown.
    most: u64,
    /// What the terms before this one, all smaller, reach together with the slack. Saturates, which is past any target.
    inner_reach: u64,
    /// The greatest common divisor of their coefficients.
    inner_divisor: u64,
}

const MAX_TERMS: usize = MAX_NDIMS * 2;

/// What setting an equation up costs, in steps: so much, and as much as there are dimensions in it.
const SETTING_UP: u32 = 5;

/// Whether two footprints have a byte in common.
pub(super) fn share_a_byte(a: &Footprint, b: &Footprint, work: &mut Work) -> Answer {
    if a.is_apart_from(b) {
        return Answer::No;
    }
    if !work.steps(SETTING_UP.wrapping_add(a.rank()).wrapping_add(b.rank())) {
        return Answer::Unknown;
    }
    // The bounds meet, so the second's last byte is not before the first's first. Saturation of the slack and of what
    // terms reach is exact enough: both are compared with the target, which is below 2^64 - 1.
    let mut target = b.end().wrapping_sub(1).wrapping_sub(a.origin());
    let mut slack = a.run().wrapping_sub(1).saturating_add(b.run().wrapping_sub(1));
    if target <= slack {
        return Answer::Yes;
    }

    // What is no larger than the slack widens it without a gap.
    let (mut from_a, mut from_b) = (a.dimensions(), b.dimensions());
    let mut common_bits = 0;
    let mut sorted = [Dimension::default(); MAX_TERMS];
    let mut len = 0_usize;
    while let Some(dimension) = take_smaller(&mut from_a, &mut from_b) {
        if dimension.step <= slack.saturating_add(1) {
            slack = slack.saturating_add(dimension.reach());
        } else if let Some(slot) = sorted.get_mut(len) {
            *slot = dimension;
            common_bits |= dimension.step;
            len = len.wrapping_add(1);
        }
    }

    // Elements wider than a byte: in units of them, the slack mostly vanishes.
    let unit = common_bits.trailing_zeros().min(63);
    let lowest = target.saturating_sub(slack);
    let lowest_unit = (lowest >> unit).wrapping_add(u64::from(lowest & low_bits(unit) != 0));
    target >>= unit;
    match target.checked_sub(lowest_unit) {
        Some(rest) => slack = rest,
        None => return Answer::No,
    }

    let mut terms = [Term::default(); MAX_TERMS];
    let mut used = 0_usize;
    for dimension in sorted.iter().take(len) {
        let (coefficient, most) = (dimension.step >> unit, dimension.count.wrapping_sub(1));
        if coefficient <= slack.saturating_add(1) {
            slack = slack.saturating_add(coefficient.saturating_mul(most));
        } else if !merged(&mut terms, used, coefficient, most)
            && let Some(slot) = terms.get_mut(used)
        {
            *slot = Term { coefficient, most, inner_reach: 0, inner_divisor: 0 };
            used = used.wrapping_add(1);
        }
    }
    let terms = terms.get_mut(..used).unwrap_or_default();
    if used > 2 {
        let (mut reach, mut divisor) = (slack, 0);
        for term in &mut *terms {
            (term.inner_reach, term.inner_divisor) = (reach, divisor);
            reach = reach.saturating_add(term.coefficient.saturating_mul(term.most));
            divisor = greatest_common_divisor(divisor, term.coefficient);
        }
    }
    solve(terms, target, slack, work)
}

/// The smaller of the two first dimensions, taken from its list.
#[inline]
fn take_smaller<'d>(a: &mut &'d [Dimension], b: &mut &'d [Dimension]) -> Option<Dimension> {
    let from = match (a.first(), b.first()) {
        (Some(first), Some(second)) if first.step <= second.step => a,
        (Some(_), None) => a,
        (_, Some(_)) => b,
        (None, None) => return None,
    };
    let (&first, rest) = from.split_first()?;
    *from = rest;
    Some(first)
}

/// Merges an unknown into one whose coefficient divides its own and whose multiples reach up to it without a gap.
#[inline]
fn merged(terms: &mut [Term; MAX_TERMS], used: usize, coefficient: u64, most: u64) -> bool {
    for term in terms.iter_mut().take(used) {
        if coefficient == term.coefficient {
            term.most = term.most.saturating_add(most);
            return true;
        }
        let next = term.coefficient.saturating_mul(term.most.saturating_add(1));
        if coefficient <= next && coefficient.checked_rem(term.coefficient) == Some(0) {
            let multiple = coefficient.checked_div(term.coefficient).unwrap_or(0);
            term.most = term.most.saturating_add(multiple.saturating_mul(most));
            return true;
        }
    }
    false
}

/// Whether `sum(coefficient * v) + w = target` has a solution with `0 <= w <= slack`. Terms are sorted by coefficient, each
/// larger than `slack + 1`.
fn solve(terms: &[Term], target: u64, slack: u64, work: &mut Work) -> Answer {
    match *terms {
        [] => Answer::of(target <= slack),
        [only] => Answer::of(target.wrapping_sub(only.at_most(target)) <= slack),
        [small, large] => {
            let reach = small.coefficient.saturating_mul(small.most).saturating_add(slack);
            let found = large
                .values(target, reach)
                .and_then(|values| values.first_with(target, small.coefficient, slack, work));
            match found {
                Some(_) => Answer::Yes,
                None if work.is_used_up() => Answer::Unknown,
                None => Answer::No,
            }
        }
        [ref rest @ .., large] => {
            let mut values = large.values(target, large.inner_reach);
            while let Some(tried) = values {
                let Some(value) = tried.first_with(target, large.inner_divisor, slack, work) else {
                    break;
                };
                let left = target.wrapping_sub(large.coefficient.wrapping_mul(value));
                match solve(rest, left, slack, work) {
                    Answer::No if work.step() => values = tried.after(value),
                    Answer::No => break,
                    answer @ (Answer::Yes | Answer::Unknown) => return answer,
                }
            }
            if work.is_used_up() { Answer::Unknown } else { Answer::No }
        }
    }
}

impl Term {
    /// The largest multiple that is not above `target`.
    #[inline]
    fn at_most(&self, target: u64) -> u64 {
        let value = target.checked_div(self.coefficient).unwrap_or(0).min(self.most);
        self.coefficient.wrapping_mul(value)
    }

    /// The values that leave no less than nothing and no more than `reach`.
    #[inline]
    fn values(&self, target: u64, reach: u64) -> Option<Values> {
        let last = target.checked_div(self.coefficient)?.min(self.most);
        let needed = target.saturating_sub(reach);
        let floor = needed.checked_div(self.coefficient)?;
        let first = floor.wrapping_add(u64::from(floor.wrapping_mul(self.coefficient) < needed));
        (first <= last).then_some(Values { coefficient: self.coefficient, first, last })
    }
}

/// Values of an unknown that are still to be tried.
#[derive(Clone, Copy)]
struct Values {
    coefficient: u64,
    first: u64,
    last: u64,
}

impl Values {
    /// The first value that leaves a multiple of `modulus`, give or take the slack.
    #[inline]
    fn first_with(&self, target: u64, modulus: u64, slack: u64, work: &mut Work) -> Option<u64> {
        let rest =
            target.wrapping_sub(self.coefficient.wrapping_mul(self.first)).checked_rem(modulus).unwrap_or(0);
        if rest <= slack {
            return Some(self.first);
        }
        if self.first == self.last {
            return None;
        }
        // (rest - coefficient * v) mod modulus <= slack, and rest is above it: so the multiple of -coefficient falls
        // from modulus - rest on, where 0 comes, to slack further.
        let factor = match self.coefficient.checked_rem(modulus)? {
            0 => return None,
            remainder => modulus.wrapping_sub(remainder),
        };
        let low = modulus.wrapping_sub(rest);
        let further = first_in_range(factor, modulus, low, low.wrapping_add(slack), work)?;
        self.first.checked_add(further).filter(|&value| value <= self.last)
    }

    /// Those after `value`.
    #[inline]
    const fn after(self, value: u64) -> Option<Self> {
        if value >= self.last {
            return None;
        }
        Some(Self { first: value.wrapping_add(1), ..self })
    }
}

/// The bits below bit number `unit`.
#[inline]
const fn low_bits(unit: u32) -> u64 {
    match 1_u64.checked_shl(unit) {
        Some(bit) => bit.wrapping_sub(1),
        None => u64::MAX,
    }
}

/// Euclid's; that with 0 is the other number.
fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while let Some(rest) = a.checked_rem(b) {
        (a, b) = (b, rest);
    }
    a
}
