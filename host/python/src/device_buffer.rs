//! `DeviceBuffer`: memory of a chip, in the hands of the program above it.

use bufabi_core::{DType, Identity};
use bufabi_host::device::memory::CopyError;
use bufabi_host::worker::DeviceBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

use crate::arrays::bytes_of;
use crate::descriptor::PyDescriptor;
use crate::error::{OrRaise, raise};
use crate::identity::PyIdentity;
use crate::number::{self, Value};
use crate::tensor::{PyTensor, view};

/// Memory of a chip: its name, and what tensors of it are made from. `Worker.free` frees it, and losing it does nothing.
#[pyclass(frozen, name = "DeviceBuffer", module = "bufabi")]
pub(crate) struct PyDeviceBuffer(pub(crate) DeviceBuffer);

#[pymethods]
impl PyDeviceBuffer {
    /// A view as a task argument: `shapes` elements of each of 1 to 5 dimensions, row-major from `byte_offset` bytes on unless `strides`
    /// says how many elements lie from one index to the next.
    ///
    /// A view that is not legal or leaves the buffer is a ValueError. One of memory that was freed is refused when a task with it is
    /// submitted, and not before.
    #[pyo3(signature = (shapes, dtype, strides = None, byte_offset = 0))]
    fn tensor(
        &self,
        shapes: &Bound<'_, PyAny>,
        dtype: Value<DType>,
        strides: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = number::byte_offset)] byte_offset: u64,
    ) -> PyResult<PyTensor> {
        let view = view(byte_offset, shapes, strides, dtype.0, self.0.nbytes())?;
        self.0.tensor(&view).or_raise().map(PyTensor)
    }

    /// What names it on the wire, whether it was freed meanwhile or not.
    fn to_descriptor(&self) -> PyDescriptor {
        PyDescriptor(*self.0.descriptor())
    }

    /// The allocation's name.
    #[getter]
    fn identity(&self) -> PyIdentity {
        PyIdentity(self.0.identity())
    }

    /// Its size, bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.0.nbytes()
    }

    fn __repr__(&self) -> String {
        format!("DeviceBuffer({}, {} bytes)", self.0.identity(), self.0.nbytes())
    }
}

/// What memory an object names, and where in it its first byte lies.
pub(crate) fn place_of(memory: &Bound<'_, PyAny>) -> PyResult<(Identity, u64)> {
    if let Ok(buffer) = memory.cast::<PyDeviceBuffer>() {
        return Ok((buffer.get().0.identity(), 0));
    }
    if let Ok(tensor) = memory.cast::<PyTensor>() {
        let tensor = &tensor.get().0;
        return Ok((tensor.descriptor().identity(), tensor.view().byte_offset()));
    }
    let found = memory.get_type();
    Err(PyTypeError::new_err(format!("a DeviceBuffer or a Tensor is needed, not {found}")))
}

/// What memory an object names has so many bytes at all, before they are copied. Where they lie in it is the chip's to say.
pub(crate) fn check_length(memory: &Bound<'_, PyAny>, offset: u64, length: usize) -> PyResult<()> {
    let nbytes = match memory.cast::<PyTensor>() {
        Ok(tensor) => tensor.get().0.descriptor().nbytes(),
        Err(_) => memory.cast::<PyDeviceBuffer>()?.get().0.nbytes(),
    };
    let length = u64::try_from(length).unwrap_or(u64::MAX);
    if length <= nbytes {
        return Ok(());
    }
    let error = CopyError::OutOfRange { offset, length, nbytes };
    Err(raise(error.code(), &error))
}

/// A copy of the bytes of an object, of which the named memory has as many.
pub(crate) fn bytes_for<'py>(
    memory: &Bound<'_, PyAny>,
    offset: u64,
    data: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let view = PyMemoryView::from(data)?;
    check_length(memory, offset, view.getattr("nbytes")?.extract()?)?;
    bytes_of(&view)
}
