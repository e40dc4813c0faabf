//! `Tracker`: which tasks must wait for which, for programs that run them by themselves.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bufabi_core::dependencies::{self, Argument, Capacities, Handle, Hazard, Policy, Tracker};
use bufabi_core::{Code, KeyedHash};
use bufabi_host::orchestrator::TrackerMemory;
use bufabi_host::sys::random::random_bytes;
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::error::{OrRaise, raise, with_rule};
use crate::guarded::Guarded;
use crate::identity::PyIdentity;
use crate::number::{self, Enumeration, Given, Kept, Value, out_of_range};
use crate::task_args::PyTaskArgs;
use crate::tracked_task::{PyEdge, PyTrackedTask, Tracked};
use crate::tree::MOST_NAMED;

/// Tasks of one tracker, at most: what it takes is allocated at once, a few kilobytes for each.
const MOST_TASKS: u32 = 1 << 20;
/// Tasks of a tracker, unless its maker says otherwise.
const TASKS: u32 = 4096;
/// Arguments of one task, of all members if it is a group.
const ARGUMENTS: usize = 4096;

macro_rules! enumeration {
    ($type:ident, $name:literal, $meaning:literal, $($value:ident $number:literal $spelled:literal),*) => {
        impl Enumeration for $type {
            const NAME: &'static str = $name;
            const MEANING: &'static str = $meaning;

            fn kept() -> &'static PyOnceLock<Kept> {
                static KEPT: PyOnceLock<Kept> = PyOnceLock::new();
                &KEPT
            }

            /// The numbers are those of the C ABI.
            fn all() -> Vec<(&'static str, u8)> {
                vec![$(($spelled, $number)),*]
            }

            fn number(self) -> u8 {
                match self {
                    $(Self::$value => $number),*
                }
            }
        }
    };
}

enumeration!(Hazard, "Hazard", "In what way a task waits for an earlier one.",
    ReadAfterWrite 0 "READ_AFTER_WRITE", WriteAfterWrite 1 "WRITE_AFTER_WRITE", WriteAfterRead 2 "WRITE_AFTER_READ");
enumeration!(Policy, "TrackerPolicy", "Whom a task waits for: all that the bytes ask for, or writers alone.", Full 0 "FULL", Producers 1 "PRODUCERS");

impl Given for Policy {
    fn from_number(number: i64) -> PyResult<Self> {
        match number {
            0 => Ok(Self::Full),
            1 => Ok(Self::Producers),
            _ => Err(out_of_range("policy", number, "0 to 1")),
        }
    }
}

/// Takes tasks in the order in which they are submitted, and says from the bytes that they touch who must wait for whom.
///
/// A task that reads a byte waits for the last that wrote it; one that writes it, for the last that wrote it and for all that have read
/// it since. Nothing runs here: whoever runs the tasks says when one is over. Threads may share it.
///
/// It holds so many `tasks` that have not been finished, 4,096 if nothing is said, on so many `backings`, by default as many, and at
/// most so many `edges` to one task, 1,024. That is allocated at once: about 4 KiB for each task. A number
/// that is not 1 to 1,048,576 is a ValueError.
#[pyclass(frozen, name = "Tracker", module = "bufabi")]
pub(crate) struct PyTracker {
    /// No other tracker of this process has that number.
    number: u64,
    /// Python's allocator aligns to 16 bytes, and this wants 64.
    state: Box<Guarded<State>>,
}

struct State {
    tracker: Tracker<TrackerMemory>,
    /// Those that have not been finished: what `submit` gave is what comes back. A share of each is taken under the lock,
    /// a reference to its object is not.
    live: HashMap<Handle, Arc<Py<PyTrackedTask>>>,
    /// The number of the next task that is given none.
    next: u64,
}

impl PyTracker {
    /// The handle of a task, if it is one of this tracker's.
    fn handle(&self, task: &PyTrackedTask) -> PyResult<Handle> {
        let tracked = task.tracked();
        if let Some(tracked) = tracked.filter(|_| task.tracker == self.number) {
            return Ok(tracked.handle);
        }
        let number = tracked.map_or(0, |tracked| tracked.number);
        Err(raise(Code::NotTracked, &format_args!("task {number} is in another tracker")))
    }
}

impl State {
    /// Shares of those tasks.
    fn all(&self, handles: &[Handle]) -> Vec<Arc<Py<PyTrackedTask>>> {
        handles.iter().filter_map(|handle| self.live.get(handle).cloned()).collect()
    }
}

/// The tasks themselves.
fn unshared(py: Python<'_>, tasks: &[Arc<Py<PyTrackedTask>>]) -> Vec<Py<PyTrackedTask>> {
    tasks.iter().map(|task| task.clone_ref(py)).collect()
}

