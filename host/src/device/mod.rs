//! Memory and kernels of one chip, behind one trait: what a driver, a machine in an emulator and a simulation have in common.
//!
//! A device's addresses are numbers that its kernels follow and this process never does. Who may name them is not decided here:
//! whoever owns a device hands out identities, and asks for bytes by the addresses that stand behind them.

mod ascend;
pub mod chip;
mod error;
mod file;
mod kind;
pub mod memory;
mod qemu;
mod resolved;
mod simulated;
mod staging;
#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]
mod testing;

pub use ascend::{AscendDevice, ChipRuntime};
pub use chip::Chip;
pub use error::{DeviceError, LaunchError};
pub use kind::{DeviceKind, OpenError};
pub use memory::DeviceMemory;
pub use qemu::{QemuDevice, QemuError, QemuOptions, check_firmware, find_program};
pub use resolved::{DeviceRange, Resolved};
pub use simulated::{SimulatedChip, SimulatedChipOptions};

use core::fmt;

use bufabi_core::{Access, Blob, ChipStorageTaskArgs};

/// One chip, as the process that owns its memory uses it. All of its calls come from that process.
///
/// Every call is over when it returns: what was copied or written is there for the next one. A call that waits for something
/// outside of this process waits for a limited time.
pub trait Device: fmt::Debug {
    /// What the addresses that [`malloc`](Self::malloc) gives are multiples of: a power of two.
    fn alignment(&self) -> u64;

    /// Its kernels reach memory that is mapped in this process, by this process's addresses. Where they do not, host buffers are
    /// copied into memory of the device before a task, and back after it.
    fn reaches_host_memory(&self) -> bool;

    /// What a kernel does with argument number `argument` of `count`, both from what is known before it runs: which host buffers
    /// have to be copied, and which way. A device that cannot tell says that it does everything.
    fn needs(&self, kernel: u32, argument: usize, count: usize) -> Option<Access> {
        let _ = (kernel, argument, count);
        Some(Access::ReadWrite)
    }

    /// Its memory is this machine's, taken from it as it is given out, and zero then.
    fn has_machine_memory(&self) -> bool {
        false
    }

    /// Takes `nbytes` bytes of its memory, at least 1, and gives the first one's address, which is not 0. Their content is
    /// whatever lies there.
    ///
    /// # Errors
    /// [`DeviceError`]; nothing was taken then.
    fn malloc(&self, nbytes: u64) -> Result<u64, DeviceError>;

    /// Gives back what [`malloc`](Self::malloc) took, by its address.
    ///
    /// # Errors
    /// [`DeviceError`]. Whoever owns the device gives that memory up and never asks again.
    fn free(&self, address: u64) -> Result<(), DeviceError>;

    /// Makes bytes zero.
    ///
    /// # Errors
    /// [`DeviceError`]; some bytes may be zero then.
    fn zero(&self, address: u64, nbytes: u64) -> Result<(), DeviceError>;

    /// Copies bytes to the device.
    ///
    /// # Errors
    /// [`DeviceError`]; some bytes may have been copied then.
    fn copy_to(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Copies bytes from the device.
    ///
    /// # Errors
    /// [`DeviceError`]; some bytes may have been copied then.
    fn copy_from(&self, address: u64, out: &mut [u8]) -> Result<(), DeviceError>;

    /// Runs a task to its end.
    ///
    /// # Errors
    /// [`LaunchError`].
    fn launch(&self, task: &Launch<'_>) -> Result<(), LaunchError>;
}

/// A task whose arguments were checked, and resolved for the device that it goes to.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// Which kernel.
    pub kernel: u32,
    /// The arguments as they came. [`Blob::pieces`] are its bytes, for a device that reads blobs itself.
    pub blob: &'a Blob<'a>,
    /// The same as a chip's runtime reads them: their addresses are those of `backings`, each with its view's offset.
    pub arguments: &'a ChipStorageTaskArgs,
    /// What stands behind each tensor, in order. It stays as it is until the task has run.
    pub backings: &'a [Resolved],
}
