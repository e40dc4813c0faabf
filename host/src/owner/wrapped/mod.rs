//! Buffers that somebody else allocated, named here: by the identity that they have there, or by one of this endpoint's.

mod error;
mod table;
#[cfg(test)]
mod tests;

use core::num::NonZeroU64;
use std::time::Instant;

use bufabi_core::owner_table::OwnerError;
use bufabi_core::wire::body::Body;
use bufabi_core::{Access, DType, Descriptor, Identity, Tensor, View};

pub use error::WrapError;
pub(super) use table::Wraps;

use super::{Buffer, CreateError, Endpoint, Made, OwnError, ReleaseError, tensor};
use crate::memory::{InheritedRegion, Mapping, Sharing};
use crate::vmm::Shareable;

/// A name for a buffer that somebody else allocated. It makes tensors of it; releasing it frees nothing, since the memory is its
/// allocator's.
#[derive(Debug)]
pub struct Wrapped(Name);

/// Where a wrapped buffer's identity comes from.
#[derive(Debug)]
enum Name {
    /// This endpoint gave it out.
    Minted(Buffer),
    /// It is the one that the buffer has where it was allocated.
    Given(Given),
}

#[derive(Debug)]
struct Given {
    endpoint: Endpoint,
    descriptor: Descriptor,
    /// It names nothing any more: the identity may have been wrapped anew since.
    is_released: bool,
}

impl Endpoint {
    /// Names device memory that somebody else allocated and exports. The identity is the one that it has there; none is minted.
    ///
    /// # Errors
    /// [`WrapError`].
    pub fn wrap_vmm_shareable(
        &self,
        shareable: &Shareable,
        owner_worker_path_id: u32,
    ) -> Result<Wrapped, WrapError> {
        self.check_creator()?;
        let identity = shareable.identity;
        if shareable.nbytes == 0 {
            return Err(CreateError::NbytesZero.into());
        }
        if identity.owner_instance_id() == self.owner_instance_id() {
            return Err(WrapError::Own { identity });
        }
        let descriptor = shareable.descriptor(owner_worker_path_id).map_err(CreateError::Descriptor)?;
        if !self.0.wraps.insert(descriptor) {
            return Err(WrapError::Wrapped { identity });
        }
        Ok(Wrapped(Name::Given(Given { endpoint: self.clone(), descriptor, is_released: false })))
    }

    /// Names `nbytes` bytes from `offset` on of memory that processes forked since then have inherited: FORK_SHM if they share
    /// it, FORK_COW, for reading alone, if they have copies.
    ///
    /// # Errors
    /// [`WrapError`].
    pub fn wrap_fork_inherited(
        &self,
        region: &InheritedRegion,
        offset: u64,
        nbytes: u64,
        access: Access,
    ) -> Result<Wrapped, WrapError> {
        if region.owner() != self.owner_instance_id() {
            return Err(WrapError::OtherOwner { found: region.owner(), asked: self.owner_instance_id() });
        }
        let memory = region.shared_memory();
        let outside = WrapError::OutOfRange { offset, nbytes, size: memory.nbytes() };
        let start = usize::try_from(offset).map_err(|_| outside)?;
        let length = usize::try_from(nbytes).map_err(|_| outside)?;
        let mapping = Mapping::part(memory, start, length, Access::ReadWrite, None).map_err(|_| outside)?;
        let base = NonZeroU64::new(mapping.address()).ok_or(outside)?;
        let body = match region.sharing() {
            Sharing::Shared => Body::ForkShm { base },
            Sharing::Copied => Body::ForkCow { base },
        };
        self.wrap(nbytes, access, Made { body, mapping: Some(mapping), resource: None })
    }

    /// Names memory that somebody else allocated on this endpoint's chip, by its device address.
    ///
    /// # Errors
    /// [`WrapError`].
    pub fn wrap_device_malloc(
        &self,
        base: NonZeroU64,
        nbytes: u64,
        access: Access,
    ) -> Result<Wrapped, WrapError> {
        self.wrap_addresses(base, nbytes, access, Body::DeviceMalloc { base })
    }

    /// Names a part of a communication domain's window on this endpoint's chip, by its device address.
    ///
    /// # Errors
    /// [`WrapError`].
    pub fn wrap_vmm_window(
        &self,
        base: NonZeroU64,
        nbytes: u64,
        access: Access,
    ) -> Result<Wrapped, WrapError> {
        self.wrap_addresses(base, nbytes, access, Body::VmmWindow { base })
    }

