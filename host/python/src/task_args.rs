//! `TaskArgs`: a task's arguments on their way to being submitted, and the blob that they travel as.

use bufabi_core::task_args::Scratch;
use bufabi_core::wire::blob::{self, encoded_size};
use bufabi_core::wire::chip_args::MAX_TENSORS;
use bufabi_core::{Blob, DType, Tag, TaskArgs, Tensor};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::arrays::writable_bytes;
use crate::error::{OrRaise, failed};
use crate::mapped_arg::{no_such, position};
use crate::number::{self, Value, several, with_bytes};
use crate::scalar::{scalar_bits, scalar_value};
use crate::tensor::PyTensor;

/// A task's arguments: tensors first, each with a tag, then scalars.
///
/// Rights are checked when a tensor is added, and again, on the final tags, when the task is submitted.
#[pyclass(name = "TaskArgs", module = "bufabi")]
pub(crate) struct PyTaskArgs(pub(crate) Box<TaskArgs>);

impl PyTaskArgs {
    fn tensor_at(&self, index: isize) -> PyResult<usize> {
        let len = self.0.tensors().len();
        position(index, len).filter(|&index| index < len).ok_or_else(|| no_such("tensor", index, len))
    }
}

#[pymethods]
impl PyTaskArgs {
    #[new]
    fn new() -> Self {
        Self(Box::default())
    }

    /// Adds a tensor behind those that are there, and says its index. A ValueError if its owner does not grant what the tag needs, a
    /// MemoryError behind 256 tensors.
    #[pyo3(signature = (tensor, tag))]
    fn add_tensor(&mut self, tensor: PyRef<'_, PyTensor>, tag: Value<Tag>) -> PyResult<usize> {
        self.0.add_tensor(&tensor.0, tag.0).or_raise()
    }

    /// Adds a scalar behind those that are there, and says its index among them. 64 bits travel: with a `dtype` those of the value in
    /// that type, as kernels on such elements take it; without one those of a whole number, of either sign, or of a float, or the
    /// scalar of numpy's own. A ValueError for a number that does not fit, a MemoryError where there is no room for more.
    #[pyo3(signature = (scalar, dtype = None))]
    fn add_scalar(&mut self, scalar: &Bound<'_, PyAny>, dtype: Option<Value<DType>>) -> PyResult<usize> {
        let bits = scalar_bits(scalar, dtype.map(|dtype| dtype.0))?;
        self.0.add_scalar(bits).or_raise()
    }

    /// Tensor number `index`, a negative one counting from the end. An IndexError if there is none.
    fn tensor(&self, #[pyo3(from_py_with = number::index)] index: isize) -> PyResult<PyTensor> {
        let place = self.tensor_at(index)?;
        let found = self.0.tensors().get(place);
        found.map(|tensor| PyTensor(*tensor)).ok_or_else(|| no_such("tensor", index, place))
    }

    /// Scalar number `index`, a negative one counting from the end: the bits that travel, or with a `dtype` the value of that type. An
    /// IndexError if there is none, a ValueError for bits that are no value of the type.
    #[pyo3(signature = (index, dtype = None))]
    fn scalar<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = number::index)] index: isize,
        dtype: Option<Value<DType>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let scalars = self.0.scalars();
        let found = position(index, scalars.len()).and_then(|index| scalars.get(index));
        let bits = found.copied().ok_or_else(|| no_such("scalar", index, scalars.len()))?;
        scalar_value(py, bits, dtype.map(|dtype| dtype.0))
    }

    /// The tag of tensor number `index`, a negative one counting from the end. An IndexError if there is none.
    fn tag(&self, #[pyo3(from_py_with = number::index)] index: isize) -> PyResult<Value<Tag>> {
        let place = self.tensor_at(index)?;
        let found = self.0.tags().get(place);
        found.map(|tag| Value(*tag)).ok_or_else(|| no_such("tensor", index, place))
    }

    /// Changes a tensor's tag. Whether its owner grants what the new one needs is seen when the task is submitted.
    /// An IndexError if there is no such tensor.
    fn set_tag(
        &mut self,
        #[pyo3(from_py_with = number::index)] index: isize,
        tag: Value<Tag>,
    ) -> PyResult<()> {
        let place = self.tensor_at(index)?;
        self.0.set_tag(place, tag.0).or_raise()
    }

    /// How many tensors there are.
    #[getter]
    fn tensor_count(&self) -> usize {
        self.0.tensors().len()
    }

    /// How many scalars there are.
    #[getter]
    fn scalar_count(&self) -> usize {
        self.0.scalars().len()
    }

    /// The tensors, in order.
    #[getter]
    fn tensors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.tensors().iter().map(|tensor| PyTensor(*tensor)).collect::<Vec<_>>())
    }

    /// The scalars, in order.
    #[getter]
    fn scalars<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.scalars())
    }

    /// Checks them as a submit does: limits, rights, and that none writes a byte that another one names. The first rule that is broken
    /// is a ValueError.
    fn check(&self) -> PyResult<()> {
        let mut scratch = Box::<Scratch>::default();
        self.0.submit(&mut scratch).or_raise().map(|_| ())
    }

    /// Removes all of them. Their room stays, so it never fails.
    fn clear(&mut self) {
        self.0.clear();
    }

    /// What is pickled and copied: the blob, and the tags.
    fn __getstate__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyTuple>)> {
        let tags = self.0.tags().iter().copied().map(Value).collect::<Vec<_>>();
        Ok((encoded(py, &self.0)?, PyTuple::new(py, tags)?))
    }

    /// One that is empty, and its state: so it goes with any protocol.
    fn __reduce__<'py>(slf: PyRef<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        (py.get_type::<Self>(), PyTuple::empty(py), slf.__getstate__(py)?).into_pyobject(py)
    }

    fn __setstate__(&mut self, state: (Bound<'_, PyBytes>, Bound<'_, PyAny>)) -> PyResult<()> {
        let (blob, tags) = state;
        let tags = several(&tags, "tags", MAX_TENSORS, |tag| tag.extract::<Value<Tag>>())?;
        let mut arguments = from_blob(blob.as_bytes())?;
        for (index, tag) in tags.iter().enumerate() {
            arguments.set_tag(index, tag.0).or_raise()?;
        }
        self.0 = arguments;
        Ok(())
    }

    /// The same tensors, tags and scalars, in the same order. What can change has no hash.
    fn __eq__(&self, other: PyRef<'_, Self>) -> bool {
        let (here, there) = (&self.0, &other.0);
        (here.tensors(), here.tags(), here.scalars()) == (there.tensors(), there.tags(), there.scalars())
    }

    fn __len__(&self) -> usize {
        self.0.tensors().len().saturating_add(self.0.scalars().len())
    }

    fn __repr__(&self) -> String {
        format!("TaskArgs({} tensors, {} scalars)", self.0.tensors().len(), self.0.scalars().len())
    }
}

