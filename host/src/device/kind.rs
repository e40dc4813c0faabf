//! Which device a chip has: said before its process is forked, and opened in it.

use core::fmt;

use bufabi_core::Code;

use super::qemu::{QemuDevice, QemuError, QemuOptions};
use super::{Device, DeviceError, SimulatedChip, SimulatedChipOptions};
use crate::worker::Kernels;

/// Bytes of a simulated chip's memory, unless its maker says otherwise.
const DEFAULT_NBYTES: u64 = 4 << 30;

/// A kind of device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A chip in software.
    Simulated {
        /// Bytes of its memory.
        nbytes: u64,
        /// Its kernels reach host memory in place; else it is copied.
        reaches_host_memory: bool,
    },
    /// A machine in QEMU, which runs the kernels of its firmware.
    Qemu(QemuOptions),
}

impl Default for DeviceKind {
    /// A chip in software of 4 GiB that reaches host memory.
    fn default() -> Self {
        Self::Simulated { nbytes: DEFAULT_NBYTES, reaches_host_memory: true }
    }
}

impl DeviceKind {
    /// A chip in software of 4 GiB that does not reach host memory: what tasks name of it is copied there and back.
    #[must_use]
    pub const fn staged() -> Self {
        Self::Simulated { nbytes: DEFAULT_NBYTES, reaches_host_memory: false }
    }

    /// Opens a device of that kind in this process, which runs `kernels` if it is software. `device_id` is its number.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open<'k, K: Kernels + ?Sized>(
        &self,
        device_id: i32,
        kernels: &'k K,
    ) -> Result<Box<dyn Device + 'k>, OpenError> {
        match self {
            &Self::Simulated { nbytes, reaches_host_memory } => {
                let options = SimulatedChipOptions { device_id, nbytes, reaches_host_memory };
                Ok(Box::new(SimulatedChip::new(kernels, options).map_err(OpenError::Simulated)?))
            }
            Self::Qemu(options) => Ok(Box::new(QemuDevice::start(options).map_err(OpenError::Qemu)?)),
        }
    }
}

/// Why a device was not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The chip in software could not be made.
    Simulated(DeviceError),
    /// The machine in QEMU was not started.
    Qemu(QemuError),
}

impl OpenError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Simulated(error) => error.code(),
            Self::Qemu(error) => error.code(),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simulated(error) => error.fmt(f),
            Self::Qemu(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}
