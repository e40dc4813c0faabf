//! Which task of a graph waits for which, and why: the core's tracker, fed with all tasks in the order of the file.

use bufabi_core::KeyedHash;
use bufabi_core::dependencies::{Argument, Capacities, Hazard, Policy, Storage, SubmitError, Tracker};
use bufabi_host::orchestrator::TrackerMemory;
use bufabi_host::sys::random::random_bytes;

use crate::failure::Failure;
use crate::graph::{Graph, Task};

/// One task waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edge {
    /// The task that waits.
    pub(crate) after: usize,
    /// The task that it waits for.
    pub(crate) before: usize,
    pub(crate) hazard: Hazard,
    /// The first buffer, in the order of the file, that causes it.
    pub(crate) buffer: usize,
    /// The lowest byte of it that both name.
    pub(crate) byte: u64,
}

/// The edges of a graph.
#[derive(Debug)]
pub(crate) struct Edges {
    /// By the task that waits, and then by the one that it waits for.
    pub(crate) list: Vec<Edge>,
    /// Lookups that passed their work bound: that many edges may be needless.
    pub(crate) inexact: u64,
}

impl Edges {
    /// The edges of all tasks.
    pub(crate) fn of(graph: &Graph) -> Result<Self, Failure> {
        let arguments: Vec<Vec<Argument>> = graph.tasks.iter().map(|task| arguments(graph, task)).collect();
        // The file chooses the views, and must not choose where they land in the tracker's tables.
        let seed = |error| Failure::machine(format!("no random bytes: {error}"));
        let seed = [random_bytes().map_err(seed)?, random_bytes().map_err(seed)?].map(u64::from_le_bytes);
        let hash = KeyedHash::new(seed);
        let mut factor = 1;
        loop {
            let storage = TrackerMemory::storage(&capacities(graph, &arguments, factor));
            match track(&arguments, storage.map_err(Failure::machine)?, hash.clone()) {
                Ok(edges) => return Ok(edges),
                // How many there will be is not known beforehand.
                Err(SubmitError::Links { .. } | SubmitError::Pieces { .. } | SubmitError::Entries { .. }) => {
                    factor = factor.saturating_mul(4);
                }
                Err(error) => return Err(Failure::machine(error.to_string())),
            }
        }
    }
}

/// All that a task names, members together.
fn arguments(graph: &Graph, task: &Task) -> Vec<Argument> {
    let all = task.members.iter().flat_map(|member| &member.arguments);
    let known = all.filter_map(|argument| Some((argument, graph.claims.get(argument.buffer)?)));
    known
        .map(|(argument, claim)| Argument {
            identity: claim.identity(),
            nbytes: claim.nbytes(),
            view: argument.view,
            tag: argument.tag,
            rank: u32::try_from(argument.buffer).unwrap_or(u32::MAX),
        })
        .collect()
}

/// What a tracker of all tasks may take; more with every `factor`.
fn capacities(graph: &Graph, arguments: &[Vec<Argument>], factor: usize) -> Capacities {
    let tasks = graph.tasks.len();
    let views: usize = arguments.iter().map(Vec::len).sum();
    let largest = graph.buffers.iter().map(|buffer| buffer.nbytes).max().unwrap_or(0);
    Capacities {
        tasks,
        links: tasks.saturating_mul(8).saturating_mul(factor),
        entries: views.max(1).saturating_mul(factor),
        pieces: views.max(1).saturating_mul(4).saturating_mul(factor),
        backings: graph.buffers.len().max(1),
        arguments: arguments.iter().map(Vec::len).max().unwrap_or(0),
        edges: tasks.saturating_mul(Hazard::ALL.len()),
        // Exact up to 16 MiB for 4 MiB of bit maps.
        odd_nbytes: usize::try_from(largest).unwrap_or(usize::MAX).min(1 << 24),
    }
}

/// Submits every task to a tracker.
fn track(
    arguments: &[Vec<Argument>],
    storage: Storage<TrackerMemory>,
    hash: KeyedHash,
) -> Result<Edges, SubmitError> {
    let mut tracker = Tracker::new(Policy::Full, hash, storage);
    let mut list = Vec::new();
    for (after, arguments) in arguments.iter().enumerate() {
        let number = u64::try_from(after).unwrap_or(u64::MAX);
        let submitted = tracker.submit(number, arguments.iter().copied())?;
        let start = list.len();
        list.extend(submitted.edges.iter().map(|edge| Edge {
            after,
            before: usize::try_from(edge.task).unwrap_or(usize::MAX),
            hazard: edge.hazard,
            buffer: usize::try_from(edge.rank).unwrap_or(usize::MAX),
            byte: edge.byte,
        }));
        list.get_mut(start..).unwrap_or_default().sort_unstable();
    }
    Ok(Edges { list, inexact: tracker.inexact() })
}
