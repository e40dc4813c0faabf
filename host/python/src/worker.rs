//! `Worker`: a host with chips, sub-workers and further hosts below it, its memory, and the runs of tasks on them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bufabi_core::{Access, DType, Identity, OwnerInstanceId, Tensor};
use bufabi_host::heap::ForkHeap;
use bufabi_host::orchestrator::{Cause, Orchestrator, TaskFailed};
use bufabi_host::owner::Buffer;
use bufabi_host::worker::{KeptImport, WaitError, WaitPolicy, WorkerId, Workers};
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::sync::MutexExt;
use pyo3::types::{PyDict, PyTuple};

use crate::arrays::memory_and_view;
use crate::buffer::{PyBuffer, deadline, wrap_memory};
use crate::device_buffer::{PyDeviceBuffer, place_of};
use crate::endpoint::here;
use crate::error::{OrRaise, failed, raise};
use crate::functions::{FIRST_FUNCTION, Functions, flush};
use crate::mapped_arg::{PyMappedArg, Reach};
use crate::number::{self, Numbers, Value};
use crate::orchestrator::PyOrchestrator;
use crate::report::PyTaskReport;
use crate::tensor::PyTensor;
use crate::tree::{LeafKind, Leaves, Tree};

/// Bytes of a worker's heap, unless its maker says otherwise: memory is taken as it is touched.
const HEAP_NBYTES: u64 = 64 << 20;
/// How long workers that have nothing to do may take to end.
const STOP_LIMIT: Duration = Duration::from_secs(1);
/// How long a wait goes on before Python may handle a signal.
const SLICE: Duration = Duration::from_millis(50);
/// How long calls about memory may take, seconds, unless they are told otherwise.
const MEMORY_LIMIT: f64 = 10.0;

/// A host process with workers below it: chips, sub-workers that run functions of Python, and hosts one level down.
///
/// They are forked by `start`, which the first `run` calls. What they are to know, functions and memory that they inherit, is
/// said before.
#[pyclass(frozen, name = "Worker", module = "bufabi")]
pub(crate) struct PyWorker {
    tree: Tree,
    heap_nbytes: u64,
    state: Mutex<State>,
}

/// Where a worker is in its life.
pub(crate) enum State {
    /// Not forked yet.
    New(Prepared),
    /// Its workers are there.
    Started(Box<Started>),
    /// It was closed, or became a part of another one.
    Closed,
}

/// What is said before the fork.
#[derive(Default)]
pub(crate) struct Prepared {
    functions: Vec<Py<PyAny>>,
    named: Vec<PyBuffer>,
}

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
    named: Vec<PyBuffer>,
    allocated: Vec<Buffer>,
    /// Which chip is whose: those that were asked for memory.
    owners: HashMap<OwnerInstanceId, WorkerId>,
}

