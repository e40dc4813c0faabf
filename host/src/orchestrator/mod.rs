//! Tasks in the order in which they are submitted: each runs as soon as those that it waits for are done and its leaf is free.
//!
//! Who waits for whom follows from the bytes that tasks touch, as core's tracker says. A task that failed poisons all that depend on
//! it, now and later: they never run, and each reports the first cause. The others go on. See docs/decisions/orchestrator.md.

mod error;
mod finished;
mod memory;
mod node;
mod run;

pub use error::SubmitError;
pub use finished::{Cause, Finished, TaskFailed, TaskId};
pub use memory::TrackerMemory;
pub use run::Orchestrator;

use bufabi_core::dependencies::Capacities;
use bufabi_core::{Tag, Tensor};

use crate::worker::WorkerId;

/// What one leaf does of a task. A task of several members is a group, one node of the graph: members are not compared with one another.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Where it runs.
    pub worker: WorkerId,
    /// Which kernel.
    pub kernel: u32,
    /// Its tensors, inputs first.
    pub tensors: &'a [Tensor],
    /// What it does with each tensor.
    pub tags: &'a [Tag],
    /// Its scalars.
    pub scalars: &'a [u64],
}

/// What an orchestrator can hold at once, unless its maker says otherwise: 4,096 tasks that are not over, of a few arguments each, on as
/// many backings, at most 1,024 edges to one task, and 4,096 arguments of a group. About 14 MiB.
pub const DEFAULT_CAPACITIES: Capacities =
    Capacities { arguments: 4096, ..Capacities::for_tasks(4096, 4096) };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_capacities_take_what_their_text_says() {
        assert_eq!(memory::nbytes(&DEFAULT_CAPACITIES) >> 20, 14);
    }
}
