//! FORK_SHM: memory that this process inherited over a fork and shares with its owner, at the owner's own address.

use bufabi_core::Descriptor;
use bufabi_core::wire::backend::BackendKind;
use bufabi_core::wire::body::Body;

use super::{Backend, Resolution, ResolveError};
use crate::memory::Mapping;
use crate::memory::inherited::{self, Sharing};

/// Reaches what the table of inherited regions knows as shared. Slabs of one heap share pages, so that a right to read alone is
/// held by types and checks, not by a fault.
#[derive(Clone, Copy, Debug)]
pub struct ForkShm;

impl Backend for ForkShm {
    fn kind(&self) -> BackendKind {
        BackendKind::ForkShm
    }

    fn resolution(&self) -> Resolution {
        Resolution::Inherited
    }

    fn map(&self, descriptor: &Descriptor) -> Result<Mapping, ResolveError> {
        let Body::ForkShm { base } = descriptor.body() else {
            return Err(ResolveError::NotResolvable { backend_kind: descriptor.backend_kind() });
        };
        let found = inherited::find(descriptor, base.get(), Sharing::Shared, descriptor.access());
        found.ok_or(ResolveError::NotInherited { base, nbytes: descriptor.nbytes() })
    }
}