/// All that a task names: the arguments of one, or of every member of a group.
fn arguments(args: &Bound<'_, PyAny>) -> PyResult<Vec<Argument>> {
    let mut all = Vec::new();
    if let Ok(one) = args.extract::<PyRef<'_, PyTaskArgs>>() {
        add_arguments(&one, &mut all);
        return Ok(all);
    }
    let needed = |found: &Bound<'_, PyAny>| {
        PyTypeError::new_err(format!("args: a TaskArgs or several are needed, not {}", found.get_type()))
    };
    for (number, member) in args.try_iter().map_err(|_| needed(args))?.enumerate() {
        let member = member?;
        if number >= MOST_NAMED {
            return Err(PyValueError::new_err(format!("args: there are more than {MOST_NAMED}")));
        }
        if all.len() > ARGUMENTS {
            // More than any task has: the tracker says so.
            break;
        }
        let member = member.extract::<PyRef<'_, PyTaskArgs>>().map_err(|_| needed(&member))?;
        add_arguments(&member, &mut all);
    }
    Ok(all)
}

fn add_arguments(args: &PyTaskArgs, all: &mut Vec<Argument>) {
    for (tensor, &tag) in args.0.tensors().iter().zip(args.0.tags()) {
        let (descriptor, view) = (tensor.descriptor(), tensor.view());
        let (identity, nbytes) = (descriptor.identity(), descriptor.nbytes());
        let rank = u32::try_from(all.len()).unwrap_or(u32::MAX);
        all.push(Argument { identity, nbytes, view, tag, rank });
    }
}

/// A capacity: that of its maker, or what goes with the tasks.
fn capacity(given: Option<&Bound<'_, PyAny>>, name: &str, usual: u32) -> PyResult<usize> {
    let found = given.map_or(Ok(usual), |given| number::whole_32(given, name))?;
    if (1..=MOST_TASKS).contains(&found) {
        return Ok(usize::try_from(found).unwrap_or(usize::MAX));
    }
    Err(PyValueError::new_err(format!("{name}: {found} is not 1 to {MOST_TASKS}")))
}

