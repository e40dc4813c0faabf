//! Both ends of the message queue against a simple model: random runs, single steps of both sides in any order.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "what a test did not expect fails it"
)]

mod batches;
mod direction;
mod world;

use std::sync::atomic::Ordering;
use std::time::Duration;

use bufabi_core::queue::{
    COUNTER_BYTES, Counts, Full, Handle, Kind, L2End, L3End, QueueLayout, ReceiveError, SendError, counters,
};
use bufabi_tests::clock::Counted;
use bufabi_tests::memory::AtomicMemory;
use bufabi_tests::random::Random;
use proptest::prelude::*;
use world::{Operation, World, bytes};

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
    match random.below(16) {
        0..=2 => Operation::Enqueue(nbytes),
        3 => Operation::Peek,
        4 => Operation::HostRelease,
        5 => Operation::Dequeue(random.below(arena + 1)),
        6 | 7 => Operation::Receive,
        8 => Operation::Release(random.next()),
        9 => Operation::Send(nbytes),
        10 => Operation::Reserve(nbytes),
        11 => Operation::EnqueueAll(usize::try_from(random.below(6)).unwrap(), nbytes),
        12 => Operation::SendAll(usize::try_from(random.below(6)).unwrap(), nbytes),
        13 => Operation::DequeueEach(usize::try_from(random.below(5)).unwrap()),
        14 => Operation::ReleaseAll(usize::try_from(random.below(5)).unwrap()),
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
        2 => (0..6_usize, 0..260_u64).prop_map(|(count, nbytes)| Operation::EnqueueAll(count, nbytes)),
        2 => (0..6_usize, 0..260_u64).prop_map(|(count, nbytes)| Operation::SendAll(count, nbytes)),
        2 => (0..5_usize).prop_map(Operation::DequeueEach),
        2 => (0..5_usize).prop_map(Operation::ReleaseAll),
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
