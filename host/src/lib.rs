//! What an operating system and drivers add to the core: buffers in shared memory, consumers that map them once, and worker
//! processes that run tasks on them.
//!
//! - [`orchestrator`]: tasks in order, each as soon as those that it waits for are done.
//! - [`owner`]: endpoints, their buffers, and when those may go.
//! - [`consumer`]: each identity mapped once, and [`backend`]: how.
//! - [`device`]: the memory and the kernels of a chip.
//! - [`heap`]: memory that workers inherit, in slabs.
//! - [`sys`]: every call into libc, typed, with its error.
//! - [`ffi`]: all of it behind C's calling convention, with the feature `c-abi`.
//! - [`kernels`]: what tasks compute.
//! - [`memory`]: mappings, and the views of tasks in them.
//! - [`region`]: two buffers over which a host and a running task talk, and how to wait for the other side.
//! - [`remote`]: arguments for a worker on another machine, and what moves their bytes.
//! - [`shm`]: POSIX shared-memory objects and their names.
//! - [`space`]: addresses given out of one range.
//! - [`vmm`]: device memory that processes share by handle, through a driver or through software.
//! - [`worker`]: worker processes, the mailbox to each, and the kernels that they run.
//! - [`worker_path`]: numbers for the paths of workers, for logs.
//!
//! Everything here is Linux on a 64-bit little-endian machine.

pub mod backend;
pub mod consumer;
pub mod device;
#[cfg(feature = "c-abi")]
pub mod ffi;
pub mod heap;
pub mod kernels;
pub mod memory;
pub mod orchestrator;
pub mod owner;
mod pieces;
pub mod region;
pub mod remote;
pub mod shm;
pub mod space;
pub mod sys;
pub mod vmm;
pub mod worker;
pub mod worker_path;
