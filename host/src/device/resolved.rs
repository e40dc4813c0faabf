//! A task's backing as the device that runs it sees it: where it starts, and what may be done there.

use bufabi_core::Access;

use crate::consumer::Import;

/// Memory of a device, as one task may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRange {
    /// The first byte's device address.
    pub address: u64,
    /// Bytes.
    pub nbytes: u64,
    /// What the owner grants.
    pub access: Access,
}

/// What stands behind one tensor of a task.
#[derive(Clone, Debug)]
pub enum Resolved {
    /// Memory that this process has mapped, which the device reaches at the same address.
    Host(Import),
    /// Memory of the device.
    Device(DeviceRange),
}

impl Resolved {
    /// The first byte's address, as the device's kernels follow it.
    #[must_use]
    pub fn address(&self) -> u64 {
        match self {
            Self::Host(import) => import.address(),
            Self::Device(range) => range.address,
        }
    }

    /// Bytes.
    #[must_use]
    pub fn nbytes(&self) -> u64 {
        match self {
            Self::Host(import) => import.nbytes(),
            Self::Device(range) => range.nbytes,
        }
    }

    /// What the owner grants.
    #[must_use]
    pub const fn access(&self) -> Access {
        match self {
            Self::Host(import) => import.access(),
            Self::Device(range) => range.access,
        }
    }

    /// Where `size` bytes from `address` on start in it, if all of them lie there.
    #[must_use]
    pub fn offset_of(&self, address: u64, size: u64) -> Option<u64> {
        let offset = address.checked_sub(self.address())?;
        let room = self.nbytes().checked_sub(offset)?;
        (size <= room).then_some(offset)
    }
}
