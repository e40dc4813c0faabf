//! What a chip answers when a task does not run there.

use core::fmt;

use bufabi_core::Code;
use bufabi_core::wire::chip_args::{MaterializeError, TooManyArguments};
use bufabi_core::wire::chip_tensor::ChipError;

use crate::consumer::ImportError;
use crate::device::memory::NameError;
use crate::device::{DeviceError, LaunchError};

/// Why an argument's backing cannot be had on a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolveError {
    /// It is device memory that a task there may not name.
    Name(NameError),
    /// It could not be mapped.
    Import(ImportError),
    /// The device has no place for it.
    Device(DeviceError),
}

/// Why a task did not run, or not to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunError {
    /// An argument's backing cannot be had.
    Resolve {
        /// Which argument, from 0.
        argument: usize,
        /// Why.
        error: ResolveError,
    },
    /// An argument is none of a chip's.
    Chip {
        /// Which one, from 0.
        argument: usize,
        /// Why.
        error: ChipError,
    },
    /// There are more than a chip takes.
    TooMany(TooManyArguments),
    /// Host buffers could not be copied to the device, or back.
    Staging(DeviceError),
    /// The device did not run it.
    Launch(LaunchError),
}

/// Why a buffer of somebody else was not let go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseError {
    /// It is still mapped.
    Import(ImportError),
    /// The device did not take back what stood in for it.
    Device(DeviceError),
}

impl ResolveError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Name(error) => error.code(),
            Self::Import(error) => error.code(),
            Self::Device(error) => error.code(),
        }
    }
}

impl RunError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Resolve { error, .. } => error.code(),
            Self::Chip { error, .. } => error.code(),
            Self::TooMany(error) => error.code(),
            Self::Staging(error) => error.code(),
            Self::Launch(error) => error.code(),
        }
    }

    /// The argument that it is about, from 0.
    #[must_use]
    pub const fn argument(self) -> Option<usize> {
        match self {
            Self::Resolve { argument, .. } | Self::Chip { argument, .. } => Some(argument),
            Self::TooMany(_) | Self::Staging(_) => None,
            Self::Launch(error) => error.argument(),
        }
    }
}

impl ReleaseError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Import(error) => error.code(),
            Self::Device(error) => error.code(),
        }
    }
}

impl From<MaterializeError<ResolveError>> for RunError {
    fn from(error: MaterializeError<ResolveError>) -> Self {
        match error {
            MaterializeError::Resolve { index: argument, error } => Self::Resolve { argument, error },
            MaterializeError::Chip { index: argument, error } => Self::Chip { argument, error },
            MaterializeError::TooMany(error) => Self::TooMany(error),
        }
    }
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => error.fmt(f),
            Self::Import(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
        }
    }
}

/// What is wrong, without the argument that it is about.
impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve { error, .. } => error.fmt(f),
            Self::Chip { error, .. } => error.fmt(f),
            Self::TooMany(error) => error.fmt(f),
            Self::Staging(error) => error.fmt(f),
            Self::Launch(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Import(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ResolveError {}
impl std::error::Error for RunError {}
impl std::error::Error for ReleaseError {}
