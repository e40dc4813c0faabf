//! Which tasks must wait for which, for runtimes in C that run them by themselves.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bufabi_core::dependencies::{Argument, Capacities, Cause, Edge, Handle, Hazard, Policy, Tracker};
use bufabi_core::wire::identity::RawIdentity;
use bufabi_core::{Code, KeyedHash};
use zerocopy::{FromBytes, Immutable};

use super::boundary::{answer, noted};
use super::handle::{Kind, Table};
use super::parameter::{Out, OutSlice, apart_from, given, given_slice, span_of, span_of_slice};
use super::status::Status;
use super::task_args::{self, TaskArgsHandle};
use crate::orchestrator::TrackerMemory;
use crate::sys::random::random_bytes;

/// All orders: reads wait for writes, writes for writes and reads.
pub const POLICY_FULL: i32 = 0;
/// Only who made what is read.
pub const POLICY_PRODUCERS: i32 = 1;

/// It reads what the other wrote.
pub const HAZARD_READ_AFTER_WRITE: i32 = 0;
/// It writes what the other wrote.
pub const HAZARD_WRITE_AFTER_WRITE: i32 = 1;
/// It writes what the other read.
pub const HAZARD_WRITE_AFTER_READ: i32 = 2;

/// A tracker of dependencies. 0 is none.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct TrackerHandle {
    /// Nothing to be read into.
    pub token: u64,
}

/// A task in a tracker, until it is finished; afterwards `not_tracked`, and never another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, Immutable)]
#[repr(C)]
pub struct TrackedTask {
    /// Nothing to be read into.
    pub stamp: u64,
    /// Nothing to be read into.
    pub slot: u32,
    /// 0.
    pub reserved: u32,
}

/// How much of everything a tracker holds. 0 stands for what goes with the tasks.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct TrackerCapacities {
    /// Tasks that have not been finished, at most 2^24.
    pub tasks: u32,
    /// Backings with live views; else as many as tasks.
    pub backings: u32,
    /// Live pairs of a task and a view; else 4 for each task.
    pub entries: u32,
    /// Pieces, into which writes cut views; at least one for each entry, else 4.
    pub pieces: u32,
    /// Tasks that wait for others, counted once for each of those: the fan-out of all together; else 8 for each task.
    pub links: u32,
    /// Edges of one task: the fan-in, counted for each hazard; else 1,024.
    pub edges: u32,
    /// Bytes of the largest backing in which views of any shape are told apart to the byte; else 65,536. Ranges and tiles need none.
    pub odd_nbytes: u64,
}

/// A task waits for another, and why.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct EdgeFields {
    /// The task that is waited for.
    pub before: TrackedTask,
    /// The number that was given for it.
    pub task: u64,
    /// The backing that it is about.
    pub identity: RawIdentity,
    /// The lowest byte of it that it is about.
    pub byte: u64,
    /// One of `BUFABI_HAZARD_...`.
    pub hazard: i32,
    /// The first argument, of all members in order, that it is about.
    pub argument: u32,
}

/// What a tracker says of a task.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct TaskState {
    /// The task.
    pub handle: TrackedTask,
    /// The number that was given for it.
    pub task: u64,
    /// Tasks that it waits for.
    pub waiting: u32,
    /// 1 when a task that it depends on, or itself, has failed: it must not run.
    pub is_poisoned: i32,
    /// The number of the task that failed first, if one did.
    pub cause_task: u64,
    /// What was said of that failure.
    pub cause_reason: u64,
}

type Tracked = Mutex<Tracker<TrackerMemory>>;

static TABLE: Table<Tracked> = Table::new(Kind::Tracker);

fn with<R>(
    handle: TrackerHandle,
    work: impl FnOnce(&mut Tracker<TrackerMemory>) -> Result<R, Code>,
) -> Result<R, Code> {
    let tracker = TABLE.get(handle.token)?;
    work(&mut lock(&tracker))
}

fn lock(tracker: &Tracked) -> MutexGuard<'_, Tracker<TrackerMemory>> {
    // A panic of the tracker itself would be a fault of this library; a later call on it is as good as none.
    tracker.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TrackedTask {
    const fn encode(handle: Handle) -> Self {
        let (slot, stamp) = handle.parts();
        Self { stamp, slot, reserved: 0 }
    }

    const fn decode(self) -> Handle {
        Handle::from_parts(self.slot, self.stamp)
    }
}

impl TaskState {
    fn new(handle: Handle, task: u64, waiting: u32, cause: Option<Cause>) -> Self {
        let (cause_task, cause_reason) = cause.map_or((0, 0), |cause| (cause.task, cause.reason));
        let is_poisoned = i32::from(cause.is_some());
        let handle = TrackedTask::encode(handle);
        Self { handle, task, waiting, is_poisoned, cause_task, cause_reason }
    }
}

impl EdgeFields {
    fn of(edge: &Edge) -> Self {
        Self {
            before: TrackedTask::encode(edge.before),
            task: edge.task,
            identity: edge.identity.encode(),
            byte: edge.byte,
            hazard: match edge.hazard {
                Hazard::ReadAfterWrite => HAZARD_READ_AFTER_WRITE,
                Hazard::WriteAfterWrite => HAZARD_WRITE_AFTER_WRITE,
                Hazard::WriteAfterRead => HAZARD_WRITE_AFTER_READ,
            },
            argument: edge.rank,
        }
    }
}

