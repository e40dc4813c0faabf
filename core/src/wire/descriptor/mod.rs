//! The 88 bytes that say who owns a backing, what it grants and how to reach it.

mod error;
mod field_set;
mod rules;

use core::fmt;
use core::num::{NonZeroU32, NonZeroU64};

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

use super::backend::{AddressSpace, BackendKind};
use super::body::{BODY_SIZE, Body, ShareableAndTail, ShmName};
use super::identity::{Identity, OwnerInstanceId, RawIdentity};
use super::layout::wire_layout;
use super::record::Holds;
use crate::rights::Access;

pub use error::DescriptorError;
pub use field_set::FieldSet;
pub(crate) use rules::{check, rules};

/// The first two bytes of a descriptor, as a little-endian number. It only tells a descriptor from other bytes.
pub const MAGIC: u16 = 0x5342;

wire_layout! {
    /// A descriptor's bytes, unchecked.
    #[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
    #[repr(C)]
    pub struct RawDescriptor as "BufferDescriptor", "bufabi_descriptor": 88 bytes, align 1 {
        0, 2, pub magic: U16, "0x5342";
        2, 1, pub address_space: u8, "HOST 0, DEVICE 1";
        3, 1, pub access: u8, "what the owner grants: READ 0, WRITE 1, READWRITE 2";
        4, 1, pub backend_kind: u8, "how the backing is reached";
        5, 3, pub padding0: [u8; 3], "written as zero, ignored on reading";
        8, 32, pub identity: RawIdentity, "the allocation's name";
        40, 8, pub nbytes: U64, "bytes of the backing";
        48, 4, pub owner_worker_path_id: U32, "for people reading logs; 0 is none";
        52, 2, pub body_len: U16, "bytes of the body in use, at most 32";
        54, 2, pub padding1: [u8; 2], "written as zero, ignored on reading";
        56, 32, pub body: [u8; BODY_SIZE], "by backend; every byte past body_len is zero";
    }
}

/// A descriptor whose rules all held: owned, or by reference (`Descriptor<&RawDescriptor>`).
///
/// It is a claim that keeps to the form: the bytes may still have been forged, and nothing was asked of the machine.
#[derive(Clone, Copy)]
pub struct Descriptor<H = RawDescriptor>(H);

/// What a descriptor says, for building one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorFields {
    /// The allocation's name.
    pub identity: Identity,
    /// What the owner grants.
    pub access: Access,
    /// Bytes of the backing.
    pub nbytes: u64,
    /// For people reading logs; 0 is none.
    pub owner_worker_path_id: u32,
    /// Backend, and how to reach the backing.
    pub body: Body,
}

impl Descriptor {
    /// Builds a descriptor, padding and tail zero.
    ///
    /// # Errors
    /// [`DescriptorError::ForkCowAccess`] and [`DescriptorError::BodyShareableMapping`]: the types rule out the rest.
    pub fn new(fields: &DescriptorFields) -> Result<Self, DescriptorError> {
        let (body_len, body) = fields.body.encode();
        let raw = RawDescriptor {
            magic: U16::new(MAGIC),
            address_space: fields.body.address_space().to_wire(),
            access: fields.access.to_wire(),
            backend_kind: fields.body.backend_kind().to_wire(),
            padding0: [0; 3],
            identity: fields.identity.encode(),
            nbytes: U64::new(fields.nbytes),
            owner_worker_path_id: U32::new(fields.owner_worker_path_id),
            body_len,
            padding1: [0; 2],
            body,
        };
        check(&raw)?;
        Ok(Self(raw))
    }

    /// Copies exactly 88 bytes once and checks the copy: for bytes that somebody else may write.
    ///
    /// # Errors
    /// The first rule that the copy breaks.
    pub fn decode(bytes: &[u8]) -> Result<Self, DescriptorError> {
        let raw = RawDescriptor::read_from_bytes(bytes)
            .map_err(|_| DescriptorError::Size { found: bytes.len() })?;
        check(&raw)?;
        Ok(Self(raw.without_padding()))
    }
}

impl<'a> Descriptor<&'a RawDescriptor> {
    /// Checks exactly 88 bytes where they lie, and copies nothing. Nobody may write them while the descriptor lives, which
    /// the borrow says for this process alone.
    ///
    /// # Errors
    /// The first rule that they break.
    #[inline]
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DescriptorError> {
        let raw =
            RawDescriptor::ref_from_bytes(bytes).map_err(|_| DescriptorError::Size { found: bytes.len() })?;
        Self::from_raw(raw)
    }

    /// Checks a record where it lies.
    ///
    /// # Errors
    /// The first rule that it breaks.
    #[inline]
    pub fn from_raw(raw: &'a RawDescriptor) -> Result<Self, DescriptorError> {
        check(raw)?;
        Ok(Self(raw))
    }

    /// A record that [`check`] has found legal.
    #[inline]
    pub(crate) const fn from_checked(raw: &'a RawDescriptor) -> Self {
        Self(raw)
    }
}

impl<H: Holds<RawDescriptor>> Descriptor<H> {
    /// The record's bytes. Its padding is zero only if whoever wrote it kept to the wire ABI.
    #[must_use]
    #[inline]
    pub fn raw(&self) -> &RawDescriptor {
        self.0.record()
    }

