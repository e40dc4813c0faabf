//! The orchestrator: it takes tasks, starts each when its time has come, and tells what came of them.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use bufabi_core::KeyedHash;
use bufabi_core::dependencies::{Argument, Capacities, Handle, Policy, Ready, Tracker};

use super::error::SubmitError;
use super::finished::{Cause, Finished, TaskFailed, TaskId};
use super::memory::TrackerMemory;
use super::node::Node;
use super::{DEFAULT_CAPACITIES, Member};
use crate::sys::OsError;
use crate::sys::random::random_bytes;
use crate::worker::{Completion, TaskFailure, TaskRequest, WaitError, WorkerId, Workers};

/// Takes tasks in order, at any time, and runs them on the leaves of a tree of workers. Dropping it abandons what is not over, and
/// ends the workers.
#[derive(Debug)]
pub struct Orchestrator {
    workers: Workers,
    tracker: Tracker<TrackerMemory>,
    /// Tasks that are not over, by their numbers.
    nodes: HashMap<u64, Node>,
    /// How many of them nobody wants to know of any more.
    abandoned: usize,
    /// What each leaf does next: a task's number, and which of its members.
    queues: Vec<VecDeque<(u64, usize)>>,
    /// Leaves that may have something to begin with.
    due: Vec<usize>,
    /// A leaf could not be woken.
    trouble: Option<OsError>,
    /// Failed tasks of this run, and those that they poisoned: they stay in the tracker until it ends.
    failed: Vec<Handle>,
    /// The failures of this run, by the tasks' numbers.
    causes: HashMap<u64, Cause>,
    first_cause: Option<Cause>,
    finished: VecDeque<Finished>,
    next: u64,
}

impl Orchestrator {
    /// An orchestrator over these workers, with [`DEFAULT_CAPACITIES`].
    ///
    /// # Errors
    /// [`OsError`] when no random bytes can be had.
    pub fn new(workers: Workers) -> Result<Self, OsError> {
        Self::with_capacities(workers, &DEFAULT_CAPACITIES)
    }

    /// As [`new`](Self::new), for so much at once.
    ///
    /// # Errors
    /// As [`new`](Self::new), and ENOMEM when the machine has no memory for so much.
    pub fn with_capacities(workers: Workers, capacities: &Capacities) -> Result<Self, OsError> {
        // Views come from outside, and must not choose where they land in the tracker's tables.
        let seed = [random_bytes()?, random_bytes()?].map(u64::from_le_bytes);
        let storage = TrackerMemory::storage(capacities)?;
        let leaves = workers.len();
        Ok(Self {
            workers,
            tracker: Tracker::new(Policy::Full, KeyedHash::new(seed), storage),
            nodes: HashMap::new(),
            abandoned: 0,
            queues: vec![VecDeque::new(); leaves],
            due: Vec::new(),
            trouble: None,
            failed: Vec::new(),
            causes: HashMap::new(),
            first_cause: None,
            finished: VecDeque::new(),
            next: 0,
        })
    }

    /// The workers that it runs tasks on.
    #[must_use]
    pub const fn workers(&self) -> &Workers {
        &self.workers
    }

    /// As [`workers`](Self::workers), for what is not a task: dropping imports, device memory. Whoever submits or waits there
    /// takes leaves and answers away from the orchestrator.
    pub fn workers_mut(&mut self) -> &mut Workers {
        // An answer that is taken there may be what a leaf's next task waits for.
        self.due.extend(0..self.queues.len());
        &mut self.workers
    }

