//! The endpoint of this process: all that Python makes here is owned by it.

use std::sync::{Mutex, PoisonError};

use bufabi_host::owner::Endpoint;
use bufabi_host::sys::process::current_pid;
use bufabi_host::sys::random::random_bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::OrRaise;

/// The endpoint, and whose it is: a fork has one of its own, whose name is drawn after the fork.
static HERE: Mutex<Option<(u32, Endpoint)>> = Mutex::new(None);

/// The endpoint of this process.
pub(crate) fn here() -> PyResult<Endpoint> {
    let mut here = HERE.lock().unwrap_or_else(PoisonError::into_inner);
    let pid = current_pid();
    match &*here {
        Some((creator, endpoint)) if *creator == pid => Ok(endpoint.clone()),
        Some(_) | None => {
            let endpoint = Endpoint::new().or_raise()?;
            *here = Some((pid, endpoint.clone()));
            Ok(endpoint)
        }
    }
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
