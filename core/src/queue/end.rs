//! What both ends are made of: a producer, a consumer, and the one place where a queue ends.

use core::time::Duration;

use super::consumer::{Consumer, Handle, Message, Outcome};
use super::error::{AttachError, ReceiveError, SendError};
use super::layout::{QueueLayout, counters};
use super::poison::{Poison, Setback};
use super::producer::{Plan, Producer};
use super::ring::{Ring, low};
use super::slot::{Kind, Opcode};
use crate::region::{AccessError, Clock, Patience, Place, RegionAccess, Watch};

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
    number: u64,
    place: Place,
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

/// What stands on a side's own line, and the other side's abort flag.
#[derive(Clone, Copy)]
struct Side {
    abort: u64,
    sleeps: u64,
    peer_abort: u64,
}

const L3: Side =
    Side { abort: counters::L3_ABORT, sleeps: counters::L3_SLEEPS, peer_abort: counters::L2_ABORT };
const L2: Side =
    Side { abort: counters::L2_ABORT, sleeps: counters::L2_SLEEPS, peer_abort: counters::L3_ABORT };

/// One end, with a window of `N` received messages.
pub(super) struct End<A, M, const N: usize> {
    access: A,
    producer: Producer<M>,
    consumer: Consumer<N>,
    side: Side,
    poison: Option<Poison>,
    stop_is_sent: bool,
    open: Option<Plan>,
    /// Reservations made; the open one has this number.
    reservations: u64,
}

impl<A: RegionAccess, M: AsRef<[u64]> + AsMut<[u64]>, const N: usize> End<A, M, N> {
    pub(super) fn l3(layout: QueueLayout, access: A, marks: M, counts: Counts) -> Result<Self, AttachError> {
        check(layout, &access, marks.as_ref().len(), N)?;
        let producer = Producer::new(Ring::input(layout, counters::L2_SLEEPS), marks, counts.input);
        let consumer = Consumer::new(Ring::output(layout, counters::L2_SLEEPS), counts.output);
        Ok(Self::new(access, producer, consumer, L3))
    }

    pub(super) fn l2(layout: QueueLayout, access: A, marks: M, counts: Counts) -> Result<Self, AttachError> {
        check(layout, &access, marks.as_ref().len(), N)?;
        let producer = Producer::new(Ring::output(layout, counters::L3_SLEEPS), marks, counts.output);
        let consumer = Consumer::new(Ring::input(layout, counters::L3_SLEEPS), counts.input);
        Ok(Self::new(access, producer, consumer, L2))
    }

    const fn new(access: A, producer: Producer<M>, consumer: Consumer<N>, side: Side) -> Self {
        Self {
            access,
            producer,
            consumer,
            side,
            poison: None,
            stop_is_sent: false,
            open: None,
            reservations: 0,
        }
    }

    // Sending.

    #[inline]
    fn plan(&mut self, nbytes: u64) -> Result<Plan, SendError> {
        self.check_alive::<SendError>()?;
        if self.stop_is_sent {
            return Err(SendError::Stopped);
        }
        if self.open.is_some() {
            return Err(SendError::Reserved);
        }
        let arena_bytes = self.producer.arena_bytes();
        if nbytes > arena_bytes {
            return Err(SendError::TooLarge { nbytes, arena_bytes });
        }
        match self.producer.plan(&self.access, nbytes) {
            Ok(Ok(plan)) => Ok(plan),
            Ok(Err(full)) => Err(match self.peer_aborted() {
                Ok(false) => SendError::Full(full),
                Ok(true) => SendError::PeerAborted,
                Err(error) => SendError::Access(error),
            }),
            Err(setback) => Err(self.fail(setback)),
        }
    }

    #[inline]
    pub(super) fn try_send(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), SendError> {
        let plan = self.plan(widen(bytes.len()))?;
        if !bytes.is_empty() {
            self.access.write(self.producer.place(plan).offset, bytes).map_err(SendError::Access)?;
        }
        self.finish(plan, kind.opcode())
    }

