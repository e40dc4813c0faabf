//! How backings are reached, a file for each kind.

pub mod fork_cow;
pub mod fork_shm;
pub mod posix_shm;
pub mod vmm_shareable;

use core::fmt;
use core::num::NonZeroU64;

use bufabi_core::wire::backend::BackendKind;
use bufabi_core::{Code, Descriptor};

use crate::memory::Mapping;
use crate::shm::ShmError;
use crate::vmm::VmmError;

/// How a descriptor came to a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// It was mapped just now.
    MappedNow,
    /// It was mapped already.
    AlreadyMapped,
    /// It is this process's own: the owner's mapping serves.
    Own,
    /// This process inherited it over a fork: nothing was mapped.
    Inherited,
}

/// Reaches the backings of one kind from this process.
pub trait Backend: fmt::Debug + Send + Sync {
    /// The kind.
    fn kind(&self) -> BackendKind;

    /// How an identity that is new is resolved.
    fn resolution(&self) -> Resolution {
        Resolution::MappedNow
    }

    /// Maps a backing of that kind, for stores only if the owner grants them.
    ///
    /// # Errors
    /// [`ResolveError`]; nothing is left behind then.
    fn map(&self, descriptor: &Descriptor) -> Result<Mapping, ResolveError>;
}

/// What every process of a host can reach: POSIX shared memory, and what it inherited.
#[must_use]
pub fn of_host() -> Vec<Box<dyn Backend>> {
    vec![Box::new(posix_shm::PosixShm), Box::new(fork_shm::ForkShm), Box::new(fork_cow::ForkCow)]
}

/// Why a backing cannot be reached from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolveError {
    /// No backing of that kind can be reached from this process.
    NotResolvable {
        /// The kind.
        backend_kind: BackendKind,
    },
    /// It is memory of a process that this one is not descended from, or that was mapped after the fork; or it is no longer live.
    NotInherited {
        /// Its address there.
        base: NonZeroU64,
        /// Its size, bytes.
        nbytes: u64,
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
            Self::NotInherited { .. } => Code::NotInherited,
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
            Self::NotInherited { base, nbytes } => {
                write!(f, "this process has inherited no live {nbytes} bytes at {base:#x} from that owner")
            }
            Self::Shm(error) => error.fmt(f),
            Self::Vmm(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ResolveError {}
