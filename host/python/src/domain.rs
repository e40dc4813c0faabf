//! `Domain`: windows on several chips, from each of which the same buffers are carved.

use bufabi_core::Access;
use bufabi_host::device::memory::WindowPart;
use bufabi_host::worker::Domain;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::device_buffer::PyDeviceBuffer;
use crate::number::{self, Value, several};
use crate::tree::MOST_NAMED;

/// A communication domain: a window on each of several chips, all of one layout. `Worker.free` frees all of it.
#[pyclass(frozen, name = "Domain", module = "bufabi")]
pub(crate) struct PyDomain(pub(crate) Domain);

#[pymethods]
impl PyDomain {
    /// The buffers of each chip's window, in the order in which the chips and the parts were named.
    #[getter]
    fn windows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let window =
            |buffers: &Vec<_>| PyTuple::new(py, buffers.iter().map(|&buffer| PyDeviceBuffer(buffer)));
        let windows = self.0.windows().iter().map(window).collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, windows)
    }

    fn __repr__(&self) -> String {
        let windows = self.0.windows();
        format!("Domain({} chips, {} buffers each)", windows.len(), windows.first().map_or(0, Vec::len))
    }
}

/// What is carved from each window.
pub(crate) fn parts_of(given: &Bound<'_, PyAny>) -> PyResult<Vec<WindowPart>> {
    several(given, "parts", MOST_NAMED, |part| {
        let Ok(pair) = part.cast::<PyTuple>() else {
            return Ok(WindowPart { nbytes: number::nbytes(&part)?, access: Access::ReadWrite });
        };
        let (nbytes, access) = pair.extract::<(Bound<'_, PyAny>, Value<Access>)>()?;
        Ok(WindowPart { nbytes: number::nbytes(&nbytes)?, access: access.0 })
    })
}
