//! Both ends beside their model: every step is made on both, and what they say is compared.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bufabi_core::queue::{
    Counts, Kind, L2End, L3End, Message, Opcode, QueueLayout, ReceiveError, Reservation, SendError, counters,
};
use bufabi_core::region::{Place, RegionAccess};
use bufabi_tests::clock::Counted;
use bufabi_tests::memory::AtomicMemory;

use crate::direction::Direction;

pub(crate) const WINDOW: usize = 3;
pub(crate) type Host<'a> = L3End<&'a AtomicMemory, Vec<u64>>;
pub(crate) type Task<'a> = L2End<&'a AtomicMemory, Vec<u64>, WINDOW>;

pub(crate) fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap()
}

/// Both ends, the model of both directions, and the memory in between.
pub(crate) struct World<'a> {
    pub(crate) memory: &'a AtomicMemory,
    pub(crate) host: Host<'a>,
    pub(crate) task: Task<'a>,
    pub(crate) input: Direction,
    pub(crate) output: Direction,
    pub(crate) reservation: Option<(Reservation, Vec<u8>)>,
    pub(crate) sent: u64,
    pub(crate) refused: u64,
}

/// A step of one side.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Enqueue(u64),
    Stop,
    Peek,
    HostRelease,
    Dequeue(u64),
    Receive,
    Release(u64),
    Send(u64),
    Reserve(u64),
    Commit(u64),
    Cancel,
    /// So many inputs with one publication, of that size, which may be too large, and of smaller ones, in an order that changes.
    EnqueueAll(usize, u64),
    /// The same of outputs.
    SendAll(usize, u64),
    /// At most that many outputs with one publication.
    DequeueEach(usize),
    /// Everything that L2 holds, from that one on around, with one publication.
    ReleaseAll(usize),
}

/// Bytes that differ from message to message.
pub(crate) fn bytes(seed: u64, nbytes: u64) -> Vec<u8> {
    const PATTERN: [u8; 2048] = {
        let mut pattern = [0; 2048];
        let mut at = 0;
        while at < 2048 {
            pattern[at] = (at * 7 % 251).to_le_bytes()[0];
            at += 1;
        }
        pattern
    };
    let from = usize::try_from(seed * 31 % 251).unwrap();
    PATTERN[from..from + usize::try_from(nbytes).unwrap()].to_vec()
}

impl<'a> World<'a> {
    pub(crate) fn new(memory: &'a AtomicMemory, layout: QueueLayout, counts: Counts) -> Self {
        let depth = usize::try_from(layout.depth()).unwrap();
        for (counter, count) in [
            (counters::INPUT_TAIL, counts.input),
            (counters::INPUT_HEAD, counts.input),
            (counters::OUTPUT_TAIL, counts.output),
            (counters::OUTPUT_HEAD, counts.output),
        ] {
            memory.counter(counter).store(u32::try_from(count & 0xffff_ffff).unwrap(), Ordering::Relaxed);
        }
        Self {
            memory,
            host: Host::starting_at(layout, memory, vec![0; depth], counts).unwrap(),
            task: Task::starting_at(layout, memory, vec![0; depth], counts).unwrap(),
            input: Direction::new(depth, layout.input_arena(), WINDOW, counts.input),
            output: Direction::new(depth, layout.output_arena(), 1, counts.output),
            reservation: None,
            sent: 0,
            refused: 0,
        }
    }

    pub(crate) fn counted<T>(&mut self, outcome: Result<T, impl std::fmt::Debug>) {
        if outcome.is_ok() { self.sent += 1 } else { self.refused += 1 }
    }

    /// The place that the newest slot of a direction announces.
    pub(crate) fn announced(&self, ring: u64, direction: &Direction) -> Place {
        let slot = ring + direction.count % u64::try_from(direction.depth).unwrap() * 32;
        let word = |at: u64| self.memory.word(slot + at).load(Ordering::Relaxed);
        assert_eq!(word(0), direction.count.wrapping_add(1), "sequence");
        Place { offset: word(16), nbytes: word(24) }
    }

