//! Arguments of tasks for another machine, and a transport that is written in Python.

use core::fmt;
use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use bufabi_core::task_args::Scratch;
use bufabi_core::{Code, DType, Tag, Tensor};
use bufabi_host::consumer::Import;
use bufabi_host::owner::Holds;
use bufabi_host::remote::{
    Fetched, Registration, RemoteArgs, RemoteError, Sidecar, Transport, TransportError,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::arrays::{bytes_of, bytes_up_to};
use crate::endpoint::here;
use crate::error::{OrRaise, failed, with_rule};
use crate::mapped_arg::{PyMappedArg, Reach, no_such, position};
use crate::number::{self, Value};
use crate::scalar::scalar_bits;
use crate::sidecar::{PyRegistration, PySidecar};
use crate::tensor::PyTensor;

/// An object of Python's that moves bytes: it has `read(address, remote_key, nbytes)` and `write(address, remote_key, data)`.
struct Carrier<'a, 'py> {
    object: &'a Bound<'py, PyAny>,
    /// What it raised, which says more than any error of ours.
    raised: RefCell<Option<PyErr>>,
}

impl<'a, 'py> Carrier<'a, 'py> {
    /// What was given for a transport, if it was not None.
    fn new(object: Option<&'a Bound<'py, PyAny>>) -> PyResult<Option<Self>> {
        object.filter(|object| !object.is_none()).map(Self::of).transpose()
    }

    /// An object that has both methods; a TypeError for any other.
    fn of(object: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        for name in ["read", "write"] {
            if !object.getattr_opt(name)?.is_some_and(|method| method.is_callable()) {
                let found = object.get_type();
                let message = format!("transport: an object with read and write is needed, not {found}");
                return Err(PyTypeError::new_err(message));
            }
        }
        Ok(Self { object, raised: RefCell::new(None) })
    }

    fn keep<R>(&self, called: PyResult<R>) -> Result<R, TransportError> {
        called.map_err(|error| {
            // What it raised before, if it did, is dropped where nothing is borrowed.
            drop(self.raised.replace(Some(error)));
            TransportError::Unreachable
        })
    }
}

/// The exception of what went wrong on the way: the transport's own, where there is one.
fn raised(carrier: Option<&Carrier<'_, '_>>, error: &RemoteError) -> PyErr {
    carrier.and_then(|carrier| carrier.raised.take()).unwrap_or_else(|| failed(error))
}

impl fmt::Debug for Carrier<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Transport for Carrier<'_, '_> {
    fn name(&self) -> &str {
        "a transport in Python"
    }

    /// Python's transports register what they reach by themselves.
    fn register(&self, _memory: Import) -> Result<Registration, TransportError> {
        Err(TransportError::Unreachable)
    }

    fn deregister(&self, registration: &Registration) -> Result<(), TransportError> {
        Err(TransportError::KeyUnknown { remote_key: registration.remote_key })
    }

    fn read(&self, address: u64, remote_key: u64, out: &mut [u8]) -> Result<(), TransportError> {
        let read = || {
            let expected = out.len();
            let others = |found| {
                let message =
                    format!("read: the transport gave {found} bytes, and {expected} were asked for");
                PyValueError::new_err(message)
            };
            let given = self.object.call_method1("read", (address, remote_key, expected))?;
            let bytes = bytes_up_to(&given, expected, others)?;
            let found = bytes.as_bytes().len();
            if found == expected { Ok(bytes) } else { Err(others(found)) }
        };
        let bytes = self.keep(read())?;
        out.copy_from_slice(bytes.as_bytes());
        Ok(())
    }

    fn write(&self, address: u64, remote_key: u64, bytes: &[u8]) -> Result<(), TransportError> {
        let write = || {
            let data = PyBytes::new_with(self.object.py(), bytes.len(), |data| {
                data.copy_from_slice(bytes);
                Ok(())
            })?;
            self.object.call_method1("write", (address, remote_key, data))
        };
        self.keep(write()).map(drop)
    }
}

/// Collects a task's arguments for a worker on another machine: tensors first, each with a sidecar and from then on remote, then
/// scalars.
#[pyclass(name = "RemoteArgs", module = "bufabi")]
pub(crate) struct PyRemoteArgs {
    arguments: RemoteArgs,
    tensors: usize,
    scalars: usize,
}

impl PyRemoteArgs {
    /// A tensor was added, or not.
    fn added(&mut self, index: Result<usize, RemoteError>) -> PyResult<usize> {
        let index = index.or_raise()?;
        self.tensors = index.saturating_add(1);
        Ok(index)
    }
}

#[pymethods]
impl PyRemoteArgs {
    #[new]
    fn new() -> Self {
        Self { arguments: RemoteArgs::new(), tensors: 0, scalars: 0 }
    }

    /// Adds a tensor whose backing a transport has made reachable, all of it, and says its index. A ValueError if the registration is too
    /// small or the right is not granted, a MemoryError where there is no room for more.
    fn add_registered(
        &mut self,
        tensor: PyRef<'_, PyTensor>,
        tag: Value<Tag>,
        registration: PyRef<'_, PyRegistration>,
    ) -> PyResult<usize> {
        let index = self.arguments.add_registered(&tensor.0, tag.0, &registration.0);
        self.added(index)
    }

    /// Adds a tensor of which nobody writes anything, with the bytes from its first element to its last, at most 4,096, and says its
    /// index. The owner grants READ alone. A ValueError for other bytes or rights; else the errors are those of `add_registered`.
    fn add_inline(
        &mut self,
        tensor: PyRef<'_, PyTensor>,
        tag: Value<Tag>,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let index = self.arguments.add_inline(&tensor.0, tag.0, bytes_of(data)?.as_bytes());
        self.added(index)
    }

    /// Adds a tensor as it came from somewhere else, with the sidecar that came with it. Whether the two go together is seen at the
    /// submit. Else the errors are those of `add_registered`.
    #[pyo3(signature = (tensor, tag, sidecar))]
    fn add_received(
        &mut self,
        tensor: PyRef<'_, PyTensor>,
        tag: Value<Tag>,
        sidecar: Option<PyRef<'_, PySidecar>>,
    ) -> PyResult<usize> {
        let sidecar = sidecar.map(|sidecar| sidecar.0.clone());
        let index = self.arguments.add_received(&tensor.0, tag.0, sidecar);
        self.added(index)
    }

    /// Adds a scalar behind those that are there, as `TaskArgs.add_scalar` does: a ValueError for a number that does not
    /// fit, a MemoryError where there is no room for more.
    #[pyo3(signature = (scalar, dtype = None))]
    fn add_scalar(&mut self, scalar: &Bound<'_, PyAny>, dtype: Option<Value<DType>>) -> PyResult<usize> {
        let bits = scalar_bits(scalar, dtype.map(|dtype| dtype.0))?;
        let index = self.arguments.add_scalar(bits).or_raise()?;
        self.scalars = index.saturating_add(1);
        Ok(index)
    }

    /// Changes a tensor's tag. An IndexError if there is no such tensor.
    fn set_tag(
        &mut self,
        #[pyo3(from_py_with = number::index)] index: isize,
        tag: Value<Tag>,
    ) -> PyResult<()> {
        let place = position(index, self.tensors).filter(|&place| place < self.tensors);
        let place = place.ok_or_else(|| no_such("tensor", index, self.tensors))?;
        self.arguments.set_tag(place, tag.0).or_raise()
    }

    /// How many tensors there are.
    #[getter]
    const fn tensor_count(&self) -> usize {
        self.tensors
    }

    /// How many scalars there are.
    #[getter]
    const fn scalar_count(&self) -> usize {
        self.scalars
    }

    /// Checks them as they are now: every tensor is remote, has its sidecar, and agrees with it; a transport is there; limits, rights and
    /// clashes are as for any task. What comes back is for the caller to send, and holds what it names of this process's.
    /// The first rule that is broken is a ValueError.
    #[pyo3(signature = (transport = None))]
    fn submit(&self, transport: Option<&Bound<'_, PyAny>>) -> PyResult<PyRemoteTask> {
        let carrier = Carrier::new(transport)?;
        let mut scratch = Box::<Scratch>::default();
        let carried = carrier.as_ref().map(|carrier| -> &dyn Transport { carrier });
        let task = self.arguments.submit(&here()?, carried, &mut scratch).or_raise()?;
        Ok(PyRemoteTask {
            tensors: task.submission.tensors().to_vec(),
            tags: task.submission.tags().to_vec(),
            scalars: task.submission.scalars().to_vec(),
            sidecars: task.sidecars.iter().copied().cloned().collect(),
            holds: Mutex::new(Some(task.into_holds())),
        })
    }

    fn __repr__(&self) -> String {
        format!("RemoteArgs({} tensors, {} scalars)", self.tensors, self.scalars)
    }
}

/// A task for another machine that passed all checks. What it names of this process's cannot be closed until it is, or is lost.
#[pyclass(frozen, name = "RemoteTask", module = "bufabi")]
pub(crate) struct PyRemoteTask {
    tensors: Vec<Tensor>,
    tags: Vec<Tag>,
    scalars: Vec<u64>,
    sidecars: Vec<Sidecar>,
    holds: Mutex<Option<Holds>>,
}

#[pymethods]
impl PyRemoteTask {
    /// The tensors, all of REMOTE_SIDECAR, in order.
    #[getter]
    fn tensors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensors.iter().map(|tensor| PyTensor(*tensor)).collect::<Vec<_>>())
    }

    /// What is done with each.
    #[getter]
    fn tags<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tags.iter().copied().map(Value).collect::<Vec<_>>())
    }

    /// The sidecar of each.
    #[getter]
    fn sidecars<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.sidecars.iter().cloned().map(PySidecar).collect::<Vec<_>>())
    }

    /// The scalars, in order.
    #[getter]
    fn scalars<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.scalars)
    }

    /// The task is over: what it named may be closed. Closing it again does nothing.
    fn close(&self) {
        let held = self.holds.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(held);
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.close();
    }

    fn __repr__(&self) -> String {
        format!("RemoteTask({} tensors, {} scalars)", self.tensors.len(), self.scalars.len())
    }
}

