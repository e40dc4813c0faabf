//! The endpoint of this process: all that Python makes here is owned by it.

use bufabi_host::owner::Endpoint;
use bufabi_host::sys::process::current_pid;
use bufabi_host::sys::random::random_bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::OrRaise;
use crate::guarded::Guarded;

/// The endpoint, and whose it is: a fork has one of its own, whose name is drawn after the fork.
static HERE: Guarded<Option<(u32, Endpoint)>> = Guarded::new(None);

/// The endpoint of this process.
pub(crate) fn here() -> PyResult<Endpoint> {
    let pid = current_pid();
    Python::attach(|py| {
        // That of the parent, if there was one, is dropped where nothing is locked.
        let (endpoint, _earlier) = HERE.with(py, |here| match here {
            Some((creator, endpoint)) if *creator == pid => (Ok(endpoint.clone()), None),
            Some(_) | None => match Endpoint::new() {
                Ok(endpoint) => (Ok(endpoint.clone()), here.replace((pid, endpoint))),
                Err(error) => (Err(error), None),
            },
        });
        endpoint.or_raise()
    })
}

/// Draws a name for an endpoint incarnation: 8 random bytes of the operating system's. An OSError if it gives
/// none.
#[pyfunction]
pub(crate) fn mint_owner_instance_id(py: Python<'_>) -> PyResult<Bound<'_, PyBytes>> {
    let drawn: [u8; 8] = random_bytes().or_raise()?;
    Ok(PyBytes::new(py, &drawn))
}

/// The name of this process's endpoint: 8 bytes, the first part of the identity of every buffer that is made here. A
/// fork has a name of its own. An OSError if none could be drawn.
#[pyfunction]
pub(crate) fn owner_instance_id(py: Python<'_>) -> PyResult<Bound<'_, PyBytes>> {
    Ok(PyBytes::new(py, &here()?.owner_instance_id().0))
}
