//! The order of a run: each task as soon as those that it waits for are done, each worker one task at a time.

use std::collections::VecDeque;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use bufabi_core::{Fault, Tag, Tensor};
use bufabi_host::owner::Buffer;
use bufabi_host::worker::{Completion, Reply, TaskFailure, TaskRequest, WaitError, WorkerId, Workers};

use super::deadline;
use super::interrupt::Interrupt;
use crate::edges::Edges;
use crate::failure::Failure;
use crate::graph::{Graph, Member};
use crate::terminal::{Plain, tell};

/// How long a signal may go unnoticed.
const LOOK: Duration = Duration::from_millis(100);

/// A member of a task that is done.
pub(super) struct Finished {
    pub(super) task: usize,
    pub(super) member: usize,
    pub(super) reply: Reply,
}

/// What is still to be done.
struct Schedule<'a> {
    graph: &'a Graph,
    /// The tasks that wait for each task.
    followers: Vec<Vec<usize>>,
    /// How many tasks each task still waits for.
    waits_for: Vec<usize>,
    /// How many members of each task are not done.
    members_left: Vec<usize>,
    /// What each worker does next.
    queues: Vec<VecDeque<(usize, usize)>>,
    /// The workers that have a task.
    is_busy: Vec<bool>,
    tasks_done: usize,
    shows_progress: bool,
}

/// Runs all tasks of a graph, and tells of each member in the order in which they finished.
pub(super) fn run(
    graph: &Graph,
    workers: &mut Workers,
    buffers: &[Buffer],
    interrupt: &Interrupt,
    limit: Duration,
) -> Result<Vec<Finished>, Failure> {
    let mut schedule = Schedule::new(graph, &Edges::of(graph)?);
    let mut finished = Vec::new();
    let mut until = deadline(limit);
    loop {
        interrupt.check()?;
        schedule.submit(workers, buffers)?;
        match workers.wait(deadline(LOOK).min(until)) {
            Ok(completion) => {
                finished.push(schedule.complete(workers, completion)?);
                until = deadline(limit);
            }
            Err(WaitError::Idle) => break,
            Err(WaitError::TimedOut { .. }) if Instant::now() < until => {}
            Err(WaitError::TimedOut { worker, task, .. }) => {
                let what = format!("no task finished in {} s", limit.as_secs());
                return Err(schedule.failure(workers, worker, task, &what, Fault::Machine));
            }
            Err(error) => return Err(Failure::machine(error.to_string())),
        }
    }
    schedule.end_progress();
    Ok(finished)
}

impl<'a> Schedule<'a> {
    fn new(graph: &'a Graph, edges: &Edges) -> Self {
        let count = graph.tasks.len();
        let mut schedule = Self {
            graph,
            followers: vec![Vec::new(); count],
            waits_for: vec![0; count],
            members_left: graph.tasks.iter().map(|task| task.members.len()).collect(),
            queues: vec![VecDeque::new(); graph.workers.len()],
            is_busy: vec![false; graph.workers.len()],
            tasks_done: 0,
            shows_progress: stderr().is_terminal(),
        };
        for (before, after) in edges.pairs() {
            if let (Some(followers), Some(waits)) =
                (schedule.followers.get_mut(before), schedule.waits_for.get_mut(after))
            {
                followers.push(after);
                *waits = waits.saturating_add(1);
            }
        }
        for task in 0..count {
            if schedule.waits_for.get(task) == Some(&0) {
                schedule.enqueue(task);
            }
        }
        schedule
    }

    /// Nothing is left that the task waits for.
    fn enqueue(&mut self, task: usize) {
        let members = self.graph.tasks.get(task).map_or(&[][..], |task| &task.members);
        for (index, member) in members.iter().enumerate() {
            // A graph that is run names a worker for each.
            if let Some(queue) = member.worker.and_then(|worker| self.queues.get_mut(worker)) {
                queue.push_back((task, index));
            }
        }
    }

