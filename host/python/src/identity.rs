//! `CanonicalIdentity`: the name of one allocation.

use core::num::NonZeroU32;

use bufabi_core::wire::identity::RawIdentity;
use bufabi_core::{Code, DescriptorError, Identity, OwnerInstanceId};
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};
use zerocopy::{FromBytes, IntoBytes};

use crate::error::{failed, raise};
use crate::number::{self, with_bytes};

/// The name of one allocation of one endpoint incarnation, for ever, and the same on every hop.
///
/// `owner_instance_id` is exactly 8 bytes, `buffer_id` a number of 64 bits, `generation` one of 32 bits that is not 0: anything else is
/// a ValueError. It is hashable and ordered; padding takes no part.
#[pyclass(frozen, name = "CanonicalIdentity", module = "bufabi")]
pub(crate) struct PyIdentity(pub(crate) Identity);

#[pymethods]
impl PyIdentity {
    #[new]
    #[pyo3(signature = (owner_instance_id, buffer_id, generation = 1))]
    fn new(
        #[pyo3(from_py_with = number::owner_instance_id)] owner_instance_id: OwnerInstanceId,
        #[pyo3(from_py_with = number::buffer_id)] buffer_id: u64,
        #[pyo3(from_py_with = number::generation)] generation: u32,
    ) -> PyResult<Self> {
        let generation = NonZeroU32::new(generation).ok_or_else(|| failed(&DescriptorError::Generation))?;
        Ok(Self(Identity::new(owner_instance_id, buffer_id, generation)))
    }

    /// The identity of exactly 32 bytes, padding ignored. Other sizes and a generation of 0 are a ValueError.
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let size = |found: usize| {
            raise(Code::Size, &format_args!("an identity has exactly 32 bytes, found {found}"))
        };
        with_bytes(data, size_of::<RawIdentity>(), size, |bytes| {
            let raw = RawIdentity::read_from_bytes(bytes).map_err(|_| size(bytes.len()))?;
            raw.decode().map(Self).ok_or_else(|| failed(&DescriptorError::Generation))
        })
    }

    /// The 32 bytes, padding zero.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.encode().as_bytes())
    }

    /// The endpoint incarnation that owns it: 8 bytes.
    #[getter]
    fn owner_instance_id<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.owner_instance_id().0)
    }

    /// The owner's number for it.
    #[getter]
    fn buffer_id(&self) -> u64 {
        self.0.buffer_id()
    }

    /// How often that number has been given out, this time included.
    #[getter]
    fn generation(&self) -> u32 {
        self.0.generation().get()
    }

    /// With anything else Python asks that, and says so itself if neither knows the other.
    fn __richcmp__(&self, other: PyRef<'_, Self>, operator: CompareOp) -> bool {
        operator.matches(self.0.cmp(&other.0))
    }

    /// That of the bytes, which the interpreter keys: nobody outside chooses where an identity lands.
    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.to_bytes(py).hash()
    }

    fn __repr__(&self) -> String {
        format!("CanonicalIdentity({})", self.0)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        pickled::<Self>(py, self.to_bytes(py))
    }
}

/// The hash of what a value is shown as, which the interpreter keys as it does that of any text.
pub(crate) fn hash_of_text(py: Python<'_>, text: &str) -> PyResult<isize> {
    PyString::new(py, text).hash()
}

/// How a record is pickled: as its bytes, which are checked when they are read.
pub(crate) fn pickled<'py, T: pyo3::PyTypeInfo>(
    py: Python<'py>,
    bytes: Bound<'py, PyBytes>,
) -> PyResult<Bound<'py, PyTuple>> {
    let read = py.get_type::<T>().getattr("from_bytes")?;
    (read, (bytes,)).into_pyobject(py)
}
