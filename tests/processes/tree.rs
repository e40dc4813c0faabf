//! A tree of workers: tasks go down several hops under one identity, answers come up, and an end at any level is noticed at every other.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use bufabi_core::wire::body::Body;
use bufabi_core::{Access, Code, DType, Tag};
use bufabi_host::consumer::Resolution;
use bufabi_host::kernels::Kernel;
use bufabi_host::owner::Endpoint;
use bufabi_host::sys::process::{Ending, Process, fork};
use bufabi_host::worker::{
    SubmitError, TaskRequest, WaitError, WaitPolicy, WorkerId, WorkerKind, WorkerSpec, Workers,
};

use crate::Case;
use crate::support::{
    HANG, MEET, Meeting, SIGCONT, SIGSTOP, SLEEP_FOR_EVER, bare, comes_true, died, does_not_run, is_running,
    load, number, open_files, own_objects, parent_of, passing, row, run, shared_mappings, soon, spawn, spec,
    store,
};

pub(crate) const CASES: &[Case] = &[
    ("a_task_crosses_any_number_of_hops_under_one_identity_and_is_mapped_at_its_leaf_alone", crosses_hops),
    ("tasks_under_one_host_worker_run_at_once", run_at_once),
    ("what_can_only_be_written_is_handed_on", write_only),
    ("a_hundred_leaves_run_a_task_each", hundred_leaves),
    ("a_release_reaches_every_leaf_and_names_those_that_keep_it", release_reaches_all),
    ("a_leaf_that_is_killed_is_named_and_its_siblings_go_on", leaf_killed),
    ("a_leaf_that_dies_idle_refuses_what_comes", leaf_dies_idle),
    ("a_host_worker_that_is_killed_fails_all_below_it_and_its_leaves_end", host_killed),
    ("a_host_worker_far_down_that_is_killed_is_named_at_the_top", inner_host_killed),
    ("what_a_leaf_is_asked_that_was_cut_off_is_over_when_it_has_ended_too", orphan_asked),
    ("a_tree_ends_with_its_root_whatever_it_does", root_killed),
    ("sigterm_ends_a_worker_of_any_kind_and_sigint_none", signals),
    ("a_tree_that_has_nothing_to_do_does_not_run", idle),
    ("a_tree_that_is_stopped_leaves_nothing", nothing_left),
    ("a_host_worker_that_hangs_is_killed_at_the_stop_and_its_leaves_are_gone", hanging_host),
    ("a_leaf_that_hangs_below_a_host_worker_that_hangs_is_killed_at_the_stop", hanging_leaf),
    ("a_host_worker_without_workers_comes_and_goes", empty_host),
];

const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

pub(crate) fn host(name: &str, workers: Vec<WorkerSpec>) -> WorkerSpec {
    spec(name, WorkerKind::Host { workers })
}

/// Two leaves under a host worker, and one beside it.
fn small_tree() -> Vec<WorkerSpec> {
    let below = vec![spec("chip0", WorkerKind::Chip), spec("sub0", WorkerKind::Sub)];
    vec![host("l3", below), spec("chip1", WorkerKind::Chip)]
}

fn find(workers: &Workers, path: &str) -> WorkerId {
    workers.find(path).unwrap()
}

fn kill(pid: i32, signal: i32) {
    Process::open(pid).unwrap().send(signal).unwrap();
}

fn object(buffer: &bufabi_host::owner::Buffer) -> String {
    let Body::PosixShm { name } = buffer.descriptor().unwrap().body() else { panic!("another backend") };
    format!("/dev/shm/{name}")
}

/// How often a process has an object mapped.
fn mapped(pid: i32, object: &str) -> usize {
    fs::read_to_string(format!("/proc/{pid}/maps")).unwrap().matches(object).count()
}