    /// An owned copy, padding zero.
    #[must_use]
    #[inline]
    pub fn to_owned(&self) -> Descriptor {
        Descriptor(self.raw().without_padding())
    }

    /// The wire bytes, padding and tail zero.
    #[must_use]
    #[inline]
    pub fn encode(&self) -> [u8; RawDescriptor::SIZE] {
        transmute!(self.raw().without_padding())
    }

    /// Where the backing lives.
    #[must_use]
    #[inline]
    pub fn address_space(&self) -> AddressSpace {
        AddressSpace::from_wire(self.raw().address_space).unwrap_or(AddressSpace::Host)
    }

    /// What the owner grants.
    #[must_use]
    #[inline]
    pub fn access(&self) -> Access {
        Access::from_wire(self.raw().access).unwrap_or(Access::Read)
    }

    /// How the backing is reached.
    #[must_use]
    #[inline]
    pub fn backend_kind(&self) -> BackendKind {
        BackendKind::from_wire(self.raw().backend_kind).unwrap_or(BackendKind::RemoteSidecar)
    }

    /// The allocation's name.
    #[must_use]
    #[inline]
    pub fn identity(&self) -> Identity {
        let raw = &self.raw().identity;
        Identity::new(
            OwnerInstanceId(raw.owner_instance_id),
            raw.buffer_id.get(),
            NonZeroU32::new(raw.generation.get()).unwrap_or(NonZeroU32::MIN),
        )
    }

    /// Bytes of the backing.
    #[must_use]
    #[inline]
    pub fn nbytes(&self) -> u64 {
        self.raw().nbytes.get()
    }

    /// For people reading logs: which worker owns it, by a number of that process; 0 is none. Nothing may route, gate or
    /// key on it.
    #[must_use]
    #[inline]
    pub fn owner_worker_path_id(&self) -> u32 {
        self.raw().owner_worker_path_id.get()
    }

    /// How to reach the backing, typed.
    #[must_use]
    pub fn body(&self) -> Body {
        let raw = self.raw();
        let words: [U64; 4] = transmute!(raw.body);
        let base = NonZeroU64::new(words[0].get()).unwrap_or(NonZeroU64::MIN);
        match self.backend_kind() {
            BackendKind::ForkShm => Body::ForkShm { base },
            BackendKind::PosixShm => {
                Body::PosixShm { name: ShmName::from_checked(raw.body_len.get(), raw.body) }
            }
            BackendKind::VmmWindow => Body::VmmWindow { base },
            BackendKind::RemoteSidecar => Body::RemoteSidecar { address_space: self.address_space() },
            BackendKind::DeviceMalloc => Body::DeviceMalloc { base },
            BackendKind::ForkCow => Body::ForkCow { base },
            BackendKind::VmmShareable => {
                let ShareableAndTail { shareable, .. } = transmute!(raw.body);
                Body::VmmShareable {
                    device_id: shareable.device_id.get(),
                    shareable_handle: NonZeroU64::new(shareable.shareable_handle.get())
                        .unwrap_or(NonZeroU64::MIN),
                    mapping_bytes: shareable.mapping_bytes.get(),
                }
            }
        }
    }

    /// Everything that it says.
    #[must_use]
    pub fn fields(&self) -> DescriptorFields {
        DescriptorFields {
            identity: self.identity(),
            access: self.access(),
            nbytes: self.nbytes(),
            owner_worker_path_id: self.owner_worker_path_id(),
            body: self.body(),
        }
    }

    /// The fields in which two descriptors differ, padding and `owner_worker_path_id` aside: nothing may gate on those.
    #[must_use]
    pub fn differences<O: Holds<RawDescriptor>>(&self, other: &Descriptor<O>) -> FieldSet {
        let (a, b) = (self.raw(), other.raw());
        FieldSet::default()
            .with(FieldSet::ADDRESS_SPACE, a.address_space != b.address_space)
            .with(FieldSet::ACCESS, a.access != b.access)
            .with(FieldSet::BACKEND_KIND, a.backend_kind != b.backend_kind)
            .with(FieldSet::IDENTITY, self.identity() != other.identity())
            .with(FieldSet::NBYTES, a.nbytes != b.nbytes)
            .with(FieldSet::BODY, a.body_len != b.body_len || a.body != b.body)
    }
}

impl<H: Holds<RawDescriptor>, O: Holds<RawDescriptor>> PartialEq<Descriptor<O>> for Descriptor<H> {
    /// All fields, padding aside.
    fn eq(&self, other: &Descriptor<O>) -> bool {
        self.differences(other).is_empty() && self.owner_worker_path_id() == other.owner_worker_path_id()
    }
}

impl<H: Holds<RawDescriptor>> Eq for Descriptor<H> {}

impl<H: Holds<RawDescriptor>> fmt::Debug for Descriptor<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.fields(), f)
    }
}

impl RawDescriptor {
    #[inline]
    pub(crate) const fn without_padding(mut self) -> Self {
        self.padding0 = [0; 3];
        self.identity.padding = [0; 12];
        self.padding1 = [0; 2];
        self
    }
}