    /// Tasks that are not over.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.nodes.len()
    }

    /// Takes the next task of the sequence: one member, or several that are a group. Its rights and numbers are checked here on
    /// their final values. What it names cannot be released from now on until it is over. It begins at once if nothing is in its way.
    ///
    /// A task that depends on one that failed is taken, and is over at once.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing has changed then.
    pub fn submit(&mut self, members: &[Member<'_>]) -> Result<TaskId, SubmitError> {
        if members.is_empty() {
            return Err(SubmitError::Empty);
        }
        let number = self.next;
        let mut prepared = Vec::with_capacity(members.len());
        for (place, member) in members.iter().enumerate() {
            let &Member { worker, kernel, tensors, tags, scalars } = member;
            let index = u32::try_from(place).unwrap_or(u32::MAX);
            let request = TaskRequest { task: number, member: index, kernel, tensors, tags, scalars };
            let ready = self.workers.prepare(worker, &request);
            prepared.push(ready.map_err(|error| SubmitError::Member { member: place, error })?);
        }
        let submitted = self.tracker.submit(number, arguments(members)).map_err(SubmitError::Tracker)?;
        let (handle, waits, poisoned) = (submitted.handle, !submitted.edges.is_empty(), submitted.poisoned);
        self.next = number.saturating_add(1);
        self.nodes.insert(number, Node::new(handle, prepared));
        if let Some(cause) = poisoned {
            self.poison(handle, number, cause.task);
        } else if !waits {
            self.enqueue(number);
            self.start();
        }
        Ok(TaskId(number))
    }

    /// Waits until `until` for a task that is over, in no particular order.
    ///
    /// # Errors
    /// [`WaitError::Idle`] when every task is over and was told of, or was abandoned; the others of [`WaitError`], after which the tasks
    /// go on.
    pub fn wait(&mut self, until: Instant) -> Result<Finished, WaitError> {
        loop {
            self.start();
            if let Some(finished) = self.finished.pop_front() {
                return Ok(finished);
            }
            if self.is_idle() {
                return Err(WaitError::Idle);
            }
            self.advance(until)?;
        }
    }

    /// Ends the run: waits until `until` for all its tasks, but for those that were abandoned, and forgets what failed, so that what is
    /// submitted from now on is no longer poisoned by it. The first failure comes back. What was not told of yet still is, by
    /// [`wait`](Self::wait).
    ///
    /// # Errors
    /// As [`wait`](Self::wait) but for [`WaitError::Idle`]; the run goes on then.
    pub fn end_run(&mut self, until: Instant) -> Result<Option<Cause>, WaitError> {
        loop {
            self.start();
            if self.is_idle() {
                break;
            }
            self.advance(until)?;
        }
        for handle in self.failed.drain(..) {
            // Nothing waits for it that is not over.
            let _ = self.tracker.finish(handle, |_| {});
        }
        self.causes.clear();
        Ok(self.first_cause.take())
    }

    /// Gives up what is not over: what has not begun never will, and what is under way keeps what it names until its leaf has answered or
    /// ended. Nothing more is told of these tasks.
    pub fn abandon(&mut self) {
        self.queues.iter_mut().for_each(VecDeque::clear);
        self.finished.clear();
        let tracker = &mut self.tracker;
        self.nodes.retain(|_, node| {
            node.drop_waiting();
            node.is_abandoned = true;
            if node.running == 0 {
                let _ = tracker.finish(node.handle, |_| {});
            }
            node.running > 0
        });
        self.abandoned = self.nodes.len();
    }

    /// No task is left that somebody waits for.
    fn is_idle(&self) -> bool {
        self.nodes.len() == self.abandoned
    }

    /// Ends the workers: those without a task are told to stop, the others are killed. After `until` all are.
    pub fn stop(self, until: Instant) {
        self.workers.stop(until);
    }

    /// Nothing is left that the task waits for.
    fn enqueue(&mut self, number: u64) {
        let Some(node) = self.nodes.get(&number) else { return };
        for (member, prepared) in node.waiting.iter().enumerate() {
            let queue = prepared.as_ref().and_then(|prepared| self.queues.get_mut(prepared.worker.0));
            if let (Some(queue), Some(prepared)) = (queue, prepared) {
                queue.push_back((number, member));
                self.due.push(prepared.worker.0);
            }
        }
    }

    /// Hands each leaf that has nothing to do the next of its queue.
    fn start(&mut self) {
        while let Some(leaf) = self.due.pop() {
            let worker = WorkerId(leaf);
            while !self.workers.is_busy(worker)
                && let Some((number, member)) = self.queues.get_mut(leaf).and_then(VecDeque::pop_front)
            {
                let Some(node) = self.nodes.get_mut(&number) else { continue };
                // It has failed in another member.
                let Some(prepared) = node.take(member) else { continue };
                match self.workers.begin(prepared) {
                    Ok(Ok(())) => node.running = node.running.saturating_add(1),
                    Ok(Err(death)) => self.fail(number, member, worker, TaskFailure::WorkerDied(death)),
                    Err(error) => {
                        node.running = node.running.saturating_add(1);
                        self.trouble.get_or_insert(error);
                    }
                }
            }
        }
    }

    /// Waits until `until` for an answer from some leaf, and takes note of it.
    fn advance(&mut self, until: Instant) -> Result<(), WaitError> {
        if let Some(error) = self.trouble.take() {
            return Err(WaitError::Os(error));
        }
        let Some(Completion { worker, task, member, result }) = self.workers.wait_for_any(until)? else {
            // A leaf has answered something else, and has nothing to do now.
            self.due.extend(0..self.queues.len());
            return Ok(());
        };
        self.due.push(worker.0);
        let member = usize::try_from(member).unwrap_or(usize::MAX);
        let Some(node) = self.nodes.get_mut(&task) else { return Ok(()) };
        node.running = node.running.saturating_sub(1);
        match result {
            Ok(reply) => {
                node.keep(member, reply);
                self.settle(task);
            }
            Err(failure) => self.fail(task, member, worker, failure),
        }
        Ok(())
    }

    /// A member failed: none of the task begins any more, nor anything that depends on it.
    fn fail(&mut self, number: u64, member: usize, worker: WorkerId, failure: TaskFailure) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        if node.failure.is_none() {
            let member = u32::try_from(member).unwrap_or(u32::MAX);
            let reason = u64::from(failure.code().number().unsigned_abs());
            let cause = Cause { task: TaskId(number), member, worker, failure };
            if !node.is_abandoned {
                self.first_cause.get_or_insert_with(|| cause.clone());
            }
            self.causes.insert(number, cause.clone());
            node.failure = Some(cause);
            node.drop_waiting();
            let mut poisoned = Vec::new();
            let dependents = |handle, task| poisoned.push((handle, task));
            // It has not been retired.
            let _ = self.tracker.fail(node.handle, reason, dependents);
            poisoned.into_iter().for_each(|(handle, task)| self.poison(handle, task, number));
        }
        self.settle(number);
    }

    /// A task never runs, since another one failed.
    fn poison(&mut self, handle: Handle, number: u64, failed: u64) {
        self.failed.push(handle);
        if self.nodes.remove(&number).is_some()
            && let Some(cause) = self.causes.get(&failed).cloned()
        {
            // The first, if that was abandoned: nobody is told of it but by those that it takes along.
            self.first_cause.get_or_insert_with(|| cause.clone());
            let outcome = Err(TaskFailed::Poisoned(cause));
            self.finished.push_back(Finished { task: TaskId(number), outcome });
        }
    }

    /// If a task is over, tells of it, and begins what waited for it alone.
    fn settle(&mut self, number: u64) {
        let is_over = self.nodes.get(&number).is_some_and(Node::is_over);
        let Some(mut node) = is_over.then(|| self.nodes.remove(&number)).flatten() else { return };
        let (handle, is_abandoned) = (node.handle, node.is_abandoned);
        let outcome = match node.failure.take() {
            Some(cause) => {
                self.failed.push(handle);
                Err(TaskFailed::Own(cause))
            }
            None => {
                let mut ready = Vec::new();
                // It has not been retired.
                let _ = self.tracker.finish(handle, |task: Ready| ready.push(task.task));
                ready.into_iter().for_each(|task| self.enqueue(task));
                Ok(node.into_replies())
            }
        };
        if is_abandoned {
            self.abandoned = self.abandoned.saturating_sub(1);
        } else {
            self.finished.push_back(Finished { task: TaskId(number), outcome });
        }
    }
}

/// All that the members of a task name.
fn arguments(members: &[Member<'_>]) -> impl Iterator<Item = Argument> {
    let all = members.iter().flat_map(|member| member.tensors.iter().zip(member.tags));
    all.zip(0_u32..).map(|((tensor, &tag), rank)| {
        let descriptor = tensor.descriptor();
        let (identity, nbytes) = (descriptor.identity(), descriptor.nbytes());
        Argument { identity, nbytes, view: tensor.view(), tag, rank }
    })
}
