//! What an importer and an owner's broker say to each other: one request and one answer a connection, on a local socket whose
//! address follows from the owner's `owner_instance_id`.
//!
//! The socket keeps messages apart, so lengths are exact. An answer that consents comes with the memory's file descriptor beside it,
//! and any other one with none.

use core::num::NonZeroU64;

use bufabi_core::wire::identity::RawIdentity;
use bufabi_core::{Access, OwnerInstanceId};
use zerocopy::little_endian::{I32, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::vmm::{Claim, ReplyFault, Shareable, VmmError};

/// A request's first bytes; the digit counts protocols.
const REQUEST_MAGIC: [u8; 8] = *b"bufabiQ1";
/// An answer's first bytes.
const REPLY_MAGIC: [u8; 8] = *b"bufabiA1";
/// What an address starts with; 16 hex digits follow.
const ADDRESS_PREFIX: [u8; 11] = *b"bufabi-vmm-";

/// Bytes of an address.
pub(super) const ADDRESS_SIZE: usize = ADDRESS_PREFIX.len() + 16;

/// The abstract name under which an owner's broker listens.
pub(super) fn address(owner: OwnerInstanceId) -> [u8; ADDRESS_SIZE] {
    let mut address = [0; ADDRESS_SIZE];
    let digits = owner.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let digits = digits.filter_map(|digit| char::from_digit(u32::from(digit), 16));
    let digits = digits.filter_map(|digit| u8::try_from(digit).ok());
    let bytes = ADDRESS_PREFIX.into_iter().chain(digits);
    address.iter_mut().zip(bytes).for_each(|(slot, byte)| *slot = byte);
    address
}

/// What an importer asks.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawRequest {
    magic: [u8; 8],
    handle: U64,
}

impl RawRequest {
    pub(super) const SIZE: usize = size_of::<Self>();

    /// The request for a handle.
    pub(super) const fn new(handle: NonZeroU64) -> Self {
        Self { magic: REQUEST_MAGIC, handle: U64::new(handle.get()) }
    }

    /// The handle that exactly these bytes ask for, which may be 0; `None` if they are no request.
    pub(super) fn decode(bytes: &[u8]) -> Option<u64> {
        let request = Self::read_from_bytes(bytes).ok()?;
        (request.magic == REQUEST_MAGIC).then_some(request.handle.get())
    }
}

/// What a broker answers.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawReply {
    magic: [u8; 8],
    status: U32,
    access: u8,
    padding: [u8; 3],
    handle: U64,
    identity: RawIdentity,
    device_id: I32,
    reserved: U32,
    mapping_bytes: U64,
}

/// Why a broker gives no consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Nothing is exported under that handle, or no longer.
    HandleUnknown,
    /// The process is not on the whitelist.
    NotPermitted,
    /// The request keeps to no form.
    RequestBroken,
    /// The owner's process has no file descriptor left to answer with.
    NoFileDescriptor,
}

impl Refusal {
    const ALL: [(u32, Self); 4] = [
        (1, Self::HandleUnknown),
        (2, Self::NotPermitted),
        (3, Self::RequestBroken),
        (4, Self::NoFileDescriptor),
    ];

    fn status(self) -> u32 {
        Self::ALL.into_iter().find(|(_, refusal)| *refusal == self).map_or(u32::MAX, |(status, _)| status)
    }
}

impl RawReply {
    pub(super) const SIZE: usize = size_of::<Self>();

    /// The answer that consents, saying what is exported.
    pub(super) const fn consent(export: &Shareable) -> Self {
        Self {
            magic: REPLY_MAGIC,
            status: U32::ZERO,
            access: export.access.to_wire(),
            padding: [0; 3],
            handle: U64::new(export.handle.get()),
            identity: export.identity.encode(),
            device_id: I32::new(export.device_id),
            reserved: U32::ZERO,
            mapping_bytes: U64::new(export.mapping_bytes),
        }
    }

    /// The answer that refuses.
    pub(super) fn refusal(refusal: Refusal) -> Self {
        let mut reply = Self::new_zeroed();
        reply.magic = REPLY_MAGIC;
        reply.status = U32::new(refusal.status());
        reply
    }

    /// Exactly these bytes, if they are an answer: a consent, or a refusal.
    pub(super) fn decode(bytes: &[u8]) -> Result<Result<Self, Refusal>, ReplyFault> {
        let reply = Self::read_from_bytes(bytes).map_err(|_| ReplyFault::Length { found: bytes.len() })?;
        if reply.magic != REPLY_MAGIC {
            return Err(ReplyFault::Magic);
        }
        match reply.status.get() {
            0 => Ok(Ok(reply)),
            found => match Refusal::ALL.into_iter().find(|(status, _)| *status == found) {
                Some((_, refusal)) => Ok(Err(refusal)),
                None => Err(ReplyFault::Status { found }),
            },
        }
    }

