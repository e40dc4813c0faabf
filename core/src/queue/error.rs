//! What sending, receiving and attaching answer when they do not go through.

use core::fmt;

use super::poison::{Poison, Setback};
use crate::code::Code;
use crate::region::AccessError;

/// What had no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Every slot holds a message that was not given back.
    Ring,
    /// The free bytes are fewer than the message's, or not in one piece.
    Arena,
}

impl Full {
    const fn code(self) -> Code {
        match self {
            Self::Ring => Code::RingFull,
            Self::Arena => Code::ArenaFull,
        }
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ring => "the ring",
            Self::Arena => "the arena",
        })
    }
}

/// Why a message was not sent. Nothing was changed then, [`Poisoned`](Self::Poisoned) aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// More bytes than the arena has: it would never fit.
    TooLarge {
        /// Bytes of the message.
        nbytes: u64,
        /// Bytes of the arena.
        arena_bytes: u64,
    },
    /// No room now; there will be when the other side has given messages back.
    Full(Full),
    /// The limit was over before there was room.
    TimedOut(Full),
    /// STOP was sent: there is no more input.
    Stopped,
    /// A reservation is open, and must be committed or cancelled first.
    Reserved,
    /// Bytes outside the reservation.
    OutsideReservation {
        /// The first byte, from the reservation's start.
        start: u64,
        /// How many.
        nbytes: u64,
        /// Bytes of the reservation.
        reserved: u64,
    },
    /// The other side gave up.
    PeerAborted,
    /// The memory could not be reached.
    Access(AccessError),
    /// The queue has ended: the first cause.
    Poisoned(Poison),
}

impl SendError {
    /// The frozen number, name and fault; of a poison, its cause's.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::TooLarge { .. } => Code::MessageTooLarge,
            Self::Full(full) => full.code(),
            Self::TimedOut(_) => Code::TimedOut,
            Self::Stopped => Code::QueueStopped,
            Self::Reserved => Code::QueueReserved,
            Self::OutsideReservation { .. } => Code::RegionRange,
            Self::PeerAborted => Code::QueuePeerAborted,
            Self::Access(error) => error.code(),
            Self::Poisoned(poison) => poison.code(),
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { nbytes, arena_bytes } => {
                write!(f, "a message has at most the arena's {arena_bytes} bytes, found {nbytes}")
            }
            Self::Full(full) => write!(f, "{full} is full"),
            Self::TimedOut(full) => write!(f, "{full} stayed full until the limit was over"),
            Self::Stopped => f.write_str("STOP was sent, and nothing comes after it"),
            Self::Reserved => f.write_str("a reservation is open"),
            Self::OutsideReservation { start, nbytes, reserved } => {
                write!(f, "{nbytes} bytes at {start} do not lie in a reservation of {reserved} bytes")
            }
            Self::PeerAborted => f.write_str("the other side gave up"),
            Self::Access(error) => error.fmt(f),
            Self::Poisoned(poison) => write!(f, "the queue has ended: {poison}"),
        }
    }
}

impl core::error::Error for SendError {}

/// Why no message was received, read or given back. Nothing was changed then, [`Poisoned`](Self::Poisoned) aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveError {
    /// No message is there.
    Empty,
    /// The limit was over before a message came.
    TimedOut,
    /// As many messages were received and not given back as the window holds.
    WindowFull {
        /// Messages that it holds.
        window: usize,
    },
    /// STOP was received: there is no more input.
    Stopped,
    /// The bytes lent are fewer than the message's.
    TooSmall {
        /// Bytes of the message.
        needed: u64,
        /// Bytes lent.
        capacity: usize,
    },
    /// The other side gave up.
    PeerAborted,
    /// The memory could not be reached.
    Access(AccessError),
    /// The queue has ended: the first cause.
    Poisoned(Poison),
}

impl ReceiveError {
    /// The frozen number, name and fault; of a poison, its cause's.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Empty => Code::QueueEmpty,
            Self::TimedOut => Code::TimedOut,
            Self::WindowFull { .. } => Code::WindowFull,
            Self::Stopped => Code::QueueStopped,
            Self::TooSmall { .. } => Code::BufferTooSmall,
            Self::PeerAborted => Code::QueuePeerAborted,
            Self::Access(error) => error.code(),
            Self::Poisoned(poison) => poison.code(),
        }
    }
}

impl fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("no message is there"),
            Self::TimedOut => f.write_str("no message came until the limit was over"),
            Self::WindowFull { window } => {
                write!(f, "the window holds {window} messages, and as many were not given back")
            }
            Self::Stopped => f.write_str("STOP was received, and nothing comes after it"),
            Self::TooSmall { needed, capacity } => {
                write!(f, "the message has {needed} bytes, the storage for its copy {capacity}")
            }
            Self::PeerAborted => f.write_str("the other side gave up"),
            Self::Access(error) => error.fmt(f),
            Self::Poisoned(poison) => write!(f, "the queue has ended: {poison}"),
        }
    }
}

impl core::error::Error for ReceiveError {}

/// Why an end was not attached. Nothing was read and nothing written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachError {
    /// Fewer bytes of PAYLOAD than the layout takes.
    PayloadBytes {
        /// Bytes at hand.
        found: u64,
        /// Bytes of the layout.
        needed: u64,
    },
    /// Fewer bytes of COUNTER than the layout takes.
    CounterBytes {
        /// Bytes at hand.
        found: u64,
        /// Bytes of the layout.
        needed: u64,
    },
    /// A window of no messages, or of more than the ring has slots.
    Window {
        /// Messages of the window.
        found: usize,
        /// Slots of the ring.
        depth: u32,
    },
    /// Fewer marks were lent than the ring has slots.
    Marks {
        /// Marks lent.
        found: usize,
        /// Slots of the ring.
        depth: u32,
    },
    /// The memory writes back lines that both sides would write: counters are 64 bytes apart, the two rings 32 times the depth.
    SharedLine {
        /// Bytes of such a line.
        line: u64,
        /// Slots of the ring.
        depth: u32,
    },
}

impl AttachError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::PayloadBytes { .. } | Self::CounterBytes { .. } => Code::QueueSize,
            Self::Window { .. } | Self::Marks { .. } => Code::QueueStorage,
            Self::SharedLine { .. } => Code::QueueLine,
        }
    }
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PayloadBytes { found, needed } => {
                write!(f, "the queue takes {needed} bytes of payload, {found} are at hand")
            }
            Self::CounterBytes { found, needed } => {
                write!(f, "the queue takes {needed} bytes of counters, {found} are at hand")
            }
            Self::Window { found, depth } => {
                write!(f, "a window holds 1 to {depth} messages, as many as the ring, found {found}")
            }
            Self::Marks { found, depth } => {
                write!(f, "a ring of {depth} slots needs as many marks, found {found}")
            }
            Self::SharedLine { line, depth } => {
                write!(f, "at depth {depth} both sides would write to one line of {line} bytes")
            }
        }
    }
}

impl core::error::Error for AttachError {}

macro_rules! from_setback {
    ($($error:ty),*) => {$(
        impl From<Setback> for $error {
            fn from(setback: Setback) -> Self {
                match setback {
                    Setback::Access(error) => Self::Access(error),
                    Setback::Poison(poison) => Self::Poisoned(poison),
                }
            }
        }
    )*};
}
from_setback!(SendError, ReceiveError);
