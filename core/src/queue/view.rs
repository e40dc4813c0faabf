//! A queue as a task is told of it: twelve scalars, from which it computes the layout again and compares.

use core::fmt;

use super::layout::{LayoutError, QueueLayout};
use crate::code::Code;
use crate::region::{RegionView, RegionViewError, Version};

/// "L3Q2": the high half of a queue's `magic_version`.
pub const QUEUE_MAGIC: u32 = 0x4c33_5132;
/// The major version that is spoken here.
pub const QUEUE_MAJOR: u16 = 1;
/// The minor version that is written; a reader does not compare it.
pub const QUEUE_MINOR: u16 = 1;

/// A queue in a region. Holding one proves that the region has exactly the bytes that the layout takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueView {
    region: RegionView,
    layout: QueueLayout,
}

impl QueueView {
    /// Task scalars that it takes.
    pub const SCALARS: usize = 12;

    /// Puts a queue into a region.
    ///
    /// # Errors
    /// [`QueueViewError::RegionPayloadBytes`], then [`QueueViewError::RegionCounterBytes`].
    pub fn new(region: RegionView, layout: QueueLayout) -> Result<Self, QueueViewError> {
        let (found, expected) = (region.payload().nbytes, layout.payload_bytes());
        if found != expected {
            return Err(QueueViewError::RegionPayloadBytes { found, expected });
        }
        let (found, expected) = (region.counter().nbytes, layout.counter_bytes());
        if found != expected {
            return Err(QueueViewError::RegionCounterBytes { found, expected });
        }
        Ok(Self { region, layout })
    }

    /// Checks twelve task scalars: the region's six, then `magic_version`, `depth`, `input_arena_bytes`, `output_arena_bytes`,
    /// `payload_bytes`, `counter_bytes`.
    ///
    /// # Errors
    /// The first broken rule, in this order: the region's; magic; major; the layout's; payload and counter bytes against the
    /// layout; the region's parts against the layout.
    pub fn from_scalars(scalars: [u64; Self::SCALARS]) -> Result<Self, QueueViewError> {
        let [s0, s1, s2, s3, s4, s5, magic_version, depth, input, output, payload_bytes, counter_bytes] =
            scalars;
        let region = RegionView::from_scalars([s0, s1, s2, s3, s4, s5]).map_err(QueueViewError::Region)?;
        let Version { magic, major, .. } = Version::unpack(magic_version);
        if magic != QUEUE_MAGIC {
            return Err(QueueViewError::Magic { found: magic });
        }
        if major != QUEUE_MAJOR {
            return Err(QueueViewError::Major { found: major });
        }
        let layout = QueueLayout::new(depth, input, output).map_err(QueueViewError::Layout)?;
        let expected = layout.payload_bytes();
        if payload_bytes != expected {
            return Err(QueueViewError::PayloadBytes { found: payload_bytes, expected });
        }
        let expected = layout.counter_bytes();
        if counter_bytes != expected {
            return Err(QueueViewError::CounterBytes { found: counter_bytes, expected });
        }
        Self::new(region, layout)
    }

    /// The twelve task scalars.
    #[must_use]
    pub const fn to_scalars(self) -> [u64; Self::SCALARS] {
        let Self { region, layout } = self;
        let [s0, s1, s2, s3, s4, s5] = region.to_scalars();
        let version = Version { magic: QUEUE_MAGIC, major: QUEUE_MAJOR, minor: QUEUE_MINOR }.pack();
        let (input, output) = (layout.input_arena().nbytes, layout.output_arena().nbytes);
        let (payload_bytes, counter_bytes) = (layout.payload_bytes(), layout.counter_bytes());
        #[expect(clippy::as_conversions, reason = "widening, and From is not const")]
        let depth = layout.depth() as u64;
        [s0, s1, s2, s3, s4, s5, version, depth, input, output, payload_bytes, counter_bytes]
    }

    /// The region.
    #[must_use]
    pub const fn region(self) -> RegionView {
        self.region
    }

    /// Where the queue's parts lie.
    #[must_use]
    pub const fn layout(self) -> QueueLayout {
        self.layout
    }
}

