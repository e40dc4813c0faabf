//! The 88 bytes that say who owns a backing, what it grants and how to reach it.

use core::fmt;
use core::num::{NonZeroU32, NonZeroU64};
use core::ops::Range;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

use super::backend::{AddressSpace, BackendKind};
use super::body::{BODY_SIZE, Body, ShareableAndTail, ShmName, is_name_byte};
use super::identity::{Identity, OwnerInstanceId, RawIdentity};
use super::layout::wire_layout;
use super::record::Holds;
use super::verdict::{Broken, First, Verdict};
use crate::code::Code;
use crate::rights::Access;

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

/// Which fields of a descriptor something is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSet(u8);

impl FieldSet {
    /// `address_space`
    pub const ADDRESS_SPACE: Self = Self(1);
    /// `access`
    pub const ACCESS: Self = Self(2);
    /// `backend_kind`
    pub const BACKEND_KIND: Self = Self(4);
    /// `identity`
    pub const IDENTITY: Self = Self(8);
    /// `nbytes`
    pub const NBYTES: Self = Self(16);
    /// `body_len` and `body`
    pub const BODY: Self = Self(32);

    const NAMES: [(Self, &'static str); 6] = [
        (Self::ADDRESS_SPACE, "address_space"),
        (Self::ACCESS, "access"),
        (Self::BACKEND_KIND, "backend_kind"),
        (Self::IDENTITY, "identity"),
        (Self::NBYTES, "nbytes"),
        (Self::BODY, "body"),
    ];

    #[inline]
    const fn with(self, field: Self, present: bool) -> Self {
        if present { Self(self.0 | field.0) } else { self }
    }

    /// No field at all.
    #[must_use]
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// All fields of `other` are in it.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// One bit for each field, in the order of the record.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The names of the fields, in the order of the record.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(field, _)| self.contains(*field)).map(|(_, name)| name)
    }
}

impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.names().enumerate() {
            f.write_str(if i == 0 { "" } else { ", " })?;
            f.write_str(name)?;
        }
        Ok(())
    }
}

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
                write!(f, "{backend_kind} does not live in address space {found}")
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

/// All rules in the order of the wire ABI; the first broken one is the error.
#[inline]
pub(crate) fn check(raw: &RawDescriptor) -> Result<(), DescriptorError> {
    match rules::<Broken>(raw) {
        Ok(()) => Ok(()),
        Err(Broken) => first_broken(raw),
    }
}

/// The rules once more, for the error.
#[cold]
#[inline(never)]
fn first_broken(raw: &RawDescriptor) -> Result<(), DescriptorError> {
    rules::<First<DescriptorError>>(raw).map_err(|First(error)| error)
}

