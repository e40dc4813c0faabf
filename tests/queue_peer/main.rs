//! A peer that is hostile, a memory that fails, a side that gives up: at every single access of a script that both ends play.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unreachable,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "what a test did not expect fails it"
)]

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bufabi_core::queue::{
    COUNTER_BYTES, Handle, Kind, L2End, L3End, Opcode, Poison, QueueLayout, ReceiveError, SendError, counters,
};
use bufabi_core::region::{AccessError, Place};
use bufabi_tests::clock::Counted;
use bufabi_tests::memory::{AtomicMemory, Step, Watched};

type Before<'a> = Box<dyn FnMut(&AtomicMemory, Step) -> Result<(), AccessError> + 'a>;
type Memory<'a> = Watched<'a, Before<'a>>;

const DEPTH: u64 = 2;
const LIMIT: Duration = Duration::from_millis(5);

fn layout() -> QueueLayout {
    QueueLayout::new(DEPTH, 128, 128).unwrap()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    L3,
    L2,
}

/// One call of one end. Messages are numbered in the order in which a side receives them.
#[derive(Clone, Copy, Debug)]
enum Call {
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
}

/// What it came to.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Answer {
    Done,
    Message(Opcode, u64),
    Bytes(Vec<u8>),
    NotSent(SendError),
    NotReceived(ReceiveError),
}

/// Every operation of both ends, full rings and arenas, empty queues, limits, STOP.
const SCRIPT: &[(Side, Call)] = &[
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
    (Side::L3, Call::Enqueue(100)),
    (Side::L3, Call::Stop),
    (Side::L3, Call::Enqueue(1)),
    (Side::L2, Call::Receive),
    (Side::L2, Call::ReceiveWithin),
    (Side::L2, Call::Receive),
    (Side::L2, Call::Release(4)),
    (Side::L2, Call::Read(3)),
    (Side::L2, Call::Release(3)),
    (Side::L2, Call::SendWithin(1)),
    (Side::L3, Call::Dequeue),
];

struct Ends<'m, 'a> {
    l3: L3End<&'m Memory<'a>, [u64; 2]>,
    l2: L2End<&'m Memory<'a>, [u64; 2], 2>,
    received: HashMap<(bool, usize), Handle>,
    counts: [usize; 2],
    reservation: Option<bufabi_core::queue::Reservation>,
}

fn pattern(nbytes: u8) -> Vec<u8> {
    (0..nbytes).map(|at| at.wrapping_mul(3) ^ nbytes).collect()
}

impl<'m, 'a> Ends<'m, 'a> {
    fn new(l3: &'m Memory<'a>, l2: &'m Memory<'a>) -> Self {
        Self {
            l3: L3End::new(layout(), l3, [0; 2]).unwrap(),
            l2: L2End::new(layout(), l2, [0; 2]).unwrap(),
            received: HashMap::new(),
            counts: [0; 2],
            reservation: None,
        }
    }

    fn remember(&mut self, side: Side, handle: Handle) {
        let is_l2 = side == Side::L2;
        let count = &mut self.counts[usize::from(is_l2)];
        self.received.insert((is_l2, *count), handle);
        *count += 1;
    }

    /// A message that never came has a handle that is none.
    fn handle(&self, side: Side, number: usize) -> Option<Handle> {
        self.received.get(&(side == Side::L2, number)).copied()
    }

    fn play(&mut self, side: Side, call: Call) -> Answer {
        let mut clock = Counted::default();
        let answer = self.answer(side, call, &mut clock);
        assert!(clock.pauses <= 5, "{call:?} waited past its limit");
        answer
    }

    fn answer(&mut self, side: Side, call: Call, clock: &mut Counted) -> Answer {
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
            other => unreachable!("{other:?} is in no script"),
        }
    }

    fn poison(&self, side: Side) -> Option<Poison> {
        match side {
            Side::L3 => self.l3.poison(),
            Side::L2 => self.l2.poison(),
        }
    }
}

fn honest<'a>() -> Before<'a> {
    Box::new(|_, _| Ok(()))
}