/// The first rule of a queue's scalars that was broken, with what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueViewError {
    /// The region's scalars break a rule.
    Region(RegionViewError),
    /// Other scalars than a queue's.
    Magic {
        /// The magic that came.
        found: u32,
    },
    /// A version that is not spoken here.
    Major {
        /// The major version that came.
        found: u16,
    },
    /// There is no such layout.
    Layout(LayoutError),
    /// Another payload size than the layout's.
    PayloadBytes {
        /// Bytes that came.
        found: u64,
        /// Bytes of the layout.
        expected: u64,
    },
    /// Another counter size than the layout's.
    CounterBytes {
        /// Bytes that came.
        found: u64,
        /// Bytes of the layout.
        expected: u64,
    },
    /// The region's payload has another size than the layout.
    RegionPayloadBytes {
        /// Bytes of the region.
        found: u64,
        /// Bytes of the layout.
        expected: u64,
    },
    /// The region's counters have another size than the layout.
    RegionCounterBytes {
        /// Bytes of the region.
        found: u64,
        /// Bytes of the layout.
        expected: u64,
    },
}

impl QueueViewError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Region(error) => error.code(),
            Self::Magic { .. } => Code::QueueMagic,
            Self::Major { .. } => Code::QueueMajor,
            Self::Layout(error) => error.code(),
            Self::PayloadBytes { .. }
            | Self::CounterBytes { .. }
            | Self::RegionPayloadBytes { .. }
            | Self::RegionCounterBytes { .. } => Code::QueueSize,
        }
    }
}

impl fmt::Display for QueueViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Region(error) => error.fmt(f),
            Self::Magic { found } => write!(f, "a queue's magic is {QUEUE_MAGIC:#x}, found {found:#x}"),
            Self::Major { found } => write!(f, "queue major version {QUEUE_MAJOR} is spoken, found {found}"),
            Self::Layout(error) => error.fmt(f),
            Self::PayloadBytes { found, expected } => {
                write!(f, "the layout takes {expected} bytes of payload, the scalars say {found}")
            }
            Self::CounterBytes { found, expected } => {
                write!(f, "the layout takes {expected} bytes of counters, the scalars say {found}")
            }
            Self::RegionPayloadBytes { found, expected } => {
                write!(f, "the layout takes {expected} bytes of payload, the region has {found}")
            }
            Self::RegionCounterBytes { found, expected } => {
                write!(f, "the layout takes {expected} bytes of counters, the region has {found}")
            }
        }
    }
}

impl core::error::Error for QueueViewError {}

#[cfg(test)]
mod tests {
    use super::*;

    const LEGAL: [u64; 12] =
        [0x4c33_4c32_0003_0000, 7, 0x1000, 576, 0x2000, 384, 0x4c33_5132_0001_0001, 4, 128, 192, 576, 384];

    #[test]
    fn legal_scalars_come_back() {
        let view = QueueView::from_scalars(LEGAL).unwrap();
        assert_eq!(view.layout(), QueueLayout::new(4, 128, 192).unwrap());
        assert_eq!(view.region().region_id().get(), 7);
        assert_eq!(view.to_scalars(), LEGAL);
        let mut minor = LEGAL;
        minor[6] |= 0xffff;
        assert_eq!(QueueView::from_scalars(minor), Ok(view), "minor is not compared");
    }

    /// One scalar is broken after the other, from the last to the first: each time the new one is what the error names.
    #[test]
    fn rules_are_checked_in_their_order() {
        let mut scalars = LEGAL;
        for (index, value, error) in [
            (5, 388, QueueViewError::RegionCounterBytes { found: 388, expected: 384 }),
            (3, 577, QueueViewError::RegionPayloadBytes { found: 577, expected: 576 }),
            (11, 388, QueueViewError::CounterBytes { found: 388, expected: 384 }),
            (10, 577, QueueViewError::PayloadBytes { found: 577, expected: 576 }),
            (9, 7, QueueViewError::Layout(LayoutError::OutputArena { found: 7 })),
            (8, 6, QueueViewError::Layout(LayoutError::InputArena { found: 6 })),
            (7, 5, QueueViewError::Layout(LayoutError::Depth { found: 5 })),
            (6, 0x4c33_5132_0002_0001, QueueViewError::Major { found: 2 }),
            (6, 0x4c33_5131_0002_0001, QueueViewError::Magic { found: 0x4c33_5131 }),
            (4, 1, QueueViewError::Region(RegionViewError::CounterBase { found: 1 })),
            (0, 0, QueueViewError::Region(RegionViewError::Magic { found: 0 })),
        ] {
            scalars[index] = value;
            assert_eq!(QueueView::from_scalars(scalars), Err(error));
        }
    }
}
