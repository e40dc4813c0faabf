//! A worker whose workers are there: what they run and own, and what came of it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bufabi_core::{Code, DType, Identity, OwnerInstanceId, Tensor};
use bufabi_host::device::memory::WindowPart;
use bufabi_host::heap::ForkHeap;
use bufabi_host::orchestrator::{Cause, Orchestrator, TaskFailed};
use bufabi_host::owner::Buffer;
use bufabi_host::worker::{
    DeviceBuffer, Domain, KeptImport, MemoryError, SpawnError, WaitPolicy, WorkerId, Workers,
};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use crate::buffer::PyBuffer;
use crate::endpoint::here;
use crate::error::{OrRaise, failed, raise};
use crate::functions::{FIRST_FUNCTION, Functions, flush};
use crate::number::Numbers;
use crate::report::PyTaskReport;
use crate::tree::{LeafKind, Leaves, Tree};

/// How long workers that have nothing to do may take to end.
const STOP_LIMIT: Duration = Duration::from_secs(1);

/// How long a thread that Python has joined may take to be gone.
const SETTLE_LIMIT: Duration = Duration::from_millis(100);

/// What helps who sees that there are several threads.
const THREADS_NOTE: &str = "Workers are forked without exec, which takes a process of one thread. numpy's OpenBLAS starts threads \
    when it is imported: set OPENBLAS_NUM_THREADS=1 before, or start the worker first.";

/// A worker whose workers are there.
pub(crate) struct Started {
    pub(crate) orchestrator: Orchestrator,
    pub(crate) leaves: Leaves,
    pub(crate) heap: ForkHeap,
    pub(crate) functions: Vec<Py<PyAny>>,
    /// What the innermost scope of a run allocated is last; nothing while nothing runs.
    pub(crate) scopes: Vec<Vec<Buffer>>,
    pub(crate) is_running: bool,
    /// What was named before the fork, and what was allocated outside of runs.
    pub(crate) named: Vec<PyBuffer>,
    pub(crate) allocated: Vec<Buffer>,
    /// Which chip is whose: those that were asked for memory.
    owners: HashMap<OwnerInstanceId, WorkerId>,
}

