//! Backings in the hands of workers: released everywhere, and released at the very moment when a task that names them is submitted.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bufabi_core::{Access, Code, Descriptor, Tag};
use bufabi_host::kernels::{Call, Kernel, StandardKernels};
use bufabi_host::memory::Operand;
use bufabi_host::worker::{
    KernelError, Kernels, SubmitError, TaskRequest, WaitPolicy, WorkerId, WorkerKind, WorkerSpec, Workers,
};
use bufabi_tests::apart::count;
use bufabi_tests::random::Random;

use crate::ForEach;
use crate::kinds::{Handle, Kind, Owner, at_the_fork, whole};

/// What workers of the owner's process resolve.
pub(crate) const KINDS: [Kind; 4] = [Kind::PosixShm, Kind::ForkShm, Kind::ForkCow, Kind::VmmShareable];

pub(crate) const CASES: &[ForEach] = &[
    ("is_dropped_by_every_worker_when_it_is_released_and_those_that_keep_it_are_named", broadcast),
    ("is_live_for_a_task_or_the_task_is_refused_whenever_it_is_released", race),
];

const NBYTES: u64 = 256;
/// A kernel that does not return within a test.
const SLEEP: u32 = 1 << 20;

struct Sleepy;

impl Kernels for Sleepy {
    fn run(&self, kernel: u32, operands: &[Operand<'_>], scalars: &[u64]) -> Result<(), KernelError> {
        if kernel == SLEEP {
            thread::sleep(Duration::from_secs(3600));
        }
        StandardKernels.run(kernel, operands, scalars)
    }
}

/// An owner and two workers.
fn start(kind: Kind) -> (Owner, Workers) {
    let mut owner = Owner::new(kind);
    let specs = [("first", WorkerKind::Chip), ("second", WorkerKind::Sub)];
    let specs = specs.map(|(name, kind)| WorkerSpec { name: name.to_owned(), kind });
    let workers = Workers::spawn(&owner.endpoint, &specs, &Sleepy, WaitPolicy::default()).unwrap();
    owner.begin();
    (owner, workers)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

fn copy_number() -> u32 {
    Call { kernel: Kernel::Copy, accumulate: false }.number()
}

/// Makes one, with bytes that tell it apart, and answers those that a worker sees.
fn make(owner: &mut Owner, round: u32) -> (Descriptor, Vec<u8>) {
    let access = if owner.kind == Kind::ForkCow { Access::Read } else { Access::ReadWrite };
    let descriptor = owner.make(NBYTES, access).unwrap();
    if !owner.kind.shares() {
        return (descriptor, at_the_fork(owner.offset_in_region(&descriptor), NBYTES));
    }
    let stored = round.to_le_bytes().repeat(64);
    owner.write(descriptor.identity(), 0, &stored).unwrap();
    (descriptor, stored)
}

fn broadcast(kind: Kind) {
    let (mut owner, mut workers) = start(kind);
    let (descriptor, stored) = make(&mut owner, 7);
    let identity = descriptor.identity();
    let results = owner.endpoint.create_buffer(NBYTES, Access::ReadWrite).unwrap();
    let result = whole(&results.descriptor().unwrap());
    let tensors = [whole(&descriptor), result];
    let (first, second) = (WorkerId(0), WorkerId(1));
    let request = TaskRequest {
        task: 1,
        member: 0,
        kernel: copy_number(),
        tensors: &tensors,
        tags: &[Tag::Input, Tag::Output],
        scalars: &[],
    };
    for worker in [first, second] {
        results.mapping().unwrap().clear(0, 256).unwrap();
        workers.submit(worker, &request).unwrap();
        assert_eq!(owner.release(identity), Err(Code::Busy));
        workers.wait(soon()).unwrap().result.unwrap();
        let mut found = [0; 256];
        results.mapping().unwrap().read(0, &mut found).unwrap();
        assert_eq!(found[..], stored);
    }
    owner.release(identity).unwrap();
    // Both drop it; a second time there is nothing to be dropped, and that is no error.
    assert_eq!(workers.release_imports(identity, soon()), Ok(vec![]));
    assert_eq!(workers.release_imports(identity, soon()), Ok(vec![]));
    let refused = workers.submit(first, &request).unwrap_err();
    assert!(matches!(refused, SubmitError::Own { argument: 0, .. }));
    assert_eq!(refused.code(), Code::Stale);
    // One that is busy and does not answer in time is named, and the other one has dropped it.
    let (descriptor, _) = make(&mut owner, 8);
    let sleep = TaskRequest { task: 2, kernel: SLEEP, tensors: &[], tags: &[], ..request };
    workers.submit(second, &sleep).unwrap();
    owner.release(descriptor.identity()).unwrap();
    let kept = workers.release_imports(descriptor.identity(), Instant::now() + Duration::from_millis(30));
    let kept: Vec<_> = kept.unwrap().into_iter().map(|kept| (kept.worker, kept.why)).collect();
    assert_eq!(kept, [(second, None)]);
    // What is abandoned with its worker is busy until that has ended.
    workers.stop(Instant::now());
    assert_eq!(owner.endpoint.live(), 1, "the results");
}

/// How the two sides begin a round together: each waits until both are there.
struct Meeting(AtomicU32);

impl Meeting {
    fn meet(&self, round: u32) {
        self.0.fetch_add(1, Ordering::AcqRel);
        while self.0.load(Ordering::Acquire) < 2 * round {
            thread::yield_now();
        }
    }
}

fn race(kind: Kind) {
    let (mut owner, mut workers) = start(kind);
    let results = owner.endpoint.create_buffer(NBYTES, Access::ReadWrite).unwrap();
    let result = whole(&results.descriptor().unwrap());
    let meeting = Meeting(AtomicU32::new(0));
    let rounds = count(2_500, 100_000);
    let (to_releaser, of_submitter) = mpsc::channel::<(u32, Handle)>();
    let (to_submitter, of_releaser) = mpsc::channel::<(Handle, Result<(), Code>)>();
    let (mut ran, mut refused) = (0_u32, 0_u32);
    thread::scope(|scope| {
        let other_side = &meeting;
        scope.spawn(move || {
            let mut random = Random::new(1);
            while let Ok((round, mut handle)) = of_submitter.recv() {
                let moments = random.below(400);
                other_side.meet(round);
                (0..moments).for_each(|_| std::hint::spin_loop());
                let released = handle.release();
                to_submitter.send((handle, released)).unwrap();
            }
        });
        let to_releaser = to_releaser;
        let mut random = Random::new(2);
        for round in 1..=rounds {
            let (descriptor, stored) = make(&mut owner, round);
            let tensors = [whole(&descriptor), result];
            let request = TaskRequest {
                task: round.into(),
                member: 0,
                kernel: copy_number(),
                tensors: &tensors,
                tags: &[Tag::Input, Tag::Output],
                scalars: &[],
            };
            to_releaser.send((round, owner.take(descriptor.identity()))).unwrap();
            let moments = random.below(400);
            meeting.meet(round);
            (0..moments).for_each(|_| std::hint::spin_loop());
            let submitted = workers.submit(WorkerId(0), &request);
            if submitted.is_ok() {
                // It runs on live memory, whatever the other thread does.
                workers.wait(soon()).unwrap().result.unwrap();
                let mut found = [0; 256];
                results.mapping().unwrap().read(0, &mut found).unwrap();
                assert_eq!(found[..], stored, "round {round}");
            }
            let (mut handle, released) = of_releaser.recv().unwrap();
            match (submitted, released) {
                (Ok(()), released) => {
                    ran += 1;
                    // It came while the task had it, or when the task was over.
                    assert!(matches!(released, Ok(()) | Err(Code::Busy)), "{released:?}");
                    if released.is_err() {
                        handle.release().unwrap();
                    }
                }
                (Err(SubmitError::Own { argument: 0, error }), Ok(())) => {
                    refused += 1;
                    assert!(matches!(error.code(), Code::Stale | Code::Closing), "{error}");
                }
                other => panic!("round {round}: {other:?}"),
            }
            if round.is_multiple_of(512) {
                let kept = workers.release_imports(descriptor.identity(), soon()).unwrap();
                assert_eq!(kept, []);
            }
        }
        drop(to_releaser);
        assert_eq!(owner.endpoint.live(), 1);
    });
    assert_eq!(ran + refused, rounds);
}
