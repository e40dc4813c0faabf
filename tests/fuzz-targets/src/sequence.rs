//! A sequence of tasks, with failures, retirement and release, against the definition: who wrote each byte last, and who has
//! read it since.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use bufabi_core::dependencies::{
    Allocate, Argument, Capacities, Cause, Handle, Hazard, Memory, Policy, Ready, Storage, Submitted, Tracker,
};
use bufabi_core::{Identity, KeyedHash, OwnerInstanceId, Tag};

use crate::view::{VIEW_BYTES, decode_view_within, elements};

/// Bytes of each backing.
const NBYTES: u64 = 4_096;

/// Backings.
const BACKINGS: u8 = 2;

/// Tasks of one sequence: one bit each.
const TASKS: usize = 64;

/// A set of tasks.
type Set = u64;

fn members(set: Set) -> impl Iterator<Item = usize> {
    (0..TASKS).filter(move |task| set >> task & 1 != 0)
}

#[derive(Debug)]
struct Boxed;

impl Memory for Boxed {
    type Of<T: Clone + std::fmt::Debug + 'static> = Box<[T]>;
}

impl Allocate for Boxed {
    fn filled<T: Clone + std::fmt::Debug + 'static>(value: T, len: usize) -> Box<[T]> {
        vec![value; len].into()
    }
}

/// What is known of one byte.
#[derive(Clone, Copy, Default)]
struct Byte {
    /// Who wrote it last; at most one.
    writer: Set,
    /// Who has read it since.
    readers: Set,
}

/// One task of the model.
struct Task {
    handle: Handle,
    is_live: bool,
    /// Tasks that it still waits for.
    waits_for: Set,
    /// The task whose failure came first among those that it depends on.
    cause: Option<(u64, usize)>,
}

struct Model {
    policy: Policy,
    bytes: Vec<Vec<Byte>>,
    tasks: Vec<Task>,
    failures: u64,
}

/// For each task and hazard the lowest backing and byte that it is about.
type Edges = BTreeMap<(usize, Hazard), (u32, u64)>;

impl Model {
    fn live(&self) -> Set {
        (0..).zip(&self.tasks).filter(|(_, task)| task.is_live).fold(0, |set, (number, _)| set | 1 << number)
    }

    fn bytes_of(argument: &Argument) -> impl Iterator<Item = u64> + use<> {
        let size = u64::from(argument.view.dtype().size());
        elements(&argument.view).into_iter().flat_map(move |start| start..start + size)
    }

    fn edges(&self, arguments: &[Argument]) -> Edges {
        let (live, mut edges) = (self.live(), Edges::new());
        for argument in arguments {
            let rank = argument.rank;
            for at in Self::bytes_of(argument) {
                let byte = self.bytes[usize::try_from(rank).unwrap()][usize::try_from(at).unwrap()];
                let mut note = |tasks: Set, hazard| {
                    for task in members(tasks & live) {
                        let lowest = edges.entry((task, hazard)).or_insert((rank, at));
                        *lowest = (*lowest).min((rank, at));
                    }
                };
                if argument.tag.reads() {
                    note(byte.writer, Hazard::ReadAfterWrite);
                }
                if argument.tag.writes() && self.policy == Policy::Full {
                    note(byte.writer, Hazard::WriteAfterWrite);
                    note(byte.readers, Hazard::WriteAfterRead);
                }
            }
        }
        edges
    }

    /// The reads come before the writes, whatever their order.
    fn apply(&mut self, arguments: &[Argument]) {
        let task = 1 << self.tasks.len();
        for writes in [false, true] {
            for argument in arguments {
                let bytes = &mut self.bytes[usize::try_from(argument.rank).unwrap()];
                for at in Self::bytes_of(argument) {
                    let byte = &mut bytes[usize::try_from(at).unwrap()];
                    if writes && argument.tag.writes() {
                        *byte = Byte { writer: task, readers: 0 };
                    } else if !writes && argument.tag.reads() {
                        byte.readers |= task;
                    }
                }
            }
        }
    }

