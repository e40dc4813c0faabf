//! What came of a task.

use core::fmt;

use crate::worker::{Reply, TaskFailure, WorkerId};

/// A task, by its place in the order of all that an orchestrator was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub u64);

/// A task that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Which one.
    pub task: TaskId,
    /// How each member got at its arguments, in order, or why there is nothing to tell.
    pub outcome: Result<Vec<Reply>, TaskFailed>,
}

/// Why a task did not get done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskFailed {
    /// A member failed; the first one, if several did. What that and others wrote is undefined.
    Own(Cause),
    /// It never ran, since a task that it depends on failed: the first one, if several did.
    Poisoned(Cause),
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The task that failed.
    pub task: TaskId,
    /// Its member, from 0.
    pub member: u32,
    /// Where that ran.
    pub worker: WorkerId,
    /// What happened.
    pub failure: TaskFailure,
}

impl TaskFailed {
    /// The failure behind it.
    #[must_use]
    pub const fn cause(&self) -> &Cause {
        match self {
            Self::Own(cause) | Self::Poisoned(cause) => cause,
        }
    }
}

impl fmt::Display for TaskFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(cause) => cause.failure.fmt(f),
            Self::Poisoned(Cause { task: TaskId(task), failure, .. }) => {
                write!(f, "it depends on task {task}, which failed: {failure}")
            }
        }
    }
}

impl std::error::Error for TaskFailed {}
