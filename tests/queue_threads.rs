//! Both ends of the message queue in two threads, one by one and in batches, with every byte checked at the other end.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "what a test did not expect fails it"
)]

use std::thread;
use std::time::Duration;

use bufabi_core::queue::{
    COUNTER_BYTES, Counts, Kind, L2End, L3End, Opcode, QueueLayout, ReceiveError, counters,
};
use bufabi_core::region::RegionAccess;
use bufabi_tests::clock::Machine;
use bufabi_tests::plain::Plain;
use bufabi_tests::random::Random;

const LIMIT: Duration = Duration::from_secs(60);
const WINDOW: usize = 4;

/// The bytes of message `number`, of 0 to `most`: what both sides know without telling each other.
fn message(number: u64, most: u64, out: &mut Vec<u8>) {
    let mut random = Random::new(number);
    let nbytes = match random.below(16) {
        0 => 0,
        1 => most,
        2..=4 => random.below(most + 1),
        _ => random.below(48),
    };
    let nbytes = usize::try_from(nbytes).unwrap();
    out.resize(nbytes.next_multiple_of(8), 0);
    for word in out.as_chunks_mut().0 {
        *word = random.next().to_le_bytes();
    }
    out.truncate(nbytes);
}

/// L2 answers each input with the same bytes, from a window whose messages it gives back out of order.
fn task<A: RegionAccess>(mut end: L2End<A, Vec<u64>, WINDOW>, most: u64) -> u64 {
    let mut clock = Machine::start();
    let (mut out, mut expected) = (vec![0; usize::try_from(most).unwrap()], Vec::new());
    let mut random = Random::new(99);
    let mut held = Vec::new();
    let mut number = 0;
    while !end.is_drained() {
        // It only waits for more while it holds nothing: L3 may have no room before something is given back.
        let limit = if held.is_empty() { LIMIT } else { Duration::ZERO };
        match end.receive(limit, &mut clock) {
            Ok(received) => {
                held.push(received.handle());
                if received.opcode() == Opcode::Stop {
                    continue;
                }
                message(number, most, &mut expected);
                let nbytes = end.read_into(received.handle(), &mut out).unwrap();
                assert_eq!(out[..nbytes], expected, "input {number}");
                number += 1;
                // In its place, in two pieces and with room to spare now and then.
                let nbytes = u64::try_from(nbytes).unwrap();
                let spare = if random.below(4) == 0 { most - nbytes } else { 0 };
                let reservation = end.reserve(nbytes + spare, LIMIT, &mut clock).unwrap();
                let (early, late) = expected.split_at(expected.len() / 2);
                end.write(&reservation, 0, early).unwrap();
                end.write(&reservation, u64::try_from(early.len()).unwrap(), late).unwrap();
                end.commit(&reservation, Kind::Data, nbytes).unwrap();
                if random.below(2) == 0 {
                    continue;
                }
            }
            Err(ReceiveError::TimedOut | ReceiveError::WindowFull { .. } | ReceiveError::Stopped) => {}
            Err(error) => panic!("{error}"),
        }
        let index = usize::try_from(random.next()).unwrap() % held.len();
        if random.below(4) == 0 {
            // All of them with one publication, from any of them on around.
            held.rotate_left(index);
            end.release_all(&held).unwrap();
            held.clear();
        } else {
            end.release(held.swap_remove(index)).unwrap();
        }
    }
    number
}

/// The next so many messages.
fn messages(first: u64, count: u64, most: u64) -> Vec<Vec<u8>> {
    let one = |number| {
        let mut bytes = Vec::new();
        message(number, most, &mut bytes);
        bytes
    };
    (first..first + count).map(one).collect()
}

