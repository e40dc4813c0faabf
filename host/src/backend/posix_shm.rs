//! POSIX_SHM: a shared-memory object, opened by name.

use bufabi_core::Descriptor;
use bufabi_core::wire::backend::BackendKind;
use bufabi_core::wire::body::Body;

use super::{Backend, ResolveError};
use crate::memory::Mapping;
use crate::shm;

/// Reaches POSIX shared-memory objects.
#[derive(Clone, Copy, Debug)]
pub struct PosixShm;

impl Backend for PosixShm {
    fn kind(&self) -> BackendKind {
        BackendKind::PosixShm
    }

    fn map(&self, descriptor: &Descriptor) -> Result<Mapping, ResolveError> {
        let Body::PosixShm { name } = descriptor.body() else {
            return Err(ResolveError::NotResolvable { backend_kind: descriptor.backend_kind() });
        };
        shm::open(name, descriptor.nbytes(), descriptor.access()).map_err(ResolveError::Shm)
    }
}