/// Plays the script with `before` called before each access of `victim`; tells each answer of it to `each`.
fn play<'a>(
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

fn new_memory() -> AtomicMemory {
    AtomicMemory::new(layout().payload_bytes(), COUNTER_BYTES)
}

fn clean_answers() -> Vec<Answer> {
    let memory = new_memory();
    let mut answers = Vec::new();
    play(&memory, Side::L3, honest(), |ends, _, _, answer| {
        assert_eq!((ends.poison(Side::L3), ends.poison(Side::L2)), (None, None));
        answers.push(answer);
    });
    answers
}

fn steps(victim: Side) -> u64 {
    let memory = new_memory();
    play(&memory, victim, honest(), |_, _, _, _| {})
}

const fn flags(side: Side) -> (u64, u64) {
    match side {
        Side::L3 => (counters::L3_ABORT, counters::L2_ABORT),
        Side::L2 => (counters::L2_ABORT, counters::L3_ABORT),
    }
}

#[test]
fn the_script_reaches_every_kind_of_answer() {
    use bufabi_core::queue::Full;
    let answers = clean_answers();
    for expected in [
        Answer::NotSent(SendError::Full(Full::Ring)),
        Answer::NotSent(SendError::TimedOut(Full::Ring)),
        Answer::NotSent(SendError::TimedOut(Full::Arena)),
        Answer::NotSent(SendError::TooLarge { nbytes: 255, arena_bytes: 128 }),
        Answer::NotSent(SendError::Reserved),
        Answer::NotSent(SendError::Stopped),
        Answer::NotReceived(ReceiveError::Empty),
        Answer::NotReceived(ReceiveError::TimedOut),
        Answer::NotReceived(ReceiveError::Stopped),
        Answer::Message(Opcode::Stop, 0),
        Answer::Message(Opcode::Data, 128),
        Answer::Message(Opcode::Error, 0),
        Answer::Bytes(pattern(128)),
    ] {
        assert!(answers.contains(&expected), "{expected:?} is not in {answers:?}");
    }
}

/// Everything that stands in shared memory, each with values that are near a border of some rule.
fn corruptions() -> Vec<(bool, u64, u64)> {
    let layout = layout();
    let mut corruptions = Vec::new();
    for counter in (0..6).map(|line| line * 64) {
        for value in [0, 1, 2, 3, 4, 5, 1 << 31, (1 << 31) + 2, u64::from(u32::MAX), u64::from(u32::MAX) - 1]
        {
            corruptions.push((true, counter, value));
        }
    }
    let words = [
        vec![0, 1, 2, 3, 4, 5, 6, 1 << 32 | 1, u64::MAX],
        vec![0, 1, 2, 3, 4, 1 << 32 | 1, u64::MAX],
        vec![0, 1, 127, 128, 129, 255, 256, 257, 383, 384, u64::MAX, u64::MAX - 127],
        vec![0, 1, 64, 127, 128, 129, 1 << 32, u64::MAX, u64::MAX - 255],
    ];
    for ring in [layout.input_ring(), layout.output_ring()] {
        for slot in 0..DEPTH {
            for (word, values) in (0..).zip(&words) {
                corruptions.extend(values.iter().map(|&value| (false, ring + slot * 32 + word * 8, value)));
            }
        }
    }
    corruptions
}

