//! What an owner answers when it cannot make, hand out or let go of a buffer.

use core::fmt;

use bufabi_core::owner_table::{LookupError, OwnerError};
use bufabi_core::wire::backend::BackendKind;
use bufabi_core::wire::descriptor::FieldSet;
use bufabi_core::{Code, DescriptorError, Identity, ViewError};

use crate::shm::ShmError;
use crate::space::SpaceError;
use crate::sys::OsError;
use crate::vmm::VmmError;

/// Why a buffer could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateError {
    /// A buffer of no bytes.
    NbytesZero,
    /// More bytes than an address space can hold.
    NbytesTooLarge {
        /// The bytes asked for.
        nbytes: u64,
    },
    /// The heap has no such piece free.
    Space(SpaceError),
    /// No tensor has that shape, or not there.
    View(ViewError),
    /// The operating system refused.
    Os(OsError),
    /// The shared-memory object could not be made.
    Shm(ShmError),
    /// Shared device memory could not be made.
    Vmm(VmmError),
    /// The endpoint has as many identities alive as it can.
    Full {
        /// How many.
        capacity: u32,
    },
    /// The descriptor would break a rule.
    Descriptor(DescriptorError),
    /// The identity that was just given out is not known.
    Own(OwnError),
    /// This is a fork of the process that made the endpoint.
    Forked {
        /// The process that made it.
        creator: u32,
        /// This process.
        here: u32,
    },
}

/// Why an owner does not hand out what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnError {
    /// It is not alive, or not this owner's.
    Owner(OwnerError),
    /// The descriptor claims something else than the owner knows.
    Conflict {
        /// Whose descriptor.
        identity: Identity,
        /// Where it differs.
        fields: FieldSet,
    },
    /// It is no memory that this process maps.
    NotMapped {
        /// What it is.
        backend_kind: BackendKind,
    },
    /// The view is not one of this buffer.
    View(ViewError),
}

/// Why a buffer was not released. It can be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseError {
    /// It is not alive, or tasks hold it; nothing has changed.
    Owner(OwnerError),
    /// Views of it are alive in this process; nothing has changed.
    ViewsAlive {
        /// Which buffer.
        identity: Identity,
        /// How many.
        views: usize,
    },
    /// Tasks held it for all the time that was given; nothing new comes from it.
    TimedOut {
        /// Which buffer.
        identity: Identity,
        /// How often they hold it.
        holds: u32,
    },
    /// The operating system or a device refused a part; what worked will not be done again.
    Failed {
        /// Which buffer.
        identity: Identity,
        /// What it refused.
        failure: ReleaseFailure,
    },
    /// This is a fork of the process that made the endpoint.
    Forked {
        /// The process that made it.
        creator: u32,
        /// This process.
        here: u32,
    },
}

/// What was refused of a release; at least one of the two is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseFailure {
    /// Why it did not unmap.
    pub unmap: Option<OsError>,
    /// Why what else there is of it was not freed.
    pub free: Option<FreeError>,
}

/// Why what stands behind an identity was not freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeError {
    /// The shared-memory object was not unlinked.
    Shm(ShmError),
    /// The driver did not free its memory.
    Vmm(VmmError),
}

impl CreateError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::NbytesZero => Code::NbytesZero,
            Self::NbytesTooLarge { .. } => Code::NbytesTooLarge,
            Self::Space(error) => error.code(),
            Self::View(error) => error.code(),
            Self::Os(error) => error.code(),
            Self::Shm(error) => error.code(),
            Self::Vmm(error) => error.code(),
            Self::Full { .. } => Code::OwnerTableFull,
            Self::Descriptor(error) => error.code(),
            Self::Own(error) => error.code(),
            Self::Forked { .. } => Code::Forked,
        }
    }
}

impl OwnError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Owner(error) => error.code(),
            Self::Conflict { .. } => Code::ImportConflict,
            Self::NotMapped { .. } => Code::NotResolvable,
            Self::View(error) => error.code(),
        }
    }
}

impl ReleaseError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Owner(error) => error.code(),
            Self::ViewsAlive { .. } => Code::ViewsAlive,
            Self::TimedOut { .. } => Code::TimedOut,
            Self::Failed { failure, .. } => failure.code(),
            Self::Forked { .. } => Code::Forked,
        }
    }
}

impl ReleaseFailure {
    /// The frozen number, name and fault: that of the first part.
    #[must_use]
    pub fn code(self) -> Code {
        match (self.unmap, self.free) {
            (Some(error), _) => error.code(),
            (None, Some(error)) => error.code(),
            (None, None) => Code::Ok,
        }
    }
}

impl FreeError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Shm(error) => error.code(),
            Self::Vmm(error) => error.code(),
        }
    }
}

impl From<OwnerError> for OwnError {
    fn from(error: OwnerError) -> Self {
        Self::Owner(error)
    }
}

impl From<LookupError> for OwnError {
    fn from(error: LookupError) -> Self {
        Self::Owner(error.into())
    }
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NbytesZero => f.write_str("a buffer has at least 1 byte"),
            Self::NbytesTooLarge { nbytes } => {
                write!(f, "{nbytes} bytes are more than an address space holds")
            }
            Self::Space(error) => error.fmt(f),
            Self::View(error) => error.fmt(f),
            Self::Os(error) => error.fmt(f),
            Self::Shm(error) => error.fmt(f),
            Self::Vmm(error) => error.fmt(f),
            Self::Full { capacity } => {
                write!(f, "the endpoint has {capacity} buffers alive, which is all that it can")
            }
            Self::Descriptor(error) => error.fmt(f),
            Self::Own(error) => error.fmt(f),
            Self::Forked { creator, here } => forked(creator, here, f),
        }
    }
}

impl fmt::Display for OwnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner(error) => error.fmt(f),
            Self::Conflict { identity, fields } => conflict(*identity, *fields, f),
            Self::NotMapped { backend_kind } => {
                write!(f, "a {backend_kind} backing is no memory that its owner maps")
            }
            Self::View(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Owner(error) => error.fmt(f),
            Self::ViewsAlive { identity, views } => write!(f, "{views} views of {identity} are alive"),
            Self::TimedOut { identity, holds } => {
                write!(f, "unfinished tasks held {identity} {holds} times for all the time that was given")
            }
            Self::Failed { identity, failure } => write!(f, "{identity} is not wholly released: {failure}"),
            Self::Forked { creator, here } => forked(creator, here, f),
        }
    }
}

impl fmt::Display for ReleaseFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.unmap, self.free) {
            (Some(unmap), Some(free)) => write!(f, "{unmap}; {free}"),
            (Some(unmap), None) => unmap.fmt(f),
            (None, Some(free)) => free.fmt(f),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shm(error) => error.fmt(f),
            Self::Vmm(error) => error.fmt(f),
        }
    }
}

fn forked(creator: u32, here: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "process {creator} made the endpoint, and process {here}, a fork of it, does not own its buffers"
    )
}

/// That a descriptor contradicts what is known of its identity.
pub(crate) fn conflict(identity: Identity, fields: FieldSet, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{identity} is known with another")?;
    let mut separator = " ";
    for name in fields.names() {
        write!(f, "{separator}{name}")?;
        separator = ", ";
    }
    Ok(())
}

impl std::error::Error for CreateError {}
impl std::error::Error for OwnError {}
impl std::error::Error for ReleaseError {}
impl std::error::Error for ReleaseFailure {}
impl std::error::Error for FreeError {}
