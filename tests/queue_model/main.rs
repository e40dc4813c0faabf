//! Both ends of the message queue against a simple model: random runs, single steps of both sides in any order.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "what a test did not expect fails it"
)]

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bufabi_core::queue::{
    COUNTER_BYTES, Counts, Full, Handle, Kind, L2End, L3End, Message, Opcode, QueueLayout, ReceiveError,
    Reservation, SendError, counters,
};
use bufabi_core::region::{Place, RegionAccess};
use bufabi_tests::clock::Counted;
use bufabi_tests::memory::AtomicMemory;
use bufabi_tests::random::Random;
use proptest::prelude::*;

const WINDOW: usize = 3;
type Host<'a> = L3End<&'a AtomicMemory, Vec<u64>>;
type Task<'a> = L2End<&'a AtomicMemory, Vec<u64>, WINDOW>;

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap()
}

/// A message as the model keeps it from when it is sent until its slot is free again.
#[derive(Clone, Debug)]
struct Sent {
    opcode: Opcode,
    bytes: Vec<u8>,
    /// Where the end put it.
    place: Place,
    handle: Option<Handle>,
    is_released: bool,
}

/// One direction, as simple as it can be said.
struct Direction {
    depth: usize,
    arena: Place,
    window: usize,
    /// Messages in flight, oldest first: those before `received` were received.
    flight: VecDeque<Sent>,
    received: usize,
    stopped: bool,
    count: u64,
}

impl Direction {
    fn new(depth: usize, arena: Place, window: usize, count: u64) -> Self {
        Self { depth, arena, window, flight: VecDeque::new(), received: 0, stopped: false, count }
    }

    /// A new place is inside the arena, and shares no byte with those in flight.
    fn check_place(&self, new: Place) {
        if new.nbytes == 0 {
            assert_eq!(new.offset, 0);
            return;
        }
        let end = new.offset + new.nbytes;
        assert!(new.offset >= self.arena.offset && end <= self.arena.offset + self.arena.nbytes, "{new:?}");
        for Sent { place, .. } in &self.flight {
            assert!(
                place.nbytes == 0 || place.offset >= end || place.offset + place.nbytes <= new.offset,
                "{new:?} shares bytes with {place:?}"
            );
        }
    }

    /// Both the bytes behind the newest message, up to the end or the next message, and those at the arena's start, up to
    /// the first message, are too few.
    fn is_arena_full_for(&self, nbytes: u64) -> bool {
        let places: Vec<Place> =
            self.flight.iter().map(|sent| sent.place).filter(|place| place.nbytes > 0).collect();
        let Some(newest) = places.last() else { return nbytes > self.arena.nbytes };
        let end = newest.offset + newest.nbytes;
        let arena_end = self.arena.offset + self.arena.nbytes;
        let first_after = |from: u64| {
            places.iter().map(|place| place.offset).filter(|&start| start >= from).min().unwrap_or(arena_end)
        };
        let behind = first_after(end) - end;
        let at_start = first_after(self.arena.offset) - self.arena.offset;
        nbytes > behind && nbytes > at_start
    }

    fn sent(&mut self, opcode: Opcode, bytes: Vec<u8>, place: Place) {
        self.stopped |= opcode == Opcode::Stop;
        self.check_place(place);
        self.flight.push_back(Sent { opcode, bytes, place, handle: None, is_released: false });
        self.count = self.count.wrapping_add(1);
    }

    /// What a send that was refused says, or `None` when it must not be refused.
    fn refusal(&self, nbytes: u64) -> Option<SendError> {
        let arena_bytes = self.arena.nbytes;
        if self.stopped {
            Some(SendError::Stopped)
        } else if nbytes > arena_bytes {
            Some(SendError::TooLarge { nbytes, arena_bytes })
        } else if self.flight.len() == self.depth {
            Some(SendError::Full(Full::Ring))
        } else if self.is_arena_full_for(nbytes) {
            Some(SendError::Full(Full::Arena))
        } else {
            None
        }
    }

    /// What a receive that was refused says, or `None` when it must not be refused.
    fn receive_refusal(&self) -> Option<ReceiveError> {
        let held = self.flight.iter().take(self.received).filter(|sent| sent.opcode != Opcode::Stop).count();
        let stop_is_next_or_over = self.flight.get(self.received).map(|sent| sent.opcode == Opcode::Stop);
        let stop_received = self.stopped && (self.flight.is_empty() || self.received == self.flight.len());
        match stop_is_next_or_over {
            _ if stop_received => Some(ReceiveError::Stopped),
            None => Some(ReceiveError::Empty),
            Some(true) => None,
            Some(false) if held >= self.window => Some(ReceiveError::WindowFull { window: self.window }),
            Some(false) => None,
        }
    }

    fn received(&mut self, message: Message) {
        let sent = &mut self.flight[self.received];
        assert_eq!((sent.opcode, sent.place), (message.opcode(), message.place()));
        sent.handle = Some(message.handle());
        self.received += 1;
    }

    /// The handles that can be released.
    fn held(&self) -> Vec<usize> {
        (0..self.received).filter(|&index| !self.flight[index].is_released).collect()
    }

