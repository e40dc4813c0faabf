//! What can be wrong with a descriptor, with the numbers, and the bytes of the record that say so.

use core::fmt;
use core::ops::Range;

use super::{MAGIC, RawDescriptor};
use crate::code::Code;
use crate::rights::Access;
use crate::wire::backend::{AddressSpace, BackendKind};

/// The first rule of a descriptor that was broken, with what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorError {
    /// Not exactly 88 bytes.
    Size {
        /// Bytes that came.
        found: usize,
    },
    /// Not a descriptor.
    Magic {
        /// The first two bytes, as a little-endian number.
        found: u16,
    },
    /// No such address space.
    AddressSpace {
        /// The number that came.
        found: u8,
    },
    /// No such right.
    Access {
        /// The number that came.
        found: u8,
    },
    /// No such backend.
    BackendKind {
        /// The number that came.
        found: u8,
    },
    /// A body of more than 32 bytes.
    BodyLen {
        /// The length that came.
        found: u16,
    },
    /// Generation 0.
    Generation,
    /// The backend does not live in that address space.
    Capability {
        /// The backend.
        backend_kind: BackendKind,
        /// The space that came with it.
        found: AddressSpace,
    },
    /// FORK_COW grants more than READ: a child's write would never reach its parent.
    ForkCowAccess {
        /// What it grants.
        found: Access,
    },
    /// An address body has exactly 8 bytes.
    BodyAddressLen {
        /// The backend.
        backend_kind: BackendKind,
        /// The length that came.
        found: u16,
    },
    /// An address body whose base is 0.
    BodyNullBase {
        /// The backend.
        backend_kind: BackendKind,
    },
    /// A name without a character.
    BodyShmNameEmpty,
    /// A byte that a name must not have.
    BodyShmNameChar {
        /// Its place in the name.
        index: u8,
        /// The byte.
        found: u8,
    },
    /// A shareable body has exactly 24 bytes.
    BodyShareableLen {
        /// The length that came.
        found: u16,
    },
    /// A handle of 0.
    BodyShareableHandle,
    /// The reserved field is not 0.
    BodyShareableReserved {
        /// What it holds.
        found: u32,
    },
    /// The mapping is smaller than the backing.
    BodyShareableMapping {
        /// Bytes of the mapping.
        mapping_bytes: u64,
        /// Bytes of the backing.
        nbytes: u64,
    },
    /// A remote descriptor has no body.
    BodyRemoteNotEmpty {
        /// The length that came.
        found: u16,
    },
    /// A byte past the body's end is not 0.
    BodyTail {
        /// Its place in the body.
        index: u8,
        /// The byte.
        found: u8,
    },
}

impl DescriptorError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Size { .. } => Code::Size,
            Self::Magic { .. } => Code::Magic,
            Self::AddressSpace { .. } => Code::AddressSpace,
            Self::Access { .. } => Code::Access,
            Self::BackendKind { .. } => Code::BackendKind,
            Self::BodyLen { .. } => Code::BodyLen,
            Self::Generation => Code::Generation,
            Self::Capability { .. } => Code::Capability,
            Self::ForkCowAccess { .. } => Code::ForkCowAccess,
            Self::BodyAddressLen { .. } => Code::BodyAddressLen,
            Self::BodyNullBase { .. } => Code::BodyNullBase,
            Self::BodyShmNameEmpty => Code::BodyShmNameEmpty,
            Self::BodyShmNameChar { .. } => Code::BodyShmNameChar,
            Self::BodyShareableLen { .. } => Code::BodyShareableLen,
            Self::BodyShareableHandle => Code::BodyShareableHandle,
            Self::BodyShareableReserved { .. } => Code::BodyShareableReserved,
            Self::BodyShareableMapping { .. } => Code::BodyShareableMapping,
            Self::BodyRemoteNotEmpty { .. } => Code::BodyRemoteNotEmpty,
            Self::BodyTail { .. } => Code::BodyTail,
        }
    }

    /// The bytes of the record that break the rule, for pointing at them; a wrong size points past the end or at nothing.
    #[must_use]
    pub const fn span(self) -> Range<usize> {
        match self {
            Self::Size { found } if found > RawDescriptor::SIZE => RawDescriptor::SIZE..found,
            Self::Size { found } => found..found,
            Self::Magic { .. } => 0..2,
            Self::AddressSpace { .. } | Self::Capability { .. } => 2..3,
            Self::Access { .. } | Self::ForkCowAccess { .. } => 3..4,
            Self::BackendKind { .. } => 4..5,
            Self::BodyLen { .. }
            | Self::BodyAddressLen { .. }
            | Self::BodyShmNameEmpty
            | Self::BodyShareableLen { .. }
            | Self::BodyRemoteNotEmpty { .. } => 52..54,
            Self::Generation => 24..28,
            Self::BodyNullBase { .. } => 56..64,
            Self::BodyShmNameChar { index, .. } | Self::BodyTail { index, .. } => body_byte(index),
            Self::BodyShareableReserved { .. } => 60..64,
            Self::BodyShareableHandle => 64..72,
            Self::BodyShareableMapping { .. } => 72..80,
        }
    }
}

