//! Where a backing lives and how it is reached.

use super::wire_enum::wire_enum;

wire_enum! {
    /// Whose memory a backing is.
    pub enum AddressSpace {
        /// Memory of host processes.
        Host = 0, "HOST";
        /// Memory of a chip.
        Device = 1, "DEVICE";
    }
}

wire_enum! {
    /// How a consumer resolves a backing.
    pub enum BackendKind {
        /// Shared memory that was mapped before a fork: the same address in every descendant.
        ForkShm = 0, "FORK_SHM";
        /// A POSIX shared-memory object, opened by name.
        PosixShm = 1, "POSIX_SHM";
        /// A device address carved from a communication domain's window.
        VmmWindow = 2, "VMM_WINDOW";
        /// Not resolvable here: the real descriptor travels in the task's sidecar.
        RemoteSidecar = 3, "REMOTE_SIDECAR";
        /// A device pointer of the chip that owns it.
        DeviceMalloc = 4, "DEVICE_MALLOC";
        /// Memory copied on write over a fork: the same address, read only.
        ForkCow = 5, "FORK_COW";
        /// Device memory that other processes import by a handle.
        VmmShareable = 6, "VMM_SHAREABLE";
    }
}

impl BackendKind {
    /// The one address space in which this backend lives; `None` when it may be either.
    #[must_use]
    #[inline]
    pub const fn address_space(self) -> Option<AddressSpace> {
        match self {
            Self::ForkShm | Self::PosixShm | Self::ForkCow => Some(AddressSpace::Host),
            Self::VmmWindow | Self::DeviceMalloc | Self::VmmShareable => Some(AddressSpace::Device),
            Self::RemoteSidecar => None,
        }
    }
}