impl Started {
    /// Forks the workers of a tree, which know those functions.
    pub(crate) fn spawn(
        py: Python<'_>,
        tree: &Tree,
        heap_nbytes: u64,
        functions: &[Py<PyAny>],
    ) -> PyResult<Self> {
        let endpoint = here()?;
        let heap = ForkHeap::new(&endpoint, heap_nbytes).or_raise()?;
        let known = || functions.iter().map(|function| function.clone_ref(py)).collect::<Vec<_>>();
        // What is buffered now would be written out by every worker as well.
        flush(py);
        let (specs, kernels, now) = (tree.specs(), Functions(known()), Instant::now());
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
            functions: known(),
            scopes: Vec::new(),
            is_running: false,
            named: Vec::new(),
            allocated: Vec::new(),
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

    /// The number of a function that was registered.
    pub(crate) fn function(&self, function: &Bound<'_, PyAny>) -> Option<u32> {
        let place = self.functions.iter().position(|known| known.bind(function.py()).is(function))?;
        u32::try_from(place).ok().and_then(|place| FIRST_FUNCTION.checked_add(place))
    }

    /// A slab for a dense tensor.
    pub(crate) fn allocate(&self, shape: &Numbers, dtype: DType) -> PyResult<(Buffer, Tensor)> {
        let buffer = self.heap.alloc_shared(shape.as_slice(), dtype).or_raise()?;
        let tensor = buffer.row_major(0, dtype, shape.as_slice()).or_raise()?;
        Ok((buffer, tensor))
    }

    /// Memory of the chip that is named, or of the next one, as `make` makes it.
    pub(crate) fn take(
        &mut self,
        py: Python<'_>,
        worker: Option<&Bound<'_, PyAny>>,
        make: impl FnOnce(&mut Workers, WorkerId) -> Result<DeviceBuffer, MemoryError> + Send,
    ) -> PyResult<DeviceBuffer> {
        let chip = self.leaves.find(self.orchestrator.workers(), LeafKind::Chip, worker)?;
        let made = self.ask(py, chip, |workers| make(workers, chip))?;
        self.owners.insert(made.identity().owner_instance_id(), chip);
        Ok(made)
    }

    /// Has a chip do something about its memory. What is wrong with it says which chip.
    pub(crate) fn ask<R: Send>(
        &mut self,
        py: Python<'_>,
        chip: WorkerId,
        call: impl FnOnce(&mut Workers) -> Result<R, MemoryError> + Send,
    ) -> PyResult<R> {
        let workers = self.orchestrator.workers_mut();
        py.detach(|| call(workers)).map_err(|error| {
            let path = workers.name(chip).unwrap_or("a chip");
            raise(error.code(), &format_args!("{path}: {error}"))
        })
    }

    /// The chips that are named.
    pub(crate) fn chips(&mut self, named: &[Bound<'_, PyAny>]) -> PyResult<Vec<WorkerId>> {
        let Self { leaves, orchestrator, .. } = self;
        named.iter().map(|named| leaves.find(orchestrator.workers(), LeafKind::Chip, Some(named))).collect()
    }

    /// Windows of those chips, all or none.
    pub(crate) fn create_domain(
        &mut self,
        py: Python<'_>,
        chips: &[WorkerId],
        parts: &[WindowPart],
        until: Instant,
    ) -> PyResult<Domain> {
        let workers = self.orchestrator.workers_mut();
        let domain = py.detach(|| workers.create_domain(chips, parts, until)).or_raise()?;
        for buffer in domain.windows().iter().flatten() {
            self.owners.insert(buffer.identity().owner_instance_id(), buffer.worker());
        }
        Ok(domain)
    }

    /// The chip that owns device memory. Who asks for something that is on none asks the first one, which says what it knows of it.
    pub(crate) fn chip_of(&self, identity: Identity) -> PyResult<WorkerId> {
        let owner = self.owners.get(&identity.owner_instance_id());
        let chip = owner.or_else(|| self.leaves.chips.first()).copied();
        chip.ok_or_else(|| raise(Code::OtherOwner, &format_args!("{identity} is memory of no chip here")))
    }

    /// Frees memory of the heap or of a chip.
    pub(crate) fn free(&mut self, py: Python<'_>, identity: Identity, until: Instant) -> PyResult<()> {
        if let Some(place) = self.allocated.iter().position(|buffer| buffer.identity() == identity) {
            if let Some(buffer) = self.allocated.get_mut(place) {
                buffer.release().or_raise()?;
            }
            drop(self.allocated.swap_remove(place));
            return self.drop_imports(py, identity, until);
        }
        let chip = self.chip_of(identity)?;
        let kept = self.ask(py, chip, |workers| workers.free(chip, identity, until))?;
        self.refuse_kept(identity, &kept)
    }

    /// Has every worker drop what was released.
    pub(crate) fn drop_imports(
        &mut self,
        py: Python<'_>,
        identity: Identity,
        until: Instant,
    ) -> PyResult<()> {
        let workers = self.orchestrator.workers_mut();
        let kept = py.detach(|| workers.release_imports(identity, until)).or_raise()?;
        self.refuse_kept(identity, &kept)
    }

    fn refuse_kept(&self, identity: Identity, kept: &[KeptImport]) -> PyResult<()> {
        if kept.is_empty() {
            return Ok(());
        }
        let workers = self.orchestrator.workers();
        let tell = |kept: &KeptImport| {
            let name = workers.name(kept.worker).unwrap_or("a worker");
            kept.why.as_ref().map_or_else(|| format!("{name} did not answer"), |why| format!("{name}: {why}"))
        };
        let told = kept.iter().map(tell).collect::<Vec<_>>().join("; ");
        Err(PyBufferError::new_err(format!("{identity} is released, but not everywhere dropped: {told}")))
    }

    /// What came of the tasks that are done.
    pub(crate) fn reports(&mut self) -> Vec<PyTaskReport> {
        let mut reports = Vec::new();
        // What is over is told of without waiting.
        while let Ok(finished) = self.orchestrator.wait(Instant::now()) {
            match finished.outcome {
                Ok(replies) => reports.extend(PyTaskReport::of_replies(finished.task, replies)),
                Err(TaskFailed::Own(_) | TaskFailed::Poisoned(_)) => {}
            }
        }
        reports
    }

    /// The exception for a task that failed. It has the attributes `task`, the task's number, and `worker`, the path of where it
    /// ran.
    pub(crate) fn failure(&self, py: Python<'_>, cause: &Cause) -> PyErr {
        let path = self.orchestrator.workers().name(cause.worker).unwrap_or("a worker");
        let message = format!("task {} on {path}: {}", cause.task.0, cause.failure);
        let error = raise(cause.failure.code(), &message);
        let value = error.value(py);
        // An exception of Python's own takes any attribute.
        let _ = value.setattr("task", cause.task.0);
        let _ = value.setattr("worker", path);
        error
    }
}
