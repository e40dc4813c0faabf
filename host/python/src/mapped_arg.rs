//! `MappedArg` and `MappedArgs`: a task's arguments as memory of this process, which numpy and torch use where it lies.

use core::ffi::c_int;
use std::sync::Arc;

use bufabi_core::view::MAX_NDIMS;
use bufabi_core::{Access, DType, View, ViewError};
use bufabi_host::memory::Mapping;
use pyo3::exceptions::{
    PyBufferError, PyIndexError, PyModuleNotFoundError, PyOverflowError, PyTypeError, PyValueError,
};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyTuple};

use crate::ffi::{DLPACK_CPU, dlpack_capsule, fill_buffer};
use crate::number::{self, Value};
use crate::scalar::scalar_value;

/// A view of memory that this process has mapped, and the right to it. The mapping stays as long as this does.
#[derive(Clone)]
pub(crate) struct Reach {
    mapping: Arc<Mapping>,
    view: View,
    access: Access,
    /// The first element's address.
    address: usize,
}

impl Reach {
    /// A view of a mapping, for no more than `limit`.
    #[inline]
    pub(crate) fn new(mapping: Arc<Mapping>, view: View, limit: Access) -> Result<Self, ViewError> {
        let operand = mapping.operand(view)?.limited_to(limit);
        let (access, base) = (operand.access(), operand.base().as_ptr().expose_provenance());
        // The view ends within the mapping, so its start is an address.
        let address = base.wrapping_add(usize::try_from(view.byte_offset()).unwrap_or(usize::MAX));
        Ok(Self { mapping, view, access, address })
    }

    /// Where the elements lie, from the backing's start on.
    pub(crate) const fn view(&self) -> &View {
        &self.view
    }

    /// What may be done with them.
    pub(crate) const fn access(&self) -> Access {
        self.access
    }

    /// The first element's address.
    pub(crate) const fn address(&self) -> usize {
        self.address
    }

    /// The mapping, kept.
    pub(crate) fn mapping(&self) -> Arc<Mapping> {
        Arc::clone(&self.mapping)
    }
}

/// A view's geometry as Python counts it.
pub(crate) struct Layout {
    ndims: u8,
    shape: [isize; MAX_NDIMS],
    byte_strides: [isize; MAX_NDIMS],
    itemsize: isize,
}

impl Layout {
    #[inline]
    fn new(view: &View) -> Self {
        let itemsize = isize::try_from(view.dtype().size()).unwrap_or(isize::MAX);
        // 32 bits times at most 8 bytes fit.
        let signed = |number: u32| isize::try_from(number).unwrap_or(isize::MAX);
        let byte_strides = view.stride_slots().map(|stride| signed(stride).wrapping_mul(itemsize));
        Self { ndims: view.ndims(), shape: view.shape_slots().map(signed), byte_strides, itemsize }
    }

    /// Dimensions.
    pub(crate) fn ndims(&self) -> c_int {
        c_int::from(self.ndims)
    }

    /// Elements of each dimension.
    pub(crate) fn shape(&self) -> &[isize] {
        self.shape.get(..usize::from(self.ndims)).unwrap_or(&self.shape)
    }

    /// Bytes from one index to the next, of each dimension.
    pub(crate) fn byte_strides(&self) -> &[isize] {
        self.byte_strides.get(..usize::from(self.ndims)).unwrap_or(&self.byte_strides)
    }

    /// Bytes of all elements, counted as often as an index names them.
    pub(crate) fn nbytes(&self) -> Option<isize> {
        self.shape().iter().try_fold(self.itemsize, |product, &shape| product.checked_mul(shape))
    }

    /// The elements lie without a gap, the last index running fastest. The stride of a dimension of one element does not matter.
    pub(crate) fn is_c_contiguous(&self) -> bool {
        self.is_dense(self.shape().iter().zip(self.byte_strides()).rev())
    }

    /// As [`is_c_contiguous`](Self::is_c_contiguous), the first index running fastest.
    pub(crate) fn is_fortran_contiguous(&self) -> bool {
        self.is_dense(self.shape().iter().zip(self.byte_strides()))
    }

    fn is_dense<'a>(&self, mut dimensions: impl Iterator<Item = (&'a isize, &'a isize)>) -> bool {
        let dense = dimensions.try_fold(self.itemsize, |step, (&shape, &stride)| {
            if shape == 1 || stride == step { step.checked_mul(shape) } else { None }
        });
        dense.is_some()
    }
}

/// One argument as memory of this process: typed, shaped, strided, read-only where the right is READ, and exactly the view's bytes.
///
/// `numpy.asarray` and `torch.from_dlpack` take any of them without a copy, `memoryview` those whose type has a format,
/// `torch.frombuffer` contiguous ones. The memory stays as long as this or anything made from it lives.
#[pyclass(frozen, name = "MappedArg", module = "bufabi")]
pub(crate) struct PyMappedArg {
    reach: Reach,
    layout: Layout,
}

