//! A device of the Ascend driver: its memory through the driver's calls, its tasks through the chip's own runtime.
//!
//! What is relied on, and tested against a stand-in library of the same interface: that 0 is success, that what `aclrtMalloc` gives is
//! freed by its address, and that a copy is over when the call returns. Nothing is said about how addresses are aligned.

use core::fmt;

use bufabi_core::{Access, ChipStorageTaskArgs};

use super::{Device, DeviceError, Launch, LaunchError};
use crate::pieces::pieces;
use crate::sys::ascendcl::{AscendCl, DeviceAddress};
use crate::sys::process::current_pid;
use crate::vmm::VmmError;

/// Bytes copied at once to make memory zero.
const ZEROS: usize = 1 << 20;

/// What runs tasks on a chip: it takes their arguments as a chip's runtime reads them, with addresses of the device.
pub trait ChipRuntime: fmt::Debug {
    /// Runs a task to its end.
    ///
    /// # Errors
    /// [`LaunchError`].
    fn launch(&self, kernel: u32, arguments: &ChipStorageTaskArgs) -> Result<(), LaunchError>;

    /// What a kernel does with argument number `argument` of `count`; one that does not know says that it does everything.
    fn needs(&self, kernel: u32, argument: usize, count: usize) -> Option<Access> {
        let _ = (kernel, argument, count);
        Some(Access::ReadWrite)
    }
}

/// A device of the Ascend driver.
#[derive(Debug)]
pub struct AscendDevice<R> {
    library: AscendCl,
    /// Its number in this process.
    device: i32,
    runtime: R,
    creator: u32,
}

impl<R: ChipRuntime> AscendDevice<R> {
    /// Loads the driver, and takes the device of that number in this process, on which `runtime` runs tasks.
    ///
    /// # Errors
    /// [`VmmError::LibraryMissing`], [`VmmError::SymbolMissing`], [`VmmError::DeviceUnknown`], [`VmmError::Driver`].
    pub fn new(device: i32, runtime: R) -> Result<Self, VmmError> {
        if device < 0 {
            return Err(VmmError::DeviceUnknown { device_id: device });
        }
        Ok(Self { library: AscendCl::load()?, device, runtime, creator: current_pid() })
    }

    /// The library, with this device made the calling thread's: the driver keeps one for each thread, and others may have
    /// set another one since.
    fn library(&self) -> Result<&AscendCl, DeviceError> {
        let here = current_pid();
        if here != self.creator {
            return Err(DeviceError::Forked { creator: self.creator, here });
        }
        self.library.set_device(self.device)?;
        Ok(&self.library)
    }
}

impl<R: ChipRuntime> Device for AscendDevice<R> {
    /// The driver does not say.
    fn alignment(&self) -> u64 {
        1
    }

    /// Host memory would have to be registered with the driver first.
    fn reaches_host_memory(&self) -> bool {
        false
    }

    fn needs(&self, kernel: u32, argument: usize, count: usize) -> Option<Access> {
        self.runtime.needs(kernel, argument, count)
    }

    fn malloc(&self, nbytes: u64) -> Result<u64, DeviceError> {
        if nbytes == 0 {
            return Err(crate::space::SpaceError::NbytesZero.into());
        }
        let size = usize::try_from(nbytes).map_err(|_| DeviceError::OutOfRange { address: 0, nbytes })?;
        Ok(self.library()?.malloc(size)?.0)
    }

    fn free(&self, address: u64) -> Result<(), DeviceError> {
        Ok(self.library()?.free(DeviceAddress(address))?)
    }

    fn zero(&self, address: u64, nbytes: u64) -> Result<(), DeviceError> {
        let zeros = vec![0; usize::try_from(nbytes).unwrap_or(usize::MAX).min(ZEROS)];
        for (offset, length) in pieces(0..nbytes, ZEROS) {
            self.copy_to(address.saturating_add(offset), zeros.get(..length).unwrap_or_default())?;
        }
        Ok(())
    }

    fn copy_to(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        Ok(self.library()?.copy_to_device(DeviceAddress(address), bytes)?)
    }

    fn copy_from(&self, address: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        Ok(self.library()?.copy_from_device(DeviceAddress(address), out)?)
    }

    fn launch(&self, task: &Launch<'_>) -> Result<(), LaunchError> {
        // The runtime works on this thread's device.
        self.library()?;
        self.runtime.launch(task.kernel, task.arguments)
    }
}
