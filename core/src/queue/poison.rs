//! What ends a queue: the other side broke the protocol, this side did, or it gave up.

use core::fmt;

use crate::code::Code;
use crate::region::{AccessError, Place};

/// The first cause of a queue's end. From then on every operation answers with it, and the other side sees the abort flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poison {
    /// A slot's `seq` is not the message's index + 1.
    Sequence {
        /// The message's index.
        index: u64,
        /// The `seq` that was there.
        found: u64,
    },
    /// A slot's opcode does not exist.
    Opcode {
        /// The message's index.
        index: u64,
        /// The opcode that was there.
        found: u64,
    },
    /// A message does not lie inside its arena, or has no bytes and an offset.
    Place {
        /// The message's index.
        index: u64,
        /// Where it claims to lie.
        place: Place,
        /// Where it should.
        arena: Place,
    },
    /// STOP came as an output.
    StopInOutput {
        /// The message's index.
        index: u64,
    },
    /// STOP came with bytes.
    StopNotEmpty {
        /// The message's index.
        index: u64,
        /// Where its bytes claim to lie.
        place: Place,
    },
    /// Messages were sent after STOP.
    AfterStop {
        /// STOP's index.
        index: u64,
        /// How many.
        messages: u32,
    },
    /// The other side's count went back, or further on than it could.
    Count {
        /// The counter's offset in COUNTER.
        counter: u64,
        /// The value that was there.
        found: u32,
        /// The value seen before.
        before: u32,
        /// By how much it could have gone on.
        at_most: u32,
    },
    /// A handle or a reservation that is not current: a message that was not received or was given back already, a
    /// reservation that was committed or cancelled.
    Handle {
        /// The handle's number.
        found: u64,
    },
    /// A counter may or may not have been stored.
    Store {
        /// The counter's offset in COUNTER.
        counter: u64,
        /// What the memory's driver said.
        error: AccessError,
    },
    /// This side gave up.
    Aborted,
}

impl Poison {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Sequence { .. } => Code::QueueSequence,
            Self::Opcode { .. } => Code::QueueOpcode,
            Self::Place { .. } => Code::QueuePlace,
            Self::StopInOutput { .. } | Self::StopNotEmpty { .. } | Self::AfterStop { .. } => Code::QueueStop,
            Self::Count { .. } => Code::QueueCount,
            Self::Handle { .. } => Code::QueueHandle,
            Self::Store { error, .. } => error.code(),
            Self::Aborted => Code::QueueAborted,
        }
    }
}

impl fmt::Display for Poison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sequence { index, found } => {
                write!(f, "the slot of message {index} has sequence {}, found {found}", index.wrapping_add(1))
            }
            Self::Opcode { index, found } => {
                write!(f, "message {index} has opcode 1, 2 or 3, found {found}")
            }
            Self::Place { index, place, arena } => write!(
                f,
                "message {index} lies in the {} bytes at {}, found {} bytes at {}",
                arena.nbytes, arena.offset, place.nbytes, place.offset
            ),
            Self::StopInOutput { index } => write!(f, "STOP is an input, found it as output {index}"),
            Self::StopNotEmpty { index, place } => {
                write!(f, "STOP has no bytes, message {index} has {} at {}", place.nbytes, place.offset)
            }
            Self::AfterStop { index, messages } => {
                write!(f, "STOP is the last input, found {messages} after message {index}")
            }
            Self::Count { counter, found, before, at_most } => write!(
                f,
                "the counter at {counter} goes on from {before} by at most {at_most}, found {found}"
            ),
            Self::Handle { found } => write!(f, "no message and no reservation has the handle {found} now"),
            Self::Store { counter, error } => {
                write!(f, "the counter at {counter} may not have been stored: {error}")
            }
            Self::Aborted => f.write_str("this side gave up"),
        }
    }
}

impl core::error::Error for Poison {}

/// Why an operation did not go through.
pub(super) enum Setback {
    /// The memory could not be reached, and nothing was changed.
    Access(AccessError),
    /// The queue has ended.
    Poison(Poison),
}

impl From<AccessError> for Setback {
    fn from(error: AccessError) -> Self {
        Self::Access(error)
    }
}

impl From<Poison> for Setback {
    fn from(poison: Poison) -> Self {
        Self::Poison(poison)
    }
}
