//! Where everything of a queue lies, computed from its depth and its two arenas by both sides alike.

use core::fmt;

use super::slot::RawSlot;
use crate::code::Code;
use crate::region::Place;

/// Bytes of COUNTER that a queue takes.
pub const COUNTER_BYTES: u64 = 384;

/// The deepest ring.
const MOST_DEPTH: u64 = 1 << 30;

/// The counters, each on a line of its own, in bytes from COUNTER's start.
pub mod counters {
    /// Messages that L3 has sent. L3 writes it.
    pub const INPUT_TAIL: u64 = 0;
    /// Messages that L2 has given back. L2 writes it.
    pub const INPUT_HEAD: u64 = 64;
    /// Messages that L2 has sent. L2 writes it.
    pub const OUTPUT_TAIL: u64 = 128;
    /// Messages that L3 has given back. L3 writes it.
    pub const OUTPUT_HEAD: u64 = 192;
    /// Not 0 when L3 has given up. L3 writes it.
    pub const L3_ABORT: u64 = 256;
    /// Not 0 when L2 has given up. L2 writes it.
    pub const L2_ABORT: u64 = 320;
    /// The byte by which L3 may say that it sleeps: byte 4 of the one line that is its own in both directions. The line is written
    /// at no other time, so to look at it costs L2 nothing.
    pub const L3_SLEEPS: u64 = L3_ABORT + 4;
    /// The byte by which L2 may say that it sleeps.
    pub const L2_SLEEPS: u64 = L2_ABORT + 4;
}

/// A queue's layout. Holding one proves that its numbers are legal and that no offset of it wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLayout {
    depth: u32,
    input_arena: Place,
    output_arena: Place,
}

impl QueueLayout {
    /// The layout of rings of `depth` slots and of arenas of so many bytes.
    ///
    /// # Errors
    /// [`LayoutError`]: depth, then input arena, then output arena, then their sum.
    pub fn new(depth: u64, input_arena_bytes: u64, output_arena_bytes: u64) -> Result<Self, LayoutError> {
        let slots = match u32::try_from(depth) {
            Ok(slots) if depth.is_power_of_two() && depth <= MOST_DEPTH => slots,
            Ok(_) | Err(_) => return Err(LayoutError::Depth { found: depth }),
        };
        let legal = |nbytes: u64| nbytes > 0 && nbytes.is_multiple_of(64);
        if !legal(input_arena_bytes) {
            return Err(LayoutError::InputArena { found: input_arena_bytes });
        }
        if !legal(output_arena_bytes) {
            return Err(LayoutError::OutputArena { found: output_arena_bytes });
        }
        let too_large = LayoutError::TooLarge { depth, input_arena_bytes, output_arena_bytes };
        // Two rings of 32-byte slots, and arenas of whole lines: everything behind them starts at a line by itself.
        let input = RING_PAIR.checked_mul(depth).ok_or(too_large)?;
        let output = input.checked_add(input_arena_bytes).ok_or(too_large)?;
        output.checked_add(output_arena_bytes).ok_or(too_large)?;
        Ok(Self {
            depth: slots,
            input_arena: Place { offset: input, nbytes: input_arena_bytes },
            output_arena: Place { offset: output, nbytes: output_arena_bytes },
        })
    }

    /// Slots of each ring: a power of two, at most 2^30.
    #[must_use]
    pub const fn depth(self) -> u32 {
        self.depth
    }

    /// Where the input descriptor ring starts in PAYLOAD.
    #[must_use]
    pub const fn input_ring(self) -> u64 {
        0
    }

    /// Where the output descriptor ring starts in PAYLOAD.
    #[must_use]
    pub const fn output_ring(self) -> u64 {
        // The rings end where the input arena starts, and each is half of them.
        self.input_arena.offset / 2
    }

    /// Where the bytes of input messages lie in PAYLOAD.
    #[must_use]
    pub const fn input_arena(self) -> Place {
        self.input_arena
    }

    /// Where the bytes of output messages lie in PAYLOAD.
    #[must_use]
    pub const fn output_arena(self) -> Place {
        self.output_arena
    }