fn crosses_hops() {
    let endpoint = Endpoint::new().unwrap();
    let deep = host("l5", vec![host("l4", vec![host("l3", vec![spec("chip", WorkerKind::Chip)])])]);
    let specs = [spec("sub", WorkerKind::Sub), host("l3", vec![spec("chip", WorkerKind::Chip)]), deep];
    let mut workers = spawn(&endpoint, &specs);
    let a = endpoint.create_buffer(16, Access::Read).unwrap();
    let c = endpoint.create_buffer(16, Access::ReadWrite).unwrap();
    let (a_object, c_object) = (object(&a), object(&c));
    store(&a, &[1, -2, 3, 1 << 30]);
    assert_eq!(workers.len(), 3);
    for (path, hops) in [("sub", 0), ("l3/chip", 1), ("l5/l4/l3/chip", 3)] {
        let worker = find(&workers, path);
        assert_eq!(workers.name(worker), Some(path));
        for expected in [Resolution::MappedNow, Resolution::AlreadyMapped] {
            store(&c, &[0; 4]);
            let tags = [Tag::Input, Tag::Output];
            let done = run(&mut workers, worker, Kernel::Copy, &[row(&a), row(&c)], &tags);
            let reply = done.result.unwrap();
            assert_eq!((done.worker, done.task, done.member), (worker, 7, 0));
            // The leaf knows them by the identities that the owner gave: else it would have mapped them once more.
            assert_eq!((reply.resolutions.as_slice(), reply.hops), ([expected; 2].as_slice(), hops));
            assert_eq!(reply.bytes_copied, 0);
            assert_eq!(load(&c), [1, -2, 3, 1 << 30]);
        }
        let mut pid = workers.pid(worker).unwrap();
        assert_eq!((mapped(pid, &a_object), mapped(pid, &c_object)), (1, 1), "{path}");
        for _ in 0..hops {
            pid = parent_of(pid).unwrap();
            assert_eq!((mapped(pid, &a_object), mapped(pid, &c_object)), (0, 0), "above {path}");
        }
        assert_eq!(parent_of(pid), Some(std::process::id().cast_signed()));
    }
    // What a leaf refuses comes back whole, with its argument.
    let tags = [Tag::Input, Tag::Input];
    let done = run(&mut workers, WorkerId(2), Kernel::Copy, &[row(&c), row(&a)], &tags);
    let failure = done.result.unwrap_err();
    assert_eq!(failure.code(), Code::Denied);
    assert!(failure.to_string().starts_with("argument 1: "), "{failure}");
}

fn run_at_once() {
    let endpoint = Endpoint::new().unwrap();
    let leaves = (0..3).map(|index| spec(&format!("sub{index}"), WorkerKind::Sub)).collect();
    let meeting = Meeting::new();
    let specs = [host("l3", leaves)];
    let mut workers = Workers::spawn(&endpoint, &specs, &meeting, WaitPolicy::default()).unwrap();
    // Each ends only once all three have begun.
    for (worker, task) in (0..3).zip(0..) {
        let request = TaskRequest { scalars: &[3], ..bare(task, MEET) };
        workers.submit(WorkerId(worker), &request).unwrap();
    }
    for _ in 0..3 {
        assert!(workers.wait(soon()).unwrap().result.is_ok());
    }
    assert_eq!(workers.wait(soon()), Err(WaitError::Idle));
    assert_eq!(meeting.begun(), 3);
}

fn write_only() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &small_tree());
    let buffer = endpoint.create_buffer(16, Access::Write).unwrap();
    for path in ["l3/chip0", "l3/sub0"] {
        store(&buffer, &[0; 4]);
        let tensors = [row(&buffer)];
        let tags = &[Tag::Output];
        let kernel = number(Kernel::Fill);
        let request = TaskRequest { task: 1, member: 0, kernel, tensors: &tensors, tags, scalars: &[5] };
        let worker = find(&workers, path);
        workers.submit(worker, &request).unwrap();
        assert!(workers.wait(soon()).unwrap().result.is_ok());
        assert_eq!(load(&buffer), [5; 4]);
    }
}

