//! A region as a task sees it: six scalars, and the rules that they keep to.

use core::fmt;
use core::num::NonZeroU64;

use crate::code::Code;

/// "L3L2": the high half of a region's `magic_version`.
pub const REGION_MAGIC: u32 = 0x4c33_4c32;
/// The major version that is spoken here.
pub const REGION_MAJOR: u16 = 3;
/// The minor version that is written; a reader does not compare it.
pub const REGION_MINOR: u16 = 0;

/// One part in a task's address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Address of its first byte. 0 is legal.
    pub base: u64,
    /// Bytes.
    pub nbytes: u64,
}

impl Part {
    /// The address behind its last byte; `None` past the last address.
    const fn end(self) -> Option<u64> {
        self.base.checked_add(self.nbytes)
    }
}

/// A region as a task sees it. Holding one proves that the rules hold; it does not prove that there is memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionView {
    region_id: NonZeroU64,
    payload: Part,
    counter: Part,
}

impl RegionView {
    /// Task scalars that it takes.
    pub const SCALARS: usize = 6;

    /// Checks the parts.
    ///
    /// # Errors
    /// The first broken rule, in this order: region id; payload; counter; overlap.
    pub fn new(region_id: u64, payload: Part, counter: Part) -> Result<Self, RegionViewError> {
        let region_id = NonZeroU64::new(region_id).ok_or(RegionViewError::IdZero)?;
        if payload.nbytes == 0 {
            return Err(RegionViewError::PayloadEmpty);
        }
        let payload_end = payload.end().ok_or(RegionViewError::PayloadWraps { payload })?;
        if counter.nbytes == 0 || !counter.nbytes.is_multiple_of(4) {
            return Err(RegionViewError::CounterSize { found: counter.nbytes });
        }
        if !counter.base.is_multiple_of(64) {
            return Err(RegionViewError::CounterBase { found: counter.base });
        }
        let counter_end = counter.end().ok_or(RegionViewError::CounterWraps { counter })?;
        if payload.base < counter_end && counter.base < payload_end {
            return Err(RegionViewError::Overlap { payload, counter });
        }
        Ok(Self { region_id, payload, counter })
    }

    /// Checks six task scalars: `magic_version`, `region_id`, `payload_base`, `payload_bytes`, `counter_base`, `counter_bytes`.
    ///
    /// # Errors
    /// The first broken rule, in this order: magic; major; then as [`new`](Self::new).
    pub fn from_scalars(scalars: [u64; Self::SCALARS]) -> Result<Self, RegionViewError> {
        let [magic_version, region_id, payload_base, payload_bytes, counter_base, counter_bytes] = scalars;
        let Version { magic, major, .. } = Version::unpack(magic_version);
        if magic != REGION_MAGIC {
            return Err(RegionViewError::Magic { found: magic });
        }
        if major != REGION_MAJOR {
            return Err(RegionViewError::Major { found: major });
        }
        let payload = Part { base: payload_base, nbytes: payload_bytes };
        let counter = Part { base: counter_base, nbytes: counter_bytes };
        Self::new(region_id, payload, counter)
    }

    /// The six task scalars.
    #[must_use]
    pub const fn to_scalars(self) -> [u64; Self::SCALARS] {
        let Self { region_id, payload, counter } = self;
        let version = Version { magic: REGION_MAGIC, major: REGION_MAJOR, minor: REGION_MINOR };
        [version.pack(), region_id.get(), payload.base, payload.nbytes, counter.base, counter.nbytes]
    }

    /// The region's number: PAYLOAD's `buffer_id`.
    #[must_use]
    pub const fn region_id(self) -> NonZeroU64 {
        self.region_id
    }

    /// Where PAYLOAD lies.
    #[must_use]
    pub const fn payload(self) -> Part {
        self.payload
    }

    /// Where COUNTER lies: its base is a multiple of 64, its size one of 4.
    #[must_use]
    pub const fn counter(self) -> Part {
        self.counter
    }
}

/// What a `magic_version` is made of: (magic << 32) | (major << 16) | minor.
#[derive(Clone, Copy)]
pub(crate) struct Version {
    pub(crate) magic: u32,
    pub(crate) major: u16,
    pub(crate) minor: u16,
}

#[expect(clippy::as_conversions, reason = "widening and cutting out on purpose, where From is not const")]
impl Version {
    pub(crate) const fn pack(self) -> u64 {
        ((self.magic as u64) << 32) | ((self.major as u64) << 16) | self.minor as u64
    }

    pub(crate) const fn unpack(packed: u64) -> Self {
        Self { magic: (packed >> 32) as u32, major: (packed >> 16) as u16, minor: packed as u16 }
    }
}

/// The first rule of a region's scalars that was broken, with what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionViewError {
    /// Other scalars than a region's.
    Magic {
        /// The magic that came.
        found: u32,
    },
    /// A version that is not spoken here.
    Major {
        /// The major version that came.
        found: u16,
    },
    /// Region id 0.
    IdZero,
    /// A payload of no bytes.
    PayloadEmpty,
    /// The payload reaches past the last address.
    PayloadWraps {
        /// The payload.
        payload: Part,
    },
    /// Counters of no bytes, or not of whole counters.
    CounterSize {
        /// Bytes that came.
        found: u64,
    },
    /// The counters do not start at a line of 64 bytes.
    CounterBase {
        /// The base that came.
        found: u64,
    },
    /// The counters reach past the last address.
    CounterWraps {
        /// The counters.
        counter: Part,
    },
    /// The parts share bytes.
    Overlap {
        /// The payload.
        payload: Part,
        /// The counters.
        counter: Part,
    },
}

