//! Why a task was not submitted.

use core::fmt;

use bufabi_core::{Code, dependencies};

use crate::worker;

/// Why a task was not submitted; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// It has no member.
    Empty,
    /// A member is not as it must be: its worker, its arguments, or what they name.
    Member {
        /// Which one, from 0.
        member: usize,
        /// Why.
        error: worker::SubmitError,
    },
    /// A capacity of the tracker does not suffice.
    Tracker(dependencies::SubmitError),
}

impl SubmitError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Empty => Code::TaskEmpty,
            Self::Member { error, .. } => error.code(),
            Self::Tracker(error) => error.code(),
        }
    }
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a task has at least one member"),
            Self::Member { member: 0, error } => error.fmt(f),
            Self::Member { member, error } => write!(f, "member {member}: {error}"),
            Self::Tracker(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SubmitError {}
