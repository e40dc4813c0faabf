//! An orchestrator: every task after those that it depends on, failures that poison, and buffers that stay until who names them is done.

use std::time::{Duration, Instant};

use bufabi_core::dependencies::Capacities;
use bufabi_core::{Access, Code, DType, Tag, Tensor};
use bufabi_host::heap::ForkHeap;
use bufabi_host::kernels::Kernel;
use bufabi_host::orchestrator::{
    Cause, DEFAULT_CAPACITIES, Finished, Member, Orchestrator, SubmitError, TaskFailed, TaskId,
};
use bufabi_host::owner::{Buffer, Endpoint};
use bufabi_host::sys::process::{Ending, Process};
use bufabi_host::worker::{WaitError, WaitPolicy, WorkerId, WorkerKind, WorkerSpec, Workers};
use bufabi_tests::random::Random;

use crate::Case;
use crate::support::{
    HANG, MEET, Meeting, SIGCONT, SIGSTOP, SLEEP_FOR_EVER, died, is_running, load, number, own_objects,
    parent_of, row, soon, spec, store,
};
use crate::tree::host;

pub(crate) const CASES: &[Case] = &[
    ("any_sequence_of_tasks_leaves_what_it_would_one_after_another", random_sequences),
    ("tasks_that_share_no_byte_run_at_once_and_others_in_order", order),
    ("a_group_over_two_hops_is_one_node", groups),
    ("a_failure_poisons_over_every_kind_of_edge_before_and_after_and_nothing_else", poison),
    ("a_group_fails_with_its_member_and_is_over_when_all_are", group_fails),
    ("a_worker_that_dies_fails_what_it_was_to_do_and_poisons_what_depends_on_it", worker_dies),
    ("a_buffer_is_busy_from_the_submit_on", busy_from_submit),
    ("a_release_that_has_begun_waits_for_tasks_that_have_not", release_waits_for_queued),
    ("a_slab_whose_scope_has_ended_goes_with_the_last_task_that_names_it", scopes),
    ("a_capacity_that_is_passed_is_an_error_that_changes_nothing", capacities),
    ("what_a_submit_refuses_changes_nothing", refusals),
    ("the_end_of_a_run_is_waited_for_so_long_and_no_longer", end_of_run),
    ("an_abandoned_task_holds_until_its_leaf_has_answered", abandoned),
    ("a_leaf_whose_answer_was_taken_elsewhere_goes_on_with_what_it_was_given", answer_taken_elsewhere),
];

/// A kernel that there is not: it fails.
const FAILS: u32 = 77;

/// Three leaves, two of them under a host worker.
pub(crate) fn tree() -> Vec<WorkerSpec> {
    let below = vec![spec("chip0", WorkerKind::Chip), spec("sub0", WorkerKind::Sub)];
    vec![host("l3", below), spec("chip1", WorkerKind::Chip)]
}

pub(crate) fn start(endpoint: &Endpoint, meeting: &Meeting) -> Orchestrator {
    start_with(endpoint, meeting, &DEFAULT_CAPACITIES)
}

fn start_with(endpoint: &Endpoint, meeting: &Meeting, capacities: &Capacities) -> Orchestrator {
    let workers = Workers::spawn(endpoint, &tree(), meeting, WaitPolicy::default()).unwrap();
    Orchestrator::with_capacities(workers, capacities).unwrap()
}

pub(crate) fn buffer(endpoint: &Endpoint) -> Buffer {
    endpoint.create_buffer(16, Access::ReadWrite).unwrap()
}

pub(crate) const fn member<'a>(
    worker: usize,
    kernel: u32,
    tensors: &'a [Tensor],
    tags: &'a [Tag],
) -> Member<'a> {
    Member { worker: WorkerId(worker), kernel, tensors, tags, scalars: &[] }
}

fn submit(orchestrator: &mut Orchestrator, member: Member<'_>) -> TaskId {
    orchestrator.submit(&[member]).unwrap()
}

/// A task that ends once as many have begun.
fn meet(orchestrator: &mut Orchestrator, worker: usize, count: u64) -> TaskId {
    submit(orchestrator, Member { scalars: &[count], ..member(worker, MEET, &[], &[]) })
}

