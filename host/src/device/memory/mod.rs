//! The memory of one chip, in the hands of the process that owns it: who may name which bytes.
//!
//! What stands behind an identity is known here alone. An address is given out again when its memory was freed; an identity never
//! is, so whoever still has an old one is told so, whatever lies at the address by then.

mod copies;
mod error;
mod sharing;
#[cfg(test)]
mod tests;
mod window;

use core::cell::Cell;
use core::num::NonZeroU64;
use std::collections::HashMap;
use std::sync::Arc;

use bufabi_core::wire::body::Body;
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::wire::record::Holds;
use bufabi_core::{Access, Descriptor, Identity, OwnerInstanceId, RawDescriptor};

pub use error::{AllocateError, CopyError, FreeError, NameError, PermitError};
pub use window::{WINDOW_ALIGNMENT, WindowPart};

use self::sharing::{AscendSharing, Sharing};
use self::window::Window;
use super::{Device, DeviceError, DeviceRange};
use crate::consumer::Resolution;
use crate::owner::{Buffer, CreateError, Endpoint, Made};
use crate::sys::OsError;
use crate::sys::ascendcl::MemoryAttribute;
use crate::sys::process::current_pid;
use crate::vmm::acl::AclDevice;
use crate::vmm::memfd::MemfdOptions;
use crate::vmm::{AclDriver, Admission, MemfdDriver, OrderFault, VmmError};

/// Memory that a device would not take back. It is lost until the device is reset, and nobody can name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaked {
    /// Allocations.
    pub allocations: u64,
    /// Their bytes.
    pub nbytes: u64,
}

/// The memory of one chip. Dropping it frees everything that it gave out.
#[derive(Debug)]
pub struct DeviceMemory<'d> {
    device: &'d dyn Device,
    endpoint: Endpoint,
    live: HashMap<Identity, Live>,
    /// By their first buffers.
    windows: HashMap<Identity, Window>,
    leaked: Leaked,
    sharing: Sharing,
    creator: u32,
}

/// What was given out.
#[derive(Debug)]
struct Live {
    buffer: Buffer,
    place: Place,
    /// Somebody could have seen what lies in it.
    is_named: Cell<bool>,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// At an address of its own.
    Malloc { address: u64 },
    /// In the window that has that first buffer.
    Window { first: Identity },
    /// Exported by handle.
    Shareable { handle: NonZeroU64 },
}

impl<'d> DeviceMemory<'d> {
    /// A new endpoint incarnation that owns a device's memory. `device_id` is the device's number.
    ///
    /// # Errors
    /// [`OsError`] when no random bytes can be had.
    pub fn new(device: &'d dyn Device, device_id: i32) -> Result<Self, OsError> {
        Ok(Self::of_endpoint(device, device_id, Endpoint::new()?))
    }

    /// The memory of a device, owned by an endpoint that owns nothing else.
    #[must_use]
    pub fn of_endpoint(device: &'d dyn Device, device_id: i32, endpoint: Endpoint) -> Self {
        let owner = endpoint.owner_instance_id();
        let driver = Arc::new(MemfdDriver::new(owner, device_id, MemfdOptions::default()));
        Self {
            device,
            endpoint,
            live: HashMap::new(),
            windows: HashMap::new(),
            leaked: Leaked::default(),
            sharing: Sharing::Software { driver, broker: None },
            creator: current_pid(),
        }
    }

    /// A new endpoint incarnation that owns the memory of a device of the Ascend driver, and shares it by handle through that driver:
    /// of physical memory of that attribute.
    ///
    /// # Errors
    /// [`VmmError::Os`] when no random bytes can be had, and as [`AclDriver::new`].
    pub fn on_ascend(
        device: &'d dyn Device,
        number: AclDevice,
        attribute: MemoryAttribute,
    ) -> Result<Self, VmmError> {
        let endpoint = Endpoint::new()?;
        let driver = AclDriver::new(endpoint.owner_instance_id(), number, attribute)?;
        let mut memory = Self::of_endpoint(device, number.logical, endpoint);
        memory.sharing = Sharing::Ascend(Box::new(AscendSharing::new(driver)));
        Ok(memory)
    }

    /// Its name, the first part of every identity that it gives out.
    #[must_use]
    pub fn owner_instance_id(&self) -> OwnerInstanceId {
        self.endpoint.owner_instance_id()
    }

