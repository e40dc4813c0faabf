//! Addresses given out of one range: what a heap that workers inherit and a chip's memory have in common.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use bufabi_core::Code;

/// A range of addresses, part of which is given out. It knows addresses alone and touches no memory.
///
/// Neighbours that are free are one piece, so whenever nothing is live any request up to the whole size is served. The
/// smallest piece that is large enough serves a request: both ways cost the logarithm of the number of pieces.
#[derive(Debug)]
pub struct Space {
    base: u64,
    nbytes: u64,
    alignment: u64,
    /// Free pieces, by address: their lengths.
    free: BTreeMap<u64, u64>,
    /// The same, by length.
    by_length: BTreeSet<(u64, u64)>,
    /// What is live, by address: the length that was taken for it, and the length that was asked for.
    live: BTreeMap<u64, Live>,
}

#[derive(Clone, Copy, Debug)]
struct Live {
    taken: u64,
    nbytes: u64,
}

impl Space {
    /// The `nbytes` addresses from `base` on, given out at multiples of `alignment` bytes from `base`. `None` when the range passes
    /// 2^64, or the alignment is no power of two or does not divide the base.
    #[must_use]
    pub fn new(base: u64, nbytes: u64, alignment: u64) -> Option<Self> {
        base.checked_add(nbytes)?;
        if !alignment.is_power_of_two() || !base.is_multiple_of(alignment) {
            return None;
        }
        let mut space = Self {
            base,
            nbytes,
            alignment,
            free: BTreeMap::new(),
            by_length: BTreeSet::new(),
            live: BTreeMap::new(),
        };
        if nbytes > 0 {
            space.put_back(base, nbytes);
        }
        Some(space)
    }

    /// Takes `nbytes` addresses and gives the first.
    ///
    /// # Errors
    /// [`SpaceError::NbytesZero`], [`SpaceError::Full`]; nothing was taken then.
    pub fn take(&mut self, nbytes: u64) -> Result<u64, SpaceError> {
        if nbytes == 0 {
            return Err(SpaceError::NbytesZero);
        }
        let Some(&(length, address)) = self.by_length.range((nbytes, 0)..).next() else {
            return Err(SpaceError::Full { nbytes, largest: self.largest_free(), size: self.nbytes });
        };
        // The end of the range may lie off the alignment: its last piece is then taken whole.
        let taken = nbytes.checked_next_multiple_of(self.alignment).unwrap_or(length).min(length);
        self.take_out(address, length);
        if taken < length {
            self.put_back(address.saturating_add(taken), length.saturating_sub(taken));
        }
        self.live.insert(address, Live { taken, nbytes });
        Ok(address)
    }

    /// Gives back what [`take`](Self::take) gave, by its first address, and says how many bytes had been asked for.
    ///
    /// # Errors
    /// [`SpaceError::NotLive`]: nothing that is live starts there.
    pub fn give_back(&mut self, address: u64) -> Result<u64, SpaceError> {
        let Live { taken, nbytes } = self.live.remove(&address).ok_or(SpaceError::NotLive { address })?;
        let (mut start, mut length) = (address, taken);
        if let Some((&before, &before_length)) = self.free.range(..address).next_back()
            && before.saturating_add(before_length) == start
        {
            self.take_out(before, before_length);
            start = before;
            length = length.saturating_add(before_length);
        }
        let end = address.saturating_add(taken);
        if let Some(&after_length) = self.free.get(&end) {
            self.take_out(end, after_length);
            length = length.saturating_add(after_length);
        }
        self.put_back(start, length);
        Ok(nbytes)
    }

    /// How many bytes had been asked for where something that is live starts.
    ///
    /// # Errors
    /// [`SpaceError::NotLive`].
    pub fn nbytes_of(&self, address: u64) -> Result<u64, SpaceError> {
        self.live.get(&address).map(|live| live.nbytes).ok_or(SpaceError::NotLive { address })
    }

    /// The first address of the whole range.
    #[must_use]
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// The length of the whole range.
    #[must_use]
    pub const fn nbytes(&self) -> u64 {
        self.nbytes
    }

    /// The length of the longest piece that is free.
    #[must_use]
    pub fn largest_free(&self) -> u64 {
        self.by_length.last().map_or(0, |&(length, _)| length)
    }

    /// How many pieces are live.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live.len()
    }

    fn put_back(&mut self, address: u64, length: u64) {
        self.free.insert(address, length);
        self.by_length.insert((length, address));
    }

    fn take_out(&mut self, address: u64, length: u64) {
        self.free.remove(&address);
        self.by_length.remove(&(length, address));
    }
}