/// All that is over until nothing is left, by the tasks' numbers.
pub(crate) fn drain(orchestrator: &mut Orchestrator) -> Vec<Finished> {
    let mut all = Vec::new();
    loop {
        match orchestrator.wait(soon()) {
            Ok(finished) => all.push(finished),
            Err(WaitError::Idle) => break,
            Err(error) => panic!("{error}"),
        }
    }
    all.sort_by_key(|finished| finished.task);
    all
}

fn random_sequences() {
    const NUMBERS: usize = 64;
    let (endpoint, meeting) = (Endpoint::new().unwrap(), Meeting::new());
    let mut orchestrator = start(&endpoint, &meeting);
    let mut random = Random::new(7);
    let mut below = |limit: usize| usize::try_from(random.below(u64::try_from(limit).unwrap())).unwrap();
    for _ in 0..10 {
        let nbytes = u64::try_from(NUMBERS * 4).unwrap();
        let buffers: Vec<_> =
            (0..3).map(|_| endpoint.create_buffer(nbytes, Access::ReadWrite).unwrap()).collect();
        let mut model = vec![[0_i32; NUMBERS]; 3];
        for _ in 0..150 {
            // Every other element or each, anywhere: a, b and c are in three different buffers.
            let (count, step) = (1 + below(8), 1 + below(2));
            let views: Vec<(usize, usize)> = {
                let first = below(3);
                let place = |turn| ((first + turn) % 3, below(NUMBERS - count * step + 1));
                [0, 1, 2].map(place).into()
            };
            let [a, b, c] = <[(usize, usize); 3]>::try_from(views).unwrap();
            let tensor = |(buffer, start): (usize, usize)| {
                let offset = u64::try_from(start * 4).unwrap();
                let (shape, stride) = (u32::try_from(count).unwrap(), u32::try_from(step).unwrap());
                buffers[buffer].strided(offset, DType::Int32, &[shape], &[stride]).unwrap()
            };
            let value = u64::try_from(1 + below(1000)).unwrap();
            let at = |model: &[[i32; NUMBERS]], (buffer, start): (usize, usize), index: usize| {
                model[buffer][start + index * step]
            };
            let worker = below(3);
            let (kernel, tensors, scalars): (_, Vec<_>, &[u64]) = match below(3) {
                0 => (Kernel::Fill, vec![tensor(c)], &[value]),
                1 => (Kernel::Copy, vec![tensor(a), tensor(c)], &[]),
                _ => (Kernel::Add, vec![tensor(a), tensor(b), tensor(c)], &[]),
            };
            for index in 0..count {
                let result = match tensors.len() {
                    1 => i32::try_from(value).unwrap(),
                    2 => at(&model, a, index),
                    _ => at(&model, a, index).wrapping_add(at(&model, b, index)),
                };
                model[c.0][c.1 + index * step] = result;
            }
            let mut tags = vec![Tag::Input; tensors.len()];
            *tags.last_mut().unwrap() = Tag::OutputExisting;
            submit(&mut orchestrator, Member { scalars, ..member(worker, number(kernel), &tensors, &tags) });
        }
        assert!(drain(&mut orchestrator).iter().all(|finished| finished.outcome.is_ok()));
        for (buffer, expected) in buffers.iter().zip(&model) {
            assert_eq!(load::<NUMBERS>(buffer), *expected);
        }
    }
}

