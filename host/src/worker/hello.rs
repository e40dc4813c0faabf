//! Who a leaf is: what it tells its parent before it is asked for anything else, and its parent tells the next one above.

use bufabi_core::OwnerInstanceId;
use zerocopy::little_endian::I32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What a leaf says of itself.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Hello {
    /// Its process number.
    pub(super) pid: I32,
    /// The number by which owners of device memory permit it to import.
    pub(super) peer: I32,
    /// 0 for a leaf that owns no memory, 1 for a chip, 2 for one whose memory is the machine's.
    pub(super) memory: I32,
    /// The endpoint that owns a chip's memory.
    pub(super) owner_instance_id: [u8; 8],
}

impl Hello {
    /// What was said, if it is as long as it must be.
    pub(super) fn read(said: &[u8]) -> Option<Self> {
        Self::read_from_bytes(said).ok()
    }

    /// The endpoint that owns a chip's memory; `None` for a leaf that is no chip.
    pub(super) fn chip(&self) -> Option<OwnerInstanceId> {
        (self.memory.get() != 0).then_some(OwnerInstanceId(self.owner_instance_id))
    }

    /// What a chip gives out of its memory, it takes from the machine.
    pub(super) fn has_machine_memory(&self) -> bool {
        self.memory.get() == 2
    }
}
