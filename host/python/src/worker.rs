//! `Worker`: a host with chips, sub-workers and further hosts below it, its memory, and the runs of tasks on them.

use bufabi_core::{Access, DType, View};
use bufabi_host::sys::process::current_pid;
use bufabi_host::vmm::Admission;
use bufabi_host::worker::{WorkerId, Workers};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyBytes, PyDict, PySlice, PyTuple};

use crate::arrays::{memory_and_view, writable_bytes};
use crate::buffer::{PyBuffer, deadline, wrap_memory};
use crate::device::chips_of;
use crate::device_buffer::{PyDeviceBuffer, bytes_for, check_length, place_of};
use crate::domain::{PyDomain, parts_of};
use crate::endpoint::here;
use crate::error::OrRaise;
use crate::guarded::Guarded;
use crate::mapped_arg::{PyMappedArg, Reach};
use crate::number::{self, Numbers, Value, several};
use crate::orchestrator::PyOrchestrator;
use crate::refusal::Refusal;
use crate::registered::Registered;
use crate::report::PyTaskReport;
use crate::started::{Ended, Started};
use crate::tensor::PyTensor;
use crate::tree::{MOST, MOST_NAMED, Named, Tree};
use crate::worker_state::State;

/// A host process with workers below it: chips, sub-workers that run functions of Python, and hosts one level down.
///
/// They are forked by `start`, which the first `run` calls. What they are to know, functions and memory that they inherit, is
/// said before. `heap_nbytes` are the bytes of the heap that they inherit, which are taken as they are touched. A tree that makes no
/// sense is a ValueError.
///
/// Calls about memory wait up to `timeout` seconds for the worker's answer, and are a TimeoutError then. A worker that has died is an
/// OSError, one that is not there a KeyError, and a worker that was closed a ValueError. In a fork of the process that made it every
/// call is a RuntimeError.
#[pyclass(frozen, name = "Worker", module = "bufabi")]
pub(crate) struct PyWorker {
    tree: Tree,
    heap_nbytes: u64,
    /// The process that made it: the workers are its children.
    pub(crate) creator: u32,
    pub(crate) state: Guarded<State>,
    pub(crate) functions: Registered,
}