fn order() {
    let (endpoint, meeting) = (Endpoint::new().unwrap(), Meeting::new());
    let mut orchestrator = start(&endpoint, &meeting);
    let (x, y) = (buffer(&endpoint), buffer(&endpoint));
    let tasks = [0, 1, 2].map(|worker| meet(&mut orchestrator, worker, 3));
    let (xs, both) = ([row(&x)], [row(&x), row(&y)]);
    let fill = Member { scalars: &[5], ..member(0, number(Kernel::Fill), &xs, &[Tag::Output]) };
    let filled = submit(&mut orchestrator, fill);
    let copied =
        submit(&mut orchestrator, member(2, number(Kernel::Copy), &both, &[Tag::Input, Tag::Output]));
    assert_eq!([tasks[0], tasks[2], filled, copied], [0, 2, 3, 4].map(TaskId));
    let done = drain(&mut orchestrator);
    assert_eq!(done.iter().map(|finished| finished.task.0).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    let hops: Vec<_> = done.iter().map(|finished| finished.outcome.as_ref().unwrap()[0].hops).collect();
    assert_eq!(hops, [1, 1, 0, 1, 0]);
    assert_eq!(load(&y), [5; 4]);
    assert_eq!(orchestrator.wait(soon()), Err(WaitError::Idle));
    assert_eq!(orchestrator.end_run(soon()), Ok(None));
}

fn groups() {
    let (endpoint, meeting) = (Endpoint::new().unwrap(), Meeting::new());
    let mut orchestrator = start(&endpoint, &meeting);
    let (x, y) = (buffer(&endpoint), buffer(&endpoint));
    let halves = [0, 8].map(|offset| [x.row_major(offset, DType::Int32, &[2]).unwrap()]);
    let fill = |worker: usize, value: &'static [u64]| Member {
        scalars: value,
        ..member(worker, number(Kernel::Fill), &halves[worker], &[Tag::Output])
    };
    // Two halves on two leaves under one host worker, and nothing is read before both are there.
    let group = orchestrator.submit(&[fill(0, &[1]), fill(1, &[2])]).unwrap();
    let both = [row(&x), row(&y)];
    submit(&mut orchestrator, member(2, number(Kernel::Copy), &both, &[Tag::Input, Tag::Output]));
    // Members are not compared with one another: the same bytes are one node's business. Both run at once.
    let all = [row(&x)];
    let meets = |worker| Member { scalars: &[2], ..member(worker, MEET, &all, &[Tag::Inout]) };
    orchestrator.submit(&[meets(0), meets(1)]).unwrap();
    // Two members on one leaf come one after the other.
    orchestrator.submit(&[fill(0, &[3]), Member { worker: WorkerId(0), ..fill(1, &[4]) }]).unwrap();
    let done = drain(&mut orchestrator);
    let members: Vec<_> = done.iter().map(|finished| finished.outcome.as_ref().unwrap().len()).collect();
    assert_eq!((group, members.as_slice()), (TaskId(0), [2, 1, 2, 2].as_slice()));
    let replies = done[0].outcome.as_ref().unwrap();
    assert!(replies.iter().all(|reply| reply.hops == 1 && reply.resolutions.len() == 1));
    assert_eq!((load(&y), load(&x)), ([1, 1, 2, 2], [3, 3, 4, 4]));
}

fn poison() {
    let (endpoint, meeting) = (Endpoint::new().unwrap(), Meeting::new());
    let mut orchestrator = start(&endpoint, &meeting);
    for (failing, depending) in
        [(Tag::Output, Tag::Input), (Tag::Inout, Tag::OutputExisting), (Tag::Input, Tag::Output)]
    {
        let (x, y, z) = (buffer(&endpoint), buffer(&endpoint), buffer(&endpoint));
        store(&y, &[7; 4]);
        let begun = meeting.begun();
        let gate = meet(&mut orchestrator, 0, begun + 2);
        let (xs, xy, yz) = ([row(&x)], [row(&x), row(&y)], [row(&y), row(&z)]);
        // It fails once the gate is open: what depends on it is there by then.
        let failed = submit(&mut orchestrator, member(0, FAILS, &xs, &[failing]));
        let first = submit(&mut orchestrator, member(2, number(Kernel::None), &xs, &[depending]));
        // Over two edges, and writes: what it writes is poisoned as well.
        let second =
            submit(&mut orchestrator, member(1, number(Kernel::None), &xy, &[depending, Tag::Inout]));
        let third =
            submit(&mut orchestrator, member(2, number(Kernel::Copy), &yz, &[Tag::Input, Tag::Output]));
        let opened = meet(&mut orchestrator, 2, begun + 2);
        let done = drain(&mut orchestrator);
        let cause = |finished: &Finished| finished.outcome.as_ref().unwrap_err().cause().clone();
        assert_eq!(
            done.iter().map(|finished| finished.task).collect::<Vec<_>>(),
            [gate, failed, first, second, third, opened]
        );
        assert!(done[0].outcome.is_ok() && done[5].outcome.is_ok());
        let Cause { task, member: 0, worker: WorkerId(0), failure } = cause(&done[1]) else { panic!() };
        assert_eq!((task, failure.code()), (failed, Code::KernelUnknown));
        assert!(matches!(done[1].outcome, Err(TaskFailed::Own(_))));
        for poisoned in &done[2..5] {
            assert!(matches!(poisoned.outcome, Err(TaskFailed::Poisoned(_))), "{failing:?} {depending:?}");
            assert_eq!(cause(poisoned), cause(&done[1]));
        }
        // And what is submitted later, until the run ends; what shares no byte goes on.
        let late = submit(&mut orchestrator, member(2, number(Kernel::None), &yz, &[Tag::Input, Tag::Input]));
        let other = buffer(&endpoint);
        let others = [row(&other)];
        let fill = Member { scalars: &[1], ..member(2, number(Kernel::Fill), &others, &[Tag::Output]) };
        submit(&mut orchestrator, fill);
        let done = drain(&mut orchestrator);
        assert_eq!((done[0].task, cause(&done[0]).task), (late, failed));
        assert!(done[1].outcome.is_ok());
        assert_eq!(load(&z), [0; 4]);
        let first_cause = orchestrator.end_run(soon()).unwrap().unwrap();
        assert_eq!(first_cause.task, failed);
        submit(&mut orchestrator, member(1, number(Kernel::Copy), &yz, &[Tag::Input, Tag::Output]));
        assert!(drain(&mut orchestrator)[0].outcome.is_ok());
        assert_eq!(load(&z), [7; 4]);
        // Whatever failed, nothing is held.
        for mut buffer in [x, y, z, other] {
            buffer.release().unwrap();
        }
    }
}