/// The bytes of the body's byte number `index`.
#[expect(clippy::as_conversions, reason = "widening, and From is not const")]
const fn body_byte(index: u8) -> Range<usize> {
    let start = (index as usize).saturating_add(56);
    start..start.saturating_add(1)
}

impl fmt::Display for DescriptorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Size { found } => write!(f, "a descriptor has exactly 88 bytes, found {found}"),
            Self::Magic { found } => write!(f, "magic is {MAGIC:#06x}, found {found:#06x}"),
            Self::AddressSpace { found } => {
                write!(f, "address space {found} does not exist: HOST is 0, DEVICE 1")
            }
            Self::Access { found } => {
                write!(f, "access {found} does not exist: READ is 0, WRITE 1, READWRITE 2")
            }
            Self::BackendKind { found } => write!(f, "backend kind {found} does not exist: 0 to 6 do"),
            Self::BodyLen { found } => write!(f, "a body has at most 32 bytes, body_len says {found}"),
            Self::Generation => f.write_str("generation is 0: it starts at 1"),
            Self::Capability { backend_kind, found } => {
                let expected = backend_kind.address_space().map_or("either", AddressSpace::name);
                write!(f, "{backend_kind} lives in address space {expected}, found {found}")
            }
            Self::ForkCowAccess { found } => {
                write!(
                    f,
                    "FORK_COW grants READ only, found {found}: a child's write would not reach its parent"
                )
            }
            Self::BodyAddressLen { backend_kind, found } => {
                write!(f, "the body of {backend_kind} is an address of 8 bytes, body_len says {found}")
            }
            Self::BodyNullBase { backend_kind } => write!(f, "the base address of {backend_kind} is 0"),
            Self::BodyShmNameEmpty => f.write_str("the shared-memory name is empty: it has 1 to 32 bytes"),
            Self::BodyShmNameChar { index, found } => {
                write!(
                    f,
                    "byte {index} of the shared-memory name is {found:#04x}: 0x21 to 0x7e except '/' may be"
                )
            }
            Self::BodyShareableLen { found } => {
                write!(f, "the body of VMM_SHAREABLE has 24 bytes, body_len says {found}")
            }
            Self::BodyShareableHandle => f.write_str("the shareable handle is 0"),
            Self::BodyShareableReserved { found } => {
                write!(f, "the reserved field of the shareable body is 0, found {found:#x}")
            }
            Self::BodyShareableMapping { mapping_bytes, nbytes } => {
                write!(f, "the mapping's {mapping_bytes} bytes are fewer than the backing's {nbytes}")
            }
            Self::BodyRemoteNotEmpty { found } => {
                write!(f, "a REMOTE_SIDECAR descriptor has no body, body_len says {found}")
            }
            Self::BodyTail { index, found } => {
                write!(f, "byte {index} of the body lies past body_len and is {found:#04x}: it must be 0")
            }
        }
    }
}

impl core::error::Error for DescriptorError {}
