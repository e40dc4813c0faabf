//! Regions over this process's mappings, or over device memory that a driver copies: a provider that makes the two parts, a
//! consumer that attaches to them by their descriptors, and waiting that spins for a while and then sleeps.
//!
//! What is done with a region is the core's ([`bufabi_core::region`], [`bufabi_core::queue`]); here is what lies under it.

mod attached;
mod clock;
mod emulator;
mod error;
mod gate;
mod memory;
mod part;
mod provider;
#[cfg(test)]
mod tests;

pub use attached::AttachedRegion;
pub use clock::{DEFAULT_SPIN, SleepingClock};
pub use emulator::{Awaited, Emulator, EmulatorError};
pub use error::{AttachError, CloseError, ProvideError};
pub use memory::RegionMemory;
pub use provider::ProvidedRegion;
