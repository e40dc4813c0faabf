//! What a consumer answers when it cannot resolve a descriptor or let go of a mapping.

use core::fmt;

use bufabi_core::import_table::{self, InsertRefusal};
use bufabi_core::wire::descriptor::FieldSet;
use bufabi_core::{Code, Identity};

use crate::backend::ResolveError;
use crate::owner::{self, OwnError};
use crate::sys::OsError;

/// Why a consumer did not do it; what it has mapped is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportError {
    /// It has been imported with another descriptor.
    Conflict {
        /// Whose descriptor.
        identity: Identity,
        /// Where it differs.
        fields: FieldSet,
    },
    /// It is this process's own, and not to be had, or claimed otherwise than the owner knows it.
    Own(OwnError),
    /// The backing cannot be reached.
    Resolve(ResolveError),
    /// The table does not take it, and nothing that could make room is unused.
    Refused(InsertRefusal),
    /// The object shrank under its mapping: some of it is lost.
    Shrank {
        /// Whose.
        identity: Identity,
    },
    /// Views of the mapping are alive.
    ViewsAlive {
        /// Whose.
        identity: Identity,
        /// How many.
        views: usize,
    },
    /// The operating system did not unmap it.
    Unmap {
        /// Whose mapping.
        identity: Identity,
        /// Why.
        error: OsError,
    },
    /// Another thread began to map it and was not done in time.
    TimedOut {
        /// Whose mapping.
        identity: Identity,
    },
    /// The consumer was closed.
    Closed,
}

/// Some mappings were not dropped, and are kept for another try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseError {
    /// The first reason.
    pub first: ImportError,
    /// How many are kept.
    pub kept: u32,
}

impl ImportError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Conflict { .. } => Code::ImportConflict,
            Self::Own(error) => error.code(),
            Self::Resolve(error) => error.code(),
            Self::Refused(refusal) => refusal.code(),
            Self::Shrank { .. } => Code::BackingShrank,
            Self::ViewsAlive { .. } => Code::ViewsAlive,
            Self::Unmap { error, .. } => error.code(),
            Self::TimedOut { .. } => Code::TimedOut,
            Self::Closed => Code::Released,
        }
    }
}

impl From<import_table::CloseError<Self>> for ImportError {
    fn from(error: import_table::CloseError<Self>) -> Self {
        match error {
            import_table::CloseError::ViewsAlive(alive) => alive.into(),
            import_table::CloseError::Failed { error, .. } => error,
        }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict { identity, fields } => owner::conflict(*identity, *fields, f),
            Self::Own(error) => error.fmt(f),
            Self::Resolve(error) => error.fmt(f),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Shrank { identity } => {
                write!(f, "the object of {identity} shrank under its mapping, and some of it is lost")
            }
            Self::ViewsAlive { identity, views } => write!(f, "{views} views of {identity} are alive"),
            Self::Unmap { identity, error } => write!(f, "{identity} was not unmapped: {error}"),
            Self::TimedOut { identity } => {
                write!(f, "another thread began to map {identity} and was not done within 10 s")
            }
            Self::Closed => f.write_str("the consumer was closed"),
        }
    }
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, kept } = self;
        write!(f, "{kept} mappings are kept; the first: {first}")
    }
}

impl std::error::Error for ImportError {}
impl std::error::Error for CloseError {}