#[inline]
pub(crate) fn rules<V: Verdict<DescriptorError>>(raw: &RawDescriptor) -> Result<(), V> {
    use DescriptorError as E;
    if raw.magic.get() != MAGIC {
        return Err(V::of(|| E::Magic { found: raw.magic.get() }));
    }
    let Some(space) = AddressSpace::from_wire(raw.address_space) else {
        return Err(V::of(|| E::AddressSpace { found: raw.address_space }));
    };
    let Some(access) = Access::from_wire(raw.access) else {
        return Err(V::of(|| E::Access { found: raw.access }));
    };
    let Some(backend_kind) = BackendKind::from_wire(raw.backend_kind) else {
        return Err(V::of(|| E::BackendKind { found: raw.backend_kind }));
    };
    let body_len = raw.body_len.get();
    if body_len > 32 {
        return Err(V::of(|| E::BodyLen { found: body_len }));
    }
    if raw.identity.generation.get() == 0 {
        return Err(V::of(|| E::Generation));
    }
    if backend_kind.address_space().is_some_and(|needed| needed != space) {
        return Err(V::of(|| E::Capability { backend_kind, found: space }));
    }
    let words: [U64; 4] = transmute!(raw.body);
    match backend_kind {
        BackendKind::ForkShm | BackendKind::VmmWindow | BackendKind::DeviceMalloc | BackendKind::ForkCow => {
            if backend_kind == BackendKind::ForkCow && access != Access::Read {
                return Err(V::of(|| E::ForkCowAccess { found: access }));
            }
            if body_len != 8 {
                return Err(V::of(|| E::BodyAddressLen { backend_kind, found: body_len }));
            }
            if words[0].get() == 0 {
                return Err(V::of(|| E::BodyNullBase { backend_kind }));
            }
            if words[1].get() | words[2].get() | words[3].get() != 0 {
                return Err(V::of(|| body_tail(raw)));
            }
        }
        BackendKind::PosixShm => {
            if body_len == 0 {
                return Err(V::of(|| E::BodyShmNameEmpty));
            }
            if !is_name_and_zero_tail(body_len, &raw.body) {
                return Err(V::of(|| body_name(raw)));
            }
        }
        BackendKind::VmmShareable => {
            if body_len != 24 {
                return Err(V::of(|| E::BodyShareableLen { found: body_len }));
            }
            let ShareableAndTail { shareable, tail } = transmute!(raw.body);
            if shareable.shareable_handle.get() == 0 {
                return Err(V::of(|| E::BodyShareableHandle));
            }
            if shareable.reserved0.get() != 0 {
                return Err(V::of(|| E::BodyShareableReserved { found: shareable.reserved0.get() }));
            }
            let (mapping_bytes, nbytes) = (shareable.mapping_bytes.get(), raw.nbytes.get());
            if mapping_bytes < nbytes {
                return Err(V::of(|| E::BodyShareableMapping { mapping_bytes, nbytes }));
            }
            if tail.get() != 0 {
                return Err(V::of(|| body_tail(raw)));
            }
        }
        BackendKind::RemoteSidecar => {
            if body_len != 0 {
                return Err(V::of(|| E::BodyRemoteNotEmpty { found: body_len }));
            }
            if words[0].get() | words[1].get() | words[2].get() | words[3].get() != 0 {
                return Err(V::of(|| body_tail(raw)));
            }
        }
    }
    Ok(())
}

/// 32 bytes of ones, then 32 of zeros: a window of 32 bytes from 32 - n on marks the first n.
const FIRST: [u8; 64] = {
    let mut mask = [0; 64];
    let (ones, _) = mask.split_at_mut(32);
    ones.copy_from_slice(&[0xff; 32]);
    mask
};

/// The first `body_len` bytes may stand in a name and the rest are zero. It looks at all 32 without a branch, so that the
/// compiler can take them at once.
#[inline]
fn is_name_and_zero_tail(body_len: u16, body: &[u8; BODY_SIZE]) -> bool {
    let start = BODY_SIZE.saturating_sub(usize::from(body_len));
    let Some(mask) = FIRST.get(start..).and_then(<[u8]>::first_chunk::<BODY_SIZE>) else {
        return false;
    };
    let wrong = body.iter().zip(mask).fold(0_u8, |wrong, (&byte, &in_name)| {
        let not_allowed = u8::from(is_name_byte(byte)).wrapping_sub(1);
        wrong | (not_allowed & in_name) | (byte & !in_name)
    });
    wrong == 0
}

/// The first byte of the name that it must not have; if there is none, the first of the tail that is not 0.
#[cold]
fn body_name(raw: &RawDescriptor) -> DescriptorError {
    let len = usize::from(raw.body_len.get());
    for (index, &found) in (0_u8..).zip(raw.body.iter().take(len)) {
        if !is_name_byte(found) {
            return DescriptorError::BodyShmNameChar { index, found };
        }
    }
    body_tail(raw)
}

/// The first byte past the body's end that is not 0.
#[cold]
fn body_tail(raw: &RawDescriptor) -> DescriptorError {
    let len = usize::from(raw.body_len.get());
    let (index, found) = (0_u8..).zip(raw.body).skip(len).find(|(_, byte)| *byte != 0).unwrap_or((32, 0));
    DescriptorError::BodyTail { index, found }
}