impl PyWorker {
    /// The state, for this thread alone. Others of Python run while it waits.
    pub(crate) fn state(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, State>> {
        let locked = self.state.lock_py_attached(py);
        locked.map_err(|_| PyRuntimeError::new_err("a call on this worker ended in a fault of the library"))
    }

    /// Works on the started worker.
    pub(crate) fn with_started<R>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Started) -> PyResult<R>,
    ) -> PyResult<R> {
        match &mut *self.state(py)? {
            State::Started(started) => work(started),
            State::New(_) => {
                Err(PyRuntimeError::new_err("the worker has not been started: start() or run() does"))
            }
            State::Closed => Err(is_closed()),
        }
    }

    /// As [`with_started`](Self::with_started), started if it is not.
    fn with_startable<R>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Started) -> PyResult<R>,
    ) -> PyResult<R> {
        self.start(py)?;
        self.with_started(py, work)
    }

    fn spawn(&self, py: Python<'_>, prepared: &Prepared) -> PyResult<Started> {
        let endpoint = here()?;
        let heap = ForkHeap::new(&endpoint, self.heap_nbytes).or_raise()?;
        let functions: Vec<_> = prepared.functions.iter().map(|function| function.clone_ref(py)).collect();
        let kernels = Functions(functions.iter().map(|function| function.clone_ref(py)).collect());
        // What is buffered now would be written out by every worker as well.
        flush(py);
        let workers = Workers::spawn(&endpoint, &self.tree.specs(), &kernels, WaitPolicy::default());
        let workers = workers.map_err(|error| {
            let error = failed(&error);
            let _ = error.value(py).call_method1("add_note", (THREADS_NOTE,));
            error
        })?;
        let leaves = Leaves::new(&workers);
        Ok(Started {
            orchestrator: Orchestrator::new(workers).or_raise()?,
            leaves,
            heap,
            functions,
            scopes: Vec::new(),
            is_running: false,
            named: Vec::new(),
            allocated: Vec::new(),
            owners: HashMap::new(),
        })
    }

    /// Waits until no task is left, in slices, so that Python handles signals meanwhile.
    fn finish_run(&self, py: Python<'_>, until: Option<Instant>) -> PyResult<Option<Cause>> {
        loop {
            let now = Instant::now();
            let slice = now.checked_add(SLICE).unwrap_or(now);
            let slice = until.map_or(slice, |until| until.min(slice));
            let ended = self.with_started(py, |started| {
                let orchestrator = &mut started.orchestrator;
                Ok(py.detach(|| orchestrator.end_run(slice)))
            })?;
            match ended {
                Ok(cause) => return Ok(cause),
                Err(error @ WaitError::TimedOut { .. }) => {
                    py.check_signals()?;
                    if until.is_some_and(|until| until <= Instant::now()) {
                        return Err(failed(&error));
                    }
                }
                Err(error) => return Err(failed(&error)),
            }
        }
    }

    /// Whatever came of a run, the next one can begin.
    fn leave_run(&self, py: Python<'_>, has_failed: bool) -> PyResult<()> {
        self.with_started(py, |started| {
            if has_failed {
                started.orchestrator.abandon();
            }
            started.scopes.clear();
            started.is_running = false;
            Ok(())
        })
    }
}

/// What helps who sees that there are several threads.
const THREADS_NOTE: &str = "Workers are forked without exec, which takes a process of one thread. numpy's OpenBLAS starts threads \
    when it is imported: set OPENBLAS_NUM_THREADS=1 before, or start the worker first.";

fn is_closed() -> PyErr {
    PyValueError::new_err("released: the worker was closed, or is a part of another one")
}

#[pymethods]
impl PyWorker {
    #[new]
    #[pyo3(signature = (level, *, chips = 0, subs = 0, children = Vec::new(), heap_nbytes = HEAP_NBYTES))]
    fn new(
        py: Python<'_>,
        level: u32,
        chips: usize,
        subs: usize,
        children: Vec<Py<Self>>,
        #[pyo3(from_py_with = number::nbytes)] heap_nbytes: u64,
    ) -> PyResult<Self> {
        let mut trees = Vec::with_capacity(children.len());
        for child in &children {
            let child = child.get();
            if !matches!(&*child.state(py)?, State::New(prepared) if prepared.functions.is_empty() && prepared.named.is_empty())
            {
                let message = "children: one is started, closed, or has functions or memory of its own; the topmost worker has them all";
                return Err(PyValueError::new_err(message));
            }
            trees.push(child.tree.clone());
        }
        let tree = Tree::new(level, chips, subs, trees)?;
        for child in &children {
            *child.get().state(py)? = State::Closed;
        }
        Ok(Self { tree, heap_nbytes, state: Mutex::new(State::New(Prepared::default())) })
    }

