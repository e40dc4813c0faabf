//! A region's part that this process's CPU does not map: a driver copies its bytes.

use core::fmt;

use bufabi_core::region::AccessError;

use crate::vmm::imports::Import;
use crate::vmm::{SharedAllocation, VmmDriver, VmmError};

/// Bytes that are reached by copies. A copy that has returned is done: what it wrote is there for whoever looks later, and what it
/// read was there when it was called.
pub(super) trait CopiedPart: fmt::Debug + Send + Sync {
    /// Bytes of it.
    fn nbytes(&self) -> u64;

    /// Its first byte's address on the device.
    fn address(&self) -> Result<u64, VmmError>;

    /// Copies bytes out, from `offset` on.
    fn copy_from(&self, offset: u64, out: &mut [u8]) -> Result<(), VmmError>;

    /// Copies bytes in, from `offset` on.
    fn copy_to(&self, offset: u64, bytes: &[u8]) -> Result<(), VmmError>;
}

/// The owner's side.
impl<D> CopiedPart for SharedAllocation<D>
where
    D: VmmDriver<Physical: Send + Sync, Range: Send + Sync> + Send + Sync,
{
    fn nbytes(&self) -> u64 {
        self.shareable().nbytes
    }

    fn address(&self) -> Result<u64, VmmError> {
        Self::address(self)
    }

    fn copy_from(&self, offset: u64, out: &mut [u8]) -> Result<(), VmmError> {
        Self::copy_from(self, offset, out)
    }

    fn copy_to(&self, offset: u64, bytes: &[u8]) -> Result<(), VmmError> {
        Self::copy_to(self, offset, bytes)
    }
}

/// An importer's side.
impl<D> CopiedPart for Import<D>
where
    D: VmmDriver<Physical: Send + Sync, Range: Send + Sync> + Send + Sync,
{
    fn nbytes(&self) -> u64 {
        self.shareable().nbytes
    }

    fn address(&self) -> Result<u64, VmmError> {
        (**self).address()
    }

    fn copy_from(&self, offset: u64, out: &mut [u8]) -> Result<(), VmmError> {
        (**self).copy_from(offset, out)
    }

    fn copy_to(&self, offset: u64, bytes: &[u8]) -> Result<(), VmmError> {
        (**self).copy_to(offset, bytes)
    }
}

/// What the driver said, as the core passes it on.
pub(super) fn access_error(error: VmmError) -> AccessError {
    if let VmmError::Driver(error) = error {
        return AccessError::driver(i64::from(error.number));
    }
    AccessError::new(error.code(), 0)
}