    pub(crate) fn step(&mut self, layout: QueueLayout, operation: Operation) {
        let seed = self.sent;
        match operation {
            Operation::Enqueue(nbytes) => {
                let bytes = bytes(seed, nbytes);
                let kind = if nbytes % 5 == 4 { Kind::Error } else { Kind::Data };
                let outcome = self.host.try_enqueue(kind, &bytes);
                assert_eq!(outcome.err(), self.input.refusal(nbytes), "{operation:?}");
                if outcome.is_ok() {
                    let place = self.announced(layout.input_ring(), &self.input);
                    let opcode = if kind == Kind::Data { Opcode::Data } else { Opcode::Error };
                    self.input.sent(opcode, bytes, place);
                }
                self.counted(outcome);
            }
            Operation::Stop => {
                let outcome = self.host.request_stop(Duration::ZERO, &mut Counted::default());
                let expected = match self.input.refusal(0) {
                    Some(SendError::Full(full)) => Some(SendError::TimedOut(full)),
                    other => other,
                };
                assert_eq!(outcome.err(), expected);
                if outcome.is_ok() {
                    self.input.sent(Opcode::Stop, Vec::new(), Place::NOTHING);
                }
                self.counted(outcome);
            }
            Operation::Peek => self.peek(),
            Operation::HostRelease => {
                if let Some(&index) = self.output.held().first() {
                    self.host.release(self.output.flight[index].handle.unwrap()).unwrap();
                    self.output.released(index);
                }
            }
            Operation::Dequeue(capacity) => {
                let mut out = vec![0; usize::try_from(capacity).unwrap()];
                let outcome = self.host.try_dequeue_into(&mut out);
                let Some(sent) = self.output.flight.front().cloned() else {
                    assert_eq!(outcome, Err(ReceiveError::Empty));
                    return;
                };
                let needed = length(&sent.bytes);
                // Whatever came of it, the message was looked at.
                let first = self.output.received == 0;
                if needed > capacity {
                    assert_eq!(outcome, Err(ReceiveError::TooSmall { needed, capacity: out.len() }));
                    let message = self.host.try_peek().unwrap();
                    if first {
                        self.output.received(message);
                    }
                } else {
                    assert_eq!(outcome, Ok((sent.opcode, sent.bytes.len())));
                    assert_eq!(out[..sent.bytes.len()], sent.bytes);
                    if first {
                        self.output.received += 1;
                    }
                    self.output.released(0);
                }
            }
            Operation::Receive => {
                let outcome = self.task.try_receive();
                assert_eq!(outcome.err(), self.input.receive_refusal());
                if let Ok(message) = outcome {
                    self.input.received(message);
                    self.check_bytes(message);
                }
            }
            Operation::Release(which) => {
                let held = self.input.held();
                if held.is_empty() {
                    return;
                }
                let index = held[usize::try_from(which).unwrap() % held.len()];
                let sent = &self.input.flight[index];
                // Nothing that is held was overwritten since.
                let mut out = vec![0; sent.bytes.len()];
                self.task.read_into(sent.handle.unwrap(), &mut out).unwrap();
                assert_eq!(out, sent.bytes);
                self.task.release(sent.handle.unwrap()).unwrap();
                self.input.released(index);
                assert_eq!(self.task.is_drained(), self.input.stopped && self.input.flight.is_empty());
            }
            Operation::Send(nbytes) => {
                let bytes = bytes(seed, nbytes);
                let outcome = self.task.try_send(Kind::Data, &bytes);
                assert_eq!(outcome.err(), self.output_refusal(nbytes));
                if outcome.is_ok() {
                    let place = self.announced(layout.output_ring(), &self.output);
                    self.output.sent(Opcode::Data, bytes, place);
                }
                self.counted(outcome);
            }
            Operation::Reserve(nbytes) => {
                let outcome = self.task.try_reserve(nbytes);
                assert_eq!(outcome.err(), self.output_refusal(nbytes));
                if let Ok(reservation) = outcome {
                    let bytes = bytes(seed, nbytes);
                    assert_eq!(reservation.place().nbytes, nbytes);
                    let (early, late) = bytes.split_at(bytes.len() / 2);
                    self.task.write(&reservation, length(early), late).unwrap();
                    self.task.write(&reservation, 0, early).unwrap();
                    let outside = self.task.write(&reservation, nbytes, &[0]);
                    assert!(matches!(outside, Err(SendError::OutsideReservation { .. })));
                    self.reservation = Some((reservation, bytes));
                }
            }
            Operation::Commit(fewer) => {
                let Some((reservation, mut bytes)) = self.reservation.take() else { return };
                let reserved = length(&bytes);
                let outside = self.task.commit(&reservation, Kind::Error, reserved + 1);
                let nbytes = reserved + 1;
                assert_eq!(outside, Err(SendError::OutsideReservation { start: 0, nbytes, reserved }));
                bytes.truncate(bytes.len() - usize::try_from(fewer).unwrap() % (bytes.len() + 1));
                self.task.commit(&reservation, Kind::Error, length(&bytes)).unwrap();
                let place = self.announced(layout.output_ring(), &self.output);
                self.output.sent(Opcode::Error, bytes, place);
                self.sent += 1;
            }
            Operation::EnqueueAll(count, nbytes) => self.enqueue_all(layout, count, nbytes),
            Operation::SendAll(count, nbytes) => self.send_all(layout, count, nbytes),
            Operation::DequeueEach(at_most) => self.dequeue_each(at_most),
            Operation::ReleaseAll(from) => self.release_all(from),
            Operation::Cancel => {
                if let Some((reservation, _)) = self.reservation.take() {
                    self.task.cancel(&reservation).unwrap();
                }
            }
        }
        assert_eq!((self.host.poison(), self.task.poison()), (None, None));
        self.check_told();
    }

    pub(crate) fn output_refusal(&self, nbytes: u64) -> Option<SendError> {
        if self.reservation.is_some() { Some(SendError::Reserved) } else { self.output.refusal(nbytes) }
    }

    pub(crate) fn peek(&mut self) {
        let outcome = self.host.try_peek();
        if self.output.flight.is_empty() {
            assert_eq!(outcome, Err(ReceiveError::Empty));
            return;
        }
        let message = outcome.unwrap();
        if self.output.received == 0 {
            self.output.received(message);
        }
        let sent = &self.output.flight[0];
        assert_eq!((sent.handle, sent.place), (Some(message.handle()), message.place()));
        let mut out = vec![0; sent.bytes.len() + 1];
        assert_eq!(self.host.read_into(message.handle(), &mut out), Ok(sent.bytes.len()));
        assert_eq!(out[..sent.bytes.len()], sent.bytes);
    }

    /// What a received message's place holds is what was sent.
    pub(crate) fn check_bytes(&self, message: Message) {
        let sent = &self.input.flight[self.input.received - 1];
        let mut out = vec![0; sent.bytes.len()];
        self.memory.read(message.place().offset, &mut out).unwrap();
        assert_eq!(out, sent.bytes);
    }

    /// Everything in flight is received and given back.
    pub(crate) fn drain(&mut self, layout: QueueLayout) {
        self.step(layout, Operation::Cancel);
        while !self.input.flight.is_empty() {
            if self.input.receive_refusal().is_none() {
                self.step(layout, Operation::Receive);
            }
            self.step(layout, Operation::Release(0));
        }
        while !self.output.flight.is_empty() {
            self.step(layout, Operation::Dequeue(1 << 12));
        }
    }
}