    /// Makes a function known to all sub-workers, before they are forked. It is called with a task's `MappedArgs`, and what it
    /// raises fails the task. The function itself comes back, so that this serves as a decorator.
    fn register(&self, py: Python<'_>, function: Py<PyAny>) -> PyResult<Py<PyAny>> {
        if !function.bind(py).is_callable() {
            return Err(PyTypeError::new_err(format!(
                "a function is needed, not {}",
                function.bind(py).get_type()
            )));
        }
        match &mut *self.state(py)? {
            State::New(prepared) => prepared.functions.push(function.clone_ref(py)),
            State::Started(_) => {
                let message = "the workers were forked, and do not know what comes now: register before start() and run()";
                return Err(PyRuntimeError::new_err(message));
            }
            State::Closed => return Err(is_closed()),
        }
        Ok(function)
    }

    /// Names an array of numpy or a tensor of torch, dense and there before the fork, as a task argument: FORK_SHM if forks share
    /// its memory, else FORK_COW, which tasks read as it was at the fork.
    #[pyo3(signature = (array))]
    fn make_tensor_arg(&self, py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
        match &mut *self.state(py)? {
            State::New(prepared) => {
                let (memory, shapes, dtype) = memory_and_view(array)?;
                let buffer = wrap_memory(here()?, &memory, None)?;
                let view = bufabi_core::View::row_major(0, dtype, shapes.as_slice(), u64::MAX).or_raise()?;
                let tensor = buffer.tensor_of(&view)?;
                prepared.named.push(buffer);
                Ok(PyTensor(tensor))
            }
            State::Started(_) => {
                let message = "the workers were forked, and have no name for this memory: make_tensor_arg before start() and run()";
                Err(PyRuntimeError::new_err(message))
            }
            State::Closed => Err(is_closed()),
        }
    }

