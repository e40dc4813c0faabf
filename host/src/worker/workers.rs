//! The parent's side: it starts workers, hands them tasks, several at once, and waits for the first that is over.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use bufabi_core::task_args::Scratch;
use bufabi_core::{Identity, Submission, Tag, Tensor};
use zerocopy::IntoBytes;

use super::error::{SpawnError, SubmitError, WaitError};
use super::kernel::Kernels;
use super::mailbox::{MAX_BLOB, Mailbox, RawReply, Request, RequestKind};
use super::reply::{Completion, KeptImport, Reply, TaskFailure, WorkerId, read};
use super::serve::{Inherited, serve};
use super::wait::{Spin, Waited, wait};
use super::{WaitPolicy, WorkerSpec};
use crate::owner::{Endpoint, Holds};
use crate::sys::OsError;
use crate::sys::event::{Doorbell, Watch};
use crate::sys::process::{Ending, ForkError, Process, current_pid, fork};

/// How long dropping workers waits for them before it kills them.
const STOP_LIMIT: Duration = Duration::from_secs(1);

/// A task for one worker.
#[derive(Clone, Copy, Debug)]
pub struct TaskRequest<'a> {
    /// The submitter's number for it, which comes back.
    pub task: u64,
    /// Which member of its group, from 0.
    pub member: u32,
    /// Which kernel.
    pub kernel: u32,
    /// Its tensors, inputs first.
    pub tensors: &'a [Tensor],
    /// What the task does with each tensor. Tags do not travel.
    pub tags: &'a [Tag],
    /// Its scalars.
    pub scalars: &'a [u64],
}

impl TaskRequest<'_> {
    /// What a request other than a task says of one.
    const NONE: Self = Self { task: 0, member: 0, kernel: 0, tensors: &[], tags: &[], scalars: &[] };
}

/// Worker processes of this process. Dropping it ends them.
#[derive(Debug)]
pub struct Workers {
    creator: u32,
    endpoint: Endpoint,
    workers: Vec<Worker>,
    /// Watches the workers' ends, by their places, and the doorbell.
    watch: Watch,
    doorbell: Doorbell,
    spin: Spin,
    scratch: Box<Scratch>,
    blob: Box<[u8]>,
    /// The worker to look at first, so that none waits behind another for ever.
    first: usize,
    /// Tasks that were over while something else was waited for.
    completed: VecDeque<Completion>,
}

#[derive(Debug)]
struct Worker {
    name: String,
    process: Process,
    mailbox: Mailbox,
    doorbell: Doorbell,
    /// The number of the last request.
    sequence: u32,
    work: Option<Work>,
    ending: Option<Ending>,
}

/// What a worker was asked for and has not answered.
#[derive(Debug)]
enum Work {
    Task(Task),
    Release,
}

impl Work {
    /// The submitter's number for it; a release has none.
    const fn number(&self) -> u64 {
        match self {
            Self::Task(task) => task.task,
            Self::Release => RELEASE,
        }
    }
}

/// What stands for a task's number where there is no task.
const RELEASE: u64 = u64::MAX;

/// What a worker answered, or left unanswered when it ended.
enum Event {
    Task(Completion),
    Release(WorkerId, Result<Reply, TaskFailure>),
}

/// A task that a worker has. What it names cannot be released until it is over.
#[derive(Debug)]
struct Task {
    task: u64,
    member: u32,
    tensors: usize,
    _holds: Holds,
}

/// The doorbell, among what the watch tells; workers have their places.
const DOORBELL: u64 = u64::MAX;

impl Workers {
    /// Starts a process for each worker, by a fork without exec: `kernels` and all else that this process has are there in each.
    ///
    /// # Errors
    /// [`SpawnError::SeveralThreads`] when this process has more than one thread; [`SpawnError::Os`].
    pub fn spawn<K: Kernels + ?Sized>(
        endpoint: &Endpoint,
        specs: &[WorkerSpec],
        kernels: &K,
        policy: WaitPolicy,
    ) -> Result<Self, SpawnError> {
        let (watch, doorbell) =
            (Watch::new().map_err(ForkError::Os)?, Doorbell::new().map_err(ForkError::Os)?);
        watch.add_doorbell(&doorbell, DOORBELL).map_err(ForkError::Os)?;
        let mut workers = Self {
            creator: current_pid(),
            endpoint: endpoint.clone(),
            workers: Vec::with_capacity(specs.len()),
            watch,
            doorbell,
            spin: Spin::new(policy.spin),
            scratch: Box::default(),
            blob: vec![0; MAX_BLOB].into_boxed_slice(),
            first: 0,
            completed: VecDeque::new(),
        };
        for spec in specs {
            workers.start(spec, kernels, policy)?;
        }
        Ok(workers)
    }

