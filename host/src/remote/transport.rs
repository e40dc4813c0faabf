//! What moves bytes between machines.

use core::fmt;

use super::error::TransportError;
use crate::consumer::Import;

/// Memory that a transport lets other machines reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The address of its first byte, as other machines name it.
    pub address: u64,
    /// What they must show for it.
    pub remote_key: u64,
    /// Its bytes.
    pub nbytes: u64,
}

/// Moves bytes between machines. An engine for remote memory implements it; here is none.
///
/// Whoever uses one sees to the order: a task's bytes are read behind the writes of those that it waits for. A call returns when its
/// bytes have arrived.
pub trait Transport: fmt::Debug {
    /// Its name, for people.
    fn name(&self) -> &str;

    /// Lets other machines reach a mapping, which stays mapped until [`deregister`](Self::deregister): it counts as a view of it.
    ///
    /// # Errors
    /// [`TransportError`]; nothing can be reached then.
    fn register(&self, memory: Import) -> Result<Registration, TransportError>;

    /// Ends that. The key is never given out again.
    ///
    /// # Errors
    /// [`TransportError::KeyUnknown`].
    fn deregister(&self, registration: &Registration) -> Result<(), TransportError>;

    /// Copies from another machine's memory into `out`.
    ///
    /// # Errors
    /// [`TransportError`]; `out` may hold some of it then.
    fn read(&self, address: u64, remote_key: u64, out: &mut [u8]) -> Result<(), TransportError>;

    /// Copies `bytes` into another machine's memory.
    ///
    /// # Errors
    /// [`TransportError`]; some of it may be there then.
    fn write(&self, address: u64, remote_key: u64, bytes: &[u8]) -> Result<(), TransportError>;
}