fn group_fails() {
    let (endpoint, meeting) = (Endpoint::new().unwrap(), Meeting::new());
    let mut orchestrator = start(&endpoint, &meeting);
    let mut x = buffer(&endpoint);
    let xs = [row(&x)];
    let waiting = Member { scalars: &[2], ..member(1, MEET, &xs, &[Tag::Input]) };
    let never = Member { scalars: &[9], ..member(1, MEET, &xs, &[Tag::Input]) };
    let group = orchestrator.submit(&[waiting, member(0, FAILS, &xs, &[Tag::Input]), never]).unwrap();
    submit(&mut orchestrator, member(2, number(Kernel::None), &xs, &[Tag::Inout]));
    // The dependent is over at once, the group only when the member under way is: it may still touch the buffer.
    let poisoned = orchestrator.wait(soon()).unwrap();
    assert_eq!(poisoned.task, TaskId(1));
    assert_eq!(x.release().unwrap_err().code(), Code::Busy);
    meet(&mut orchestrator, 2, 2);
    let done = drain(&mut orchestrator);
    let Err(TaskFailed::Own(cause)) = &done[0].outcome else { panic!("{done:?}") };
    assert_eq!((done[0].task, cause.task, cause.member, cause.worker), (group, group, 1, WorkerId(0)));
    // The member that had not begun never did.
    assert_eq!(meeting.begun(), 2);
    x.release().unwrap();
}

