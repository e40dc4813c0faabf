//! How a chip shares memory by handle: through software, or through the driver of its device.

use core::mem::ManuallyDrop;
use core::num::NonZeroU64;
use std::collections::HashMap;
use std::sync::Arc;

use bufabi_core::wire::record::Holds;
use bufabi_core::{Access, Descriptor, Identity, RawDescriptor};

use super::AllocateError;
use crate::consumer::Resolution;
use crate::device::DeviceRange;
use crate::owner::{Buffer, CreateError, Endpoint, Made};
use crate::vmm::imports::Import;
use crate::vmm::memfd::{Broker, BrokerThread};
use crate::vmm::{
    AclDriver, Admission, AllocationRequest, Imports, MemfdDriver, SharedAllocation, VmmDriver, VmmError,
};

/// What exports and imports a chip's memory by handle.
#[derive(Debug)]
pub(super) enum Sharing {
    /// Memory of the machine, which every process maps: the owner's endpoint keeps what it exports.
    Software {
        driver: Arc<MemfdDriver>,
        /// Importers may come while a kernel runs, and do not wait for it: so a thread serves them, from the first export on.
        broker: Option<BrokerThread>,
    },
    /// Memory of the device, which its kernels reach and this process does not.
    Ascend(Box<AscendSharing>),
}

/// What a chip has exported and imported through the Ascend driver.
#[derive(Debug)]
pub(super) struct AscendSharing {
    driver: Arc<AclDriver>,
    owned: HashMap<Identity, SharedAllocation<AclDriver>>,
    imports: Imports<AclDriver>,
    /// Each is kept until it is released, so that it is imported once.
    imported: HashMap<Identity, Import<AclDriver>>,
}

impl AscendSharing {
    pub(super) fn new(driver: AclDriver) -> Self {
        let driver = Arc::new(driver);
        let imports = Imports::new(Arc::clone(&driver));
        Self { driver, owned: HashMap::new(), imports, imported: HashMap::new() }
    }

    /// Where an imported buffer lies on this device, imported now if it is not.
    fn import<H: Holds<RawDescriptor>>(
        &mut self,
        descriptor: &Descriptor<H>,
    ) -> Result<(u64, Resolution), VmmError> {
        // What is imported is compared with the descriptor as it came the first time.
        let import = self.imports.import(descriptor)?;
        let address = import.address()?;
        let resolution = match self.imported.insert(descriptor.identity(), import) {
            Some(_) => Resolution::AlreadyMapped,
            None => Resolution::MappedNow,
        };
        Ok((address, resolution))
    }
}

impl Sharing {
    pub(super) fn peer_number(&self) -> Result<i32, VmmError> {
        match self {
            Self::Software { driver, .. } => driver.peer_number(),
            Self::Ascend(ascend) => ascend.driver.peer_number(),
        }
    }

    /// Makes memory that is exported, and owned by the endpoint.
    pub(super) fn create(
        &mut self,
        endpoint: &Endpoint,
        nbytes: u64,
        access: Access,
        admission: Admission,
    ) -> Result<Buffer, AllocateError> {
        match self {
            Self::Software { driver, broker } => {
                if broker.is_none() {
                    let served = Broker::new(driver).and_then(Broker::spawn);
                    *broker = Some(served.map_err(AllocateError::Broker)?);
                }
                Ok(endpoint.create_shareable(driver, nbytes, access, admission)?)
            }
            Self::Ascend(ascend) => {
                let mut made = None;
                let buffer = endpoint.own(nbytes, access, |identity| {
                    let request = AllocationRequest { identity, nbytes, access, admission };
                    let allocation = SharedAllocation::new(&ascend.driver, &request);
                    let allocation = allocation.map_err(CreateError::Vmm)?;
                    let body = allocation.shareable().body();
                    made = Some(allocation);
                    Ok::<_, CreateError>(Made { body, mapping: None, resource: None })
                })?;
                ascend.owned.extend(made.map(|allocation| (buffer.identity(), allocation)));
                Ok(buffer)
            }
        }
    }

    pub(super) fn permit(&self, handle: NonZeroU64, peers: &[i32]) -> Result<(), VmmError> {
        match self {
            Self::Software { driver, .. } => driver.permit(handle, peers),
            Self::Ascend(ascend) => ascend.driver.permit(handle, peers),
        }
    }

    /// Gives up what is exported, which nobody can name any more. What the driver does not take back is not touched again.
    pub(super) fn free(&mut self, identity: Identity) -> Result<(), VmmError> {
        let Self::Ascend(ascend) = self else { return Ok(()) };
        let Some(mut allocation) = ascend.owned.remove(&identity) else { return Ok(()) };
        let released = allocation.release();
        if released.is_err() {
            let _ = ManuallyDrop::new(allocation);
        }
        released
    }

    /// The device address of what this chip exports; `None` for memory that is mapped instead.
    pub(super) fn address(&self, identity: Identity) -> Result<Option<u64>, VmmError> {
        match self {
            Self::Software { .. } => Ok(None),
            Self::Ascend(ascend) => ascend.owned.get(&identity).map(SharedAllocation::address).transpose(),
        }
    }

    /// Where a buffer lies on the device, be it this chip's own or another one's; `None` where processes map it instead.
    pub(super) fn range<H: Holds<RawDescriptor>>(
        &mut self,
        descriptor: &Descriptor<H>,
    ) -> Result<Option<(DeviceRange, Resolution)>, VmmError> {
        let Self::Ascend(ascend) = self else { return Ok(None) };
        let (address, resolution) = match ascend.owned.get(&descriptor.identity()) {
            Some(own) => (own.address()?, Resolution::Own),
            None => ascend.import(descriptor)?,
        };
        let range = DeviceRange { address, nbytes: descriptor.nbytes(), access: descriptor.access() };
        Ok(Some((range, resolution)))
    }

    /// Lets go of what was imported. That nothing was is no error.
    pub(super) fn release(&mut self, identity: Identity) {
        if let Self::Ascend(ascend) = self {
            ascend.imported.remove(&identity);
        }
    }
}
