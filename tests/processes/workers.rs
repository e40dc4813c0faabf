//! Workers: tasks go there and come back, and whatever ends is noticed.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use bufabi_core::wire::backend::AddressSpace;
use bufabi_core::wire::body::{Body, ShmName};
use bufabi_core::{Access, Code, DType, Descriptor, Tag, Tensor};
use bufabi_host::consumer::Resolution;
use bufabi_host::kernels::Kernel;
use bufabi_host::owner::Endpoint;
use bufabi_host::sys::process::{Ending, Process, fork};
use bufabi_host::worker::{
    KeptImport, SpawnError, SubmitError, TaskFailure, TaskRequest, WaitError, WaitPolicy, WorkerId,
    WorkerKind, WorkerSpec, Workers,
};

use crate::Case;
use crate::support::{
    HANG, PANIC, SLEEP_50_MS, SLEEP_FOR_EVER, TestKernels, bare, comes_true, died, does_not_run, is_running,
    load, number, open_files, own_objects, passing, row, run, shared_mappings, soon, spawn, spec, store,
};

pub(crate) const CASES: &[Case] = &[
    ("a_task_runs_on_a_chip_and_on_a_sub_worker_and_maps_once", runs_and_maps_once),
    ("strided_views_reach_exactly_their_elements", strided_views),
    ("several_workers_are_busy_at_once", several_at_once),
    ("a_killed_worker_is_noticed_and_named_and_the_others_go_on", killed),
    ("a_worker_that_dies_idle_refuses_the_next_task", dies_idle),
    ("a_panic_in_a_kernel_ends_that_worker_alone", panics),
    ("workers_end_with_their_parent_even_in_the_middle_of_a_task", parent_dies),
    ("a_process_of_several_threads_is_refused", several_threads),
    ("what_a_submit_refuses_leaves_the_worker_idle", refusals),
    ("what_a_worker_cannot_resolve_is_reported_with_its_argument", reports),
    ("a_buffer_is_busy_until_the_task_that_names_it_is_over", busy_until_over),
    ("an_object_that_shrinks_under_a_worker_fails_the_task_and_not_the_worker", shrinks),
    ("a_wait_ends_at_its_limit_and_says_what_it_waited_for", waits_end),
    ("an_idle_worker_does_not_run", idle),
    ("a_task_of_256_tensors_and_128_scalars_travels_whole", largest),
    ("starting_and_ending_workers_leaves_nothing", nothing_left),
    ("a_released_buffer_is_dropped_by_every_worker_even_a_busy_one", released_everywhere),
    ("a_fork_of_the_parent_neither_submits_nor_ends_the_workers", forked_parent),
];

fn path(descriptor: &Descriptor) -> String {
    let Body::PosixShm { name } = descriptor.body() else { panic!("{descriptor:?}") };
    format!("/dev/shm/{name}")
}

fn pair() -> [WorkerSpec; 2] {
    [spec("chip0", WorkerKind::Chip), spec("sub0", WorkerKind::Sub)]
}

fn runs_and_maps_once() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &pair());
    let a = endpoint.create_buffer(16, Access::Read).unwrap();
    let c = endpoint.create_buffer(16, Access::ReadWrite).unwrap();
    store(&a, &[1, -2, 3, 1 << 30]);
    for name in ["chip0", "sub0"] {
        let worker = workers.find(name).unwrap();
        for expected in [Resolution::MappedNow, Resolution::AlreadyMapped] {
            store(&c, &[0; 4]);
            let done =
                run(&mut workers, worker, Kernel::Copy, &[row(&a), row(&c)], &[Tag::Input, Tag::Output]);
            let reply = done.result.unwrap();
            assert_eq!((done.worker, done.task, done.member), (worker, 7, 0));
            assert_eq!(reply.resolutions, [expected; 2]);
            assert_eq!(reply.bytes_copied, 0);
            assert_eq!(load(&c), [1, -2, 3, 1 << 30]);
        }
    }
    assert_eq!(workers.find("nobody"), None);
}

fn strided_views() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &pair());
    let a = endpoint.create_buffer(24, Access::Read).unwrap();
    let c = endpoint.create_buffer(48, Access::ReadWrite).unwrap();
    store(&a, &[1, 2, 3, 4, 5, 6]);
    // The 2 x 3 matrix transposed, into every other column of a 3 x 4 one.
    let transposed = a.strided(0, DType::Int32, &[3, 2], &[1, 3]).unwrap();
    let columns = c.strided(4, DType::Int32, &[3, 2], &[4, 2]).unwrap();
    for worker in [WorkerId(0), WorkerId(1)] {
        store(&c, &[9; 12]);
        let done =
            run(&mut workers, worker, Kernel::Copy, &[transposed, columns], &[Tag::Input, Tag::Output]);
        assert!(done.result.is_ok());
        assert_eq!(load(&c), [9, 1, 9, 4, 9, 2, 9, 5, 9, 3, 9, 6]);
    }
}