#[test]
fn whatever_a_hostile_peer_writes_and_when_an_end_answers_or_ends_with_the_first_cause() {
    let mut causes = HashMap::new();
    for victim in [Side::L3, Side::L2] {
        let clean_steps = steps(victim);
        for at in 0..clean_steps {
            for (is_counter, offset, value) in corruptions() {
                let memory = new_memory();
                let number = Cell::new(0);
                // Watched refuses every access outside the parts.
                let before: Before<'_> = Box::new(|memory, _| {
                    if number.replace(number.get() + 1) == at {
                        if is_counter {
                            let value = u32::try_from(value).unwrap();
                            memory.counter(offset).store(value, Ordering::Relaxed);
                        } else {
                            memory.word(offset).store(value, Ordering::Relaxed);
                        }
                    }
                    Ok(())
                });
                let mut first = None;
                let played = play(&memory, victim, before, |ends, side, _, answer| {
                    if side != victim {
                        return;
                    }
                    let poison = ends.poison(victim);
                    if let Some(cause) = first {
                        assert_eq!(poison, Some(cause), "the first cause is kept");
                        let refused = match answer {
                            Answer::NotSent(SendError::Poisoned(found))
                            | Answer::NotReceived(ReceiveError::Poisoned(found)) => Some(found),
                            _ => None,
                        };
                        // Calls on messages that never came are not made.
                        assert!(refused == Some(cause) || answer == Answer::Done, "{answer:?}");
                    } else if let Some(cause) = poison {
                        first = Some(cause);
                        let flag = memory.counter(flags(victim).0).load(Ordering::Relaxed);
                        assert_eq!(flag, 1, "{cause:?} is told to the other side");
                        *causes.entry((victim == Side::L2, std::mem::discriminant(&cause))).or_insert(0) += 1;
                    }
                });
                // Waiting for a message that does not come any more takes more looks than the script takes when all is well.
                assert!(played < clean_steps + 200);
            }
        }
    }
    // Sequence, opcode, place and count at both ends; STOP in the output and STOP with bytes, which one end each can see. A handle
    // that is not current comes of messages that another one stood for.
    assert!(causes.len() >= 10, "{causes:?}");
}

/// An access that fails changes nothing, so the same call goes through when it is made again; only a counter that may have been
/// stored ends the queue.
#[test]
fn a_memory_that_fails_at_any_access_changes_nothing_or_ends_the_queue() {
    let clean = clean_answers();
    for victim in [Side::L3, Side::L2] {
        for at in 0..steps(victim) {
            let memory = new_memory();
            let (number, failed) = (Cell::new(0), Cell::new(None));
            let before: Before<'_> = Box::new(|_, step| {
                if number.replace(number.get() + 1) == at {
                    failed.set(Some(step));
                    return Err(AccessError::driver(507_899));
                }
                Ok(())
            });
            let mut answers = Vec::new();
            let mut ended = None;
            play(&memory, victim, before, |ends, side, call, answer| {
                let error = AccessError::driver(507_899);
                let answer = match answer {
                    Answer::NotSent(SendError::Access(found))
                    | Answer::NotReceived(ReceiveError::Access(found)) => {
                        assert_eq!((side, found), (victim, error));
                        ends.play(side, call)
                    }
                    other => other,
                };
                ended = ended.or(ends.poison(victim));
                answers.push(answer);
            });
            match failed.get().unwrap() {
                Step::Store(counter, _) => {
                    let error = AccessError::driver(507_899);
                    assert_eq!(ended, Some(Poison::Store { counter, error }));
                }
                _ => {
                    assert_eq!(ended, None, "step {at} of {victim:?}: {failed:?}");
                    assert_eq!(answers, clean, "step {at} of {victim:?}: {failed:?}");
                }
            }
        }
    }
}

#[test]
fn a_side_that_gives_up_at_any_access_is_seen_by_every_waiting_call_and_does_not_end_the_other() {
    let mut seen = 0;
    for victim in [Side::L3, Side::L2] {
        let (own, peer) = flags(victim);
        for at in 0..steps(victim) {
            let memory = new_memory();
            let number = Cell::new(0);
            let before: Before<'_> = Box::new(|memory, _| {
                if number.replace(number.get() + 1) == at {
                    memory.counter(peer).store(77, Ordering::Relaxed);
                }
                Ok(())
            });
            play(&memory, victim, before, |ends, side, call, answer| {
                if side != victim {
                    return;
                }
                assert_eq!(ends.poison(victim), None);
                assert_eq!(memory.counter(own).load(Ordering::Relaxed), 0);
                let waits = matches!(
                    call,
                    Call::EnqueueWithin(_)
                        | Call::Stop
                        | Call::DequeueWithin
                        | Call::ReceiveWithin
                        | Call::SendWithin(_)
                );
                let told =
                    [Answer::NotSent(SendError::PeerAborted), Answer::NotReceived(ReceiveError::PeerAborted)];
                if told.contains(&answer) {
                    seen += 1;
                    assert!(memory.counter(peer).load(Ordering::Relaxed) != 0);
                } else if waits && ends.play(side, call) == answer {
                    // Made again, the call starts after the flag was set, if it was.
                    let flag = memory.counter(peer).load(Ordering::Relaxed);
                    assert_eq!(flag, 0, "{call:?} did not see it");
                }
            });
        }
    }
    assert!(seen > 500, "{seen}");
}