fn hundred_leaves() {
    let endpoint = Endpoint::new().unwrap();
    let leaf = |index| spec(&format!("sub{index}"), WorkerKind::Sub);
    let hosts: Vec<_> =
        (0..4).map(|index| host(&format!("l3-{index}"), (0..25).map(leaf).collect())).collect();
    let mut workers = spawn(&endpoint, &hosts);
    let buffer = endpoint.create_buffer(400, Access::ReadWrite).unwrap();
    let name = object(&buffer);
    assert_eq!(workers.len(), 100);
    for (index, value) in (0..100_usize).zip(1_u64..) {
        let place = u64::try_from(index * 4).unwrap();
        let tensors = [buffer.row_major(place, DType::Int32, &[1]).unwrap()];
        let (kernel, tags) = (number(Kernel::Fill), &[Tag::Output]);
        let request =
            TaskRequest { task: value, member: 0, kernel, tensors: &tensors, tags, scalars: &[value] };
        workers.submit(WorkerId(index), &request).unwrap();
    }
    for _ in 0..100 {
        let done = workers.wait(soon()).unwrap();
        assert_eq!(u64::try_from(done.worker.0 + 1), Ok(done.task));
        assert_eq!(done.result.unwrap().hops, 1);
    }
    let expected: [i32; 100] = std::array::from_fn(|index| i32::try_from(index + 1).unwrap());
    assert_eq!(load(&buffer), expected);
    let pids: Vec<_> = (0..100).map(|worker| workers.pid(WorkerId(worker)).unwrap()).collect();
    assert!(pids.iter().all(|&pid| mapped(pid, &name) == 1));
    assert_eq!(workers.release_imports(buffer.identity(), soon()), Ok(vec![]));
    assert!(pids.iter().all(|&pid| mapped(pid, &name) == 0));
    workers.stop(soon());
    assert!(pids.iter().all(|&pid| !is_running(pid)));
}

fn release_reaches_all() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &small_tree());
    let mut buffer = endpoint.create_buffer(16, Access::ReadWrite).unwrap();
    let (identity, name) = (buffer.identity(), object(&buffer));
    for worker in 0..3 {
        let done = run(&mut workers, WorkerId(worker), Kernel::None, &[row(&buffer)], &[Tag::NoDep]);
        assert!(done.result.is_ok());
    }
    let pids = [0, 1, 2].map(|worker| workers.pid(WorkerId(worker)).unwrap());
    assert_eq!(pids.map(|pid| mapped(pid, &name)), [1, 1, 1]);
    let stuck = find(&workers, "l3/sub0");
    workers.submit(stuck, &bare(1, SLEEP_FOR_EVER)).unwrap();
    buffer.release().unwrap();
    let limit = passing();
    let kept = workers.release_imports(identity, limit).unwrap();
    assert_eq!(
        kept.iter().map(|kept| (kept.worker, kept.why.is_none())).collect::<Vec<_>>(),
        [(stuck, true)]
    );
    assert_eq!(pids.map(|pid| mapped(pid, &name)), [0, 1, 0]);
    kill(pids[1], 9);
    assert_eq!(workers.wait(soon()).unwrap().task, 1);
    // Who has ended has nothing mapped.
    assert_eq!(workers.release_imports(identity, soon()), Ok(vec![]));
}

fn leaf_killed() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &small_tree());
    let (chip, sub) = (find(&workers, "l3/chip0"), find(&workers, "l3/sub0"));
    let pid = workers.pid(chip).unwrap();
    let mut buffer = endpoint.create_buffer(16, Access::ReadWrite).unwrap();
    let tensors = [row(&buffer)];
    let tags = &[Tag::Inout];
    let request =
        TaskRequest { task: 4, member: 2, kernel: SLEEP_FOR_EVER, tensors: &tensors, tags, scalars: &[] };
    workers.submit(chip, &request).unwrap();
    assert_eq!(buffer.release().unwrap_err().code(), Code::Busy);
    let start = Instant::now();
    kill(pid, 9);
    let done = workers.wait(soon()).unwrap();
    assert!(start.elapsed() < HANG);
    let ending = Ending::Killed { signal: 9 };
    assert_eq!((done.worker, done.task, done.member), (chip, 4, 2));
    assert_eq!(done.result, Err(died("l3/chip0", pid, ending)));
    assert_eq!(workers.submit(chip, &bare(5, 0)), Err(SubmitError::WorkerDied { pid, ending }));
    assert!(!workers.is_idle(chip) && workers.is_idle(sub));
    assert!(run(&mut workers, sub, Kernel::None, &[row(&buffer)], &[Tag::NoDep]).result.is_ok());
    assert_eq!(buffer.release(), Ok(()));
}

