//! What the parent's side of workers answers when it cannot start them, hand a task to one, or wait any longer.

use core::fmt;

use bufabi_core::wire::blob::EncodeError;
use bufabi_core::{Code, Identity, task_args};

use super::failure::Failure;
use super::records::DeviceNameError;
use super::reply::WorkerId;
use crate::owner::OwnError;
use crate::sys::OsError;
use crate::sys::process::{Ending, ForkError};

/// Why a task was not handed to a worker; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// There is no such worker.
    WorkerUnknown {
        /// Which one.
        worker: WorkerId,
    },
    /// It has a task that is not finished.
    WorkerBusy {
        /// The task that it has.
        task: u64,
    },
    /// Its process, or one above it, has ended.
    WorkerDied {
        /// The process that did.
        pid: i32,
        /// How.
        ending: Ending,
    },
    /// A limit, a right, or two arguments that clash over a byte.
    Arguments(task_args::SubmitError),
    /// An argument is on another machine, and no transport leads from these workers to it.
    Remote {
        /// Which argument.
        argument: usize,
        /// Its backing.
        identity: Identity,
    },
    /// The arguments do not fit into a mailbox.
    Encode(EncodeError),
    /// The owner, which this process is, has it no longer, or otherwise than the argument claims.
    Own {
        /// Which argument.
        argument: usize,
        /// Why.
        error: OwnError,
    },
    /// It is no device memory that a task there may name.
    Device {
        /// Which argument.
        argument: usize,
        /// Why.
        error: DeviceNameError,
    },
    /// The worker could not be woken.
    Os(OsError),
    /// This process is a fork of the one that started the workers.
    Forked {
        /// The process that started them.
        creator: u32,
        /// This process.
        here: u32,
    },
}

/// Why there is no completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitError {
    /// No worker has a task.
    Idle,
    /// The time came.
    TimedOut {
        /// Workers that have a task.
        busy: usize,
        /// One of them.
        worker: WorkerId,
        /// Its task.
        task: u64,
    },
    /// What the caller gave [`watch_interrupt`](super::Workers::watch_interrupt) can be read; the tasks go on.
    Interrupted,
    /// The operating system refused to wait.
    Os(OsError),
    /// This process is a fork of the one that started the workers.
    Forked {
        /// The process that started them.
        creator: u32,
        /// This process.
        here: u32,
    },
}

/// Why workers were not started; those that were have been ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpawnError {
    /// This process has more threads than the one that calls.
    SeveralThreads {
        /// How many.
        threads: u64,
    },
    /// The operating system refused.
    Os(OsError),
    /// A process ended before all leaves below it had said that they are there, and could not say why.
    Died {
        /// Which one.
        pid: i32,
        /// How.
        ending: Ending,
    },
    /// The leaves of a process did not say in time that they are there.
    TimedOut {
        /// Which process.
        pid: i32,
    },
    /// A worker cannot start: its device is not to be had, the operating system refused it something, or one below it cannot.
    Leaf {
        /// Its path.
        worker: String,
        /// What it says.
        failure: Failure,
    },
    /// What a leaf said makes no sense.
    MessageBroken,
}

impl SpawnError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::SeveralThreads { .. } => Code::SeveralThreads,
            Self::Os(error) => error.code(),
            Self::Died { .. } => Code::WorkerDied,
            Self::TimedOut { .. } => Code::TimedOut,
            Self::Leaf { failure, .. } => failure.code,
            Self::MessageBroken => Code::MessageBroken,
        }
    }
}

impl From<OsError> for SpawnError {
    fn from(error: OsError) -> Self {
        Self::Os(error)
    }
}

impl From<ForkError> for SpawnError {
    fn from(error: ForkError) -> Self {
        match error {
            ForkError::SeveralThreads { threads } => Self::SeveralThreads { threads },
            ForkError::Os(error) => Self::Os(error),
        }
    }
}

impl SubmitError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::WorkerUnknown { .. } => Code::WorkerUnknown,
            Self::WorkerBusy { .. } => Code::WorkerBusy,
            Self::WorkerDied { .. } => Code::WorkerDied,
            Self::Arguments(error) => error.code(),
            Self::Remote { .. } => Code::TransportMissing,
            Self::Encode(error) => error.code(),
            Self::Own { error, .. } => error.code(),
            Self::Device { error, .. } => error.code(),
            Self::Os(error) => error.code(),
            Self::Forked { .. } => Code::Forked,
        }
    }
}

impl WaitError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Idle => Code::WorkerIdle,
            Self::TimedOut { .. } => Code::TimedOut,
            Self::Interrupted => Code::Interrupted,
            Self::Os(error) => error.code(),
            Self::Forked { .. } => Code::Forked,
        }
    }
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::WorkerUnknown { worker: WorkerId(index) } => write!(f, "there is no worker number {index}"),
            Self::WorkerBusy { task } => write!(f, "the worker has task {task}, which is not finished"),
            Self::WorkerDied { pid, ending } => write!(f, "process {pid} {ending}"),
            Self::Arguments(error) => error.fmt(f),
            Self::Remote { argument, identity } => {
                write!(f, "argument {argument}: {identity} is remote, and there is no transport")
            }
            Self::Encode(error) => error.fmt(f),
            Self::Own { argument, error } => write!(f, "argument {argument}: {error}"),
            Self::Device { argument, error } => write!(f, "argument {argument}: {error}"),
            Self::Os(error) => error.fmt(f),
            Self::Forked { creator, here } => forked(creator, here, f),
        }
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            &Self::SeveralThreads { threads } => ForkError::SeveralThreads { threads }.fmt(f),
            Self::Os(error) => error.fmt(f),
            Self::Leaf { worker, failure } => write!(f, "worker {worker}: {failure}"),
            Self::Died { pid, ending } => write!(f, "process {pid}, a worker that was starting, {ending}"),
            Self::TimedOut { pid } => write!(f, "the worker of process {pid} did not start in time"),
            Self::MessageBroken => f.write_str("what a worker says of itself makes no sense"),
        }
    }
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Idle => f.write_str("no worker has a task: there is nothing to wait for"),
            Self::TimedOut { busy, worker: WorkerId(index), task } => {
                write!(f, "{busy} workers did not finish in time, among them number {index} with task {task}")
            }
            Self::Interrupted => f.write_str("the wait was interrupted, and the tasks go on"),
            Self::Os(error) => error.fmt(f),
            Self::Forked { creator, here } => forked(creator, here, f),
        }
    }
}

fn forked(creator: u32, here: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "process {creator} started the workers, and process {here}, a fork of it, has none")
}

impl std::error::Error for SubmitError {}
impl std::error::Error for WaitError {}
impl std::error::Error for SpawnError {}