#[test]
fn a_waiting_call_sees_the_flag_long_before_its_limit() {
    struct Aborting<'a>(Counted, &'a AtomicMemory, u64);
    impl bufabi_core::region::Clock for Aborting<'_> {
        fn now(&mut self) -> Duration {
            self.0.now()
        }
        fn pause(&mut self, watch: bufabi_core::region::Watch, left: Duration) {
            self.0.pause(watch, left);
            if self.0.pauses == 3 {
                self.1.counter(self.2).store(1, Ordering::Relaxed);
            }
        }
    }
    let hour = Duration::from_secs(3600);
    let memory = new_memory();
    let mut l3 = L3End::new(layout(), &memory, [0; 2]).unwrap();
    let mut clock = Aborting(Counted::default(), &memory, counters::L2_ABORT);
    assert_eq!(l3.peek(hour, &mut clock), Err(ReceiveError::PeerAborted));
    assert_eq!(clock.0.pauses, 3);
    let memory = new_memory();
    let mut l2 = L2End::<_, _, 2>::new(layout(), &memory, [0; 2]).unwrap();
    l2.try_send(Kind::Data, &[0; 128]).unwrap();
    let mut clock = Aborting(Counted::default(), &memory, counters::L3_ABORT);
    assert_eq!(l2.send(Kind::Data, &[0], hour, &mut clock), Err(SendError::PeerAborted));
    assert_eq!(clock.0.pauses, 3);
    assert_eq!(memory.counter(counters::L2_ABORT).load(Ordering::Relaxed), 0);
}

#[test]
fn giving_up_is_told_and_kept_and_cleanup_works() {
    let memory = new_memory();
    let mut l3 = L3End::new(layout(), &memory, [0; 2]).unwrap();
    l3.abort().unwrap();
    assert_eq!(l3.try_enqueue(Kind::Data, &[]), Err(SendError::Poisoned(Poison::Aborted)));
    assert_eq!(l3.try_peek(), Err(ReceiveError::Poisoned(Poison::Aborted)));
    let mut l2 = L2End::<_, _, 1>::new(layout(), &memory, [0; 2]).unwrap();
    assert_eq!(l2.peer_aborted(), Ok(true));
    assert_eq!(l2.try_receive(), Err(ReceiveError::PeerAborted));
    assert_eq!(l2.poison(), None);
    l3.abort().unwrap();
    assert!(
        std::ptr::eq(l3.into_access(), &raw const memory)
            || l2.into_access().word(0).load(Ordering::Relaxed) == 0
    );
}