fn leaf_dies_idle() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &small_tree());
    let chip = find(&workers, "l3/chip0");
    let pid = workers.pid(chip).unwrap();
    kill(pid, 9);
    comes_true("its end", || !is_running(pid));
    // Nobody here has heard of it; the task finds out.
    workers.submit(chip, &bare(5, 0)).unwrap();
    let done = workers.wait(soon()).unwrap();
    assert_eq!((done.task, done.result), (5, Err(died("l3/chip0", pid, Ending::Killed { signal: 9 }))));
    let sub = find(&workers, "l3/sub0");
    assert!(run(&mut workers, sub, Kernel::None, &[], &[]).result.is_ok());
}

fn host_killed() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &small_tree());
    let pids = [0, 1].map(|worker| workers.pid(WorkerId(worker)).unwrap());
    let above = parent_of(pids[0]).unwrap();
    let mut buffer = endpoint.create_buffer(16, Access::ReadWrite).unwrap();
    let tensors = [row(&buffer)];
    for (worker, task) in (0..2).zip(10..) {
        let (kernel, tags) = (SLEEP_FOR_EVER, &[Tag::Input]);
        let request = TaskRequest { task, member: 0, kernel, tensors: &tensors, tags, scalars: &[] };
        workers.submit(WorkerId(worker), &request).unwrap();
    }
    let start = Instant::now();
    kill(above, 9);
    let ending = Ending::Killed { signal: 9 };
    for left in [1, 0] {
        let done = workers.wait(soon()).unwrap();
        assert_eq!(done.result, Err(died("l3", above, ending)));
        // The leaf may have touched the buffer until it ended too.
        assert!(pids.get(done.worker.0).is_some_and(|&pid| !is_running(pid)));
        assert_eq!(buffer.release().is_err(), left > 0);
    }
    assert!(start.elapsed() < HANG);
    assert!(pids.iter().all(|&pid| !is_running(pid)));
    let refused = SubmitError::WorkerDied { pid: above, ending };
    assert_eq!(workers.submit(WorkerId(1), &bare(1, 0)), Err(refused));
    assert!(run(&mut workers, WorkerId(2), Kernel::None, &[], &[]).result.is_ok());
}

fn inner_host_killed() {
    let endpoint = Endpoint::new().unwrap();
    let leaves = vec![spec("chip", WorkerKind::Chip)];
    let deep = host("l5", vec![host("l4", vec![host("l3", leaves), spec("sub", WorkerKind::Sub)])]);
    let mut workers = spawn(&endpoint, &[deep]);
    let (chip, sub) = (find(&workers, "l5/l4/l3/chip"), find(&workers, "l5/l4/sub"));
    let pid = workers.pid(chip).unwrap();
    let above = parent_of(pid).unwrap();
    workers.submit(chip, &bare(3, SLEEP_FOR_EVER)).unwrap();
    let start = Instant::now();
    kill(above, 9);
    let done = workers.wait(soon()).unwrap();
    assert!(start.elapsed() < HANG);
    assert_eq!(done.result, Err(died("l5/l4/l3", above, Ending::Killed { signal: 9 })));
    assert!(!is_running(pid));
    assert!(run(&mut workers, sub, Kernel::None, &[], &[]).result.is_ok());
}

