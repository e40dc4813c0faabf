//! What a worker hands on, and what people read of where a buffer lives.

use bufabi_core::Code;
use bufabi_core::wire::backend::BackendKind;
use bufabi_host::remote::remote_tensor;
use bufabi_host::worker_path;
use pyo3::prelude::*;

use crate::error::{OrRaise, raise};
use crate::identity::PyIdentity;
use crate::number;
use crate::tensor::PyTensor;

/// A tensor as a forwarding worker hands it on: identity, backing and view unchanged, and nothing mapped. It can be handed on
/// whatever its rights are, so this never fails.
#[pyfunction]
pub(crate) fn re_export(tensor: PyRef<'_, PyTensor>) -> PyTensor {
    PyTensor(tensor.0)
}

/// A tensor as it travels to another machine: the backend is REMOTE_SIDECAR, identity, rights, size and view are kept. The real
/// descriptor goes beside it, in its sidecar. A ValueError where the wire ABI has no such tensor.
#[pyfunction]
pub(crate) fn remote_sidecar_tensor(tensor: PyRef<'_, PyTensor>) -> PyResult<PyTensor> {
    remote_tensor(&tensor.0).or_raise().map(PyTensor)
}

/// The identity of the backing behind a tensor of REMOTE_SIDECAR, by which its sidecar is found; a ValueError for any other.
#[pyfunction]
pub(crate) fn remote_backing_identity(tensor: PyRef<'_, PyTensor>) -> PyResult<PyIdentity> {
    let descriptor = tensor.0.descriptor();
    let kind = descriptor.backend_kind();
    if kind == BackendKind::RemoteSidecar {
        return Ok(PyIdentity(descriptor.identity()));
    }
    Err(raise(Code::BackendKind, &format_args!("a REMOTE_SIDECAR tensor is needed, found {kind}")))
}

/// The number of a worker's path in this process, for descriptors and people who read logs: the same one for the same
/// path, and 0 for the empty one. Nothing routes on it, and it never fails.
#[pyfunction]
pub(crate) fn intern_worker_path(path: &str) -> u32 {
    worker_path::intern(path)
}

/// The path of a number; empty for 0, and `<path#N>` for one of another process. A ValueError for what 32 bits do not hold.
#[pyfunction]
pub(crate) fn worker_path_for_id(#[pyo3(from_py_with = number::number)] number: u32) -> String {
    worker_path::path_of(number)
}
