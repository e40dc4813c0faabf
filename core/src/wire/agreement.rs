//! Whether two descriptors agree in every field that has a meaning: seven comparisons of words instead of one for each field.

use zerocopy::little_endian::U64;
use zerocopy::transmute_ref;

use super::descriptor::RawDescriptor;

/// The bits of each word that mean something: padding and `owner_worker_path_id` do not.
const MEANING: [u64; 11] = [
    0x0000_00ff_ffff_ffff, // magic, address_space, access, backend_kind
    u64::MAX,              // identity: owner_instance_id
    u64::MAX,              // identity: buffer_id
    0x0000_0000_ffff_ffff, // identity: generation
    0,
    u64::MAX,              // nbytes
    0x0000_ffff_0000_0000, // body_len
    u64::MAX,              // body
    u64::MAX,
    u64::MAX,
    u64::MAX,
];

/// They agree: `Descriptor::differences` finds nothing.
#[inline]
pub(crate) fn agree(a: &RawDescriptor, b: &RawDescriptor) -> bool {
    let a: &[U64; 11] = transmute_ref!(a);
    let b: &[U64; 11] = transmute_ref!(b);
    let mut difference = 0;
    for ((a, b), meaning) in a.iter().zip(b).zip(MEANING) {
        difference |= (a.get() ^ b.get()) & meaning;
    }
    difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::descriptor::Descriptor;
    use zerocopy::{FromBytes, IntoBytes};

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
            // Two records of different magic are never compared: neither would be a descriptor.
            assert_eq!(agree(&here, &there), differences.is_empty() && bit >= 16, "bit {bit}");
            counted += usize::from(!differences.is_empty());
        }
        assert_eq!(counted, 8 * (3 + 20 + 8 + 2 + 32));
    }
}
