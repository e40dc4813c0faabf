//! The least that a ring of messages can be: 32 bytes in each slot, two counts, each side remembers the other one's. And the least that
//! a round trip can be: a count and the bytes behind it, or, as the queue's layout has it, a count, a slot and the bytes that it names.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::queue::{DEPTH, Shared, attached};
use crate::{BATCH, Peer, say, timed};

/// A head, a tail, then 1,024 slots, in a region's PAYLOAD.
const BYTES: u64 = 128 + 32 * DEPTH as u64;

/// Words of shared memory from an address on.
#[derive(Clone, Copy)]
pub(crate) struct Words(*mut u64);

impl Words {
    fn at(self, index: usize) -> &'static AtomicU64 {
        assert!(index < BYTES as usize / 8);
        // SAFETY: the index lies within the mapping, which starts at a page and lives as long as the run.
        let word = unsafe { self.0.add(index) };
        // SAFETY: as above; all who reach it do so by atomics.
        unsafe { AtomicU64::from_ptr(word) }
    }

    fn head(self) -> &'static AtomicU64 {
        self.at(0)
    }

    fn tail(self) -> &'static AtomicU64 {
        self.at(8)
    }

    fn slot(self, count: u64) -> [&'static AtomicU64; 4] {
        let first = 16 + count as usize % DEPTH * 4;
        [self.at(first), self.at(first + 1), self.at(first + 2), self.at(first + 3)]
    }
}

fn words(address: u64) -> Words {
    Words(std::ptr::with_exposed_provenance_mut(address as usize))
}

fn shared() -> (Shared, Words) {
    let shared = Shared::new(BYTES, 64);
    let memory = shared.region.memory().expect("a live region");
    let view = memory.view(shared.region.parts()).expect("a view");
    (shared, words(view.payload().base))
}

fn with_words(told: &[&str], work: impl FnOnce(Words)) {
    attached(told, |region| {
        let memory = region.memory().expect("a live region");
        work(words(memory.view(region.parts()).expect("a view").payload().base));
    });
}

fn send(words: Words, messages: u64, batch: u64) {
    let mut head = 0;
    let mut count = 0;
    while count < messages {
        let until = (count + batch).min(messages);
        while until - head > DEPTH as u64 {
            head = words.head().load(Ordering::Acquire);
            spin_loop();
        }
        for message in count..until {
            for word in words.slot(message) {
                word.store(message, Ordering::Relaxed);
            }
        }
        count = until;
        words.tail().store(count, Ordering::Release);
    }
}

pub(crate) fn one_way(messages: u64) -> Duration {
    let (shared, words) = shared();
    let peer = Peer::start(&format!("bare-sink {messages} {}", shared.told));
    timed(peer, || send(words, messages, 1))
}

pub(crate) fn one_way_in_batches(messages: u64) -> Duration {
    let (shared, words) = shared();
    let peer = Peer::start(&format!("bare-sink {messages} {}", shared.told));
    timed(peer, || send(words, messages, BATCH as u64))
}

pub(crate) fn sink(messages: u64, told: &[&str]) {
    with_words(told, |words| {
        say("ready");
        let mut tail = 0;
        for count in 0..messages {
            while count == tail {
                tail = words.tail().load(Ordering::Acquire);
                spin_loop();
            }
            for word in words.slot(count) {
                black_box(word.load(Ordering::Relaxed));
            }
            words.head().store(count + 1, Ordering::Release);
        }
        say("done");
    });
}

/// What crosses in a trip, beside the count that tells of it.
pub(crate) trait Crossing {
    /// Writes 64 bytes, and what says where they lie.
    fn write(words: Words, way: u64, trip: u64);
    /// Reads them.
    fn read(words: Words, way: u64, trip: u64);
}

/// The bytes always lie at the same place.
pub(crate) enum Bytes {}

/// As in the queue: every message has a slot, and the slot says where its bytes lie.
pub(crate) enum SlotAndBytes {}

fn write_bytes(words: Words, first: u64, trip: u64) {
    for word in [words.slot(first), words.slot(first + 1)].as_flattened() {
        word.store(trip, Ordering::Relaxed);
    }
}

fn read_bytes(words: Words, first: u64) {
    for word in [words.slot(first), words.slot(first + 1)].as_flattened() {
        black_box(word.load(Ordering::Relaxed));
    }
}

impl Crossing for Bytes {
    fn write(words: Words, way: u64, trip: u64) {
        write_bytes(words, way, trip);
    }

    fn read(words: Words, way: u64, _: u64) {
        read_bytes(words, way);
    }
}

/// Slots of each way, and pieces of 64 bytes.
const TRIPS: u64 = 128;

impl Crossing for SlotAndBytes {
    fn write(words: Words, way: u64, trip: u64) {
        let turn = trip % TRIPS;
        let first = way + TRIPS + 2 * turn;
        write_bytes(words, first, trip);
        for word in words.slot(way + turn) {
            word.store(first, Ordering::Relaxed);
        }
    }

    fn read(words: Words, way: u64, trip: u64) {
        let slot = words.slot(way + trip % TRIPS).map(|word| black_box(word.load(Ordering::Relaxed)));
        read_bytes(words, slot[2]);
    }
}

/// Each way has a count and half of the slots.
fn turn<C: Crossing>(words: Words, trips: u64, is_first: bool) {
    const HALF: u64 = DEPTH as u64 / 2;
    let (here, there) = if is_first { (words.head(), words.tail()) } else { (words.tail(), words.head()) };
    let (from, to) = if is_first { (0, HALF) } else { (HALF, 0) };
    for trip in 1..=trips {
        let send = || {
            C::write(words, to, trip);
            there.store(trip, Ordering::Release);
        };
        if is_first {
            send();
        }
        while here.load(Ordering::Acquire) != trip {
            spin_loop();
        }
        C::read(words, from, trip);
        if !is_first {
            send();
        }
    }
}

fn trips_of<C: Crossing>(role: &str, trips: u64) -> Duration {
    let (shared, words) = shared();
    let peer = Peer::start(&format!("{role} {trips} {}", shared.told));
    let start = Instant::now();
    turn::<C>(words, trips, true);
    let took = start.elapsed();
    peer.finish();
    took
}

pub(crate) fn round_trips(trips: u64) -> Duration {
    trips_of::<Bytes>("bare-echo", trips)
}

pub(crate) fn round_trips_with_slots(trips: u64) -> Duration {
    trips_of::<SlotAndBytes>("bare-echo-slots", trips)
}

pub(crate) fn echo<C: Crossing>(trips: u64, told: &[&str]) {
    with_words(told, |words| {
        say("ready");
        turn::<C>(words, trips, false);
        say("done");
    });
}