    /// Forks the workers, if they are not there. It is refused while this process has several threads.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = self.state(py)?;
        let prepared = match &mut *state {
            State::New(prepared) => prepared,
            State::Started(_) => return Ok(()),
            State::Closed => return Err(is_closed()),
        };
        let mut started = self.spawn(py, prepared)?;
        started.named = core::mem::take(&mut prepared.named);
        *state = State::Started(Box::new(started));
        Ok(())
    }

    /// Calls `orchestration` with an orchestrator, waits until all tasks that it submitted are over, and lets go of what it
    /// allocated. What came of the tasks comes back, in the order in which they ended; the first failure is raised.
    ///
    /// If `orchestration` raises, or the timeout in seconds passes, what has not begun never will.
    #[pyo3(signature = (orchestration, timeout = None))]
    fn run<'py>(
        slf: &Bound<'py, Self>,
        orchestration: &Bound<'py, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<PyTaskReport>> {
        let (py, worker) = (slf.py(), slf.get());
        let until = timeout.map(deadline).transpose()?;
        worker.with_startable(py, |started| {
            if started.is_running {
                return Err(PyRuntimeError::new_err("the worker has a run that is not over"));
            }
            started.is_running = true;
            started.scopes.push(Vec::new());
            Ok(())
        })?;
        let orchestrator = Bound::new(py, PyOrchestrator::new(slf.clone().unbind()))?;
        let called = orchestration.call1((orchestrator.clone(),));
        orchestrator.get().end();
        let cause = match called.and_then(|_| worker.finish_run(py, until)) {
            Ok(cause) => cause,
            Err(error) => {
                worker.leave_run(py, true)?;
                return Err(error);
            }
        };
        let reports = worker.with_started(py, |started| Ok(reports(&mut started.orchestrator)))?;
        worker.leave_run(py, false)?;
        match cause {
            None => Ok(reports),
            Some(cause) => {
                Err(worker.with_started(py, |started| Ok(raise_cause(&started.orchestrator, &cause)))?)
            }
        }
    }

    /// Makes a buffer of POSIX shared memory, zero, that grants `access` to its consumers.
    #[pyo3(signature = (nbytes, access = Value(Access::ReadWrite)))]
    fn create_buffer(
        &self,
        #[pyo3(from_py_with = number::nbytes)] nbytes: u64,
        access: Value<Access>,
    ) -> PyResult<PyBuffer> {
        let endpoint = here()?;
        let buffer = endpoint.create_buffer(nbytes, access.0).or_raise()?;
        Ok(PyBuffer::owned(endpoint, buffer))
    }

    /// Closes a buffer and tells every worker to drop it, waiting so many seconds for their answers. While a task that is not over
    /// names it, or a view of it is alive here, that is a BufferError, and nothing has changed. A worker that still has a view of
    /// it is named in one as well, but then the buffer is closed.
    #[pyo3(signature = (buffer, timeout = MEMORY_LIMIT))]
    fn release_buffer(&self, py: Python<'_>, buffer: &Bound<'_, PyBuffer>, timeout: f64) -> PyResult<()> {
        let until = deadline(timeout)?;
        let identity = buffer.get().identity_here();
        let mut state = self.state(py)?;
        let State::Started(started) = &mut *state else {
            return buffer.get().release(None).or_raise();
        };
        buffer.get().release(None).or_raise()?;
        let workers = started.orchestrator.workers_mut();
        let kept = py.detach(|| workers.release_imports(identity, until)).or_raise()?;
        refuse_kept(started.orchestrator.workers(), identity, &kept)
    }

    /// Takes what a dense tensor needs of the heap that workers inherited: FORK_SHM. It lives until `free` or `close`.
    #[pyo3(signature = (shape, dtype))]
    fn alloc_shared_tensor(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyAny>,
        dtype: Value<DType>,
    ) -> PyResult<PyTensor> {
        let shape = Numbers::read(shape, "shape")?;
        self.with_startable(py, |started| {
            let (buffer, tensor) = allocate(&started.heap, &shape, dtype.0)?;
            started.allocated.push(buffer);
            Ok(PyTensor(tensor))
        })
    }

    /// A tensor of this process's own memory as this process sees it, for loads and stores.
    fn mapped(&self, tensor: PyRef<'_, PyTensor>) -> PyResult<PyMappedArg> {
        let descriptor = tensor.0.descriptor().to_owned();
        let mapping = here()?.own_mapping(&descriptor).or_raise()?;
        let access = mapping.access();
        Reach::new(mapping, tensor.0.view(), access).or_raise().map(PyMappedArg::new)
    }

    /// Takes memory of a chip, which is named by its place among the chips or by its path: DEVICE_MALLOC.
    #[pyo3(signature = (nbytes, worker = None, access = Value(Access::ReadWrite), timeout = MEMORY_LIMIT))]
    fn malloc(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = number::nbytes)] nbytes: u64,
        worker: Option<&Bound<'_, PyAny>>,
        access: Value<Access>,
        timeout: f64,
    ) -> PyResult<PyDeviceBuffer> {
        let until = deadline(timeout)?;
        self.with_startable(py, |started| {
            let chip = started.leaves.find(started.orchestrator.workers(), LeafKind::Chip, worker)?;
            let workers = started.orchestrator.workers_mut();
            let made = py.detach(|| workers.malloc(chip, nbytes, access.0, until)).or_raise()?;
            started.owners.insert(made.identity().owner_instance_id(), chip);
            Ok(PyDeviceBuffer(made))
        })
    }

    /// Takes what a dense tensor needs of a chip's memory.
    #[pyo3(signature = (worker, shape, dtype, timeout = MEMORY_LIMIT))]
    fn alloc_child_tensor(
        &self,
        py: Python<'_>,
        worker: &Bound<'_, PyAny>,
        shape: &Bound<'_, PyAny>,
        dtype: Value<DType>,
        timeout: f64,
    ) -> PyResult<PyTensor> {
        let (shape, until) = (Numbers::read(shape, "shape")?, deadline(timeout)?);
        self.with_startable(py, |started| {
            let chip = started.leaves.find(started.orchestrator.workers(), LeafKind::Chip, Some(worker))?;
            let workers = started.orchestrator.workers_mut();
            let made =
                py.detach(|| workers.alloc_child(chip, shape.as_slice(), dtype.0, until)).or_raise()?;
            started.owners.insert(made.identity().owner_instance_id(), chip);
            made.row_major(0, dtype.0, shape.as_slice()).or_raise().map(PyTensor)
        })
    }

    /// Frees memory that `malloc`, `alloc_child_tensor` or `alloc_shared_tensor` gave, by its buffer or a tensor of it. While a task
    /// that is not over names it that is a BufferError, and nothing has changed.
    #[pyo3(signature = (memory, timeout = MEMORY_LIMIT))]
    fn free(&self, py: Python<'_>, memory: &Bound<'_, PyAny>, timeout: f64) -> PyResult<()> {
        let ((identity, _), until) = (place_of(memory)?, deadline(timeout)?);
        self.with_started(py, |started| {
            if let Some(place) = started.allocated.iter().position(|buffer| buffer.identity() == identity) {
                if let Some(buffer) = started.allocated.get_mut(place) {
                    buffer.release().or_raise()?;
                }
                drop(started.allocated.swap_remove(place));
                return Ok(());
            }
            let chip = started.chip_of(identity)?;
            let workers = started.orchestrator.workers_mut();
            let kept = py.detach(|| workers.free(chip, identity, until)).or_raise()?;
            refuse_kept(started.orchestrator.workers(), identity, &kept)
        })
    }

    /// Copies bytes into a chip's memory: to the first byte of what is named, and `byte_offset` behind it.
    #[pyo3(signature = (target, data, byte_offset = 0, timeout = MEMORY_LIMIT))]
    fn copy_to(
        &self,
        py: Python<'_>,
        target: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = number::byte_offset)] byte_offset: u64,
        timeout: f64,
    ) -> PyResult<()> {
        let ((identity, start), until) = (place_of(target)?, deadline(timeout)?);
        let bytes = crate::arrays::bytes_of(data)?;
        self.with_started(py, |started| {
            let chip = started.chip_of(identity)?;
            let workers = started.orchestrator.workers_mut();
            let at = start.saturating_add(byte_offset);
            py.detach(|| workers.copy_to(chip, identity, at, &bytes, until)).or_raise()
        })
    }

    /// Copies bytes out of a chip's memory into a writable object: from the first byte of what is named, and `byte_offset` behind
    /// it, as many as the object has.
    #[pyo3(signature = (source, into, byte_offset = 0, timeout = MEMORY_LIMIT))]
    fn copy_from(
        &self,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        into: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = number::byte_offset)] byte_offset: u64,
        timeout: f64,
    ) -> PyResult<()> {
        let ((identity, start), until) = (place_of(source)?, deadline(timeout)?);
        let place = crate::arrays::writable_bytes(into)?;
        let mut bytes = vec![0; place.len()?];
        self.with_started(py, |started| {
            let chip = started.chip_of(identity)?;
            let workers = started.orchestrator.workers_mut();
            let at = start.saturating_add(byte_offset);
            py.detach(|| workers.copy_from(chip, identity, at, &mut bytes, until)).or_raise()
        })?;
        place.set_item(pyo3::types::PySlice::full(py), pyo3::types::PyBytes::new(py, &bytes))
    }

    /// Every leaf's path, and the number of its process.
    #[getter]
    fn processes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        self.with_started(py, |started| {
            let workers = started.orchestrator.workers();
            for worker in (0..workers.len()).map(WorkerId) {
                found.set_item(workers.name(worker), workers.pid(worker))?;
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Its level: 3 for a host with chips.
    #[getter]
    const fn level(&self) -> u32 {
        self.tree.level()
    }

    /// Ends the workers, and lets go of all that this worker made. Closing it again does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let state = core::mem::replace(&mut *self.state(py)?, State::Closed);
        if let State::Started(started) = state {
            let Started { orchestrator, scopes, named, allocated, heap, .. } = *started;
            let now = Instant::now();
            py.detach(|| orchestrator.stop(now.checked_add(STOP_LIMIT).unwrap_or(now)));
            drop((scopes, named, allocated, heap));
        }
        Ok(())
    }

    /// Functions may refer to the worker that they are registered with.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // One that is in use has references that are in use.
        match self.state.try_lock().as_deref() {
            Ok(State::New(Prepared { functions, .. })) => {
                functions.iter().try_for_each(|known| visit.call(known))
            }
            Ok(State::Started(started)) => started.functions.iter().try_for_each(|known| visit.call(known)),
            Ok(State::Closed) | Err(_) => Ok(()),
        }
    }

    fn __clear__(&self) {
        if let Ok(mut state) = self.state.try_lock() {
            match &mut *state {
                State::New(prepared) => prepared.functions.clear(),
                State::Started(started) => started.functions.clear(),
                State::Closed => {}
            }
        }
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let state = match &*self.state(py)? {
            State::New(_) => "not started",
            State::Started(_) => "started",
            State::Closed => "closed",
        };
        Ok(format!("Worker(level={}, {state})", self.tree.level()))
    }
}

