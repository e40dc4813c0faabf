//! Who a leaf is: what it tells its parent before it is asked for anything else, and its parent tells the next one above.

use zerocopy::little_endian::I32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What a leaf says of itself.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Hello {
    /// Its process number.
    pub(super) pid: I32,
}

impl Hello {
    /// What was said, if it is as long as it must be.
    pub(super) fn read(said: &[u8]) -> Option<Self> {
        Self::read_from_bytes(said).ok()
    }
}