fn several_at_once() {
    let endpoint = Endpoint::new().unwrap();
    let specs: Vec<_> = (0..4).map(|index| spec(&format!("sub{index}"), WorkerKind::Sub)).collect();
    let mut workers = spawn(&endpoint, &specs);
    for (worker, task) in (0..4).zip(0..) {
        workers.submit(WorkerId(worker), &bare(task, SLEEP_50_MS)).unwrap();
    }
    let busy = workers.submit(WorkerId(2), &bare(9, SLEEP_50_MS));
    assert_eq!(busy, Err(SubmitError::WorkerBusy { task: 2 }));
    let mut done: Vec<_> = (0..4).map(|_| workers.wait(soon()).unwrap()).collect();
    done.sort_by_key(|completion| completion.task);
    for ((worker, task), completion) in (0..4).zip(0..).zip(&done) {
        assert_eq!((completion.worker, completion.task), (WorkerId(worker), task));
        assert!(completion.result.is_ok());
    }
    assert_eq!(workers.wait(soon()), Err(WaitError::Idle));
}

fn killed() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &pair());
    workers.submit(WorkerId(0), &bare(41, SLEEP_FOR_EVER)).unwrap();
    workers.submit(WorkerId(1), &bare(42, SLEEP_50_MS)).unwrap();
    let start = Instant::now();
    Process::open(workers.pid(WorkerId(0)).unwrap()).unwrap().send(9).unwrap();
    let mut done = [workers.wait(soon()).unwrap(), workers.wait(soon()).unwrap()];
    assert!(start.elapsed() < HANG);
    done.sort_by_key(|completion| completion.task);
    let [dead, alive] = done;
    let ending = Ending::Killed { signal: 9 };
    assert_eq!((dead.worker, dead.task), (WorkerId(0), 41));
    let pid = workers.pid(WorkerId(0)).unwrap();
    assert_eq!(dead.result, Err(died("chip0", pid, ending)));
    let text = format!("worker chip0 (process {pid}) was killed by SIGKILL");
    assert_eq!(dead.result.unwrap_err().to_string(), text);
    assert!(alive.result.is_ok());
    assert_eq!(workers.submit(WorkerId(0), &bare(1, 0)), Err(SubmitError::WorkerDied { pid, ending }));
    assert!(workers.submit(WorkerId(1), &bare(43, SLEEP_50_MS)).is_ok());
    assert_eq!(workers.wait(soon()).unwrap().task, 43);
}

fn dies_idle() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &pair());
    let pid = workers.pid(WorkerId(1)).unwrap();
    Process::open(pid).unwrap().send(9).unwrap();
    comes_true("its end", || !is_running(pid));
    // Nobody has waited since, so it looks alive; the task finds out.
    workers.submit(WorkerId(1), &bare(5, 0)).unwrap();
    let done = workers.wait(soon()).unwrap();
    assert_eq!((done.task, done.result), (5, Err(died("sub0", pid, Ending::Killed { signal: 9 }))));
    assert!(!workers.is_idle(WorkerId(1)) && workers.is_idle(WorkerId(0)));
}

fn panics() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &pair());
    workers.submit(WorkerId(0), &bare(1, PANIC)).unwrap();
    let done = workers.wait(soon()).unwrap();
    let pid = workers.pid(WorkerId(0)).unwrap();
    assert_eq!(done.result, Err(died("chip0", pid, Ending::Exited { status: 101 })));
    workers.submit(WorkerId(1), &bare(2, SLEEP_50_MS)).unwrap();
    assert!(workers.wait(soon()).unwrap().result.is_ok());
}

fn parent_dies() {
    // A process between this one and the workers, which tells their numbers through a shared buffer and is then killed.
    let endpoint = Endpoint::new().unwrap();
    let told = endpoint.create_buffer(12, Access::ReadWrite).unwrap();
    let parent = fork(|| {
        let endpoint = Endpoint::new().unwrap();
        let mut workers = spawn(&endpoint, &pair());
        workers.submit(WorkerId(0), &bare(1, SLEEP_FOR_EVER)).unwrap();
        let pid = |worker| workers.pid(WorkerId(worker)).unwrap();
        store(&told, &[pid(0), pid(1), 1]);
        loop {
            thread::sleep(Duration::from_secs(3600));
        }
    })
    .unwrap();
    comes_true("starting", || load::<3>(&told)[2] == 1);
    let [busy, idle, _] = load::<3>(&told);
    // The busy one sees its task, the idle one sleeps.
    thread::sleep(Duration::from_millis(20));
    assert!(is_running(busy) && is_running(idle));
    parent.send(9).unwrap();
    comes_true("the end of the workers", || !is_running(busy) && !is_running(idle));
}

