//! The backings that the suite runs over: how each is made, what its consumers may expect, and how it goes.

use std::collections::HashMap;
use std::time::Instant;

use bufabi_core::wire::backend::BackendKind;
use bufabi_core::wire::body::Body;
use bufabi_core::{Access, Code, DType, Descriptor, Identity, Tensor, View};
use bufabi_host::consumer::Resolution;
use bufabi_host::device::memory::WindowPart;
use bufabi_host::device::{DeviceMemory, SimulatedChip, SimulatedChipOptions};
use bufabi_host::heap::ForkHeap;
use bufabi_host::kernels::StandardKernels;
use bufabi_host::memory::{InheritedRegion, Mapping, Sharing};
use bufabi_host::owner::{Buffer, Endpoint, Wrapped};
use bufabi_host::vmm::memfd::{Broker, BrokerThread};
use bufabi_host::vmm::{Admission, MemfdDriver};

use crate::peer::patient;

/// One backing's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    PosixShm,
    ForkShm,
    ForkCow,
    VmmShareable,
    DeviceMalloc,
    VmmWindow,
}

pub(crate) const ALL: [Kind; 6] =
    [Kind::PosixShm, Kind::ForkShm, Kind::ForkCow, Kind::VmmShareable, Kind::DeviceMalloc, Kind::VmmWindow];

/// Bytes that heaps, regions and chips have.
pub(crate) const ROOM: u64 = 1 << 20;

impl Kind {
    pub(crate) const fn backend(self) -> BackendKind {
        match self {
            Self::PosixShm => BackendKind::PosixShm,
            Self::ForkShm => BackendKind::ForkShm,
            Self::ForkCow => BackendKind::ForkCow,
            Self::VmmShareable => BackendKind::VmmShareable,
            Self::DeviceMalloc => BackendKind::DeviceMalloc,
            Self::VmmWindow => BackendKind::VmmWindow,
        }
    }

    /// Its name in the names of cases.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::PosixShm => "posix_shm",
            Self::ForkShm => "fork_shm",
            Self::ForkCow => "fork_cow",
            Self::VmmShareable => "vmm_shareable",
            Self::DeviceMalloc => "device_malloc",
            Self::VmmWindow => "vmm_window",
        }
    }

    /// How another process of the host comes by it; the code when it cannot.
    pub(crate) const fn resolves(self) -> Result<Resolution, Code> {
        match self {
            Self::PosixShm | Self::VmmShareable => Ok(Resolution::MappedNow),
            Self::ForkShm | Self::ForkCow => Ok(Resolution::Inherited),
            Self::DeviceMalloc | Self::VmmWindow => Err(Code::NotResolvable),
        }
    }

    /// What a new import of it says after its release. A region that was copied knows no names of its parts.
    pub(crate) const fn gone(self) -> Option<Code> {
        match self {
            Self::PosixShm => Some(Code::ShmNotFound),
            Self::ForkShm => Some(Code::NotInherited),
            Self::ForkCow => None,
            Self::VmmShareable => Some(Code::VmmHandleUnknown),
            Self::DeviceMalloc | Self::VmmWindow => Some(Code::NotResolvable),
        }
    }

    /// The importer makes the mapping, and its page tables hold it to its right.
    pub(crate) const fn is_mapped_by_importer(self) -> bool {
        matches!(self, Self::PosixShm | Self::VmmShareable)
    }

    /// The rights that an owner can grant.
    pub(crate) fn rights(self) -> &'static [Access] {
        if self == Self::ForkCow {
            &[Access::Read]
        } else {
            &[Access::Read, Access::Write, Access::ReadWrite]
        }
    }

    /// What an importer sees of later stores.
    pub(crate) const fn shares(self) -> bool {
        !matches!(self, Self::ForkCow)
    }

    /// The owner's process maps it.
    pub(crate) const fn is_mapped_by_owner(self) -> bool {
        !matches!(self, Self::DeviceMalloc | Self::VmmWindow)
    }
}

/// What the owner has in its hands.
pub(crate) enum Handle {
    Buffer(Buffer),
    Wrapped(Wrapped),
    /// The chip's memory keeps it itself.
    Device,
}

