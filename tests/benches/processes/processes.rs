//! The message queue between two processes, beside a bare ring of the same messages and beside iceoryx2's publish-subscribe, in one run:
//! messages of 32 bytes one way, singly and 16 at a time, and round trips of 64 bytes. Both sides look without a pause.

mod bare;
mod iceoryx;
mod queue;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio, exit};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};

/// Tells a process that it is the other side, and what it does.
const PEER: &str = "BUFABI_BENCH_PEER";

/// Messages that go at once where several do.
const BATCH: usize = 16;

/// The longest that a peer may take: both sides look without a limit of their own, and one whose other side is gone would look for ever.
const LIMIT: Duration = Duration::from_secs(60);

/// The other side: a process that says when it is ready and when it is through. It ends with this one, and this one with it when it fails.
struct Peer {
    watch: JoinHandle<()>,
    output: BufReader<ChildStdout>,
    /// It ends when this one is closed.
    _input: ChildStdin,
}

impl Peer {
    fn start(role: &str) -> Self {
        let program = std::env::current_exe().expect("this program's file");
        let mut command = Command::new(program);
        let command = command.env(PEER, role).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let input = child.stdin.take().expect("a pipe");
        let watch = thread::spawn(move || {
            let ended = child.wait().expect("its end");
            if !ended.success() {
                eprintln!("the other process failed: {ended}");
                exit(1);
            }
        });
        let mut peer = Self { watch, output, _input: input };
        peer.heard("ready");
        peer
    }

    fn heard(&mut self, word: &str) {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        assert_eq!(line.trim_end(), word);
    }

    /// Waits until it is through.
    fn finish(mut self) {
        self.heard("done");
        self.watch.join().expect("its end");
    }
}

/// Ends this process when its other side does, or when it takes too long.
fn end_with_other_side() {
    thread::spawn(|| {
        // Nothing is ever written there: it can only be closed.
        let _ = std::io::stdin().read(&mut [0]);
        exit(1);
    });
    thread::spawn(|| {
        thread::sleep(LIMIT);
        eprintln!("the other side did not come to its end within {LIMIT:?}");
        exit(1);
    });
}

fn say(word: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{word}").and_then(|()| output.flush()).expect("a reader");
}

/// How long `work` takes until `peer` is through as well.
fn timed(peer: Peer, work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    peer.finish();
    start.elapsed()
}

fn benchmarks(c: &mut Criterion) {
    let mut group = c.benchmark_group("messages of 32 bytes between two processes, each");
    group.throughput(Throughput::Elements(1)).sample_size(10).measurement_time(Duration::from_secs(1));
    group.bench_function("bare ring", |b| b.iter_custom(bare::one_way));
    group.bench_function("queue", |b| b.iter_custom(queue::one_way));
    group.bench_function("queue, 16 at a time", |b| b.iter_custom(queue::one_way_in_batches));
    group.bench_function("bare ring, 16 at a time", |b| b.iter_custom(bare::one_way_in_batches));
    group.bench_function("iceoryx2", |b| b.iter_custom(iceoryx::one_way));
    group.finish();
    let mut group = c.benchmark_group("64 bytes to another process and back");
    group.sample_size(10).measurement_time(Duration::from_secs(1));
    group.bench_function("bare words", |b| b.iter_custom(bare::round_trips));
    group.bench_function("bare words by way of a slot", |b| b.iter_custom(bare::round_trips_with_slots));
    group.bench_function("queue", |b| b.iter_custom(queue::round_trips));
    group.bench_function("iceoryx2", |b| b.iter_custom(iceoryx::round_trips));
    group.finish();
}

fn main() {
    let Ok(role) = std::env::var(PEER) else {
        let mut criterion = Criterion::default().configure_from_args();
        benchmarks(&mut criterion);
        criterion.final_summary();
        return;
    };
    end_with_other_side();
    let words: Vec<&str> = role.split(' ').collect();
    match words.as_slice() {
        ["bare-sink", count, region @ ..] => bare::sink(number(count), region),
        ["bare-echo", count, region @ ..] => bare::echo::<bare::Bytes>(number(count), region),
        ["bare-echo-slots", count, region @ ..] => bare::echo::<bare::SlotAndBytes>(number(count), region),
        ["queue-sink", count, region @ ..] => queue::sink(number(count), region),
        ["queue-sink-batches", count, region @ ..] => queue::sink_in_batches(number(count), region),
        ["queue-echo", count, region @ ..] => queue::echo(number(count), region),
        ["iceoryx-sink", count, name] => iceoryx::sink(number(count), name),
        ["iceoryx-echo", count, name] => iceoryx::echo(number(count), name),
        _ => panic!("no such role: {role}"),
    }
}

fn number(word: &str) -> u64 {
    word.parse().expect("a number")
}
