//! The message queue between two threads, beside a bare ring of the same messages in the same run: messages of 32 bytes one
//! way, and round trips of 64 bytes.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a benchmark makes its own input"
)]

use std::hint::{black_box, spin_loop};
use std::process::abort;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bufabi_core::queue::{COUNTER_BYTES, Kind, L2End, L3End, QueueLayout, ReceiveError, SendError};
use bufabi_tests::memory::AtomicMemory;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const DEPTH: u64 = 1024;
const SLOTS: usize = 1024;

/// The least that a ring of messages can be: 32 bytes in each slot, two counts, each side remembers the other one's.
struct BareRing {
    head: Line,
    tail: Line,
    slots: Vec<[AtomicU64; 4]>,
}

#[repr(align(64))]
#[derive(Default)]
struct Line(AtomicU64);

impl BareRing {
    fn new() -> Self {
        let slot = || [(); 4].map(|()| AtomicU64::new(0));
        Self { head: Line::default(), tail: Line::default(), slots: (0..DEPTH).map(|_| slot()).collect() }
    }
}

fn slot(count: u64) -> usize {
    usize::try_from(count % DEPTH).unwrap()
}

fn bare_send(ring: &BareRing, messages: u64) {
    let mut head = 0;
    for count in 0..messages {
        while count - head == DEPTH {
            head = ring.head.0.load(Ordering::Acquire);
            spin_loop();
        }
        for word in &ring.slots[slot(count)] {
            word.store(count, Ordering::Relaxed);
        }
        ring.tail.0.store(count + 1, Ordering::Release);
    }
}

fn bare_receive(ring: &BareRing, messages: u64) {
    let mut tail = 0;
    for count in 0..messages {
        while count == tail {
            tail = ring.tail.0.load(Ordering::Acquire);
            spin_loop();
        }
        for word in &ring.slots[slot(count)] {
            black_box(word.load(Ordering::Relaxed));
        }
        ring.head.0.store(count + 1, Ordering::Release);
    }
}

struct Queue {
    layout: QueueLayout,
    memory: AtomicMemory,
}

impl Queue {
    fn new() -> Self {
        let layout = QueueLayout::new(DEPTH, 64 * DEPTH, 64 * DEPTH).unwrap();
        Self { layout, memory: AtomicMemory::new(layout.payload_bytes(), COUNTER_BYTES) }
    }

    fn l3(&self) -> L3End<&AtomicMemory, Vec<u64>> {
        L3End::new(self.layout, &self.memory, vec![0; SLOTS]).unwrap()
    }

    fn l2(&self) -> L2End<&AtomicMemory, Vec<u64>, 1> {
        L2End::new(self.layout, &self.memory, vec![0; SLOTS]).unwrap()
    }
}

fn queue_send(queue: &Queue, messages: u64) {
    let mut end = queue.l3();
    for count in 0..messages {
        let bytes = [count.to_le_bytes(); 4];
        while let Err(error) = end.try_enqueue(Kind::Data, bytes.as_flattened()) {
            assert!(matches!(error, SendError::Full(_)), "{error}");
            spin_loop();
        }
    }
}

fn queue_receive(queue: &Queue, messages: u64) {
    let mut end = queue.l2();
    let mut bytes = [0; 32];
    for _ in 0..messages {
        let message = loop {
            match end.try_receive() {
                Ok(message) => break message,
                Err(error) => {
                    assert_eq!(error, ReceiveError::Empty);
                    spin_loop();
                }
            }
        };
        end.read_into(message.handle(), &mut bytes).unwrap();
        black_box(&bytes);
        end.release(message.handle()).unwrap();
    }
}

/// One of two sides that wait for each other: one that panics ends both, for the other would look for it for ever.
struct Side;

impl Drop for Side {
    fn drop(&mut self) {
        if thread::panicking() {
            abort();
        }
    }
}

/// How long it takes until both sides are through.
fn time_both(one: impl FnOnce() + Send, other: impl FnOnce()) -> Duration {
    let start = Barrier::new(2);
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _side = Side;
            start.wait();
            one();
        });
        let _side = Side;
        start.wait();
        let begin = Instant::now();
        other();
        thread.join().unwrap();
        begin.elapsed()
    })
}

