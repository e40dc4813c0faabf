//! A worker whose workers are there: what they run and own, and what came of it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bufabi_core::wire::backend::BackendKind;
use bufabi_core::{Code, DType, Identity, OwnerInstanceId, Tensor};
use bufabi_host::device::memory::WindowPart;
use bufabi_host::heap::ForkHeap;
use bufabi_host::orchestrator::{Cause, Orchestrator, TaskFailed};
use bufabi_host::owner::Buffer;
use bufabi_host::worker::{
    DeviceBuffer, Domain, DomainError, KeptImport, MemoryError, SpawnError, WaitPolicy, WorkerId, Workers,
};
use pyo3::prelude::*;

use crate::buffer::PyBuffer;
use crate::endpoint::here;
use crate::error::{OrRaise, failed, raise};
use crate::functions::{FIRST_FUNCTION, Functions, flush};
use crate::number::Numbers;
use crate::refusal::Refusal;
use crate::report::PyTaskReport;
use crate::told::path;
use crate::tree::{LeafKind, Leaves, Named, Tree};

/// How long workers that have nothing to do may take to end.
const STOP_LIMIT: Duration = Duration::from_secs(1);

/// How long a thread that Python has joined may take to be gone.
const SETTLE_LIMIT: Duration = Duration::from_millis(100);

/// What helps who sees that there are several threads.
const THREADS_NOTE: &str = "Workers are forked without exec, which takes a process of one thread. numpy's OpenBLAS starts threads \
    when it is imported: set OPENBLAS_NUM_THREADS=1 before, or start the worker first.";

/// What helps who gave a float for elements that are no doubles.
const SCALAR_NOTE: &str = "add_scalar(value, dtype) makes the bits of that type: without one those of a Python float are a double's.";

/// What came of a run.
pub(crate) struct Ended {
    /// Of the tasks that are done.
    pub(crate) reports: Vec<PyTaskReport>,
    /// The first failure.
    pub(crate) failure: Option<Failed>,
}

/// Which task failed, where, and of what.
pub(crate) struct Failed {
    task: u64,
    path: String,
    code: Code,
    message: String,
}

impl Failed {
    /// The exception for it. It has the attributes `task`, the task's number, and `worker`, the path of where it ran.
    pub(crate) fn raise(&self, py: Python<'_>) -> PyErr {
        let Self { task, path, code, message } = self;
        let error = raise(*code, &format_args!("task {task} on {path}: {message}"));
        let value = error.value(py);
        if *code == Code::KernelScalar {
            let _ = value.call_method1("add_note", (SCALAR_NOTE,));
        }
        // An exception of Python's own takes any attribute.
        let _ = value.setattr("task", task);
        let _ = value.setattr("worker", path);
        error
    }
}

/// A worker whose workers are there. It has no objects of Python: what they run is the worker's.
pub(crate) struct Started {
    pub(crate) orchestrator: Orchestrator,
    pub(crate) leaves: Leaves,
    pub(crate) heap: ForkHeap,
    /// How many functions the workers know.
    pub(crate) functions: usize,
    /// What the innermost scope of a run allocated is last; nothing while nothing runs.
    pub(crate) scopes: Vec<Vec<Buffer>>,
    pub(crate) is_running: bool,
    /// What was named before the fork, and what was allocated outside of runs.
    pub(crate) named: Vec<PyBuffer>,
    pub(crate) allocated: Vec<Buffer>,
    /// Where the members of each task of a run are, until they are reported.
    pub(crate) placed: HashMap<u64, Vec<WorkerId>>,
    /// Which chip is whose: those that were asked for memory.
    owners: HashMap<OwnerInstanceId, WorkerId>,
}

