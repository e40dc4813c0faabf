//! A run: all tasks of a graph handed to an orchestrator in the order of the file, and what came of them.

use std::collections::VecDeque;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use bufabi_core::dependencies::{Capacities, Hazard};
use bufabi_core::{Fault, Tag, Tensor};
use bufabi_host::orchestrator::{Cause, Member, Orchestrator, SubmitError, TaskFailed, TaskId};
use bufabi_host::owner::OwnError;
use bufabi_host::sys::event::deadline;
use bufabi_host::worker::{Reply, TaskFailure, WaitError, WorkerId, Workers};

use super::buffers::Buffers;
use crate::failure::Failure;
use crate::graph::{self, Graph};
use crate::interrupt::Interrupt;
use crate::terminal::{Plain, tell};

/// Tasks that the orchestrator is given beforehand.
const AHEAD: usize = 8192;

/// A task that is done.
pub(super) struct Finished {
    pub(super) task: usize,
    /// How each member got at its arguments.
    pub(super) replies: Vec<Reply>,
}

/// What an orchestrator must hold to run a graph, or enough of it at once.
pub(super) fn capacities(graph: &Graph) -> Capacities {
    let views = |task: &graph::Task| task.members.iter().map(|member| member.arguments.len()).sum::<usize>();
    let all: usize = graph.tasks.iter().map(views).sum();
    let arguments = graph.tasks.iter().map(views).max().unwrap_or(0);
    let tasks = graph.tasks.len().clamp(1, AHEAD);
    let entries = all.clamp(1, AHEAD.saturating_mul(4)).max(arguments);
    let largest = graph.buffers.iter().map(|buffer| buffer.nbytes).max().unwrap_or(0);
    Capacities {
        tasks,
        links: tasks.saturating_mul(32),
        entries,
        pieces: entries.saturating_mul(16),
        backings: graph.buffers.len().max(1),
        arguments,
        edges: tasks.saturating_mul(Hazard::ALL.len()),
        // Exact up to 16 MiB for 4 MiB of bit maps.
        odd_nbytes: usize::try_from(largest).unwrap_or(usize::MAX).min(1 << 24),
    }
}

/// What is known of a run.
struct Schedule<'a> {
    graph: &'a Graph,
    orchestrator: &'a mut Orchestrator,
    buffers: &'a Buffers,
    /// The leaf that each worker of the graph is; a host worker is none.
    leaves: Vec<Option<WorkerId>>,
    /// The tasks that the orchestrator has, in the order of its numbers.
    submitted: Vec<usize>,
    finished: Vec<Finished>,
    /// The first failure.
    cause: Option<Cause>,
    /// When it counts as hanging if no task is over by then.
    until: Instant,
    limit: Duration,
    shows_progress: bool,
}

/// Runs all tasks of a graph, and tells of each in the order in which they finished. A task that failed keeps those from running that
/// depend on it; the others go on. But a worker that died ends the run.
pub(super) fn run(
    graph: &Graph,
    orchestrator: &mut Orchestrator,
    buffers: &Buffers,
    interrupt: &Interrupt,
    limit: Duration,
) -> Result<Vec<Finished>, Failure> {
    let workers = graph.workers.iter();
    let leaves = workers.map(|worker| orchestrator.workers().find(&worker.path)).collect();
    let mut schedule = Schedule {
        graph,
        orchestrator,
        buffers,
        leaves,
        submitted: Vec::new(),
        finished: Vec::new(),
        cause: None,
        until: deadline(limit),
        limit,
        shows_progress: stderr().is_terminal(),
    };
    let ran = schedule.run(interrupt);
    schedule.end_progress();
    match schedule.cause.take() {
        // The signal that ended a worker may have been for all of this program's processes.
        Some(cause) => Err(interrupt.check().err().unwrap_or_else(|| schedule.failed(&cause))),
        None => ran.map(|()| schedule.finished),
    }
}

