//! The 32 bytes by which a consumer reaches a backing, typed by backend.

use core::fmt;
use core::num::NonZeroU64;

use zerocopy::little_endian::{I32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

use super::backend::{AddressSpace, BackendKind};
use super::layout::wire_layout;

/// Bytes in a descriptor's body.
pub const BODY_SIZE: usize = 32;

wire_layout! {
    /// The body of VMM_SHAREABLE, unchecked.
    #[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
    #[repr(C)]
    pub struct RawShareableBody as "ShareableBody", "bufabi_shareable_body": 24 bytes, align 1 {
        0, 4, pub device_id: I32, "the exporter's device; only the importer can check it";
        4, 4, pub reserved0: U32, "zero";
        8, 8, pub shareable_handle: U64, "the driver's handle, not zero";
        16, 8, pub mapping_bytes: U64, "bytes to map, at least nbytes";
    }
}

/// A shareable body and the body's tail behind it.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes)]
#[repr(C)]
pub(crate) struct ShareableAndTail {
    pub(crate) shareable: RawShareableBody,
    pub(crate) tail: U64,
}

/// The name of a POSIX shared-memory object, without its leading slash: 1 to 32 bytes, each 0x21 to 0x7E and not `/`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShmName {
    len: u8,
    bytes: [u8; BODY_SIZE],
}

/// A byte that a shared-memory name may have.
#[inline]
pub(crate) const fn is_name_byte(byte: u8) -> bool {
    byte.wrapping_sub(0x21) <= 0x7e - 0x21 && byte != b'/'
}

impl ShmName {
    /// The name, or `None` when its length or one of its bytes is not allowed.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let name = name.as_bytes();
        if name.is_empty() || !name.iter().copied().all(is_name_byte) {
            return None;
        }
        let mut bytes = [0; BODY_SIZE];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        Some(Self { len: u8::try_from(name.len()).ok()?, bytes })
    }

    /// A name that the descriptor's rules have found legal.
    pub(crate) fn from_checked(body_len: u16, bytes: [u8; BODY_SIZE]) -> Self {
        Self { len: body_len.to_le_bytes()[0], bytes }
    }

    /// The name as text: it is ASCII.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.bytes.get(..usize::from(self.len)).and_then(|name| core::str::from_utf8(name).ok()).unwrap_or("")
    }
}

impl fmt::Debug for ShmName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for ShmName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How a consumer reaches a backing: one variant for each backend, holding what its body says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// Inherited over a fork, at this address of every descendant.
    ForkShm {
        /// The address.
        base: NonZeroU64,
    },
    /// Opened by name.
    PosixShm {
        /// The object's name.
        name: ShmName,
    },
    /// Carved from a domain's window.
    VmmWindow {
        /// The owner chip's device address.
        base: NonZeroU64,
    },
    /// Reached through the task's sidecar.
    RemoteSidecar {
        /// Where the remote backing lives.
        address_space: AddressSpace,
    },
    /// Allocated on a device.
    DeviceMalloc {
        /// The owner chip's device pointer.
        base: NonZeroU64,
    },
    /// Copied on write over a fork, at this address of every descendant.
    ForkCow {
        /// The address.
        base: NonZeroU64,
    },
    /// Imported by handle.
    VmmShareable {
        /// The exporter's device.
        device_id: i32,
        /// The driver's handle.
        shareable_handle: NonZeroU64,
        /// Bytes to map, at least the backing's.
        mapping_bytes: u64,
    },
}

impl Body {
    /// The backend that this body belongs to.
    #[must_use]
    pub const fn backend_kind(&self) -> BackendKind {
        match self {
            Self::ForkShm { .. } => BackendKind::ForkShm,
            Self::PosixShm { .. } => BackendKind::PosixShm,
            Self::VmmWindow { .. } => BackendKind::VmmWindow,
            Self::RemoteSidecar { .. } => BackendKind::RemoteSidecar,
            Self::DeviceMalloc { .. } => BackendKind::DeviceMalloc,
            Self::ForkCow { .. } => BackendKind::ForkCow,
            Self::VmmShareable { .. } => BackendKind::VmmShareable,
        }
    }

    /// Where the backing lives.
    #[must_use]
    pub const fn address_space(&self) -> AddressSpace {
        match self {
            Self::RemoteSidecar { address_space } => *address_space,
            Self::ForkShm { .. } | Self::PosixShm { .. } | Self::ForkCow { .. } => AddressSpace::Host,
            Self::VmmWindow { .. } | Self::DeviceMalloc { .. } | Self::VmmShareable { .. } => {
                AddressSpace::Device
            }
        }
    }

    /// `body_len` and `body`, every byte past the length zero.
    #[must_use]
    pub(crate) fn encode(&self) -> (U16, [u8; BODY_SIZE]) {
        match *self {
            Self::ForkShm { base }
            | Self::VmmWindow { base }
            | Self::DeviceMalloc { base }
            | Self::ForkCow { base } => {
                let words = [U64::new(base.get()), U64::ZERO, U64::ZERO, U64::ZERO];
                (U16::new(8), transmute!(words))
            }
            Self::PosixShm { name } => (U16::new(u16::from(name.len)), name.bytes),
            Self::RemoteSidecar { .. } => (U16::ZERO, [0; BODY_SIZE]),
            Self::VmmShareable { device_id, shareable_handle, mapping_bytes } => {
                let shareable = RawShareableBody {
                    device_id: I32::new(device_id),
                    reserved0: U32::ZERO,
                    shareable_handle: U64::new(shareable_handle.get()),
                    mapping_bytes: U64::new(mapping_bytes),
                };
                (U16::new(24), transmute!(ShareableAndTail { shareable, tail: U64::ZERO }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_to_its_alphabet_and_length() {
        for byte in 0..=u8::MAX {
            let expected = (0x21..=0x7e).contains(&byte) && byte != b'/';
            assert_eq!(is_name_byte(byte), expected, "{byte:#04x}");
        }
        assert_eq!(ShmName::new("a.b").unwrap().as_str(), "a.b");
        assert_eq!(ShmName::new(""), None);
        assert_eq!(ShmName::new("a b"), None);
        assert!(ShmName::new(&"x".repeat(32)).is_some());
        assert_eq!(ShmName::new(&"x".repeat(33)), None);
    }
}
