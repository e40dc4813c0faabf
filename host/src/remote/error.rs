//! What is wrong with an argument for another machine, or with the way to its bytes.

use core::fmt;

use bufabi_core::task_args::{self, AddError};
use bufabi_core::wire::backend::{AddressSpace, BackendKind};
use bufabi_core::{Access, Code, DescriptorError, Identity, ViewError};

use crate::owner::OwnError;
use crate::sys::OsError;

/// How a sidecar contradicts its tensor, or itself. Ranges are of bytes of the backing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SidecarError {
    /// Another address space.
    AddressSpace {
        /// The tensor's.
        expected: AddressSpace,
        /// The sidecar's.
        found: AddressSpace,
    },
    /// Another backing.
    Identity {
        /// The tensor's.
        expected: Identity,
        /// The sidecar's.
        found: Identity,
    },
    /// More bytes than the backing has.
    Range {
        /// The first.
        byte_offset: u64,
        /// How many.
        nbytes: u64,
        /// Bytes of the backing.
        backing: u64,
    },
    /// The tensor's view names bytes that are not reached.
    View {
        /// Where the view starts and ends.
        view: [u64; 2],
        /// What is reached.
        reached: [u64; 2],
    },
    /// It passes the last address.
    Address {
        /// The first.
        address: u64,
        /// Bytes from there on.
        nbytes: u64,
    },
    /// Bytes travel along only for what nobody writes.
    InlineAccess {
        /// What the owner grants.
        granted: Access,
    },
    /// More bytes than may travel along.
    InlineSize {
        /// Bytes that came.
        found: usize,
        /// How many may.
        limit: usize,
    },
    /// Other bytes than it says.
    InlineLength {
        /// Bytes that it says.
        expected: u64,
        /// Bytes that came.
        found: usize,
    },
}

/// Why a transport did not move bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportError {
    /// The other machine does not answer.
    Unreachable,
    /// Nothing is registered under that key, or no longer.
    KeyUnknown {
        /// The key.
        remote_key: u64,
    },
    /// Bytes outside of what is registered.
    OutOfRange {
        /// The first one's address.
        address: u64,
        /// How many.
        length: usize,
    },
    /// What is registered may not be written.
    Denied {
        /// What its owner grants.
        granted: Access,
    },
    /// The operating system refused.
    Os(OsError),
}

/// Why an argument for another machine was not added, submitted or fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteError {
    /// It does not fit, or its tag needs more than is granted.
    Add(AddError),
    /// No such descriptor can be.
    Descriptor(DescriptorError),
    /// No such view can be, of the backing or of what was fetched of it.
    View(ViewError),
    /// The tensor contradicts its sidecar.
    Sidecar {
        /// Which argument.
        argument: usize,
        /// How.
        error: SidecarError,
    },
    /// A remote tensor has no sidecar.
    SidecarMissing {
        /// Which argument.
        argument: usize,
    },
    /// A tensor that is not remote has one.
    SidecarUnexpected {
        /// Which argument.
        argument: usize,
        /// How it is reached here.
        backend_kind: BackendKind,
    },
    /// It cannot be reached from another machine.
    Local {
        /// Which argument.
        argument: usize,
        /// How it is reached here.
        backend_kind: BackendKind,
    },
    /// No transport leads to it.
    TransportMissing {
        /// Which argument.
        argument: usize,
        /// Its backing.
        identity: Identity,
    },
    /// A limit, a right, or two arguments that clash over a byte.
    Arguments(task_args::SubmitError),
    /// The owner, which this process is, has it no longer, or otherwise than the argument claims.
    Own {
        /// Which argument.
        argument: usize,
        /// Why.
        error: OwnError,
    },
    /// The transport did not move the bytes.
    Transport(TransportError),
    /// There is no memory for them.
    Os(OsError),
}

