//! Device memory through the Ascend driver, which is loaded at run time.
//!
//! What is relied on, and tested against a stand-in library of the same interface: the order of the calls, that 0 is success, that
//! every mapping has the size of its physical memory, and that a handle is valid among processes that see the same devices.
//! The driver knows no identities, no read-only mappings and no call that revokes: the first are compared here as far as they
//! can be, the second are held by [`ImportedMapping`](super::ImportedMapping)'s checks, and the third is freeing.

use core::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};

use bufabi_core::{Access, OwnerInstanceId};

use super::placement::check_creator;
use super::shared_allocation::check_range;
use super::{Admission, AllocationRequest, OrderFault, Revocation, Shareable, VmmDriver, VmmError};
use crate::memory::Mapping;
use crate::pieces::pieces;
use crate::sys::ascendcl::{
    AccessDescription, AscendCl, DeviceAddress, MemoryAttribute, PhysicalHandle, PhysicalProperties,
};
use crate::sys::process::current_pid;

/// Bytes copied at once to make memory zero.
const ZEROS: usize = 1 << 20;

/// A device's two numbers. They differ where a process is shown only some of a machine's devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclDevice {
    /// Its number in this process, at least 0: descriptors and all calls but one take it.
    pub logical: i32,
    /// Its number to the driver, which the setting of access takes.
    pub visible: u32,
}

/// One device of the Ascend driver, as one endpoint uses it.
#[derive(Debug)]
pub struct AclDriver {
    library: AscendCl,
    owner_instance_id: OwnerInstanceId,
    device: AclDevice,
    properties: PhysicalProperties,
    /// Devices whose memory this one can reach.
    peers: Mutex<Vec<i32>>,
    creator: u32,
}

/// Physical memory of the driver's.
#[derive(Debug)]
pub struct AclPhysical(PhysicalHandle);

/// Device addresses.
#[derive(Debug)]
pub struct AclRange {
    base: DeviceAddress,
    mapping_bytes: u64,
    is_mapped: bool,
}

impl AclDriver {
    /// Loads the driver, and takes a device of it for one endpoint incarnation.
    ///
    /// # Errors
    /// [`VmmError::LibraryMissing`], [`VmmError::SymbolMissing`], [`VmmError::DeviceUnknown`], [`VmmError::Driver`].
    pub fn new(
        owner_instance_id: OwnerInstanceId,
        device: AclDevice,
        attribute: MemoryAttribute,
    ) -> Result<Self, VmmError> {
        if device.logical < 0 {
            return Err(VmmError::DeviceUnknown { device_id: device.logical });
        }
        let library = AscendCl::load()?;
        let properties = PhysicalProperties::new(device.logical, attribute);
        let (peers, creator) = (Mutex::default(), current_pid());
        Ok(Self { library, owner_instance_id, device, properties, peers, creator })
    }

    /// The library, with this device made the calling thread's: the driver keeps one for each thread, and others may have
    /// set another one since.
    fn library(&self) -> Result<&AscendCl, VmmError> {
        check_creator(self.creator)?;
        self.library.set_device(self.device.logical)?;
        Ok(&self.library)
    }

    /// Lets this device reach another one's memory, once.
    fn reach(&self, library: &AscendCl, peer: i32) -> Result<(), VmmError> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if peer != self.device.logical && !peers.contains(&peer) {
            library.enable_peer_access(peer)?;
            peers.push(peer);
        }
        Ok(())
    }
}

/// A size as C has it.
fn size(nbytes: u64) -> Result<usize, VmmError> {
    usize::try_from(nbytes).map_err(|_| VmmError::NbytesTooLarge { nbytes })
}

impl AclRange {
    /// Where `offset` is, if `length` bytes from there on are mapped.
    fn place(&self, offset: u64, length: usize) -> Result<DeviceAddress, VmmError> {
        check_range(offset, length, self.mapping_bytes)?;
        if self.is_mapped {
            // The range lies within an address space.
            Ok(DeviceAddress(self.base.0.saturating_add(offset)))
        } else {
            Err(VmmError::Order(OrderFault::NotMapped))
        }
    }
}

impl VmmDriver for AclDriver {
    type Physical = AclPhysical;
    type Range = AclRange;

    const MAPPING_NEEDS_IMPORT: bool = true;

    fn owner_instance_id(&self) -> OwnerInstanceId {
        self.owner_instance_id
    }

    fn device_id(&self) -> i32 {
        self.device.logical
    }

    fn peer_number(&self) -> Result<i32, VmmError> {
        Ok(self.library()?.bare_tgid()?)
    }

