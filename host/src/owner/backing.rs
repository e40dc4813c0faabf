//! What stands behind an identity, whatever it is made of, and what it takes to let go of it.

use core::fmt;
use std::sync::Arc;

use bufabi_core::Descriptor;
use bufabi_core::wire::body::Body;

use super::error::{FreeError, ReleaseFailure};
use crate::memory::Mapping;
use crate::shm::OwnedName;
use crate::sys::OsError;
use crate::vmm::memfd::MemfdExport;

/// What an owner has to let go of besides its mapping: a name, a handle, memory of a device.
///
/// Dropping it lets go as far as that is possible, but not in a fork of the process that made it.
pub trait Resource: fmt::Debug + Send {
    /// Ends what others might begin with it, before it is unmapped: a handle is imported no more, an address is launched
    /// on no more. It may be called again.
    fn revoke(&mut self) {}

    /// Frees it. What succeeded is never done again, and what failed is left for the next call.
    ///
    /// # Errors
    /// [`FreeError`].
    fn free(&mut self) -> Result<(), FreeError>;
}

/// A backing that was just made, for an identity that was just given out.
#[derive(Debug)]
pub struct Made {
    /// How consumers reach it.
    pub body: Body,
    /// The owner's own mapping; `None` for memory that this process does not map.
    pub mapping: Option<Mapping>,
    /// What else there is to let go of, if anything.
    pub resource: Option<Box<dyn Resource>>,
}

/// What an identity stands for.
#[derive(Debug)]
pub(super) struct Backing {
    /// `None` while it is being made.
    pub(super) descriptor: Option<Descriptor>,
    /// `None` for what is not mapped here, and once it was unmapped.
    pub(super) mapping: Option<Arc<Mapping>>,
    /// `None` where there is nothing else, and once it was freed.
    pub(super) resource: Option<Box<dyn Resource>>,
    /// Nobody is left who could release it: that is up to the last task that holds it.
    pub(super) is_abandoned: bool,
}

impl Backing {
    pub(super) const IN_THE_MAKING: Self =
        Self { descriptor: None, mapping: None, resource: None, is_abandoned: false };
}

/// What is left to be taken down of a backing whose release has begun.
#[derive(Debug)]
pub(super) struct Remains {
    pub(super) mapping: Option<Arc<Mapping>>,
    pub(super) resource: Option<Box<dyn Resource>>,
}

impl Remains {
    pub(super) const fn of(backing: &mut Backing) -> Self {
        Self { mapping: backing.mapping.take(), resource: backing.resource.take() }
    }

    /// Revokes, unmaps and frees what is not yet, trying all; what failed is left for another try. A mapping that somebody else
    /// in this process uses goes with its last user.
    pub(super) fn take_down(&mut self) -> Result<(), ReleaseFailure> {
        if let Some(resource) = &mut self.resource {
            resource.revoke();
        }
        let unmap = self.unmap().err();
        let free = self.resource.as_mut().and_then(|resource| resource.free().err());
        if free.is_none() {
            self.resource = None;
        }
        if unmap.is_none() && free.is_none() { Ok(()) } else { Err(ReleaseFailure { unmap, free }) }
    }

    fn unmap(&mut self) -> Result<(), OsError> {
        let Some(last) = self.mapping.take().and_then(Arc::into_inner) else { return Ok(()) };
        last.unmap().map_err(|(last, error)| {
            self.mapping = Some(Arc::new(last));
            error
        })
    }
}

impl Resource for OwnedName {
    fn free(&mut self) -> Result<(), FreeError> {
        self.unlink().map_err(FreeError::Shm)
    }
}

impl Resource for MemfdExport {
    fn revoke(&mut self) {
        Self::revoke(self);
    }

    fn free(&mut self) -> Result<(), FreeError> {
        // The memory itself goes with its last mapping.
        Self::revoke(self);
        Ok(())
    }
}
