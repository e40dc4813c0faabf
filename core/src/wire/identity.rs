//! The name of one allocation of one owner incarnation: 32 bytes on the wire, the same on every hop.

use core::fmt;
use core::num::NonZeroU32;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::layout::wire_layout;

wire_layout! {
    /// An identity's bytes, unchecked.
    #[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
    #[repr(C)]
    pub struct RawIdentity as "CanonicalIdentity", "bufabi_identity": 32 bytes, align 1 {
        0, 8, pub owner_instance_id: [u8; 8], "opaque nonce of one endpoint incarnation, compared byte by byte";
        8, 8, pub buffer_id: U64, "unique within the incarnation";
        16, 4, pub generation: U32, "1 at first, one more whenever the id's slot is used again; never 0";
        20, 12, pub padding: [u8; 12], "written as zero, ignored on reading";
    }
}

/// Which endpoint incarnation owns a backing: 8 random bytes, opaque, compared byte by byte.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerInstanceId(pub [u8; 8]);

impl fmt::Display for OwnerInstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for OwnerInstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The name of one allocation, for ever. Holding one proves that the generation is not 0, and nothing else.
///
/// Padding takes no part in it, so equality, order and hash are those of the 20 meaningful bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    owner_instance_id: OwnerInstanceId,
    buffer_id: u64,
    generation: NonZeroU32,
}

impl Identity {
    /// The identity of those parts.
    #[must_use]
    #[inline]
    pub const fn new(owner_instance_id: OwnerInstanceId, buffer_id: u64, generation: NonZeroU32) -> Self {
        Self { owner_instance_id, buffer_id, generation }
    }

    /// The endpoint incarnation that owns the backing.
    #[must_use]
    #[inline]
    pub const fn owner_instance_id(self) -> OwnerInstanceId {
        self.owner_instance_id
    }

    /// The owner's number for it.
    #[must_use]
    #[inline]
    pub const fn buffer_id(self) -> u64 {
        self.buffer_id
    }

    /// How often the number has been given out, this time included; at least 1.
    #[must_use]
    #[inline]
    pub const fn generation(self) -> NonZeroU32 {
        self.generation
    }

    /// The wire bytes, padding zero.
    #[must_use]
    #[inline]
    pub const fn encode(self) -> RawIdentity {
        RawIdentity {
            owner_instance_id: self.owner_instance_id.0,
            buffer_id: U64::new(self.buffer_id),
            generation: U32::new(self.generation.get()),
            padding: [0; 12],
        }
    }
}

impl RawIdentity {
    /// The identity that these bytes name, or `None` when the generation is 0.
    #[must_use]
    #[inline]
    pub const fn decode(&self) -> Option<Identity> {
        match NonZeroU32::new(self.generation.get()) {
            Some(generation) => Some(Identity {
                owner_instance_id: OwnerInstanceId(self.owner_instance_id),
                buffer_id: self.buffer_id.get(),
                generation,
            }),
            None => None,
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}.{}", self.owner_instance_id, self.buffer_id, self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_takes_no_part() {
        let mut raw = Identity::new(OwnerInstanceId([7; 8]), 9, NonZeroU32::MIN).encode();
        let clean = raw.decode();
        raw.padding = [0xff; 12];
        assert_eq!(raw.decode(), clean);
        assert_eq!(clean.unwrap().encode().padding, [0; 12]);
    }

    #[test]
    fn generation_zero_is_no_identity() {
        let mut raw = Identity::new(OwnerInstanceId([7; 8]), 9, NonZeroU32::MIN).encode();
        raw.generation = U32::new(0);
        assert_eq!(raw.decode(), None);
    }
}
