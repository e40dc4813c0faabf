//! Why a parent did not get device memory, or did not do something with it.

use core::fmt;

use bufabi_core::{Access, Code, Identity, ViewError};

use super::error::WaitError;
use super::reply::{TaskFailure, WorkerId};

/// Why a call about device memory did not do what it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryError {
    /// There is no such worker.
    WorkerUnknown {
        /// Which one.
        worker: WorkerId,
    },
    /// It is a leaf that owns no memory.
    NotAChip {
        /// Which one.
        worker: WorkerId,
    },
    /// Tasks that are not over name it; nothing has changed.
    Busy {
        /// Which one.
        identity: Identity,
        /// How often it is named.
        holds: u32,
    },
    /// It belongs to a domain, whose buffers are freed together; nothing has changed.
    InDomain {
        /// Which one.
        identity: Identity,
    },
    /// More buffers of a domain than are carved at once.
    TooManyParts {
        /// How many.
        parts: usize,
        /// As many as there can be.
        limit: usize,
    },
    /// The chips together take more of the machine's memory than it has left by its own estimate; none of them was asked.
    NoMemory {
        /// Bytes that they take.
        requested: u64,
        /// Bytes that are left.
        available: u64,
    },
    /// The owner does not grant that direction; nothing was copied.
    Denied {
        /// What it grants.
        granted: Access,
        /// What the copy does with the buffer.
        needed: Access,
    },
    /// Not all of the bytes lie in the one buffer; nothing was copied.
    OutOfRange {
        /// The first one.
        offset: u64,
        /// How many.
        length: u64,
        /// Bytes of the buffer.
        nbytes: u64,
    },
    /// No tensor has that shape.
    View(ViewError),
    /// The chip says why, or has ended.
    Failed(TaskFailure),
    /// The chip did not answer in time: it has not been asked, or does it later. What it makes then is taken back.
    TimedOut {
        /// Which one.
        worker: WorkerId,
    },
    /// It could not be asked.
    Wait(WaitError),
}

impl MemoryError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::WorkerUnknown { .. } => Code::WorkerUnknown,
            Self::NotAChip { .. } => Code::WorkerNotAChip,
            Self::Busy { .. } => Code::Busy,
            Self::InDomain { .. } => Code::DeviceInDomain,
            Self::TooManyParts { .. } => Code::DeviceTooManyParts,
            Self::NoMemory { .. } => Code::NoSpace,
            Self::Denied { .. } => Code::Denied,
            Self::OutOfRange { .. } => Code::DeviceRange,
            Self::View(error) => error.code(),
            Self::Failed(failure) => failure.code(),
            Self::TimedOut { .. } => Code::TimedOut,
            Self::Wait(error) => error.code(),
        }
    }
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WorkerUnknown { worker: WorkerId(index) } => write!(f, "there is no worker number {index}"),
            Self::NotAChip { worker: WorkerId(index) } => {
                write!(f, "worker number {index} is no chip, and owns no device memory")
            }
            Self::Busy { identity, holds } => {
                write!(f, "{identity} is named {holds} times by tasks that are not over")
            }
            Self::InDomain { identity } => {
                write!(f, "{identity} belongs to a domain: its buffers are freed together")
            }
            Self::TooManyParts { parts, limit } => {
                write!(f, "a domain has up to {limit} buffers on a chip, and {parts} were asked for")
            }
            Self::NoMemory { requested, available } => {
                write!(f, "{requested} bytes of memory were asked for in all, and about {available} are left")
            }
            Self::Denied { granted, needed } => {
                write!(f, "the copy needs {needed}, but the owner grants {granted}")
            }
            Self::OutOfRange { offset, length, nbytes } => {
                write!(f, "{length} bytes from {offset} on do not all lie in the buffer's {nbytes} bytes")
            }
            Self::View(error) => error.fmt(f),
            Self::Failed(failure) => failure.fmt(f),
            Self::TimedOut { .. } => f.write_str("the chip did not answer in time"),
            Self::Wait(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for MemoryError {}

/// Why a domain was not made, or not freed whole: as a [`MemoryError`], of one of several chips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainError {
    /// The first chip that could not; `None` when the error is none of a chip, or names the worker itself.
    pub chip: Option<WorkerId>,
    /// Why.
    pub error: MemoryError,
}

impl DomainError {
    /// What is wrong with that worker, or what it says.
    pub(super) const fn of(worker: WorkerId, error: MemoryError) -> Self {
        let names_it = matches!(error, MemoryError::WorkerUnknown { .. } | MemoryError::NotAChip { .. });
        Self { chip: if names_it { None } else { Some(worker) }, error }
    }

    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(&self) -> Code {
        self.error.code()
    }
}

impl From<MemoryError> for DomainError {
    /// Of no chip.
    fn from(error: MemoryError) -> Self {
        Self { chip: None, error }
    }
}

impl fmt::Display for DomainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.chip {
            Some(WorkerId(index)) => write!(f, "worker number {index}: {}", self.error),
            None => self.error.fmt(f),
        }
    }
}

impl std::error::Error for DomainError {}
