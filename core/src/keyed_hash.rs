//! A hash of an identity under a secret seed, so that whoever chooses identities cannot choose where they land in a table.

use crate::wire::identity::{Identity, RawIdentity};

/// A hash function, drawn by its seed out of a family that nobody outside knows the member of.
///
/// Two words `a` and `b` become (k0 + a)(k1 + b), a number of 128 bits, where the sums wrap at 2^64. That is NH, the universal hash
/// of UMAC, on 64-bit words: the answers for two different pairs have a given difference with a probability of at most 2^-64 over
/// the keys, whatever the pairs are. A third word `c` adds c k2, modulo 2^64, to the lower half, with an odd k2. Two triples that
/// differ in `c` alone never agree then, and any others with a probability of at most 2^-63, as without a carry two differences
/// are too many. A second keyed multiplication, folded, spreads the 128 bits over the 64 of the answer. All are integer
/// multiplications alone: the same answer on every target, and fast on all of them.
///
/// It is no signature and no message authentication: answers must not be shown to whoever chooses the words.
#[derive(Clone)]
pub struct KeyedHash {
    keys: [u64; 5],
}

impl KeyedHash {
    /// The member that the seed draws. Where words come from outside, the seed must be random and secret: 16 bytes of the
    /// operating system, drawn anew for each table.
    #[must_use]
    pub const fn new(seed: [u64; 2]) -> Self {
        let [high, low] = seed;
        let mut keys = [0; 5];
        let mut rest: &mut [u64] = &mut keys;
        let mut state = low;
        while let [key, others @ ..] = rest {
            // SplitMix64 steps a counter through all of 2^64; the other half of the seed enters between two rounds of it.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            *key = mix(mix(state) ^ high);
            rest = others;
        }
        let [k0, k1, k2, k3, k4] = keys;
        Self { keys: [k0, k1, k2 | 1, k3, k4] }
    }

    /// The hash of the 20 meaningful bytes of an identity.
    #[must_use]
    #[inline]
    pub const fn identity(&self, identity: Identity) -> u64 {
        let owner = u64::from_le_bytes(identity.owner_instance_id().0);
        self.words(owner, identity.buffer_id(), widen(identity.generation().get()))
    }

    /// The same of a checked record's identity, where it lies.
    #[inline]
    pub(crate) const fn record(&self, identity: &RawIdentity) -> u64 {
        let owner = u64::from_le_bytes(identity.owner_instance_id);
        self.words(owner, identity.buffer_id.get(), widen(identity.generation.get()))
    }

    /// The hash of three words.
    #[must_use]
    #[inline]
    pub const fn words(&self, a: u64, b: u64, c: u64) -> u64 {
        let [k0, k1, k2, k3, k4] = self.keys;
        let (high, low) = halves(product(k0.wrapping_add(a), k1.wrapping_add(b)));
        let low = low.wrapping_add(c.wrapping_mul(k2));
        let (high, low) = halves(product(low ^ k3, high ^ k4));
        high ^ low
    }
}

#[cfg(test)]
impl KeyedHash {
    /// The first word of triples that all agree, whatever their second is: what somebody who knew the seed would choose.
    pub(crate) const fn word_of_collisions(&self) -> u64 {
        self.keys[0].wrapping_neg()
    }
}

/// Says nothing of its keys: a log must not give them away.
impl core::fmt::Debug for KeyedHash {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("KeyedHash")
    }
}

/// The finish of SplitMix64: a permutation of 64 bits.
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[inline]
#[expect(clippy::as_conversions, reason = "widening, and From is not const")]
const fn widen(value: u32) -> u64 {
    value as u64
}

/// The whole product, which always fits.
#[inline]
#[expect(clippy::as_conversions, reason = "widening, and From is not const")]
const fn product(a: u64, b: u64) -> u128 {
    (a as u128).wrapping_mul(b as u128)
}

#[inline]
#[expect(clippy::as_conversions, reason = "each half is cut out on purpose")]
const fn halves(value: u128) -> (u64, u64) {
    ((value >> 64) as u64, value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::identity::OwnerInstanceId;
    use core::num::NonZeroU32;

    #[test]
    fn answers_are_the_same_on_every_target() {
        let hash = KeyedHash::new([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);
        let identity =
            Identity::new(OwnerInstanceId(*b"\x01\x02\x03\x04\x05\x06\x07\x08"), 9, NonZeroU32::MIN);
        assert_eq!(hash.identity(identity), hash.words(0x0807_0605_0403_0201, 9, 1));
        // By an independent program, in integers without a width.
        assert_eq!(hash.words(0, 0, 0), 0xbee7_0a34_2bdb_27c2);
        assert_eq!(hash.identity(identity), 0x9c5e_e6b2_d18b_cdbe);
        assert_eq!(hash.words(u64::MAX, u64::MAX, u64::MAX), 0xc289_7afd_c809_34f8);
    }

    #[test]
    fn each_bit_of_the_words_and_of_the_seed_moves_half_of_the_answer() {
        let (samples, step) = if cfg!(miri) { (16, 37) } else { (512, 1) };
        for bit in (0..320_u32).step_by(step) {
            let mut moved = 0;
            for sample in 0..samples {
                let mut words = [0; 5];
                words[0] = sample;
                let before = KeyedHash::new([words[3], words[4]]).words(words[0], words[1], words[2]);
                words[usize::try_from(bit / 64).unwrap()] ^= 1 << (bit % 64);
                let after = KeyedHash::new([words[3], words[4]]).words(words[0], words[1], words[2]);
                moved += (before ^ after).count_ones();
            }
            let mean = f64::from(moved) / f64::from(u32::try_from(samples).unwrap());
            assert!((24.0..40.0).contains(&mean), "bit {bit} moves {mean} of 64 on average");
        }
    }

    /// Identities as owners really make them, and as somebody would who hopes for a weak hash.
    #[test]
    fn structured_identities_spread_like_random_ones() {
        let count = if cfg!(miri) { 128_u64 } else { 16_384 };
        let sequences: [fn(u64) -> [u64; 3]; 7] = [
            |i| [0, i, 1],
            |i| [7, 1, i],
            |i| [i, 1, 1],
            |i| [0, i << 48, 1],
            |i| [i << 50, 0, 0],
            |i| [i, i, i],
            |i| [i, u64::MAX - i, 1],
        ];
        for seed in 0..if cfg!(miri) { 1 } else { 4 } {
            let hash = KeyedHash::new([seed, !seed]);
            for (which, sequence) in sequences.iter().enumerate() {
                for shift in [0, 32, 57] {
                    let mut load = [0_u32; 128];
                    for i in 0..count {
                        let [a, b, c] = sequence(i);
                        load[usize::try_from((hash.words(a, b, c) >> shift) % 128).unwrap()] += 1;
                    }
                    // Of 128 on average the standard deviation is 11; six of them, and more for few samples, are never seen.
                    let most = *load.iter().max().unwrap();
                    assert!(
                        most <= if cfg!(miri) { 12 } else { 196 },
                        "seed {seed}, sequence {which}, shift {shift}: {most}"
                    );
                }
            }
        }
    }
}
