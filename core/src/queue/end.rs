//! One end of a queue: what both sides are made of, how an end is attached, and the one place where it ends.

use core::marker::PhantomData;

use super::consumer::{Consumer, WindowPlace};
use super::error::AttachError;
use super::layout::QueueLayout;
use super::poison::{Poison, Setback};
use super::producer::{Plan, Producer};
use super::ring::Ring;
use super::side::{Direction, Side};
use crate::region::{AccessError, Place, RegionAccess};

/// At which counts the two directions start. A queue starts at 0, as its counters do; another start is for trying out what only happens
/// after 2^32 messages, and must be that of both ends and of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Inputs sent and given back so far.
    pub input: u64,
    /// Outputs sent and given back so far.
    pub output: u64,
}

/// Room for one message that is being written, until it is committed or cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub(super) number: u64,
    pub(super) place: Place,
}

impl Reservation {
    /// Its number, as it crosses a boundary without types.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Where the message's bytes go in PAYLOAD: nobody else reads or writes there before it is committed.
    #[must_use]
    pub const fn place(&self) -> Place {
        self.place
    }
}

/// The end of a queue that side `S` uses, over the region that `A` reaches: [`L3End`](super::L3End) or [`L2End`](super::L2End), or
/// either with storage that is lent.
///
/// `M` is storage of one `u64` for each slot of the ring, an array or a slice, lent or owned: where the messages in flight lie that
/// it sent. `W` is storage of one [`WindowPlace`] for each message that it may hold, received and not released.
///
/// Every operation on an end that has ended answers [`Poisoned`](super::SendError::Poisoned) with the first cause; dropping it or
/// [`into_access`](Self::into_access) always works.
pub struct QueueEnd<A, M, W, S: Side> {
    pub(super) access: A,
    pub(super) producer: Producer<S::Sends, M>,
    pub(super) consumer: Consumer<S::Receives, W>,
    pub(super) poison: Option<Poison>,
    pub(super) stop_is_sent: bool,
    pub(super) open: Option<Plan>,
    /// Reservations made; the open one has this number.
    pub(super) reservations: u64,
    side: PhantomData<S>,
}

impl<A, M, W, S> QueueEnd<A, M, W, S>
where
    A: RegionAccess,
    M: AsRef<[u64]> + AsMut<[u64]>,
    W: AsRef<[WindowPlace]> + AsMut<[WindowPlace]>,
    S: Side,
{
    /// Attaches to a queue whose counts start at `counts`, with that window: 1 to depth places.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn with_window(
        layout: QueueLayout,
        access: A,
        marks: M,
        window: W,
        counts: Counts,
    ) -> Result<Self, AttachError> {
        check(layout, &access, marks.as_ref().len(), window.as_ref().len())?;
        let (sent, received) =
            if S::Sends::HAS_STOP { (counts.input, counts.output) } else { (counts.output, counts.input) };
        Ok(Self {
            access,
            producer: Producer::new(Ring::new(layout), marks, sent),
            consumer: Consumer::new(Ring::new(layout), window, received),
            poison: None,
            stop_is_sent: false,
            open: None,
            reservations: 0,
            side: PhantomData,
        })
    }

    #[inline]
    pub(super) fn check_alive<E: From<Setback>>(&self) -> Result<(), E> {
        match &self.poison {
            None => Ok(()),
            Some(poison) => Err(ended(poison)),
        }
    }

    /// The other side gave up.
    ///
    /// # Errors
    /// The memory could not be reached.
    pub fn peer_aborted(&self) -> Result<bool, AccessError> {
        Ok(self.access.load(S::PEER_ABORT)? != 0)
    }

    /// The other side did not give up; an error when it, or the memory, is gone.
    #[inline]
    pub(super) fn peer_goes_on(&self) -> Result<bool, AccessError> {
        self.access.check_peer()?;
        Ok(!self.peer_aborted()?)
    }

    /// Keeps the first cause and tells the other side.
    #[cold]
    pub(super) fn fail<E: From<Setback>>(&mut self, setback: Setback) -> E {
        if let Setback::Poison(poison) = setback {
            // What the memory says to this is not the first cause.
            let _ = self.end(poison);
        }
        setback.into()
    }

    /// Gives up: this side's abort flag is set, and every later operation but cleanup is refused.
    ///
    /// # Errors
    /// The memory could not be reached to set the flag; calling again tries again.
    pub fn abort(&mut self) -> Result<(), AccessError> {
        self.end(Poison::Aborted)
    }

    fn end(&mut self, cause: Poison) -> Result<(), AccessError> {
        self.poison.get_or_insert(cause);
        // Who sees the flag sees every count that was told before. It is set also when the memory cannot say so.
        let _ = self.access.publish(Place::NOTHING);
        self.access.store(S::ABORT, 1)?;
        // The other side sleeps, if it does, until one of this side's counts moves.
        self.access.wake(S::Sends::TAIL, S::Sends::CONSUMER_SLEEPS);
        self.access.wake(S::Receives::HEAD, S::Receives::PRODUCER_SLEEPS);
        Ok(())
    }

    /// The first cause, when the queue has ended here.
    #[must_use]
    pub const fn poison(&self) -> Option<Poison> {
        self.poison
    }

    /// The memory, for reading and writing messages in their places.
    #[must_use]
    pub const fn access(&self) -> &A {
        &self.access
    }

    /// Detaches, whatever happened, and gives the access back.
    pub fn into_access(self) -> A {
        self.access
    }
}

/// Out of line: an error takes a lot of bytes, which nobody should move who has none.
#[cold]
fn ended<E: From<Setback>>(poison: &Poison) -> E {
    Setback::Poison(*poison).into()
}

fn check<A: RegionAccess>(
    layout: QueueLayout,
    access: &A,
    marks: usize,
    window: usize,
) -> Result<(), AttachError> {
    let (found, needed) = (access.payload_bytes(), layout.payload_bytes());
    if found < needed {
        return Err(AttachError::PayloadBytes { found, needed });
    }
    let (found, needed) = (access.counter_bytes(), layout.counter_bytes());
    if found < needed {
        return Err(AttachError::CounterBytes { found, needed });
    }
    let depth = layout.depth();
    if window == 0 || widen(window) > u64::from(depth) {
        return Err(AttachError::Window { found: window, depth });
    }
    if widen(marks) < u64::from(depth) {
        return Err(AttachError::Marks { found: marks, depth });
    }
    // The output ring starts 32 bytes for each slot behind the input ring; everything else is 64 bytes apart.
    let line = access.line();
    let apart = |start: u64| start.is_multiple_of(line.max(1));
    if !apart(64) || !apart(layout.output_ring()) {
        return Err(AttachError::SharedLine { line, depth });
    }
    Ok(())
}

#[expect(clippy::as_conversions, reason = "no usize is wider")]
#[inline]
pub(super) const fn widen(value: usize) -> u64 {
    value as u64
}