/// The bytes of a remote tensor's view on the machine that computes on them, fetched by its sidecar, from the first element to the
/// last. What the transport raises is raised; a tensor and a sidecar that do not go together are a ValueError.
#[pyclass(frozen, name = "Fetched", module = "bufabi")]
pub(crate) struct PyFetched(Fetched);

#[pymethods]
impl PyFetched {
    #[new]
    #[pyo3(signature = (tensor, sidecar, transport = None))]
    fn new(
        tensor: PyRef<'_, PyTensor>,
        sidecar: PyRef<'_, PySidecar>,
        transport: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let carrier = Carrier::new(transport)?;
        let carried = carrier.as_ref().map(|carrier| -> &dyn Transport { carrier });
        let fetched = Fetched::new(&tensor.0, &sidecar.0, carried);
        fetched.map(Self).map_err(|error| raised(carrier.as_ref(), &error))
    }

    /// The view, for loads and for the stores that its owner grants.
    fn mapped(&self) -> PyResult<PyMappedArg> {
        let Self(fetched) = self;
        let reach = Reach::new(fetched.mapping().clone(), *fetched.view(), fetched.access());
        reach.or_raise().map(PyMappedArg::new)
    }

    /// Sends the bytes of the view's elements back, and no others, if the owner grants that they are written; says how many
    /// bytes. Without that right it is a ValueError; what the transport raises is raised.
    fn send_back(&self, transport: &Bound<'_, PyAny>) -> PyResult<u64> {
        let carrier = Carrier::of(transport)?;
        let access = self.0.access();
        if !access.writes() {
            let message = format_args!("the owner grants {access}, and sending back needs WRITE");
            return Err(with_rule(Code::Denied, &message, PyValueError::new_err));
        }
        self.0.send_back(&carrier).map_err(|error| raised(Some(&carrier), &error))
    }

    fn __repr__(&self) -> String {
        let view = self.0.view();
        format!("Fetched({:?}, {}, {})", view.shapes(), view.dtype(), self.0.access())
    }
}
