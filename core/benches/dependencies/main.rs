//! The dependency rows of docs/figures.md, each beside a plain copy of its arguments in the same run; and the growth from 1 to
//! 100,000 live views as a plot, docs/dependency-growth.svg.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a benchmark makes its own input"
)]

mod plot;

use std::fmt::Debug;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use bufabi_core::dependencies::{Allocate, Argument, Capacities, Handle, Memory, Policy, Storage, Tracker};
use bufabi_core::{DType, Identity, KeyedHash, OwnerInstanceId, Tag, View};
use criterion::{Criterion, Throughput, criterion_group};

#[derive(Debug)]
struct Boxed;

impl Memory for Boxed {
    type Of<T: Clone + Debug + 'static> = Box<[T]>;
}

impl Allocate for Boxed {
    fn filled<T: Clone + Debug + 'static>(value: T, len: usize) -> Box<[T]> {
        vec![value; len].into()
    }
}

const NBYTES: u64 = 1 << 40;
/// Bytes of a row of the array that tiles are cut out of: 1,024 tiles of 64 bytes.
const PITCH: u32 = 1 << 16;

fn argument(buffer: u32, view: View, tag: Tag) -> Argument {
    let identity = Identity::new(OwnerInstanceId([5; 8]), u64::from(buffer), NonZeroU32::MIN);
    Argument { identity, nbytes: NBYTES, view, tag, rank: buffer }
}

fn tracker(tasks: usize) -> Tracker<Boxed> {
    let capacities = Capacities {
        entries: tasks + 8192,
        pieces: 2 * tasks + 8192,
        ..Capacities::for_tasks(tasks + 64, 128)
    };
    Tracker::new(Policy::Full, KeyedHash::new([1, 2]), Storage::allocate(&capacities))
}

/// What is live in a backing.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Ranges,
    Tiles,
}

/// The view in that place, moved by a part of itself so that it meets up to two ranges, or four tiles.
fn view(kind: Kind, place: u64, moved: u64) -> View {
    let (column, row) = (place % 1024, place / 1024);
    match kind {
        Kind::Ranges => View::new(place * 4096 + moved * 256, DType::Uint8, &[4096], &[1], NBYTES),
        Kind::Tiles => {
            let offset = (row * 16 + moved) * u64::from(PITCH) + column * 64 + moved;
            View::new(offset, DType::Uint8, &[16, 64], &[PITCH, 1], NBYTES)
        }
    }
    .unwrap()
}

/// A tracker with so many views on one backing, each written by a task of its own.
fn live(kind: Kind, count: u64) -> Tracker<Boxed> {
    let mut tracker = tracker(count as usize);
    for place in scattered(count) {
        tracker.submit(place, [argument(0, view(kind, place, 0), Tag::Output)]).unwrap();
    }
    tracker
}