impl PyMappedArg {
    #[inline]
    pub(crate) fn new(reach: Reach) -> Self {
        let layout = Layout::new(&reach.view);
        Self { reach, layout }
    }
}

#[pymethods]
impl PyMappedArg {
    /// The elements' type.
    #[getter]
    fn dtype(&self) -> Value<DType> {
        Value(self.reach.view.dtype())
    }

    /// What the owner grants.
    #[getter]
    fn access(&self) -> Value<Access> {
        Value(self.reach.access)
    }

    /// Nothing may be stored in it.
    #[getter]
    fn readonly(&self) -> bool {
        !self.reach.access.writes()
    }

    /// Elements of each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.layout.shape())
    }

    /// Elements from one index to the next, of each dimension.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.reach.view.strides())
    }

    /// Dimensions, 1 to 5.
    #[getter]
    fn ndim(&self) -> u8 {
        self.layout.ndims
    }

    /// Bytes of an element.
    #[getter]
    fn itemsize(&self) -> u32 {
        self.reach.view.dtype().size()
    }

    /// Bytes of all elements.
    #[getter]
    fn nbytes(&self) -> PyResult<isize> {
        let nbytes = self.layout.nbytes();
        nbytes.ok_or_else(|| PyBufferError::new_err("the view has more bytes than a buffer counts"))
    }

    /// The first element's address.
    #[getter]
    fn address(&self) -> usize {
        self.reach.address
    }

    /// An array of numpy over it. BFLOAT16 and the eight-bit floats are ml_dtypes', where that is installed; else this is an
    /// ImportError, and `torch()` may still do.
    fn numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let array =
            needed(py, "numpy", "numpy() needs it; memoryview may do")?.call_method1("asarray", (slf,))?;
        match ml_dtype(slf.get().reach.view.dtype()) {
            None => Ok(array),
            Some(name) => {
                let types = needed(
                    py,
                    "ml_dtypes",
                    "numpy() of this type needs it; numpy.asarray gives its bytes, and torch() may do",
                )?;
                array.call_method1("view", (types.getattr(name)?,))
            }
        }
    }

    /// A tensor of torch over it; an ImportError if that is not installed. torch knows no memory that is read-only: do not store in one of
    /// those.
    fn torch<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        needed(slf.py(), "torch", "torch() needs it; numpy() may do")?.call_method1("from_dlpack", (slf,))
    }

    /// How numpy and others find it: NumPy's array interface, version 3.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Self { reach, layout } = self;
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", PyTuple::new(py, layout.shape())?)?;
        interface.set_item("strides", PyTuple::new(py, layout.byte_strides())?)?;
        interface.set_item("typestr", array_typestr(reach.view.dtype()))?;
        interface.set_item("data", (reach.address, !reach.access.writes()))?;
        Ok(interface)
    }

    /// A capsule of DLPack. What is read-only needs version 1.0, since earlier ones cannot say so. Nothing is ever copied here, and
    /// nothing leaves the CPU: asking for either is a BufferError.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<&Bound<'py, PyAny>>,
        dl_device: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(stream) = stream {
            return Err(PyBufferError::new_err(format!("a CPU has no streams, and {stream} was asked for")));
        }
        let dl_device = dl_device.map(|device| pair(device, "dl_device")).transpose()?;
        let max_version = max_version.map(|version| pair(version, "max_version")).transpose()?;
        if let Some((major, minor)) = max_version.filter(|&(major, minor)| major.min(minor) < 0) {
            return Err(PyValueError::new_err(format!("max_version: ({major}, {minor}) is no version")));
        }
        if let Some((kind, number)) = dl_device.filter(|device| *device != (i64::from(DLPACK_CPU), 0)) {
            let message = format!("the memory is on device (1, 0), and ({kind}, {number}) was asked for");
            return Err(PyBufferError::new_err(message));
        }
        if copy == Some(true) {
            return Err(PyBufferError::new_err("a copy was asked for, and none is made here"));
        }
        let is_versioned = max_version.is_some_and(|(major, _)| major >= 1);
        if !is_versioned && !self.reach.access.writes() {
            let message =
                "the owner grants READ, which DLPack can say from version 1.0 on: ask for max_version=(1, 0)";
            return Err(PyBufferError::new_err(message));
        }
        dlpack_capsule(py, &self.reach, &self.layout, is_versioned)
    }

    /// DLPack's name of the CPU, (1, 0). It never fails.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (DLPACK_CPU, 0)
    }

    /// The buffer protocol.
    ///
    /// # Safety
    /// The interpreter's: `view` is null or may be written.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let Self { reach, layout } = slf.get();
        // SAFETY: the interpreter's promise, and both are parts of the frozen object that is exported.
        unsafe { fill_buffer(slf.clone().into_any(), view, flags, reach, layout) }
    }

    fn __repr__(&self) -> String {
        let view = &self.reach.view;
        format!(
            "MappedArg({:?}, strides={:?}, {}, {})",
            view.shapes(),
            view.strides(),
            view.dtype(),
            self.reach.access
        )
    }
}

