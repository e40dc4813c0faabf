//! What the names of a graph file mean: buffers and workers by their places.

use std::collections::HashMap;

use crate::failure::Failure;

/// What names mean, for those who resolve entries.
pub(super) struct Names {
    pub(super) buffers: HashMap<String, usize>,
    /// Workers by path; `None` when the file lists none and none is needed.
    pub(super) workers: Option<HashMap<String, usize>>,
}

impl Names {
    /// The buffer of that name.
    pub(super) fn buffer(&self, name: &str) -> Result<usize, Failure> {
        let found = self.buffers.get(name).copied();
        found.ok_or_else(|| Failure::usage(format!("no buffer is called {name:?}")).at("buffer"))
    }

    /// The worker of that path; `None` without a path, or when workers are of no interest.
    pub(super) fn worker(&self, path: Option<&str>) -> Result<Option<usize>, Failure> {
        let (Some(workers), Some(path)) = (&self.workers, path) else { return Ok(None) };
        let found = workers.get(path).copied();
        found.map(Some).ok_or_else(|| Failure::usage(format!("no worker is called {path:?}")).at("worker"))
    }
}