fn worker_dies() {
    let (endpoint, meeting) = (Endpoint::new().unwrap(), Meeting::new());
    let mut orchestrator = start(&endpoint, &meeting);
    let (x, y) = (buffer(&endpoint), buffer(&endpoint));
    let (xs, ys) = ([row(&x)], [row(&y)]);
    let pid = orchestrator.workers().pid(WorkerId(0)).unwrap();
    submit(&mut orchestrator, member(0, SLEEP_FOR_EVER, &xs, &[Tag::Output]));
    submit(&mut orchestrator, member(2, number(Kernel::None), &xs, &[Tag::Input]));
    // Queued behind it, and of no other concern.
    submit(&mut orchestrator, member(0, number(Kernel::None), &ys, &[Tag::Input]));
    submit(&mut orchestrator, member(1, number(Kernel::None), &ys, &[Tag::Input]));
    let begun = Instant::now();
    Process::open(pid).unwrap().send(9).unwrap();
    let done = drain(&mut orchestrator);
    assert!(begun.elapsed() < HANG);
    let death = died("l3/chip0", pid, Ending::Killed { signal: 9 });
    let failure = |index: usize| done[index].outcome.as_ref().unwrap_err().cause().clone();
    assert_eq!((failure(0).task, failure(0).failure), (TaskId(0), death.clone()));
    assert_eq!((failure(1).task, failure(1).failure), (TaskId(0), death.clone()));
    assert_eq!((failure(2).task, failure(2).failure), (TaskId(2), death));
    assert!(done[3].outcome.is_ok());
    assert_eq!(orchestrator.end_run(soon()).unwrap().unwrap().task, TaskId(0));
    let refused = orchestrator.submit(&[member(0, FAILS, &[], &[])]).unwrap_err();
    assert_eq!(refused.code(), Code::WorkerDied);
    // The host worker above goes, and its other leaf with it.
    let other = orchestrator.workers().pid(WorkerId(1)).unwrap();
    let above = parent_of(other).unwrap();
    submit(&mut orchestrator, member(1, SLEEP_FOR_EVER, &xs, &[Tag::Output]));
    submit(&mut orchestrator, member(1, SLEEP_FOR_EVER, &ys, &[Tag::Output]));
    let begun = Instant::now();
    Process::open(above).unwrap().send(9).unwrap();
    let done = drain(&mut orchestrator);
    assert!(begun.elapsed() < HANG);
    let death = died("l3", above, Ending::Killed { signal: 9 });
    assert!(done.iter().all(|finished| finished.outcome.as_ref().unwrap_err().cause().failure == death));
    assert!(done.len() == 2 && !is_running(other));
    submit(&mut orchestrator, member(2, number(Kernel::None), &[], &[]));
    assert!(drain(&mut orchestrator)[0].outcome.is_ok());
}

fn busy_from_submit() {
    let (endpoint, meeting) = (Endpoint::new().unwrap(), Meeting::new());
    let mut orchestrator = start(&endpoint, &meeting);
    let (mut x, mut y) = (buffer(&endpoint), buffer(&endpoint));
    meet(&mut orchestrator, 0, 2);
    let xy = [row(&x), row(&y)];
    // It has not begun, and one of its arguments takes no part in anything.
    submit(&mut orchestrator, member(0, number(Kernel::None), &xy, &[Tag::Input, Tag::NoDep]));
    assert_eq!(x.release().unwrap_err().code(), Code::Busy);
    assert_eq!(y.release().unwrap_err().code(), Code::Busy);
    meet(&mut orchestrator, 1, 2);
    assert_eq!(drain(&mut orchestrator).len(), 3);
    x.release().unwrap();
    y.release().unwrap();
    let stale = orchestrator.submit(&[member(0, FAILS, &xy, &[Tag::Input; 2])]).unwrap_err();
    assert_eq!(stale.code(), Code::Stale);
    // Dropped with a task under way: its leaf has ended then.
    let mut z = buffer(&endpoint);
    let zs = [row(&z)];
    submit(&mut orchestrator, member(0, SLEEP_FOR_EVER, &zs, &[Tag::Input]));
    submit(&mut orchestrator, member(0, SLEEP_FOR_EVER, &zs, &[Tag::Input]));
    drop(orchestrator);
    z.release().unwrap();
    assert!(own_objects().is_empty());
}

fn release_waits_for_queued() {
    let (endpoint, meeting) = (Endpoint::new().unwrap(), Meeting::new());
    let mut orchestrator = start(&endpoint, &meeting);
    let (mut x, y) = (buffer(&endpoint), buffer(&endpoint));
    store(&x, &[4; 4]);
    let gate = meeting.begun() + 2;
    meet(&mut orchestrator, 0, gate);
    let xy = [row(&x), row(&y)];
    submit(&mut orchestrator, member(0, number(Kernel::Copy), &xy, &[Tag::Input, Tag::Output]));
    // From here on nothing new comes from it; what was submitted still runs.
    let now = Instant::now();
    assert_eq!(x.release_when_idle(now).unwrap_err().code(), Code::TimedOut);
    let refused = orchestrator.submit(&[member(1, FAILS, &xy, &[Tag::Input; 2])]).unwrap_err();
    assert_eq!(refused.code(), Code::Closing);
    meet(&mut orchestrator, 1, gate);
    assert!(drain(&mut orchestrator).iter().all(|finished| finished.outcome.is_ok()));
    assert_eq!(load(&y), [4; 4]);
    x.release_when_idle(soon()).unwrap();
}

