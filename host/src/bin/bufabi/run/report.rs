//! What a run tells when it is over: buffers and who mapped them, tasks and how they got at their arguments, outputs.

mod json;
mod text;

use std::time::Duration;

use bufabi_core::wire::backend::{AddressSpace, BackendKind};
use bufabi_host::consumer::Resolution;
use bufabi_host::worker::{Reply, Workers};

use super::buffers::Buffers;
use super::outputs::Outcome;
use super::schedule::Finished;
use crate::graph::{self, Graph, Output};

/// All that is told of a run, as tables or as JSON.
pub(super) struct Report<'a> {
    graph: &'a Graph,
    process: u32,
    buffers: Vec<BufferRow>,
    tasks: Vec<TaskRow>,
    outputs: Vec<(&'a Output, Outcome)>,
    elapsed: Duration,
}

struct BufferRow {
    identity: String,
    backend: BackendKind,
    /// The chip that owns it, and its process; none of the run's own.
    chip: Option<(String, i32)>,
    /// Bytes that were copied to it and from it, outside of tasks.
    copied: u64,
    /// Workers that reached it.
    mapped_by: Vec<Reached>,
}

struct TaskRow {
    task: usize,
    member: usize,
    reply: Reply,
    worker: String,
    pid: i32,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        graph: &'a Graph,
        workers: &Workers,
        buffers: &Buffers,
        mut finished: Vec<Finished>,
    ) -> Self {
        let row = |(index, entry): (usize, &graph::Buffer)| BufferRow {
            identity: buffers.identity(index).map_or_else(String::new, |identity| identity.to_string()),
            backend: entry.backend,
            chip: buffers.chip(index).map(|chip| {
                (workers.name(chip).unwrap_or_default().to_owned(), workers.pid(chip).unwrap_or(0))
            }),
            copied: buffers.copied(index),
            mapped_by: Vec::new(),
        };
        let mut buffers: Vec<BufferRow> = graph.buffers.iter().enumerate().map(row).collect();
        finished.sort_by_key(|finished| finished.task);
        let mut tasks = Vec::new();
        for Finished { task, replies } in finished {
            let members = graph.tasks.get(task).map_or(&[][..], |task| &task.members);
            for (place, (member, reply)) in members.iter().zip(replies).enumerate() {
                let worker = member.worker.and_then(|worker| graph.workers.get(worker));
                let worker = worker.map_or_else(String::new, |worker| worker.path.clone());
                let pid = workers.find(&worker).and_then(|worker| workers.pid(worker)).unwrap_or(0);
                for (argument, &resolution) in member.arguments.iter().zip(&reply.resolutions) {
                    if let Some(buffer) = buffers.get_mut(argument.buffer) {
                        buffer.note(&worker, pid, resolution);
                    }
                }
                tasks.push(TaskRow { task, member: place, reply, worker, pid });
            }
        }
        let process = std::process::id();
        Self { graph, process, buffers, tasks, outputs: Vec::new(), elapsed: Duration::ZERO }
    }

    pub(super) fn add_output(&mut self, output: &'a Output, outcome: Outcome) {
        self.outputs.push((output, outcome));
    }

    pub(super) fn finish(&mut self, elapsed: Duration) {
        self.elapsed = elapsed;
    }

    /// How the first output that is not as expected differs.
    pub(super) fn difference(&self) -> Option<String> {
        self.outputs.iter().enumerate().find_map(|(index, (_, outcome))| match outcome {
            Outcome::Differs(difference) => Some(format!("outputs[{index}]: {difference}")),
            Outcome::Written | Outcome::Equal => None,
        })
    }

    /// Bytes that were copied, on the way of tasks to their arguments and to chips and back.
    fn bytes_copied(&self) -> u64 {
        let by_tasks = self.tasks.iter().map(|row| row.reply.bytes_copied);
        by_tasks.chain(self.buffers.iter().map(|row| row.copied)).fold(0, u64::saturating_add)
    }
}

impl TaskRow {
    /// The paths of the host workers that handed it on, from the top.
    fn forwarders(&self) -> impl Iterator<Item = &str> {
        let ends = self.worker.match_indices('/').map(|(end, _)| end);
        let hops = usize::try_from(self.reply.hops).unwrap_or(usize::MAX);
        ends.take(hops).filter_map(|end| self.worker.get(..end))
    }
}

/// A worker that reached a buffer.
struct Reached {
    worker: String,
    pid: i32,
    /// How it did first.
    how: Resolution,
    /// How often it mapped it.
    times: usize,
}

impl BufferRow {
    /// A worker got at it.
    fn note(&mut self, worker: &str, pid: i32, how: Resolution) {
        let place = match self.mapped_by.iter().position(|reached| reached.worker == worker) {
            Some(place) => place,
            None => {
                self.mapped_by.push(Reached { worker: worker.to_owned(), pid, how, times: 0 });
                self.mapped_by.len().saturating_sub(1)
            }
        };
        if how == Resolution::MappedNow
            && let Some(reached) = self.mapped_by.get_mut(place)
        {
            reached.times = reached.times.saturating_add(1);
        }
    }
}

/// How an argument was come by, in words.
fn resolved(resolution: Resolution, backend: BackendKind) -> &'static str {
    match resolution {
        Resolution::MappedNow => "mapped now",
        Resolution::AlreadyMapped => "already mapped",
        Resolution::Inherited => "inherited",
        Resolution::Own if backend.address_space() == Some(AddressSpace::Device) => "device",
        Resolution::Own => "own",
    }
}
