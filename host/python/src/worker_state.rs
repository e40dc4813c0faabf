//! Where a worker is in its life, and how its runs end.

use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use bufabi_core::Code;
use bufabi_host::orchestrator::Cause;
use bufabi_host::sys::process::current_pid;
use bufabi_host::worker::WaitError;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use crate::buffer::PyBuffer;
use crate::error::{failed, raise};
use crate::started::Started;
use crate::worker::PyWorker;

/// How long a wait goes on before Python may handle a signal.
const SLICE: Duration = Duration::from_millis(50);

/// Where a worker is in its life.
pub(crate) enum State {
    /// Not forked yet.
    New(Prepared),
    /// Its workers are there.
    Started(Box<Started>),
    /// It was closed, or became a part of another one.
    Closed,
}

/// What is said before the fork.
#[derive(Default)]
pub(crate) struct Prepared {
    pub(crate) functions: Vec<Py<PyAny>>,
    pub(crate) named: Vec<PyBuffer>,
}

impl PyWorker {
    /// The state, for this thread alone. Others of Python run while it waits.
    ///
    /// A fork has neither the workers nor the thread that may have held this when it began, and would wait for it for ever.
    pub(crate) fn state(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, State>> {
        let here = current_pid();
        if here != self.creator {
            let creator = self.creator;
            let message =
                format_args!("the worker is of process {creator}, and this is {here}, a fork of it");
            return Err(raise(Code::Forked, &message));
        }
        let locked = self.state.lock_py_attached(py);
        locked.map_err(|_| PyRuntimeError::new_err("a call on this worker ended in a fault of the library"))
    }

    /// Works on the started worker.
    pub(crate) fn with_started<R>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Started) -> PyResult<R>,
    ) -> PyResult<R> {
        match &mut *self.state(py)? {
            State::Started(started) => work(started),
            State::New(_) => {
                Err(PyRuntimeError::new_err("the worker has not been started: start() or run() does"))
            }
            State::Closed => Err(is_closed()),
        }
    }

    /// As [`with_started`](Self::with_started), started if it is not.
    pub(crate) fn with_startable<R>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Started) -> PyResult<R>,
    ) -> PyResult<R> {
        self.start(py)?;
        self.with_started(py, work)
    }

    /// Waits until no task is left, in slices, so that Python handles signals meanwhile.
    pub(crate) fn finish_run(&self, py: Python<'_>, until: Option<Instant>) -> PyResult<Option<Cause>> {
        loop {
            let now = Instant::now();
            let slice = now.checked_add(SLICE).unwrap_or(now);
            let slice = until.map_or(slice, |until| until.min(slice));
            let ended = self.with_started(py, |started| {
                let orchestrator = &mut started.orchestrator;
                Ok(py.detach(|| orchestrator.end_run(slice)))
            })?;
            match ended {
                Ok(cause) => return Ok(cause),
                Err(error @ WaitError::TimedOut { .. }) => {
                    py.check_signals()?;
                    if until.is_some_and(|until| until <= Instant::now()) {
                        return Err(failed(&error));
                    }
                }
                Err(error) => return Err(failed(&error)),
            }
        }
    }

    /// Whatever came of a run, the next one can begin.
    pub(crate) fn leave_run(&self, py: Python<'_>, has_failed: bool) -> PyResult<()> {
        self.with_started(py, |started| {
            if has_failed {
                started.orchestrator.abandon();
            }
            started.scopes.clear();
            started.is_running = false;
            Ok(())
        })
    }
}

pub(crate) fn is_closed() -> PyErr {
    PyValueError::new_err("released: the worker was closed, or is a part of another one")
}
