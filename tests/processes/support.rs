//! What the cases have in common: kernels that misbehave, workers, and looks at what a process leaves behind.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use bufabi_core::{DType, Tag, Tensor};
use bufabi_host::kernels::{Call, Kernel, StandardKernels};
use bufabi_host::memory::{Mapping, Operand};
use bufabi_host::owner::{Buffer, Endpoint};
use bufabi_host::sys::process::Ending;
use bufabi_host::worker::{
    Completion, Death, KernelError, Kernels, TaskFailure, TaskRequest, WaitPolicy, WorkerId, WorkerKind,
    WorkerSpec, Workers,
};

/// A kernel that never ends.
pub(crate) const SLEEP_FOR_EVER: u32 = 1 << 20;
/// A kernel that panics.
pub(crate) const PANIC: u32 = SLEEP_FOR_EVER + 1;
/// A kernel that takes 50 ms.
pub(crate) const SLEEP_50_MS: u32 = SLEEP_FOR_EVER + 2;

pub(crate) const SIGCONT: i32 = 18;
pub(crate) const SIGSTOP: i32 = 19;

/// A kernel of [`Meeting`].
pub(crate) const MEET: u32 = SLEEP_FOR_EVER + 3;

/// The standard kernels, and some that misbehave.
pub(crate) struct TestKernels;

impl Kernels for TestKernels {
    fn run(&self, kernel: u32, operands: &[Operand<'_>], scalars: &[u64]) -> Result<(), KernelError> {
        match kernel {
            SLEEP_FOR_EVER => loop {
                thread::sleep(Duration::from_secs(3600));
            },
            PANIC => panic!("the kernel was told to"),
            SLEEP_50_MS => {
                thread::sleep(Duration::from_millis(50));
                Ok(())
            }
            kernel => StandardKernels.run(kernel, operands, scalars),
        }
    }
}

/// The test kernels, and one that ends only once as many as its scalar says have begun, in whatever processes.
pub(crate) struct Meeting(Mapping);

impl Meeting {
    pub(crate) fn new() -> Self {
        Self(Mapping::inherited(4096).unwrap())
    }

    /// How many have begun.
    pub(crate) fn begun(&self) -> u64 {
        u64::from(self.0.atomic_u32(0).unwrap().load(Ordering::SeqCst))
    }
}

impl Kernels for Meeting {
    fn run(&self, kernel: u32, operands: &[Operand<'_>], scalars: &[u64]) -> Result<(), KernelError> {
        if kernel != MEET {
            return TestKernels.run(kernel, operands, scalars);
        }
        self.0.atomic_u32(0).unwrap().fetch_add(1, Ordering::SeqCst);
        while Some(&self.begun()) < scalars.first() {
            thread::yield_now();
        }
        Ok(())
    }
}

/// The number of a standard kernel that overwrites.
pub(crate) fn number(kernel: Kernel) -> u32 {
    Call { kernel, accumulate: false }.number()
}

/// What a task comes to whose worker ended.
pub(crate) fn died(worker: &str, pid: i32, ending: Ending) -> TaskFailure {
    TaskFailure::WorkerDied(Death { worker: worker.to_owned(), pid, ending })
}

pub(crate) fn spec(name: &str, kind: WorkerKind) -> WorkerSpec {
    WorkerSpec { name: name.to_owned(), kind }
}

pub(crate) fn spawn(endpoint: &Endpoint, specs: &[WorkerSpec]) -> Workers {
    Workers::spawn(endpoint, specs, &TestKernels, WaitPolicy::default()).unwrap()
}

/// What takes longer hangs: ten times the second in which everything ought to be done, for machines that have other things to do.
pub(crate) const HANG: Duration = Duration::from_secs(10);

/// A time that no test waits for unless something hangs. A call that waits for it is found out by [`HANG`].
pub(crate) fn soon() -> Instant {
    Instant::now().checked_add(HANG * 2).unwrap()
}

/// A time that passes whole, since one never answers: enough for all others.
pub(crate) fn passing() -> Instant {
    Instant::now().checked_add(Duration::from_secs(2)).unwrap()
}

/// A task without arguments.
pub(crate) const fn bare(task: u64, kernel: u32) -> TaskRequest<'static> {
    TaskRequest { task, member: 0, kernel, tensors: &[], tags: &[], scalars: &[] }
}

/// Hands a task to a worker and waits for it.
pub(crate) fn run(
    workers: &mut Workers,
    worker: WorkerId,
    kernel: Kernel,
    tensors: &[Tensor],
    tags: &[Tag],
) -> Completion {
    let request = TaskRequest { task: 7, member: 0, kernel: number(kernel), tensors, tags, scalars: &[] };
    workers.submit(worker, &request).unwrap();
    workers.wait(soon()).unwrap()
}

/// The first `N` numbers of a buffer.
pub(crate) fn load<const N: usize>(buffer: &Buffer) -> [i32; N] {
    let mut numbers = [0; N];
    for (index, number) in numbers.iter_mut().enumerate() {
        let mut bytes = [0; 4];
        buffer.mapping().unwrap().read(index * 4, &mut bytes).unwrap();
        *number = i32::from_le_bytes(bytes);
    }
    numbers
}

pub(crate) fn store(buffer: &Buffer, numbers: &[i32]) {
    for (index, number) in numbers.iter().enumerate() {
        buffer.mapping().unwrap().write(index * 4, &number.to_le_bytes()).unwrap();
    }
}

/// All of a buffer as one row of 32-bit numbers.
pub(crate) fn row(buffer: &Buffer) -> Tensor {
    buffer.row_major(0, DType::Int32, &[u32::try_from(buffer.nbytes() / 4).unwrap()]).unwrap()
}

/// Shared-memory objects that this process made.
pub(crate) fn own_objects() -> BTreeSet<String> {
    let here = std::process::id();
    let entries = bufabi_host::shm::sweep::list().unwrap().objects;
    entries.iter().filter(|entry| entry.name.maker.pid == here).map(|entry| entry.name.to_string()).collect()
}

/// Descriptors that this process has open.
pub(crate) fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Mappings that this process has of shared memory.
pub(crate) fn shared_mappings() -> usize {
    fs::read_to_string("/proc/self/maps")
        .unwrap()
        .lines()
        .filter(|line| line.contains("/dev/shm/bufabi"))
        .count()
}

/// A process is there, and is not merely waiting to be waited for, or being taken off the list by who has waited.
pub(crate) fn is_running(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/stat"));
    status.is_ok_and(
        |status| !matches!(status.rsplit_once(") "), Some((_, rest)) if rest.starts_with(['Z', 'X'])),
    )
}

/// The process that started a process; `None` when there is none of that number.
pub(crate) fn parent_of(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    status.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// A process sleeps, and goes on sleeping: it is not once put on a processor.
pub(crate) fn does_not_run(pid: i32) {
    let switches = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = |name| status.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        (line("voluntary_ctxt_switches"), line("nonvoluntary_ctxt_switches"))
    };
    // It may be about to fall asleep.
    comes_true("falling asleep", || {
        let before = switches();
        thread::sleep(Duration::from_millis(20));
        switches() == before
    });
    let before = switches();
    thread::sleep(Duration::from_millis(100));
    assert_eq!(switches(), before);
}

/// Waits for something that ought to be so within a second.
pub(crate) fn comes_true(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < HANG, "{what} took more than {HANG:?}");
        thread::sleep(Duration::from_millis(1));
    }
}
