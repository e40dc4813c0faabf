//! `TrackedTask` and `Edge`: a task in a tracker, and why it waits for others.

use std::sync::OnceLock;

use bufabi_core::Identity;
use bufabi_core::dependencies::{Edge, Handle, Hazard};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::identity::{PyIdentity, hash_of_text};
use crate::number::{Enumeration, Value};

/// A task waits for another, and why.
#[pyclass(frozen, eq, name = "Edge", module = "bufabi")]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PyEdge {
    before: u64,
    hazard: Hazard,
    identity: Identity,
    byte: u64,
    argument: u32,
}

impl PyEdge {
    pub(crate) const fn of(edge: &Edge) -> Self {
        let &Edge { task: before, hazard, identity, byte, rank: argument, .. } = edge;
        Self { before, hazard, identity, byte, argument }
    }
}

#[pymethods]
impl PyEdge {
    /// The number of the task that is waited for.
    #[getter]
    const fn before(&self) -> u64 {
        self.before
    }

    /// In what way.
    #[getter]
    const fn hazard(&self) -> Value<Hazard> {
        Value(self.hazard)
    }

    /// The backing that it is about.
    #[getter]
    const fn identity(&self) -> PyIdentity {
        PyIdentity(self.identity)
    }

    /// The lowest byte of that backing that it is about.
    #[getter]
    const fn byte(&self) -> u64 {
        self.byte
    }

    /// The first tensor that it is about, counted over all members of the task that waits.
    #[getter]
    const fn argument(&self) -> u32 {
        self.argument
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        hash_of_text(py, &self.__repr__())
    }

    fn __repr__(&self) -> String {
        let Self { before, hazard, identity, byte, argument } = self;
        let named = Hazard::all().into_iter().find(|(_, number)| *number == hazard.number());
        let hazard = named.map_or("", |(name, _)| name);
        format!("Edge({hazard} on task {before}, argument {argument}, {identity}, byte {byte})")
    }
}

/// A task that a tracker was given. `Tracker.waiting` and `Tracker.poisoned` say how it stands with it.
#[pyclass(frozen, name = "TrackedTask", module = "bufabi")]
pub(crate) struct PyTrackedTask {
    /// The number of the tracker that it is in.
    pub(crate) tracker: u64,
    /// Nobody sees it without.
    tracked: OnceLock<Tracked>,
}

/// What a tracker says of a task.
pub(crate) struct Tracked {
    pub(crate) handle: Handle,
    pub(crate) number: u64,
    pub(crate) edges: Vec<PyEdge>,
}

impl PyTrackedTask {
    /// One of that tracker's, of which nothing is said yet.
    pub(crate) const fn new(tracker: u64) -> Self {
        Self { tracker, tracked: OnceLock::new() }
    }

    /// What its tracker says of it.
    pub(crate) fn tracked(&self) -> Option<&Tracked> {
        self.tracked.get()
    }

    fn all_edges(&self) -> &[PyEdge] {
        self.tracked().map_or(&[], |tracked| &tracked.edges)
    }

    /// Its tracker says it, once.
    pub(crate) fn set(&self, tracked: Tracked) {
        let _ = self.tracked.set(tracked);
    }
}

#[pymethods]
impl PyTrackedTask {
    /// The number that was given for it, or its place in the sequence.
    #[getter]
    fn number(&self) -> u64 {
        self.tracked().map_or(0, |tracked| tracked.number)
    }

    /// Whom it had to wait for when it was submitted: one edge for each task and hazard.
    #[getter]
    fn edges<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.all_edges().iter().cloned())
    }

    fn __repr__(&self) -> String {
        let edges = self.all_edges().len();
        format!("TrackedTask({}, {edges} edge{})", self.number(), if edges == 1 { "" } else { "s" })
    }
}
