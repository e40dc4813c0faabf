//! FORK_COW: memory of which this process got a copy over a fork, at the owner's address: its bytes are those of that moment.

use bufabi_core::wire::backend::BackendKind;
use bufabi_core::wire::body::Body;
use bufabi_core::{Access, Descriptor};

use super::{Backend, Resolution, ResolveError};
use crate::memory::Mapping;
use crate::memory::inherited::{self, Sharing};

/// Reaches what the table of inherited regions knows as copied. It is for reading, which types and checks hold: a store would
/// never reach the owner.
#[derive(Clone, Copy, Debug)]
pub struct ForkCow;

impl Backend for ForkCow {
    fn kind(&self) -> BackendKind {
        BackendKind::ForkCow
    }

    fn resolution(&self) -> Resolution {
        Resolution::Inherited
    }

    fn map(&self, descriptor: &Descriptor) -> Result<Mapping, ResolveError> {
        let Body::ForkCow { base } = descriptor.body() else {
            return Err(ResolveError::NotResolvable { backend_kind: descriptor.backend_kind() });
        };
        let found = inherited::find(descriptor, base.get(), Sharing::Copied, Access::Read);
        found.ok_or(ResolveError::NotInherited { base, nbytes: descriptor.nbytes() })
    }
}
