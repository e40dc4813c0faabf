//! `ChipTensor` and `ChipStorageTaskArgs`: what a chip's runtime reads.

use std::sync::Arc;

use bufabi_core::wire::backend::AddressSpace;
use bufabi_core::{ChipStorageTaskArgs, ChipTensor, DType};
use bufabi_host::memory::Mapping;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyTuple};
use zerocopy::IntoBytes;

use crate::error::OrRaise;
use crate::mapped_arg::{no_such, position};
use crate::number::{self, Value};
use crate::tensor::PyTensor;

/// A tensor as a chip reads it: 128 bytes. The memory that it points to stays mapped as long as it lives.
#[pyclass(frozen, name = "ChipTensor", module = "bufabi")]
pub(crate) struct PyChipTensor {
    /// Python's allocator aligns to 16 bytes, and this wants 64.
    tensor: Box<ChipTensor>,
    /// `None` for memory of a device.
    _mapping: Option<Arc<Mapping>>,
}

impl PyChipTensor {
    pub(crate) fn new(tensor: ChipTensor, mapping: Option<Arc<Mapping>>) -> Self {
        Self { tensor: Box::new(tensor), _mapping: mapping }
    }
}

/// The numbers of those slots that are in use.
fn slots<'py, T: Copy + Into<u32>>(
    py: Python<'py>,
    slots: &[T; bufabi_core::view::MAX_NDIMS],
    ndims: u32,
) -> PyResult<Bound<'py, PyTuple>> {
    let used = usize::try_from(ndims).unwrap_or(usize::MAX);
    PyTuple::new(py, slots.iter().take(used).map(|&slot| slot.into()).collect::<Vec<u32>>())
}

#[pymethods]
impl PyChipTensor {
    /// A tensor as a chip reads it, whose backing's first byte lies at the address `base`. Nothing is mapped or kept: that address is
    /// the caller's affair. One that the tensor's last byte is past the end of memory from is a ValueError.
    #[staticmethod]
    fn from_tensor(
        tensor: PyRef<'_, PyTensor>,
        #[pyo3(from_py_with = number::base)] base: u64,
    ) -> PyResult<Self> {
        ChipTensor::materialize(&tensor.0, base).or_raise().map(|tensor| Self::new(tensor, None))
    }

    /// The first element's address.
    #[getter]
    fn addr(&self) -> u64 {
        self.tensor.addr.get()
    }

    /// The extent, bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.tensor.size.get()
    }

    /// 2^64-1: no task of the chip's runtime made it.
    #[getter]
    fn owner_task_id(&self) -> u64 {
        self.tensor.owner_task_id.get()
    }

    /// 0: the address holds the offset already.
    #[getter]
    fn start_offset(&self) -> u64 {
        self.tensor.start_offset.get()
    }

    /// The record's field of that name: 0.
    #[getter]
    fn version(&self) -> i32 {
        self.tensor.version.get()
    }

    /// Dimensions, 1 to 5.
    #[getter]
    fn ndims(&self) -> u32 {
        self.tensor.ndims.get()
    }

    /// The elements' type.
    #[getter]
    fn dtype(&self) -> Option<Value<DType>> {
        self.tensor.element_type().map(Value)
    }

    /// Where the address lies.
    #[getter]
    fn address_space(&self) -> Option<Value<AddressSpace>> {
        self.tensor.space().map(Value)
    }

    /// The strides are exactly the row-major ones of the shape.
    #[getter]
    fn is_contiguous(&self) -> bool {
        self.tensor.is_contiguous != 0
    }

    /// The record's field of that name: false.
    #[getter]
    fn manual_dep(&self) -> bool {
        self.tensor.manual_dep != 0
    }

    /// Elements of each dimension.
    #[getter]
    fn shapes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        slots(py, &self.tensor.shapes, self.ndims())
    }

    /// Elements from one index to the next, of each dimension.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        slots(py, &self.tensor.strides, self.ndims())
    }

    /// Elements from the first to the last.
    #[getter]
    fn extent_elem(&self) -> u64 {
        self.tensor.extent_elem.get()
    }

    /// The 128 bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.tensor.as_bytes())
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.tensor.as_bytes() == other.tensor.as_bytes()
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.to_bytes(py).hash()
    }

    fn __repr__(&self) -> String {
        format!("ChipTensor(addr={:#x}, size={}, ndims={})", self.addr(), self.size(), self.ndims())
    }
}

/// A task's arguments as a chip's runtime reads them: 33,856 bytes. The memory that they point to stays mapped as long as this
/// lives.
#[pyclass(frozen, sequence, name = "ChipStorageTaskArgs", module = "bufabi")]
pub(crate) struct PyChipStorageTaskArgs {
    arguments: Box<ChipStorageTaskArgs>,
    mappings: Vec<Option<Arc<Mapping>>>,
}

impl PyChipStorageTaskArgs {
    pub(crate) const fn new(
        arguments: Box<ChipStorageTaskArgs>,
        mappings: Vec<Option<Arc<Mapping>>>,
    ) -> Self {
        Self { arguments, mappings }
    }
}

#[pymethods]
impl PyChipStorageTaskArgs {
    /// How many tensors there are.
    #[getter]
    fn tensor_count(&self) -> usize {
        self.arguments.tensors().len()
    }

    /// How many scalars there are.
    #[getter]
    fn scalar_count(&self) -> usize {
        self.arguments.scalars().len()
    }

    /// Tensor number `index`, a negative one counting from the end. An IndexError if there is none.
    fn tensor(&self, #[pyo3(from_py_with = number::index)] index: isize) -> PyResult<PyChipTensor> {
        let tensors = self.arguments.tensors();
        let place = position(index, tensors.len());
        let found = place.and_then(|place| tensors.get(place).zip(self.mappings.get(place)));
        let (tensor, mapping) = found.ok_or_else(|| no_such("tensor", index, tensors.len()))?;
        Ok(PyChipTensor::new(*tensor, mapping.clone()))
    }

    /// Scalar number `index`, a number of 64 bits. An IndexError if there is none.
    fn scalar(&self, #[pyo3(from_py_with = number::index)] index: isize) -> PyResult<u64> {
        let scalars = self.arguments.scalars();
        let found = position(index, scalars.len()).and_then(|place| scalars.get(place));
        found.map(|scalar| scalar.get()).ok_or_else(|| no_such("scalar", index, scalars.len()))
    }

    /// The 33,856 bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.arguments.as_bytes())
    }

    fn __len__(&self) -> usize {
        self.tensor_count()
    }

    fn __getitem__(&self, #[pyo3(from_py_with = number::index)] index: isize) -> PyResult<PyChipTensor> {
        self.tensor(index)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let tensors = self.arguments.tensors().iter().zip(&self.mappings);
        let tensors = tensors.map(|(tensor, mapping)| PyChipTensor::new(*tensor, mapping.clone()));
        PyTuple::new(py, tensors.collect::<Vec<_>>())?.try_iter()
    }

    fn __repr__(&self) -> String {
        format!("ChipStorageTaskArgs({} tensors, {} scalars)", self.tensor_count(), self.scalar_count())
    }
}
