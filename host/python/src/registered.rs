//! The functions of Python that a `Worker` knows, for its sub-workers to run.

use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};

use crate::guarded::Guarded;

/// What was registered, in order. Apart from the worker's state, which a thread may hold while others of Python run: the collector of
/// garbage must find these every time it looks.
pub(crate) struct Registered(Guarded<Vec<Py<PyAny>>>);

impl Registered {
    pub(crate) const fn new() -> Self {
        Self(Guarded::new(Vec::new()))
    }

    pub(crate) fn add(&self, py: Python<'_>, function: Py<PyAny>) {
        self.0.with(py, |functions| functions.push(function));
    }

    pub(crate) fn is_empty(&self, py: Python<'_>) -> bool {
        self.0.with(py, |functions| functions.is_empty())
    }

    /// What was registered so far.
    pub(crate) fn all(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        // Taken out and put back: a reference to each is made where nothing is locked, and no Python runs in between.
        let known = self.0.with(py, core::mem::take);
        let functions = known.iter().map(|function| function.clone_ref(py)).collect();
        self.0.with(py, |functions| *functions = known);
        functions
    }

    /// The place of a function among them.
    pub(crate) fn place_of(&self, py: Python<'_>, function: &Bound<'_, PyAny>) -> Option<usize> {
        let sought = function.as_ptr().addr();
        self.0.with(py, |functions| functions.iter().position(|known| known.as_ptr().addr() == sought))
    }

    /// Shows all of them to the collector of garbage.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let look = |functions: &Vec<_>| functions.iter().try_for_each(|known| visit.call(known));
        self.0.try_look(look).unwrap_or(Ok(()))
    }

    pub(crate) fn clear(&self, py: Python<'_>) {
        drop(self.0.with(py, core::mem::take));
    }
}
