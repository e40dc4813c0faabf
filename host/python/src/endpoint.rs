//! The endpoint of this process: all that Python makes here is owned by it.

use std::sync::atomic::{AtomicU32, Ordering};

use bufabi_host::owner::Endpoint;
use bufabi_host::sys::process::current_pid;
use bufabi_host::sys::random::random_bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::OrRaise;
use crate::guarded::Guarded;

/// The endpoint, and whose it is: a fork has one of its own, whose name is drawn after the fork.
static HERE: Guarded<Option<(u32, Endpoint)>> = Guarded::new(None);

/// The process that imported this, in which the end is cared for.
static IMPORTED: AtomicU32 = AtomicU32::new(0);

/// The endpoint of this process.
pub(crate) fn here() -> PyResult<Endpoint> {
    let pid = current_pid();
    Python::attach(|py| {
        // That of the parent, if there was one, is dropped where nothing is locked.
        let (endpoint, _earlier, is_new) = HERE.with(py, |here| match here {
            Some((creator, endpoint)) if *creator == pid => (Ok(endpoint.clone()), None, false),
            Some(_) | None => match Endpoint::new() {
                Ok(endpoint) => (Ok(endpoint.clone()), here.replace((pid, endpoint)), true),
                Err(error) => (Err(error), None, false),
            },
        });
        if is_new && IMPORTED.load(Ordering::Relaxed) != pid {
            // A fork of multiprocessing's has forgotten what its parent wanted done at the end.
            withdraw_at_exit(py)?;
        }
        endpoint.or_raise()
    })
}

/// Has this process take its names back when it ends, whoever still has the buffers: a frame of a daemon thread is never dropped.
pub(crate) fn withdraw_at_exit(py: Python<'_>) -> PyResult<()> {
    let _ = IMPORTED.compare_exchange(0, current_pid(), Ordering::Relaxed, Ordering::Relaxed);
    let withdraw = wrap_pyfunction!(withdraw, py)?;
    py.import("atexit")?.call_method1("register", (withdraw,)).map(drop)
}

/// Takes back what others would find of this process's buffers, if it has any that are not its parent's.
#[pyfunction]
fn withdraw(py: Python<'_>) {
    let here = HERE.with(py, |here| here.clone());
    if let Some((_, endpoint)) = here.filter(|(creator, _)| *creator == current_pid()) {
        endpoint.withdraw();
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