impl TrackerCapacities {
    /// Tasks of one tracker, at most: what it takes is allocated at once, a few hundred bytes for each.
    const MAX_TASKS: u32 = 1 << 24;

    fn decode(&self) -> Result<Capacities, Code> {
        let all = [self.tasks, self.backings, self.entries / 4, self.pieces / 16, self.links / 8];
        let too_many = all.iter().any(|&count| count > Self::MAX_TASKS) || self.odd_nbytes > 1 << 32;
        if self.tasks == 0 || too_many {
            return Err(Code::OptionUnknown);
        }
        let wide = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let tasks = wide(self.tasks);
        let or = |number: u32, usual: usize| if number == 0 { usual } else { wide(number) };
        let mut capacities = Capacities::for_tasks(tasks, or(self.backings, tasks));
        capacities.entries = or(self.entries, capacities.entries);
        capacities.pieces = or(self.pieces, capacities.entries.saturating_mul(4));
        capacities.links = or(self.links, capacities.links);
        capacities.edges = or(self.edges, capacities.edges);
        // Groups of members name more than one task may.
        capacities.arguments = capacities.entries.max(256);
        if self.odd_nbytes != 0 {
            capacities.odd_nbytes = usize::try_from(self.odd_nbytes).unwrap_or(usize::MAX);
        }
        Ok(capacities)
    }
}

/// Makes a tracker without a task. `policy` is one of `BUFABI_POLICY_...`.
///
/// # Safety
/// `capacities` points to capacities that nobody writes during the call, `tracker` to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_tracker_create(
    capacities: *const TrackerCapacities,
    policy: i32,
    tracker: *mut TrackerHandle,
) -> Status {
    answer("tracker_create", || {
        // SAFETY: the caller's promise above.
        let capacities = unsafe { given(capacities) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(tracker) }?;
        apart_from(&[out.span()], &[span_of(capacities)])?;
        let policy = match policy {
            POLICY_FULL => Policy::Full,
            POLICY_PRODUCERS => Policy::Producers,
            _ => return Err(Code::OptionUnknown),
        };
        let storage = TrackerMemory::storage(&capacities.decode()?);
        let storage = storage.map_err(|error| noted(error.code(), &error))?;
        let random = || random_bytes().map(u64::from_le_bytes).map_err(|error| noted(error.code(), &error));
        let tracker = Tracker::new(policy, KeyedHash::new([random()?, random()?]), storage);
        out.set(TrackerHandle { token: TABLE.insert(Mutex::new(tracker))? });
        Ok(())
    })
}

/// Takes the next task of the sequence, numbered `task` as the caller likes: its arguments, or those of all its members if it is a group.
/// `*state` says whether it must wait. `*edge_count` is the number of edges, one for each task that it waits for and
/// hazard, of which as many as fit are written to `edges`.
///
/// The arguments are not checked as for a submit to a worker: that is `bufabi_task_args_check`'s. When a capacity does not suffice
/// nothing has changed.
///
/// # Safety
/// `members` points to `member_count` handles that nobody writes during the call, `edges` to `edge_capacity` edges that may be
/// written, `edge_count` and `state` to a size_t and a task state that may be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_tracker_submit(
    tracker: TrackerHandle,
    task: u64,
    members: *const TaskArgsHandle,
    member_count: usize,
    edges: *mut EdgeFields,
    edge_capacity: usize,
    edge_count: *mut usize,
    state: *mut TaskState,
) -> Status {
    answer("tracker_submit", || {
        // SAFETY: the caller's promise above.
        let members = unsafe { given_slice(members, member_count) }?;
        // SAFETY: the caller's promise above.
        let edges = unsafe { OutSlice::new(edges, edge_capacity) }?;
        // SAFETY: the caller's promise above.
        let edge_count = unsafe { Out::new(edge_count) }?;
        // SAFETY: the caller's promise above.
        let state = unsafe { Out::new(state) }?;
        apart_from(&[edges.span(), edge_count.span(), state.span()], &[span_of_slice(members)])?;
        let mut arguments = Vec::new();
        for &member in members {
            task_args::with(member, |collected| {
                for (tensor, &tag) in collected.arguments.tensors().iter().zip(collected.arguments.tags()) {
                    let (descriptor, view) = (tensor.descriptor(), tensor.view());
                    let (identity, nbytes) = (descriptor.identity(), descriptor.nbytes());
                    let rank = u32::try_from(arguments.len()).unwrap_or(u32::MAX);
                    arguments.push(Argument { identity, nbytes, view, tag, rank });
                }
                Ok(())
            })?;
        }
        with(tracker, |tracker| {
            let submitted = tracker.submit(task, arguments).map_err(|error| noted(error.code(), &error))?;
            let (handle, poisoned) = (submitted.handle, submitted.poisoned);
            edge_count.set(submitted.edges.len());
            edges.fill(submitted.edges.iter().map(EdgeFields::of));
            let waiting = tracker.waiting(handle).map_err(|error| noted(error.code(), &error))?;
            state.set(TaskState::new(handle, task, waiting, poisoned));
            Ok(())
        })
    })
}