    fn granularity(&self) -> Result<NonZeroU64, VmmError> {
        NonZeroU64::new(self.library()?.granularity(&self.properties)?).ok_or(VmmError::GranularityZero)
    }

    fn create_physical(&self, mapping_bytes: u64) -> Result<AclPhysical, VmmError> {
        let nbytes = size(mapping_bytes)?;
        Ok(AclPhysical(self.library()?.malloc_physical(nbytes, &self.properties)?))
    }

    fn reserve(&self, mapping_bytes: u64) -> Result<AclRange, VmmError> {
        let base = self.library()?.reserve(size(mapping_bytes)?)?;
        Ok(AclRange { base, mapping_bytes, is_mapped: false })
    }

    fn map(&self, range: &mut AclRange, physical: &AclPhysical) -> Result<(), VmmError> {
        if range.is_mapped {
            return Err(VmmError::Order(OrderFault::MappedAlready));
        }
        self.library()?.map(range.base, size(range.mapping_bytes)?, &physical.0)?;
        range.is_mapped = true;
        Ok(())
    }

    /// The driver knows no read-only mappings.
    fn set_access(&self, range: &mut AclRange, _access: Access) -> Result<(), VmmError> {
        let base = range.place(0, 0)?;
        let description = AccessDescription::read_write(self.device.visible);
        Ok(self.library()?.set_access(base, size(range.mapping_bytes)?, &description)?)
    }

    fn zero(&self, range: &mut AclRange) -> Result<(), VmmError> {
        let zeros = vec![0; ZEROS.min(size(range.mapping_bytes)?)];
        for (offset, length) in pieces(0..range.mapping_bytes, ZEROS) {
            self.copy_to(range, offset, zeros.get(..length).unwrap_or_default())?;
        }
        Ok(())
    }

    fn export(
        &self,
        physical: &AclPhysical,
        request: &AllocationRequest,
        _mapping_bytes: u64,
    ) -> Result<NonZeroU64, VmmError> {
        let has_whitelist = match request.admission {
            Admission::Listed => true,
            Admission::Anyone => false,
        };
        let handle = self.library()?.export(&physical.0, has_whitelist)?;
        NonZeroU64::new(handle).ok_or(VmmError::HandleZero { attempts: 1 })
    }

    fn permit(&self, handle: NonZeroU64, peers: &[i32]) -> Result<(), VmmError> {
        Ok(self.library()?.permit(handle.get(), peers)?)
    }

    fn revoke(&self, _handle: NonZeroU64) -> Result<Revocation, VmmError> {
        check_creator(self.creator)?;
        Ok(Revocation::ByFreeing)
    }

    /// The driver says nothing about what is behind a handle, so `mapping_bytes` of the descriptor is the only size there is.
    fn import(&self, shareable: &Shareable) -> Result<AclPhysical, VmmError> {
        let library = self.library()?;
        self.reach(library, shareable.device_id)?;
        Ok(AclPhysical(library.import(shareable.handle.get(), self.device.logical)?))
    }

    fn unmap(&self, range: &mut AclRange) -> Result<(), VmmError> {
        let base = range.place(0, 0)?;
        self.library()?.unmap(base)?;
        range.is_mapped = false;
        Ok(())
    }

    fn release(&self, range: AclRange) -> Result<(), (AclRange, VmmError)> {
        if range.is_mapped {
            return Err((range, VmmError::Order(OrderFault::ReleasedWhileMapped)));
        }
        match self.library().and_then(|library| Ok(library.release(range.base)?)) {
            Ok(()) => Ok(()),
            Err(error) => Err((range, error)),
        }
    }

    fn free_physical(&self, physical: AclPhysical) -> Result<(), (AclPhysical, VmmError)> {
        match self.library() {
            Ok(library) => library
                .free_physical(physical.0)
                .map_err(|(handle, error)| (AclPhysical(handle), error.into())),
            Err(error) => Err((physical, error)),
        }
    }

    fn address(&self, range: &AclRange) -> u64 {
        range.base.0
    }

    fn host_memory<'range>(&self, _range: &'range AclRange) -> Option<&'range Mapping> {
        None
    }

    fn copy_from(&self, range: &AclRange, offset: u64, out: &mut [u8]) -> Result<(), VmmError> {
        let from = range.place(offset, out.len())?;
        Ok(self.library()?.copy_from_device(from, out)?)
    }

    fn copy_to(&self, range: &AclRange, offset: u64, bytes: &[u8]) -> Result<(), VmmError> {
        let to = range.place(offset, bytes.len())?;
        Ok(self.library()?.copy_to_device(to, bytes)?)
    }
}
