//! `TaskReport`: how a task got at its arguments.

use bufabi_host::consumer::Resolution;
use bufabi_host::orchestrator::TaskId;
use bufabi_host::worker::Reply;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// What came of one member of a task that is done.
#[pyclass(frozen, name = "TaskReport", module = "bufabi")]
pub(crate) struct PyTaskReport {
    task: TaskId,
    member: usize,
    worker: String,
    reply: Reply,
}

impl PyTaskReport {
    /// One for each member, which ran at those paths.
    pub(crate) fn of_replies<'a>(
        task: TaskId,
        replies: Vec<Reply>,
        paths: impl Iterator<Item = &'a str>,
    ) -> impl Iterator<Item = Self> {
        let placed = replies.into_iter().zip(paths).enumerate();
        placed.map(move |(member, (reply, path))| Self { task, member, worker: path.to_owned(), reply })
    }
}

#[pymethods]
impl PyTaskReport {
    /// The task's number.
    #[getter]
    const fn task(&self) -> u64 {
        self.task.0
    }

    /// Which member of its group.
    #[getter]
    const fn member(&self) -> usize {
        self.member
    }

    /// The path of the worker that ran it.
    #[getter]
    fn worker(&self) -> &str {
        &self.worker
    }

    /// How each argument was resolved: "mapped now", "already mapped", "inherited", or "own" where its owner uses it.
    #[getter]
    fn resolutions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.reply.resolutions.iter().copied().map(resolution_name).collect::<Vec<_>>())
    }

    /// Bytes that were copied to get at the arguments.
    #[getter]
    const fn bytes_copied(&self) -> u64 {
        self.reply.bytes_copied
    }

    /// From the worker's seeing the task to its answer, seconds.
    #[getter]
    fn seconds(&self) -> f64 {
        self.reply.duration.as_secs_f64()
    }

    /// Workers that handed the task on, and mapped nothing.
    #[getter]
    const fn hops(&self) -> u32 {
        self.reply.hops
    }

    fn __repr__(&self) -> String {
        let Self { task, member, worker, reply } = self;
        let resolutions = reply.resolutions.iter().copied().map(resolution_name).collect::<Vec<_>>();
        format!(
            "TaskReport(task={}, member={member}, worker={worker:?}, resolutions={resolutions:?}, bytes_copied={}, seconds={:.6}, hops={})",
            task.0,
            reply.bytes_copied,
            reply.duration.as_secs_f64(),
            reply.hops
        )
    }
}

const fn resolution_name(resolution: Resolution) -> &'static str {
    match resolution {
        Resolution::MappedNow => "mapped now",
        Resolution::AlreadyMapped => "already mapped",
        Resolution::Own => "own",
        Resolution::Inherited => "inherited",
    }
}
