//! The script that both ends play, each of its calls one operation, and the memory whose accesses something can come before.

use std::collections::HashMap;
use std::time::Duration;

use bufabi_core::queue::{
    COUNTER_BYTES, Handle, Kind, L2End, L3End, Opcode, Poison, QueueLayout, ReceiveError, SendError,
};
use bufabi_core::region::AccessError;
use bufabi_tests::clock::Counted;
use bufabi_tests::memory::{AtomicMemory, Step, Watched};

pub(crate) type Before<'a> = Box<dyn FnMut(&AtomicMemory, Step) -> Result<(), AccessError> + 'a>;
pub(crate) type Memory<'a> = Watched<'a, Before<'a>>;

pub(crate) const DEPTH: u64 = 2;
pub(crate) const LIMIT: Duration = Duration::from_millis(5);

pub(crate) fn layout() -> QueueLayout {
    QueueLayout::new(DEPTH, 128, 128).unwrap()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    L3,
    L2,
}

/// One call of one end. Messages are numbered in the order in which a side receives them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Enqueue(u8),
    EnqueueWithin(u8),
    Stop,
    Peek,
    Dequeue,
    DequeueWithin,
    Receive,
    ReceiveWithin,
    Read(usize),
    Release(usize),
    Reserve(u8),
    Write(u8),
    Commit(u8),
    SendWithin(u8),
    /// Several with one publication, of these sizes.
    EnqueueAll(&'static [u8]),
    SendAll(&'static [u8]),
    /// At most so many, given back with one publication.
    DequeueEach(usize),
    ReleaseAll(&'static [usize]),
}

impl Call {
    /// The rest of it, when so many of a batch went through.
    pub(crate) fn rest(self, done: usize) -> Self {
        match self {
            Self::EnqueueAll(sizes) => Self::EnqueueAll(&sizes[done..]),
            Self::SendAll(sizes) => Self::SendAll(&sizes[done..]),
            Self::DequeueEach(at_most) => Self::DequeueEach(at_most - done),
            other => other,
        }
    }
}

/// What it came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Done,
    Message(Opcode, u64),
    Bytes(Vec<u8>),
    /// So many of a batch.
    Sent(usize),
    Taken(Vec<Vec<u8>>),
    NotSent(SendError),
    NotReceived(ReceiveError),
}

/// Every operation of both ends, full rings and arenas, empty queues, limits, STOP.
pub(crate) const SCRIPT: &[(Side, Call)] = &[
    (Side::L2, Call::Receive),
    (Side::L3, Call::Enqueue(8)),
    (Side::L3, Call::EnqueueWithin(0)),
    (Side::L3, Call::Enqueue(5)),
    (Side::L3, Call::EnqueueWithin(1)),
    (Side::L3, Call::Enqueue(255)),
    (Side::L2, Call::Receive),
    (Side::L2, Call::ReceiveWithin),
    (Side::L2, Call::Read(0)),
    (Side::L2, Call::Release(1)),
    (Side::L2, Call::Release(0)),
    (Side::L3, Call::Enqueue(128)),
    (Side::L3, Call::EnqueueWithin(1)),
    (Side::L2, Call::Receive),
    (Side::L2, Call::Read(2)),
    (Side::L2, Call::Release(2)),
    (Side::L2, Call::Reserve(128)),
    (Side::L2, Call::SendWithin(1)),
    (Side::L2, Call::Write(120)),
    (Side::L2, Call::Commit(96)),
    (Side::L2, Call::SendWithin(64)),
    (Side::L2, Call::SendWithin(32)),
    (Side::L2, Call::SendWithin(0)),
    (Side::L3, Call::Peek),
    (Side::L3, Call::Read(0)),
    (Side::L3, Call::Release(0)),
    (Side::L3, Call::Dequeue),
    (Side::L3, Call::DequeueWithin),
    (Side::L2, Call::SendWithin(100)),
    (Side::L3, Call::DequeueWithin),
    // Batches that stop in the middle: no slot, a message that is too large, no room, nothing more there.
    (Side::L3, Call::EnqueueAll(&[8, 16, 1])),
    (Side::L2, Call::Receive),
    (Side::L2, Call::Receive),
    (Side::L2, Call::ReleaseAll(&[4, 3])),
    (Side::L3, Call::EnqueueAll(&[100, 255, 1])),
    (Side::L2, Call::Receive),
    (Side::L2, Call::ReleaseAll(&[5])),
    (Side::L2, Call::SendAll(&[64, 100])),
    (Side::L2, Call::SendAll(&[32, 1, 1])),
    (Side::L3, Call::DequeueEach(1)),
    (Side::L3, Call::DequeueEach(5)),
    (Side::L3, Call::DequeueEach(5)),
    (Side::L2, Call::SendAll(&[0, 128])),
    (Side::L3, Call::DequeueEach(2)),
    (Side::L3, Call::Enqueue(100)),
    (Side::L3, Call::Stop),
    (Side::L3, Call::Enqueue(1)),
    (Side::L2, Call::Receive),
    (Side::L2, Call::ReceiveWithin),
    (Side::L2, Call::Receive),
    (Side::L2, Call::Release(7)),
    (Side::L2, Call::Read(6)),
    (Side::L2, Call::Release(6)),
    (Side::L2, Call::SendWithin(1)),
    (Side::L3, Call::Dequeue),
];

pub(crate) struct Ends<'m, 'a> {
    pub(crate) l3: L3End<&'m Memory<'a>, [u64; 2]>,
    pub(crate) l2: L2End<&'m Memory<'a>, [u64; 2], 2>,
    pub(crate) received: HashMap<(bool, usize), Handle>,
    pub(crate) counts: [usize; 2],
    pub(crate) reservation: Option<bufabi_core::queue::Reservation>,
}

pub(crate) fn pattern(nbytes: u8) -> Vec<u8> {
    (0..nbytes).map(|at| at.wrapping_mul(3) ^ nbytes).collect()
}

impl<'m, 'a> Ends<'m, 'a> {
    pub(crate) fn new(l3: &'m Memory<'a>, l2: &'m Memory<'a>) -> Self {
        Self {
            l3: L3End::new(layout(), l3, [0; 2]).unwrap(),
            l2: L2End::new(layout(), l2, [0; 2]).unwrap(),
            received: HashMap::new(),
            counts: [0; 2],
            reservation: None,
        }
    }

    pub(crate) fn remember(&mut self, side: Side, handle: Handle) {
        let is_l2 = side == Side::L2;
        let count = &mut self.counts[usize::from(is_l2)];
        self.received.insert((is_l2, *count), handle);
        *count += 1;
    }

    /// A message that never came has a handle that is none.
    pub(crate) fn handle(&self, side: Side, number: usize) -> Option<Handle> {
        self.received.get(&(side == Side::L2, number)).copied()
    }

    pub(crate) fn play(&mut self, side: Side, call: Call) -> Answer {
        let mut clock = Counted::default();
        let answer = self.answer(side, call, &mut clock);
        assert!(clock.pauses <= 5, "{call:?} waited past its limit");
        answer
    }

    pub(crate) fn answer(&mut self, side: Side, call: Call, clock: &mut Counted) -> Answer {
        let mut out = [0; 128];
        let send = |outcome: Result<(), SendError>| outcome.map_or_else(Answer::NotSent, |()| Answer::Done);
        match (side, call) {
            (Side::L3, Call::Enqueue(nbytes)) => send(self.l3.try_enqueue(Kind::Data, &pattern(nbytes))),
            (Side::L3, Call::EnqueueWithin(nbytes)) => {
                send(self.l3.enqueue(Kind::Error, &pattern(nbytes), LIMIT, clock))
            }
            (Side::L3, Call::Stop) => send(self.l3.request_stop(LIMIT, clock)),
            (Side::L3, Call::Peek) => match self.l3.try_peek() {
                Ok(message) => {
                    self.remember(side, message.handle());
                    Answer::Message(message.opcode(), message.nbytes())
                }
                Err(error) => Answer::NotReceived(error),
            },
            (Side::L3, Call::Dequeue | Call::DequeueWithin) => {
                let within = matches!(call, Call::DequeueWithin);
                let outcome = if within {
                    self.l3.dequeue_into(&mut out, LIMIT, clock)
                } else {
                    self.l3.try_dequeue_into(&mut out)
                };
                match outcome {
                    Ok((_, nbytes)) => Answer::Bytes(out[..nbytes].to_vec()),
                    Err(error) => Answer::NotReceived(error),
                }
            }
            (Side::L2, Call::Receive | Call::ReceiveWithin) => {
                let within = matches!(call, Call::ReceiveWithin);
                let outcome = if within { self.l2.receive(LIMIT, clock) } else { self.l2.try_receive() };
                match outcome {
                    Ok(message) => {
                        self.remember(side, message.handle());
                        Answer::Message(message.opcode(), message.nbytes())
                    }
                    Err(error) => Answer::NotReceived(error),
                }
            }
            (_, Call::Read(number)) => {
                let Some(handle) = self.handle(side, number) else { return Answer::Done };
                let outcome = match side {
                    Side::L3 => self.l3.read_into(handle, &mut out),
                    Side::L2 => self.l2.read_into(handle, &mut out),
                };
                match outcome {
                    Ok(nbytes) => Answer::Bytes(out[..nbytes].to_vec()),
                    Err(error) => Answer::NotReceived(error),
                }
            }
            (_, Call::Release(number)) => {
                let Some(handle) = self.handle(side, number) else { return Answer::Done };
                let outcome = match side {
                    Side::L3 => self.l3.release(handle),
                    Side::L2 => self.l2.release(handle),
                };
                outcome.map_or_else(Answer::NotReceived, |()| Answer::Done)
            }
            (Side::L2, Call::Reserve(nbytes)) => match self.l2.try_reserve(u64::from(nbytes)) {
                Ok(reservation) => {
                    self.reservation = Some(reservation);
                    Answer::Done
                }
                Err(error) => Answer::NotSent(error),
            },
            (Side::L2, Call::Write(nbytes)) => {
                let Some(reservation) = &self.reservation else { return Answer::Done };
                send(self.l2.write(reservation, 0, &pattern(nbytes)))
            }
            (Side::L2, Call::Commit(nbytes)) => {
                let Some(reservation) = &self.reservation else { return Answer::Done };
                send(self.l2.commit(reservation, Kind::Data, u64::from(nbytes)))
            }
            (Side::L2, Call::SendWithin(nbytes)) => {
                send(self.l2.send(Kind::Data, &pattern(nbytes), LIMIT, clock))
            }
            (_, Call::EnqueueAll(_) | Call::SendAll(_) | Call::DequeueEach(_) | Call::ReleaseAll(_)) => {
                self.answer_batch(side, call)
            }
            other => unreachable!("{other:?} is in no script"),
        }
    }

    fn answer_batch(&mut self, side: Side, call: Call) -> Answer {
        let messages = |sizes: &'static [u8]| sizes.iter().map(|&nbytes| pattern(nbytes));
        match (side, call) {
            (Side::L3, Call::EnqueueAll(sizes)) => self
                .l3
                .try_enqueue_all(Kind::Data, messages(sizes))
                .map_or_else(Answer::NotSent, Answer::Sent),
            (Side::L2, Call::SendAll(sizes)) => {
                self.l2.try_send_all(Kind::Error, messages(sizes)).map_or_else(Answer::NotSent, Answer::Sent)
            }
            (Side::L3, Call::DequeueEach(at_most)) => {
                let mut taken = Vec::new();
                let each = |_: Opcode, bytes: &[u8]| taken.push(bytes.to_vec());
                match self.l3.try_dequeue_each(&mut [0; 128], at_most, each) {
                    Ok(count) => {
                        assert_eq!(count, taken.len());
                        Answer::Taken(taken)
                    }
                    Err(error) => Answer::NotReceived(error),
                }
            }
            (Side::L2, Call::ReleaseAll(numbers)) => {
                let handles = numbers.iter().filter_map(|&number| self.handle(side, number));
                let handles: Vec<Handle> = handles.collect();
                if handles.is_empty() {
                    return Answer::Done;
                }
                self.l2.release_all(&handles).map_or_else(Answer::NotReceived, |()| Answer::Done)
            }
            other => unreachable!("{other:?} is in no script"),
        }
    }

    pub(crate) fn poison(&self, side: Side) -> Option<Poison> {
        match side {
            Side::L3 => self.l3.poison(),
            Side::L2 => self.l2.poison(),
        }
    }
}

pub(crate) fn honest<'a>() -> Before<'a> {
    Box::new(|_, _| Ok(()))
}

/// Plays the script with `before` called before each access of `victim`; tells each answer of it to `each`.
pub(crate) fn play<'a>(
    memory: &'a AtomicMemory,
    victim: Side,
    before: Before<'a>,
    mut each: impl FnMut(&mut Ends<'_, '_>, Side, Call, Answer),
) -> u64 {
    let (watched, other) = (Watched::new(memory, before), Watched::new(memory, honest()));
    let mut ends = match victim {
        Side::L3 => Ends::new(&watched, &other),
        Side::L2 => Ends::new(&other, &watched),
    };
    for &(side, call) in SCRIPT {
        let answer = ends.play(side, call);
        each(&mut ends, side, call, answer);
    }
    watched.steps()
}

pub(crate) fn new_memory() -> AtomicMemory {
    AtomicMemory::new(layout().payload_bytes(), COUNTER_BYTES)
}

pub(crate) fn clean_answers() -> Vec<Answer> {
    let memory = new_memory();
    let mut answers = Vec::new();
    play(&memory, Side::L3, honest(), |ends, _, _, answer| {
        assert_eq!((ends.poison(Side::L3), ends.poison(Side::L2)), (None, None));
        answers.push(answer);
    });
    answers
}

pub(crate) fn steps(victim: Side) -> u64 {
    let memory = new_memory();
    play(&memory, victim, honest(), |_, _, _, _| {})
}
