//! Arguments for a worker on another machine: what travels in place of a local backend, and how its bytes are reached.
//!
//! Such an argument is a REMOTE_SIDECAR tensor, which says whose bytes it is about, and a [`Sidecar`] beside the task, which says
//! how to get at them, or carries a few that nobody writes. Both are written when the argument is added. All other bytes move by a
//! [`Transport`]; whoever has none can submit no task that names such bytes.

mod arguments;
mod error;
mod fetched;
mod sidecar;
#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]
mod tests;
mod transport;

pub use arguments::{RemoteArgs, RemoteTask};
pub use error::{RemoteError, SidecarError, TransportError};
pub use fetched::Fetched;
pub(crate) use sidecar::is_remote;
pub use sidecar::{MAX_INLINE, Reach, Sidecar, remote_tensor};
pub use transport::{Registration, Transport};