    fn released(&mut self, index: usize) {
        self.flight[index].is_released = true;
        while self.flight.front().is_some_and(|sent| sent.is_released) {
            self.flight.pop_front();
            self.received -= 1;
        }
    }
}

/// Both ends, the model of both directions, and the memory in between.
struct World<'a> {
    memory: &'a AtomicMemory,
    host: Host<'a>,
    task: Task<'a>,
    input: Direction,
    output: Direction,
    reservation: Option<(Reservation, Vec<u8>)>,
    sent: u64,
    refused: u64,
}

/// A step of one side.
#[derive(Clone, Copy, Debug)]
enum Operation {
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
}

/// Bytes that differ from message to message.
fn bytes(seed: u64, nbytes: u64) -> Vec<u8> {
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
    fn new(memory: &'a AtomicMemory, layout: QueueLayout, counts: Counts) -> Self {
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

    fn counted<T>(&mut self, outcome: Result<T, impl std::fmt::Debug>) {
        if outcome.is_ok() { self.sent += 1 } else { self.refused += 1 }
    }

    /// The place that the newest slot of a direction announces.
    fn announced(&self, ring: u64, direction: &Direction) -> Place {
        let slot = ring + direction.count % u64::try_from(direction.depth).unwrap() * 32;
        let word = |at: u64| self.memory.word(slot + at).load(Ordering::Relaxed);
        assert_eq!(word(0), direction.count.wrapping_add(1), "sequence");
        Place { offset: word(16), nbytes: word(24) }
    }

    fn step(&mut self, layout: QueueLayout, operation: Operation) {
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
            Operation::Cancel => {
                if let Some((reservation, _)) = self.reservation.take() {
                    self.task.cancel(&reservation).unwrap();
                }
            }
        }
        assert_eq!((self.host.poison(), self.task.poison()), (None, None));
    }

    fn output_refusal(&self, nbytes: u64) -> Option<SendError> {
        if self.reservation.is_some() { Some(SendError::Reserved) } else { self.output.refusal(nbytes) }
    }

    fn peek(&mut self) {
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
    fn check_bytes(&self, message: Message) {
        let sent = &self.input.flight[self.input.received - 1];
        let mut out = vec![0; sent.bytes.len()];
        self.memory.read(message.place().offset, &mut out).unwrap();
        assert_eq!(out, sent.bytes);
    }

    /// Everything in flight is received and given back.
    fn drain(&mut self, layout: QueueLayout) {
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

fn operation(random: &mut Random, layout: QueueLayout) -> Operation {
    let arena = layout.input_arena().nbytes.max(layout.output_arena().nbytes);
    // Sizes of every kind: none, few bytes, about half, all, and now and then too many.
    let nbytes = match random.below(8) {
        0 => 0,
        1 | 2 => random.below(9),
        3 => arena / 2 + random.below(9),
        4 => layout.input_arena().nbytes,
        5 => layout.output_arena().nbytes,
        _ => random.below(arena + 2),
    };
    match random.below(12) {
        0..=2 => Operation::Enqueue(nbytes),
        3 => Operation::Peek,
        4 => Operation::HostRelease,
        5 => Operation::Dequeue(random.below(arena + 1)),
        6 | 7 => Operation::Receive,
        8 => Operation::Release(random.next()),
        9 => Operation::Send(nbytes),
        10 => Operation::Reserve(nbytes),
        _ if random.below(4) == 0 => Operation::Cancel,
        _ => Operation::Commit(random.below(4).saturating_sub(2) * random.below(64)),
    }
}

fn layouts() -> Vec<QueueLayout> {
    [(4, 64, 64), (4, 128, 192), (8, 192, 64), (16, 1024, 128), (4, 512, 1024), (32, 512, 512)]
        .map(|(depth, input, output)| QueueLayout::new(depth, input, output).unwrap())
        .to_vec()
}

#[test]
fn random_runs_of_both_ends_agree_with_the_model() {
    let long = std::env::var("BUFABI_LONG").is_ok_and(|value| value == "1");
    let messages = if long { 10_000_000 } else { 1_000_000 };
    let layouts = layouts();
    let (mut sent, mut refused, mut run) = (0, 0, 0);
    while sent < messages {
        let mut random = Random::new(run);
        let layout = layouts[usize::try_from(run).unwrap() % layouts.len()];
        let memory = AtomicMemory::new(layout.payload_bytes(), COUNTER_BYTES);
        // Every second run crosses the place where the halves in memory wrap.
        let near = if run % 2 == 0 { 0 } else { (1 << 32) - 2000 };
        let counts = Counts { input: near + random.below(1000), output: near + random.below(1000) };
        let mut world = World::new(&memory, layout, counts);
        for _ in 0..10_000 {
            let operation = operation(&mut random, layout);
            world.step(layout, operation);
        }
        world.drain(layout);
        world.step(layout, Operation::Stop);
        world.step(layout, Operation::Enqueue(1));
        world.step(layout, Operation::Receive);
        world.step(layout, Operation::Receive);
        world.step(layout, Operation::Release(0));
        assert!(world.task.is_drained());
        (sent, refused, run) = (sent + world.sent, refused + world.refused, run + 1);
    }
    assert!(refused > messages / 10, "full rings and arenas are part of it: {refused} of {sent}");
}

fn any_operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (0..260_u64).prop_map(Operation::Enqueue),
        1 => Just(Operation::Stop),
        1 => Just(Operation::Peek),
        2 => Just(Operation::HostRelease),
        2 => (0..260_u64).prop_map(Operation::Dequeue),
        4 => Just(Operation::Receive),
        4 => any::<u64>().prop_map(Operation::Release),
        2 => (0..260_u64).prop_map(Operation::Send),
        2 => (0..260_u64).prop_map(Operation::Reserve),
        2 => (0..260_u64).prop_map(Operation::Commit),
        1 => Just(Operation::Cancel),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// As above, in runs that shrink when they fail; STOP may come at any moment.
    #[test]
    fn any_run_agrees_with_the_model(
        operations in proptest::collection::vec(any_operation(), 0..200),
        which in 0..3_usize,
        below in 0..100_u64,
    ) {
        let layout = layouts()[which];
        let memory = AtomicMemory::new(layout.payload_bytes(), COUNTER_BYTES);
        let counts = Counts { input: (1 << 32) - below, output: u64::MAX - below };
        let mut world = World::new(&memory, layout, counts);
        for operation in operations {
            world.step(layout, operation);
        }
    }
}

/// In an arena of 128 bytes: 64, drain, then 128, then 96, then 32, for ever.
#[test]
fn whatever_was_sent_before_a_message_of_the_arenas_size_fits_an_empty_arena() {
    for depth in [4, 8, 64] {
        let layout = QueueLayout::new(depth, 128, 128).unwrap();
        let memory = AtomicMemory::new(layout.payload_bytes(), COUNTER_BYTES);
        let mut world = World::new(&memory, layout, Counts::default());
        for round in 0..1000 {
            for nbytes in [64, 128, 96, 32, 1, 127, 0, 128, 65] {
                // Messages of no bytes that are in flight take nothing of the arena.
                if round % 2 == 0 {
                    world.step(layout, Operation::Enqueue(0));
                    world.step(layout, Operation::Send(0));
                }
                let before = world.sent;
                world.step(layout, Operation::Enqueue(nbytes));
                world.step(layout, Operation::Send(nbytes));
                assert_eq!(world.sent, before + 2, "round {round}, {nbytes} bytes");
                world.drain(layout);
            }
        }
    }
}

#[test]
fn capacity_is_exactly_the_depth() {
    for depth in [4, 8, 16, 64] {
        let layout = QueueLayout::new(depth, 64, 64).unwrap();
        let memory = AtomicMemory::new(layout.payload_bytes(), COUNTER_BYTES);
        for nbytes in [0, 1, 64 / depth] {
            let mut world = World::new(&memory, layout, Counts { input: (1 << 32) - 2, output: 7 });
            for _ in 0..depth {
                world.host.try_enqueue(Kind::Data, &bytes(1, nbytes)).unwrap();
                world.task.try_send(Kind::Data, &bytes(1, nbytes)).unwrap();
            }
            let full = Err(SendError::Full(Full::Ring));
            assert_eq!(world.host.try_enqueue(Kind::Data, &[]), full);
            assert_eq!(world.task.try_send(Kind::Data, &[]), full);
        }
    }
}

/// Four inputs and STOP, given back in each of their 120 orders: the head moves over those at the front, and no further.
#[test]
fn a_window_is_given_back_in_every_order() {
    let layout = QueueLayout::new(8, 64, 64).unwrap();
    let mut orders: Vec<Vec<usize>> = vec![Vec::new()];
    for message in 0..5 {
        orders = orders
            .into_iter()
            .flat_map(|order| {
                (0..=order.len()).map(move |at| {
                    let mut longer = order.clone();
                    longer.insert(at, message);
                    longer
                })
            })
            .collect();
    }
    assert_eq!(orders.len(), 120);
    for order in orders {
        let memory = AtomicMemory::new(layout.payload_bytes(), COUNTER_BYTES);
        let mut host = L3End::new(layout, &memory, [0; 8]).unwrap();
        let mut task = L2End::<_, _, 4>::new(layout, &memory, [0; 8]).unwrap();
        for number in 0..4 {
            host.try_enqueue(Kind::Data, &[number]).unwrap();
        }
        host.request_stop(Duration::ZERO, &mut Counted::default()).unwrap();
        // STOP has a place although the window is full.
        let handles: Vec<Handle> = (0..5).map(|_| task.try_receive().unwrap().handle()).collect();
        let mut given_back = [false; 5];
        for message in order {
            assert!(!task.is_drained());
            task.release(handles[message]).unwrap();
            given_back[message] = true;
            let front = given_back.iter().take_while(|&&is_given_back| is_given_back).count();
            let head = memory.counter(counters::INPUT_HEAD).load(Ordering::Relaxed);
            assert_eq!(usize::try_from(head).unwrap(), front);
        }
        assert!(task.is_drained());
        assert_eq!(task.try_receive(), Err(ReceiveError::Stopped));
    }
}
