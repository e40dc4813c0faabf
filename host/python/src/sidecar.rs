//! `Sidecar` and `Registration`: where the bytes of a tensor of another machine are.

use bufabi_core::wire::backend::AddressSpace;
use bufabi_host::remote::{MAX_INLINE, Reach, Registration, Sidecar, SidecarError};
use pyo3::PyTypeInfo;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::error::{OrRaise, failed};
use crate::identity::{PyIdentity, hash_of_text};
use crate::number::{self, Value, with_bytes};
use crate::tensor::PyTensor;

/// Memory that a transport lets other machines reach: where they find its first byte, what they must show for it, and
/// how many bytes it is, `nbytes`. Numbers that 64 bits do not hold are a ValueError.
#[pyclass(frozen, eq, name = "Registration", module = "bufabi")]
#[derive(PartialEq, Eq)]
pub(crate) struct PyRegistration(pub(crate) Registration);

#[pymethods]
impl PyRegistration {
    #[new]
    #[pyo3(signature = (*, address, remote_key, nbytes))]
    const fn new(
        #[pyo3(from_py_with = number::address)] address: u64,
        #[pyo3(from_py_with = number::remote_key)] remote_key: u64,
        #[pyo3(from_py_with = number::nbytes)] nbytes: u64,
    ) -> Self {
        Self(Registration { address, remote_key, nbytes })
    }

    /// The address of its first byte, as other machines name it.
    #[getter]
    const fn address(&self) -> u64 {
        self.0.address
    }

    /// What they must show for it.
    #[getter]
    const fn remote_key(&self) -> u64 {
        self.0.remote_key
    }

    /// Its bytes.
    #[getter]
    const fn nbytes(&self) -> u64 {
        self.0.nbytes
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        hash_of_text(py, &self.__repr__())
    }

    fn __repr__(&self) -> String {
        let Registration { address, remote_key, nbytes } = self.0;
        format!("Registration(address={address:#x}, remote_key={remote_key:#x}, nbytes={nbytes})")
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let fields = PyDict::new(py);
        fields.set_item("address", self.0.address)?;
        fields.set_item("remote_key", self.0.remote_key)?;
        fields.set_item("nbytes", self.0.nbytes)?;
        by_keywords::<Self>(py, fields)
    }
}

/// What travels beside a task for each of its remote tensors: where the bytes are, by an address and a key of the transport there; or
/// the bytes themselves, of what nobody writes. It can be pickled. `byte_offset` and `nbytes` count bytes of the backing; an address
/// without a key, or beside the bytes, is a TypeError.
#[pyclass(frozen, eq, name = "Sidecar", module = "bufabi")]
#[derive(PartialEq, Eq)]
pub(crate) struct PySidecar(pub(crate) Sidecar);

#[pymethods]
impl PySidecar {
    #[new]
    #[pyo3(signature = (*, address_space, identity, byte_offset, nbytes, address = None, remote_key = None, data = None))]
    fn new(
        address_space: Value<AddressSpace>,
        identity: PyRef<'_, PyIdentity>,
        #[pyo3(from_py_with = number::byte_offset)] byte_offset: u64,
        #[pyo3(from_py_with = number::nbytes)] nbytes: u64,
        address: Option<&Bound<'_, PyAny>>,
        remote_key: Option<&Bound<'_, PyAny>>,
        data: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let reach = match (address, remote_key, data) {
            (Some(address), Some(remote_key), None) => {
                let (address, remote_key) = (number::address(address)?, number::remote_key(remote_key)?);
                Reach::Remote { address, remote_key }
            }
            (None, None, Some(data)) => {
                let too_many = |found| failed(&SidecarError::InlineSize { found, limit: MAX_INLINE });
                with_bytes(data, MAX_INLINE, too_many, |bytes| match bytes.len() {
                    ..=MAX_INLINE => Ok(Reach::Inline(bytes.into())),
                    found => Err(too_many(found)),
                })?
            }
            (None | Some(_), None | Some(_), None | Some(_)) => {
                return Err(PyTypeError::new_err("a sidecar has an address and a remote_key, or data"));
            }
        };
        let (address_space, identity) = (address_space.0, identity.0);
        Ok(Self(Sidecar { address_space, identity, byte_offset, nbytes, reach }))
    }

    /// Looks whether it and a remote tensor speak of the same bytes, and whether it holds together: a ValueError if not.
    fn check(&self, tensor: PyRef<'_, PyTensor>) -> PyResult<()> {
        self.0.check(&tensor.0).or_raise()
    }

    /// Memory of a host or of a chip.
    #[getter]
    const fn address_space(&self) -> Value<AddressSpace> {
        Value(self.0.address_space)
    }

    /// The backing's name.
    #[getter]
    const fn identity(&self) -> PyIdentity {
        PyIdentity(self.0.identity)
    }

    /// The first byte of the backing that can be reached.
    #[getter]
    const fn byte_offset(&self) -> u64 {
        self.0.byte_offset
    }

    /// How many can be, from there on.
    #[getter]
    const fn nbytes(&self) -> u64 {
        self.0.nbytes
    }

    /// The address of that byte on the other machine; None when the bytes travel along.
    #[getter]
    const fn address(&self) -> Option<u64> {
        match self.0.reach {
            Reach::Remote { address, .. } => Some(address),
            Reach::Inline(_) => None,
        }
    }

    /// What the transport there gave out for it; None when the bytes travel along.
    #[getter]
    const fn remote_key(&self) -> Option<u64> {
        match self.0.reach {
            Reach::Remote { remote_key, .. } => Some(remote_key),
            Reach::Inline(_) => None,
        }
    }

    /// The bytes that travel along, if they do.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        match &self.0.reach {
            Reach::Remote { .. } => None,
            Reach::Inline(bytes) => Some(PyBytes::new(py, bytes)),
        }
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        hash_of_text(py, &self.__repr__())
    }

    fn __repr__(&self) -> String {
        let Sidecar { identity, byte_offset, nbytes, reach, .. } = &self.0;
        let reach = match reach {
            Reach::Remote { address, remote_key } => {
                format!("address={address:#x}, remote_key={remote_key:#x}")
            }
            Reach::Inline(bytes) => format!("{} bytes inline", bytes.len()),
        };
        format!("Sidecar({identity}, byte_offset={byte_offset}, nbytes={nbytes}, {reach})")
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let fields = PyDict::new(py);
        fields.set_item("address_space", self.address_space())?;
        fields.set_item("identity", self.identity())?;
        fields.set_item("byte_offset", self.byte_offset())?;
        fields.set_item("nbytes", self.nbytes())?;
        fields.set_item("address", self.address())?;
        fields.set_item("remote_key", self.remote_key())?;
        fields.set_item("data", self.data(py))?;
        by_keywords::<Self>(py, fields)
    }
}

/// How what is made by keywords is pickled, with any protocol.
fn by_keywords<'py, T: PyTypeInfo>(
    py: Python<'py>,
    fields: Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyTuple>> {
    let make = py.import("copyreg")?.getattr("__newobj_ex__")?;
    (make, (py.get_type::<T>(), PyTuple::empty(py), fields)).into_pyobject(py)
}
