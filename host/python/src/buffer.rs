//! `Buffer`: what this process owns, or gives a name to.

use core::num::NonZeroU64;
use core::time::Duration;
use std::time::Instant;

use bufabi_core::wire::backend::BackendKind;
use bufabi_core::{Access, Code, DType, Descriptor, DescriptorError, Identity, Tensor, View};
use bufabi_host::memory::{InheritedRegion, Sharing};
use bufabi_host::owner::{Buffer, Endpoint, ReleaseError, Wrapped};
use bufabi_host::sys::memory_map::is_shared;
use bufabi_host::vmm::Shareable;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::descriptor::PyDescriptor;
use crate::endpoint::here;
use crate::error::{OrRaise, failed, raise};
use crate::ffi::memory_of;
use crate::guarded::Guarded;
use crate::identity::PyIdentity;
use crate::mapped_arg::{PyMappedArg, Reach};
use crate::number::{self, Value};
use crate::refusal::Refusal;
use crate::tensor::{PyTensor, view};

/// How long to wait before a buffer that tasks name is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(1);

/// A buffer that this process owns or wraps. It makes tensors of it, and lets go of it when it is closed.
///
/// `with` closes it; so does losing the last reference, as far as tasks and views allow. What it made stays in a fork.
#[pyclass(frozen, name = "Buffer", module = "bufabi")]
pub(crate) struct PyBuffer {
    endpoint: Endpoint,
    identity: Identity,
    nbytes: u64,
    held: Guarded<Held>,
}

/// What stands behind a buffer.
pub(crate) enum Held {
    /// It was made here.
    Owned(Buffer),
    /// Somebody else allocated it. A region of inherited memory stays in its table as long as its name does.
    Wrapped {
        /// Its name.
        name: Wrapped,
        /// Kept.
        _region: Option<InheritedRegion>,
    },
    /// It was closed.
    Closed,
}

impl PyBuffer {
    pub(crate) fn owned(endpoint: Endpoint, buffer: Buffer) -> Self {
        let (identity, nbytes) = (buffer.identity(), buffer.nbytes());
        Self { endpoint, identity, nbytes, held: Guarded::new(Held::Owned(buffer)) }
    }

    fn wrapped(endpoint: Endpoint, wrapped: Wrapped, region: Option<InheritedRegion>) -> Self {
        let (identity, nbytes) = (wrapped.identity(), wrapped.nbytes());
        Self {
            endpoint,
            identity,
            nbytes,
            held: Guarded::new(Held::Wrapped { name: wrapped, _region: region }),
        }
    }

    /// Its name.
    pub(crate) const fn identity_here(&self) -> Identity {
        self.identity
    }

    /// A view of it, as a task argument.
    #[inline]
    pub(crate) fn tensor_of(&self, py: Python<'_>, view: &View) -> PyResult<Tensor> {
        Ok(self.held.with(py, |held| match held {
            Held::Owned(buffer) => Ok(buffer.tensor(view)?),
            Held::Wrapped { name, .. } => Ok(name.tensor(view)?),
            Held::Closed => Err(self.is_closed()),
        })?)
    }

    pub(crate) fn descriptor(&self, py: Python<'_>) -> PyResult<Descriptor> {
        Ok(self.held.with(py, |held| match held {
            Held::Owned(buffer) => Ok(buffer.descriptor()?),
            Held::Wrapped { name, .. } => Ok(name.descriptor()?),
            Held::Closed => Err(self.is_closed()),
        })?)
    }

    #[cold]
    fn is_closed(&self) -> Refusal {
        Refusal::Rule(Code::Released, format!("{} was closed", self.identity))
    }

    /// Lets go of it, without waiting for tasks.
    pub(crate) fn release(&self, py: Python<'_>) -> Result<(), ReleaseError> {
        self.let_go(py, Buffer::release, Wrapped::release)
    }

