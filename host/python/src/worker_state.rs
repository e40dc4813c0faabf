//! Where a worker is in its life, and how its runs end.

use std::time::{Duration, Instant};

use bufabi_core::Code;
use bufabi_host::sys::process::current_pid;
use bufabi_host::worker::WaitError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::buffer::PyBuffer;
use crate::error::{failed, raise};
use crate::refusal::Refusal;
use crate::started::{Ended, Started};
use crate::told::late;
use crate::worker::PyWorker;

/// How long a wait goes on before Python may handle a signal.
const SIGNALS: Duration = Duration::from_millis(50);
/// How long a wait goes on before other threads may use the worker.
const SLICE: Duration = Duration::from_millis(2);

/// Where a worker is in its life.
pub(crate) enum State {
    /// Not forked yet: the memory that is to be inherited.
    New(Vec<PyBuffer>),
    /// A call forks its workers, and Python runs meanwhile: what is told of forks, and streams that are flushed.
    Starting,
    /// Its workers are there.
    Started(Box<Started>),
    /// It was closed, or became a part of another one.
    Closed,
}

impl State {
    /// It can still be told what its workers are to know, and else why not.
    pub(crate) const fn check_new(&self, late: &'static str) -> Result<(), Refusal> {
        match self {
            Self::New(_) => Ok(()),
            Self::Starting => Err(Self::STARTING),
            Self::Started(_) => Err(Refusal::Runtime(late)),
            Self::Closed => Err(Self::CLOSED),
        }
    }

    fn started(&mut self) -> Result<&mut Started, Refusal> {
        match self {
            Self::Started(started) => Ok(started),
            Self::New(_) => Err(Refusal::Runtime("the worker has not been started: start() or run() does")),
            Self::Starting => Err(Self::STARTING),
            Self::Closed => Err(Self::CLOSED),
        }
    }

    /// Why a call while its workers are forked is refused.
    pub(crate) const STARTING: Refusal =
        Refusal::Runtime("the worker is being started: a call that forks its workers is not over");
    /// Why a call after its end is refused.
    pub(crate) const CLOSED: Refusal =
        Refusal::Value("released: the worker was closed, or is a part of another one");
}

impl PyWorker {
    /// This is the process that made it: a fork has none of the workers.
    pub(crate) fn check_process(&self) -> PyResult<()> {
        let here = current_pid();
        if here != self.creator {
            let creator = self.creator;
            let message =
                format_args!("the worker is of process {creator}, and this is {here}, a fork of it");
            return Err(raise(Code::Forked, &message));
        }
        if self.state.is_broken() {
            return Err(PyRuntimeError::new_err("a call on this worker ended in a fault of the library"));
        }
        Ok(())
    }

    /// Works on its state for a moment.
    pub(crate) fn with_state<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut State) -> Result<R, Refusal> + Send,
    ) -> PyResult<R> {
        self.check_process()?;
        Ok(self.state.with(py, work)?)
    }

    /// Works on the started worker for a moment.
    pub(crate) fn with_started<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Started) -> Result<R, Refusal> + Send,
    ) -> PyResult<R> {
        self.with_state(py, |state| work(state.started()?))
    }

    /// As [`with_started`](Self::with_started), for as long as a worker takes to answer.
    pub(crate) fn ask_started<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Started) -> Result<R, Refusal> + Send,
    ) -> PyResult<R> {
        self.check_process()?;
        Ok(self.state.with_detached(py, |state| work(state.started()?))?)
    }

    /// As [`ask_started`](Self::ask_started), started if it is not.
    pub(crate) fn ask_startable<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Started) -> Result<R, Refusal> + Send,
    ) -> PyResult<R> {
        self.start(py)?;
        self.ask_started(py, work)
    }

    /// Waits until no task is left, and says what came of them. Python handles signals meanwhile, and other threads use the worker.
    pub(crate) fn finish_run(&self, py: Python<'_>, until: Option<Instant>) -> PyResult<Ended> {
        let in_a = |while_: Duration| Instant::now().checked_add(while_).unwrap_or_else(Instant::now);
        let mut signals = in_a(SIGNALS);
        loop {
            let slice = until.map_or_else(|| in_a(SLICE), |until| until.min(in_a(SLICE)));
            self.check_process()?;
            let ended = self.state.with_last(py, |state| {
                let started = state.started()?;
                Ok::<_, Refusal>(started.orchestrator.end_run(slice).map(|cause| started.ended(cause)))
            })?;
            match ended {
                Ok(ended) => return Ok(ended),
                Err(error @ WaitError::TimedOut { .. }) => {
                    if signals <= Instant::now() {
                        py.check_signals()?;
                        signals = in_a(SIGNALS);
                    }
                    if until.is_some_and(|until| until <= Instant::now()) {
                        let told =
                            self.with_started(py, |started| Ok(late(started.orchestrator.workers(), error)))?;
                        return Err(raise(Code::TimedOut, &told));
                    }
                }
                Err(error) => return Err(failed(&error)),
            }
        }
    }

    /// Gives up a run that has failed, so that the next one can begin. What it failed of is what is raised; what else is wrong, such as
    /// that the worker was closed meanwhile, is its context.
    pub(crate) fn give_up_run(&self, py: Python<'_>, error: PyErr) -> PyErr {
        let left = self.with_started(py, |started| {
            started.orchestrator.abandon();
            started.is_running = false;
            Ok(core::mem::take(&mut started.scopes))
        });
        if let Err(other) = left {
            let (value, other) = (error.value(py), other.into_value(py).into_bound(py));
            // An exception of Python's own takes both; one that does not is raised as it is.
            let _ = value.getattr("__context__").and_then(|earlier| other.setattr("__context__", earlier));
            let _ = value.setattr("__context__", other);
        }
        error
    }
}