    fn start<K: Kernels + ?Sized>(
        &mut self,
        spec: &WorkerSpec,
        kernels: &K,
        policy: WaitPolicy,
    ) -> Result<(), SpawnError> {
        let index = u64::try_from(self.workers.len()).unwrap_or(u64::MAX);
        let parent = Process::current().map_err(ForkError::Os)?;
        let mailbox = Mailbox::new().map_err(ForkError::Os)?;
        let doorbell = Doorbell::new().map_err(ForkError::Os)?;
        let (others, parent_doorbell) = (&mut self.workers, &self.doorbell);
        let process = fork(|| {
            // What belongs to the other workers: here, only descriptors are closed.
            others.clear();
            let (mailbox, doorbell, parent) = (&mailbox, &doorbell, &parent);
            let (name, kind) = (spec.name.as_str(), spec.kind);
            serve(Inherited { name, kind, mailbox, doorbell, parent_doorbell, parent, policy }, kernels)
        })?;
        let ending = None;
        let worker =
            Worker { name: spec.name.clone(), process, mailbox, doorbell, sequence: 0, work: None, ending };
        // From here on it is ended when something fails.
        self.workers.push(worker);
        let Some(worker) = self.workers.last() else { return Ok(()) };
        worker.mailbox.leave_out_of_forks().map_err(ForkError::Os)?;
        self.watch.add_process(worker.process.as_fd(), index).map_err(ForkError::Os)
    }