    /// Bytes of PAYLOAD that the queue takes: up to the end of the output arena.
    #[must_use]
    pub const fn payload_bytes(self) -> u64 {
        // `new` has seen that it does not wrap.
        self.output_arena.offset.saturating_add(self.output_arena.nbytes)
    }

    /// Bytes of COUNTER that the queue takes.
    #[must_use]
    pub const fn counter_bytes(self) -> u64 {
        COUNTER_BYTES
    }
}

/// Bytes of an input slot and an output slot.
const RING_PAIR: u64 = 64;
const _: () = assert!(RawSlot::SIZE == 32);

/// Why there is no such layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// A depth that is no power of two, or more than 2^30.
    Depth {
        /// The depth that came.
        found: u64,
    },
    /// An input arena that is no positive multiple of 64 bytes.
    InputArena {
        /// Bytes that came.
        found: u64,
    },
    /// An output arena that is no positive multiple of 64 bytes.
    OutputArena {
        /// Bytes that came.
        found: u64,
    },
    /// The payload would not fit in 64 bits.
    TooLarge {
        /// The depth.
        depth: u64,
        /// Bytes of the input arena.
        input_arena_bytes: u64,
        /// Bytes of the output arena.
        output_arena_bytes: u64,
    },
}

impl LayoutError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Depth { .. } => Code::QueueDepth,
            Self::InputArena { .. } | Self::OutputArena { .. } => Code::QueueArena,
            Self::TooLarge { .. } => Code::QueueSize,
        }
    }
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Depth { found } => write!(f, "a depth is a power of two, at most 2^30, found {found}"),
            Self::InputArena { found } => {
                write!(f, "an input arena has a positive multiple of 64 bytes, found {found}")
            }
            Self::OutputArena { found } => {
                write!(f, "an output arena has a positive multiple of 64 bytes, found {found}")
            }
            Self::TooLarge { depth, input_arena_bytes, output_arena_bytes } => write!(
                f,
                "depth {depth} and arenas of {input_arena_bytes} and {output_arena_bytes} bytes do not fit in 64 bits"
            ),
        }
    }
}

impl core::error::Error for LayoutError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_the_frozen_ones() {
        for ((depth, input, output), ring, input_arena, output_arena, payload_bytes) in [
            ((1, 64, 64), 32, 64, 128, 192),
            ((4, 128, 192), 128, 256, 384, 576),
            ((8, 192, 64), 256, 512, 704, 768),
        ] {
            let layout = QueueLayout::new(depth, input, output).unwrap();
            assert_eq!(layout.input_ring(), 0);
            assert_eq!(layout.output_ring(), ring);
            assert_eq!(layout.input_arena(), Place { offset: input_arena, nbytes: input });
            assert_eq!(layout.output_arena(), Place { offset: output_arena, nbytes: output });
            assert_eq!((layout.payload_bytes(), layout.counter_bytes()), (payload_bytes, 384));
        }
    }

    #[test]
    fn rules_are_checked_in_their_order() {
        let huge = 1 << 63;
        for (depth, input, output, error) in [
            (0, 1, 1, LayoutError::Depth { found: 0 }),
            (3, 1, 1, LayoutError::Depth { found: 3 }),
            (1 << 31, 1, 1, LayoutError::Depth { found: 1 << 31 }),
            (1 << 32, 1, 1, LayoutError::Depth { found: 1 << 32 }),
            (1, 0, 1, LayoutError::InputArena { found: 0 }),
            (1, 96, 1, LayoutError::InputArena { found: 96 }),
            (1, 64, 0, LayoutError::OutputArena { found: 0 }),
            (1, 64, 65, LayoutError::OutputArena { found: 65 }),
            (
                1,
                huge,
                huge,
                LayoutError::TooLarge { depth: 1, input_arena_bytes: huge, output_arena_bytes: huge },
            ),
        ] {
            assert_eq!(QueueLayout::new(depth, input, output), Err(error));
        }
        let deepest = QueueLayout::new(1 << 30, 64, 64).unwrap();
        assert_eq!((deepest.output_ring(), deepest.payload_bytes()), (1 << 35, (1 << 36) + 128));
        assert!(QueueLayout::new(1, huge, huge - 128).is_ok(), "the last one that fits");
    }
}