    #[inline]
    fn finish(&mut self, plan: Plan, opcode: Opcode) -> Result<(), SendError> {
        match self.producer.send(&self.access, plan, opcode) {
            Ok(()) => Ok(()),
            Err(setback) => Err(self.fail(setback)),
        }
    }

    pub(super) fn try_stop(&mut self) -> Result<(), SendError> {
        let plan = self.plan(0)?;
        self.finish(plan, Opcode::Stop)?;
        self.stop_is_sent = true;
        Ok(())
    }

    pub(super) fn try_reserve(&mut self, nbytes: u64) -> Result<Reservation, SendError> {
        let plan = self.plan(nbytes)?;
        self.open = Some(plan);
        self.reservations = self.reservations.wrapping_add(1);
        Ok(Reservation { number: self.reservations, place: self.producer.place(plan) })
    }

    pub(super) fn write(&mut self, reservation: u64, start: u64, bytes: &[u8]) -> Result<(), SendError> {
        let plan = self.current(reservation)?;
        let nbytes = widen(bytes.len());
        if plan.nbytes.checked_sub(start).is_none_or(|room| nbytes > room) {
            return Err(SendError::OutsideReservation { start, nbytes, reserved: plan.nbytes });
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let offset = self.producer.place(plan).offset.wrapping_add(start);
        self.access.write(offset, bytes).map_err(SendError::Access)
    }

    pub(super) fn commit(&mut self, reservation: u64, kind: Kind, nbytes: u64) -> Result<(), SendError> {
        let plan = self.current(reservation)?;
        let Some(shortened) = plan.shortened(nbytes) else {
            return Err(SendError::OutsideReservation { start: 0, nbytes, reserved: plan.nbytes });
        };
        self.finish(shortened, kind.opcode())?;
        self.open = None;
        Ok(())
    }

    pub(super) fn cancel(&mut self, reservation: u64) -> Result<(), SendError> {
        self.current(reservation)?;
        self.open = None;
        Ok(())
    }

    fn current(&mut self, reservation: u64) -> Result<Plan, SendError> {
        self.check_alive::<SendError>()?;
        match self.open {
            Some(plan) if reservation == self.reservations => Ok(plan),
            _ => Err(self.fail(Poison::Handle { found: reservation }.into())),
        }
    }

    /// Tries until something else comes of it than a lack of room, or the limit is over.
    #[inline]
    pub(super) fn send_within<T>(
        &mut self,
        limit: Duration,
        clock: &mut impl Clock,
        mut attempt: impl FnMut(&mut Self) -> Result<T, SendError>,
    ) -> Result<T, SendError> {
        self.check_alive::<SendError>()?;
        if self.peer_aborted().map_err(SendError::Access)? {
            return Err(SendError::PeerAborted);
        }
        let mut patience = Patience::new(limit);
        loop {
            match attempt(self) {
                Err(SendError::Full(full)) => {
                    let ring = self.producer.ring;
                    let seen = low(self.producer.freed());
                    let watch = Watch { counter: ring.head, seen, sleep_flag: Some(self.side.sleeps) };
                    if !patience.again(clock, watch) {
                        return Err(SendError::TimedOut(full));
                    }
                }
                outcome => return outcome,
            }
        }
    }

    // Receiving.

    #[inline]
    pub(super) fn try_receive(&mut self) -> Result<Message, ReceiveError> {
        self.check_alive::<ReceiveError>()?;
        match self.consumer.receive(&self.access) {
            Ok(Outcome::Message(message)) => Ok(message),
            Ok(Outcome::WindowFull) => Err(ReceiveError::WindowFull { window: N }),
            Ok(Outcome::Stopped) => Err(ReceiveError::Stopped),
            Ok(Outcome::Empty) => Err(match self.peer_aborted() {
                Ok(false) => ReceiveError::Empty,
                Ok(true) => ReceiveError::PeerAborted,
                Err(error) => ReceiveError::Access(error),
            }),
            Err(setback) => Err(self.fail(setback)),
        }
    }

    /// The oldest message that was received and not given back, or else the next one.
    #[inline]
    pub(super) fn try_peek(&mut self) -> Result<Message, ReceiveError> {
        self.check_alive::<ReceiveError>()?;
        match self.consumer.oldest() {
            Some(message) => Ok(message),
            None => self.try_receive(),
        }
    }

    #[inline]
    pub(super) fn read_into(&mut self, handle: Handle, out: &mut [u8]) -> Result<usize, ReceiveError> {
        self.check_alive::<ReceiveError>()?;
        let place = match self.consumer.place(handle) {
            Ok(place) => place,
            Err(poison) => return Err(self.fail(poison.into())),
        };
        let capacity = out.len();
        let out = usize::try_from(place.nbytes).ok().and_then(|nbytes| out.get_mut(..nbytes));
        let out = out.ok_or(ReceiveError::TooSmall { needed: place.nbytes, capacity })?;
        if !out.is_empty() {
            self.access.read(place.offset, out).map_err(ReceiveError::Access)?;
        }
        Ok(out.len())
    }

    #[inline]
    pub(super) fn release(&mut self, handle: Handle) -> Result<(), ReceiveError> {
        self.check_alive::<ReceiveError>()?;
        match self.consumer.give_back(&self.access, handle) {
            Ok(()) => Ok(()),
            Err(setback) => Err(self.fail(setback)),
        }
    }

    /// Tries until something else comes of it than that no message is there, or the limit is over.
    #[inline]
    pub(super) fn receive_within<T>(
        &mut self,
        limit: Duration,
        clock: &mut impl Clock,
        mut attempt: impl FnMut(&mut Self) -> Result<T, ReceiveError>,
    ) -> Result<T, ReceiveError> {
        self.check_alive::<ReceiveError>()?;
        if self.peer_aborted().map_err(ReceiveError::Access)? {
            return Err(ReceiveError::PeerAborted);
        }
        let mut patience = Patience::new(limit);
        loop {
            match attempt(self) {
                Err(ReceiveError::Empty) => {
                    let ring = self.consumer.ring;
                    let seen = low(self.consumer.tail());
                    let watch = Watch { counter: ring.tail, seen, sleep_flag: Some(self.side.sleeps) };
                    if !patience.again(clock, watch) {
                        return Err(ReceiveError::TimedOut);
                    }
                }
                outcome => return outcome,
            }
        }
    }

    pub(super) const fn is_drained(&self) -> bool {
        self.consumer.is_drained()
    }

    // The end of the queue.

    pub(super) const fn poison(&self) -> Option<Poison> {
        self.poison
    }

    #[inline]
    fn check_alive<E: From<Setback>>(&self) -> Result<(), E> {
        match &self.poison {
            None => Ok(()),
            Some(poison) => Err(ended(poison)),
        }
    }

    pub(super) fn peer_aborted(&self) -> Result<bool, AccessError> {
        Ok(self.access.load(self.side.peer_abort)? != 0)
    }

    /// Keeps the first cause and tells the other side.
    #[cold]
    fn fail<E: From<Setback>>(&mut self, setback: Setback) -> E {
        if let Setback::Poison(poison) = setback {
            // What the memory says to this is not the first cause.
            let _ = self.end(poison);
        }
        setback.into()
    }

    pub(super) fn abort(&mut self) -> Result<(), AccessError> {
        self.end(Poison::Aborted)
    }

    fn end(&mut self, cause: Poison) -> Result<(), AccessError> {
        self.poison.get_or_insert(cause);
        self.access.store(self.side.abort, 1)?;
        // The other side sleeps, if it does, until one of this side's counts moves.
        let (sending, receiving) = (&self.producer.ring, &self.consumer.ring);
        self.access.wake(sending.tail, sending.peer_sleeps);
        self.access.wake(receiving.head, receiving.peer_sleeps);
        Ok(())
    }

    pub(super) const fn access(&self) -> &A {
        &self.access
    }

    pub(super) fn into_access(self) -> A {
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
    if A::LINE > 64 || !layout.output_ring().is_multiple_of(A::LINE.max(1)) {
        return Err(AttachError::SharedLine { line: A::LINE, depth });
    }
    Ok(())
}

#[expect(clippy::as_conversions, reason = "no usize is wider")]
const fn widen(value: usize) -> u64 {
    value as u64
}
