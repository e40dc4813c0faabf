//! What a device answers when it cannot do what it was asked.

use core::fmt;

use bufabi_core::Code;

use crate::space::SpaceError;
use crate::sys::OsError;
use crate::sys::ascendcl::AclError;
use crate::vmm::VmmError;
use crate::worker::KernelError;

/// Why a device did not do something with its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceError {
    /// Its memory is given out, or that was not.
    Space(SpaceError),
    /// Bytes that are not the device's.
    OutOfRange {
        /// The first one's address.
        address: u64,
        /// How many.
        nbytes: u64,
    },
    /// More than the machine has left by its own estimate.
    NoMemory {
        /// Bytes that were asked for.
        requested: u64,
        /// Bytes that are left.
        available: u64,
    },
    /// This process has no such range of addresses left, or no further mapping.
    NoAddressSpace {
        /// Bytes that were asked for.
        requested: u64,
        /// Bytes that its limit leaves it; `None` where there is no limit.
        available: Option<u64>,
    },
    /// The operating system refused.
    Os(OsError),
    /// The driver refused.
    Driver(AclError),
    /// What shares memory by handle refused.
    Vmm(VmmError),
    /// It did not answer.
    TimedOut {
        /// How long it had.
        milliseconds: u64,
    },
    /// It is no longer there.
    Ended,
    /// Its processor took an exception, which ended it.
    Faulted {
        /// What kind: ESR_EL1 of an aarch64 processor.
        syndrome: u64,
        /// The address that it is about.
        address: u64,
        /// The instruction that took it.
        instruction: u64,
    },
    /// Its firmware does not do as ours does, or says why it gave up.
    Firmware {
        /// What is wrong with it.
        code: Code,
    },
    /// What the device itself found wrong.
    Refused {
        /// Its status.
        code: Code,
    },
    /// This is a fork of the process that opened it.
    Forked {
        /// The process that did.
        creator: u32,
        /// This process.
        here: u32,
    },
}

/// Why a task did not run, or not to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchError {
    /// The kernel does not run on these arguments.
    Kernel(KernelError),
    /// An argument lies, in part at least, outside of the memory of the task.
    NotMapped {
        /// Which one, from 0.
        argument: usize,
        /// Its address.
        address: u64,
    },
    /// What the device itself found wrong.
    Refused {
        /// Its status.
        code: Code,
        /// The argument that it is about, from 0.
        argument: Option<usize>,
    },
    /// The device could not be asked, or did not answer.
    Device(DeviceError),
}

impl DeviceError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Space(error) => error.code(),
            Self::OutOfRange { .. } => Code::DeviceAddress,
            Self::NoMemory { .. } => Code::NoSpace,
            Self::NoAddressSpace { .. } => Code::NoAddressSpace,
            Self::Os(error) => error.code(),
            Self::Driver(_) => Code::VmmDriverCall,
            Self::Vmm(error) => error.code(),
            Self::TimedOut { .. } => Code::TimedOut,
            Self::Ended => Code::DeviceEnded,
            Self::Forked { .. } => Code::Forked,
            Self::Faulted { .. } => Code::DeviceFault,
            Self::Firmware { .. } => Code::DeviceFirmware,
            Self::Refused { code } => code,
        }
    }
}

impl LaunchError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Kernel(error) => error.code(),
            Self::NotMapped { .. } => Code::AddressNotMapped,
            Self::Refused { code, .. } => code,
            Self::Device(error) => error.code(),
        }
    }

    /// The argument that it is about, from 0.
    #[must_use]
    pub const fn argument(self) -> Option<usize> {
        match self {
            Self::Kernel(error) => error.operand(),
            Self::NotMapped { argument, .. } => Some(argument),
            Self::Refused { argument, .. } => argument,
            Self::Device(_) => None,
        }
    }
}

impl From<SpaceError> for DeviceError {
    fn from(error: SpaceError) -> Self {
        Self::Space(error)
    }
}

impl From<OsError> for DeviceError {
    fn from(error: OsError) -> Self {
        Self::Os(error)
    }
}

impl From<AclError> for DeviceError {
    fn from(error: AclError) -> Self {
        Self::Driver(error)
    }
}

impl From<KernelError> for LaunchError {
    fn from(error: KernelError) -> Self {
        Self::Kernel(error)
    }
}

impl From<DeviceError> for LaunchError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Space(error) => error.fmt(f),
            Self::OutOfRange { address, nbytes } => {
                write!(f, "{nbytes} bytes from {address:#x} on are not all memory of this device")
            }
            Self::NoMemory { requested, available } => {
                write!(f, "{requested} bytes of memory were asked for, and about {available} are left")
            }
            Self::NoAddressSpace { requested, available: Some(available) } => write!(
                f,
                "{requested} bytes of address space were asked for, and the process's limit leaves {available}"
            ),
            Self::NoAddressSpace { requested, available: None } => {
                write!(f, "no {requested} bytes of address space, or no further mapping, are left")
            }
            Self::Os(error) => error.fmt(f),
            Self::Driver(error) => error.fmt(f),
            Self::Vmm(error) => error.fmt(f),
            Self::TimedOut { milliseconds } => {
                write!(f, "the device did not answer within {milliseconds} ms")
            }
            Self::Ended => f.write_str("the device has ended"),
            Self::Forked { creator, here } => {
                write!(f, "only process {creator} may use the device, and this is its fork {here}")
            }
            Self::Faulted { syndrome, address, instruction } => write!(
                f,
                "the device's processor took exception {syndrome:#x} at {instruction:#x}, about address {address:#x}"
            ),
            Self::Firmware { code } => write!(f, "the device's firmware is none of ours, or gave up: {code}"),
            Self::Refused { code } => write!(f, "the device refuses it: {code}"),
        }
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Kernel(error) => error.fmt(f),
            Self::NotMapped { address, .. } => write!(f, "no mapping of the task holds {address:#x}"),
            Self::Refused { code, .. } => write!(f, "the device refuses it: {}", code.name()),
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DeviceError {}
impl std::error::Error for LaunchError {}
