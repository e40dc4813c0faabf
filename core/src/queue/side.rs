//! The two directions of a queue and its two sides, as types: which counters are whose is known where the code is compiled.

use super::layout::{QueueLayout, counters};
use crate::region::Place;

/// One direction of a queue.
#[expect(unnameable_types, reason = "nobody else may make a direction")]
pub trait Direction {
    /// The counter of messages sent, which the producer writes.
    const TAIL: u64;
    /// The counter of messages given back, which the consumer writes.
    const HEAD: u64;
    /// The byte by which the producer may say that it sleeps.
    const PRODUCER_SLEEPS: u64;
    /// The byte by which the consumer may say that it sleeps.
    const CONSUMER_SLEEPS: u64;
    /// STOP may come here.
    const HAS_STOP: bool;

    /// Where the first slot lies in PAYLOAD.
    fn slots(layout: QueueLayout) -> u64;

    /// Where the bytes of the messages lie in PAYLOAD.
    fn arena(layout: QueueLayout) -> Place;
}

/// From L3 to L2.
#[derive(Clone, Copy, Debug)]
pub enum Input {}

/// From L2 to L3.
#[derive(Clone, Copy, Debug)]
pub enum Output {}

impl Direction for Input {
    const TAIL: u64 = counters::INPUT_TAIL;
    const HEAD: u64 = counters::INPUT_HEAD;
    const PRODUCER_SLEEPS: u64 = counters::L3_SLEEPS;
    const CONSUMER_SLEEPS: u64 = counters::L2_SLEEPS;
    const HAS_STOP: bool = true;

    fn slots(layout: QueueLayout) -> u64 {
        layout.input_ring()
    }

    fn arena(layout: QueueLayout) -> Place {
        layout.input_arena()
    }
}

impl Direction for Output {
    const TAIL: u64 = counters::OUTPUT_TAIL;
    const HEAD: u64 = counters::OUTPUT_HEAD;
    const PRODUCER_SLEEPS: u64 = counters::L2_SLEEPS;
    const CONSUMER_SLEEPS: u64 = counters::L3_SLEEPS;
    const HAS_STOP: bool = false;

    fn slots(layout: QueueLayout) -> u64 {
        layout.output_ring()
    }

    fn arena(layout: QueueLayout) -> Place {
        layout.output_arena()
    }
}

/// Who uses an end: [`L3`] or [`L2`], and nobody else.
pub trait Side: Sealed {
    /// The direction in which it sends.
    type Sends: Direction;
    /// The direction in which it receives.
    type Receives: Direction;
    /// Where it says that it gave up.
    const ABORT: u64;
    /// Where the other side says so.
    const PEER_ABORT: u64;
}

/// Keeps the sides to two.
#[expect(unnameable_types, reason = "nobody else may make a side")]
pub trait Sealed {}

/// The host's side.
#[derive(Clone, Copy, Debug)]
pub enum L3 {}

/// The task's side.
#[derive(Clone, Copy, Debug)]
pub enum L2 {}

impl Sealed for L3 {}
impl Sealed for L2 {}

impl Side for L3 {
    type Sends = Input;
    type Receives = Output;
    const ABORT: u64 = counters::L3_ABORT;
    const PEER_ABORT: u64 = counters::L2_ABORT;
}

impl Side for L2 {
    type Sends = Output;
    type Receives = Input;
    const ABORT: u64 = counters::L2_ABORT;
    const PEER_ABORT: u64 = counters::L3_ABORT;
}
