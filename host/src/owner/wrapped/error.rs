//! Why somebody else's buffer was given no name.

use core::fmt;
use core::num::NonZeroU64;

use bufabi_core::{Code, Identity, OwnerInstanceId};

use crate::owner::CreateError;

/// Why a buffer was not wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrapError {
    /// No identity can be given out for it, or its descriptor would break a rule.
    Create(CreateError),
    /// It is wrapped already.
    Wrapped {
        /// Which one.
        identity: Identity,
    },
    /// The identity is one that this endpoint gives out itself.
    Own {
        /// Which one.
        identity: Identity,
    },
    /// The region was mapped for another endpoint.
    OtherOwner {
        /// Which one.
        found: OwnerInstanceId,
        /// This one.
        asked: OwnerInstanceId,
    },
    /// The bytes do not lie in the region.
    OutOfRange {
        /// The first one.
        offset: u64,
        /// How many.
        nbytes: u64,
        /// Bytes of the region.
        size: u64,
    },
    /// The addresses pass 2^64.
    Addresses {
        /// The first one.
        base: NonZeroU64,
        /// How many.
        nbytes: u64,
    },
}

impl WrapError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Create(error) => error.code(),
            Self::Wrapped { .. } => Code::WrappedAlready,
            Self::Own { .. } => Code::WrapOwn,
            Self::OtherOwner { .. } => Code::WrapOwner,
            Self::OutOfRange { .. } => Code::WrapRange,
            Self::Addresses { .. } => Code::AddressOverflow,
        }
    }
}

impl From<CreateError> for WrapError {
    fn from(error: CreateError) -> Self {
        Self::Create(error)
    }
}

impl fmt::Display for WrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(error) => error.fmt(f),
            Self::Wrapped { identity } => write!(f, "{identity} is wrapped already"),
            Self::Own { identity } => write!(f, "{identity} is this endpoint's own: it is not wrapped"),
            Self::OtherOwner { found, asked } => {
                write!(f, "the memory is endpoint {found}'s, and this is endpoint {asked}")
            }
            Self::OutOfRange { offset, nbytes, size } => {
                write!(f, "{nbytes} bytes from {offset} on do not lie within the {size} bytes of the region")
            }
            Self::Addresses { base, nbytes } => {
                write!(f, "{nbytes} bytes from {base:#x} on pass the last address")
            }
        }
    }
}

impl std::error::Error for WrapError {}
