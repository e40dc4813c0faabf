//! Buffers that live in other processes and on other chips: what their bytes say, and what follows from it.
//!
//! Everything here runs anywhere that Rust's `core` does: no std, no heap, no unsafe code, no path to a panic.
//!
//! - [`wire`]: the frozen bytes. Identity, descriptor, tensor, task blob, and what a chip reads.
//! - [`view`]: the geometry of a strided view, and the rules that make one legal.
//! - [`overlap`]: whether two views share a byte, and whether one covers the other.
//! - [`rights`]: what a tag needs and what an owner grants.
//! - [`task_args`]: a task's arguments, and what they must pass to be submitted.
//! - [`keyed_hash`]: where an identity lands in a table, and why nobody outside can choose it.
//! - [`dependencies`]: which tasks must wait for which, from the bytes they touch.
//! - [`owner_table`]: what one endpoint owns, and the one allocator of its identities.
//! - [`import_table`]: what one endpoint has imported, each identity once.
//! - [`region`]: two buffers over which a host and a running task talk: scalars, counters, and how their bytes are reached.
//! - [`queue`]: the message queue in a region, both ends.
//! - [`code`]: the frozen number, name and fault of every error.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod code;
pub mod dependencies;
pub mod import_table;
pub mod keyed_hash;
pub mod overlap;
pub mod owner_table;
pub mod queue;
pub mod region;
pub mod rights;
pub mod task_args;
pub mod view;
pub mod wire;

pub use code::{Code, Fault};
pub use import_table::{ImportBucket, ImportSlot, ImportTable};
pub use keyed_hash::KeyedHash;
pub use overlap::Relation;
pub use owner_table::{OwnerSlot, OwnerTable};
pub use rights::{Access, Tag};
pub use task_args::{Submission, SubmitError, TaskArgs};
pub use view::{View, ViewError};
pub use wire::blob::{Blob, BlobError};
pub use wire::chip_args::ChipStorageTaskArgs;
pub use wire::chip_tensor::{ChipError, ChipTensor};
pub use wire::descriptor::{Descriptor, DescriptorError, RawDescriptor};
pub use wire::dtype::DType;
pub use wire::identity::{Identity, OwnerInstanceId};
pub use wire::tensor::{RawTensor, Tensor, TensorError};
