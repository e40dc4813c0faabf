//! What a chip is asked about its memory, and what it answers, as the bytes lie in a mailbox.

use bufabi_core::wire::identity::RawIdentity;
use bufabi_core::{Access, Descriptor, Identity, RawDescriptor};
use zerocopy::little_endian::{I32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::device::memory::WindowPart;
use crate::vmm::Admission;

/// Bytes that one copy carries, at most.
pub(super) const MAX_PIECE: usize = 32 << 10;

/// Memory that is wanted: alone, by handle, or as one of a window's buffers.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Wanted {
    nbytes: U64,
    access: u8,
    /// Listed 0, anyone 1; without a handle it says nothing.
    admission: u8,
    padding: [u8; 6],
}

impl Wanted {
    pub(super) const fn new(nbytes: u64, access: Access, admission: Admission) -> Self {
        let admission = match admission {
            Admission::Listed => 0,
            Admission::Anyone => 1,
        };
        Self { nbytes: U64::new(nbytes), access: access.to_wire(), admission, padding: [0; 6] }
    }

    pub(super) fn part(&self) -> Option<WindowPart> {
        Some(WindowPart { nbytes: self.nbytes.get(), access: Access::from_wire(self.access)? })
    }

    pub(super) const fn admission(&self) -> Option<Admission> {
        match self.admission {
            0 => Some(Admission::Listed),
            1 => Some(Admission::Anyone),
            _ => None,
        }
    }
}

/// A piece of a buffer: of a copy to a device, the bytes follow it.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Piece {
    identity: RawIdentity,
    offset: U64,
    /// Bytes of it.
    nbytes: U64,
}

impl Piece {
    pub(super) const fn new(identity: Identity, offset: u64, nbytes: u64) -> Self {
        Self { identity: identity.encode(), offset: U64::new(offset), nbytes: U64::new(nbytes) }
    }

    pub(super) fn identity(&self) -> Option<Identity> {
        self.identity.decode()
    }

    pub(super) const fn offset(&self) -> u64 {
        self.offset.get()
    }

    /// Bytes of it, unless those are more than one copy carries.
    pub(super) fn nbytes(&self) -> Option<usize> {
        usize::try_from(self.nbytes.get()).ok().filter(|&nbytes| nbytes <= MAX_PIECE)
    }
}

/// Who may import a buffer: an identity, and the numbers of processes behind it.
pub(super) fn permission(identity: Identity, peers: &[i32]) -> Vec<u8> {
    let peers = peers.iter().flat_map(|&peer| I32::new(peer).to_bytes());
    identity.encode().as_bytes().iter().copied().chain(peers).collect()
}

/// The same, read.
pub(super) fn read_permission(bytes: &[u8]) -> Option<(Identity, Vec<i32>)> {
    let (identity, peers) = RawIdentity::ref_from_prefix(bytes).ok()?;
    let peers = <[I32]>::ref_from_bytes(peers).ok()?;
    Some((identity.decode()?, peers.iter().map(|peer| peer.get()).collect()))
}

/// The identity that is all of a request.
pub(super) fn read_identity(bytes: &[u8]) -> Option<Identity> {
    RawIdentity::ref_from_bytes(bytes).ok()?.decode()
}

/// The descriptors that are all of an answer, one behind the other.
pub(super) fn write_descriptors(descriptors: &[Descriptor]) -> Vec<u8> {
    descriptors.iter().flat_map(Descriptor::encode).collect()
}

/// The same, read and checked.
pub(super) fn read_descriptors(bytes: &[u8]) -> Option<Vec<Descriptor>> {
    let (descriptors, rest) = bytes.as_chunks::<{ RawDescriptor::SIZE }>();
    let read = || descriptors.iter().map(|bytes| Descriptor::decode(bytes).ok()).collect();
    rest.is_empty().then(read).flatten()
}

#[cfg(test)]
mod tests {
    use core::num::{NonZeroU32, NonZeroU64};

    use bufabi_core::OwnerInstanceId;
    use bufabi_core::wire::body::Body;
    use bufabi_core::wire::descriptor::DescriptorFields;

    use super::*;

    fn identity() -> Identity {
        Identity::new(OwnerInstanceId([3; 8]), 9, NonZeroU32::MIN)
    }

    #[test]
    fn what_is_written_is_read_and_what_is_broken_is_not() {
        for access in [Access::Read, Access::Write, Access::ReadWrite] {
            for admission in [Admission::Listed, Admission::Anyone] {
                let wanted = Wanted::new(7, access, admission);
                assert_eq!(wanted.part(), Some(WindowPart { nbytes: 7, access }));
                assert_eq!(wanted.admission(), Some(admission));
            }
        }
        let mut wanted = Wanted::new(7, Access::Read, Admission::Listed);
        (wanted.access, wanted.admission) = (3, 2);
        assert_eq!((wanted.part(), wanted.admission()), (None, None));

        let most = u64::try_from(MAX_PIECE).unwrap();
        let piece = Piece::new(identity(), 5, most);
        let read = (piece.identity(), piece.offset(), piece.nbytes());
        assert_eq!(read, (Some(identity()), 5, Some(MAX_PIECE)));
        assert_eq!(Piece::new(identity(), 5, most.saturating_add(1)).nbytes(), None);

        let bytes = permission(identity(), &[1, -2]);
        assert_eq!(read_permission(&bytes), Some((identity(), vec![1, -2])));
        assert_eq!(read_permission(&bytes[..39]), None);
        assert_eq!(read_identity(&bytes[..32]), Some(identity()));
        assert_eq!(read_identity(&bytes), None);
        assert_eq!(read_identity(&[0; 32]), None);

        let body = Body::DeviceMalloc { base: NonZeroU64::MIN };
        let fields = DescriptorFields {
            identity: identity(),
            access: Access::Read,
            nbytes: 1,
            owner_worker_path_id: 0,
            body,
        };
        let descriptor = Descriptor::new(&fields).unwrap();
        let mut bytes = write_descriptors(&[descriptor, descriptor]);
        let read: Vec<_> = read_descriptors(&bytes).unwrap().iter().map(Descriptor::fields).collect();
        assert_eq!(read, [fields, fields]);
        assert!(read_descriptors(&bytes[1..]).is_none());
        bytes[88] = 0;
        assert!(read_descriptors(&bytes).is_none());
    }
}
