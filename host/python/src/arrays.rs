//! Arrays of numpy and tensors of torch as plain bytes, without either being needed here.

use bufabi_core::DType;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

use crate::dtype::{name_of, type_of};
use crate::number::Numbers;

/// An array's memory as an object of bytes that shares it, its shape, and the type of its elements.
pub(crate) fn memory_and_view<'py>(
    array: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Numbers, DType)> {
    let is_torch = array.hasattr("data_ptr")?;
    if !is_torch && !array.hasattr("__array_interface__")? {
        let found = array.get_type();
        return Err(PyTypeError::new_err(format!(
            "an array of numpy or a tensor of torch is needed, not {found}"
        )));
    }
    let is_dense = if is_torch {
        array.call_method0("is_contiguous")?.is_truthy()?
    } else {
        array.getattr("flags")?.getattr("c_contiguous")?.is_truthy()?
    };
    if !is_dense {
        return Err(PyBufferError::new_err(
            "the array is not dense and row-major: it has no one range of bytes",
        ));
    }
    let dtype = array.getattr("dtype")?;
    let Some(found) = type_of(&dtype) else {
        let message = format!("dtype: no tensor has elements of type {}", name_of(&dtype)?);
        return Err(PyTypeError::new_err(message));
    };
    let shapes = Numbers::read(&array.getattr("shape")?, "shape")?;
    let memory = if is_torch {
        let bytes = array.py().import("torch")?.getattr("uint8")?;
        array
            .call_method0("detach")?
            .call_method0("flatten")?
            .call_method1("view", (bytes,))?
            .call_method0("numpy")?
    } else {
        array.call_method1("reshape", (-1,))?.call_method1("view", ("u1",))?
    };
    Ok((memory, shapes, found))
}

/// A copy of the bytes of anything that has the buffer protocol, whatever its elements are, in their order. A MemoryError if there
/// is no room for it.
pub(crate) fn bytes_of<'py>(data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    copied(&memoryview(data)?)
}

/// As [`bytes_of`], of at most so many: of more nothing is copied.
pub(crate) fn bytes_up_to<'py>(
    data: &Bound<'py, PyAny>,
    most: usize,
    refused: impl FnOnce(usize) -> PyErr,
) -> PyResult<Bound<'py, PyBytes>> {
    let view = memoryview(data)?;
    let found = view.getattr("nbytes")?.extract()?;
    if found > most { Err(refused(found)) } else { copied(&view) }
}

fn copied<'py>(view: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    Ok(view.call_method0("tobytes")?.cast_into::<PyBytes>()?)
}

/// Anything dense and writable that has the buffer protocol, as a view of single bytes.
pub(crate) fn writable_bytes<'py>(into: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let view = memoryview(into)?;
    if view.getattr("readonly")?.is_truthy()? {
        return Err(PyBufferError::new_err("into: the object is read-only"));
    }
    if !view.getattr("c_contiguous")?.is_truthy()? {
        return Err(PyBufferError::new_err("into: the object is not dense and row-major"));
    }
    view.call_method1("cast", ("B",))
}

fn memoryview<'py>(of: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    Ok(PyMemoryView::from(of)?.into_any())
}