/// Why addresses were not given out, or not taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceError {
    /// No bytes were asked for.
    NbytesZero,
    /// No free piece is long enough.
    Full {
        /// Bytes asked for.
        nbytes: u64,
        /// Bytes of the longest free piece.
        largest: u64,
        /// Bytes of the whole range.
        size: u64,
    },
    /// Nothing that is live starts there.
    NotLive {
        /// The address.
        address: u64,
    },
}

impl SpaceError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::NbytesZero => Code::NbytesZero,
            Self::Full { .. } => Code::SpaceFull,
            Self::NotLive { .. } => Code::NotAllocated,
        }
    }
}

impl fmt::Display for SpaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NbytesZero => f.write_str("an allocation of 0 bytes was asked for: it has at least 1"),
            Self::Full { nbytes, largest, size } => {
                write!(f, "{nbytes} bytes do not fit: the longest free piece of {size} bytes has {largest}")
            }
            Self::NotLive { address } => write!(f, "no live allocation starts at {address:#x}"),
        }
    }
}

impl std::error::Error for SpaceError {}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_space_serves_any_size_up_to_its_own_even_off_the_alignment() {
        for size in [1, 1000, 1024, 1025, 4095] {
            let mut space = Space::new(1 << 20, size, 1024).unwrap();
            for nbytes in 1..=size {
                let address = space.take(nbytes).unwrap();
                assert_eq!(address, 1 << 20);
                assert_eq!(space.nbytes_of(address), Ok(nbytes));
                assert_eq!(space.give_back(address), Ok(nbytes));
                assert_eq!(space.nbytes_of(address), Err(SpaceError::NotLive { address }));
            }
            let full = SpaceError::Full { nbytes: size + 1, largest: size, size };
            assert_eq!(space.take(size + 1), Err(full));
        }
    }

    #[test]
    fn a_range_that_wraps_or_an_alignment_that_is_none_makes_no_space() {
        assert!(Space::new(u64::MAX, 1, 1).is_none());
        assert!(Space::new(u64::MAX, 0, 1).is_some());
        assert!(Space::new(0, 10, 3).is_none());
        assert!(Space::new(512, 10, 1024).is_none());
        let mut empty = Space::new(0, 0, 1).unwrap();
        assert_eq!(empty.take(1), Err(SpaceError::Full { nbytes: 1, largest: 0, size: 0 }));
        assert_eq!(empty.take(0), Err(SpaceError::NbytesZero));
    }

    #[test]
    fn the_largest_request_there_is_neither_wraps_nor_is_served() {
        let mut space = Space::new(0, 1 << 30, 1024).unwrap();
        let full = SpaceError::Full { nbytes: u64::MAX, largest: 1 << 30, size: 1 << 30 };
        assert_eq!(space.take(u64::MAX), Err(full));
    }

    proptest! {
        #[test]
        fn what_is_live_is_aligned_disjoint_and_within_and_what_is_free_is_one_piece_where_it_touches(
            steps in proptest::collection::vec((any::<bool>(), 1_u64..3000, any::<prop::sample::Index>()), 1..200),
        ) {
            const BASE: u64 = 1 << 16;
            const SIZE: u64 = 20_000;
            let mut space = Space::new(BASE, SIZE, 64).unwrap();
            let mut live: BTreeMap<u64, u64> = BTreeMap::new();
            for (take, nbytes, which) in steps {
                if take || live.is_empty() {
                    if let Ok(address) = space.take(nbytes) {
                        prop_assert!(address % 64 == 0 && address >= BASE && address + nbytes <= BASE + SIZE);
                        prop_assert_eq!(live.insert(address, nbytes), None);
                    } else {
                        prop_assert!(space.largest_free() < nbytes);
                    }
                } else {
                    let address = *which.get(&live.keys().copied().collect::<Vec<_>>());
                    prop_assert_eq!(space.give_back(address).ok(), live.remove(&address));
                    prop_assert_eq!(space.give_back(address), Err(SpaceError::NotLive { address }));
                }
                let mut end = BASE;
                let mut largest = 0;
                for (&address, &nbytes) in &live {
                    prop_assert!(address >= end);
                    largest = largest.max(address - end);
                    end = (address + nbytes.next_multiple_of(64)).min(BASE + SIZE);
                }
                prop_assert_eq!(space.largest_free(), largest.max(BASE + SIZE - end));
                prop_assert_eq!(space.live(), live.len());
            }
        }
    }
}