/// An owner of backings of one kind.
pub(crate) struct Owner {
    pub(crate) kind: Kind,
    pub(crate) endpoint: Endpoint,
    heap: Option<ForkHeap>,
    region: Option<InheritedRegion>,
    /// Bytes of the region that were wrapped.
    wrapped: u64,
    driver: Option<std::sync::Arc<MemfdDriver>>,
    broker: Option<BrokerThread>,
    chip: Option<DeviceMemory<'static>>,
    handles: HashMap<Identity, Handle>,
}

impl Owner {
    /// What has to be there before processes are forked.
    pub(crate) fn new(kind: Kind) -> Self {
        Self::with_room(kind, ROOM)
    }

    /// As [`new`](Self::new), with so many bytes in its heap, region or chip.
    pub(crate) fn with_room(kind: Kind, room: u64) -> Self {
        let mut owner = Self {
            kind,
            endpoint: Endpoint::with_capacity(256).unwrap(),
            heap: None,
            region: None,
            wrapped: 0,
            driver: None,
            broker: None,
            chip: None,
            handles: HashMap::new(),
        };
        let name = owner.endpoint.owner_instance_id();
        match kind {
            Kind::PosixShm => {}
            Kind::ForkShm => owner.heap = Some(ForkHeap::new(&owner.endpoint, room).unwrap()),
            Kind::ForkCow => {
                let region = InheritedRegion::new(name, room.try_into().unwrap(), Sharing::Copied).unwrap();
                region.memory().write(0, &at_the_fork(0, room)).unwrap();
                owner.region = Some(region);
            }
            Kind::VmmShareable => {
                owner.driver = Some(MemfdDriver::new(name, 0, patient()).into());
            }
            Kind::DeviceMalloc | Kind::VmmWindow => {
                let options = SimulatedChipOptions { device_id: 0, nbytes: room, reaches_host_memory: true };
                let chip = Box::leak(Box::new(SimulatedChip::new(&StandardKernels, options).unwrap()));
                owner.chip = Some(DeviceMemory::of_endpoint(chip, 0, owner.endpoint.clone()));
            }
        }
        owner
    }

    /// What may only be there once processes were forked.
    pub(crate) fn begin(&mut self) {
        if let Some(driver) = &self.driver {
            self.broker = Some(Broker::new(driver).unwrap().spawn().unwrap());
        }
    }

    /// Makes one, and says why it cannot.
    pub(crate) fn make(&mut self, nbytes: u64, access: Access) -> Result<Descriptor, Code> {
        let (descriptor, handle) = match self.kind {
            Kind::PosixShm => of_buffer(self.endpoint.create_buffer(nbytes, access).map_err(|e| e.code())?),
            Kind::ForkShm => {
                let heap = self.heap.as_ref().unwrap();
                of_buffer(heap.create_buffer(nbytes, access).map_err(|e| e.code())?)
            }
            Kind::ForkCow => {
                let region = self.region.as_ref().unwrap();
                // Where the last one ended, or at the beginning again.
                let fits =
                    self.wrapped.checked_add(nbytes).is_some_and(|end| end <= region.memory().nbytes());
                let offset = if fits { self.wrapped } else { 0 };
                let wrapped = self.endpoint.wrap_fork_inherited(region, offset, nbytes, access);
                let wrapped = wrapped.map_err(|e| e.code())?;
                self.wrapped = offset + nbytes;
                (wrapped.descriptor().unwrap(), Handle::Wrapped(wrapped))
            }
            Kind::VmmShareable => {
                let driver = self.driver.as_ref().unwrap();
                let made = self.endpoint.create_shareable(driver, nbytes, access, Admission::Anyone);
                of_buffer(made.map_err(|e| e.code())?)
            }
            Kind::DeviceMalloc => {
                let made = self.chip.as_mut().unwrap().malloc(nbytes, access).map_err(|e| e.code())?;
                (made, Handle::Device)
            }
            Kind::VmmWindow => {
                let parts = [WindowPart { nbytes, access }];
                let made = self.chip.as_mut().unwrap().create_window(&parts).map_err(|e| e.code())?;
                (made[0], Handle::Device)
            }
        };
        self.handles.insert(descriptor.identity(), handle);
        Ok(descriptor)
    }

    /// Where in the copied region a part of it begins; 0 for other kinds.
    pub(crate) fn offset_in_region(&self, descriptor: &Descriptor) -> u64 {
        match (&self.region, descriptor.body()) {
            (Some(region), Body::ForkCow { base }) => base.get() - region.memory().address(),
            _ => 0,
        }
    }

