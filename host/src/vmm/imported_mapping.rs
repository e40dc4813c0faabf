//! The importer's side of memory that is shared by handle.

use std::sync::Arc;

use bufabi_core::wire::record::Holds;
use bufabi_core::{Access, Descriptor, Identity, RawDescriptor, View};

use super::placement::Placement;
use super::shared_allocation::check_range;
use super::{Shareable, VmmDriver, VmmError};
use crate::memory::{Mapping, Operand};

/// Memory of another endpoint, mapped here, of which the first `nbytes` bytes are used. Dropping it unmaps it, but not in a fork of
/// the process, where it was left out.
///
/// It is the only one of its identity in this process if it came from [`Imports`](super::Imports).
#[derive(Debug)]
pub struct ImportedMapping<D: VmmDriver> {
    driver: Arc<D>,
    shareable: Shareable,
    placement: Placement<D>,
}

impl<D: VmmDriver> ImportedMapping<D> {
    /// Imports and maps what a descriptor names. After a failing step those before it are undone in reverse, and the first error is
    /// the one reported.
    ///
    /// # Errors
    /// [`VmmError::NotShareable`] and [`VmmError::OwnHandle`] before anybody is asked; then whatever a step says.
    pub fn import<H: Holds<RawDescriptor>>(
        driver: &Arc<D>,
        descriptor: &Descriptor<H>,
    ) -> Result<Self, VmmError> {
        let shareable = Shareable::from_descriptor(descriptor)?;
        let identity = shareable.identity;
        if identity.owner_instance_id() == driver.owner_instance_id() {
            return Err(VmmError::OwnHandle { identity });
        }
        if i64::try_from(shareable.mapping_bytes).is_err() {
            return Err(VmmError::NbytesTooLarge { nbytes: shareable.mapping_bytes });
        }
        let physical = driver.import(&shareable)?;
        let mut placement = Placement::new(driver, physical, shareable.mapping_bytes, shareable.access)?;
        if !D::MAPPING_NEEDS_IMPORT {
            placement.free_physical()?;
        }
        Ok(Self { driver: Arc::clone(driver), shareable, placement })
    }

    /// The allocation's name.
    #[must_use]
    pub const fn identity(&self) -> Identity {
        self.shareable.identity
    }

    /// What the owner grants.
    #[must_use]
    pub const fn access(&self) -> Access {
        self.shareable.access
    }

    /// What its descriptor claimed, which its owner confirmed where the driver lets it.
    #[must_use]
    pub const fn shareable(&self) -> &Shareable {
        &self.shareable
    }

    /// Its device address here.
    ///
    /// # Errors
    /// [`OrderFault::NotMapped`](super::OrderFault::NotMapped) once it was released, [`VmmError::Forked`].
    pub fn address(&self) -> Result<u64, VmmError> {
        Ok(self.driver.address(self.placement.range()?))
    }

    /// The memory, if this machine's CPU can reach it: all that is mapped, not only the first `nbytes` bytes.
    ///
    /// # Errors
    /// As [`address`](Self::address).
    pub fn host_memory(&self) -> Result<Option<&Mapping>, VmmError> {
        Ok(self.driver.host_memory(self.placement.range()?))
    }

    /// A view of its first `nbytes` bytes; `None` if this machine's CPU cannot reach it.
    ///
    /// # Errors
    /// [`VmmError::OutOfRange`], and as [`address`](Self::address).
    pub fn operand(&self, view: View) -> Result<Option<Operand<'_>>, VmmError> {
        let nbytes = self.shareable.nbytes;
        let (offset, length) = (view.byte_offset(), view.extent());
        let out_of_range = VmmError::OutOfRange { offset, length, nbytes };
        if view.end() > nbytes {
            return Err(out_of_range);
        }
        self.host_memory()?.map(|memory| memory.operand(view).map_err(|_| out_of_range)).transpose()
    }

    /// Copies bytes out, from `offset` on, if the owner lets anybody read.
    ///
    /// # Errors
    /// [`VmmError::Denied`], [`VmmError::OutOfRange`], and what the driver says.
    pub fn copy_from(&self, offset: u64, out: &mut [u8]) -> Result<(), VmmError> {
        self.check_access(Access::Read)?;
        check_range(offset, out.len(), self.shareable.nbytes)?;
        self.driver.copy_from(self.placement.range()?, offset, out)
    }

    /// Copies bytes in, from `offset` on, if the owner lets anybody write: a driver that knows no read-only mappings would.
    ///
    /// # Errors
    /// [`VmmError::Denied`], [`VmmError::OutOfRange`], and what the driver says.
    pub fn copy_to(&self, offset: u64, bytes: &[u8]) -> Result<(), VmmError> {
        self.check_access(Access::Write)?;
        check_range(offset, bytes.len(), self.shareable.nbytes)?;
        self.driver.copy_to(self.placement.range()?, offset, bytes)
    }

    /// The owner grants what is asked for. Whoever hands the device address to something that reads or writes asks this first.
    ///
    /// # Errors
    /// [`VmmError::Denied`].
    pub const fn check_access(&self, requested: Access) -> Result<(), VmmError> {
        let granted = self.shareable.access;
        if granted.grants(requested) { Ok(()) } else { Err(VmmError::Denied { granted, requested }) }
    }

    /// The range where it is mapped, which the caller unmaps from now on.
    pub(super) fn into_range(mut self) -> Result<D::Range, VmmError> {
        self.placement.take_range()
    }

    /// Unmaps it: every step that has not succeeded before, also when another one fails. It can be called again.
    ///
    /// # Errors
    /// The first one.
    pub fn release(&mut self) -> Result<(), VmmError> {
        self.placement.take_down()
    }
}
