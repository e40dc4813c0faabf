//! The host's rows of docs/figures.md: an import that is there already, a first import and its release, a task to another process and
//! back, each beside what the bare machine takes for the same in the same run.
//!
//! All processes are forked at the start, before anything here starts a thread.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a benchmark makes its own input"
)]

use std::hint::{black_box, spin_loop};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bufabi_core::wire::body::{Body, ShmName};
use bufabi_core::{Access, Descriptor, Tag};
use bufabi_host::consumer::Consumer;
use bufabi_host::memory::{Mapping, Operand};
use bufabi_host::owner::{Buffer, Endpoint};
use bufabi_host::sys::futex;
use bufabi_host::sys::parent::end_with;
use bufabi_host::sys::process::{Process, fork};
use bufabi_host::sys::shm::{self, Open};
use bufabi_host::worker::{
    KernelError, Kernels, TaskRequest, WaitPolicy, WorkerId, WorkerKind, WorkerSpec, Workers,
};
use criterion::{Criterion, Throughput};

/// A kernel that does nothing.
struct Nothing;

impl Kernels for Nothing {
    fn run(&self, _: u32, _: &[Operand<'_>], _: &[u64]) -> Result<(), KernelError> {
        Ok(())
    }
}

/// Two numbers in lines of their own, and a process that answers every change of the first by the same change of the second, after it has
/// copied out the bytes that came along.
struct Partner {
    memory: Mapping,
    process: Process,
    last: u32,
    bytes: Vec<u8>,
}

/// Where a partner's bytes are.
const BYTES: usize = 512;

/// Looks until a number is another one; `None` after many more looks than an answer takes.
type Wait = fn(&AtomicU32, u32) -> Option<u32>;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

impl Partner {
    fn new(nbytes: usize, wait: Wait, tell: fn(&AtomicU32, u32)) -> Self {
        let memory = Mapping::inherited(4096).unwrap();
        let parent = Process::current().unwrap();
        let process = fork(|| {
            // Left alone it would wait, and spin, for ever.
            end_with(&parent).unwrap();
            let change = |wait: Wait, number, last| loop {
                if let Some(next) = wait(number, last) {
                    return next;
                }
            };
            let (asked, answered) = (memory.atomic_u32(0).unwrap(), memory.atomic_u32(256).unwrap());
            let mut copy = vec![0; nbytes];
            // Asleep until it is asked for the first time, so that it disturbs nobody before.
            let mut last = change(futex_wait, asked, 0);
            tell(answered, last);
            loop {
                last = change(wait, asked, last);
                memory.read(BYTES, &mut copy).unwrap();
                black_box(&copy);
                tell(answered, last);
            }
        })
        .unwrap();
        Self { memory, process, last: 0, bytes: vec![1; nbytes] }
    }

