//! The first multiple of a number that falls into a range of remainders: the step that replaces a search by a division.

use super::work::Work;

/// The smallest `v` with `low <= (factor * v) mod modulus <= high`, for `0 < low <= high < modulus <= 2^63`
/// and `factor < modulus`.
///
/// `None` when there is none, when it passes 2^64 / `factor` (so that `factor * v` would pass 2^64), or when the work is used
/// up, which `work` then says.
///
/// Either some multiple of the factor falls into the range before the first wrap, or each wrap moves the range by `modulus`
/// against the multiples: the same question with the factor as the modulus. A factor above half of the modulus is turned
/// round first, so that the modulus halves at least and the depth stays below 64.
pub(super) fn first_in_range(factor: u64, modulus: u64, low: u64, high: u64, work: &mut Work) -> Option<u64> {
    if factor == 0 || !work.step() {
        return None;
    }
    let (factor, low, high) = if factor > modulus.wrapping_sub(factor) {
        (modulus.wrapping_sub(factor), modulus.wrapping_sub(high), modulus.wrapping_sub(low))
    } else {
        (factor, low, high)
    };
    // The last multiple up to `high` is in the range unless it lies below `low`.
    let low_rest = low.checked_rem(factor)?;
    let first = low.checked_div(factor)?.wrapping_add(u64::from(low_rest > 0));
    if first.wrapping_mul(factor) <= high {
        return Some(first);
    }
    // No multiple lies between, so `high` leaves as much more than `low` as it is above it, and `low_rest` is not 0.
    let high_rest = low_rest.wrapping_add(high.wrapping_sub(low));
    let rest = modulus.checked_rem(factor)?;
    let wraps = first_in_range(factor_against(rest, factor), factor, low_rest, high_rest, work)?;
    let start = modulus.checked_mul(wraps)?.checked_add(low)?;
    start.checked_add(factor.wrapping_sub(1))?.checked_div(factor)
}

/// `-rest mod factor`.
const fn factor_against(rest: u64, factor: u64) -> u64 {
    if rest == 0 { 0 } else { factor.wrapping_sub(rest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_small_question_is_answered_as_by_trying() {
        for modulus in 2..28_u64 {
            for factor in 0..modulus {
                for low in 1..modulus {
                    for high in low..modulus {
                        let tried = (0..modulus).find(|v| {
                            let rest = factor * v % modulus;
                            low <= rest && rest <= high
                        });
                        let found = first_in_range(factor, modulus, low, high, &mut Work::new());
                        assert_eq!(found, tried, "{factor} mod {modulus} in {low}..={high}");
                    }
                }
            }
        }
    }

    #[test]
    fn large_moduli_take_few_steps() {
        // 2^35 - 31 is prime, so only one value leaves the remainder of a given one.
        let modulus = (1_u64 << 35) - 31;
        for factor in [2, 3, 5_000_000_019, modulus - 2, 21_233_664_000, modulus / 2, modulus / 2 + 1] {
            for value in [1, 2, 1_000_003, 500_000_000] {
                let remainder = factor * value % modulus;
                let mut work = Work::new();
                assert_eq!(first_in_range(factor, modulus, remainder, remainder, &mut work), Some(value));
                assert!(work.steps_taken() < 36);
            }
        }
    }

    #[test]
    fn a_product_past_64_bits_is_not_found() {
        let modulus = (1_u64 << 35) - 31;
        let value = modulus - 2;
        let remainder = u64::try_from(u128::from(value) * 5_000_000_019 % u128::from(modulus)).unwrap();
        assert_eq!(first_in_range(5_000_000_019, modulus, remainder, remainder, &mut Work::new()), None);
    }
}