/// The arguments as they travel: two counts, the tensors, the scalars. Tags do not.
///
/// With `into`, any writable object of bytes, they are written at its start and their size in bytes is returned. One that is too small
/// is a ValueError, one that is read-only a BufferError, and neither is touched.
#[pyfunction]
#[pyo3(signature = (args, into = None))]
pub(crate) fn write_blob<'py>(
    py: Python<'py>,
    args: PyRef<'_, PyTaskArgs>,
    into: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let encoded = encoded(py, &args.0)?;
    let Some(into) = into else { return Ok(encoded.into_any()) };
    let (size, tensors, scalars) = (encoded.as_bytes().len(), args.0.tensors().len(), args.0.scalars().len());
    // Python writes it itself, through a view of the object: what it does with views of ours, it does here.
    let view = writable_bytes(into)?;
    let available = view.len()?;
    if available < size {
        return Err(failed(&blob::EncodeError { tensors, scalars, available }));
    }
    view.set_item(pyo3::types::PySlice::new(py, 0, isize::try_from(size)?, 1), encoded)?;
    Ok(size.into_pyobject(py)?.into_any())
}

/// The arguments of a blob, which is checked: the first rule that is broken is a ValueError. Tags do not travel: each is NO_DEP until it
/// is set.
#[pyfunction]
pub(crate) fn read_args_from_blob(blob: &Bound<'_, PyAny>) -> PyResult<PyTaskArgs> {
    with_blob(blob, |bytes| from_blob(bytes).map(PyTaskArgs))
}

/// The blob of some arguments.
fn encoded<'py>(py: Python<'py>, args: &TaskArgs) -> PyResult<Bound<'py, PyBytes>> {
    let (tensors, scalars) = (args.tensors(), args.scalars());
    let size = encoded_size(tensors.len(), scalars.len());
    let size = size.ok_or_else(|| PyValueError::new_err("too_many_arguments: more than two counts tell"))?;
    PyBytes::new_with(py, size, |bytes| blob::encode(tensors, scalars, bytes).or_raise().map(|_| ()))
}

/// The bytes of a blob, behind which others may lie.
pub(crate) fn with_blob<R>(blob: &Bound<'_, PyAny>, work: impl FnOnce(&[u8]) -> PyResult<R>) -> PyResult<R> {
    // There is no more than Python itself counts; what does not fit the machine is a MemoryError.
    with_bytes(blob, usize::MAX, |_| PyMemoryError::new_err("blob"), work)
}

/// The arguments of a blob, without tags.
fn from_blob(bytes: &[u8]) -> PyResult<Box<TaskArgs>> {
    let blob = Blob::from_bytes(bytes).or_raise()?;
    let mut arguments = Box::<TaskArgs>::default();
    for tensor in blob.tensors() {
        arguments.add_tensor(&Tensor::to_owned(&tensor), Tag::NoDep).or_raise()?;
    }
    for scalar in blob.scalars() {
        arguments.add_scalar(scalar).or_raise()?;
    }
    Ok(arguments)
}