fn scopes() {
    let (endpoint, meeting) = (Endpoint::new().unwrap(), Meeting::new());
    let heap = ForkHeap::new(&endpoint, 1 << 20).unwrap();
    let mut orchestrator = start(&endpoint, &meeting);
    let result = heap.create_buffer(16, Access::ReadWrite).unwrap();
    let mut scope = heap.scope();
    let [between, poisoned] = [0, 1].map(|_| scope.alloc_shared(&[4], DType::Int32).unwrap());
    meet(&mut orchestrator, 0, 2);
    // None of these has begun when the scope ends: two hops, and one that never will.
    let (first, both) = ([between], [between, row(&result)]);
    let fill = Member { scalars: &[6], ..member(0, number(Kernel::Fill), &first, &[Tag::Output]) };
    submit(&mut orchestrator, fill);
    submit(&mut orchestrator, member(2, number(Kernel::Copy), &both, &[Tag::Input, Tag::Output]));
    let last = [poisoned];
    submit(&mut orchestrator, member(0, FAILS, &last, &[Tag::Output]));
    submit(&mut orchestrator, member(1, number(Kernel::None), &last, &[Tag::Input]));
    scope.end();
    assert_eq!(heap.live(), 3);
    let gone = orchestrator.submit(&[member(1, FAILS, &first, &[Tag::Input])]).unwrap_err();
    assert_eq!(gone.code(), Code::Closing);
    meet(&mut orchestrator, 1, 2);
    let done = drain(&mut orchestrator);
    assert_eq!(done.iter().filter(|finished| finished.outcome.is_err()).count(), 2);
    assert_eq!((load(&result), heap.live()), ([6; 4], 1));
}

fn capacities() {
    let (endpoint, meeting) = (Endpoint::new().unwrap(), Meeting::new());
    let small = Capacities { tasks: 2, links: 1, edges: 1, arguments: 2, ..DEFAULT_CAPACITIES };
    let mut orchestrator = start_with(&endpoint, &meeting, &small);
    let mut x = buffer(&endpoint);
    let xs = [row(&x)];
    let refused = |orchestrator: &mut Orchestrator, member: Member<'_>| {
        orchestrator.submit(&[member]).unwrap_err().code()
    };
    let three = [row(&x); 3];
    let tags = &[Tag::Input; 3];
    assert_eq!(refused(&mut orchestrator, member(0, FAILS, &three, tags)), Code::TrackerArguments);
    assert_eq!((orchestrator.pending(), x.release().is_ok()), (0, true));
    let x = buffer(&endpoint);
    let ys = [row(&x)];
    submit(&mut orchestrator, member(0, SLEEP_FOR_EVER, &ys, &[Tag::Output]));
    let gate = meet(&mut orchestrator, 1, 1);
    assert_eq!(gate, TaskId(1));
    assert_eq!(refused(&mut orchestrator, member(2, FAILS, &[], &[])), Code::TrackerTasks);
    assert_eq!(refused(&mut orchestrator, member(2, FAILS, &xs, &[Tag::Input])), Code::Stale);
    assert_eq!(orchestrator.wait(soon()).unwrap().task, gate);
    // The number that was refused is given to the next.
    let next = submit(&mut orchestrator, member(2, number(Kernel::None), &[], &[]));
    assert_eq!(next, TaskId(2));
    assert_eq!(orchestrator.wait(soon()).unwrap().task, next);
    assert_eq!(orchestrator.pending(), 1);
}