    /// Lets go of it once no task names it any more; from now on nothing new does.
    ///
    /// The buffer is not locked between two tries: other threads of Python use it, and a fork that they make finds it as it should be.
    fn release_when_idle(&self, py: Python<'_>, until: Instant) -> PyResult<()> {
        loop {
            let now = Instant::now();
            let tried =
                self.let_go(py, |buffer| buffer.release_when_idle(now), |name| name.release_when_idle(now));
            match tried {
                Err(ReleaseError::TimedOut { .. }) if now < until => {
                    let left = until.saturating_duration_since(now);
                    py.detach(|| std::thread::sleep(left.min(TRY_AGAIN)));
                    py.check_signals()?;
                }
                tried => return tried.or_raise(),
            }
        }
    }

    fn let_go(
        &self,
        py: Python<'_>,
        owned: impl FnOnce(&mut Buffer) -> Result<(), ReleaseError> + Send,
        wrapped: impl FnOnce(&mut Wrapped) -> Result<(), ReleaseError> + Send,
    ) -> Result<(), ReleaseError> {
        let let_go = self.held.with(py, |held| {
            match held {
                Held::Owned(buffer) => owned(buffer)?,
                Held::Wrapped { name, .. } => wrapped(name)?,
                Held::Closed => {}
            }
            Ok(core::mem::replace(held, Held::Closed))
        });
        // Memory that was wrapped is an object's of Python, which may go with it.
        let_go.map(drop)
    }
}

#[pymethods]
impl PyBuffer {
    /// A view as a task argument: `shapes` elements of each of 1 to 5 dimensions, row-major from `byte_offset` bytes on unless `strides`
    /// says how many elements lie from one index to the next.
    ///
    /// A view that is not legal or leaves the buffer is a ValueError, as is any of one that was closed.
    #[pyo3(signature = (shapes, dtype, strides = None, byte_offset = 0))]
    fn tensor(
        &self,
        py: Python<'_>,
        shapes: &Bound<'_, PyAny>,
        dtype: Value<DType>,
        strides: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = number::byte_offset)] byte_offset: u64,
    ) -> PyResult<PyTensor> {
        let view = view(byte_offset, shapes, strides, dtype.0, self.nbytes)?;
        self.tensor_of(py, &view).map(PyTensor)
    }

    /// The owner's own view of its bytes, for loads and stores whatever is granted to others: `shapes` elements, row-major from
    /// `byte_offset` bytes on unless `strides`, in elements, says otherwise.
    ///
    /// A view that is not legal or leaves the buffer, and memory that this process does not reach, such as a device's, are a ValueError.
    #[pyo3(signature = (shapes, dtype, strides = None, byte_offset = 0))]
    fn mapped(
        &self,
        py: Python<'_>,
        shapes: &Bound<'_, PyAny>,
        dtype: Value<DType>,
        strides: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = number::byte_offset)] byte_offset: u64,
    ) -> PyResult<PyMappedArg> {
        let view = view(byte_offset, shapes, strides, dtype.0, self.nbytes)?;
        let mapping = self.endpoint.own_mapping(&self.descriptor(py)?).or_raise()?;
        let reach = Reach::new(mapping, view, Access::ReadWrite);
        reach.or_raise().map(PyMappedArg::new)
    }

    /// What a consumer needs to reach it. Of a buffer that was closed there is none: a ValueError.
    fn to_descriptor(&self, py: Python<'_>) -> PyResult<PyDescriptor> {
        self.descriptor(py).map(PyDescriptor)
    }

    /// Unmaps and frees what it owns, once; what it wraps is only named no more. With a timeout in seconds it waits so long for the
    /// tasks that name it. Closing it again does nothing.
    ///
    /// While tasks name it or views of it are alive this is a BufferError, and nothing has changed; a TimeoutError if the tasks took too
    /// long; a RuntimeError in a fork of the process that made it.
    #[pyo3(signature = (timeout = None))]
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        match timeout {
            None => self.release(py).or_raise(),
            Some(seconds) => self.release_when_idle(py, deadline(seconds)?),
        }
    }

    /// The allocation's name.
    #[getter]
    fn identity(&self) -> PyIdentity {
        PyIdentity(self.identity)
    }

    /// Its size, bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.nbytes
    }

    /// It was closed.
    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        self.held.with(py, |held| matches!(held, Held::Closed))
    }

    /// Refuses: an array of it is one of `mapped()`, since it alone says what elements there are. A TypeError.
    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__(&self, dtype: Option<&Bound<'_, PyAny>>, copy: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let (_, _) = (dtype, copy);
        Err(PyTypeError::new_err(
            "a Buffer is no array: mapped(shapes, dtype) gives a view, whose numpy() is one",
        ))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        match self.release(py) {
            // The end of a fork is not the end of what its parent owns.
            Err(ReleaseError::Forked { .. }) => Ok(()),
            released => released.or_raise(),
        }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let state = if self.closed(py) { ", closed" } else { "" };
        format!("Buffer({}, {} bytes{state})", self.identity, self.nbytes)
    }
}

