//! `BufferDescriptor`: who owns a backing, what is granted, and how to reach it.

use bufabi_core::wire::backend::{AddressSpace, BackendKind};
use bufabi_core::wire::body::BODY_SIZE;
use bufabi_core::wire::descriptor::MAGIC;
use bufabi_core::{Access, Descriptor, DescriptorError, RawDescriptor};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::error::{OrRaise, failed};
use crate::identity::{PyIdentity, pickled};
use crate::number::{self, Value, with_bytes};

/// The 88 bytes that say who owns a backing, what it grants and how to reach it. All rules of the wire ABI hold:
/// the first that is broken is a ValueError.
///
/// `nbytes` is the backing's size in bytes, not 0. `body` says how to reach it, in at most 32 bytes whose meaning is the backend's: a
/// name for POSIX_SHM, a number of 8 bytes for memory that has an address.
#[pyclass(frozen, name = "BufferDescriptor", module = "bufabi")]
pub(crate) struct PyDescriptor(pub(crate) Descriptor);

#[pymethods]
impl PyDescriptor {
    #[new]
    #[pyo3(signature = (*, identity, address_space, access, backend_kind, nbytes, body = None, owner_worker_path_id = 0))]
    fn new(
        identity: PyRef<'_, PyIdentity>,
        address_space: Value<AddressSpace>,
        access: Value<Access>,
        backend_kind: Value<BackendKind>,
        #[pyo3(from_py_with = number::nbytes)] nbytes: u64,
        body: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = number::owner_worker_path_id)] owner_worker_path_id: u32,
    ) -> PyResult<Self> {
        let mut fields = [0; BODY_SIZE];
        let body_len = body.map_or(Ok(0), |body| {
            let counted = |found: usize| u16::try_from(found).unwrap_or(u16::MAX);
            let too_long = |found| failed(&DescriptorError::BodyLen { found: counted(found) });
            with_bytes(body, BODY_SIZE, too_long, |bytes| {
                fields.iter_mut().zip(bytes).for_each(|(slot, byte)| *slot = *byte);
                Ok(counted(bytes.len()))
            })
        })?;
        let raw = RawDescriptor {
            magic: MAGIC.into(),
            address_space: address_space.0.to_wire(),
            access: access.0.to_wire(),
            backend_kind: backend_kind.0.to_wire(),
            padding0: [0; 3],
            identity: identity.0.encode(),
            nbytes: nbytes.into(),
            owner_worker_path_id: owner_worker_path_id.into(),
            body_len: body_len.into(),
            padding1: [0; 2],
            body: fields,
        };
        Ok(Self(Descriptor::from_raw(&raw).or_raise()?.to_owned()))
    }

    /// The descriptor of exactly 88 bytes, which are checked: the first rule that is broken is a ValueError.
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let size = |found| failed(&DescriptorError::Size { found });
        with_bytes(data, size_of::<RawDescriptor>(), size, |bytes| {
            Descriptor::decode(bytes).or_raise().map(Self)
        })
    }

    /// The 88 bytes, padding and tail zero.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.encode())
    }

    /// The allocation's name.
    #[getter]
    fn identity(&self) -> PyIdentity {
        PyIdentity(self.0.identity())
    }

    /// Where the backing lives.
    #[getter]
    fn address_space(&self) -> Value<AddressSpace> {
        Value(self.0.address_space())
    }

    /// What the owner grants.
    #[getter]
    fn access(&self) -> Value<Access> {
        Value(self.0.access())
    }

    /// How the backing is reached.
    #[getter]
    fn backend_kind(&self) -> Value<BackendKind> {
        Value(self.0.backend_kind())
    }

    /// Bytes of the backing.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.0.nbytes()
    }

    /// How to reach it: the body's bytes that are in use.
    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let raw = self.0.raw();
        let used = raw.body.get(..usize::from(raw.body_len.get())).unwrap_or(&raw.body);
        PyBytes::new(py, used)
    }

    /// Which worker owns it, for people who read logs: see `worker_path_for_id`. 0 is none.
    #[getter]
    fn owner_worker_path_id(&self) -> u32 {
        self.0.owner_worker_path_id()
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.to_bytes(py).hash()
    }

    fn __repr__(&self) -> String {
        let Self(descriptor) = self;
        format!(
            "BufferDescriptor({}, {}, {}, {}, {} bytes)",
            descriptor.identity(),
            descriptor.backend_kind(),
            descriptor.address_space(),
            descriptor.access(),
            descriptor.nbytes(),
        )
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        pickled::<Self>(py, self.to_bytes(py))
    }
}