fn refusals() {
    let (endpoint, meeting) = (Endpoint::new().unwrap(), Meeting::new());
    let mut orchestrator = start(&endpoint, &meeting);
    let read_only = endpoint.create_buffer(16, Access::Read).unwrap();
    let mut x = buffer(&endpoint);
    let (reads, xs) = ([row(&read_only)], [row(&x)]);
    assert_eq!(orchestrator.submit(&[]), Err(SubmitError::Empty));
    let good = member(0, number(Kernel::None), &xs, &[Tag::Input]);
    // The first member is held, and let go of when the second is refused.
    let denied = orchestrator.submit(&[good, member(1, 0, &reads, &[Tag::Inout])]).unwrap_err();
    assert!(matches!(denied, SubmitError::Member { member: 1, .. }));
    assert_eq!(denied.code(), Code::Denied);
    let unknown = orchestrator.submit(&[good, member(3, 0, &[], &[])]).unwrap_err();
    assert_eq!(unknown.code(), Code::WorkerUnknown);
    let counts = orchestrator.submit(&[member(0, 0, &xs, &[])]).unwrap_err();
    assert_eq!(counts.code(), Code::TagCount);
    x.release().unwrap();
    assert_eq!(orchestrator.wait(soon()), Err(WaitError::Idle));
    assert_eq!(submit(&mut orchestrator, member(0, number(Kernel::None), &reads, &[Tag::Input])), TaskId(0));
}

fn end_of_run() {
    let (endpoint, meeting) = (Endpoint::new().unwrap(), Meeting::new());
    let mut orchestrator = start(&endpoint, &meeting);
    let gate = meet(&mut orchestrator, 0, 2);
    let limit = Instant::now().checked_add(Duration::from_millis(20)).unwrap();
    let expected = WaitError::TimedOut { busy: 1, worker: WorkerId(0), task: gate.0 };
    assert_eq!(orchestrator.end_run(limit), Err(expected));
    assert!(Instant::now() >= limit);
    meet(&mut orchestrator, 1, 2);
    assert_eq!(orchestrator.end_run(soon()), Ok(None));
    // What came of them is still told.
    assert_eq!(drain(&mut orchestrator).len(), 2);
}

fn abandoned() {
    let (endpoint, meeting) = (Endpoint::new().unwrap(), Meeting::new());
    let mut orchestrator = start(&endpoint, &meeting);
    let (mut x, mut y) = (buffer(&endpoint), buffer(&endpoint));
    let (xs, ys) = ([row(&x)], [row(&y)]);
    submit(&mut orchestrator, Member { scalars: &[2], ..member(0, MEET, &xs, &[Tag::Output]) });
    submit(&mut orchestrator, member(0, FAILS, &ys, &[Tag::Output]));
    orchestrator.abandon();
    y.release().unwrap();
    assert_eq!(x.release().unwrap_err().code(), Code::Busy);
    // What is still under way keeps no run waiting that has nothing to do with it.
    let apart = submit(&mut orchestrator, member(1, number(Kernel::None), &[], &[]));
    assert_eq!(orchestrator.end_run(soon()), Ok(None));
    assert_eq!(drain(&mut orchestrator)[0].task, apart);
    assert_eq!(orchestrator.pending(), 1);
    // Another run comes behind it.
    let reader = submit(&mut orchestrator, member(1, number(Kernel::None), &xs, &[Tag::Input]));
    meet(&mut orchestrator, 2, 2);
    let done = drain(&mut orchestrator);
    assert_eq!((done.len(), done[0].task, done[0].outcome.is_ok()), (2, reader, true));
    x.release().unwrap();
}

fn answer_taken_elsewhere() {
    let (endpoint, meeting) = (Endpoint::new().unwrap(), Meeting::new());
    let mut orchestrator = start(&endpoint, &meeting);
    let chip = WorkerId(2);
    let process = Process::open(orchestrator.workers().pid(chip).unwrap()).unwrap();
    process.send(SIGSTOP).unwrap();
    // Asked, and given up waiting for.
    let late = orchestrator.workers_mut().malloc(chip, 16, Access::Read, Instant::now()).unwrap_err();
    assert_eq!(late.code(), Code::TimedOut);
    // It has to wait for that answer.
    let task = submit(&mut orchestrator, member(2, number(Kernel::None), &[], &[]));
    process.send(SIGCONT).unwrap();
    let unknown = buffer(&endpoint).identity();
    assert_eq!(orchestrator.workers_mut().release_imports(unknown, soon()).unwrap(), []);
    let done = drain(&mut orchestrator);
    assert_eq!((done.len(), done[0].task, done[0].outcome.is_ok()), (1, task, true));
}