/// The moment in so many seconds.
pub(crate) fn deadline(seconds: f64) -> PyResult<Instant> {
    let duration =
        Duration::try_from_secs_f64(seconds).ok().and_then(|wait| Instant::now().checked_add(wait));
    duration.ok_or_else(|| PyValueError::new_err(format!("timeout: {seconds} s is no time to wait")))
}

/// Makes a buffer of POSIX shared memory: `nbytes` bytes, zero, that grants `access` to its consumers.
///
/// No bytes at all are a ValueError; what the system has not, memory or descriptors, is an OSError or a MemoryError.
#[pyfunction]
#[pyo3(
    signature = (nbytes, access = Value(Access::ReadWrite)),
    text_signature = "(nbytes, access=bufabi.AccessMode.READWRITE)"
)]
pub(crate) fn create_host_shared_buffer(
    #[pyo3(from_py_with = number::nbytes)] nbytes: u64,
    access: Value<Access>,
) -> PyResult<PyBuffer> {
    let endpoint = here()?;
    let buffer = endpoint.create_buffer(nbytes, access.0).or_raise()?;
    Ok(PyBuffer::owned(endpoint, buffer))
}

/// Gives a name to memory that is there already, for the processes that are forked from now on: the bytes of anything that has the
/// buffer protocol and is C-contiguous, such as an array of numpy or `tensor.numpy()` of torch.
///
/// Memory that a fork shares becomes FORK_SHM, all other FORK_COW, which grants reading alone: forks see it as it was when they
/// began. The object is kept until the buffer is closed.
///
/// Memory that is not dense is a BufferError; no bytes at all, or more access than the memory has, a ValueError.
#[pyfunction]
#[pyo3(signature = (memory, access = None))]
pub(crate) fn wrap_fork_inherited(
    memory: &Bound<'_, PyAny>,
    access: Option<Value<Access>>,
) -> PyResult<PyBuffer> {
    wrap_memory(here()?, memory, access.map(|access| access.0))
}

/// As [`wrap_fork_inherited`], for an endpoint.
pub(crate) fn wrap_memory(
    endpoint: Endpoint,
    memory: &Bound<'_, PyAny>,
    access: Option<Access>,
) -> PyResult<PyBuffer> {
    let (mapping, is_read_only) = memory_of(memory)?;
    let (address, nbytes) = (mapping.address(), mapping.nbytes());
    let sharing = if is_shared(address, nbytes).or_raise()? { Sharing::Shared } else { Sharing::Copied };
    let most = match sharing {
        Sharing::Shared if !is_read_only => Access::ReadWrite,
        Sharing::Shared | Sharing::Copied => Access::Read,
    };
    let access = access.unwrap_or(most);
    if sharing == Sharing::Shared && !most.grants(access) {
        let message = format_args!("the memory is read-only, and {access} was to be granted");
        return Err(raise(Code::Denied, &message));
    }
    let region = InheritedRegion::of_memory(endpoint.owner_instance_id(), mapping, sharing);
    let wrapped = endpoint.wrap_fork_inherited(&region, 0, nbytes, access).or_raise()?;
    Ok(PyBuffer::wrapped(endpoint, wrapped, Some(region)))
}