fn one_way(c: &mut Criterion) {
    let mut group = c.benchmark_group("messages of 32 bytes between two threads, each");
    group.throughput(Throughput::Elements(1));
    group.bench_function("bare ring", |b| {
        b.iter_custom(|messages| {
            let ring = BareRing::new();
            time_both(|| bare_receive(&ring, messages), || bare_send(&ring, messages))
        });
    });
    group.bench_function("queue", |b| {
        b.iter_custom(|messages| {
            let queue = Queue::new();
            time_both(|| queue_receive(&queue, messages), || queue_send(&queue, messages))
        });
    });
}

fn one_thread(c: &mut Criterion) {
    let mut group = c.benchmark_group("a message of 32 bytes sent and received in one thread");
    group.bench_function("bare ring", |b| {
        let ring = BareRing::new();
        let mut count = 0;
        b.iter(|| {
            for word in &ring.slots[slot(count)] {
                word.store(count, Ordering::Relaxed);
            }
            ring.tail.0.store(count + 1, Ordering::Release);
            black_box(ring.tail.0.load(Ordering::Acquire));
            for word in &ring.slots[slot(count)] {
                black_box(word.load(Ordering::Relaxed));
            }
            ring.head.0.store(count + 1, Ordering::Release);
            count += 1;
        });
    });
    group.bench_function("queue", |b| {
        let queue = Queue::new();
        let (mut l3, mut l2) = (queue.l3(), queue.l2());
        let mut bytes = [0; 32];
        b.iter(|| {
            l3.try_enqueue(Kind::Data, black_box(&[7; 32])).unwrap();
            let message = l2.try_receive().unwrap();
            l2.read_into(message.handle(), &mut bytes).unwrap();
            black_box(&bytes);
            l2.release(message.handle()).unwrap();
        });
    });
}

fn round_trips(c: &mut Criterion) {
    let mut group = c.benchmark_group("64 bytes to another thread and back");
    group.bench_function("bare words", |b| {
        b.iter_custom(|trips| {
            let lines: [[Line; 2]; 2] = Default::default();
            let bytes = || [(); 8].map(|()| AtomicU64::new(0));
            let payload = [bytes(), bytes()];
            let turn = |from: usize, to: usize, first: bool| {
                for trip in 1..=trips {
                    let send = || {
                        for word in &payload[to] {
                            word.store(trip, Ordering::Relaxed);
                        }
                        lines[to][0].0.store(trip, Ordering::Release);
                    };
                    if first {
                        send();
                    }
                    while lines[from][0].0.load(Ordering::Acquire) != trip {
                        spin_loop();
                    }
                    for word in &payload[from] {
                        black_box(word.load(Ordering::Relaxed));
                    }
                    if !first {
                        send();
                    }
                }
            };
            time_both(|| turn(1, 0, false), || turn(0, 1, true))
        });
    });
    group.bench_function("queue", |b| {
        b.iter_custom(|trips| {
            let queue = Queue::new();
            let answer = || {
                let mut end = queue.l2();
                let mut bytes = [0; 64];
                for _ in 0..trips {
                    let message = loop {
                        match end.try_receive() {
                            Ok(message) => break message,
                            Err(error) => {
                                assert_eq!(error, ReceiveError::Empty);
                                spin_loop();
                            }
                        }
                    };
                    end.read_into(message.handle(), &mut bytes).unwrap();
                    end.release(message.handle()).unwrap();
                    end.try_send(Kind::Data, &bytes).unwrap();
                }
            };
            let ask = || {
                let mut end = queue.l3();
                let mut bytes = [5; 64];
                for _ in 0..trips {
                    end.try_enqueue(Kind::Data, &bytes).unwrap();
                    while let Err(error) = end.try_dequeue_into(&mut bytes) {
                        assert_eq!(error, ReceiveError::Empty);
                        spin_loop();
                    }
                }
            };
            time_both(answer, ask)
        });
    });
}

criterion_group!(benches, one_way, one_thread, round_trips);
criterion_main!(benches);
