//! The orchestrator that a run's function is given: it submits tasks in order, and allocates what they share.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bufabi_core::{Code, DType, Tag};
use bufabi_host::kernels::{Call, Kernel};
use bufabi_host::orchestrator::Member;
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error::with_rule;
use crate::functions::name_of;
use crate::number::{Numbers, Value, several};
use crate::refusal::Refusal;
use crate::started::Started;
use crate::task_args::PyTaskArgs;
use crate::tensor::PyTensor;
use crate::told::refused;
use crate::tree::{LeafKind, MOST_NAMED, Named};
use crate::worker::PyWorker;

/// Submits the tasks of one run, in order. Each begins when those that it waits for are done, which follows from the bytes that
/// they touch, and its worker is free.
#[pyclass(frozen, name = "Orchestrator", module = "bufabi")]
pub(crate) struct PyOrchestrator {
    worker: Py<PyWorker>,
    is_over: AtomicBool,
}

impl PyOrchestrator {
    pub(crate) const fn new(worker: Py<PyWorker>) -> Self {
        Self { worker, is_over: AtomicBool::new(false) }
    }

    /// The run's function has returned.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn check_run(&self) -> PyResult<()> {
        if self.is_over.load(Ordering::Relaxed) {
            return Err(PyRuntimeError::new_err(
                "the run's function has returned: nothing more is submitted",
            ));
        }
        Ok(())
    }

    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Started) -> Result<R, Refusal> + Send,
    ) -> PyResult<R> {
        self.check_run()?;
        self.worker.get().with_started(py, work)
    }

    fn submit(
        &self,
        py: Python<'_>,
        kind: LeafKind,
        what: &Bound<'_, PyAny>,
        args: &[PyRef<'_, PyTaskArgs>],
        workers: Option<&[Bound<'_, PyAny>]>,
    ) -> PyResult<u64> {
        self.check_run()?;
        if let Some(workers) = workers.filter(|workers| workers.len() != args.len()) {
            let message = format!("workers: {} are named for {} members", workers.len(), args.len());
            return Err(PyValueError::new_err(message));
        }
        let what = self.what(py, kind, what)?;
        let name = |index| Named::read(workers.and_then(|workers| workers.get(index)));
        let named = (0..args.len()).map(name).collect::<PyResult<Vec<_>>>()?;
        let members = args.iter().map(|args| (args.0.tensors(), args.0.tags(), args.0.scalars()));
        let members = members.collect::<Vec<_>>();
        self.with(py, |started| {
            let mut placed: Vec<Member<'_>> = Vec::with_capacity(members.len());
            for (&(tensors, tags, scalars), named) in members.iter().zip(&named) {
                let worker = match started.home(kind, named, tensors) {
                    Some(chip) => chip,
                    None => started.leaves.find(started.orchestrator.workers(), kind, named)?,
                };
                let kernel = match &what {
                    // Tags do not travel: adding to what the output holds is another kernel.
                    What::Kernel(kernel) => {
                        Call { kernel: *kernel, accumulate: tags.last() == Some(&Tag::Inout) }.number()
                    }
                    What::Function(place) => started.function(*place).ok_or(UNKNOWN)?,
                };
                placed.push(Member { worker, kernel, tensors, tags, scalars });
            }
            let submitted = started.orchestrator.submit(&placed);
            let task = submitted.map_err(|error| refused(started.orchestrator.workers(), &placed, error))?;
            started.placed.insert(task.0, placed.iter().map(|member| member.worker).collect());
            Ok(task.0)
        })
    }

    /// A kernel by its name, or a function that was registered.
    fn what(&self, py: Python<'_>, kind: LeafKind, what: &Bound<'_, PyAny>) -> PyResult<What> {
        if let Ok(name) = what.extract::<&str>() {
            return Kernel::from_name(name)
                .map_or_else(|| self.function(py, kind, name), |kernel| Ok(What::Kernel(kernel)));
        }
        if kind == LeafKind::Chip {
            return Err(PyTypeError::new_err(format!(
                "a chip runs a kernel, named by a str, not {}",
                what.get_type()
            )));
        }
        self.worker.get().functions.place_of(py, what).map(What::Function).ok_or_else(|| {
            let message = format!("{what} was not registered before the workers were forked");
            PyKeyError::new_err(message)
        })
    }
}

impl PyOrchestrator {
    /// A function that was registered, by its name: what is no kernel's name may be one's.
    #[cold]
    fn function(&self, py: Python<'_>, kind: LeafKind, name: &str) -> PyResult<What> {
        let mut message =
            format!("there is no kernel {name:?} among {}", Kernel::ALL.map(Kernel::name).join(", "));
        if kind == LeafKind::Sub {
            let functions = self.worker.get().functions.all(py);
            let names = functions.iter().map(|function| name_of(py, function)).collect::<Vec<_>>();
            let mut named = (0..).zip(&names).filter(|(_, known)| *known == name).map(|(place, _)| place);
            match (named.next(), named.next()) {
                (Some(place), None) => return Ok(What::Function(place)),
                (Some(_), Some(_)) => {
                    message = format!("several registered functions are named {name:?}: give the one itself")
                }
                (None, _) if names.is_empty() => message.push_str(", and no function is registered"),
                (None, _) => {
                    message = format!("{message}, and no registered function among {}", names.join(", "))
                }
            }
        }
        Err(with_rule(Code::KernelUnknown, &message, PyKeyError::new_err))
    }
}

/// What a task runs.
enum What {
    Kernel(Kernel),
    /// A function, by its place among those that were registered.
    Function(usize),
}

/// A function that was registered while the workers were forked.
const UNKNOWN: Refusal = Refusal::Runtime("the function was registered while the workers were forked");

/// The arguments of a group's members.
fn members<'py>(args: &Bound<'py, PyAny>) -> PyResult<Vec<PyRef<'py, PyTaskArgs>>> {
    several(args, "args", MOST_NAMED, |member| Ok(member.cast_into::<PyTaskArgs>()?.try_borrow()?))
}

