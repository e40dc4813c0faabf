//! Whether two descriptors agree in every field that has a meaning: a few words compared at once instead of one field after the other.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned, transmute_ref};

use super::descriptor::RawDescriptor;

/// A descriptor cut into the words that mean something. Padding does not, nor does `owner_worker_path_id`; and `body_len` says
/// nothing that the backend and the body do not say: the rules fix it for each backend, but for names, which end where zeros begin.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Words {
    _magic_low: u8,
    /// `address_space`, `access` and `backend_kind`, behind a byte of the magic, which all have.
    kind: U32,
    _padding0: [u8; 3],
    owner_instance_id: U64,
    buffer_id: U64,
    generation: U32,
    _padding1: [u8; 12],
    nbytes: U64,
    _path_and_body_len: [u8; 8],
    body: [U64; 4],
}

/// Two descriptors whose rules held agree: `Descriptor::differences` finds nothing.
#[inline]
pub(crate) fn agree(a: &RawDescriptor, b: &RawDescriptor) -> bool {
    let (a, b): (&Words, &Words) = (transmute_ref!(a), transmute_ref!(b));
    let small = (a.kind.get() ^ b.kind.get()) | (a.generation.get() ^ b.generation.get());
    let identity =
        (a.owner_instance_id.get() ^ b.owner_instance_id.get()) | (a.buffer_id.get() ^ b.buffer_id.get());
    let body = a.body.iter().zip(&b.body).fold(0, |body, (a, b)| body | (a.get() ^ b.get()));
    u64::from(small) | identity | (a.nbytes.get() ^ b.nbytes.get()) | body == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::Access;
    use crate::wire::backend::AddressSpace;
    use crate::wire::body::{Body, ShmName};
    use crate::wire::descriptor::{Descriptor, DescriptorFields};
    use crate::wire::identity::{Identity, OwnerInstanceId};
    use core::num::{NonZeroU32, NonZeroU64};
    use std::vec::Vec;
    use zerocopy::IntoBytes;
    use zerocopy::little_endian::U16;

    #[test]
    fn each_bit_counts_exactly_where_it_is_a_difference() {
        let mut bytes = [0x5a; RawDescriptor::SIZE];
        bytes[24] = 1;
        let here = RawDescriptor::read_from_bytes(&bytes).unwrap();
        assert!(agree(&here, &here));
        let mut counted = 0;
        for bit in 0..RawDescriptor::SIZE * 8 {
            let mut there = here;
            there.as_mut_bytes()[bit / 8] ^= 1 << (bit % 8);
            let differences = Descriptor::from_checked(&here).differences(&Descriptor::from_checked(&there));
            // Records of another magic, or with a length that is not the body's, are never compared: they are no descriptors.
            let is_legal = bit >= 16 && !(52 * 8..54 * 8).contains(&bit);
            assert!(!is_legal || agree(&here, &there) == differences.is_empty(), "bit {bit}");
            counted += usize::from(!differences.is_empty());
        }
        assert_eq!(counted, 8 * (3 + 20 + 8 + 2 + 32));
    }

    #[test]
    fn a_backend_and_a_body_allow_one_length() {
        let (base, mapping_bytes) = (NonZeroU64::MIN, 64);
        let name = |length: usize| ShmName::new(&"n".repeat(length)).unwrap();
        let mut bodies: Vec<Body> = (1..=32).map(|length| Body::PosixShm { name: name(length) }).collect();
        bodies.extend([
            Body::ForkShm { base },
            Body::VmmWindow { base },
            Body::DeviceMalloc { base },
            Body::ForkCow { base },
            Body::RemoteSidecar { address_space: AddressSpace::Host },
            Body::VmmShareable { device_id: 1, shareable_handle: base, mapping_bytes },
        ]);
        for body in bodies {
            let identity = Identity::new(OwnerInstanceId([7; 8]), 9, NonZeroU32::MIN);
            let access = Access::Read;
            let fields = DescriptorFields { identity, access, nbytes: 64, owner_worker_path_id: 0, body };
            let mut raw = *Descriptor::new(&fields).unwrap().raw();
            let length = raw.body_len.get();
            for other in 0..=if cfg!(miri) { 40 } else { u16::MAX } {
                raw.body_len = U16::new(other);
                assert_eq!(Descriptor::from_raw(&raw).is_ok(), other == length, "{body:?}, length {other}");
            }
        }
    }
}