#[pymethods]
impl PyWorker {
    #[new]
    #[pyo3(signature = (level, *, chips = None, subs = 0, children = None, heap_nbytes = 67_108_864))]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = number::level)] level: u32,
        chips: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = number::subs)] subs: u32,
        children: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = number::nbytes)] heap_nbytes: u64,
    ) -> PyResult<Self> {
        let chips = chips.map_or_else(|| Ok(Vec::new()), chips_of)?;
        let child = |child: Bound<'_, PyAny>| Ok(child.cast_into::<Self>()?.unbind());
        let children =
            children.map_or_else(|| Ok(Vec::new()), |all| several(all, "children", MOST, child))?;
        let mut trees = Vec::with_capacity(children.len());
        for child in &children {
            let child = child.get();
            child.check_process()?;
            let is_new = child.state.with(py, |state| matches!(state, State::New(named) if named.is_empty()));
            if !is_new || !child.functions.is_empty(py) {
                let message = "children: one is started, closed, or has functions or memory of its own; the topmost worker has them all";
                return Err(PyValueError::new_err(message));
            }
            trees.push(child.tree.clone());
        }
        let tree = Tree::new(level, chips, usize::try_from(subs).unwrap_or(usize::MAX), trees)?;
        for child in &children {
            // It was new and without memory: nothing is dropped with it.
            child.get().with_state(py, |state| Ok(core::mem::replace(state, State::Closed)))?;
        }
        let (state, functions) = (Guarded::new(State::New(Vec::new())), Registered::new());
        Ok(Self { tree, heap_nbytes, creator: current_pid(), state, functions })
    }

    /// Makes a function known to all sub-workers, before they are forked. It is called with a task's `MappedArgs`, and what it
    /// raises fails the task. The function itself comes back, so that this serves as a decorator.
    ///
    /// Anything that cannot be called is a TypeError; after `start` this is a RuntimeError.
    fn register(&self, py: Python<'_>, function: Py<PyAny>) -> PyResult<Py<PyAny>> {
        if !function.bind(py).is_callable() {
            return Err(PyTypeError::new_err(format!(
                "a function is needed, not {}",
                function.bind(py).get_type()
            )));
        }
        let late =
            "the workers were forked, and do not know what comes now: register before start() and run()";
        self.with_state(py, |state| state.check_new(late))?;
        self.functions.add(py, function.clone_ref(py));
        Ok(function)
    }

    /// Names an array of numpy or a tensor of torch, dense and there before the fork, as a task argument: FORK_SHM if forks share
    /// its memory, else FORK_COW, which tasks read as it was at the fork.
    ///
    /// One that is not dense is a BufferError, elements that no tensor has are a TypeError; after `start` this is a RuntimeError.
    #[pyo3(signature = (array))]
    fn make_tensor_arg(&self, py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
        let late = "the workers were forked, and have no name for this memory: make_tensor_arg before start() and run()";
        self.with_state(py, |state| state.check_new(late))?;
        let (memory, shapes, dtype) = memory_and_view(array)?;
        let buffer = wrap_memory(here()?, &memory, None)?;
        let view = View::row_major(0, dtype, shapes.as_slice(), u64::MAX).or_raise()?;
        let tensor = buffer.tensor_of(py, &view)?;
        self.check_process()?;
        let mut buffer = Some(buffer);
        self.state.with(py, |state| {
            // Whatever Python did meanwhile.
            state.check_new(late)?;
            if let State::New(named) = state {
                named.extend(buffer.take());
            }
            Ok::<_, Refusal>(())
        })?;
        Ok(PyTensor(tensor))
    }

    /// Forks the workers, if they are not there. While this process has several threads it is a RuntimeError.
    pub(crate) fn start(&self, py: Python<'_>) -> PyResult<()> {
        let named = self.with_state(py, |state| match state {
            State::New(named) => {
                let named = core::mem::take(named);
                *state = State::Starting;
                Ok(Some(named))
            }
            State::Starting => Err(State::STARTING),
            State::Started(_) => Ok(None),
            State::Closed => Err(State::CLOSED),
        })?;
        let Some(named) = named else { return Ok(()) };
        // Nothing is locked: much of Python runs around a fork.
        let (next, result) = match Started::spawn(py, &self.tree, self.heap_nbytes, self.functions.all(py)) {
            Ok(mut started) => {
                started.named = named;
                (State::Started(Box::new(started)), Ok(()))
            }
            Err(error) => (State::New(named), Err(error)),
        };
        // Nobody else takes it further meanwhile.
        self.with_state(py, |state| Ok(core::mem::replace(state, next)))?;
        result
    }

    /// Calls `orchestration` with an orchestrator, waits until all tasks that it submitted are over, and lets go of what it
    /// allocated. What came of the tasks comes back, in the order in which they ended; the first failure is raised.
    ///
    /// If `orchestration` raises, or the timeout in seconds passes, which is a TimeoutError, what has not begun never will.
    #[pyo3(signature = (orchestration, timeout = None))]
    fn run<'py>(
        slf: &Bound<'py, Self>,
        orchestration: &Bound<'py, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<PyTaskReport>> {
        let (py, worker) = (slf.py(), slf.get());
        let until = timeout.map(deadline).transpose()?;
        worker.start(py)?;
        worker.with_started(py, |started| {
            if started.is_running {
                return Err(Refusal::Runtime("the worker has a run that is not over"));
            }
            started.is_running = true;
            started.scopes.push(Vec::new());
            Ok(())
        })?;
        let called = Bound::new(py, PyOrchestrator::new(slf.clone().unbind())).and_then(|orchestrator| {
            let called = orchestration.call1((orchestrator.clone(),));
            orchestrator.get().end();
            called
        });
        match called.and_then(|_| worker.finish_run(py, until)) {
            Ok(Ended { reports, failure: None }) => Ok(reports),
            Ok(Ended { failure: Some(failed), .. }) => Err(failed.raise(py)),
            Err(error) => Err(worker.give_up_run(py, error)),
        }
    }

    /// Makes a buffer of POSIX shared memory: `nbytes` bytes, zero, that grants `access` to its consumers. The errors are those of
    /// `create_host_shared_buffer`.
    #[pyo3(
        signature = (nbytes, access = Value(Access::ReadWrite)),
        text_signature = "($self, nbytes, access=bufabi.AccessMode.READWRITE)"
    )]
    fn create_buffer(
        &self,
        #[pyo3(from_py_with = number::nbytes)] nbytes: u64,
        access: Value<Access>,
    ) -> PyResult<PyBuffer> {
        let endpoint = here()?;
        let buffer = endpoint.create_buffer(nbytes, access.0).or_raise()?;
        Ok(PyBuffer::owned(endpoint, buffer))
    }

    /// Closes a buffer and tells every worker to drop it, waiting `timeout` seconds for their answers. While a task that is not over
    /// names it, or a view of it is alive here, that is a BufferError, and nothing has changed. A worker that still has a view of
    /// it is named in one as well, but then the buffer is closed.
    #[pyo3(signature = (buffer, timeout = 10.0))]
    fn release_buffer(&self, py: Python<'_>, buffer: &Bound<'_, PyBuffer>, timeout: f64) -> PyResult<()> {
        let until = deadline(timeout)?;
        let identity = buffer.get().identity_here();
        self.check_process()?;
        buffer.get().release(py).or_raise()?;
        Ok(self.state.with_detached(py, |state| match state {
            State::Started(started) => started.drop_imports(identity, until),
            State::New(_) | State::Starting | State::Closed => Ok(()),
        })?)
    }

    /// Takes what a dense tensor of `shape` elements needs of the heap that workers inherited: FORK_SHM. It lives until `free` or `close`.
    /// A MemoryError if the heap has no such room.
    #[pyo3(signature = (shape, dtype))]
    fn alloc_shared_tensor(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyAny>,
        dtype: Value<DType>,
    ) -> PyResult<PyTensor> {
        let shape = Numbers::read(shape, "shape")?;
        self.start(py)?;
        self.with_started(py, |started| {
            let (buffer, tensor) = started.allocate(&shape, dtype.0)?;
            started.allocated.push(buffer);
            Ok(tensor)
        })
        .map(PyTensor)
    }

    /// A tensor of this process's own memory as this process sees it, for loads and stores. A KeyError for one that is another
    /// process's, or gone.
    fn mapped(&self, tensor: PyRef<'_, PyTensor>) -> PyResult<PyMappedArg> {
        let descriptor = tensor.0.descriptor().to_owned();
        let mapping = here()?.own_mapping(&descriptor).or_raise()?;
        let access = mapping.access();
        Reach::new(mapping, tensor.0.view(), access).or_raise().map(PyMappedArg::new)
    }

    /// Takes `nbytes` bytes of a chip, which is named by its place among the chips or by its path, and else they take turns: DEVICE_MALLOC.
    /// A MemoryError if it has no such room, a ValueError for none at all.
    #[pyo3(
        signature = (nbytes, worker = None, access = Value(Access::ReadWrite), timeout = 10.0),
        text_signature = "($self, nbytes, worker=None, access=bufabi.AccessMode.READWRITE, timeout=10.0)"
    )]
    fn malloc(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = number::nbytes)] nbytes: u64,
        worker: Option<&Bound<'_, PyAny>>,
        access: Value<Access>,
        timeout: f64,
    ) -> PyResult<PyDeviceBuffer> {
        let until = deadline(timeout)?;
        let worker = Named::read(worker)?;
        let made = self.ask_startable(py, |started| {
            started.take(&worker, |workers, chip| workers.malloc(chip, nbytes, access.0, until))
        });
        made.map(PyDeviceBuffer)
    }

    /// Takes `nbytes` bytes of a chip, zero, that other chips of this tree import by handle once they are permitted to: VMM_SHAREABLE. The
    /// errors are those of `malloc`.
    #[pyo3(
        signature = (nbytes, worker = None, access = Value(Access::ReadWrite), timeout = 10.0),
        text_signature = "($self, nbytes, worker=None, access=bufabi.AccessMode.READWRITE, timeout=10.0)"
    )]
    fn create_shareable(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = number::nbytes)] nbytes: u64,
        worker: Option<&Bound<'_, PyAny>>,
        access: Value<Access>,
        timeout: f64,
    ) -> PyResult<PyDeviceBuffer> {
        let until = deadline(timeout)?;
        let worker = Named::read(worker)?;
        let made = self.ask_startable(py, |started| {
            started.take(&worker, |workers, chip| {
                workers.create_shareable(chip, nbytes, access.0, Admission::Listed, until)
            })
        });
        made.map(PyDeviceBuffer)
    }

    /// Lets chips import what `create_shareable` gave. A KeyError if there is no such chip or memory.
    #[pyo3(signature = (memory, workers, timeout = 10.0))]
    fn permit(
        &self,
        py: Python<'_>,
        memory: PyRef<'_, PyDeviceBuffer>,
        workers: &Bound<'_, PyAny>,
        timeout: f64,
    ) -> PyResult<()> {
        let (buffer, until) = (memory.0, deadline(timeout)?);
        let workers = several(workers, "workers", MOST_NAMED, |worker| Named::read(Some(&worker)))?;
        self.ask_started(py, |started| {
            let chips = started.chips(&workers)?;
            started.ask(buffer.worker(), |workers| workers.permit(&buffer, &chips, until))
        })
    }

    /// Takes a window of a communication domain on each of those chips, zero, and carves buffers from each at the same places:
    /// VMM_WINDOW. All of it is there, or nothing. A part is a number of bytes, or that and what it grants.
    /// The errors are those of `malloc`.
    #[pyo3(signature = (workers, parts, timeout = 10.0))]
    fn create_domain(
        &self,
        py: Python<'_>,
        workers: &Bound<'_, PyAny>,
        parts: &Bound<'_, PyAny>,
        timeout: f64,
    ) -> PyResult<PyDomain> {
        let (parts, until) = (parts_of(parts)?, deadline(timeout)?);
        let workers = several(workers, "workers", MOST_NAMED, |worker| Named::read(Some(&worker)))?;
        let made = self.ask_startable(py, |started| {
            let chips = started.chips(&workers)?;
            started.create_domain(&chips, &parts, until)
        });
        made.map(PyDomain)
    }

    /// Takes what a dense tensor of `shape` elements needs of a chip's memory. The errors are those of `malloc`.
    #[pyo3(signature = (worker, shape, dtype, timeout = 10.0))]
    fn alloc_child_tensor(
        &self,
        py: Python<'_>,
        worker: &Bound<'_, PyAny>,
        shape: &Bound<'_, PyAny>,
        dtype: Value<DType>,
        timeout: f64,
    ) -> PyResult<PyTensor> {
        let (shape, until) = (Numbers::read(shape, "shape")?, deadline(timeout)?);
        let (shape, worker) = (shape.as_slice(), Named::read(Some(worker))?);
        let made = self.ask_startable(py, |started| {
            let take = |workers: &mut Workers, chip| workers.alloc_child(chip, shape, dtype.0, until);
            Ok(started.take(&worker, take)?.row_major(0, dtype.0, shape)?)
        });
        made.map(PyTensor)
    }

    /// Frees memory that `malloc`, `alloc_child_tensor`, `create_shareable` or `alloc_shared_tensor` gave, by its buffer or a tensor of
    /// it, or all of a domain. While a task that is not over names it that is a BufferError, and nothing has changed. What was
    /// freed before is a KeyError.
    #[pyo3(signature = (memory, timeout = 10.0))]
    fn free(&self, py: Python<'_>, memory: &Bound<'_, PyAny>, timeout: f64) -> PyResult<()> {
        let until = deadline(timeout)?;
        if let Ok(domain) = memory.cast::<PyDomain>() {
            let domain = &domain.get().0;
            return self.ask_started(py, |started| started.free_domain(domain, until));
        }
        let (identity, _) = place_of(memory)?;
        self.ask_started(py, |started| started.free(identity, until))
    }

    /// Writes first content of a chip's memory, whatever its owner grants to others: to the first byte of what is named, and `byte_offset`
    /// bytes behind it. That is over when a task has named it, when it may be imported, or when it was copied from: a ValueError then, and
    /// where they do not fit.
    #[pyo3(signature = (target, data, byte_offset = 0, timeout = 10.0))]
    fn fill(
        &self,
        py: Python<'_>,
        target: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = number::byte_offset)] byte_offset: u64,
        timeout: f64,
    ) -> PyResult<()> {
        let ((identity, start), until) = (place_of(target)?, deadline(timeout)?);
        let bytes = bytes_for(target, start.saturating_add(byte_offset), data)?;
        let bytes = bytes.as_bytes();
        let at = start.saturating_add(byte_offset);
        self.ask_started(py, |started| {
            let chip = started.chip_of(identity)?;
            started.ask(chip, |workers| workers.fill(chip, identity, at, bytes, until))
        })
    }

    /// Copies bytes into a chip's memory: to the first byte of what is named, and `byte_offset` bytes behind it. A ValueError if they do not
    /// fit, or if its owner does not grant it.
    #[pyo3(signature = (target, data, byte_offset = 0, timeout = 10.0))]
    fn copy_to(
        &self,
        py: Python<'_>,
        target: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = number::byte_offset)] byte_offset: u64,
        timeout: f64,
    ) -> PyResult<()> {
        let ((identity, start), until) = (place_of(target)?, deadline(timeout)?);
        let bytes = bytes_for(target, start.saturating_add(byte_offset), data)?;
        let bytes = bytes.as_bytes();
        let at = start.saturating_add(byte_offset);
        self.ask_started(py, |started| {
            let chip = started.chip_of(identity)?;
            started.ask(chip, |workers| workers.copy_to(chip, identity, at, bytes, until))
        })
    }

    /// Copies bytes out of a chip's memory into a writable object: from the first byte of what is named, and `byte_offset` bytes behind
    /// it, as many as the object has. A ValueError if there are not so many, a BufferError if the object cannot be written.
    #[pyo3(signature = (source, into, byte_offset = 0, timeout = 10.0))]
    fn copy_from(
        &self,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        into: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = number::byte_offset)] byte_offset: u64,
        timeout: f64,
    ) -> PyResult<()> {
        let ((identity, start), until) = (place_of(source)?, deadline(timeout)?);
        let place = writable_bytes(into)?;
        let (at, length) = (start.saturating_add(byte_offset), place.len()?);
        check_length(source, at, length)?;
        // A MemoryError where there is no room for them.
        let bytes = PyBytes::new_with(py, length, |bytes| {
            self.ask_started(py, |started| {
                let chip = started.chip_of(identity)?;
                started.ask(chip, |workers| workers.copy_from(chip, identity, at, bytes, until))
            })
        })?;
        place.set_item(PySlice::full(py), bytes)
    }

    /// Every leaf's path, and the number of its process.
    #[getter]
    fn processes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let processes = self.with_started(py, |started| {
            let workers = started.orchestrator.workers();
            let process = |worker| (workers.name(worker).map(str::to_owned), workers.pid(worker));
            Ok((0..workers.len()).map(WorkerId).map(process).collect::<Vec<_>>())
        })?;
        let found = PyDict::new(py);
        for (path, process) in processes {
            found.set_item(path, process)?;
        }
        Ok(found)
    }

    /// Its level: 3 for a host with chips.
    #[getter]
    const fn level(&self) -> u32 {
        self.tree.level()
    }

    /// Ends the workers, and lets go of all that this worker made. Closing it again does nothing.
    ///
    /// A worker that does not end within a second is killed; nothing of that is an error. In a fork it is a RuntimeError, and the parent's
    /// workers go on.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let state = self.with_state(py, |state| match state {
            // Whoever starts it is in the middle of that.
            State::Starting => Err(State::STARTING),
            State::New(_) | State::Started(_) | State::Closed => Ok(core::mem::replace(state, State::Closed)),
        })?;
        if let State::Started(started) = state {
            started.stop(py);
        }
        Ok(())
    }

    /// Functions may refer to the worker that they are registered with.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.functions.traverse(&visit)
    }

    fn __clear__(&self, py: Python<'_>) {
        self.functions.clear(py);
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        // The end of a fork is not the end of its parent's workers.
        if current_pid() == self.creator { self.close(py) } else { Ok(()) }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let state = self.with_state(py, |state| {
            Ok(match state {
                State::New(_) => "not started",
                State::Starting => "being started",
                State::Started(_) => "started",
                State::Closed => "closed",
            })
        });
        format!("Worker(level={}, {})", self.tree.level(), state.unwrap_or("another process's"))
    }
}