    /// A consent equals what the importer's descriptor claims, field by field.
    pub(super) fn check(&self, claimed: &Shareable) -> Result<(), VmmError> {
        let broken = VmmError::ReplyBroken(ReplyFault::Field);
        let identity = self.identity.decode().ok_or(broken)?;
        let access = Access::from_wire(self.access).ok_or(broken)?;
        let number = |device_id: i32| u64::from(device_id.cast_unsigned());
        let owner = |owner: OwnerInstanceId| u64::from_le_bytes(owner.0);
        let (claimed_name, claimed_access) = (claimed.identity, claimed.access);
        let fields = [
            (Claim::Handle, claimed.handle.get(), self.handle.get()),
            (Claim::Owner, owner(claimed_name.owner_instance_id()), owner(identity.owner_instance_id())),
            (Claim::BufferId, claimed_name.buffer_id(), identity.buffer_id()),
            (
                Claim::Generation,
                u64::from(claimed_name.generation().get()),
                u64::from(identity.generation().get()),
            ),
            (Claim::DeviceId, number(claimed.device_id), number(self.device_id.get())),
            (Claim::MappingBytes, claimed.mapping_bytes, self.mapping_bytes.get()),
            (Claim::Access, u64::from(claimed_access.to_wire()), u64::from(access.to_wire())),
        ];
        match fields.into_iter().find(|(_, claimed, found)| claimed != found) {
            None => Ok(()),
            Some((field, claimed, found)) => Err(VmmError::Mismatch { field, claimed, found }),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;

    use bufabi_core::Identity;

    use super::*;

    fn export() -> Shareable {
        Shareable {
            identity: Identity::new(OwnerInstanceId([7; 8]), 9, NonZeroU32::new(3).unwrap()),
            access: Access::Read,
            nbytes: 5000,
            device_id: 2,
            handle: NonZeroU64::new(11).unwrap(),
            mapping_bytes: 1 << 21,
        }
    }

    #[test]
    fn an_address_is_the_owners_bytes_in_hex() {
        let owner = OwnerInstanceId([0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]);
        assert_eq!(&address(owner), b"bufabi-vmm-0123456789abcdef");
        assert_eq!((RawRequest::SIZE, RawReply::SIZE), (16, 72));
    }

    #[test]
    fn a_request_comes_back_and_anything_else_is_none() {
        let request = RawRequest::new(NonZeroU64::MAX);
        assert_eq!(RawRequest::decode(request.as_bytes()), Some(u64::MAX));
        assert_eq!(RawRequest::decode(&request.as_bytes()[..15]), None);
        let mut bytes = [0; 17];
        bytes[..16].copy_from_slice(request.as_bytes());
        assert_eq!(RawRequest::decode(&bytes), None);
        for place in 0..8 {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(request.as_bytes());
            bytes[place] ^= 1;
            assert_eq!(RawRequest::decode(&bytes), None);
        }
    }

    #[test]
    fn every_field_that_differs_is_named_with_both_sides() {
        let claimed = export();
        let reply = RawReply::consent(&claimed);
        assert_eq!(reply.check(&claimed), Ok(()));
        let identity = |owner, id, generation| {
            Identity::new(OwnerInstanceId([owner; 8]), id, NonZeroU32::new(generation).unwrap()).encode()
        };
        let seven = u64::from_le_bytes([7; 8]);
        for (reply, field, claim, found) in [
            (RawReply { handle: U64::new(12), ..reply }, Claim::Handle, 11, 12),
            (RawReply { identity: identity(0, 9, 3), ..reply }, Claim::Owner, seven, 0),
            (RawReply { identity: identity(7, 8, 3), ..reply }, Claim::BufferId, 9, 8),
            (RawReply { identity: identity(7, 9, 4), ..reply }, Claim::Generation, 3, 4),
            (RawReply { device_id: I32::new(3), ..reply }, Claim::DeviceId, 2, 3),
            (RawReply { mapping_bytes: U64::new(1 << 22), ..reply }, Claim::MappingBytes, 1 << 21, 1 << 22),
            (RawReply { access: 2, ..reply }, Claim::Access, 0, 2),
        ] {
            let expected = VmmError::Mismatch { field, claimed: claim, found };
            assert_eq!(reply.check(&claimed), Err(expected), "{}", field.name());
        }
        let broken = Err(VmmError::ReplyBroken(ReplyFault::Field));
        assert_eq!(RawReply { access: 3, ..reply }.check(&claimed), broken);
        let mut stale = reply;
        stale.identity.generation = U32::ZERO;
        assert_eq!(stale.check(&claimed), broken);
    }

    #[test]
    fn refusals_come_back_and_broken_answers_are_told_apart() {
        for (status, refusal) in Refusal::ALL {
            let reply = RawReply::refusal(refusal);
            assert_eq!(reply.status.get(), status);
            assert!(matches!(RawReply::decode(reply.as_bytes()), Ok(Err(found)) if found == refusal));
        }
        let mut reply = RawReply::consent(&export());
        assert!(matches!(RawReply::decode(reply.as_bytes()), Ok(Ok(_))));
        let short = RawReply::decode(&reply.as_bytes()[..71]).map(|_| ());
        assert_eq!(short, Err(ReplyFault::Length { found: 71 }));
        reply.status = U32::new(5);
        assert_eq!(RawReply::decode(reply.as_bytes()).map(|_| ()), Err(ReplyFault::Status { found: 5 }));
        reply.magic[7] = b'2';
        assert_eq!(RawReply::decode(reply.as_bytes()).map(|_| ()), Err(ReplyFault::Magic));
    }
}
