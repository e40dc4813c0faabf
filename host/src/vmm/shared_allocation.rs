//! The owner's side of memory that is shared by handle.

use core::num::NonZeroU64;
use std::sync::Arc;

use bufabi_core::{Access, Descriptor, DescriptorError, Identity};

use super::placement::Placement;
use super::{Claim, OrderFault, Revocation, Shareable, VmmDriver, VmmError};
use crate::memory::Mapping;

/// Who may import a handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// Processes that the owner [permits](SharedAllocation::permit).
    #[default]
    Listed,
    /// Any process that knows it.
    Anyone,
}

/// What an owner wants to share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationRequest {
    /// The allocation's name, which the owner's allocator gave out.
    pub identity: Identity,
    /// Bytes of the backing, at least 1. What is mapped is this, rounded up to the driver's granularity.
    pub nbytes: u64,
    /// What importers may do with it. The owner itself may do everything.
    pub access: Access,
    /// Who may import it.
    pub admission: Admission,
}

/// Memory that this process owns, has mapped, and exports under a handle. Dropping it ends imports and gives up the memory, which
/// lives on while an importer maps it; in a fork of the process dropping it does nothing.
#[derive(Debug)]
pub struct SharedAllocation<D: VmmDriver> {
    driver: Arc<D>,
    shareable: Shareable,
    admission: Admission,
    is_revoked: bool,
    placement: Placement<D>,
}

/// Allocations that are tried when the driver gives handle 0. Its handles count up, so a second one has another.
const ATTEMPTS: u32 = 2;

impl<D: VmmDriver> SharedAllocation<D> {
    /// Creates the memory, maps it, zeroes it and exports it, in this order. After a failing step those before it are undone in
    /// reverse, and the first error is the one reported.
    ///
    /// # Errors
    /// [`VmmError::NbytesZero`], [`VmmError::NbytesTooLarge`]; [`VmmError::Mismatch`] when the identity is of another owner than
    /// the driver; whatever a step says; [`VmmError::HandleZero`] when the driver gives no other handle.
    pub fn new(driver: &Arc<D>, request: &AllocationRequest) -> Result<Self, VmmError> {
        let (owner, named) = (driver.owner_instance_id(), request.identity.owner_instance_id());
        if owner != named {
            let (claimed, found) = (u64::from_le_bytes(named.0), u64::from_le_bytes(owner.0));
            return Err(VmmError::Mismatch { field: Claim::Owner, claimed, found });
        }
        let mapping_bytes = mapping_bytes(request.nbytes, driver.granularity()?)?;
        // What has handle 0 is kept until there is something else: freed, it would be given out again.
        let mut set_aside = None;
        for _ in 0..ATTEMPTS {
            let placement = Self::place(driver, mapping_bytes)?;
            let Some(physical) = placement.physical() else { continue };
            match driver.export(physical, request, mapping_bytes) {
                Ok(handle) => {
                    let AllocationRequest { identity, nbytes, access, admission } = *request;
                    let device_id = driver.device_id();
                    let shareable = Shareable { identity, access, nbytes, device_id, handle, mapping_bytes };
                    let driver = Arc::clone(driver);
                    return Ok(Self { driver, shareable, admission, is_revoked: false, placement });
                }
                Err(VmmError::HandleZero { .. }) => set_aside = Some(placement),
                Err(error) => return Err(error),
            }
        }
        drop(set_aside);
        Err(VmmError::HandleZero { attempts: ATTEMPTS })
    }

    /// Creates memory, maps it for the owner, and zeroes it: a peer may write as soon as it knows the handle.
    fn place(driver: &Arc<D>, mapping_bytes: u64) -> Result<Placement<D>, VmmError> {
        let physical = driver.create_physical(mapping_bytes)?;
        let mut placement = Placement::new(driver, physical, mapping_bytes, Access::ReadWrite)?;
        driver.zero(placement.range_mut()?)?;
        Ok(placement)
    }

    /// Lets processes import it, by the numbers that their drivers say they have. They must run already.
    ///
    /// # Errors
    /// [`OrderFault::NoWhitelist`] where anyone may, [`OrderFault::Revoked`], and what the driver says.
    pub fn permit(&self, peers: &[i32]) -> Result<(), VmmError> {
        self.placement.check_creator()?;
        if self.is_revoked {
            return Err(VmmError::Order(OrderFault::Revoked));
        }
        match self.admission {
            Admission::Anyone => Err(VmmError::Order(OrderFault::NoWhitelist)),
            Admission::Listed => self.driver.permit(self.shareable.handle, peers),
        }
    }

    /// The descriptor by which others find it. `owner_worker_path_id` is for people who read logs; 0 is none.
    ///
    /// # Errors
    /// None that can happen: at least the backing's bytes are mapped.
    pub fn descriptor(&self, owner_worker_path_id: u32) -> Result<Descriptor, DescriptorError> {
        self.shareable.descriptor(owner_worker_path_id)
    }

    /// What the descriptor says.
    #[must_use]
    pub const fn shareable(&self) -> &Shareable {
        &self.shareable
    }

    /// Ends imports. Mappings stay, the owner's too.
    ///
    /// # Errors
    /// What the driver says; it can be tried again then.
    pub fn revoke(&mut self) -> Result<(), VmmError> {
        self.placement.check_creator()?;
        if self.is_revoked {
            return Ok(());
        }
        if self.revoke_handle()? == Revocation::ByFreeing {
            self.placement.free_physical()?;
        }
        self.is_revoked = true;
        Ok(())
    }

