//! A task graph out of a file: buffers, workers, tasks and outputs, all names resolved and every rule checked that needs no machine.
//!
//! A complaint names the place in the file, as `tasks[2].args[1].shape`.

mod file;
mod names;
mod resolve;
mod scalar;
mod task;
mod view;

use std::path::{Path, PathBuf};

use bufabi_core::wire::backend::BackendKind;
use bufabi_core::{Access, Descriptor, Tag, View};
use bufabi_host::kernels::{Call, Kernel};

use crate::failure::Failure;

/// What a graph is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To say what waits for what: workers and kernels may be missing.
    Plan,
    /// To run it.
    Run,
}

/// A graph whose names are all known and whose views all fit.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) buffers: Vec<Buffer>,
    /// Every worker, those of a host worker behind it.
    pub(crate) workers: Vec<Worker>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) outputs: Vec<Output>,
    /// A descriptor of each buffer that says all but how to reach it: identities are the buffers' places.
    pub(crate) claims: Vec<Descriptor>,
}

/// A backing that the run makes.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) name: String,
    pub(crate) backend: BackendKind,
    pub(crate) access: Access,
    /// Bytes; at least 1.
    pub(crate) nbytes: u64,
    /// The array that it starts with; zeros without one.
    pub(crate) npy: Option<PathBuf>,
    /// The chip that owns it, when it lies on a device.
    pub(crate) worker: Option<usize>,
}

/// What a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerKind {
    /// A device and its runtime.
    Chip,
    /// A host process that computes.
    Sub,
    /// A host process with workers of its own.
    Host,
}

/// What a chip is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// A simulation that reaches memory of the host.
    Simulated,
    /// A simulation that does not: what tasks name of the host is copied to it and back.
    Staged,
    /// A machine in QEMU that runs firmware.
    Qemu,
}

impl Device {
    pub(super) const ALL: [Self; 3] = [Self::Simulated, Self::Staged, Self::Qemu];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Staged => "staged",
            Self::Qemu => "qemu",
        }
    }
}

/// A worker process.
#[derive(Debug)]
pub(crate) struct Worker {
    /// Its name, those of the host workers above it in front: `l3/chip1`.
    pub(crate) path: String,
    pub(crate) kind: WorkerKind,
    /// What a chip is; of others it says nothing.
    pub(crate) device: Device,
    /// Where it stands in the file.
    pub(crate) place: String,
}

/// What is submitted as one: a task, or a group of members.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) kernel: Option<Kernel>,
    /// One of a task; one or more of a group.
    pub(crate) members: Vec<Member>,
    pub(crate) is_group: bool,
    pub(crate) scalars: Vec<u64>,
}

/// What runs on one worker.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) worker: Option<usize>,
    /// The kernel; `None` when the file names none.
    pub(crate) call: Option<Call>,
    pub(crate) arguments: Vec<Argument>,
}

/// A view of a buffer, and what is done with it.
#[derive(Debug)]
pub(crate) struct Argument {
    pub(crate) buffer: usize,
    pub(crate) tag: Tag,
    pub(crate) view: View,
}

/// A view of a buffer that is wanted when all is done.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) buffer: usize,
    pub(crate) view: View,
    /// Where to write it.
    pub(crate) npy: Option<PathBuf>,
    /// What it must be equal to, bit for bit.
    pub(crate) expect: Option<PathBuf>,
}

impl Graph {
    /// Reads a graph file. Arrays that it names are opened for their sizes, and not read.
    pub(crate) fn load(path: &Path, purpose: Purpose) -> Result<Self, Failure> {
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        file::read(path)
            .and_then(|file| resolve::graph(file, folder, purpose))
            .map_err(|failure| failure.in_file(path))
    }
}
