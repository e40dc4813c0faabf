//! Device memory in software: what a driver of devices does, with sealed memory of the operating system and a broker in the owner.
//!
//! | step | here |
//! |---|---|
//! | create physical | memory without a name, reserved whole, sealed against shrinking |
//! | export | a slot and a random number: a handle of the owner's [`Broker`] |
//! | permit | a descriptor of the process, so that a number that is given out again means nobody |
//! | import | the broker's answer equals the descriptor, its file is large enough and sealed |
//! | revoke | the broker knows the handle no longer; mappings stay |
//!
//! The memory lives until the owner has revoked and freed it and every mapping is gone, in every process. A broker's address is
//! an abstract name, which does not cross network namespaces: owner and importers share one.

mod broker;
mod exports;
#[cfg(test)]
mod hostile;
mod importer;
mod protocol;
#[cfg(test)]
mod sharing;

pub use broker::{Broker, BrokerError, BrokerThread, Served};

use core::num::NonZeroU64;
use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bufabi_core::wire::record::Holds;
use bufabi_core::{Access, Descriptor, OwnerInstanceId, RawDescriptor};

use self::exports::Exports;
use super::placement::check_creator;
use super::shared_allocation::check_range;
use super::{
    AllocationRequest, ImportedMapping, OrderFault, Revocation, Shareable, SharedAllocation, VmmDriver,
    VmmError,
};
use crate::memory::{AddressRange, Mapping};
use crate::sys::memfd::{self, Pages, Seals};
use crate::sys::process::current_pid;
use crate::sys::{OsError, socket};

/// What sizes are a multiple of, as a device's driver has it.
pub const GRANULARITY: NonZeroU64 = NonZeroU64::new(2 << 20).expect("it is not 0");

/// Bytes of a broker's answer.
pub(super) const REPLY_SIZE: usize = protocol::RawReply::SIZE;

/// How an endpoint uses software memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemfdOptions {
    /// How long an import may wait for the owner, in all.
    pub patience: Duration,
    /// The user whose process an owner must be.
    pub owner_user: u32,
    /// Which pages memory is made of. Huge ones are used while there are any, and ordinary ones else.
    pub pages: Pages,
}

impl Default for MemfdOptions {
    /// Half a second, this user, ordinary pages.
    fn default() -> Self {
        Self {
            patience: Duration::from_millis(500),
            owner_user: socket::current_user(),
            pages: Pages::Ordinary,
        }
    }
}

/// Software memory of one endpoint.
#[derive(Debug)]
pub struct MemfdDriver {
    owner_instance_id: OwnerInstanceId,
    device_id: i32,
    options: MemfdOptions,
    exports: Arc<Mutex<Exports>>,
    creator: u32,
}

/// Memory of the operating system.
#[derive(Debug)]
pub struct MemfdPhysical {
    file: Arc<OwnedFd>,
    mapping_bytes: u64,
    is_exported: AtomicBool,
}

impl AsFd for MemfdPhysical {
    /// For a process that maps it by the descriptor, such as an emulator.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A handle that is exported. Dropping it ends imports, but not in a fork of the process; mappings stay.
#[derive(Debug)]
pub struct MemfdExport {
    driver: Arc<MemfdDriver>,
    shareable: Shareable,
}

impl MemfdExport {
    /// What the descriptor says.
    #[must_use]
    pub const fn shareable(&self) -> &Shareable {
        &self.shareable
    }

    /// Ends imports; mappings stay.
    pub fn revoke(&self) {
        // It fails when that was done already, and in a fork, whose copy of the table nobody serves.
        let _ = self.driver.revoke(self.shareable.handle);
    }
}

impl Drop for MemfdExport {
    fn drop(&mut self) {
        self.revoke();
    }
}

impl MemfdDriver {
    /// The driver of one endpoint incarnation, made in its process. What it exports can be imported while a [`Broker`] serves.
    #[must_use]
    pub fn new(owner_instance_id: OwnerInstanceId, device_id: i32, options: MemfdOptions) -> Self {
        Self { owner_instance_id, device_id, options, exports: Arc::default(), creator: current_pid() }
    }

    /// Imports and maps what a descriptor names, as memory of its first `nbytes` bytes.
    ///
    /// # Errors
    /// As [`ImportedMapping::import`].
    pub fn map_import<H: Holds<RawDescriptor>>(
        self: &Arc<Self>,
        descriptor: &Descriptor<H>,
    ) -> Result<Mapping, VmmError> {
        let import = ImportedMapping::import(self, descriptor)?;
        into_mapping(import.into_range()?, descriptor.nbytes())
    }

