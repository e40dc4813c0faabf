//! How backings are reached, a file for each kind.

pub mod posix_shm;
pub mod vmm_shareable;

use core::fmt;

use bufabi_core::wire::backend::BackendKind;
use bufabi_core::{Code, Descriptor};

use crate::memory::Mapping;
use crate::shm::ShmError;
use crate::vmm::VmmError;

/// Reaches the backings of one kind from this process.
pub trait Backend: fmt::Debug + Send + Sync {
    /// The kind.
    fn kind(&self) -> BackendKind;

    /// Maps a backing of that kind, for stores only if the owner grants them.
    ///
    /// # Errors
    /// [`ResolveError`]; nothing is left behind then.
    fn map(&self, descriptor: &Descriptor) -> Result<Mapping, ResolveError>;
}

/// Why a backing cannot be reached from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolveError {
    /// No backing of that kind can be reached from this process.
    NotResolvable {
        /// The kind.
        backend_kind: BackendKind,
    },
    /// A shared-memory object could not be mapped.
    Shm(ShmError),
    /// Device memory could not be imported.
    Vmm(VmmError),
}

impl ResolveError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::NotResolvable { .. } => Code::NotResolvable,
            Self::Shm(error) => error.code(),
            Self::Vmm(error) => error.code(),
        }
    }
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotResolvable { backend_kind } => {
                write!(f, "a {backend_kind} backing cannot be reached from this process")
            }
            Self::Shm(error) => error.fmt(f),
            Self::Vmm(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ResolveError {}
