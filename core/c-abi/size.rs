//! What was compiled in, so that a program sees at its start whether its headers are of the same kind.

use bufabi_core::wire::blob::RawBlobHeader;
use bufabi_core::wire::identity::RawIdentity;
use bufabi_core::wire::tensor::RawTensor;
use bufabi_core::{ChipStorageTaskArgs, ChipTensor, RawDescriptor};
use static_assertions::const_assert_eq;

/// The version of this interface: the upper 16 bits change when a program must be compiled again, the lower 16 when functions were
/// added.
pub const ABI_VERSION: u32 = 0x0001_0000;

/// `BUFABI_ABI_VERSION` of the library. A program compares its upper 16 bits with those of its header's.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_abi_version() -> u32 {
    ABI_VERSION
}

/// Bytes of an identity.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_identity_size() -> usize {
    RawIdentity::SIZE
}

/// Bytes of a descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_descriptor_size() -> usize {
    RawDescriptor::SIZE
}

/// Bytes of a tensor.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_tensor_size() -> usize {
    RawTensor::SIZE
}

/// Bytes of the counts at a blob's start.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_blob_header_size() -> usize {
    RawBlobHeader::SIZE
}

/// Bytes of a chip's tensor.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_chip_tensor_size() -> usize {
    ChipTensor::SIZE
}

/// Bytes of a task's arguments for a chip.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_chip_storage_task_args_size() -> usize {
    ChipStorageTaskArgs::SIZE
}

// What the comments of the header promise in numbers.
const_assert_eq!(RawDescriptor::SIZE, 88);
const_assert_eq!(RawTensor::SIZE, 144);
const_assert_eq!(ChipTensor::SIZE, 128);
const_assert_eq!(align_of::<ChipTensor>(), 64);
const_assert_eq!(ChipStorageTaskArgs::SIZE, 33_856);
const_assert_eq!(align_of::<ChipStorageTaskArgs>(), 64);
