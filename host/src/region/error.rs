//! What making, attaching to and closing a region answer when they do not go through.

use core::fmt;

use bufabi_core::region::PartsError;
use bufabi_core::{Access, Code, Identity};

use crate::consumer::ImportError;
use crate::owner::{CreateError, OwnError, ReleaseError};
use crate::vmm::VmmError;

/// Why a region was not made. Nothing is left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvideError {
    /// Counters of no bytes, or not of whole counters.
    CounterSize {
        /// Bytes that were asked for.
        found: u64,
    },
    /// The two buffers could not be made.
    Create(CreateError),
    /// A buffer that was just made is not known.
    Own(OwnError),
    /// The two buffers are no region.
    Parts(PartsError),
}

/// Why a region was not attached to. Nothing of it is mapped that was not before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachError {
    /// The two descriptors are no region.
    Parts(PartsError),
    /// A part is not there for reading and writing.
    NotShared {
        /// Which part.
        identity: Identity,
        /// What its owner grants.
        access: Access,
    },
    /// Counters of no bytes, or not of whole counters.
    CounterSize {
        /// Bytes that came.
        found: u64,
    },
    /// A part could not be mapped.
    Import(ImportError),
    /// The driver could not import a part.
    Driver(VmmError),
}

/// Why a region was not closed to the end. Nothing new begins on it, and it can be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseError {
    /// Some have not left it in the time that was given.
    InUse {
        /// How many.
        users: usize,
    },
    /// The provider could not free a part.
    Release(ReleaseError),
    /// The consumer could not drop a mapping.
    Drop(ImportError),
}

impl ProvideError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::CounterSize { .. } => Code::RegionCounter,
            Self::Create(error) => error.code(),
            Self::Own(error) => error.code(),
            Self::Parts(error) => error.code(),
        }
    }
}

impl AttachError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Parts(error) => error.code(),
            Self::NotShared { .. } => Code::Denied,
            Self::CounterSize { .. } => Code::RegionCounter,
            Self::Import(error) => error.code(),
            Self::Driver(error) => error.code(),
        }
    }
}

impl CloseError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::InUse { .. } => Code::ViewsAlive,
            Self::Release(error) => error.code(),
            Self::Drop(error) => error.code(),
        }
    }
}

impl fmt::Display for ProvideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CounterSize { found } => {
                write!(f, "a region's counters take a multiple of 4 bytes, at least 4, found {found}")
            }
            Self::Create(error) => error.fmt(f),
            Self::Own(error) => error.fmt(f),
            Self::Parts(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parts(error) => error.fmt(f),
            Self::NotShared { identity, access } => {
                write!(f, "a region's parts are read and written, the owner of {identity} grants {access}")
            }
            Self::CounterSize { found } => {
                write!(f, "a region's counters take a multiple of 4 bytes, at least 4, found {found}")
            }
            Self::Import(error) => error.fmt(f),
            Self::Driver(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { users } => write!(f, "{users} users of the region have not left it"),
            Self::Release(error) => error.fmt(f),
            Self::Drop(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ProvideError {}
impl std::error::Error for AttachError {}
impl std::error::Error for CloseError {}