/// What an end does to memory, access by access: nothing is read twice, and nothing before it is known to be there.
#[test]
fn every_access_of_a_message_in_its_order() {
    let memory = new_memory();
    let (sent, received) = (std::cell::RefCell::new(Vec::new()), std::cell::RefCell::new(Vec::new()));
    let l3_memory: Memory<'_> = Watched::new(
        &memory,
        Box::new(|_, step| {
            sent.borrow_mut().push(step);
            Ok(())
        }),
    );
    let l2_memory: Memory<'_> = Watched::new(
        &memory,
        Box::new(|_, step| {
            received.borrow_mut().push(step);
            Ok(())
        }),
    );
    let mut l3 = L3End::new(layout(), &l3_memory, [0; 2]).unwrap();
    let mut l2 = L2End::<_, _, 1>::new(layout(), &l2_memory, [0; 2]).unwrap();
    l3.try_enqueue(Kind::Data, &[7; 8]).unwrap();
    let (slot, bytes) = (Place { offset: 0, nbytes: 32 }, Place { offset: 128, nbytes: 8 });
    assert_eq!(
        sent.take(),
        [
            Step::Write(bytes),
            Step::Publish(bytes),
            Step::Write(Place { offset: 8, nbytes: 24 }),
            Step::Write(Place { offset: 0, nbytes: 8 }),
            Step::Publish(slot),
            Step::Store(counters::INPUT_TAIL, 1),
        ]
    );
    let message = l2.try_receive().unwrap();
    l2.read_into(message.handle(), &mut [0; 8]).unwrap();
    l2.release(message.handle()).unwrap();
    assert_eq!(
        received.take(),
        [
            Step::Load(counters::INPUT_TAIL),
            Step::Observe(slot),
            Step::Read(slot),
            Step::Observe(bytes),
            Step::Read(bytes),
            Step::Publish(Place::NOTHING),
            Step::Store(counters::INPUT_HEAD, 1),
        ]
    );
    assert!(l3.try_enqueue(Kind::Data, &[0; 129]).is_err());
    assert_eq!(sent.take(), [], "what can never be sent touches nothing");
    l3.try_enqueue(Kind::Data, &[]).unwrap();
    sent.take();
    l3.try_enqueue(Kind::Data, &[]).unwrap();
    let steps = sent.take();
    assert_eq!(steps[..2], [Step::Load(counters::INPUT_HEAD), Step::Observe(Place::NOTHING)]);
}

/// A handle that is not current ends the queue: one that was released, one of another end, one that nobody gave out.
#[test]
fn a_handle_that_is_not_current_ends_the_queue() {
    let poisoned = |found| ReceiveError::Poisoned(Poison::Handle { found });
    for number in [1, 2, u64::MAX, 1 << 32] {
        let memory = new_memory();
        let mut l3 = L3End::new(layout(), &memory, [0; 2]).unwrap();
        let mut l2 = L2End::<_, _, 1>::new(layout(), &memory, [0; 2]).unwrap();
        l3.try_enqueue(Kind::Data, &[1]).unwrap();
        l3.try_enqueue(Kind::Data, &[2]).unwrap();
        let first = l2.try_receive().unwrap().handle();
        assert_eq!(first.number(), 0);
        // The window is full: message 1 was looked at, but not received.
        assert_eq!(l2.try_receive(), Err(ReceiveError::WindowFull { window: 1 }));
        assert_eq!(l2.release(Handle::from_number(number)), Err(poisoned(number)));
        assert_eq!(l2.release(first), Err(poisoned(number)), "the first cause stays");
        assert_eq!(memory.counter(counters::L2_ABORT).load(Ordering::Relaxed), 1);
        assert_eq!(memory.counter(counters::INPUT_HEAD).load(Ordering::Relaxed), 0);
    }
    let memory = new_memory();
    let mut l3 = L3End::new(layout(), &memory, [0; 2]).unwrap();
    let mut l2 = L2End::<_, _, 2>::new(layout(), &memory, [0; 2]).unwrap();
    l3.try_enqueue(Kind::Data, &[1]).unwrap();
    l3.try_enqueue(Kind::Data, &[2]).unwrap();
    let (_, second) = (l2.try_receive().unwrap(), l2.try_receive().unwrap().handle());
    l2.release(second).unwrap();
    assert_eq!(l2.read_into(second, &mut [0; 8]), Err(poisoned(1)), "it was given back");
}

#[test]
fn a_reservation_that_is_not_open_ends_the_queue() {
    let memory = new_memory();
    let mut l2 = L2End::<_, _, 1>::new(layout(), &memory, [0; 2]).unwrap();
    let first = l2.try_reserve(8).unwrap();
    l2.cancel(&first).unwrap();
    let second = l2.try_reserve(8).unwrap();
    assert_eq!(first.place(), second.place());
    let poison = SendError::Poisoned(Poison::Handle { found: first.number() });
    assert_eq!(l2.commit(&first, Kind::Data, 8), Err(poison));
    assert_eq!(l2.commit(&second, Kind::Data, 8), Err(poison));
    assert_eq!(memory.counter(counters::OUTPUT_TAIL).load(Ordering::Relaxed), 0);
}