impl SidecarError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::InlineAccess { .. } | Self::InlineSize { .. } => Code::SidecarInline,
            Self::AddressSpace { .. }
            | Self::Identity { .. }
            | Self::Range { .. }
            | Self::View { .. }
            | Self::Address { .. }
            | Self::InlineLength { .. } => Code::SidecarDiffers,
        }
    }
}

impl TransportError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Os(error) => error.code(),
            Self::Denied { .. } => Code::Denied,
            Self::Unreachable | Self::KeyUnknown { .. } | Self::OutOfRange { .. } => Code::TransportFailed,
        }
    }
}

impl RemoteError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Add(error) => error.code(),
            Self::Descriptor(error) => error.code(),
            Self::View(error) => error.code(),
            Self::Sidecar { error, .. } => error.code(),
            Self::SidecarMissing { .. } => Code::SidecarMissing,
            Self::SidecarUnexpected { .. } => Code::SidecarUnexpected,
            Self::Local { .. } => Code::NotResolvable,
            Self::TransportMissing { .. } => Code::TransportMissing,
            Self::Arguments(error) => error.code(),
            Self::Own { error, .. } => error.code(),
            Self::Transport(error) => error.code(),
            Self::Os(error) => error.code(),
        }
    }
}

impl fmt::Display for SidecarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::AddressSpace { expected, found } => {
                write!(f, "the tensor is in {}, its sidecar in {}", expected.name(), found.name())
            }
            Self::Identity { expected, found } => {
                write!(f, "the tensor is of {expected}, its sidecar of {found}")
            }
            Self::Range { byte_offset, nbytes, backing } => {
                write!(f, "{nbytes} bytes from {byte_offset} on do not lie in a backing of {backing}")
            }
            Self::View { view: [start, end], reached: [first, last] } => {
                write!(f, "the view takes bytes {start} to {end}, its sidecar reaches {first} to {last}")
            }
            Self::Address { address, nbytes } => {
                write!(f, "{nbytes} bytes from {address:#x} on pass the last address")
            }
            Self::InlineAccess { granted } => {
                write!(f, "bytes travel along for READ alone, and the owner grants {}", granted.name())
            }
            Self::InlineSize { found, limit } => {
                write!(f, "{found} bytes are too many to travel along: at most {limit}")
            }
            Self::InlineLength { expected, found } => {
                write!(f, "{expected} bytes should travel along, and {found} do")
            }
        }
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unreachable => f.write_str("the other machine does not answer"),
            Self::KeyUnknown { remote_key } => write!(f, "nothing is registered under key {remote_key:#x}"),
            Self::OutOfRange { address, length } => {
                write!(f, "{length} bytes from {address:#x} on are not all registered")
            }
            Self::Denied { granted } => {
                write!(f, "what is registered may not be written: its owner grants {}", granted.name())
            }
            Self::Os(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add(error) => error.fmt(f),
            Self::Descriptor(error) => error.fmt(f),
            Self::View(error) => error.fmt(f),
            Self::Sidecar { argument, error } => write!(f, "argument {argument}: {error}"),
            Self::SidecarMissing { argument } => {
                write!(f, "argument {argument}: it is remote, and has no sidecar")
            }
            Self::SidecarUnexpected { argument, backend_kind } => {
                write!(f, "argument {argument}: it has a sidecar, and is {}, not remote", backend_kind.name())
            }
            Self::Local { argument, backend_kind } => {
                write!(f, "argument {argument}: {} is not reached from another machine", backend_kind.name())
            }
            Self::TransportMissing { argument, identity } => {
                write!(f, "argument {argument}: {identity} is remote, and there is no transport")
            }
            Self::Arguments(error) => error.fmt(f),
            Self::Own { argument, error } => write!(f, "argument {argument}: {error}"),
            Self::Transport(error) => error.fmt(f),
            Self::Os(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SidecarError {}
impl std::error::Error for TransportError {}
impl std::error::Error for RemoteError {}