/// Retires a task whose run has ended: nothing waits for it any longer. `*ready_count` is the number of tasks that now wait for none, of
/// which as many as fit are written to `ready`; room for all tasks suffices always.
///
/// # Safety
/// `ready` points to `ready_capacity` task states that may be written, `ready_count` to a size_t that may be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_tracker_finish(
    tracker: TrackerHandle,
    task: TrackedTask,
    ready: *mut TaskState,
    ready_capacity: usize,
    ready_count: *mut usize,
) -> Status {
    answer("tracker_finish", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { OutSlice::new(ready, ready_capacity) }?;
        // SAFETY: the caller's promise above.
        let count = unsafe { Out::new(ready_count) }?;
        apart_from(&[out.span(), count.span()], &[])?;
        let mut ready = Vec::new();
        with(tracker, |tracker| {
            let finished = tracker.finish(task.decode(), |next| {
                ready.push(TaskState::new(next.handle, next.task, 0, next.poisoned));
            });
            finished.map_err(|error| noted(error.code(), &error))
        })?;
        count.set(ready.len());
        out.set(&ready);
        Ok(())
    })
}

/// Says that a task failed, for a reason that the caller numbers: all that depend on it must not run, now or when they are submitted later. It
/// stays until it is finished, as they do. `*poisoned_count` is the number of those that are poisoned by this, of which as
/// many as fit are written to `poisoned`.
///
/// # Safety
/// `poisoned` points to `poisoned_capacity` task states that may be written, `poisoned_count` to a size_t that may be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_tracker_fail(
    tracker: TrackerHandle,
    task: TrackedTask,
    reason: u64,
    poisoned: *mut TaskState,
    poisoned_capacity: usize,
    poisoned_count: *mut usize,
) -> Status {
    answer("tracker_fail", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { OutSlice::new(poisoned, poisoned_capacity) }?;
        // SAFETY: the caller's promise above.
        let count = unsafe { Out::new(poisoned_count) }?;
        apart_from(&[out.span(), count.span()], &[])?;
        with(tracker, |tracker| {
            let mut poisoned = Vec::new();
            let failed = tracker.fail(task.decode(), reason, |handle, task| poisoned.push((handle, task)));
            failed.map_err(|error| noted(error.code(), &error))?;
            count.set(poisoned.len());
            out.fill(poisoned.iter().filter_map(|&(handle, task)| state_of(tracker, handle, task).ok()));
            Ok(())
        })
    })
}

/// What a tracker says of a task now, but for its number, which is written as 0.
///
/// # Safety
/// `state` points to a task state that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_tracker_state(
    tracker: TrackerHandle,
    task: TrackedTask,
    state: *mut TaskState,
) -> Status {
    answer("tracker_state", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(state) }?;
        with(tracker, |tracker| {
            out.set(state_of(tracker, task.decode(), 0)?);
            Ok(())
        })
    })
}

fn state_of(tracker: &Tracker<TrackerMemory>, handle: Handle, task: u64) -> Result<TaskState, Code> {
    let gone = |error: bufabi_core::dependencies::NotTracked| noted(error.code(), &error);
    let (waiting, cause) = (tracker.waiting(handle).map_err(gone)?, tracker.poisoned(handle).map_err(gone)?);
    Ok(TaskState::new(handle, task, waiting, cause))
}

/// Drops all that is known of a backing's bytes, since it was released. Edges that were given stay.
///
/// # Safety
/// `identity` points to an identity that nobody writes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_tracker_forget(
    tracker: TrackerHandle,
    identity: *const RawIdentity,
) -> Status {
    answer("tracker_forget", || {
        // SAFETY: the caller's promise above.
        let identity = unsafe { given(identity) }?.decode().ok_or(Code::Generation)?;
        with(tracker, |tracker| {
            tracker.release(identity);
            Ok(())
        })
    })
}

/// How many tasks have not been finished, and how often an edge was given that may be one too many, because a fixed bound of work
/// was passed.
///
/// # Safety
/// `tasks` points to a uint32_t and `inexact` to a uint64_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_tracker_count(
    tracker: TrackerHandle,
    tasks: *mut u32,
    inexact: *mut u64,
) -> Status {
    answer("tracker_count", || {
        // SAFETY: the caller's promise above.
        let tasks = unsafe { Out::new(tasks) }?;
        // SAFETY: the caller's promise above.
        let inexact = unsafe { Out::new(inexact) }?;
        apart_from(&[tasks.span(), inexact.span()], &[])?;
        with(tracker, |tracker| {
            tasks.set(tracker.tasks());
            inexact.set(tracker.inexact());
            Ok(())
        })
    })
}

/// Releases the tracker, whatever tasks are in it: the handle is none from now on.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_tracker_release(tracker: TrackerHandle) -> Status {
    answer("tracker_release", || TABLE.remove(tracker.token).map(drop))
}