impl Schedule<'_> {
    fn run(&mut self, interrupt: &Interrupt) -> Result<(), Failure> {
        let mut tasks: VecDeque<usize> = (0..self.graph.tasks.len()).collect();
        loop {
            while let Some(&task) = tasks.front()
                && self.submit(task)?
            {
                tasks.pop_front();
                interrupt.check()?;
            }
            if !self.advance(interrupt)? {
                return Ok(());
            }
        }
    }

    /// Hands a task over; not if there is no room for it before others are over.
    fn submit(&mut self, task: usize) -> Result<bool, Failure> {
        let Some(entry) = self.graph.tasks.get(task) else { return Ok(true) };
        let mut all = Vec::new();
        for member in &entry.members {
            let tensors = tensors(member, self.buffers);
            let tensors = tensors.map_err(|error| self.failure(task, None, &error, Fault::Caller))?;
            let tags: Vec<Tag> = member.arguments.iter().map(|argument| argument.tag).collect();
            // A graph that is run names a leaf for each.
            let leaf = member.worker.and_then(|worker| self.leaves.get(worker).copied().flatten());
            all.push((member, leaf.unwrap_or(WorkerId(usize::MAX)), tensors, tags));
        }
        let members: Vec<Member<'_>> = all
            .iter()
            .map(|(member, worker, tensors, tags)| Member {
                worker: *worker,
                kernel: member.call.map_or(0, |call| call.number()),
                tensors,
                tags,
                scalars: &entry.scalars,
            })
            .collect();
        match self.orchestrator.submit(&members) {
            Ok(_) => {
                self.submitted.push(task);
                Ok(true)
            }
            Err(error) if error.code().fault() == Fault::Capacity && self.orchestrator.pending() > 0 => {
                Ok(false)
            }
            // What failed before holds what there is not enough of, or ended the worker.
            Err(_) if self.cause.is_some() => Ok(true),
            Err(error) => {
                let member = if let SubmitError::Member { member, .. } = error { member } else { 0 };
                let worker = members.get(member).map(|member| member.worker);
                Err(self.failure(task, worker, &error, error.code().fault()))
            }
        }
    }

    /// Waits for a task that is over, or a signal. Says whether there may be more.
    fn advance(&mut self, interrupt: &Interrupt) -> Result<bool, Failure> {
        interrupt.check()?;
        match self.orchestrator.wait(self.until) {
            Ok(finished) => {
                self.until = deadline(self.limit);
                let task = self.task(finished.task);
                match finished.outcome {
                    Ok(replies) => {
                        self.finished.push(Finished { task, replies });
                        self.show_progress(task);
                    }
                    Err(TaskFailed::Own(cause) | TaskFailed::Poisoned(cause)) => {
                        let is_dead = matches!(cause.failure, TaskFailure::WorkerDied(_));
                        self.cause.get_or_insert(cause);
                        return Ok(!is_dead);
                    }
                }
                Ok(true)
            }
            Err(WaitError::Idle) => Ok(false),
            Err(WaitError::Interrupted) => interrupt.check_woken().map(|()| true),
            Err(WaitError::TimedOut { worker, task, .. }) => {
                let what = format!("no task finished in {} s", self.limit.as_secs());
                Err(self.failure(self.task(TaskId(task)), Some(worker), &what, Fault::Machine))
            }
            Err(error) => Err(Failure::machine(error.to_string())),
        }
    }

    fn failed(&self, cause: &Cause) -> Failure {
        let fault = match &cause.failure {
            TaskFailure::MessageBroken => Fault::Machine,
            failure @ (TaskFailure::Reported(_) | TaskFailure::WorkerDied(_)) => failure.code().fault(),
        };
        self.failure(self.task(cause.task), Some(cause.worker), &cause.failure, fault)
    }

    /// The graph's task behind a number of the orchestrator's.
    fn task(&self, TaskId(number): TaskId) -> usize {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        self.submitted.get(number).copied().unwrap_or(usize::MAX)
    }

    /// Why the run ends: what happened, to which task, on which worker.
    fn failure(
        &self,
        task: usize,
        worker: Option<WorkerId>,
        what: &dyn std::fmt::Display,
        fault: Fault,
    ) -> Failure {
        self.end_progress();
        let name = self.graph.tasks.get(task).map_or("unknown", |entry| entry.name.as_str());
        let place = worker.map_or_else(String::new, |worker| place(self.orchestrator.workers(), worker));
        let message = format!("task {name:?}{place}: {what}");
        Failure::of_fault(fault, message)
    }

    fn show_progress(&self, task: usize) {
        if self.shows_progress {
            let name = self.graph.tasks.get(task).map_or("", |task| task.name.as_str());
            let (done, all) = (self.finished.len(), self.graph.tasks.len());
            tell(format_args!("\r\x1b[K\x1b[2m[{done}/{all}]\x1b[0m {}", Plain(name)));
        }
    }

    fn end_progress(&self) {
        if self.shows_progress && !self.finished.is_empty() {
            tell(format_args!("\r\x1b[K"));
        }
    }
}

fn place(workers: &Workers, worker: WorkerId) -> String {
    let (name, pid) = (workers.name(worker).unwrap_or("unknown"), workers.pid(worker).unwrap_or(0));
    format!(" on worker {name} (process {pid})")
}

/// The arguments of a member.
fn tensors(member: &graph::Member, buffers: &Buffers) -> Result<Vec<Tensor>, OwnError> {
    member.arguments.iter().map(|argument| buffers.tensor(argument.buffer, &argument.view)).collect()
}
