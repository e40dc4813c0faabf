//! Why a shared-memory object could not be made, opened or removed: what a caller can act on differently is kept apart.

use core::fmt;

use bufabi_core::Code;
use bufabi_core::wire::body::ShmName;

use crate::sys::OsError;

/// Why an operation on a shared-memory object failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShmError {
    /// A buffer of no bytes.
    NbytesZero,
    /// More bytes than an address space can hold.
    NbytesTooLarge {
        /// The bytes asked for.
        nbytes: u64,
    },
    /// The file system of shared memory has no such space left.
    NoSpace {
        /// The bytes asked for.
        nbytes: u64,
        /// Bytes that it, or where it has no limit the machine, had left before; `None` when those were enough.
        available: Option<u64>,
    },
    /// The machine lets no file have so many bytes: a limit of this process, or its file system's.
    FileTooLarge {
        /// The bytes asked for.
        nbytes: u64,
        /// What was refused.
        error: OsError,
    },
    /// No file descriptor is left.
    NoFileDescriptor(OsError),
    /// No address space, or no further mapping, is left.
    NoAddressSpace {
        /// The bytes to be mapped.
        nbytes: u64,
    },
    /// An object has that name already.
    NameTaken {
        /// The name.
        name: ShmName,
    },
    /// No object has that name.
    NotFound {
        /// The name.
        name: ShmName,
    },
    /// The name is legal on the wire and not for the operating system, as `.` and `..`.
    NameInvalid {
        /// The name.
        name: ShmName,
    },
    /// What has that name is no shared-memory object but a link, a pipe or the like.
    NotAnObject {
        /// The name.
        name: ShmName,
    },
    /// The object has fewer bytes than it should.
    TooSmall {
        /// The name.
        name: ShmName,
        /// Bytes that it should have.
        nbytes: u64,
        /// Bytes that it has.
        found: u64,
    },
    /// It belongs to somebody else.
    NotPermitted {
        /// The name.
        name: ShmName,
        /// What was not permitted.
        error: OsError,
    },
    /// Another failure of the operating system.
    Os(OsError),
}

impl ShmError {
    /// The error of a call on the object `name` of `nbytes` bytes.
    pub(super) fn of_call(name: ShmName, nbytes: u64, error: OsError) -> Self {
        match error.errno {
            libc::ENOSPC | libc::EDQUOT => Self::NoSpace { nbytes, available: None },
            libc::ENOMEM if error.call == "mmap" => Self::NoAddressSpace { nbytes },
            libc::ENOMEM => Self::NoSpace { nbytes, available: None },
            libc::EFBIG => Self::FileTooLarge { nbytes, error },
            libc::EMFILE | libc::ENFILE => Self::NoFileDescriptor(error),
            libc::EEXIST => Self::NameTaken { name },
            libc::ENOENT => Self::NotFound { name },
            libc::EINVAL if error.call != "mmap" => Self::NameInvalid { name },
            libc::ELOOP | libc::ENXIO | libc::EISDIR | libc::ENODEV => Self::NotAnObject { name },
            libc::EPERM | libc::EACCES => Self::NotPermitted { name, error },
            _ => Self::Os(error),
        }
    }

    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::NbytesZero => Code::NbytesZero,
            Self::NbytesTooLarge { .. } => Code::NbytesTooLarge,
            Self::NoSpace { .. } => Code::NoSpace,
            Self::NoFileDescriptor(_) => Code::NoFileDescriptor,
            Self::NoAddressSpace { .. } => Code::NoAddressSpace,
            Self::NameTaken { .. } => Code::ShmNameTaken,
            Self::NotFound { .. } => Code::ShmNotFound,
            Self::NameInvalid { .. } => Code::ShmNameInvalid,
            Self::NotAnObject { .. } => Code::ShmNotAnObject,
            Self::TooSmall { .. } => Code::ShmTooSmall,
            Self::NotPermitted { .. } => Code::NotPermitted,
            Self::FileTooLarge { error, .. } | Self::Os(error) => error.code(),
        }
    }
}

impl fmt::Display for ShmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NbytesZero => f.write_str("a buffer has at least 1 byte"),
            Self::NbytesTooLarge { nbytes } => {
                write!(f, "{nbytes} bytes are more than an address space holds")
            }
            Self::FileTooLarge { nbytes, error } => {
                write!(
                    f,
                    "{nbytes} bytes are more than a file may have, by RLIMIT_FSIZE or its file system: {error}"
                )
            }
            Self::NoSpace { nbytes, available: Some(available) } => write!(
                f,
                "{nbytes} bytes were asked for, and the file system of shared memory has {available} left"
            ),
            Self::NoSpace { nbytes, available: None } => {
                write!(f, "the file system of shared memory has no {nbytes} bytes or no further object left")
            }
            Self::NoFileDescriptor(error) => error.fmt(f),
            Self::NoAddressSpace { nbytes } => {
                write!(f, "no address space or no further mapping is left for {nbytes} bytes")
            }
            Self::NameTaken { name } => write!(f, "shared-memory object {name} is there already"),
            Self::NotFound { name } => write!(f, "there is no shared-memory object {name}"),
            Self::NameInvalid { name } => {
                write!(f, "the operating system takes no shared-memory object by the name {name}")
            }
            Self::NotAnObject { name } => {
                write!(f, "{name} is a link, a pipe or the like, and no shared memory")
            }
            Self::TooSmall { name, nbytes, found } => {
                write!(f, "shared-memory object {name} has {found} bytes, its descriptor claims {nbytes}")
            }
            Self::NotPermitted { name, error } => write!(f, "shared-memory object {name}: {error}"),
            Self::Os(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ShmError {}