    fn mapping(&self, identity: Identity) -> Option<&Mapping> {
        match &self.handles[&identity] {
            Handle::Buffer(buffer) => buffer.mapping(),
            Handle::Wrapped(wrapped) => wrapped.mapping(),
            Handle::Device => None,
        }
    }

    /// Stores, as the owner may whatever it grants; a chip's memory only as far as it grants.
    pub(crate) fn write(&self, identity: Identity, offset: u64, bytes: &[u8]) -> Result<(), Code> {
        match (self.mapping(identity), &self.chip) {
            (Some(mapping), _) => mapping.write(offset.try_into().unwrap(), bytes).map_err(|_| Code::Length),
            (None, Some(chip)) => chip.copy_to(identity, offset, bytes).map_err(|e| e.code()),
            (None, None) => Err(Code::Released),
        }
    }

    pub(crate) fn read(&self, identity: Identity, offset: u64, length: u64) -> Result<Vec<u8>, Code> {
        let mut bytes = vec![0; length.try_into().unwrap()];
        match (self.mapping(identity), &self.chip) {
            (Some(mapping), _) => {
                mapping.read(offset.try_into().unwrap(), &mut bytes).map_err(|_| Code::Length)?;
            }
            (None, Some(chip)) => chip.copy_from(identity, offset, &mut bytes).map_err(|e| e.code())?,
            (None, None) => return Err(Code::Released),
        }
        Ok(bytes)
    }

    pub(crate) fn release(&mut self, identity: Identity) -> Result<(), Code> {
        match self.handles.get_mut(&identity).unwrap() {
            handle @ (Handle::Buffer(_) | Handle::Wrapped(_)) => handle.release(),
            Handle::Device if self.kind == Kind::VmmWindow => {
                self.chip.as_mut().unwrap().free_window(identity).map_err(|e| e.code())
            }
            Handle::Device => self.chip.as_mut().unwrap().free(identity).map_err(|e| e.code()),
        }
    }

    /// `None` for what has no such release.
    pub(crate) fn release_when_idle(
        &mut self,
        identity: Identity,
        until: Instant,
    ) -> Option<Result<(), Code>> {
        match self.handles.get_mut(&identity).unwrap() {
            Handle::Buffer(buffer) => Some(buffer.release_when_idle(until).map_err(|e| e.code())),
            Handle::Wrapped(wrapped) => Some(wrapped.release_when_idle(until).map_err(|e| e.code())),
            Handle::Device => None,
        }
    }

    /// What the handle still gives out.
    pub(crate) fn descriptor(&self, identity: Identity) -> Option<Result<Descriptor, Code>> {
        match &self.handles[&identity] {
            Handle::Buffer(buffer) => Some(buffer.descriptor().map_err(|e| e.code())),
            Handle::Wrapped(wrapped) => Some(wrapped.descriptor().map_err(|e| e.code())),
            Handle::Device => None,
        }
    }

    /// Forgets a handle, as a program does that drops it.
    pub(crate) fn forget(&mut self, identity: Identity) {
        drop(self.take(identity));
    }

    /// Gives a handle out of its hands.
    pub(crate) fn take(&mut self, identity: Identity) -> Handle {
        self.handles.remove(&identity).unwrap()
    }
}

impl Handle {
    /// Releases what is not a chip's, from any thread.
    pub(crate) fn release(&mut self) -> Result<(), Code> {
        match self {
            Self::Buffer(buffer) => buffer.release().map_err(|e| e.code()),
            Self::Wrapped(wrapped) => wrapped.release().map_err(|e| e.code()),
            Self::Device => Err(Code::NotResolvable),
        }
    }
}

fn of_buffer(buffer: Buffer) -> (Descriptor, Handle) {
    (buffer.descriptor().unwrap(), Handle::Buffer(buffer))
}

/// A view of all bytes that a descriptor names.
pub(crate) fn whole(descriptor: &Descriptor) -> Tensor {
    let nbytes = descriptor.nbytes();
    let view = View::row_major(0, DType::Uint8, &[nbytes.try_into().unwrap()], nbytes).unwrap();
    Tensor::new(descriptor, &view).unwrap()
}

/// What a copied region's bytes were when processes were forked.
pub(crate) fn at_the_fork(offset: u64, length: u64) -> Vec<u8> {
    (offset..offset + length).map(|at| u8::try_from(at % 251).unwrap()).collect()
}