/// Who runs them, if that is said.
fn workers_of<'py>(workers: Option<&Bound<'py, PyAny>>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    workers.map(|workers| several(workers, "workers", MOST_NAMED, Ok)).transpose()
}

#[pymethods]
impl PyOrchestrator {
    /// Submits a task for a chip: a kernel by its name. The chip is named by its place among the chips, or by its path. Else it is the one
    /// whose own memory the task names, if it names any, and they take turns if not. The task's number comes back.
    ///
    /// A KeyError if there is no such kernel or chip; a ValueError if the arguments break a rule; a RuntimeError when the run's function has
    /// returned.
    #[pyo3(signature = (kernel, args, worker = None))]
    fn submit_next_level(
        &self,
        py: Python<'_>,
        kernel: &Bound<'_, PyAny>,
        args: PyRef<'_, PyTaskArgs>,
        worker: Option<Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        self.submit(py, LeafKind::Chip, kernel, &[args], worker.as_ref().map(core::slice::from_ref))
    }

    /// Submits a task for a sub-worker: a function that was registered, or its name, or a kernel by its. The sub-worker is named as a chip is, and
    /// the errors are those of `submit_next_level`; a function that was not registered is a KeyError.
    #[pyo3(signature = (function, args, worker = None))]
    fn submit_sub(
        &self,
        py: Python<'_>,
        function: &Bound<'_, PyAny>,
        args: PyRef<'_, PyTaskArgs>,
        worker: Option<Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        self.submit(py, LeafKind::Sub, function, &[args], worker.as_ref().map(core::slice::from_ref))
    }

    /// Submits a group for chips: one task, with a member for each of `args`, which are not compared with one another. `workers`, if
    /// given, names as many. The errors are those of `submit_next_level`, and a ValueError if the numbers differ or there is no member.
    #[pyo3(signature = (kernel, args, workers = None))]
    fn submit_next_level_group(
        &self,
        py: Python<'_>,
        kernel: &Bound<'_, PyAny>,
        args: &Bound<'_, PyAny>,
        workers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let (args, workers) = (members(args)?, workers_of(workers)?);
        self.submit(py, LeafKind::Chip, kernel, &args, workers.as_deref())
    }

    /// Submits a group for sub-workers: one task, with a member for each of `args`. The errors are those of `submit_sub`, and a ValueError
    /// if there are not as many `workers`, or no member.
    #[pyo3(signature = (function, args, workers = None))]
    fn submit_sub_group(
        &self,
        py: Python<'_>,
        function: &Bound<'_, PyAny>,
        args: &Bound<'_, PyAny>,
        workers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let (args, workers) = (members(args)?, workers_of(workers)?);
        self.submit(py, LeafKind::Sub, function, &args, workers.as_deref())
    }

    /// Takes what a dense tensor of `shape` elements needs of the heap that workers inherited. It is let go of when its scope, or the
    /// run, ends and the last task that names it is done. A MemoryError if the heap has no such room.
    #[pyo3(signature = (shape, dtype))]
    fn alloc(&self, py: Python<'_>, shape: &Bound<'_, PyAny>, dtype: Value<DType>) -> PyResult<PyTensor> {
        let shape = Numbers::read(shape, "shape")?;
        self.with(py, |started| {
            let (buffer, tensor) = started.allocate(&shape, dtype.0)?;
            match started.scopes.last_mut() {
                Some(scope) => scope.push(buffer),
                None => return Err(Refusal::Runtime("there is no run")),
            }
            Ok(tensor)
        })
        .map(PyTensor)
    }

    /// A scope, for `with`: what `alloc` gives in it is let go of at its end, each when the last task that names it is done.
    /// Entering it is a RuntimeError when the run's function has returned.
    fn scope(slf: &Bound<'_, Self>) -> PyScope {
        PyScope { orchestrator: slf.clone().unbind(), depth: AtomicUsize::new(0) }
    }

    /// The worker that runs the tasks.
    #[getter]
    fn worker(&self, py: Python<'_>) -> Py<PyWorker> {
        self.worker.clone_ref(py)
    }
}

/// A part of a run, at whose end what was allocated in it is let go of. Scopes end in the reverse of the order in which they began, each
/// once for each time that it was entered: anything else is a RuntimeError, and nothing has changed.
#[pyclass(frozen, name = "Scope", module = "bufabi")]
pub(crate) struct PyScope {
    orchestrator: Py<PyOrchestrator>,
    /// Its place among those that are open, the run's own being 0: that of one which is not open.
    depth: AtomicUsize,
}

#[pymethods]
impl PyScope {
    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let scope = slf.get();
        scope.orchestrator.get().with(slf.py(), |started| {
            if scope.depth.load(Ordering::Relaxed) != 0 {
                return Err(Refusal::Runtime("scope: it is open, and is not entered twice at once"));
            }
            scope.depth.store(started.scopes.len(), Ordering::Relaxed);
            started.scopes.push(Vec::new());
            Ok(())
        })?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        let ended = self.orchestrator.get().with(py, |started| {
            let depth = self.depth.load(Ordering::Relaxed);
            if depth == 0 {
                return Err(Refusal::Runtime("scope: it was not entered, or has ended"));
            }
            if started.scopes.len() != depth.saturating_add(1) {
                return Err(Refusal::Runtime("scope: one that began in it has not ended, and ends first"));
            }
            self.depth.store(0, Ordering::Relaxed);
            Ok(started.scopes.pop())
        })?;
        drop(ended);
        Ok(())
    }
}
