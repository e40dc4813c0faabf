//! Every call into libc that the host makes, one file for each subject: typed, with its error, made again when a signal interrupts it.

pub mod address_range;
pub mod affinity;
pub mod ascendcl;
pub mod dynamic_library;
pub mod error;
pub mod event;
pub mod fault;
pub mod file;
pub mod futex;
pub mod interruption;
pub mod limits;
pub mod memfd;
pub mod memory;
pub mod memory_map;
mod own_number;
pub mod parent;
mod pieces;
pub mod process;
pub mod process_mark;
pub mod program;
pub mod random;
pub mod shm;
pub mod signal;
pub mod socket;
#[cfg(test)]
pub(crate) mod testing;

pub use error::OsError;
