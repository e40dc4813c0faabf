//! Worker processes: what they run, and how a task gets to one and its answer back.
//!
//! A worker is a fork of its parent, without exec. A leaf, a chip or a sub-worker, has a consumer of its own and runs tasks. A host
//! worker has workers of its own, to any depth, and hands on what it is sent. Between a parent and a worker lies a mailbox for
//! each leaf below, in shared memory. Either side spins for a moment and then sleeps; an idle worker costs nothing. A worker ends
//! when its parent does, and its own end is noticed by whoever waits for it. See docs/decisions/worker-tree.md.

mod call;
mod chip;
mod death;
mod domain;
mod error;
mod failure;
mod hello;
mod host;
pub mod kernel;
mod links;
mod mailbox;
mod memory;
mod memory_error;
mod records;
mod reexport;
mod reply;
mod serve;
mod sub;
mod wait;
mod workers;

use std::time::Duration;

use crate::device::DeviceKind;

pub use death::Death;
pub use domain::Domain;
pub use error::{SpawnError, SubmitError, WaitError};
pub use failure::Failure;
pub use kernel::{HostArgument, KernelError, Kernels};
pub use memory::DeviceBuffer;
pub use memory_error::{DomainError, MemoryError};
pub use records::DeviceNameError;
pub use reply::{Completion, KeptImport, Reply, TaskFailure, WorkerId};
pub use wait::DEFAULT_SPIN;
pub(crate) use workers::Prepared;
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerKind {
    /// A chip in software, as it is unless somebody says otherwise: its kernels read `ChipStorageTaskArgs`.
    Chip,
    /// A chip on that device.
    Device(DeviceKind),
    /// A host process that computes on mapped arguments.
    Sub,
    /// A host process that has workers of its own, and hands on to them what it is sent.
    Host {
        /// Those, in order.
        workers: Vec<WorkerSpec>,
    },
}

impl WorkerKind {
    /// The paths of the leaves of a worker whose path is `path`, in order.
    fn leaves(&self, path: &str, out: &mut Vec<String>) {
        match self {
            Self::Chip | Self::Device(_) | Self::Sub => out.push(path.to_owned()),
            Self::Host { workers } => {
                workers.iter().for_each(|worker| worker.kind.leaves(&format!("{path}/{}", worker.name), out));
            }
        }
    }
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
