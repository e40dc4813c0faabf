//! What can be wrong with a task's arguments, with the numbers.

use core::fmt;

use crate::code::Code;
use crate::rights::RightsError;
use crate::wire::identity::Identity;

/// Why an argument was not added or changed. Nothing was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddError {
    /// Tensors come first, and a scalar is there already.
    TensorAfterScalar {
        /// Scalars that are there.
        scalars: usize,
    },
    /// The tag needs more than the owner grants.
    Rights(RightsError),
    /// There is no room for another tensor.
    TensorsFull {
        /// Tensors for which there is room.
        capacity: usize,
    },
    /// There is no room for another scalar.
    ScalarsFull {
        /// Scalars for which there is room.
        capacity: usize,
    },
    /// There is no tensor of that index.
    NoSuchTensor {
        /// The index that was named.
        index: usize,
        /// Tensors that are there.
        tensors: usize,
    },
}

impl AddError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::TensorAfterScalar { .. } => Code::TensorAfterScalar,
            Self::Rights(error) => error.code(),
            Self::TensorsFull { .. } | Self::ScalarsFull { .. } => Code::ArgumentsFull,
            Self::NoSuchTensor { .. } => Code::NoSuchTensor,
        }
    }
}

impl fmt::Display for AddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TensorAfterScalar { scalars } => {
                write!(f, "tensors come before scalars, and {scalars} of those are there already")
            }
            Self::Rights(error) => error.fmt(f),
            Self::TensorsFull { capacity } => write!(f, "there is room for {capacity} tensors, all taken"),
            Self::ScalarsFull { capacity } => write!(f, "there is room for {capacity} scalars, all taken"),
            Self::NoSuchTensor { index, tensors } => {
                write!(f, "there is no tensor {index} among {tensors}")
            }
        }
    }
}

impl core::error::Error for AddError {}

/// Why a task's arguments were refused at submit, in the order of the checks. Indices are those of the tensors, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// Not one tag for each tensor.
    TagCount {
        /// Tensors that came.
        tensors: usize,
        /// Tags that came.
        tags: usize,
    },
    /// More tensors than a task's arguments hold.
    TooManyTensors {
        /// Tensors that came.
        found: usize,
        /// The wire ABI's limit, or the scratch's if that is smaller.
        limit: usize,
    },
    /// More scalars than a task's arguments hold.
    TooManyScalars {
        /// Scalars that came.
        found: usize,
        /// The wire ABI's limit.
        limit: usize,
    },
    /// A tag needs more than the owner grants.
    Rights {
        /// The tensor.
        index: usize,
        /// What is granted and what was requested.
        error: RightsError,
    },
    /// Two arguments name a byte that at least one of them writes.
    Clash {
        /// One of them, with the smaller index.
        first: usize,
        /// The other.
        second: usize,
        /// The backing that they share.
        identity: Identity,
        /// The lowest byte that both name, from the backing's start; the lowest that their bounds share, when the exact one
        /// would have passed the work bound of overlaps.
        byte: u64,
    },
    /// Whether two arguments clash was not found out within the work that a submit may cost.
    TooComplex {
        /// One of them, with the smaller index.
        first: usize,
        /// The other.
        second: usize,
        /// The backing that they share.
        identity: Identity,
    },
}

impl SubmitError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::TagCount { .. } => Code::TagCount,
            Self::TooManyTensors { .. } => Code::TooManyTensors,
            Self::TooManyScalars { .. } => Code::TooManyScalars,
            Self::Rights { error, .. } => error.code(),
            Self::Clash { .. } => Code::ArgumentClash,
            Self::TooComplex { .. } => Code::ArgumentsTooComplex,
        }
    }
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TagCount { tensors, tags } => {
                write!(f, "each tensor has one tag: found {tags} for {tensors} tensors")
            }
            Self::TooManyTensors { found, limit } => {
                write!(f, "a task has at most {limit} tensors, found {found}")
            }
            Self::TooManyScalars { found, limit } => {
                write!(f, "a task has at most {limit} scalars, found {found}")
            }
            Self::Rights { index, error } => write!(f, "tensor {index}: {error}"),
            Self::Clash { first, second, identity, byte } => write!(
                f,
                "tensors {first} and {second} both name byte {byte} of buffer {identity}, and one writes it"
            ),
            Self::TooComplex { first, second, identity } => write!(
                f,
                "whether tensors {first} and {second} of buffer {identity} share a byte takes too long to tell"
            ),
        }
    }
}

impl core::error::Error for SubmitError {}