    fn submit(&mut self, arguments: &[Argument], submitted: &Submitted<'_>, is_exact: bool) {
        let number = self.tasks.len();
        let expected = self.edges(arguments);
        let mut given = Edges::new();
        for edge in submitted.edges {
            let before = usize::try_from(edge.task).unwrap();
            assert_eq!(edge.before, self.tasks[before].handle);
            assert_eq!(edge.identity, identity(edge.rank));
            assert!(self.tasks[before].is_live && before < number);
            assert_eq!(
                given.insert((before, edge.hazard), (edge.rank, edge.byte)),
                None,
                "an edge given twice"
            );
        }
        if is_exact {
            assert_eq!(given, expected);
        } else {
            assert!(expected.keys().all(|edge| given.contains_key(edge)), "an edge is missing");
        }
        let waits_for = given.keys().fold(0, |set: Set, (before, _)| set | 1 << before);
        let cause = members(waits_for).filter_map(|before| self.tasks[before].cause).min();
        self.apply(arguments);
        self.tasks.push(Task { handle: submitted.handle, is_live: true, waits_for, cause });
        self.same_cause(number, submitted.poisoned);
    }

    fn same_cause(&self, task: usize, given: Option<Cause>) {
        let expected = self.tasks[task].cause.map(|(failure, task)| (u64::try_from(task).unwrap(), failure));
        assert_eq!(given.map(|cause| (cause.task, cause.reason)), expected);
    }

    /// Retires a task; answers those that wait for none any longer.
    fn finish(&mut self, task: usize) -> Vec<usize> {
        self.tasks[task].is_live = false;
        let mut ready = Vec::new();
        for (number, other) in self.tasks.iter_mut().enumerate() {
            let waited = other.waits_for >> task & 1 != 0;
            other.waits_for &= !(1 << task);
            if waited && other.is_live && other.waits_for == 0 {
                ready.push(number);
            }
        }
        ready
    }

    /// A task fails; answers those that are poisoned by it.
    fn fail(&mut self, task: usize) -> Vec<usize> {
        if self.tasks[task].cause.is_some() {
            return Vec::new();
        }
        let cause = Some((self.failures, task));
        self.failures += 1;
        self.tasks[task].cause = cause;
        let (mut reached, mut poisoned): (Set, _) = (1 << task, Vec::new());
        // A task waits for earlier ones alone, so that one pass in order reaches all.
        for number in task + 1..self.tasks.len() {
            let other = &mut self.tasks[number];
            if other.is_live && other.waits_for & reached != 0 && other.cause.is_none() {
                other.cause = cause;
                reached |= 1 << number;
                poisoned.push(number);
            }
        }
        poisoned
    }
}

fn identity(rank: u32) -> Identity {
    Identity::new(OwnerInstanceId(*b"a fuzzer"), u64::from(rank) + 1, NonZeroU32::MIN)
}

/// Bytes, taken from the front until there are none.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    /// A tag and a backing, then a view; what is no legal view is left out.
    fn argument(&mut self) -> Option<Option<Argument>> {
        let byte = self.byte()?;
        let (view, rest) = self.0.split_at_checked(VIEW_BYTES)?;
        self.0 = rest;
        let tag = Tag::ALL[usize::from(byte) % Tag::ALL.len()];
        let rank = u32::from(byte / 16 % BACKINGS);
        let view = decode_view_within(view, NBYTES, 256);
        Some(view.map(|view| Argument { identity: identity(rank), nbytes: NBYTES, view, tag, rank }))
    }

    fn task(&mut self, tasks: &[Task]) -> Option<usize> {
        let byte = usize::from(self.byte()?);
        byte.checked_rem(tasks.len())
    }
}