/// A package that need not be there.
fn needed<'py>(py: Python<'py>, name: &str, what_for: &str) -> PyResult<Bound<'py, PyModule>> {
    py.import(name).map_err(|error| {
        if error.is_instance_of::<PyModuleNotFoundError>(py) {
            // It may be another's that is missing: what was looked for is said first.
            return PyModuleNotFoundError::new_err(format!("{}: {what_for}", error.value(py)));
        }
        error
    })
}

/// Two numbers, as DLPack names versions and devices.
fn pair(given: &Bound<'_, PyAny>, name: &str) -> PyResult<(i64, i64)> {
    given.extract().map_err(|error: PyErr| {
        if error.is_instance_of::<PyOverflowError>(given.py()) {
            return PyValueError::new_err(format!("{name}: {given} does not fit 64 bits"));
        }
        PyTypeError::new_err(format!("{name}: a tuple of two ints is needed, not {given}"))
    })
}

/// A type's name in the array interface. Those that numpy does not have are bytes of their size there, as those of ml_dtypes are.
const fn array_typestr(dtype: DType) -> &'static str {
    match dtype {
        DType::Float32 => "<f4",
        DType::Float16 => "<f2",
        DType::Int32 => "<i4",
        DType::Int16 => "<i2",
        DType::Int8 => "|i1",
        DType::Uint8 => "|u1",
        DType::Bfloat16 => "<V2",
        DType::Int64 => "<i8",
        DType::Uint64 => "<u8",
        DType::Uint16 => "<u2",
        DType::Uint32 => "<u4",
        DType::Bool => "|b1",
        DType::Fp8E4M3Fn | DType::Fp8E8M0 | DType::Fp4E2M1 => "|V1",
    }
}

/// A type's name in ml_dtypes, for those that numpy does not have. Two four-bit floats in a byte are no type there: they stay bytes.
const fn ml_dtype(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::Bfloat16 => Some("bfloat16"),
        DType::Fp8E4M3Fn => Some("float8_e4m3fn"),
        DType::Fp8E8M0 => Some("float8_e8m0fnu"),
        DType::Float32
        | DType::Float16
        | DType::Int32
        | DType::Int16
        | DType::Int8
        | DType::Uint8
        | DType::Int64
        | DType::Uint64
        | DType::Uint16
        | DType::Uint32
        | DType::Bool
        | DType::Fp4E2M1 => None,
    }
}

/// A task's arguments as memory of this process: a sequence of `MappedArg`, and the scalars beside it.
#[pyclass(frozen, sequence, name = "MappedArgs", module = "bufabi")]
pub(crate) struct PyMappedArgs {
    arguments: Vec<Reach>,
    scalars: Vec<u64>,
}

impl PyMappedArgs {
    pub(crate) const fn new(arguments: Vec<Reach>, scalars: Vec<u64>) -> Self {
        Self { arguments, scalars }
    }
}

#[pymethods]
impl PyMappedArgs {
    fn __len__(&self) -> usize {
        self.arguments.len()
    }

    fn __getitem__(&self, #[pyo3(from_py_with = number::index)] index: isize) -> PyResult<PyMappedArg> {
        let found = position(index, self.arguments.len()).and_then(|index| self.arguments.get(index));
        let found = found.ok_or_else(|| no_such("argument", index, self.arguments.len()))?;
        Ok(PyMappedArg::new(found.clone()))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyTuple::new(py, self.arguments.iter().cloned().map(PyMappedArg::new).collect::<Vec<_>>())?.try_iter()
    }

    /// How many tensors there are.
    #[getter]
    fn tensor_count(&self) -> usize {
        self.arguments.len()
    }

    /// How many scalars there are.
    #[getter]
    fn scalar_count(&self) -> usize {
        self.scalars.len()
    }

    /// The scalars, in order.
    #[getter]
    fn scalars<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.scalars)
    }

    /// Scalar number `index`, a negative one counting from the end: its 64 bits, or with a `dtype` the value of that type. An
    /// IndexError if there is none, a ValueError for bits that are no value of the type.
    #[pyo3(signature = (index, dtype = None))]
    fn scalar<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = number::index)] index: isize,
        dtype: Option<Value<DType>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = position(index, self.scalars.len()).and_then(|index| self.scalars.get(index));
        let bits = found.copied().ok_or_else(|| no_such("scalar", index, self.scalars.len()))?;
        scalar_value(py, bits, dtype.map(|dtype| dtype.0))
    }

    fn __repr__(&self) -> String {
        format!("MappedArgs({} tensors, {} scalars)", self.arguments.len(), self.scalars.len())
    }
}

/// A place counted as Python does: a negative one from the end.
pub(crate) fn position(index: isize, len: usize) -> Option<usize> {
    match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => len.checked_sub(index.unsigned_abs()),
    }
}

#[cold]
pub(crate) fn no_such(what: &str, index: isize, len: usize) -> PyErr {
    PyIndexError::new_err(format!("there is no {what} {index} among {len}"))
}