/// Gives a name to memory that somebody else allocated on this process's chip: `nbytes` bytes from the device address `base` on.
///
/// An address or a size of 0 is a ValueError. Closing it frees nothing.
#[pyfunction]
#[pyo3(
    signature = (base, nbytes, access = Value(Access::ReadWrite)),
    text_signature = "(base, nbytes, access=bufabi.AccessMode.READWRITE)"
)]
pub(crate) fn wrap_device_malloc(
    #[pyo3(from_py_with = number::base)] base: u64,
    #[pyo3(from_py_with = number::nbytes)] nbytes: u64,
    access: Value<Access>,
) -> PyResult<PyBuffer> {
    let base = device_base(base, BackendKind::DeviceMalloc)?;
    let endpoint = here()?;
    let wrapped = endpoint.wrap_device_malloc(base, nbytes, access.0).or_raise()?;
    Ok(PyBuffer::wrapped(endpoint, wrapped, None))
}

/// Gives a name to a part of a communication domain's window on this process's chip: `nbytes` bytes from the device address `base` on.
///
/// An address or a size of 0 is a ValueError. Closing it frees nothing.
#[pyfunction]
#[pyo3(
    signature = (base, nbytes, access = Value(Access::ReadWrite)),
    text_signature = "(base, nbytes, access=bufabi.AccessMode.READWRITE)"
)]
pub(crate) fn wrap_vmm_window(
    #[pyo3(from_py_with = number::base)] base: u64,
    #[pyo3(from_py_with = number::nbytes)] nbytes: u64,
    access: Value<Access>,
) -> PyResult<PyBuffer> {
    let base = device_base(base, BackendKind::VmmWindow)?;
    let endpoint = here()?;
    let wrapped = endpoint.wrap_vmm_window(base, nbytes, access.0).or_raise()?;
    Ok(PyBuffer::wrapped(endpoint, wrapped, None))
}

/// Gives a name to device memory that somebody else allocated and exports, by its handle. The identity is the one that it has
/// there. `nbytes` are its bytes, and `mapping_bytes` those that a mapping of it takes, which are no fewer.
///
/// A handle of 0, no bytes, or fewer of them mapped than there are, are a ValueError. Closing it frees nothing.
#[pyfunction]
#[pyo3(signature = (*, identity, nbytes, access, device_id, shareable_handle, mapping_bytes, owner_worker_path_id = 0))]
pub(crate) fn wrap_vmm_shareable(
    identity: PyRef<'_, PyIdentity>,
    #[pyo3(from_py_with = number::nbytes)] nbytes: u64,
    access: Value<Access>,
    #[pyo3(from_py_with = number::device_id)] device_id: i32,
    #[pyo3(from_py_with = number::shareable_handle)] shareable_handle: u64,
    #[pyo3(from_py_with = number::mapping_bytes)] mapping_bytes: u64,
    #[pyo3(from_py_with = number::owner_worker_path_id)] owner_worker_path_id: u32,
) -> PyResult<PyBuffer> {
    let handle = NonZeroU64::new(shareable_handle);
    let shareable = Shareable {
        identity: identity.0,
        access: access.0,
        nbytes,
        device_id,
        handle: handle.ok_or_else(|| failed(&DescriptorError::BodyShareableHandle))?,
        mapping_bytes,
    };
    let endpoint = here()?;
    let wrapped = endpoint.wrap_vmm_shareable(&shareable, owner_worker_path_id).or_raise()?;
    Ok(PyBuffer::wrapped(endpoint, wrapped, None))
}

fn device_base(base: u64, backend_kind: BackendKind) -> PyResult<NonZeroU64> {
    NonZeroU64::new(base).ok_or_else(|| failed(&DescriptorError::BodyNullBase { backend_kind }))
}