/// A leaf that cannot end, as it is stopped, outlives the worker above it, and nothing is under way on its lane.
fn orphan_asked() {
    let endpoint = Endpoint::new().unwrap();
    let leaves = vec![spec("chip", WorkerKind::Chip)];
    let far = host("l4", vec![host("l3", leaves.clone())]);
    let mut workers = spawn(&endpoint, &[far, host("l3", leaves)]);
    let buffer = endpoint.create_buffer(16, Access::ReadWrite).unwrap();
    let leaves = ["l4/l3/chip", "l3/chip"].map(|path| find(&workers, path));
    let pids = leaves.map(|leaf| workers.pid(leaf).unwrap());
    let above = pids.map(|pid| parent_of(pid).unwrap());
    for leaf in leaves {
        assert!(run(&mut workers, leaf, Kernel::None, &[row(&buffer)], &[Tag::NoDep]).result.is_ok());
    }
    let ending = Ending::Killed { signal: 9 };
    for (pid, above) in pids.into_iter().zip(above) {
        kill(pid, SIGSTOP);
        kill(above, 9);
    }
    // The worker above that has waited for it: it knows.
    comes_true("the end far down", || parent_of(above[0]).is_none());
    let tensors = [row(&buffer)];
    let request =
        TaskRequest { kernel: number(Kernel::None), tensors: &tensors, tags: &[Tag::NoDep], ..bare(1, 0) };
    workers.submit(leaves[0], &request).unwrap();
    let limit = Instant::now().checked_add(Duration::from_millis(500)).unwrap();
    assert_eq!(workers.wait(limit), Err(WaitError::TimedOut { busy: 1, worker: leaves[0], task: 1 }));
    assert_eq!(workers.submit(leaves[1], &request), Err(SubmitError::WorkerDied { pid: above[1], ending }));
    // Both still have it mapped.
    let kept = workers.release_imports(buffer.identity(), passing()).unwrap();
    let kept: BTreeSet<_> = kept.iter().map(|kept| (kept.worker, kept.why.is_none())).collect();
    assert_eq!(kept, leaves.map(|leaf| (leaf, true)).into());
    for pid in pids {
        kill(pid, SIGCONT);
    }
    let done = workers.wait(soon()).unwrap();
    assert_eq!((done.task, done.result), (1, Err(died("l4/l3", above[0], ending))));
    assert!(!is_running(pids[0]));
    assert_eq!(workers.release_imports(buffer.identity(), soon()), Ok(vec![]));
    assert!(!is_running(pids[1]));
}

fn root_killed() {
    // A process between this one and the tree, which tells the leaves' numbers through a shared buffer and is then killed.
    let endpoint = Endpoint::new().unwrap();
    let told = endpoint.create_buffer(16, Access::ReadWrite).unwrap();
    let root = fork(|| {
        let endpoint = Endpoint::new().unwrap();
        let mut workers = spawn(&endpoint, &small_tree());
        workers.submit(WorkerId(0), &bare(1, SLEEP_FOR_EVER)).unwrap();
        let pid = |worker| workers.pid(WorkerId(worker)).unwrap();
        store(&told, &[pid(0), pid(1), pid(2), 1]);
        loop {
            std::thread::park();
        }
    })
    .unwrap();
    comes_true("starting", || load::<4>(&told)[3] == 1);
    let [busy, idle, flat, _] = load::<4>(&told);
    let all = [busy, idle, flat, parent_of(busy).unwrap()];
    assert!(all.iter().all(|&pid| is_running(pid)));
    root.send(9).unwrap();
    comes_true("the end of the tree", || !all.iter().any(|&pid| is_running(pid)));
}

fn signals() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &small_tree());
    let above = parent_of(workers.pid(WorkerId(0)).unwrap()).unwrap();
    let everyone = [0, 1, 2].map(|worker| workers.pid(WorkerId(worker)).unwrap());
    // What a terminal says goes to all of them, and is the root's business.
    everyone.iter().chain([&above]).for_each(|&pid| kill(pid, SIGINT));
    for worker in 0..3 {
        assert!(run(&mut workers, WorkerId(worker), Kernel::None, &[], &[]).result.is_ok());
    }
    let ending = Ending::Killed { signal: SIGTERM };
    workers.submit(WorkerId(2), &bare(1, SLEEP_FOR_EVER)).unwrap();
    kill(everyone[2], SIGTERM);
    assert_eq!(workers.wait(soon()).unwrap().result, Err(died("chip1", everyone[2], ending)));
    workers.submit(WorkerId(0), &bare(2, SLEEP_FOR_EVER)).unwrap();
    kill(above, SIGTERM);
    assert_eq!(workers.wait(soon()).unwrap().result, Err(died("l3", above, ending)));
    comes_true("the leaves' end", || !everyone.iter().any(|&pid| is_running(pid)));
}