/// Any sequence. The first byte chooses the policy; then each call is a byte and what it needs: 0 to 3, a task of one to four
/// arguments; 4, the end of a task; 5, its failure; 6, the release of a backing; 7, a lookup that changes nothing.
pub fn dependencies(bytes: &[u8]) {
    let mut input = Input(bytes);
    let Some(first) = input.byte() else { return };
    let policy = if first % 4 == 0 { Policy::Producers } else { Policy::Full };
    let mut capacities = Capacities::for_tasks(TASKS, BACKINGS.into());
    capacities.links = TASKS * TASKS;
    capacities.odd_nbytes = usize::try_from(NBYTES).unwrap();
    let mut tracker = Tracker::new(policy, KeyedHash::new([1, 2]), Storage::<Boxed>::allocate(&capacities));
    let bytes = vec![vec![Byte::default(); usize::try_from(NBYTES).unwrap()]; BACKINGS.into()];
    let mut model = Model { policy, bytes, tasks: Vec::new(), failures: 0 };
    while let Some(call) = input.byte() {
        match call % 8 {
            count @ (0..=3 | 7) => {
                let mut arguments = Vec::new();
                for _ in 0..=count % 4 {
                    let Some(argument) = input.argument() else { return };
                    arguments.extend(argument);
                }
                if count == 7 {
                    let Ok(edges) = tracker.look_up(arguments.iter().copied()) else { continue };
                    let given: Edges = edges
                        .iter()
                        .map(|edge| {
                            ((usize::try_from(edge.task).unwrap(), edge.hazard), (edge.rank, edge.byte))
                        })
                        .collect();
                    let expected = model.edges(&arguments);
                    assert!(expected.keys().all(|edge| given.contains_key(edge)), "an edge is missing");
                    continue;
                }
                if model.tasks.len() == TASKS {
                    return;
                }
                let before = tracker.inexact();
                let number = u64::try_from(model.tasks.len()).unwrap();
                // One that passes a capacity changes nothing: the model does not see it, and the rest must agree.
                if let Ok(Submitted { handle, edges, poisoned }) =
                    tracker.submit(number, arguments.iter().copied())
                {
                    let edges = edges.to_vec();
                    let is_exact = tracker.inexact() == before;
                    model.submit(&arguments, &Submitted { handle, edges: &edges, poisoned }, is_exact);
                }
            }
            4 => {
                let Some(task) = input.task(&model.tasks) else { return };
                let handle = model.tasks[task].handle;
                let mut ready: Vec<Ready> = Vec::new();
                let finished = tracker.finish(handle, |task| ready.push(task));
                assert_eq!(finished.is_ok(), model.tasks[task].is_live);
                if finished.is_ok() {
                    let expected = model.finish(task);
                    ready.sort_by_key(|ready| ready.task);
                    let given: Vec<usize> =
                        ready.iter().map(|ready| usize::try_from(ready.task).unwrap()).collect();
                    assert_eq!(given, expected);
                    ready
                        .iter()
                        .zip(expected)
                        .for_each(|(ready, task)| model.same_cause(task, ready.poisoned));
                }
            }
            5 => {
                let Some(task) = input.task(&model.tasks) else { return };
                let handle = model.tasks[task].handle;
                let mut poisoned = Vec::new();
                let reason = model.failures;
                let failed =
                    tracker.fail(handle, reason, |_, task| poisoned.push(usize::try_from(task).unwrap()));
                assert_eq!(failed.is_ok(), model.tasks[task].is_live);
                if failed.is_ok() {
                    poisoned.sort_unstable();
                    assert_eq!(poisoned, model.fail(task));
                }
            }
            _ => {
                let Some(rank) = input.byte() else { return };
                let rank = u32::from(rank % BACKINGS);
                tracker.release(identity(rank));
                model.bytes[usize::try_from(rank).unwrap()].fill(Byte::default());
            }
        }
        for (number, task) in model.tasks.iter().enumerate() {
            assert_eq!(tracker.waiting(task.handle).is_ok(), task.is_live);
            if task.is_live {
                assert_eq!(tracker.waiting(task.handle), Ok(task.waits_for.count_ones()));
                model.same_cause(number, tracker.poisoned(task.handle).expect("it is live"));
            }
        }
        assert_eq!(usize::try_from(tracker.tasks()).unwrap(), members(model.live()).count());
    }
}