impl Started {
    /// The number of a function that was registered.
    pub(crate) fn function(&self, function: &Bound<'_, PyAny>) -> Option<u32> {
        let place = self.functions.iter().position(|known| known.bind(function.py()).is(function))?;
        u32::try_from(place).ok().and_then(|place| FIRST_FUNCTION.checked_add(place))
    }

    /// The chip that owns device memory. Who asks for something that is on none asks the first one, which says what it knows of it.
    fn chip_of(&self, identity: Identity) -> PyResult<WorkerId> {
        let chip =
            self.owners.get(&identity.owner_instance_id()).or_else(|| self.leaves.chips.first()).copied();
        chip.ok_or_else(|| {
            raise(bufabi_core::Code::OtherOwner, &format_args!("{identity} is memory of no chip here"))
        })
    }
}

/// A slab for a dense tensor.
pub(crate) fn allocate(heap: &ForkHeap, shape: &Numbers, dtype: DType) -> PyResult<(Buffer, Tensor)> {
    let buffer = heap.alloc_shared(shape.as_slice(), dtype).or_raise()?;
    let tensor = buffer.row_major(0, dtype, shape.as_slice()).or_raise()?;
    Ok((buffer, tensor))
}

/// What came of the tasks that are over.
fn reports(orchestrator: &mut Orchestrator) -> Vec<PyTaskReport> {
    let mut reports = Vec::new();
    // What is over is told of without waiting.
    while let Ok(finished) = orchestrator.wait(Instant::now()) {
        match finished.outcome {
            Ok(replies) => reports.extend(PyTaskReport::of_replies(finished.task, replies)),
            Err(TaskFailed::Own(_) | TaskFailed::Poisoned(_)) => {}
        }
    }
    reports
}

/// The exception for a task that failed. It has the attributes `task`, the task's number, and `worker`, the path of where it ran.
fn raise_cause(orchestrator: &Orchestrator, cause: &Cause) -> PyErr {
    let path = orchestrator.workers().name(cause.worker).unwrap_or("a worker").to_owned();
    let message = format!("task {} on {path}: {}", cause.task.0, cause.failure);
    let error = raise(cause.failure.code(), &message);
    Python::attach(|py| {
        let value = error.value(py);
        // An exception of Python's own takes any attribute.
        let _ = value.setattr("task", cause.task.0);
        let _ = value.setattr("worker", path);
    });
    error
}

fn refuse_kept(workers: &Workers, identity: Identity, kept: &[KeptImport]) -> PyResult<()> {
    if kept.is_empty() {
        return Ok(());
    }
    let told: Vec<String> = kept
        .iter()
        .map(|kept| {
            let name = workers.name(kept.worker).unwrap_or("a worker");
            kept.why.as_ref().map_or_else(|| format!("{name} did not answer"), |why| format!("{name}: {why}"))
        })
        .collect();
    Err(PyBufferError::new_err(format!(
        "{identity} is released, but not everywhere dropped: {}",
        told.join("; ")
    )))
}