fn idle() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &small_tree());
    for worker in 0..3 {
        assert!(run(&mut workers, WorkerId(worker), Kernel::None, &[], &[]).result.is_ok());
    }
    let leaf = workers.pid(WorkerId(0)).unwrap();
    does_not_run(leaf);
    does_not_run(parent_of(leaf).unwrap());
    // Nor while a leaf below is at work, or after one of them has died.
    workers.submit(WorkerId(1), &bare(1, SLEEP_FOR_EVER)).unwrap();
    does_not_run(parent_of(leaf).unwrap());
    kill(workers.pid(WorkerId(1)).unwrap(), 9);
    assert!(workers.wait(soon()).unwrap().result.is_err());
    does_not_run(parent_of(leaf).unwrap());
}

fn nothing_left() {
    let (files, mappings) = (open_files(), shared_mappings());
    for round in 0..10 {
        let endpoint = Endpoint::new().unwrap();
        let mut workers = spawn(&endpoint, &small_tree());
        let buffer = endpoint.create_buffer(1 << 20, Access::ReadWrite).unwrap();
        assert!(run(&mut workers, WorkerId(1), Kernel::None, &[row(&buffer)], &[Tag::NoDep]).result.is_ok());
        let [first, second, third] = [0, 1, 2].map(|worker| workers.pid(WorkerId(worker)).unwrap());
        let pids = [first, second, third, parent_of(first).unwrap()];
        let start = Instant::now();
        if round % 2 == 0 {
            // In the middle of something on every leaf.
            (0..3).for_each(|worker| workers.submit(WorkerId(worker), &bare(1, SLEEP_FOR_EVER)).unwrap());
        }
        workers.stop(soon());
        assert!(start.elapsed() < HANG);
        assert!(pids.iter().all(|&pid| !is_running(pid)));
    }
    assert_eq!((open_files(), shared_mappings()), (files, mappings));
    assert!(own_objects().is_empty());
}

fn hanging_host() {
    let endpoint = Endpoint::new().unwrap();
    let workers = spawn(&endpoint, &small_tree());
    let pids = [0, 1, 2].map(|worker| workers.pid(WorkerId(worker)).unwrap());
    let above = parent_of(pids[0]).unwrap();
    kill(above, SIGSTOP);
    workers.stop(Instant::now().checked_add(Duration::from_millis(50)).unwrap());
    assert!(!pids.iter().chain([&above]).any(|&pid| is_running(pid)));
}

fn hanging_leaf() {
    let endpoint = Endpoint::new().unwrap();
    for is_host_killed in [false, true] {
        let workers = spawn(&endpoint, &small_tree());
        let pids = [0, 1, 2].map(|worker| workers.pid(WorkerId(worker)).unwrap());
        let above = parent_of(pids[0]).unwrap();
        kill(pids[0], SIGSTOP);
        kill(above, if is_host_killed { 9 } else { SIGSTOP });
        workers.stop(Instant::now().checked_add(Duration::from_millis(50)).unwrap());
        assert!(!pids.iter().chain([&above]).any(|&pid| is_running(pid)));
    }
}

fn empty_host() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &[host("l3", vec![]), spec("sub", WorkerKind::Sub)]);
    assert_eq!((workers.len(), workers.find("l3")), (1, None));
    assert!(run(&mut workers, WorkerId(0), Kernel::None, &[], &[]).result.is_ok());
    let start = Instant::now();
    workers.stop(soon());
    assert!(start.elapsed() < HANG);
}
