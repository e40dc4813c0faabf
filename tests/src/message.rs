//! Messages of all sizes that both sides of a queue know without telling each other.

use crate::random::Random;

/// The bytes of message `number`: most are short, one in 64 has up to 1024.
#[must_use]
pub fn message(number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    let nbytes = if random.below(64) == 0 { random.below(1025) } else { random.below(64) };
    let words = (0..nbytes.div_ceil(8)).flat_map(|_| random.next().to_le_bytes());
    words.take(usize::try_from(nbytes).unwrap_or(0)).collect()
}