    /// How many there are, ended ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.workers.len()
    }

    /// There is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }

    /// The worker of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<WorkerId> {
        self.workers.iter().position(|worker| worker.name == name).map(WorkerId)
    }

    /// A worker's name.
    #[must_use]
    pub fn name(&self, worker: WorkerId) -> Option<&str> {
        self.workers.get(worker.0).map(|worker| worker.name.as_str())
    }

    /// A worker's process number.
    #[must_use]
    pub fn pid(&self, worker: WorkerId) -> Option<i32> {
        self.workers.get(worker.0).map(|worker| worker.process.pid())
    }

    /// A worker has no task, and as far as is known its process runs.
    #[must_use]
    pub fn is_idle(&self, worker: WorkerId) -> bool {
        self.workers.get(worker.0).is_some_and(|worker| worker.work.is_none() && worker.ending.is_none())
    }

    /// Hands a task to a worker that has none, and does not wait for it. Its rights and numbers are checked here, and what it
    /// names of this process's endpoint cannot be released until it is over.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing has changed then. [`SubmitError::Os`] alone comes behind the point of no return: the worker has the
    /// task, and could not be woken.
    pub fn submit(&mut self, worker: WorkerId, request: &TaskRequest<'_>) -> Result<(), SubmitError> {
        let here = current_pid();
        if here != self.creator {
            return Err(SubmitError::Forked { creator: self.creator, here });
        }
        let unknown = SubmitError::WorkerUnknown { worker };
        let target = self.workers.get_mut(worker.0).ok_or(unknown)?;
        if let Some(ending) = target.ending {
            return Err(SubmitError::WorkerDied { ending });
        }
        if let Some(work) = &target.work {
            return Err(SubmitError::WorkerBusy { task: work.number() });
        }
        let submission = Submission::check(request.tensors, request.tags, request.scalars, &mut self.scratch);
        let submission = submission.map_err(SubmitError::Arguments)?;
        let holds = self.endpoint.hold(request.tensors);
        let holds = holds.map_err(|(argument, error)| SubmitError::Own { argument, error })?;
        // What passed the check fits: both know the same limits.
        let size = submission.encode(&mut self.blob).map_err(SubmitError::Encode)?;
        let posted = target.post(RequestKind::Run, request, self.blob.get(..size).unwrap_or(&[]));
        let (task, member, tensors) = (request.task, request.member, request.tensors.len());
        target.work = Some(Work::Task(Task { task, member, tensors, _holds: holds }));
        posted.map_err(SubmitError::Os)
    }

    /// Waits until `until` for a task that is over, in no particular order. That a worker's process ended is noticed here.
    ///
    /// # Errors
    /// [`WaitError`]; the tasks go on.
    pub fn wait(&mut self, until: Instant) -> Result<Completion, WaitError> {
        let here = current_pid();
        if here != self.creator {
            return Err(WaitError::Forked { creator: self.creator, here });
        }
        loop {
            if let Some(completion) = self.completed.pop_front() {
                return Ok(completion);
            }
            match self.next(until)? {
                Event::Task(completion) => return Ok(completion),
                // Somebody gave up waiting for it.
                Event::Release(..) => {}
            }
        }
    }

    /// Tells every worker to drop what it has mapped for an identity, as is due when its owner has released it, and waits for
    /// their answers until `until`; a worker that has a task is told when that is over. What could not be dropped, or was
    /// not answered in time, is named. A worker that has ended has nothing mapped.
    ///
    /// # Errors
    /// [`WaitError::Os`], [`WaitError::Forked`].
    pub fn release_imports(
        &mut self,
        identity: Identity,
        until: Instant,
    ) -> Result<Vec<KeptImport>, WaitError> {
        let here = current_pid();
        if here != self.creator {
            return Err(WaitError::Forked { creator: self.creator, here });
        }
        let encoded = identity.encode();
        let (mut kept, mut waiting) = (Vec::new(), Vec::new());
        let mut untold: Vec<usize> = (0..self.workers.len()).collect();
        loop {
            untold.retain(|&index| {
                let Some(worker) = self.workers.get_mut(index) else { return false };
                if worker.work.is_some() || worker.ending.is_some() {
                    return worker.ending.is_none();
                }
                worker.work = Some(Work::Release);
                waiting.push(WorkerId(index));
                // One that cannot be woken does not answer in time.
                let _ = worker.post(RequestKind::Release, &TaskRequest::NONE, encoded.as_bytes());
                false
            });
            if untold.is_empty() && waiting.is_empty() {
                return Ok(kept);
            }
            match self.next(until) {
                Ok(Event::Task(completion)) => self.completed.push_back(completion),
                Ok(Event::Release(worker, answer)) => {
                    waiting.retain(|&other| other != worker);
                    match answer {
                        Ok(_) | Err(TaskFailure::WorkerDied(_)) => {}
                        Err(why) => kept.push(KeptImport { worker, why: Some(why) }),
                    }
                }
                Err(WaitError::TimedOut { .. }) => {
                    let untold = untold.into_iter().map(WorkerId);
                    kept.extend(
                        waiting.into_iter().chain(untold).map(|worker| KeptImport { worker, why: None }),
                    );
                    return Ok(kept);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until `until` for an answer, or for the end of a process that owes one.
    fn next(&mut self, until: Instant) -> Result<Event, WaitError> {
        loop {
            if busy(&self.workers).next().is_none() {
                return Err(WaitError::Idle);
            }
            let mut ended = Vec::new();
            let (workers, first) = (&self.workers, self.first);
            let waited = wait(
                &mut self.spin,
                &self.watch,
                Some(until),
                || find_reply(workers, first),
                |is_asleep| busy(workers).for_each(|(_, worker)| worker.mailbox.set_parent_asleep(is_asleep)),
                busy(workers).map(|(_, worker)| worker.process.pid()),
                |token| ended.extend(usize::try_from(token).ok().filter(|_| token != DOORBELL)),
            );
            let waited = waited.map_err(WaitError::Os)?;
            if let Waited::Ready((index, raw)) = waited
                && let Some(event) = self.complete(index, Ok(raw))
            {
                return Ok(event);
            }
            for &index in &ended {
                if let Some(event) = self.note_end(index).map_err(WaitError::Os)? {
                    return Ok(event);
                }
            }
            if waited == Waited::TimedOut
                && let Some((index, worker)) = busy(&self.workers).next()
            {
                let task = worker.work.as_ref().map_or(RELEASE, Work::number);
                let busy = busy(&self.workers).count();
                return Err(WaitError::TimedOut { busy, worker: WorkerId(index), task });
            }
        }
    }

    /// Ends all workers: those without a task are told to stop, the others are killed. After `until` all are.
    pub fn stop(mut self, until: Instant) {
        self.end(until);
    }

    /// Takes a worker's work off it.
    fn complete(&mut self, index: usize, outcome: Result<RawReply, Ending>) -> Option<Event> {
        let worker = self.workers.get_mut(index)?;
        let work = worker.work.take()?;
        self.first = index.saturating_add(1);
        let (number, tensors) = match &work {
            Work::Task(task) => (task.task, task.tensors),
            Work::Release => (TaskRequest::NONE.task, 0),
        };
        let result = match outcome {
            Ok(raw) => read(&worker.mailbox, &raw, number, tensors),
            Err(ending) => Err(TaskFailure::WorkerDied(ending)),
        };
        let worker = WorkerId(index);
        Some(match work {
            Work::Task(Task { task, member, .. }) => Event::Task(Completion { worker, task, member, result }),
            Work::Release => Event::Release(worker, result),
        })
    }

    /// A worker's process has ended: what it replied before counts, else its task has failed.
    fn note_end(&mut self, index: usize) -> Result<Option<Event>, OsError> {
        let Some(worker) = self.workers.get_mut(index) else { return Ok(None) };
        let ending = match worker.process.ended() {
            Ok(Some(ending)) => ending,
            Ok(None) => return Ok(None),
            // Something else in this process waited for it.
            Err(error) if error.errno == libc::ECHILD => Ending::Unknown,
            Err(error) => return Err(error),
        };
        worker.ending = Some(ending);
        self.watch.remove(worker.process.as_fd())?;
        let reply = worker.mailbox.reply(worker.sequence);
        Ok(self.complete(index, reply.ok_or(ending)))
    }

    fn end(&mut self, until: Instant) {
        if current_pid() != self.creator {
            return;
        }
        for worker in self.workers.iter_mut().filter(|worker| worker.ending.is_none()) {
            if worker.work.is_some() || worker.post(RequestKind::Stop, &TaskRequest::NONE, &[]).is_err() {
                // It has ended, or it is ours to kill.
                let _ = worker.process.send(libc::SIGKILL);
            }
        }
        self.await_ends(until);
        for worker in self.workers.iter().filter(|worker| worker.ending.is_none()) {
            let _ = worker.process.send(libc::SIGKILL);
        }
        let soon = Instant::now().checked_add(STOP_LIMIT).unwrap_or(until);
        self.await_ends(soon);
    }

    /// Waits until every process has ended, or the time comes.
    fn await_ends(&mut self, until: Instant) {
        while self.workers.iter().any(|worker| worker.ending.is_none()) {
            let mut ended = Vec::new();
            let woken = self.watch.wait(Some(until), |token| ended.extend(usize::try_from(token).ok()));
            for &index in &ended {
                // A task that was still under way is abandoned with its worker.
                let _ = self.note_end(index);
            }
            if !woken.unwrap_or(false) {
                return;
            }
        }
    }
}

impl Worker {
    /// Posts a request, and wakes the worker if it sleeps.
    fn post(&mut self, kind: RequestKind, request: &TaskRequest<'_>, blob: &[u8]) -> Result<(), OsError> {
        let TaskRequest { task, member, kernel, .. } = *request;
        let blob_bytes = u32::try_from(blob.len()).unwrap_or(0);
        let fields = Request { kind: kind.to_wire(), kernel, task, member, blob_bytes };
        let is_asleep = self.mailbox.post_request(self.sequence, &fields, blob);
        self.sequence = self.sequence.wrapping_add(1);
        // No blob is larger than the mailbox: the worker would then have been asked for nothing.
        if is_asleep.unwrap_or(true) { self.doorbell.ring() } else { Ok(()) }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let now = Instant::now();
        self.end(now.checked_add(STOP_LIMIT).unwrap_or(now));
    }
}

/// The workers that owe an answer, with their places.
fn busy(workers: &[Worker]) -> impl Iterator<Item = (usize, &Worker)> {
    workers.iter().enumerate().filter(|(_, worker)| worker.work.is_some())
}

/// A reply that is there, looking at the worker `first` first.
fn find_reply(workers: &[Worker], first: usize) -> Option<(usize, RawReply)> {
    let reply = |(index, worker): (usize, &Worker)| Some((index, worker.mailbox.reply(worker.sequence)?));
    let (before, behind) =
        (|&(index, _): &(usize, &Worker)| index < first, |&(index, _): &(usize, &Worker)| index >= first);
    let found = busy(workers).filter(behind).find_map(reply);
    found.or_else(|| busy(workers).filter(before).find_map(reply))
}