/// Each number below `count` once, in an order without a pattern.
fn scattered(count: u64) -> impl Iterator<Item = u64> {
    let step = (count / 2 + 1..).find(|&step| greatest_common_divisor(step, count) == 1).unwrap();
    (0..count).map(move |i| i * step % count)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Reads that meet up to four of the live views.
fn questions(kind: Kind, count: u64) -> Vec<Argument> {
    (0..4096_u64).map(|i| argument(0, view(kind, i * 7919 % count, i % 8), Tag::Input)).collect()
}

/// A lookup of each question in turn, and the mean in nanoseconds.
fn look_up(tracker: &mut Tracker<Boxed>, questions: &[Argument]) -> Duration {
    let start = Instant::now();
    for question in questions {
        black_box(tracker.look_up([*black_box(question)]).unwrap());
    }
    start.elapsed() / questions.len() as u32
}

fn lookups(c: &mut Criterion) {
    let mut group = c.benchmark_group("dependency lookup");
    for (kind, name) in [(Kind::Ranges, "ranges"), (Kind::Tiles, "tiles")] {
        for count in [1, 64, 100_000] {
            let mut tracker = live(kind, count);
            let questions = questions(kind, count);
            for question in &questions {
                assert!((1..=4).contains(&tracker.look_up([*question]).unwrap().len()));
            }
            let mut next = questions.iter().cycle();
            group.bench_function(format!("{count} {name}"), |b| {
                b.iter(|| tracker.look_up([*next.next().unwrap()]).map(<[_]>::len));
            });
        }
    }
    let question = argument(0, view(Kind::Tiles, 5, 1), Tag::Input);
    group.bench_function("plain copy", |b| b.iter(|| *black_box(&question)));
    group.finish();

    let mut group = c.benchmark_group("each further edge");
    group.throughput(Throughput::Elements(128));
    for (name, tag) in [("writers", Tag::Output), ("readers", Tag::Input)] {
        let mut tracker = tracker(128);
        for place in 0..128 {
            let place = if tag == Tag::Input { 0 } else { place };
            tracker.submit(place, [argument(0, view(Kind::Ranges, place, 0), tag)]).unwrap();
        }
        let all = View::new(0, DType::Float32, &[128 * 1024], &[1], NBYTES).unwrap();
        let question = argument(0, all, Tag::Output);
        assert_eq!(tracker.look_up([question]).unwrap().len(), 128);
        group.bench_function(format!("128 {name}"), |b| {
            b.iter(|| tracker.look_up([*black_box(&question)]).map(<[_]>::len));
        });
    }
}

/// Submits tasks of 64 arguments on 64 buffers and retires them, over and over, and gives the time of all submits, and of all that
/// retired them.
fn submit_and_retire_times(iterations: u64, tags: &[Tag]) -> [Duration; 2] {
    let mut tracker = tracker(64);
    let tasks: Vec<Vec<Argument>> = tags
        .iter()
        .map(|&tag| (0..64).map(|buffer| argument(buffer, view(Kind::Ranges, 3, 0), tag)).collect())
        .collect();
    let mut handles: Vec<Handle> = Vec::new();
    let mut total = [Duration::ZERO; 2];
    for number in 0..iterations {
        let start = Instant::now();
        for arguments in &tasks {
            handles.push(tracker.submit(number, black_box(arguments).iter().copied()).unwrap().handle);
        }
        let submitted = Instant::now();
        handles.drain(..).for_each(|handle| tracker.finish(handle, |_| ()).unwrap());
        total[0] += submitted - start;
        total[1] += submitted.elapsed();
    }
    total
}

fn submits(c: &mut Criterion) {
    let rows: [(&str, Vec<Tag>); 3] = [
        ("reads with no writer, 1 task", vec![Tag::Input]),
        ("write-read pairs, 2 tasks", vec![Tag::Output, Tag::Input]),
        ("read-write chains, 8 tasks", [Tag::Input, Tag::Output].repeat(4)),
    ];
    let mut group = c.benchmark_group("submit of 64 arguments on 64 buffers");
    for (name, tags) in &rows {
        group.throughput(Throughput::Elements(64 * tags.len() as u64));
        group.bench_function(*name, |b| {
            b.iter_custom(|iterations| submit_and_retire_times(iterations, tags)[0]);
        });
    }
    let arguments: Vec<Argument> =
        (0..64).map(|buffer| argument(buffer, view(Kind::Ranges, 3, 0), Tag::Input)).collect();
    let mut copy = arguments.clone();
    group.bench_function("plain copy", |b| {
        b.iter(|| black_box(&mut copy).copy_from_slice(black_box(&arguments)));
    });
    group.finish();

    let mut group = c.benchmark_group("retiring 64 arguments on 64 buffers");
    for (name, tags) in &rows {
        group.throughput(Throughput::Elements(64 * tags.len() as u64));
        group.bench_function(*name, |b| {
            b.iter_custom(|iterations| submit_and_retire_times(iterations, tags)[1]);
        });
    }
}

/// The time of a lookup with so many live views that a tenth of many short passes stay below: what else the machine does only adds.
fn growth(kind: Kind) -> Vec<(f64, f64)> {
    let counts = [1, 2, 5]
        .into_iter()
        .cycle()
        .zip([1, 1, 1, 10, 10, 10, 100, 100, 100, 1000, 1000, 1000, 10_000, 10_000, 10_000]);
    counts
        .map(|(digit, power)| digit * power)
        .chain([100_000])
        .map(|count| {
            let (mut tracker, questions) = (live(kind, count), questions(kind, count));
            let mut times: Vec<Duration> =
                (0..50).flat_map(|_| questions.chunks(256)).map(|part| look_up(&mut tracker, part)).collect();
            times.sort_unstable();
            (count as f64, times[times.len() / 10].as_nanos() as f64)
        })
        .collect()
}

criterion_group!(benches, lookups, submits);

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    // A test run of this program measures nothing.
    if std::env::args().any(|argument| argument == "--bench") {
        let curves = [("ranges", growth(Kind::Ranges)), ("tiles of one pitch", growth(Kind::Tiles))];
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/dependency-growth.svg");
        std::fs::write(path, plot::svg(&curves)).unwrap();
    }
}
