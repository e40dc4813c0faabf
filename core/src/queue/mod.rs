//! The message queue of a region: an L3 host and a running L2 task send each other messages, in order, in both directions.
//!
//! One producer and one consumer each way. The bytes are those of [`QueueLayout`] and [`RawSlot`], and frozen. The two ends,
//! [`L3End`] and [`L2End`], are one [`QueueEnd`] as either side uses it; they reach the bytes over a [`RegionAccess`](crate::region::RegionAccess) and trust nothing that they read:
//! what the other side wrote is copied once, and the copy is checked. Each end keeps what it must rely on in memory of its own.
//!
//! How the promises hold by construction is told in docs/decisions/message-queue.md.

mod arena;
mod consumer;
mod end;
mod error;
mod l2;
mod l3;
mod layout;
mod poison;
mod producer;
mod receiving;
mod ring;
mod sending;
mod side;
mod slot;
mod untold;
mod view;

pub use consumer::{Handle, Message, WindowPlace};
pub use end::{Counts, QueueEnd, Reservation};
pub use error::{AttachError, Full, ReceiveError, SendError};
pub use l2::L2End;
pub use l3::L3End;
pub use layout::{COUNTER_BYTES, LayoutError, QueueLayout, counters};
pub use poison::Poison;
pub use side::{L2, L3, Side};
pub use slot::{Kind, Opcode, RawSlot};
pub use view::{QUEUE_MAGIC, QUEUE_MAJOR, QUEUE_MINOR, QueueView, QueueViewError};
