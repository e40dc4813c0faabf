//! What an owner's table answers when it cannot do what it was asked.

use core::fmt;
use core::num::NonZeroU32;

use crate::code::Code;
use crate::wire::identity::{Identity, OwnerInstanceId};

/// Why an identity is not a live one of this owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupError {
    /// Another endpoint incarnation owns it.
    OtherOwner {
        /// The incarnation that it names.
        found: OwnerInstanceId,
        /// The one that was asked.
        asked: OwnerInstanceId,
    },
    /// This owner never gave it out.
    NeverExisted {
        /// The id.
        buffer_id: u64,
        /// The generation that it names.
        generation: NonZeroU32,
    },
    /// It was given out and has been released. The id lives on in `latest`, or waits for its next use if that is the same
    /// generation.
    Stale {
        /// The id.
        buffer_id: u64,
        /// The generation that it names.
        generation: NonZeroU32,
        /// The last generation that was given out.
        latest: NonZeroU32,
    },
}

/// Why the table would not do it; the state is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerError {
    /// The identity is not a live one.
    Lookup(LookupError),
    /// Its release has begun: nothing new may come from it.
    Closing {
        /// Which one.
        identity: Identity,
    },
    /// Submitted tasks that are not finished still name it.
    Busy {
        /// Which one.
        identity: Identity,
        /// How often it is named.
        holds: u32,
    },
    /// Its release has not begun.
    NotClosing {
        /// Which one.
        identity: Identity,
    },
    /// No submitted task names it, so none can have finished.
    NotHeld {
        /// Which one.
        identity: Identity,
    },
    /// More tasks name it than 32 bits count.
    TooManyHolds {
        /// Which one.
        identity: Identity,
    },
}

/// No slot is free, or no two side by side; the value comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerTableFull<T> {
    /// What was to be inserted.
    pub value: T,
    /// Slots of the table, those retired for ever included.
    pub capacity: u32,
}

/// Why nothing was inserted; no identity was spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertError<E> {
    /// No slot is free, or no two side by side. Nothing was made.
    Full {
        /// Slots of the table, those retired for ever included.
        capacity: u32,
    },
    /// What was to be inserted could not be made.
    Make(E),
}

impl LookupError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::OtherOwner { .. } => Code::OtherOwner,
            Self::NeverExisted { .. } => Code::NeverExisted,
            Self::Stale { .. } => Code::Stale,
        }
    }
}

impl OwnerError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Lookup(error) => error.code(),
            Self::Closing { .. } => Code::Closing,
            Self::Busy { .. } => Code::Busy,
            Self::NotClosing { .. } => Code::NotClosing,
            Self::NotHeld { .. } => Code::NotHeld,
            Self::TooManyHolds { .. } => Code::TooManyHolds,
        }
    }
}

impl<T> OwnerTableFull<T> {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(&self) -> Code {
        Code::OwnerTableFull
    }
}

impl From<LookupError> for OwnerError {
    #[inline]
    fn from(error: LookupError) -> Self {
        Self::Lookup(error)
    }
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OtherOwner { found, asked } => write!(f, "owner {found} has it, not {asked}"),
            Self::NeverExisted { buffer_id, generation } => {
                write!(f, "buffer {buffer_id} in generation {generation} never existed")
            }
            Self::Stale { buffer_id, generation, latest } if generation == latest => {
                write!(f, "buffer {buffer_id} in generation {generation} has been released")
            }
            Self::Stale { buffer_id, generation, latest } => {
                write!(f, "buffer {buffer_id} in generation {generation} is stale: the latest is {latest}")
            }
        }
    }
}

impl fmt::Display for OwnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Lookup(error) => error.fmt(f),
            Self::Closing { identity } => write!(f, "the release of {identity} has begun"),
            Self::Busy { identity, holds: 1 } => write!(f, "an unfinished task still names {identity}"),
            Self::Busy { identity, holds } => {
                write!(f, "unfinished tasks still name {identity}, {holds} times")
            }
            Self::NotClosing { identity } => write!(f, "the release of {identity} has not begun"),
            Self::NotHeld { identity } => write!(f, "no unfinished task names {identity}"),
            Self::TooManyHolds { identity } => {
                write!(f, "unfinished tasks name {identity} {} times already: more are not counted", u32::MAX)
            }
        }
    }
}

impl<T> fmt::Display for OwnerTableFull<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        full(self.capacity, f)
    }
}

impl<E: fmt::Display> fmt::Display for InsertError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { capacity } => full(*capacity, f),
            Self::Make(error) => error.fmt(f),
        }
    }
}

fn full(capacity: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "the owner's table of {capacity} slots has none free for it")
}

impl core::error::Error for LookupError {}
impl core::error::Error for OwnerError {}
impl<T: fmt::Debug> core::error::Error for OwnerTableFull<T> {}
impl<E: core::error::Error> core::error::Error for InsertError<E> {}