    /// Names device memory, which ends before 2^64.
    fn wrap_addresses(
        &self,
        base: NonZeroU64,
        nbytes: u64,
        access: Access,
        body: Body,
    ) -> Result<Wrapped, WrapError> {
        base.get().checked_add(nbytes).ok_or(WrapError::Addresses { base, nbytes })?;
        self.wrap(nbytes, access, Made { body, mapping: None, resource: None })
    }

    /// Gives out an identity for what somebody else made.
    fn wrap(&self, nbytes: u64, access: Access, made: Made) -> Result<Wrapped, WrapError> {
        Ok(Wrapped(Name::Minted(self.own(nbytes, access, |_| Ok::<_, CreateError>(made))?)))
    }
}

impl Wrapped {
    fn known(&self) -> &Descriptor {
        match &self.0 {
            Name::Minted(buffer) => buffer.known(),
            Name::Given(given) => &given.descriptor,
        }
    }

    /// Its name.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.known().identity()
    }

    /// Its size, bytes.
    #[must_use]
    pub fn nbytes(&self) -> u64 {
        self.known().nbytes()
    }

    /// The memory, for loads and stores whatever is granted to others; `None` for memory of a device, and once its release has
    /// begun.
    #[must_use]
    pub fn mapping(&self) -> Option<&Mapping> {
        match &self.0 {
            Name::Minted(buffer) => buffer.mapping(),
            Name::Given(_) => None,
        }
    }

    /// What a consumer needs to reach it.
    ///
    /// # Errors
    /// [`OwnError::Owner`] once its release has begun.
    pub fn descriptor(&self) -> Result<Descriptor, OwnError> {
        match &self.0 {
            Name::Minted(buffer) => buffer.descriptor(),
            Name::Given(given) => given.live_descriptor(),
        }
    }

    /// A dense row-major view of it from `byte_offset` on, as a task argument.
    ///
    /// # Errors
    /// [`OwnError::View`] with the first broken rule; [`OwnError::Owner`] once its release has begun.
    pub fn row_major(&self, byte_offset: u64, dtype: DType, shapes: &[u32]) -> Result<Tensor, OwnError> {
        let view = View::row_major(byte_offset, dtype, shapes, self.nbytes()).map_err(OwnError::View)?;
        self.tensor(&view)
    }

    /// A view of it, as a task argument.
    ///
    /// # Errors
    /// As [`row_major`](Self::row_major).
    pub fn tensor(&self, view: &View) -> Result<Tensor, OwnError> {
        tensor(&self.descriptor()?, view)
    }

    /// Names it no longer. The memory stays as it is.
    ///
    /// # Errors
    /// [`ReleaseError`]: while tasks or views hold it nothing changes; after a success it says that it is closing or stale.
    pub fn release(&mut self) -> Result<(), ReleaseError> {
        match &mut self.0 {
            Name::Minted(buffer) => buffer.release(),
            Name::Given(given) => given.release(Wraps::release),
        }
    }

    /// As [`release`](Self::release), but waits until `until` for the tasks that hold it. Nothing new comes from it from now on.
    ///
    /// # Errors
    /// As [`release`](Self::release), and [`ReleaseError::TimedOut`].
    pub fn release_when_idle(&mut self, until: Instant) -> Result<(), ReleaseError> {
        match &mut self.0 {
            Name::Minted(buffer) => buffer.release_when_idle(until),
            Name::Given(given) => given.release(|wraps, identity| wraps.release_when_idle(identity, until)),
        }
    }
}

impl Given {
    fn live_descriptor(&self) -> Result<Descriptor, OwnError> {
        self.check_named()?;
        self.endpoint.0.wraps.check_live(self.descriptor.identity())?;
        Ok(self.descriptor)
    }

    fn release(
        &mut self,
        release: impl FnOnce(&Wraps, Identity) -> Result<(), ReleaseError>,
    ) -> Result<(), ReleaseError> {
        self.endpoint.check_process().map_err(|(creator, here)| ReleaseError::Forked { creator, here })?;
        self.check_named().map_err(ReleaseError::Owner)?;
        release(&self.endpoint.0.wraps, self.descriptor.identity())?;
        self.is_released = true;
        Ok(())
    }

    fn check_named(&self) -> Result<(), OwnerError> {
        let identity = self.descriptor.identity();
        if self.is_released { Err(OwnerError::Closing { identity }) } else { Ok(()) }
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        if !self.is_released && self.endpoint.check_process().is_ok() {
            self.endpoint.0.wraps.abandon(self.descriptor.identity());
        }
    }
}
