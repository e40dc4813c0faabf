//! What a chip's memory answers when it does not do what it was asked.

use core::fmt;

use bufabi_core::wire::backend::BackendKind;
use bufabi_core::{Access, Code, Identity, OwnerInstanceId};

use crate::device::DeviceError;
use crate::owner::{CreateError, OwnError, ReleaseError};
use crate::vmm::VmmError;
use crate::vmm::memfd::BrokerError;

/// Why nothing was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocateError {
    /// The device has no such memory, or refused.
    Device(DeviceError),
    /// The device gave address 0, which no descriptor carries.
    AddressZero,
    /// What was allocated could not be given a name.
    Create(CreateError),
    /// What serves importers could not be started.
    Broker(BrokerError),
}

/// Why something was not freed, or not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeError {
    /// It was freed already, is another owner's, or never existed.
    Own(OwnError),
    /// It is used; nothing has changed.
    Release(ReleaseError),
    /// It only names what somebody else allocated.
    Wrapped {
        /// Which one.
        identity: Identity,
    },
    /// It belongs to a domain, whose buffers are freed together.
    InDomain {
        /// Which one.
        identity: Identity,
    },
    /// It belongs to no domain.
    NotInDomain {
        /// Which one.
        identity: Identity,
    },
    /// Nobody can name it any more, but the device did not take its memory back.
    Leaked {
        /// Which one.
        identity: Identity,
        /// Bytes that are lost.
        nbytes: u64,
        /// What the device said.
        error: DeviceError,
    },
}

/// Why nothing was copied, or not all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyError {
    /// It was freed, is another owner's, or never existed.
    Own(OwnError),
    /// The owner does not grant that direction.
    Denied {
        /// What it grants.
        granted: Access,
        /// What the copy does with the buffer.
        needed: Access,
    },
    /// It has been named already, so its content is no longer part of its creation.
    Named {
        /// Which one.
        identity: Identity,
    },
    /// Not all of the bytes lie in the one buffer.
    OutOfRange {
        /// The first one.
        offset: u64,
        /// How many.
        length: u64,
        /// Bytes of the buffer.
        nbytes: u64,
    },
    /// The device refused.
    Device(DeviceError),
}

/// Why a task may not name memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// It is memory of another chip, or of an earlier incarnation of this one.
    OtherChip {
        /// Whose, and which.
        identity: Identity,
        /// This chip.
        here: OwnerInstanceId,
    },
    /// It was freed, never existed, or is not what the descriptor says.
    Own(OwnError),
    /// It could not be imported.
    Vmm(VmmError),
    /// It has no address on the device.
    NotDeviceMemory {
        /// What it is.
        backend_kind: BackendKind,
    },
}

/// Why nobody was permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitError {
    /// It was freed, is another owner's, or never existed.
    Own(OwnError),
    /// There is no whitelist, or a peer is not there.
    Vmm(VmmError),
}

impl AllocateError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Device(error) => error.code(),
            Self::AddressZero => Code::BodyNullBase,
            Self::Create(error) => error.code(),
            Self::Broker(error) => error.code(),
        }
    }
}

impl FreeError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Own(error) => error.code(),
            Self::Release(error) => error.code(),
            Self::Wrapped { .. } => Code::NotAllocated,
            Self::InDomain { .. } => Code::DeviceInDomain,
            Self::NotInDomain { .. } => Code::DeviceNotInDomain,
            Self::Leaked { .. } => Code::DeviceLeaked,
        }
    }
}

impl CopyError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Own(error) => error.code(),
            Self::Denied { .. } => Code::Denied,
            Self::Named { .. } => Code::DeviceNamed,
            Self::OutOfRange { .. } => Code::DeviceRange,
            Self::Device(error) => error.code(),
        }
    }
}

impl NameError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::OtherChip { .. } => Code::DeviceOtherChip,
            Self::Own(error) => error.code(),
            Self::Vmm(error) => error.code(),
            Self::NotDeviceMemory { .. } => Code::NotResolvable,
        }
    }
}

impl PermitError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Own(error) => error.code(),
            Self::Vmm(error) => error.code(),
        }
    }
}

impl From<DeviceError> for AllocateError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl From<CreateError> for AllocateError {
    fn from(error: CreateError) -> Self {
        Self::Create(error)
    }
}

impl From<DeviceError> for CopyError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl fmt::Display for AllocateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => error.fmt(f),
            Self::AddressZero => f.write_str("the device gave address 0, which must not travel"),
            Self::Create(error) => error.fmt(f),
            Self::Broker(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(error) => error.fmt(f),
            Self::Release(error) => error.fmt(f),
            Self::Wrapped { identity } => {
                write!(f, "{identity} names what somebody else allocated, and is not freed here")
            }
            Self::InDomain { identity } => {
                write!(f, "{identity} belongs to a domain: its buffers are freed together")
            }
            Self::NotInDomain { identity } => write!(f, "{identity} belongs to no domain"),
            Self::Leaked { identity, nbytes, error } => {
                write!(f, "{identity} is freed, but its {nbytes} bytes are lost: {error}")
            }
        }
    }
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(error) => error.fmt(f),
            Self::Denied { granted, needed } => {
                write!(f, "the copy needs {needed}, but the owner grants {granted}")
            }
            Self::Named { identity } => {
                write!(f, "{identity} has been named already: its first content can no longer be written")
            }
            Self::OutOfRange { offset, length, nbytes } => {
                write!(f, "{length} bytes from {offset} on do not all lie in the buffer's {nbytes} bytes")
            }
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherChip { identity, here } => {
                write!(f, "{identity} is memory of another chip than {here}, where the task runs")
            }
            Self::Own(error) => error.fmt(f),
            Self::Vmm(error) => error.fmt(f),
            Self::NotDeviceMemory { backend_kind } => {
                write!(f, "a {backend_kind} backing has no address on the device")
            }
        }
    }
}

impl fmt::Display for PermitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(error) => error.fmt(f),
            Self::Vmm(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AllocateError {}
impl std::error::Error for FreeError {}
impl std::error::Error for CopyError {}
impl std::error::Error for NameError {}
impl std::error::Error for PermitError {}