    /// The endpoint that owns it.
    #[must_use]
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The device.
    #[must_use]
    pub const fn device(&self) -> &'d dyn Device {
        self.device
    }

    /// The software that exports and imports memory by handle; `None` where the device's driver does.
    #[must_use]
    pub const fn software(&self) -> Option<&Arc<MemfdDriver>> {
        match &self.sharing {
            Sharing::Software { driver, .. } => Some(driver),
            Sharing::Ascend(_) => None,
        }
    }

    /// The number by which owners permit this chip to import.
    ///
    /// # Errors
    /// [`VmmError::Driver`], [`VmmError::Forked`].
    pub fn peer_number(&self) -> Result<i32, VmmError> {
        self.sharing.peer_number()
    }

    /// What is given out of it is taken from this machine's memory.
    pub(crate) fn is_machine_memory(&self) -> bool {
        self.device.has_machine_memory()
    }

    /// Buffers that are alive.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// What was lost so far.
    #[must_use]
    pub const fn leaked(&self) -> Leaked {
        self.leaked
    }

    /// Allocates `nbytes` bytes, which grant `access`: DEVICE_MALLOC. Their content is whatever lies there.
    ///
    /// # Errors
    /// [`AllocateError`]; nothing is left behind then.
    pub fn malloc(&mut self, nbytes: u64, access: Access) -> Result<Descriptor, AllocateError> {
        self.check_process()?;
        let address = self.device.malloc(nbytes)?;
        let buffer = NonZeroU64::new(address)
            .ok_or(AllocateError::AddressZero)
            .and_then(|base| self.own(Body::DeviceMalloc { base }, nbytes, access));
        match buffer {
            Ok(buffer) => self.record(buffer, Place::Malloc { address }),
            Err(error) => {
                // The first error is the one reported; a second one is counted.
                let _ = self.give_back(address, nbytes);
                Err(error)
            }
        }
    }

    /// Allocates `nbytes` bytes, zero, which grant `access` to every process that imports them by handle: VMM_SHAREABLE. Their
    /// memory is the machine's, as that of a device in software is.
    ///
    /// # Errors
    /// [`AllocateError`]; nothing is left behind then.
    pub fn create_shareable(
        &mut self,
        nbytes: u64,
        access: Access,
        admission: Admission,
    ) -> Result<Descriptor, AllocateError> {
        self.check_process()?;
        let buffer = self.sharing.create(&self.endpoint, nbytes, access, admission)?;
        match buffer.descriptor().map(|descriptor| descriptor.body()) {
            Ok(Body::VmmShareable { shareable_handle: handle, .. }) => {
                let descriptor = self.record(buffer, Place::Shareable { handle })?;
                if admission == Admission::Anyone {
                    self.note_named(descriptor.identity());
                }
                Ok(descriptor)
            }
            Ok(_) => Err(AllocateError::Create(CreateError::Vmm(VmmError::FileMissing))),
            Err(error) => Err(AllocateError::Create(CreateError::Own(error))),
        }
    }

    /// Lets processes import what is exported by handle, by the numbers that their drivers say they have. They must run already.
    ///
    /// # Errors
    /// [`PermitError`].
    pub fn permit(&self, identity: Identity, peers: &[i32]) -> Result<(), PermitError> {
        self.endpoint.lookup(identity).map_err(PermitError::Own)?;
        match self.live.get(&identity).map(|live| live.place) {
            Some(Place::Shareable { handle }) => {
                self.note_named(identity);
                self.sharing.permit(handle, peers).map_err(PermitError::Vmm)
            }
            Some(Place::Malloc { .. } | Place::Window { .. }) | None => {
                Err(PermitError::Vmm(VmmError::Order(OrderFault::NoWhitelist)))
            }
        }
    }

    /// Frees what [`malloc`](Self::malloc) or [`create_shareable`](Self::create_shareable) gave. Nobody can name it from the moment on in
    /// which this begins; only then is its memory given back.
    ///
    /// # Errors
    /// [`FreeError`]. What was freed already, is another owner's, or never existed changes nothing; memory that the device does not
    /// take back is counted as leaked, and freed as far as anyone can tell.
    pub fn free(&mut self, identity: Identity) -> Result<(), FreeError> {
        self.endpoint.lookup(identity).map_err(FreeError::Own)?;
        let Some(live) = self.live.get_mut(&identity) else {
            return Err(FreeError::Wrapped { identity });
        };
        if let Place::Window { .. } = live.place {
            return Err(FreeError::InDomain { identity });
        }
        live.buffer.release().map_err(FreeError::Release)?;
        let (nbytes, place) = (live.buffer.nbytes(), live.place);
        self.live.remove(&identity);
        match place {
            Place::Malloc { address } => {
                self.give_back(address, nbytes).map_err(|error| FreeError::Leaked { identity, nbytes, error })
            }
            Place::Shareable { .. } => self.sharing.free(identity).map_err(|error| {
                let error = DeviceError::Vmm(error);
                self.count_leaked(nbytes);
                FreeError::Leaked { identity, nbytes, error }
            }),
            Place::Window { .. } => Ok(()),
        }
    }

    /// The bytes that a task's descriptor names, if they are live memory of this very device, and as the descriptor says.
    ///
    /// # Errors
    /// [`NameError`].
    pub fn range<H: Holds<RawDescriptor>>(
        &self,
        descriptor: &Descriptor<H>,
    ) -> Result<DeviceRange, NameError> {
        let (identity, here) = (descriptor.identity(), self.owner_instance_id());
        if identity.owner_instance_id() != here {
            return Err(NameError::OtherChip { identity, here });
        }
        self.endpoint.check(descriptor).map_err(NameError::Own)?;
        let DescriptorFields { access, nbytes, body, .. } = descriptor.fields();
        match address(&body) {
            Some(address) => {
                self.note_named(identity);
                Ok(DeviceRange { address, nbytes, access })
            }
            None => Err(NameError::NotDeviceMemory { backend_kind: body.backend_kind() }),
        }
    }

    /// Where a task's VMM_SHAREABLE buffer lies on the device, this chip's own or imported; `None` where processes map it instead.
    ///
    /// # Errors
    /// [`NameError::Own`], [`NameError::Vmm`].
    pub(super) fn shared_range<H: Holds<RawDescriptor>>(
        &mut self,
        descriptor: &Descriptor<H>,
    ) -> Result<Option<(DeviceRange, Resolution)>, NameError> {
        let identity = descriptor.identity();
        if identity.owner_instance_id() == self.owner_instance_id() {
            self.endpoint.check(descriptor).map_err(NameError::Own)?;
            self.note_named(identity);
        }
        self.sharing.range(descriptor).map_err(NameError::Vmm)
    }

    /// Lets go of what was imported through the device's driver. That nothing was is no error.
    pub(super) fn release_import(&mut self, identity: Identity) {
        self.sharing.release(identity);
    }

    /// From now on, what lies in it is no longer part of its creation.
    fn note_named(&self, identity: Identity) {
        if let Some(live) = self.live.get(&identity) {
            live.is_named.set(true);
        }
    }

    /// This is the process that owns the memory, and not a fork of it.
    fn check_process(&self) -> Result<(), DeviceError> {
        let (creator, here) = (self.creator, current_pid());
        if here == creator { Ok(()) } else { Err(DeviceError::Forked { creator, here }) }
    }

    /// Gives memory that was taken an identity.
    fn own(&self, body: Body, nbytes: u64, access: Access) -> Result<Buffer, AllocateError> {
        self.endpoint.own(nbytes, access, |_| Ok(Made { body, mapping: None, resource: None }))
    }

    fn record(&mut self, buffer: Buffer, place: Place) -> Result<Descriptor, AllocateError> {
        let descriptor =
            buffer.descriptor().map_err(|error| AllocateError::Create(CreateError::Own(error)))?;
        self.live.insert(buffer.identity(), Live { buffer, place, is_named: Cell::new(false) });
        Ok(descriptor)
    }

    /// Gives memory back that nobody can name, or counts it as leaked.
    pub(super) fn give_back(&mut self, address: u64, nbytes: u64) -> Result<(), DeviceError> {
        self.check_process()?;
        let freed = self.device.free(address);
        if freed.is_err() {
            self.count_leaked(nbytes);
        }
        freed
    }

    const fn count_leaked(&mut self, nbytes: u64) {
        self.leaked.allocations = self.leaked.allocations.saturating_add(1);
        self.leaked.nbytes = self.leaked.nbytes.saturating_add(nbytes);
    }
}

/// The device address that a body holds.
const fn address(body: &Body) -> Option<u64> {
    match body {
        Body::DeviceMalloc { base } | Body::VmmWindow { base } => Some(base.get()),
        Body::ForkShm { .. }
        | Body::PosixShm { .. }
        | Body::RemoteSidecar { .. }
        | Body::ForkCow { .. }
        | Body::VmmShareable { .. } => None,
    }
}

impl Drop for DeviceMemory<'_> {
    fn drop(&mut self) {
        // Nobody is left who could be told. Windows first: what is in one is not freed by itself.
        for first in self.windows.keys().copied().collect::<Vec<_>>() {
            let _ = self.free_window(first);
        }
        for identity in self.live.keys().copied().collect::<Vec<_>>() {
            let _ = self.free(identity);
        }
    }
}
