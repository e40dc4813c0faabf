//! `Tensor`: a whole descriptor and a strided view, as a task argument.

use bufabi_core::overlap::may_overlap_itself;
use bufabi_core::{Access, DType, RawTensor, Tensor, TensorError, View};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::descriptor::PyDescriptor;
use crate::error::{OrRaise, failed};
use crate::identity::{PyIdentity, pickled};
use crate::number::{self, Numbers, Value, with_bytes};

/// What a task argument is at L3 and above: 144 bytes, and never an address. All rules of the wire ABI hold:
/// the first that is broken is a ValueError.
///
/// `byte_offset` counts bytes from the backing's start and is a multiple of the element's size; `shapes` and `strides` count elements,
/// of 1 to 5 dimensions, none of them 0. Strides are those of a dense row-major tensor unless given.
#[pyclass(frozen, name = "Tensor", module = "bufabi")]
pub(crate) struct PyTensor(pub(crate) Tensor);

/// The view of so many bytes that those arguments describe; row-major without strides.
#[inline]
pub(crate) fn view(
    byte_offset: u64,
    shapes: &Bound<'_, PyAny>,
    strides: Option<&Bound<'_, PyAny>>,
    dtype: DType,
    nbytes: u64,
) -> PyResult<View> {
    let shapes = Numbers::read(shapes, "shapes")?;
    match strides {
        None => View::row_major(byte_offset, dtype, shapes.as_slice(), nbytes).or_raise(),
        Some(strides) => {
            let strides = Numbers::read(strides, "strides")?;
            let (found, ndims) = (strides.as_slice().len(), shapes.as_slice().len());
            if found != ndims {
                return Err(PyValueError::new_err(format!(
                    "strides: {found} are given for {ndims} dimensions"
                )));
            }
            View::new(byte_offset, dtype, shapes.as_slice(), strides.as_slice(), nbytes).or_raise()
        }
    }
}

#[pymethods]
impl PyTensor {
    #[new]
    #[pyo3(signature = (*, buffer, byte_offset = 0, shapes, strides = None, dtype))]
    fn new(
        buffer: PyRef<'_, PyDescriptor>,
        #[pyo3(from_py_with = number::byte_offset)] byte_offset: u64,
        shapes: &Bound<'_, PyAny>,
        strides: Option<&Bound<'_, PyAny>>,
        dtype: Value<DType>,
    ) -> PyResult<Self> {
        let view = view(byte_offset, shapes, strides, dtype.0, buffer.0.nbytes())?;
        Ok(Self(Tensor::new(&buffer.0, &view).or_raise()?))
    }

    /// The tensor of exactly 144 bytes, which are checked: the first rule that is broken is a ValueError.
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let size = |found| failed(&TensorError::Size { found });
        with_bytes(data, size_of::<RawTensor>(), size, |bytes| Tensor::decode(bytes).or_raise().map(Self))
    }

    /// The 144 bytes, padding and tails zero.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.encode())
    }

    /// The backing.
    #[getter]
    fn buffer(&self) -> PyDescriptor {
        PyDescriptor(self.0.descriptor().to_owned())
    }

    /// The backing's name.
    #[getter]
    fn identity(&self) -> PyIdentity {
        PyIdentity(self.0.descriptor().identity())
    }

    /// What the backing's owner grants.
    #[getter]
    fn access(&self) -> Value<Access> {
        Value(self.0.descriptor().access())
    }

    /// Bytes from the backing's start to the first element.
    #[getter]
    fn byte_offset(&self) -> u64 {
        self.0.view().byte_offset()
    }

    /// Dimensions, 1 to 5.
    #[getter]
    fn ndims(&self) -> u8 {
        self.0.view().ndims()
    }

    /// Elements of each dimension.
    #[getter]
    fn shapes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.view().shapes())
    }

    /// Elements from one index to the next, of each dimension.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.view().strides())
    }

    /// The elements' type.
    #[getter]
    fn dtype(&self) -> Value<DType> {
        Value(self.0.dtype())
    }

    /// Bytes of an element.
    #[getter]
    fn itemsize(&self) -> u32 {
        self.0.dtype().size()
    }

    /// Bytes from the first element's first to the last one's last.
    #[getter]
    fn extent(&self) -> u64 {
        self.0.view().extent()
    }

    /// The strides are exactly the row-major ones of the shape.
    #[getter]
    fn is_contiguous(&self) -> bool {
        self.0.view().is_contiguous()
    }

    /// Two indices name one element, or that could not be ruled out within a fixed bound of work. Kernels refuse to write such a
    /// tensor; False is certain.
    #[getter]
    fn may_overlap_itself(&self) -> bool {
        may_overlap_itself(&self.0.view())
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.to_bytes(py).hash()
    }

    fn __repr__(&self) -> String {
        let (descriptor, view) = (self.0.descriptor(), self.0.view());
        format!(
            "Tensor({}, {}, byte_offset={}, shapes={:?}, strides={:?}, {})",
            descriptor.identity(),
            descriptor.backend_kind(),
            view.byte_offset(),
            view.shapes(),
            view.strides(),
            view.dtype(),
        )
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        pickled::<Self>(py, self.to_bytes(py))
    }
}