    /// Hands each worker that has nothing to do the next of its queue.
    fn submit(&mut self, workers: &mut Workers, buffers: &[Buffer]) -> Result<(), Failure> {
        for index in 0..self.queues.len() {
            let worker = WorkerId(index);
            let Some(queue) = self.queues.get_mut(index) else { continue };
            let Some(&(task, number)) = queue.front() else { continue };
            let entry = self.graph.tasks.get(task);
            let Some((entry, member)) = entry.and_then(|entry| Some((entry, entry.members.get(number)?)))
            else {
                continue;
            };
            let name = u64::try_from(task).unwrap_or(u64::MAX);
            let Some(is_busy) = self.is_busy.get_mut(index).filter(|is_busy| !**is_busy) else { continue };
            *is_busy = true;
            queue.pop_front();
            let failed =
                |what: &dyn ToString, fault| self.failure(workers, worker, name, &what.to_string(), fault);
            let tensors = tensors(member, buffers).map_err(|error| failed(&error, Fault::Caller))?;
            let tags: Vec<Tag> = member.arguments.iter().map(|argument| argument.tag).collect();
            let request = TaskRequest {
                task: name,
                member: u32::try_from(number).unwrap_or(u32::MAX),
                kernel: member.call.map_or(0, |call| call.number()),
                tensors: &tensors,
                tags: &tags,
                scalars: &entry.scalars,
            };
            let submitted = workers.submit(worker, &request);
            submitted.map_err(|error| {
                self.failure(workers, worker, name, &error.to_string(), error.code().fault())
            })?;
        }
        Ok(())
    }

    /// Takes note of a member that is done, and of the tasks that need not wait for it any longer.
    fn complete(&mut self, workers: &Workers, completion: Completion) -> Result<Finished, Failure> {
        let Completion { worker, task, member, result } = completion;
        if let Some(is_busy) = self.is_busy.get_mut(worker.0) {
            *is_busy = false;
        }
        let reply = result.map_err(|failure| {
            let fault = match &failure {
                TaskFailure::MessageBroken => Fault::Machine,
                TaskFailure::Reported(_) | TaskFailure::WorkerDied(_) => failure.code().fault(),
            };
            self.failure(workers, worker, task, &failure.to_string(), fault)
        })?;
        let task = usize::try_from(task).unwrap_or(usize::MAX);
        let member = usize::try_from(member).unwrap_or(usize::MAX);
        if let Some(left) = self.members_left.get_mut(task) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.tasks_done = self.tasks_done.saturating_add(1);
                self.show_progress(task);
                let followers = self.followers.get_mut(task).map(std::mem::take).unwrap_or_default();
                for follower in followers {
                    if let Some(waits) = self.waits_for.get_mut(follower) {
                        *waits = waits.saturating_sub(1);
                        if *waits == 0 {
                            self.enqueue(follower);
                        }
                    }
                }
            }
        }
        Ok(Finished { task, member, reply })
    }

    /// Why the run ends: what happened, to which task, on which worker.
    fn failure(&self, workers: &Workers, worker: WorkerId, task: u64, what: &str, fault: Fault) -> Failure {
        self.end_progress();
        let entry = usize::try_from(task).ok().and_then(|task| self.graph.tasks.get(task));
        let task = entry.map_or("unknown", |entry| entry.name.as_str());
        let name = workers.name(worker).unwrap_or("unknown");
        let pid = workers.pid(worker).unwrap_or(0);
        let message = format!("task {task:?} on worker {name} (process {pid}): {what}");
        match fault {
            Fault::Machine | Fault::Capacity | Fault::Library => Failure::machine(message),
            Fault::Nobody | Fault::Sender | Fault::Caller => Failure::broken(message),
        }
    }

    fn show_progress(&self, task: usize) {
        if self.shows_progress {
            let name = self.graph.tasks.get(task).map_or("", |task| task.name.as_str());
            let (done, all) = (self.tasks_done, self.graph.tasks.len());
            tell(format_args!("\r\x1b[K\x1b[2m[{done}/{all}]\x1b[0m {}", Plain(name)));
        }
    }

    fn end_progress(&self) {
        if self.shows_progress && self.tasks_done > 0 {
            tell(format_args!("\r\x1b[K"));
        }
    }
}

/// The arguments of a member.
fn tensors(member: &Member, buffers: &[Buffer]) -> Result<Vec<Tensor>, bufabi_host::owner::OwnError> {
    let arguments = member.arguments.iter();
    let named = arguments.filter_map(|argument| Some((buffers.get(argument.buffer)?, &argument.view)));
    named.map(|(buffer, view)| buffer.tensor(view)).collect()
}
