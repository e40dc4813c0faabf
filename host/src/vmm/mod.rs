//! Device memory that processes share by handle: one trait over drivers, an owner's side and an importer's side.
//!
//! The steps and their order are those of the drivers of devices. [`MemfdDriver`] takes them in software, on a machine that
//! has no device; [`AclDriver`] takes them through a driver that is loaded at run time.
//!
//! | side | up | down |
//! |---|---|---|
//! | owner, [`SharedAllocation`] | granularity, create, reserve, map, set access, zero, export, permit, publish | revoke, unmap, release, free |
//! | importer, [`ImportedMapping`] | check, import, reserve, map, set access | unmap, release, free |

pub mod acl;
pub mod error;
pub mod imported_mapping;
pub mod imports;
pub mod memfd;
mod placement;
pub mod shareable;
pub mod shared_allocation;

pub use acl::AclDriver;
pub use error::{Claim, OrderFault, ReplyFault, VmmError};
pub use imported_mapping::ImportedMapping;
pub use imports::Imports;
pub use memfd::MemfdDriver;
pub use shareable::Shareable;
pub use shared_allocation::{Admission, AllocationRequest, SharedAllocation};

use core::fmt;
use core::num::NonZeroU64;

use bufabi_core::{Access, OwnerInstanceId};

use crate::memory::Mapping;

/// A driver of virtual memory of one device, as one endpoint uses it.
///
/// Sizes are `mapping_bytes`: multiples of the granularity, and the same for a range and what is mapped there. A driver belongs to
/// the process that made it; in a fork every step is refused.
pub trait VmmDriver: fmt::Debug {
    /// Physical memory, made or imported.
    type Physical: fmt::Debug;
    /// A range of device addresses.
    type Range: fmt::Debug;

    /// An imported mapping needs its physical memory's handle as long as it lives.
    const MAPPING_NEEDS_IMPORT: bool;

    /// The endpoint whose exports these are.
    fn owner_instance_id(&self) -> OwnerInstanceId;

    /// The device's number, as descriptors carry it.
    fn device_id(&self) -> i32;

    /// The number by which owners permit this process to import.
    ///
    /// # Errors
    /// [`VmmError::Driver`].
    fn peer_number(&self) -> Result<i32, VmmError>;

    /// What sizes must be a multiple of.
    ///
    /// # Errors
    /// [`VmmError::Driver`].
    fn granularity(&self) -> Result<NonZeroU64, VmmError>;

    /// Makes physical memory.
    ///
    /// # Errors
    /// [`VmmError::NoMemory`], [`VmmError::Os`], [`VmmError::Driver`].
    fn create_physical(&self, mapping_bytes: u64) -> Result<Self::Physical, VmmError>;

    /// Reserves addresses.
    ///
    /// # Errors
    /// [`VmmError::Os`], [`VmmError::Driver`].
    fn reserve(&self, mapping_bytes: u64) -> Result<Self::Range, VmmError>;

    /// Maps physical memory at a range that has its size.
    ///
    /// # Errors
    /// [`VmmError::Os`], [`VmmError::Driver`], [`OrderFault::MappedAlready`].
    fn map(&self, range: &mut Self::Range, physical: &Self::Physical) -> Result<(), VmmError>;

    /// Says what this process may do there. A driver that knows no read-only mappings grants more than it was asked for; what
    /// holds a reader to its right then are the checks of [`ImportedMapping`].
    ///
    /// # Errors
    /// [`VmmError::Os`], [`VmmError::Driver`], [`OrderFault::NotMapped`].
    fn set_access(&self, range: &mut Self::Range, access: Access) -> Result<(), VmmError>;

    /// Makes new memory zero, unless the driver makes it so.
    ///
    /// # Errors
    /// [`VmmError::Driver`], [`OrderFault::NotMapped`].
    fn zero(&self, range: &mut Self::Range) -> Result<(), VmmError>;

    /// Gives physical memory a handle, by which processes that are permitted can import it.
    ///
    /// # Errors
    /// [`VmmError::HandleZero`] when the driver's handle is one that must not travel; [`VmmError::ExportedAlready`],
    /// [`VmmError::ExportsFull`], [`VmmError::Driver`].
    fn export(
        &self,
        physical: &Self::Physical,
        request: &AllocationRequest,
        mapping_bytes: u64,
    ) -> Result<NonZeroU64, VmmError>;

    /// Lets processes, by their [`peer_number`](Self::peer_number), import a handle. They must run already: a process that
    /// starts later and has the same number is another one.
    ///
    /// # Errors
    /// [`VmmError::HandleUnknown`], [`VmmError::PeerEnded`], [`VmmError::Os`], [`VmmError::Driver`].
    fn permit(&self, handle: NonZeroU64, peers: &[i32]) -> Result<(), VmmError>;

    /// Ends imports of a handle; mappings stay.
    ///
    /// # Errors
    /// [`VmmError::HandleUnknown`], [`VmmError::Driver`].
    fn revoke(&self, handle: NonZeroU64) -> Result<Revocation, VmmError>;

    /// Gets at physical memory that a descriptor names.
    ///
    /// # Errors
    /// [`VmmError`].
    fn import(&self, shareable: &Shareable) -> Result<Self::Physical, VmmError>;

    /// Takes physical memory out of a range.
    ///
    /// # Errors
    /// [`VmmError::Os`], [`VmmError::Driver`], [`OrderFault::NotMapped`].
    fn unmap(&self, range: &mut Self::Range) -> Result<(), VmmError>;

    /// Gives addresses back.
    ///
    /// # Errors
    /// [`VmmError::Os`], [`VmmError::Driver`], [`OrderFault::ReleasedWhileMapped`]; the range comes back for another try.
    fn release(&self, range: Self::Range) -> Result<(), (Self::Range, VmmError)>;

    /// Gives up physical memory, which lives on while anything is mapped, in any process.
    ///
    /// # Errors
    /// [`VmmError::Driver`]; the memory comes back for another try.
    fn free_physical(&self, physical: Self::Physical) -> Result<(), (Self::Physical, VmmError)>;

    /// A range's first device address.
    fn address(&self, range: &Self::Range) -> u64;

    /// The memory at a range, if this machine's CPU can reach it.
    fn host_memory<'range>(&self, range: &'range Self::Range) -> Option<&'range Mapping>;

    /// Copies bytes out of a mapped range.
    ///
    /// # Errors
    /// [`VmmError::OutOfRange`], [`VmmError::Driver`], [`OrderFault::NotMapped`].
    fn copy_from(&self, range: &Self::Range, offset: u64, out: &mut [u8]) -> Result<(), VmmError>;

    /// Copies bytes into a mapped range.
    ///
    /// # Errors
    /// [`VmmError::OutOfRange`], [`VmmError::Driver`], [`OrderFault::NotMapped`].
    fn copy_to(&self, range: &Self::Range, offset: u64, bytes: &[u8]) -> Result<(), VmmError>;
}

/// How a handle is revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// It was.
    Done,
    /// The driver has no call for it: the handle ends with the owner's physical memory, which may be freed early.
    ByFreeing,
}