fn several_threads() {
    let endpoint = Endpoint::new().unwrap();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = thread::spawn(move || stopped.recv());
    let refused = Workers::spawn(&endpoint, &pair(), &TestKernels, WaitPolicy::default());
    assert_eq!(refused.err(), Some(SpawnError::SeveralThreads { threads: 2 }));
    drop(stop);
    assert!(thread.join().unwrap().is_err());
    // The kernel takes a moment to forget a thread.
    comes_true("the thread's end", || {
        Workers::spawn(&endpoint, &pair(), &TestKernels, WaitPolicy::default()).is_ok()
    });
}

fn refusals() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &pair());
    let mut a = endpoint.create_buffer(16, Access::Read).unwrap();
    let b = endpoint.create_buffer(16, Access::ReadWrite).unwrap();
    let tensor = row(&a);
    let mut submit = |tensors: &[Tensor], tags: &[Tag], scalars: &[u64]| {
        let request = TaskRequest { task: 1, member: 0, kernel: 0, tensors, tags, scalars };
        workers.submit(WorkerId(0), &request).unwrap_err()
    };
    let denied = submit(&[tensor, tensor], &[Tag::Input, Tag::Inout], &[]);
    assert_eq!(denied.code(), Code::Denied);
    assert!(denied.to_string().contains("INOUT needs READWRITE, but the owner grants READ"), "{denied}");
    assert_eq!(submit(&[tensor; 257], &[Tag::Input; 257], &[]).code(), Code::TooManyTensors);
    assert_eq!(submit(&[], &[], &[0; 129]).code(), Code::TooManyScalars);
    assert_eq!(submit(&[tensor], &[], &[]).code(), Code::TagCount);
    let written = row(&b);
    assert_eq!(submit(&[written, written], &[Tag::Input, Tag::Output], &[]).code(), Code::ArgumentClash);
    let address_space = AddressSpace::Host;
    let remote = forged(|fields| fields.body = Body::RemoteSidecar { address_space });
    let refused = submit(&[written, remote], &[Tag::Input, Tag::Input], &[]);
    let identity = remote.descriptor().identity();
    assert_eq!(refused, SubmitError::Remote { argument: 1, identity });
    assert_eq!(refused.to_string(), format!("argument 1: {identity} is remote, and there is no transport"));
    a.release().unwrap();
    let stale = submit(&[tensor], &[Tag::Input], &[]);
    assert_eq!((stale.code(), matches!(stale, SubmitError::Own { argument: 0, .. })), (Code::Stale, true));
    let unknown = workers.submit(WorkerId(2), &bare(1, 0)).unwrap_err();
    assert_eq!(unknown, SubmitError::WorkerUnknown { worker: WorkerId(2) });
    assert!(workers.is_idle(WorkerId(0)));
    assert_eq!(workers.wait(soon()), Err(WaitError::Idle));
}

/// A tensor that a stranger made: nobody here knows better.
fn forged(change: impl FnOnce(&mut bufabi_core::wire::descriptor::DescriptorFields)) -> Tensor {
    let stranger = Endpoint::new().unwrap();
    let buffer = stranger.create_buffer(16, Access::ReadWrite).unwrap();
    let mut fields = buffer.descriptor().unwrap().fields();
    change(&mut fields);
    Tensor::new(&Descriptor::new(&fields).unwrap(), &row(&buffer).view()).unwrap()
}