impl RegionViewError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Magic { .. } => Code::RegionMagic,
            Self::Major { .. } => Code::RegionMajor,
            Self::IdZero => Code::RegionId,
            Self::PayloadEmpty | Self::PayloadWraps { .. } => Code::RegionPayload,
            Self::CounterSize { .. } | Self::CounterBase { .. } | Self::CounterWraps { .. } => {
                Code::RegionCounter
            }
            Self::Overlap { .. } => Code::RegionOverlap,
        }
    }
}

impl fmt::Display for RegionViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic { found } => write!(f, "a region's magic is {REGION_MAGIC:#x}, found {found:#x}"),
            Self::Major { found } => {
                write!(f, "region major version {REGION_MAJOR} is spoken, found {found}")
            }
            Self::IdZero => f.write_str("a region's id is not 0"),
            Self::PayloadEmpty => f.write_str("a region's payload has at least 1 byte, found 0"),
            Self::PayloadWraps { payload: Part { base, nbytes } } => {
                write!(f, "a payload of {nbytes} bytes at {base:#x} passes the last address")
            }
            Self::CounterSize { found } => {
                write!(f, "a region's counters take a multiple of 4 bytes, at least 4, found {found}")
            }
            Self::CounterBase { found } => {
                write!(f, "a region's counters start at a multiple of 64, found {found:#x}")
            }
            Self::CounterWraps { counter: Part { base, nbytes } } => {
                write!(f, "counters of {nbytes} bytes at {base:#x} pass the last address")
            }
            Self::Overlap { payload, counter } => write!(
                f,
                "a payload of {} bytes at {:#x} and counters of {} bytes at {:#x} share bytes",
                payload.nbytes, payload.base, counter.nbytes, counter.base
            ),
        }
    }
}

impl core::error::Error for RegionViewError {}

#[cfg(test)]
mod tests {
    use super::*;

    const LEGAL: [u64; 6] = [0x4c33_4c32_0003_0000, 7, 0x1000, 192, 0x2000, 384];

    #[test]
    fn legal_scalars_come_back() {
        let view = RegionView::from_scalars(LEGAL).unwrap();
        assert_eq!(view.region_id().get(), 7);
        assert_eq!(view.payload(), Part { base: 0x1000, nbytes: 192 });
        assert_eq!(view.counter(), Part { base: 0x2000, nbytes: 384 });
        assert_eq!(view.to_scalars(), LEGAL);
    }

    #[test]
    fn minor_is_not_compared_and_base_zero_is_legal() {
        let [_, id, _, payload_bytes, counter_base, counter_bytes] = LEGAL;
        let scalars = [0x4c33_4c32_0003_ffff, id, 0, payload_bytes, counter_base, counter_bytes];
        assert_eq!(RegionView::from_scalars(scalars).unwrap().payload().base, 0);
        assert!(RegionView::from_scalars([LEGAL[0], 1, 384, 1, 0, 384]).is_ok());
    }

    /// From the first rule to the last: each line breaks one rule more than the next line does, so that the order shows.
    #[test]
    fn rules_are_checked_in_their_order() {
        let max = u64::MAX;
        for (scalars, error) in [
            ([0x4c33_4c31_0002_0000, 0, max, 0, 1, 0], RegionViewError::Magic { found: 0x4c33_4c31 }),
            ([0x4c33_4c32_0002_0000, 0, max, 0, 1, 0], RegionViewError::Major { found: 2 }),
            ([LEGAL[0], 0, max, 0, 1, 0], RegionViewError::IdZero),
            ([LEGAL[0], 1, max, 0, 1, 0], RegionViewError::PayloadEmpty),
            (
                [LEGAL[0], 1, max, 1, 1, 0],
                RegionViewError::PayloadWraps { payload: Part { base: max, nbytes: 1 } },
            ),
            ([LEGAL[0], 1, max - 1, 1, 1, 0], RegionViewError::CounterSize { found: 0 }),
            ([LEGAL[0], 1, max - 1, 1, 1, 6], RegionViewError::CounterSize { found: 6 }),
            ([LEGAL[0], 1, max - 1, 1, max - 3, 4], RegionViewError::CounterBase { found: max - 3 }),
            (
                [LEGAL[0], 1, max - 1, 1, max - 63, 64],
                RegionViewError::CounterWraps { counter: Part { base: max - 63, nbytes: 64 } },
            ),
            (
                [LEGAL[0], 1, max - 4, 1, max - 63, 60],
                RegionViewError::Overlap {
                    payload: Part { base: max - 4, nbytes: 1 },
                    counter: Part { base: max - 63, nbytes: 60 },
                },
            ),
        ] {
            assert_eq!(RegionView::from_scalars(scalars), Err(error), "{scalars:x?}");
        }
        assert!(RegionView::from_scalars([LEGAL[0], 1, max - 3, 1, max - 63, 60]).is_ok(), "neighbours");
    }

    #[test]
    fn parts_overlap_exactly_when_they_share_a_byte() {
        for payload_base in 0..200 {
            for payload_bytes in [1, 63, 64, 65] {
                for counter_bytes in [4, 64] {
                    let payload = Part { base: payload_base, nbytes: payload_bytes };
                    let counter = Part { base: 64, nbytes: counter_bytes };
                    let shared = (payload_base..payload_base + payload_bytes)
                        .any(|byte| (64..64 + counter_bytes).contains(&byte));
                    assert_eq!(RegionView::new(1, payload, counter).is_err(), shared, "{payload:?}");
                }
            }
        }
    }
}
