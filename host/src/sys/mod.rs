//! Every call into libc that the host makes, one file for each subject: typed, with its error, made again when a signal interrupts it.

pub mod affinity;
pub mod error;
pub mod event;
pub mod fault;
pub mod memory;
pub mod parent;
pub mod process;
pub mod process_mark;
pub mod random;
pub mod shm;

pub use error::OsError;
