//! Worker processes: what they run, and how a task gets to one and its answer back.
//!
//! A worker is a fork of its parent, without exec, with a consumer of its own. Between the two lies one mailbox in
//! shared memory. Either side spins for a moment and then sleeps; an idle worker costs nothing. A worker ends when its parent does,
//! and its own end is noticed by whoever waits for it.

mod chip;
mod error;
mod failure;
pub mod kernel;
mod mailbox;
mod reply;
mod serve;
mod sub;
mod wait;
mod workers;

use std::time::Duration;

pub use error::{SpawnError, SubmitError, WaitError};
pub use failure::Failure;
pub use kernel::{KernelError, Kernels};
pub use reply::{Completion, KeptImport, Reply, TaskFailure, WorkerId};
pub use wait::DEFAULT_SPIN;
pub use workers::{TaskRequest, Workers};

/// A worker to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSpec {
    /// Its name, for people and for finding it.
    pub name: String,
    /// What it is.
    pub kind: WorkerKind,
}

/// What a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkerKind {
    /// A simulated chip: its kernels read `ChipStorageTaskArgs`.
    Chip,
    /// A host process that computes on mapped arguments.
    Sub,
}

/// How both sides of a mailbox wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitPolicy {
    /// How long to spin at most before sleeping; 0 is not at all.
    pub spin: Duration,
}

impl Default for WaitPolicy {
    fn default() -> Self {
        Self { spin: DEFAULT_SPIN }
    }
}
