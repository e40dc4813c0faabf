//! Regions over this process's mappings, or over device memory that a driver copies: a provider that makes the two parts, a
//! consumer that attaches to them by their descriptors, and waiting that spins for a while and then sleeps.
//!
//! What is done with a region is the core's ([`bufabi_core::region`], [`bufabi_core::queue`]); here is what lies under it.
//!
//! A queue with both ends in one process; another one would be sent the two descriptors.
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use bufabi_core::queue::{Kind, L2End, L3End, Opcode, QueueLayout};
//! use bufabi_host::consumer::Consumer;
//! use bufabi_host::owner::Endpoint;
//! use bufabi_host::region::{AttachedRegion, ProvidedRegion, SleepingClock};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limit = Duration::from_secs(10);
//! let layout = QueueLayout::new(4, 128, 128)?; // 4 slots and 128 bytes each way
//!
//! // The host makes the region and attaches its end; the marks are a word for each slot.
//! let endpoint = Endpoint::new()?;
//! let mut made = ProvidedRegion::create(&endpoint, layout.payload_bytes(), layout.counter_bytes())?;
//! let memory = made.memory()?;
//! let mut clock = SleepingClock::new(&memory)?;
//! let mut host = L3End::new(layout, memory, [0; 4])?;
//!
//! // The task attaches by the descriptors; it may hold two inputs at once.
//! let [payload, counter] = made.descriptors()?;
//! let consumer = Consumer::new(None)?;
//! let mut attached = AttachedRegion::attach(&consumer, &payload, &counter)?;
//! let memory = attached.memory()?;
//! let mut task_clock = SleepingClock::new(&memory)?;
//! let mut task = L2End::<_, _, 2>::new(layout, memory, [0; 4])?;
//!
//! host.enqueue(Kind::Data, b"question", limit, &mut clock)?;
//! host.request_stop(limit, &mut clock)?;
//! while !task.is_drained() {
//!     let input = task.receive(limit, &mut task_clock)?;
//!     if input.opcode() == Opcode::Data {
//!         task.send(Kind::Data, b"answer", limit, &mut task_clock)?;
//!     }
//!     task.release(input.handle())?;
//! }
//! let mut bytes = [0; 128];
//! let (opcode, nbytes) = host.dequeue_into(&mut bytes, limit, &mut clock)?;
//! assert_eq!((opcode, &bytes[..nbytes]), (Opcode::Data, &b"answer"[..]));
//!
//! // Ends and clocks use the region: they go first.
//! drop((host, clock, task, task_clock));
//! attached.close(Instant::now() + limit)?;
//! made.close(Instant::now() + limit)?;
//! # Ok(())
//! # }
//! ```

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