fn reports() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &pair());
    let good = endpoint.create_buffer(16, Access::ReadWrite).unwrap();
    let lasting = Endpoint::new().unwrap();
    let small = lasting.create_buffer(16, Access::ReadWrite).unwrap();
    let Body::PosixShm { name: small_name } = small.descriptor().unwrap().body() else { panic!() };
    let named = |name: &str| Body::PosixShm { name: ShmName::new(name).unwrap() };
    let base = std::num::NonZeroU64::MIN;
    let hostile = [
        (forged(|_| {}), Code::ShmNotFound),
        (forged(|fields| fields.body = named(".")), Code::ShmNameInvalid),
        (forged(|fields| fields.body = named("..")), Code::ShmNameInvalid),
        (
            forged(|fields| {
                fields.body = Body::PosixShm { name: small_name };
                fields.nbytes = 17;
            }),
            Code::ShmTooSmall,
        ),
        (
            forged(|fields| {
                let (shareable_handle, mapping_bytes) = (base, 2 << 20);
                fields.body = Body::VmmShareable { device_id: 0, shareable_handle, mapping_bytes };
            }),
            Code::VmmOwnerGone,
        ),
        (forged(|fields| fields.body = Body::ForkShm { base }), Code::NotInherited),
        (
            forged(|fields| {
                fields.body = Body::PosixShm { name: small_name };
                fields.nbytes = u64::MAX;
            }),
            Code::NbytesTooLarge,
        ),
    ];
    for worker in [WorkerId(0), WorkerId(1)] {
        for (tensor, code) in hostile {
            let done = run(&mut workers, worker, Kernel::None, &[row(&good), tensor], &[Tag::NoDep; 2]);
            let Err(TaskFailure::Reported(failure)) = done.result else { panic!("{code} was not reported") };
            assert_eq!((failure.code, failure.argument), (code, Some(1)), "{failure}");
        }
        let unknown = workers.submit(worker, &bare(1, 77));
        assert_eq!(unknown, Ok(()));
        let done = workers.wait(soon()).unwrap();
        assert_eq!(done.result.unwrap_err().code(), Code::KernelUnknown);
        // It has another task right behind.
        let done = run(&mut workers, worker, Kernel::None, &[row(&good)], &[Tag::NoDep]);
        assert!(done.result.is_ok());
    }
    // A right that the owner never granted, forged: the worker maps what the object allows, and the kernel is still bound.
    let read_only = endpoint.create_buffer(16, Access::Read).unwrap();
    let done = run(&mut workers, WorkerId(0), Kernel::Copy, &[row(&good), row(&read_only)], &[Tag::Input; 2]);
    assert_eq!(done.result.unwrap_err().code(), Code::Denied);
}

fn busy_until_over() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &pair());
    let mut buffer = endpoint.create_buffer(16, Access::ReadWrite).unwrap();
    let tensors = [row(&buffer)];
    let request = TaskRequest {
        task: 1,
        member: 3,
        kernel: SLEEP_FOR_EVER,
        tensors: &tensors,
        tags: &[Tag::Inout],
        scalars: &[],
    };
    workers.submit(WorkerId(1), &request).unwrap();
    assert_eq!(buffer.release().unwrap_err().code(), Code::Busy);
    Process::open(workers.pid(WorkerId(1)).unwrap()).unwrap().send(9).unwrap();
    let done = workers.wait(soon()).unwrap();
    assert_eq!((done.member, done.result.unwrap_err().code()), (3, Code::WorkerDied));
    assert_eq!(buffer.release(), Ok(()));
    assert!(own_objects().is_empty());
}

fn shrinks() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &pair());
    let good = endpoint.create_buffer(8192, Access::ReadWrite).unwrap();
    for worker in [WorkerId(0), WorkerId(1)] {
        let shrunk = endpoint.create_buffer(8192, Access::ReadWrite).unwrap();
        let done = run(&mut workers, worker, Kernel::None, &[row(&shrunk)], &[Tag::NoDep]);
        assert!(done.result.is_ok());
        let Body::PosixShm { name } = shrunk.descriptor().unwrap().body() else { panic!() };
        let file = fs::OpenOptions::new().write(true).open(format!("/dev/shm/{name}")).unwrap();
        file.set_len(4096).unwrap();
        for (tensors, tags) in [
            ([row(&shrunk), row(&good)], [Tag::Input, Tag::Output]),
            ([row(&good), row(&shrunk)], [Tag::Input, Tag::Output]),
        ] {
            let done = run(&mut workers, worker, Kernel::Copy, &tensors, &tags);
            let failure = done.result.unwrap_err();
            assert_eq!(failure.code(), Code::BackingShrank, "{failure}");
        }
        let done = run(&mut workers, worker, Kernel::None, &[row(&good)], &[Tag::NoDep]);
        assert!(done.result.is_ok());
    }
}

fn waits_end() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &pair());
    workers.submit(WorkerId(1), &bare(8, SLEEP_FOR_EVER)).unwrap();
    let limit = Instant::now().checked_add(Duration::from_millis(20)).unwrap();
    let timed_out = WaitError::TimedOut { busy: 1, worker: WorkerId(1), task: 8 };
    assert_eq!(workers.wait(limit), Err(timed_out));
    assert!(Instant::now() >= limit);
    // A limit in the past is one look.
    assert_eq!(workers.wait(limit), Err(timed_out));
}