#[pymethods]
impl PyTracker {
    #[new]
    #[pyo3(
        signature = (*, tasks = None, backings = None, edges = None, policy = Value(Policy::Full)),
        text_signature = "(*, tasks=None, backings=None, edges=None, policy=bufabi.TrackerPolicy.FULL)"
    )]
    fn new(
        tasks: Option<&Bound<'_, PyAny>>,
        backings: Option<&Bound<'_, PyAny>>,
        edges: Option<&Bound<'_, PyAny>>,
        policy: Value<Policy>,
    ) -> PyResult<Self> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let tasks = capacity(tasks, "tasks", TASKS)?;
        let usual = u32::try_from(tasks).unwrap_or(MOST_TASKS);
        let mut capacities = Capacities::for_tasks(tasks, capacity(backings, "backings", usual)?);
        let fan_in = u32::try_from(capacities.edges).unwrap_or(MOST_TASKS);
        capacities.edges = capacity(edges, "edges", fan_in)?;
        capacities.arguments = ARGUMENTS;
        let storage = TrackerMemory::storage(&capacities);
        let storage = storage.map_err(|error| with_rule(error.code(), &error, PyMemoryError::new_err))?;
        // Views come from outside, and must not choose where they land in the tracker's tables.
        let seed = [random_bytes().or_raise()?, random_bytes().or_raise()?].map(u64::from_le_bytes);
        let tracker = Tracker::new(policy.0, KeyedHash::new(seed), storage);
        let state = Box::new(Guarded::new(State { tracker, live: HashMap::new(), next: 0 }));
        Ok(Self { number: NUMBERS.fetch_add(1, Ordering::Relaxed), state })
    }

    /// Takes the next task of the sequence: its arguments, or those of all its members if it is a group. Its number is `task`, or its
    /// place in the sequence, and nothing here needs it to be the only one of that number.
    ///
    /// What comes back has the edges: one for each task that it waits for and hazard. Rights and clashes are not looked at:
    /// `TaskArgs.check` does that. Past a capacity it is a MemoryError, and nothing has changed.
    #[pyo3(signature = (args, task = None))]
    fn submit(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyAny>,
        task: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyTrackedTask>> {
        let arguments = arguments(args)?;
        let task = task.map(|task| number::whole(task, "task")).transpose()?;
        // The object is made first: whoever finishes a task that this one waits for may want it at once.
        let tracked = Py::new(py, PyTrackedTask::new(self.number))?;
        let share = Arc::new(tracked.clone_ref(py));
        let submitted = self.state.with(py, |State { tracker, live, next }| {
            let number = task.unwrap_or(*next);
            let submitted = tracker.submit(number, arguments)?;
            let (handle, edges) = (submitted.handle, submitted.edges.iter().map(PyEdge::of).collect());
            *next = next.saturating_add(1);
            share.get().set(Tracked { handle, number, edges });
            // A handle is of one task that is live.
            Ok::<_, dependencies::SubmitError>(live.insert(handle, share))
        });
        submitted.or_raise()?;
        Ok(tracked)
    }

    /// The edges that a task of these arguments would have now. Nothing changes. Past a capacity it is a MemoryError.
    fn look_up<'py>(&self, py: Python<'py>, args: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
        let arguments = arguments(args)?;
        let edges = self.state.with(py, |State { tracker, .. }| {
            Ok::<_, dependencies::SubmitError>(
                tracker.look_up(arguments)?.iter().map(PyEdge::of).collect::<Vec<_>>(),
            )
        });
        let edges = edges.or_raise()?;
        PyTuple::new(py, edges)
    }

    /// Retires a task that is over: nothing waits for it any longer. Those that now wait for none come back, as `submit` gave them.
    /// One that was retired before, or is another tracker's, is a KeyError.
    fn finish(&self, py: Python<'_>, task: PyRef<'_, PyTrackedTask>) -> PyResult<Vec<Py<PyTrackedTask>>> {
        let handle = self.handle(&task)?;
        let finished = self.state.with(py, |state| {
            let mut ready = Vec::new();
            state.tracker.finish(handle, |next| ready.push(next.handle))?;
            Ok::<_, dependencies::NotTracked>((state.all(&ready), state.live.remove(&handle)))
        });
        let (ready, _finished) = finished.or_raise()?;
        Ok(unshared(py, &ready))
    }

    /// Says that a task failed, for a reason that the caller numbers: all that depend on it must not run, now or when they are submitted
    /// later. Those that are poisoned by this come back. All of them stay until they are finished.
    /// The errors are those of `finish`: a KeyError.
    #[pyo3(signature = (task, reason = None))]
    fn fail(
        &self,
        py: Python<'_>,
        task: PyRef<'_, PyTrackedTask>,
        reason: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Py<PyTrackedTask>>> {
        let handle = self.handle(&task)?;
        let reason = reason.map_or(Ok(0), |reason| number::whole(reason, "reason"))?;
        let failed = self.state.with(py, |state| {
            let mut poisoned = Vec::new();
            state.tracker.fail(handle, reason, |handle, _| poisoned.push(handle))?;
            Ok::<_, dependencies::NotTracked>(state.all(&poisoned))
        });
        Ok(unshared(py, &failed.or_raise()?))
    }

    /// How many tasks a task still waits for. The errors are those of `finish`: a KeyError.
    fn waiting(&self, py: Python<'_>, task: PyRef<'_, PyTrackedTask>) -> PyResult<u32> {
        let handle = self.handle(&task)?;
        self.state.with(py, |state| state.tracker.waiting(handle)).or_raise()
    }

    /// Why a task must not run: the number of the task that failed first, itself or one that it depends on, and the reason that was
    /// given. None if it may. The errors are those of `finish`: a KeyError.
    fn poisoned(&self, py: Python<'_>, task: PyRef<'_, PyTrackedTask>) -> PyResult<Option<(u64, u64)>> {
        let handle = self.handle(&task)?;
        let cause = self.state.with(py, |state| state.tracker.poisoned(handle)).or_raise()?;
        Ok(cause.map(|cause| (cause.task, cause.reason)))
    }

    /// Drops all that is known of a backing's bytes, since it was released. Edges that were given stay. It never fails.
    fn forget(&self, py: Python<'_>, identity: PyRef<'_, PyIdentity>) {
        let identity = identity.0;
        self.state.with(py, |state| state.tracker.release(identity));
    }

    /// How often an edge was given that may be one too many, because a fixed bound of work was passed.
    #[getter]
    fn inexact(&self, py: Python<'_>) -> u64 {
        self.state.with(py, |state| state.tracker.inexact())
    }

    /// Tasks that have not been finished.
    fn __len__(&self, py: Python<'_>) -> usize {
        self.state.with(py, |state| state.live.len())
    }

    /// It is there even when no task is in it.
    const fn __bool__(&self) -> bool {
        true
    }

    fn __contains__(&self, task: &Bound<'_, PyAny>) -> bool {
        let py = task.py();
        task.cast::<PyTrackedTask>().is_ok_and(|task| {
            let task = task.get();
            let handle = task.tracked().filter(|_| task.tracker == self.number).map(|tracked| tracked.handle);
            handle.is_some_and(|handle| self.state.with(py, |state| state.live.contains_key(&handle)))
        })
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let count = |state: &mut State| (state.live.len(), state.tracker.backings());
        let (tasks, backings) = self.state.with(py, count);
        format!("Tracker({tasks} tasks, {backings} backings)")
    }
}