/// L3 sends as many as it can, now and then several with one publication, and takes answers in between, one or several at a time.
fn host<A: RegionAccess>(mut end: L3End<A, Vec<u64>>, most: u64, count: u64) {
    let mut clock = Machine::start();
    let mut random = Random::new(77);
    let (mut bytes, mut expected) = (Vec::new(), Vec::new());
    let mut out = vec![0; usize::try_from(most).unwrap()];
    let (mut sent, mut answered) = (0, 0);
    message(0, most, &mut bytes);
    while answered < count {
        if sent < count && random.below(4) == 0 {
            let batch = messages(sent, random.below(6).min(count - sent), most);
            let several = end.try_enqueue_all(Kind::Data, &batch);
            sent += u64::try_from(several.unwrap_or(0)).unwrap();
            message(sent, most, &mut bytes);
        }
        // It waits for answers while some are to come, and else for room.
        let limit = if answered < sent { Duration::ZERO } else { LIMIT };
        if sent < count && end.enqueue(Kind::Data, &bytes, limit, &mut clock).is_ok() {
            sent += 1;
            message(sent, most, &mut bytes);
            continue;
        }
        let mut check = |opcode, bytes: &[u8]| {
            message(answered, most, &mut expected);
            assert_eq!((opcode, bytes), (Opcode::Data, &expected[..]), "output {answered}");
            answered += 1;
        };
        if random.below(4) == 0 {
            match end.try_dequeue_each(&mut out, 3, &mut check) {
                Ok(_) | Err(ReceiveError::Empty) => continue,
                Err(error) => panic!("{error}"),
            }
        }
        let (opcode, nbytes) = end.dequeue_into(&mut out, LIMIT, &mut clock).unwrap();
        check(opcode, &out[..nbytes]);
    }
    end.request_stop(LIMIT, &mut clock).unwrap();
}

#[test]
fn messages_go_between_two_threads_and_back_whole_and_in_order() {
    let is_set = |name| std::env::var(name).is_ok_and(|value| value == "1");
    let long = is_set("BUFABI_LONG");
    // A wrong order, of which ThreadSanitizer must tell.
    let is_ordered = !is_set("BUFABI_DISORDER");
    let messages: u64 = if long { 10_000_000 } else { 200_000 };
    // Rings that are nearly always full or empty, and messages that fill an arena; then a ring in which a side finds many when its turn
    // comes, for most of them. Depth, arenas, the largest message, and the part of all messages in percent.
    let layouts = [(4, 512, 512, 512, 10), (8, 1024, 512, 512, 10), (512, 16384, 32768, 512, 80)];
    for (depth, input, output, most, percent) in layouts {
        let layout = QueueLayout::new(depth, input, output).unwrap();
        let share = messages / 100 * percent;
        let bytes = |nbytes: u64| usize::try_from(nbytes).unwrap();
        let memory = Plain::new(bytes(layout.payload_bytes()), bytes(COUNTER_BYTES)).unwrap();
        let side = || memory.side(is_ordered).unwrap();
        // The halves of the counts that stand in memory wrap on the way.
        let counts = Counts { input: (1 << 32) - share / 2, output: (1 << 32) - share / 3 };
        for (counter, count) in [
            (counters::INPUT_TAIL, counts.input),
            (counters::INPUT_HEAD, counts.input),
            (counters::OUTPUT_TAIL, counts.output),
            (counters::OUTPUT_HEAD, counts.output),
        ] {
            side().store(counter, u32::try_from(count).unwrap()).unwrap();
        }
        let marks = vec![0; usize::try_from(depth).unwrap()];
        let received = thread::scope(|scope| {
            // What reaches the memory stays with its thread.
            let (task_marks, memory) = (marks.clone(), &memory);
            let received = scope.spawn(move || {
                let memory = memory.side(is_ordered).unwrap();
                task(L2End::starting_at(layout, memory, task_marks, counts).unwrap(), most)
            });
            host(L3End::starting_at(layout, side(), marks, counts).unwrap(), most, share);
            received.join().unwrap()
        });
        assert_eq!(received, share);
    }
}