    /// Creates and exports memory, as memory of its first `nbytes` bytes and what keeps its handle.
    ///
    /// # Errors
    /// As [`SharedAllocation::new`].
    pub fn create_export(
        self: &Arc<Self>,
        request: &AllocationRequest,
    ) -> Result<(Mapping, MemfdExport), VmmError> {
        let allocation = SharedAllocation::new(self, request)?;
        let export = MemfdExport { driver: Arc::clone(self), shareable: *allocation.shareable() };
        Ok((into_mapping(allocation.into_range()?, request.nbytes)?, export))
    }

    fn exports(&self) -> Result<MutexGuard<'_, Exports>, VmmError> {
        check_creator(self.creator)?;
        Ok(self.exports.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Memory of that many bytes, of huge pages if they are wanted and there.
    fn create(&self, mapping_bytes: u64) -> Result<OwnedFd, OsError> {
        if self.options.pages == Pages::Huge
            && let Ok(file) = create(mapping_bytes, Pages::Huge)
            && can_be_mapped(&file, mapping_bytes)
        {
            return Ok(file);
        }
        create(mapping_bytes, Pages::Ordinary)
    }
}

/// The mapping of a range's first `nbytes` bytes.
fn into_mapping(range: AddressRange, nbytes: u64) -> Result<Mapping, VmmError> {
    let nbytes = usize::try_from(nbytes).map_err(|_| VmmError::NbytesTooLarge { nbytes })?;
    range.into_mapping(nbytes).map_err(|_| VmmError::Order(OrderFault::NotMapped))
}

/// Sealed memory of that many bytes, reserved.
fn create(mapping_bytes: u64, pages: Pages) -> Result<OwnedFd, OsError> {
    let file = memfd::create(c"bufabi-vmm", pages)?;
    memfd::reserve(file.as_fd(), mapping_bytes)?;
    memfd::seal(file.as_fd(), Seals::SIZE)?;
    Ok(file)
}

/// That there are no huge pages left comes out when they are mapped, not when they are created.
fn can_be_mapped(file: &OwnedFd, mapping_bytes: u64) -> bool {
    usize::try_from(mapping_bytes).is_ok_and(|nbytes| {
        let range = AddressRange::reserve(nbytes, alignment());
        range.is_ok_and(|mut range| range.map(file.as_fd()).is_ok())
    })
}

/// This machine has a huge page to give now.
#[must_use]
pub fn has_huge_pages() -> bool {
    let nbytes = GRANULARITY.get();
    create(nbytes, Pages::Huge).is_ok_and(|file| can_be_mapped(&file, nbytes))
}

/// Addresses are multiples of the granularity, as huge pages need it.
fn alignment() -> usize {
    usize::try_from(GRANULARITY.get()).unwrap_or(1)
}

/// Sizes are multiples of the granularity.
pub(super) fn check_granular(mapping_bytes: u64) -> Result<(), VmmError> {
    let granularity = GRANULARITY;
    if mapping_bytes.is_multiple_of(granularity.get()) && mapping_bytes > 0 {
        Ok(())
    } else {
        Err(VmmError::NotGranular { mapping_bytes, granularity })
    }
}

impl VmmDriver for MemfdDriver {
    type Physical = MemfdPhysical;
    type Range = AddressRange;

    /// The mapping keeps the memory, and the file descriptor is closed.
    const MAPPING_NEEDS_IMPORT: bool = false;

    fn owner_instance_id(&self) -> OwnerInstanceId {
        self.owner_instance_id
    }

    fn device_id(&self) -> i32 {
        self.device_id
    }

    fn peer_number(&self) -> Result<i32, VmmError> {
        check_creator(self.creator)?;
        Ok(current_pid().cast_signed())
    }

    fn granularity(&self) -> Result<NonZeroU64, VmmError> {
        Ok(GRANULARITY)
    }

    fn create_physical(&self, mapping_bytes: u64) -> Result<MemfdPhysical, VmmError> {
        check_creator(self.creator)?;
        check_granular(mapping_bytes)?;
        // Nothing limits this memory but the machine's own, and a machine that runs out of that ends processes.
        if let Some(available) = memfd::available()
            && mapping_bytes > available
        {
            return Err(VmmError::NoMemory { requested: mapping_bytes, available });
        }
        let file = Arc::new(self.create(mapping_bytes)?);
        Ok(MemfdPhysical { file, mapping_bytes, is_exported: AtomicBool::new(false) })
    }

    fn reserve(&self, mapping_bytes: u64) -> Result<AddressRange, VmmError> {
        check_creator(self.creator)?;
        check_granular(mapping_bytes)?;
        let nbytes =
            usize::try_from(mapping_bytes).map_err(|_| VmmError::NbytesTooLarge { nbytes: mapping_bytes })?;
        Ok(AddressRange::reserve(nbytes, alignment())?)
    }