fn idle() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &pair());
    for worker in [WorkerId(0), WorkerId(1)] {
        assert!(run(&mut workers, worker, Kernel::None, &[], &[]).result.is_ok());
    }
    for worker in [WorkerId(0), WorkerId(1)] {
        does_not_run(workers.pid(worker).unwrap());
    }
}

fn largest() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &pair());
    let buffers: Vec<_> = (0..256).map(|_| endpoint.create_buffer(4, Access::Read).unwrap()).collect();
    let tensors: Vec<_> = buffers.iter().map(row).collect();
    let request = TaskRequest {
        task: u64::MAX,
        member: u32::MAX,
        kernel: number(Kernel::None),
        tensors: &tensors,
        tags: &[Tag::Input; 256],
        scalars: &[u64::MAX; 128],
    };
    for worker in [WorkerId(0), WorkerId(1)] {
        for expected in [Resolution::MappedNow, Resolution::AlreadyMapped] {
            workers.submit(worker, &request).unwrap();
            let done = workers.wait(soon()).unwrap();
            assert_eq!((done.task, done.member), (u64::MAX, u32::MAX));
            match done.result {
                Ok(reply) => assert_eq!(reply.resolutions, [expected; 256]),
                // `none` may take no scalars.
                Err(failure) => assert_eq!(failure.code(), Code::KernelCounts),
            }
        }
    }
}

fn nothing_left() {
    let (files, mappings) = (open_files(), shared_mappings());
    let mut pids = Vec::new();
    for _ in 0..20 {
        let endpoint = Endpoint::new().unwrap();
        let mut workers = spawn(&endpoint, &pair());
        let buffer = endpoint.create_buffer(1 << 20, Access::ReadWrite).unwrap();
        assert!(run(&mut workers, WorkerId(1), Kernel::None, &[row(&buffer)], &[Tag::NoDep]).result.is_ok());
        pids.extend((0..2).map(|worker| workers.pid(WorkerId(worker)).unwrap()));
        workers.stop(soon());
    }
    assert!(pids.iter().all(|&pid| !is_running(pid)));
    assert_eq!((open_files(), shared_mappings()), (files, mappings));
    assert!(own_objects().is_empty());
}

fn released_everywhere() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &pair());
    let mut buffer = endpoint.create_buffer(16, Access::ReadWrite).unwrap();
    let identity = buffer.identity();
    let name = path(&buffer.descriptor().unwrap());
    for worker in [WorkerId(0), WorkerId(1)] {
        assert!(run(&mut workers, worker, Kernel::None, &[row(&buffer)], &[Tag::NoDep]).result.is_ok());
    }
    let pids = [0, 1].map(|worker| workers.pid(WorkerId(worker)).unwrap());
    let mapped = |pid: i32| fs::read_to_string(format!("/proc/{pid}/maps")).unwrap().matches(&name).count();
    // The fork had none of the owner's.
    assert_eq!(pids.map(mapped), [1, 1]);
    workers.submit(WorkerId(0), &bare(6, SLEEP_50_MS)).unwrap();
    buffer.release().unwrap();
    assert_eq!(workers.release_imports(identity, soon()), Ok(vec![]));
    assert_eq!(pids.map(mapped), [0, 0]);
    let done = workers.wait(soon()).unwrap();
    assert_eq!((done.task, done.result.is_ok()), (6, true));

    workers.submit(WorkerId(1), &bare(8, SLEEP_FOR_EVER)).unwrap();
    let silent = KeptImport { worker: WorkerId(1), why: None };
    assert_eq!(workers.release_imports(identity, passing()), Ok(vec![silent]));
    assert!(workers.is_idle(WorkerId(0)));
}

fn forked_parent() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &pair());
    let child = fork(|| {
        assert_eq!(workers.submit(WorkerId(0), &bare(1, 0)).unwrap_err().code(), Code::Forked);
        assert_eq!(workers.wait(soon()).unwrap_err().code(), Code::Forked);
        drop(std::mem::replace(
            &mut workers,
            Workers::spawn(&endpoint, &[], &TestKernels, WaitPolicy::default()).unwrap(),
        ));
        0
    })
    .unwrap();
    comes_true("the fork's end", || !is_running(child.pid()));
    assert_eq!(child.ended(), Ok(Some(Ending::Exited { status: 0 })));
    assert!(run(&mut workers, WorkerId(0), Kernel::None, &[], &[]).result.is_ok());
}