    fn exchange(&mut self, wait: Wait, tell: fn(&AtomicU32, u32)) {
        let (asked, answered) = (self.memory.atomic_u32(0).unwrap(), self.memory.atomic_u32(256).unwrap());
        self.memory.write(BYTES, black_box(&self.bytes)).unwrap();
        if self.last == 0 {
            futex_wake(asked, 1);
        } else {
            tell(asked, self.last + 1);
        }
        let mut until = None;
        self.last = loop {
            if let Some(answer) = wait(answered, self.last) {
                break answer;
            }
            let until = *until.get_or_insert_with(|| Instant::now() + PATIENCE);
            let has_ended = self.process.has_ended_by(Instant::now()).unwrap();
            assert!(!has_ended && Instant::now() < until, "the other process answers no more");
        };
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        self.process.send(libc::SIGKILL).unwrap();
        assert!(self.process.has_ended_by(Instant::now() + PATIENCE).unwrap());
        self.process.ended().unwrap();
    }
}

fn spin(number: &AtomicU32, last: u32) -> Option<u32> {
    for _ in 0..1 << 20 {
        let now = number.load(Ordering::Acquire);
        if now != last {
            return Some(now);
        }
        spin_loop();
    }
    None
}

fn store(number: &AtomicU32, value: u32) {
    number.store(value, Ordering::Release);
}

fn futex_wait(number: &AtomicU32, last: u32) -> Option<u32> {
    for _ in 0..8 {
        let now = number.load(Ordering::Acquire);
        if now != last {
            return Some(now);
        }
        futex::sleep(number, last, Duration::from_millis(100)).unwrap();
    }
    None
}

fn futex_wake(number: &AtomicU32, value: u32) {
    number.store(value, Ordering::Release);
    futex::wake(number).unwrap();
}

/// Bytes of a blob of 8 tensors.
const EIGHT_TENSORS: usize = 8 + 8 * 144;

/// One worker: a second one would spin on a processor that the two sides of the exchange need.
fn worker(endpoint: &Endpoint, spin: Duration) -> Workers {
    let spec = WorkerSpec { name: "sub".to_owned(), kind: WorkerKind::Sub };
    Workers::spawn(endpoint, &[spec], &Nothing, WaitPolicy { spin }).unwrap()
}

fn round_trip(workers: &mut Workers, request: &TaskRequest<'_>) {
    workers.submit(WorkerId(0), request).unwrap();
    let limit = Instant::now() + PATIENCE;
    black_box(workers.wait(limit).unwrap().result.unwrap());
}

fn imports(c: &mut Criterion, endpoint: &Endpoint) {
    for live in [16, 4096] {
        let mut group = c.benchmark_group(format!("import of a mapped identity, {live} live"));
        group.throughput(Throughput::Bytes(88));
        let buffers: Vec<Buffer> =
            (0..live).map(|_| endpoint.create_buffer(4096, Access::ReadWrite).unwrap()).collect();
        let consumer = Consumer::new(None).unwrap();
        let descriptors: Vec<Descriptor> = buffers.iter().map(|b| b.descriptor().unwrap()).collect();
        for descriptor in &descriptors {
            consumer.import(descriptor).unwrap();
        }
        // In an order without a pattern: a multiplier that is odd passes every index once.
        let order: Vec<usize> = (0..live).map(|i| (i * 2_654_435_761) % live).collect();
        let mut next = (0..live).cycle();
        group.bench_function("import and drop", |b| {
            b.iter(|| black_box(consumer.import(black_box(&descriptors[order[next.next().unwrap()]]))));
        });
        group.bench_function("plain copy", |b| {
            b.iter(|| black_box(descriptors[order[next.next().unwrap()]]));
        });
        group.finish();
    }
}

/// What an import and its release cannot do without.
fn bare_import(name: &ShmName, nbytes: usize) {
    let fd = shm::open(name, Open::ReadWrite).unwrap();
    assert!(shm::status(fd.as_fd()).unwrap().is_regular);
    let (none, protection) = (core::ptr::null_mut(), libc::PROT_READ | libc::PROT_WRITE);
    let fd_number = std::os::fd::AsRawFd::as_raw_fd(&fd);
    // SAFETY: the kernel chooses the addresses.
    let base = unsafe { libc::mmap(none, nbytes, protection, libc::MAP_SHARED, fd_number, 0) };
    assert_ne!(base, libc::MAP_FAILED);
    drop(fd);
    // SAFETY: this is the mapping that was just made, and nobody uses it.
    assert_eq!(unsafe { libc::munmap(base, nbytes) }, 0);
}

fn first_import(c: &mut Criterion, endpoint: &Endpoint) {
    const NBYTES: usize = 1 << 20;
    let mut group = c.benchmark_group("first import of 1 MiB and its release");
    let buffer = endpoint.create_buffer(1 << 20, Access::ReadWrite).unwrap();
    let descriptor = buffer.descriptor().unwrap();
    let Body::PosixShm { name } = descriptor.body() else { return };
    let consumer = Consumer::new(None).unwrap();
    group.bench_function("import and release", |b| {
        b.iter(|| {
            drop(consumer.import(&descriptor).unwrap());
            consumer.release(descriptor.identity()).unwrap();
        });
    });
    group.bench_function("bare system calls", |b| b.iter(|| bare_import(&name, NBYTES)));
    group.finish();
}

fn main() {
    let endpoint = Endpoint::new().unwrap();
    let mut bare_spin = Partner::new(0, spin, store);
    let mut bare_bytes = Partner::new(EIGHT_TENSORS, spin, store);
    let mut bare_futex = Partner::new(0, futex_wait, futex_wake);
    let mut spinning = worker(&endpoint, Duration::from_millis(100));
    let mut asleep = worker(&endpoint, Duration::ZERO);
    let mut adaptive = worker(&endpoint, WaitPolicy::default().spin);

    let mut c = Criterion::default().configure_from_args();
    let empty = TaskRequest { task: 1, member: 0, kernel: 0, tensors: &[], tags: &[], scalars: &[] };
    let buffers: Vec<_> = (0..8).map(|_| endpoint.create_buffer(4096, Access::ReadWrite).unwrap()).collect();
    let tensors: Vec<_> =
        buffers.iter().map(|b| b.row_major(0, bufabi_core::DType::Uint8, &[4096]).unwrap()).collect();
    let eight = TaskRequest { tensors: &tensors, tags: &[Tag::Inout; 8], ..empty };

    let mut group = c.benchmark_group("a task to another process and back");
    // First, and gone before the next: their processes spin once they have been asked.
    group.bench_function("bare spin", |b| b.iter(|| bare_spin.exchange(spin, store)));
    drop(bare_spin);
    group.bench_function("bare spin, the bytes of 8 tensors", |b| {
        b.iter(|| bare_bytes.exchange(spin, store));
    });
    drop(bare_bytes);
    group.bench_function("both spinning", |b| b.iter(|| round_trip(&mut spinning, &empty)));
    group.bench_function("both spinning, 8 tensors", |b| b.iter(|| round_trip(&mut spinning, &eight)));
    drop(spinning);
    group.bench_function("both asleep", |b| b.iter(|| round_trip(&mut asleep, &empty)));
    drop(asleep);
    group.bench_function("bare futex", |b| b.iter(|| bare_futex.exchange(futex_wait, futex_wake)));
    drop(bare_futex);
    group.bench_function("spinning for 50 us", |b| b.iter(|| round_trip(&mut adaptive, &empty)));
    drop(adaptive);
    group.finish();

    imports(&mut c, &endpoint);
    first_import(&mut c, &endpoint);
    c.final_summary();
}
