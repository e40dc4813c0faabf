//! What an import table answers when it cannot do what it was asked; the state is as it was then.

use core::fmt;

use crate::code::Code;
use crate::wire::descriptor::FieldSet;
use crate::wire::identity::Identity;

/// Why a value was not inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertRefusal {
    /// The identity is there with another descriptor, which stays.
    Conflict {
        /// Which one.
        identity: Identity,
        /// The fields in which the descriptors differ.
        fields: FieldSet,
    },
    /// The identity is there with the same descriptor.
    AlreadyImported {
        /// Which one.
        identity: Identity,
    },
    /// Every slot holds a value.
    Full {
        /// Slots of the table.
        capacity: u32,
    },
    /// A slot is free, but none of the few places where this identity's hash lets it stand. With a secret seed that
    /// does not happen; without one somebody chose the identities.
    Crowded {
        /// Which one.
        identity: Identity,
    },
}

/// A value that was not inserted, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InsertRefused<T> {
    /// What was to be inserted.
    pub value: T,
    /// Why it was not.
    pub refusal: InsertRefusal,
}

/// Why pins were not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinError {
    /// What the key stood for is no longer there.
    NotImported,
    /// It is not pinned.
    NotPinned {
        /// Which one.
        identity: Identity,
    },
    /// It is pinned more often than 32 bits count.
    TooManyPins {
        /// Which one.
        identity: Identity,
    },
}

/// It is pinned: views of it are alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewsAlive {
    /// Which one.
    pub identity: Identity,
    /// How often it is pinned.
    pub pins: u32,
}

/// The first reason for which closing left something in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseError<E> {
    /// It is pinned, and was not tried.
    ViewsAlive(ViewsAlive),
    /// It was tried and failed.
    Failed {
        /// Which one.
        identity: Identity,
        /// Why.
        error: E,
    },
}

impl InsertRefusal {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Conflict { .. } => Code::ImportConflict,
            Self::AlreadyImported { .. } => Code::AlreadyImported,
            Self::Full { .. } => Code::ImportTableFull,
            Self::Crowded { .. } => Code::ImportTableCrowded,
        }
    }
}

impl PinError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::NotImported => Code::NotImported,
            Self::NotPinned { .. } => Code::NotPinned,
            Self::TooManyPins { .. } => Code::TooManyPins,
        }
    }
}

impl ViewsAlive {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        Code::ViewsAlive
    }
}

impl fmt::Display for InsertRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Conflict { identity, fields } => {
                write!(f, "{identity} is imported already, and this descriptor differs in {fields}")
            }
            Self::AlreadyImported { identity } => write!(f, "{identity} is imported already"),
            Self::Full { capacity } => write!(f, "all {capacity} slots of the import table are taken"),
            Self::Crowded { identity } => {
                write!(f, "the import table has a slot free, but none where the hash of {identity} may stand")
            }
        }
    }
}

impl<T> fmt::Display for InsertRefused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal.fmt(f)
    }
}

impl fmt::Display for PinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotImported => f.write_str("it is not imported, or no longer"),
            Self::NotPinned { identity } => write!(f, "no view of {identity} is alive"),
            Self::TooManyPins { identity } => {
                write!(f, "{} views of {identity} are alive: more are not counted", u32::MAX)
            }
        }
    }
}

impl fmt::Display for ViewsAlive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { identity, pins: 1 } => write!(f, "a view of {identity} is alive"),
            Self { identity, pins } => write!(f, "{pins} views of {identity} are alive"),
        }
    }
}

impl<E: fmt::Display> fmt::Display for CloseError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ViewsAlive(alive) => alive.fmt(f),
            Self::Failed { identity, error } => write!(f, "{identity}: {error}"),
        }
    }
}

impl core::error::Error for InsertRefusal {}
impl<T: fmt::Debug> core::error::Error for InsertRefused<T> {}
impl core::error::Error for PinError {}
impl core::error::Error for ViewsAlive {}
impl<E: core::error::Error> core::error::Error for CloseError<E> {}