    /// Ends imports and gives up the memory: every step that has not succeeded before, also when another one fails. It can be called
    /// again.
    ///
    /// # Errors
    /// The first one.
    pub fn release(&mut self) -> Result<(), VmmError> {
        self.placement.check_creator()?;
        let revoked = self.revoke_before_taking_down();
        revoked.and(self.placement.take_down())
    }

    /// The owner's range, which the caller takes down from now on, as it revokes the handle.
    pub(super) fn into_range(mut self) -> Result<D::Range, VmmError> {
        let range = self.placement.take_range()?;
        self.is_revoked = true;
        Ok(range)
    }

    /// A driver that revokes by freeing does so when the memory is freed, after it is unmapped.
    fn revoke_before_taking_down(&mut self) -> Result<(), VmmError> {
        if !self.is_revoked {
            self.revoke_handle()?;
            self.is_revoked = true;
        }
        Ok(())
    }

    /// That the driver knows the handle no longer is success: somebody revoked it through the driver itself.
    fn revoke_handle(&self) -> Result<Revocation, VmmError> {
        match self.driver.revoke(self.shareable.handle) {
            Err(VmmError::HandleUnknown { .. }) => Ok(Revocation::Done),
            other => other,
        }
    }

    /// The owner's device address.
    ///
    /// # Errors
    /// [`OrderFault::NotMapped`] once it was released, [`VmmError::Forked`].
    pub fn address(&self) -> Result<u64, VmmError> {
        Ok(self.driver.address(self.placement.range()?))
    }

    /// The memory, if this machine's CPU can reach it.
    ///
    /// # Errors
    /// As [`address`](Self::address).
    pub fn host_memory(&self) -> Result<Option<&Mapping>, VmmError> {
        Ok(self.driver.host_memory(self.placement.range()?))
    }

    /// Copies bytes out, from `offset` on.
    ///
    /// # Errors
    /// [`VmmError::OutOfRange`], and what the driver says.
    pub fn copy_from(&self, offset: u64, out: &mut [u8]) -> Result<(), VmmError> {
        check_range(offset, out.len(), self.shareable.nbytes)?;
        self.driver.copy_from(self.placement.range()?, offset, out)
    }

    /// Copies bytes in, from `offset` on.
    ///
    /// # Errors
    /// [`VmmError::OutOfRange`], and what the driver says.
    pub fn copy_to(&self, offset: u64, bytes: &[u8]) -> Result<(), VmmError> {
        check_range(offset, bytes.len(), self.shareable.nbytes)?;
        self.driver.copy_to(self.placement.range()?, offset, bytes)
    }
}

impl<D: VmmDriver> Drop for SharedAllocation<D> {
    fn drop(&mut self) {
        if self.placement.check_creator().is_ok() {
            // Nobody is left who could be told; the placement takes itself down.
            let _ = self.revoke_before_taking_down();
        }
    }
}

/// Bytes to map for a backing of `nbytes`: the least multiple of the granularity.
fn mapping_bytes(nbytes: u64, granularity: NonZeroU64) -> Result<u64, VmmError> {
    if nbytes == 0 {
        return Err(VmmError::NbytesZero);
    }
    nbytes
        .checked_next_multiple_of(granularity.get())
        .filter(|bytes| i64::try_from(*bytes).is_ok())
        .ok_or(VmmError::NbytesTooLarge { nbytes })
}

/// `length` bytes from `offset` on lie within `nbytes`.
pub(super) fn check_range(offset: u64, length: usize, nbytes: u64) -> Result<(), VmmError> {
    let length = u64::try_from(length).unwrap_or(u64::MAX);
    match nbytes.checked_sub(offset) {
        Some(room) if length <= room => Ok(()),
        Some(_) | None => Err(VmmError::OutOfRange { offset, length, nbytes }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_and_never_wrap() {
        let granularity = NonZeroU64::new(1 << 21).unwrap();
        for (nbytes, expected) in [
            (0, Err(VmmError::NbytesZero)),
            (1, Ok(1 << 21)),
            (1 << 21, Ok(1 << 21)),
            ((1 << 21) | 1, Ok(2 << 21)),
            ((1 << 63) - (1 << 21), Ok((1 << 63) - (1 << 21))),
            ((1 << 63) - 1, Err(VmmError::NbytesTooLarge { nbytes: (1 << 63) - 1 })),
            (u64::MAX, Err(VmmError::NbytesTooLarge { nbytes: u64::MAX })),
        ] {
            assert_eq!(mapping_bytes(nbytes, granularity), expected, "{nbytes}");
        }
    }

    #[test]
    fn a_range_ends_within_the_memory() {
        let refused = |offset, length| Err(VmmError::OutOfRange { offset, length, nbytes: 8 });
        for (offset, length, expected) in [
            (0, 8, Ok(())),
            (8, 0, Ok(())),
            (7, 2, refused(7, 2)),
            (9, 0, refused(9, 0)),
            (u64::MAX, 8, refused(u64::MAX, 8)),
        ] {
            assert_eq!(check_range(offset, length, 8), expected, "{offset}, {length}");
        }
    }
}