    fn map(&self, range: &mut AddressRange, physical: &MemfdPhysical) -> Result<(), VmmError> {
        check_creator(self.creator)?;
        if !range.is_empty() {
            return Err(VmmError::Order(OrderFault::MappedAlready));
        }
        if range.nbytes() != physical.mapping_bytes {
            let (length, nbytes) = (range.nbytes(), physical.mapping_bytes);
            return Err(VmmError::OutOfRange { offset: 0, length, nbytes });
        }
        Ok(range.map(physical.file.as_fd())?)
    }

    fn set_access(&self, range: &mut AddressRange, access: Access) -> Result<(), VmmError> {
        check_creator(self.creator)?;
        if range.is_empty() {
            return Err(VmmError::Order(OrderFault::NotMapped));
        }
        Ok(range.set_access(access)?)
    }

    /// New memory of the operating system is zero.
    fn zero(&self, range: &mut AddressRange) -> Result<(), VmmError> {
        match range.memory() {
            Some(_) => Ok(()),
            None => Err(VmmError::Order(OrderFault::NotMapped)),
        }
    }

    fn export(
        &self,
        physical: &MemfdPhysical,
        request: &AllocationRequest,
        mapping_bytes: u64,
    ) -> Result<NonZeroU64, VmmError> {
        let mut exports = self.exports()?;
        if physical.is_exported.load(Ordering::Relaxed) {
            return Err(VmmError::ExportedAlready);
        }
        let handle = exports.insert(Arc::clone(&physical.file), request, self.device_id, mapping_bytes)?;
        physical.is_exported.store(true, Ordering::Relaxed);
        Ok(handle)
    }

    fn permit(&self, handle: NonZeroU64, peers: &[i32]) -> Result<(), VmmError> {
        self.exports()?.permit(handle, peers)
    }

    fn revoke(&self, handle: NonZeroU64) -> Result<Revocation, VmmError> {
        self.exports()?.remove(handle)?;
        Ok(Revocation::Done)
    }

    fn import(&self, shareable: &Shareable) -> Result<MemfdPhysical, VmmError> {
        check_creator(self.creator)?;
        let file = Arc::new(importer::import(shareable, &self.options)?);
        let mapping_bytes = shareable.mapping_bytes;
        Ok(MemfdPhysical { file, mapping_bytes, is_exported: AtomicBool::new(false) })
    }

    fn unmap(&self, range: &mut AddressRange) -> Result<(), VmmError> {
        check_creator(self.creator)?;
        if range.is_empty() {
            return Err(VmmError::Order(OrderFault::NotMapped));
        }
        Ok(range.unmap()?)
    }

    fn release(&self, range: AddressRange) -> Result<(), (AddressRange, VmmError)> {
        if let Err(error) = check_creator(self.creator) {
            return Err((range, error));
        }
        if !range.is_empty() {
            return Err((range, VmmError::Order(OrderFault::ReleasedWhileMapped)));
        }
        range.release().map_err(|(range, error)| (range, VmmError::Os(error)))
    }

    /// Closing a file descriptor cannot fail in a way that could be tried again.
    fn free_physical(&self, _physical: MemfdPhysical) -> Result<(), (MemfdPhysical, VmmError)> {
        Ok(())
    }

    fn address(&self, range: &AddressRange) -> u64 {
        range.address()
    }

    fn host_memory<'range>(&self, range: &'range AddressRange) -> Option<&'range Mapping> {
        range.memory()
    }

    fn copy_from(&self, range: &AddressRange, offset: u64, out: &mut [u8]) -> Result<(), VmmError> {
        let (memory, start) = place(range, offset, out.len())?;
        memory.read(start, out).map_err(|_| out_of_range(range, offset, out.len()))
    }

    fn copy_to(&self, range: &AddressRange, offset: u64, bytes: &[u8]) -> Result<(), VmmError> {
        let (memory, start) = place(range, offset, bytes.len())?;
        memory.write(start, bytes).map_err(|_| out_of_range(range, offset, bytes.len()))
    }
}

/// The memory of a range, and where in it `offset` is.
fn place(range: &AddressRange, offset: u64, length: usize) -> Result<(&Mapping, usize), VmmError> {
    check_range(offset, length, range.nbytes())?;
    let memory = range.memory().ok_or(VmmError::Order(OrderFault::NotMapped))?;
    let start = usize::try_from(offset).map_err(|_| out_of_range(range, offset, length))?;
    Ok((memory, start))
}

fn out_of_range(range: &AddressRange, offset: u64, length: usize) -> VmmError {
    let length = u64::try_from(length).unwrap_or(u64::MAX);
    VmmError::OutOfRange { offset, length, nbytes: range.nbytes() }
}