impl Started {
    /// Forks the workers of a tree, which know those functions.
    pub(crate) fn spawn(
        py: Python<'_>,
        tree: &Tree,
        heap_nbytes: u64,
        functions: Vec<Py<PyAny>>,
    ) -> PyResult<Self> {
        let endpoint = here()?;
        let heap = ForkHeap::new(&endpoint, heap_nbytes).or_raise()?;
        // What is buffered now would be written out by every worker as well.
        flush(py);
        let (specs, kernels, now) = (tree.specs(), Functions(functions), Instant::now());
        let until = now.checked_add(SETTLE_LIMIT).unwrap_or(now);
        let workers = loop {
            match Workers::spawn(&endpoint, &specs, &kernels, WaitPolicy::default()) {
                Err(SpawnError::SeveralThreads { .. }) if Instant::now() < until => {
                    py.detach(|| std::thread::sleep(Duration::from_millis(1)));
                }
                spawned => break spawned,
            }
        };
        let workers = workers.map_err(|error| {
            let raised = failed(&error);
            if matches!(error, SpawnError::SeveralThreads { .. }) {
                let _ = raised.value(py).call_method1("add_note", (THREADS_NOTE,));
            }
            raised
        })?;
        let leaves = Leaves::new(&workers);
        Ok(Self {
            orchestrator: Orchestrator::new(workers).or_raise()?,
            leaves,
            heap,
            functions: kernels.0.len(),
            scopes: Vec::new(),
            is_running: false,
            named: Vec::new(),
            allocated: Vec::new(),
            placed: HashMap::new(),
            owners: HashMap::new(),
        })
    }

    /// Ends the workers, and lets go of all that was made for them.
    pub(crate) fn stop(self, py: Python<'_>) {
        let Self { orchestrator, scopes, named, allocated, heap, .. } = self;
        let now = Instant::now();
        py.detach(|| orchestrator.stop(now.checked_add(STOP_LIMIT).unwrap_or(now)));
        drop((scopes, named, allocated, heap));
    }

    /// The number of the function that was registered in that place, if that was before the fork.
    pub(crate) fn function(&self, place: usize) -> Option<u32> {
        let known = u32::try_from(place).ok().filter(|_| place < self.functions);
        known.and_then(|place| FIRST_FUNCTION.checked_add(place))
    }

    /// A slab for a dense tensor.
    pub(crate) fn allocate(&self, shape: &Numbers, dtype: DType) -> Result<(Buffer, Tensor), Refusal> {
        let buffer = self.heap.alloc_shared(shape.as_slice(), dtype)?;
        let tensor = buffer.row_major(0, dtype, shape.as_slice())?;
        Ok((buffer, tensor))
    }

    /// Memory of the chip that is named, or of the next one, as `make` makes it.
    pub(crate) fn take(
        &mut self,
        worker: &Named,
        make: impl FnOnce(&mut Workers, WorkerId) -> Result<DeviceBuffer, MemoryError>,
    ) -> Result<DeviceBuffer, Refusal> {
        let chip = self.leaves.find(self.orchestrator.workers(), LeafKind::Chip, worker)?;
        let made = self.ask(chip, |workers| make(workers, chip))?;
        self.owners.insert(made.identity().owner_instance_id(), chip);
        Ok(made)
    }

    /// Has a chip do something about its memory. What is wrong with it says which chip.
    pub(crate) fn ask<R>(
        &mut self,
        chip: WorkerId,
        call: impl FnOnce(&mut Workers) -> Result<R, MemoryError>,
    ) -> Result<R, Refusal> {
        let workers = self.orchestrator.workers_mut();
        call(workers).map_err(|error| {
            let path = workers.name(chip).unwrap_or("a chip");
            Refusal::Rule(error.code(), format!("{path}: {error}"))
        })
    }

    /// The chips that are named.
    pub(crate) fn chips(&mut self, named: &[Named]) -> Result<Vec<WorkerId>, Refusal> {
        let Self { leaves, orchestrator, .. } = self;
        named.iter().map(|named| leaves.find(orchestrator.workers(), LeafKind::Chip, named)).collect()
    }

    /// Windows of those chips, all or none.
    pub(crate) fn create_domain(
        &mut self,
        chips: &[WorkerId],
        parts: &[WindowPart],
        until: Instant,
    ) -> Result<Domain, Refusal> {
        if chips.is_empty() {
            return Err(Refusal::Value("workers: a domain is of one chip at least"));
        }
        let workers = self.orchestrator.workers_mut();
        let domain = workers.create_domain(chips, parts, until);
        let domain = domain.map_err(|error| of_domain(workers, &error))?;
        for buffer in domain.windows().iter().flatten() {
            self.owners.insert(buffer.identity().owner_instance_id(), buffer.worker());
        }
        Ok(domain)
    }

    /// Gives the windows of a domain back.
    pub(crate) fn free_domain(&mut self, domain: &Domain, until: Instant) -> Result<(), Refusal> {
        let workers = self.orchestrator.workers_mut();
        workers.free_domain(domain, until).map_err(|error| of_domain(workers, &error))
    }

