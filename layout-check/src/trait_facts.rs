//! What the types promise beyond their bytes, held at compile time: who may copy, send, share, and read them at any address.

use bufabi_core::wire::blob::RawBlobHeader;
use bufabi_core::wire::body::RawShareableBody;
use bufabi_core::wire::identity::RawIdentity;
use bufabi_core::{
    Access, Blob, BlobError, ChipError, ChipStorageTaskArgs, ChipTensor, Code, DType, Descriptor,
    DescriptorError, Identity, OwnerInstanceId, RawDescriptor, RawTensor, Tag, Tensor, TensorError, View,
    ViewError,
};
use core::error::Error;
use core::fmt::{Debug, Display};
use core::hash::Hash;
use static_assertions::{assert_eq_align, assert_eq_size, assert_impl_all, assert_not_impl_any};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

// Unchecked bytes: at any address, any bit pattern, no byte that is not written; no equality, which padding would spoil; and no
// default, which would be illegal.
assert_impl_all!(RawIdentity: FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Copy, Send, Sync);
assert_impl_all!(RawShareableBody: FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Copy, Send, Sync);
assert_impl_all!(RawDescriptor: FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Copy, Send, Sync);
assert_impl_all!(RawTensor: FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Copy, Send, Sync);
assert_impl_all!(RawBlobHeader: FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Copy, Send, Sync);
assert_not_impl_any!(RawIdentity: PartialEq, Default);
assert_not_impl_any!(RawShareableBody: PartialEq, Default);
assert_not_impl_any!(RawDescriptor: PartialEq, Default);
assert_not_impl_any!(RawTensor: PartialEq, Default);

// What a chip reads lies on cache lines, and 33 KiB are never copied unseen.
assert_impl_all!(ChipTensor: FromBytes, IntoBytes, Immutable, KnownLayout, Copy, Send, Sync);
assert_impl_all!(ChipStorageTaskArgs: FromBytes, IntoBytes, Immutable, KnownLayout, Send, Sync);
assert_not_impl_any!(ChipTensor: Unaligned);
assert_not_impl_any!(ChipStorageTaskArgs: Unaligned, Clone, Copy);
assert_eq_align!(ChipStorageTaskArgs, ChipTensor, CacheLine);

/// A cache line.
#[repr(align(64))]
struct CacheLine;

// Checked values: no way in from bytes but their own, no default, and the record itself or a pointer to it and nothing more.
assert_impl_all!(Descriptor: Copy, Eq, Debug, Send, Sync);
assert_impl_all!(Tensor: Copy, Eq, Debug, Send, Sync);
assert_impl_all!(Descriptor<&RawDescriptor>: Copy, Eq, Debug, Send, Sync);
assert_impl_all!(Tensor<&RawTensor>: Copy, Eq, Debug, Send, Sync);
assert_impl_all!(Blob<'static>: Copy, Debug, Send, Sync);
assert_impl_all!(View: Copy, Eq, Hash, Debug, Send, Sync);
assert_not_impl_any!(Descriptor: FromBytes, Default);
assert_not_impl_any!(Tensor: FromBytes, Default);
assert_not_impl_any!(View: FromBytes, Default);
assert_not_impl_any!(Identity: FromBytes, Default);
assert_eq_size!(Descriptor, RawDescriptor, [u8; 88]);
assert_eq_size!(Tensor, RawTensor, [u8; 144]);
assert_eq_size!(Descriptor<&RawDescriptor>, Tensor<&RawTensor>, &u8);

// A name: compared and hashed as a whole.
assert_impl_all!(Identity: Copy, Eq, Hash, Ord, Debug, Send, Sync);
assert_impl_all!(OwnerInstanceId: Copy, Eq, Hash, Ord, Debug, Send, Sync);

// Errors: small values that carry their operands and speak to a person.
assert_impl_all!(DescriptorError: Copy, Eq, Error, Display, Send, Sync);
assert_impl_all!(TensorError: Copy, Eq, Error, Display, Send, Sync);
assert_impl_all!(ViewError: Copy, Eq, Error, Display, Send, Sync);
assert_impl_all!(BlobError: Copy, Eq, Error, Display, Send, Sync);
assert_impl_all!(ChipError: Copy, Eq, Error, Display, Send, Sync);
assert_impl_all!(Code: Copy, Eq, Hash, Display, Send, Sync);

// One byte on the wire, one byte in memory.
assert_eq_size!(Access, Tag, DType, u8);