    /// The chip that alone can run a task of those tensors: whoever names nobody means the one whose own memory the task names.
    pub(crate) fn home(&self, kind: LeafKind, named: &Named, tensors: &[Tensor]) -> Option<WorkerId> {
        if kind != LeafKind::Chip || !matches!(named, Named::Nobody) {
            return None;
        }
        let is_own = |kind| matches!(kind, BackendKind::DeviceMalloc | BackendKind::VmmWindow);
        let mut descriptors = tensors.iter().map(Tensor::descriptor);
        descriptors.find_map(|descriptor| {
            let owner = descriptor.identity().owner_instance_id();
            is_own(descriptor.backend_kind()).then(|| self.owners.get(&owner).copied()).flatten()
        })
    }

    /// The chip that owns device memory. Who asks for something that is on none asks the first one, which says what it knows of it.
    pub(crate) fn chip_of(&self, identity: Identity) -> Result<WorkerId, Refusal> {
        let owner = self.owners.get(&identity.owner_instance_id());
        let chip = owner.or_else(|| self.leaves.chips.first()).copied();
        chip.ok_or_else(|| Refusal::Rule(Code::OtherOwner, format!("{identity} is memory of no chip here")))
    }

    /// Frees memory of the heap or of a chip.
    pub(crate) fn free(&mut self, identity: Identity, until: Instant) -> Result<(), Refusal> {
        if let Some(place) = self.allocated.iter().position(|buffer| buffer.identity() == identity) {
            if let Some(buffer) = self.allocated.get_mut(place) {
                buffer.release()?;
            }
            drop(self.allocated.swap_remove(place));
            return self.drop_imports(identity, until);
        }
        let chip = self.chip_of(identity)?;
        let kept = self.ask(chip, |workers| workers.free(chip, identity, until))?;
        self.refuse_kept(identity, &kept)
    }

    /// Has every worker drop what was released.
    pub(crate) fn drop_imports(&mut self, identity: Identity, until: Instant) -> Result<(), Refusal> {
        let kept = self.orchestrator.workers_mut().release_imports(identity, until)?;
        self.refuse_kept(identity, &kept)
    }

    fn refuse_kept(&self, identity: Identity, kept: &[KeptImport]) -> Result<(), Refusal> {
        if kept.is_empty() {
            return Ok(());
        }
        let workers = self.orchestrator.workers();
        let tell = |kept: &KeptImport| {
            let name = workers.name(kept.worker).unwrap_or("a worker");
            kept.why.as_ref().map_or_else(|| format!("{name} did not answer"), |why| format!("{name}: {why}"))
        };
        let told = kept.iter().map(tell).collect::<Vec<_>>().join("; ");
        Err(Refusal::InUse(format!("{identity} is released, but not everywhere dropped: {told}")))
    }

    /// What came of a run that is over, and the next one can begin.
    pub(crate) fn ended(&mut self, cause: Option<Cause>) -> Ended {
        let reports = self.reports();
        self.placed.clear();
        self.scopes.clear();
        self.is_running = false;
        let failure = cause.map(|cause| Failed {
            task: cause.task.0,
            path: self.orchestrator.workers().name(cause.worker).unwrap_or("a worker").to_owned(),
            code: cause.failure.code(),
            message: cause.failure.to_string(),
        });
        Ended { reports, failure }
    }

    /// What came of the tasks that are done.
    fn reports(&mut self) -> Vec<PyTaskReport> {
        let mut reports = Vec::new();
        // What is over is told of without waiting.
        while let Ok(finished) = self.orchestrator.wait(Instant::now()) {
            match finished.outcome {
                Ok(replies) => {
                    let (placed, workers) = (self.placed.get(&finished.task.0), self.orchestrator.workers());
                    let paths = placed.into_iter().flatten().map(|&worker| path(workers, worker));
                    reports.extend(PyTaskReport::of_replies(finished.task, replies, paths));
                }
                Err(TaskFailed::Own(_) | TaskFailed::Poisoned(_)) => {}
            }
        }
        reports
    }
}

/// What is wrong with a domain, and on which chip.
fn of_domain(workers: &Workers, error: &DomainError) -> Refusal {
    let DomainError { chip, error } = error;
    let path = chip.and_then(|chip| workers.name(chip));
    Refusal::Rule(error.code(), path.map_or_else(|| error.to_string(), |path| format!("{path}: {error}")))
}
