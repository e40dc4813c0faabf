//! The parent's side: it starts workers, hands them tasks, several at once, and waits for the first that is over.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use bufabi_core::task_args::Scratch;
use bufabi_core::{Identity, Submission, Tag, Tensor};
use zerocopy::IntoBytes;

use super::death::Death;
use super::error::{SpawnError, SubmitError, WaitError};
use super::kernel::Kernels;
use super::links::{FIRST_OTHER, Links, Next, Over};
use super::mailbox::{MAX_BLOB, MemoryCall, Request, RequestKind};
use super::records::{Records, TaskHolds};
use super::reply::{Completion, KeptImport, TaskFailure, WorkerId, read};
use super::wait::Spin;
use super::{WaitPolicy, WorkerSpec};
use crate::owner::Endpoint;
use crate::remote::is_remote;
use crate::sys::OsError;
use crate::sys::process::current_pid;

/// Among what the watch tells: the caller's own descriptor.
const INTERRUPT: u64 = FIRST_OTHER;

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

/// Worker processes of this process, and the leaves below them: [`WorkerId`] numbers the leaves, in the order of their specs, depth
/// first. Dropping it ends them all.
#[derive(Debug)]
pub struct Workers {
    creator: u32,
    pub(super) endpoint: Endpoint,
    pub(super) links: Links<Work>,
    /// The device memory of the chips below.
    pub(super) records: Records,
    /// What chips made for somebody who had given up waiting.
    pub(super) late: Vec<Late>,
    spin: Spin,
    scratch: Box<Scratch>,
    blob: Box<[u8]>,
    /// Tasks that were over while something else was waited for.
    completed: VecDeque<Completion>,
}

/// What a leaf was asked for and has not answered.
#[derive(Debug)]
pub(super) enum Work {
    Task(Task),
    /// Something else than a task.
    Question(RequestKind),
}

/// Memory that a chip is to take back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Late {
    pub(super) worker: WorkerId,
    pub(super) call: MemoryCall,
    pub(super) identity: Identity,
}

impl Work {
    /// The submitter's number for it; a question has none.
    const fn number(&self) -> u64 {
        match self {
            Self::Task(task) => task.task,
            Self::Question(_) => u64::MAX,
        }
    }
}

/// A task that a leaf has. What it names cannot be released until it is over.
#[derive(Debug)]
pub(super) struct Task {
    task: u64,
    member: u32,
    tensors: usize,
    _holds: TaskHolds,
}

/// A task that passed all checks, for a leaf that has not got it yet.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) worker: WorkerId,
    kernel: u32,
    blob: Box<[u8]>,
    task: Task,
}

/// What a leaf answered, or left unanswered when it ended.
enum Event {
    Task(Completion),
    Answer(WorkerId, RequestKind, Result<Vec<u8>, TaskFailure>),
}

/// What became of a question to a leaf; `None` when it was not answered in time.
pub(super) type Asked = (WorkerId, Option<Result<Vec<u8>, TaskFailure>>);

impl Workers {
    /// Starts a process for each worker, and one for each worker below it, by forks without exec: `kernels` and all else that this
    /// process has are there in each. It returns when every leaf has said that it is there.
    ///
    /// # Errors
    /// [`SpawnError::SeveralThreads`] when this process has more than one thread; [`SpawnError::Os`]; a process that ended at
    /// once, or did not come up in time.
    pub fn spawn<K: Kernels + ?Sized>(
        endpoint: &Endpoint,
        specs: &[WorkerSpec],
        kernels: &K,
        policy: WaitPolicy,
    ) -> Result<Self, SpawnError> {
        Ok(Self {
            creator: current_pid(),
            endpoint: endpoint.clone(),
            links: Links::spawn(None, specs, kernels, policy)?,
            records: Records::default(),
            late: Vec::new(),
            spin: Spin::new(policy.spin),
            scratch: Box::default(),
            blob: vec![0; MAX_BLOB].into_boxed_slice(),
            completed: VecDeque::new(),
        })
    }

    /// How many leaves there are, ended ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.links.len()
    }

    /// There is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The leaf of that path: its name, behind those of the workers above it, as in `l3/chip1`.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<WorkerId> {
        self.links.find(path).map(WorkerId)
    }

    /// A leaf's path.
    #[must_use]
    pub fn name(&self, worker: WorkerId) -> Option<&str> {
        self.links.path(worker.0)
    }

    /// A leaf's process number.
    #[must_use]
    pub fn pid(&self, worker: WorkerId) -> Option<i32> {
        self.links.hello(worker.0).map(|hello| hello.pid.get())
    }

    /// A leaf has no task, and as far as is known its process and those above it run.
    #[must_use]
    pub fn is_idle(&self, worker: WorkerId) -> bool {
        worker.0 < self.len() && self.links.work(worker.0).is_none() && self.links.death(worker.0).is_none()
    }

    /// Hands a task to a leaf that has none, and does not wait for it. Its rights and numbers are checked here, and what it
    /// names of this process's endpoint cannot be released until it is over.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing has changed then. [`SubmitError::Os`] alone comes behind the point of no return: the worker has the
    /// task, and could not be woken.
    pub fn submit(&mut self, worker: WorkerId, request: &TaskRequest<'_>) -> Result<(), SubmitError> {
        self.check_target(worker)?;
        if let Some(work) = self.links.work(worker.0) {
            return Err(SubmitError::WorkerBusy { task: work.number() });
        }
        let (size, holds) = self.admit(worker, request)?;
        let &TaskRequest { task, member, kernel, tensors, .. } = request;
        let work = Work::Task(Task { task, member, tensors: tensors.len(), _holds: holds });
        let fields = Request { kind: RequestKind::Run.to_wire(), kernel, task, member, blob_bytes: 0 };
        let blob = self.blob.get(..size).unwrap_or(&[]);
        self.links.post(worker.0, &fields, blob, work).map_err(SubmitError::Os)
    }

    /// A task for a leaf that may have another one first: all checks of a submit are done, and what it names is held.
    pub(crate) fn prepare(
        &mut self,
        worker: WorkerId,
        request: &TaskRequest<'_>,
    ) -> Result<Prepared, SubmitError> {
        self.check_target(worker)?;
        let (size, holds) = self.admit(worker, request)?;
        let &TaskRequest { task, member, kernel, tensors, .. } = request;
        let blob = self.blob.get(..size).unwrap_or(&[]).into();
        Ok(Prepared {
            worker,
            kernel,
            blob,
            task: Task { task, member, tensors: tensors.len(), _holds: holds },
        })
    }

    /// Hands a task that was prepared to its leaf, which has none; the end that cut the leaf off comes back if one did.
    ///
    /// # Errors
    /// [`OsError`]: the worker has the task, and could not be woken.
    pub(crate) fn begin(&mut self, prepared: Prepared) -> Result<Result<(), Death>, OsError> {
        let Prepared { worker, kernel, blob, task } = prepared;
        if let Some(death) = self.links.death(worker.0) {
            return Ok(Err(death.clone()));
        }
        let kind = RequestKind::Run.to_wire();
        let fields = Request { kind, kernel, task: task.task, member: task.member, blob_bytes: 0 };
        self.links.post(worker.0, &fields, &blob, Work::Task(task)).map(Ok)
    }

    /// There is such a leaf, and as far as is known it is alive.
    fn check_target(&self, worker: WorkerId) -> Result<(), SubmitError> {
        let here = current_pid();
        if here != self.creator {
            return Err(SubmitError::Forked { creator: self.creator, here });
        }
        if worker.0 >= self.len() {
            return Err(SubmitError::WorkerUnknown { worker });
        }
        match self.links.death(worker.0) {
            Some(death) => Err(SubmitError::WorkerDied { pid: death.pid, ending: death.ending }),
            None => Ok(()),
        }
    }

    /// Checks a task's arguments as they are now, holds what they name, and writes them into the blob. Its size comes back.
    fn admit(
        &mut self,
        worker: WorkerId,
        request: &TaskRequest<'_>,
    ) -> Result<(usize, TaskHolds), SubmitError> {
        let &TaskRequest { tensors, tags, scalars, .. } = request;
        let submission = Submission::check(tensors, tags, scalars, &mut self.scratch);
        let submission = submission.map_err(SubmitError::Arguments)?;
        // Its sidecar could not go along: who sends a task to another machine has other arguments and a transport.
        if let Some((argument, tensor)) = tensors.iter().enumerate().find(|(_, tensor)| is_remote(tensor)) {
            return Err(SubmitError::Remote { argument, identity: tensor.descriptor().identity() });
        }
        let holds = self.hold(worker, tensors)?;
        // What passed the check fits: both know the same limits.
        let size = submission.encode(&mut self.blob).map_err(SubmitError::Encode)?;
        Ok((size, holds))
    }

    /// Waits until `until` for a task that is over, in no particular order. That a worker's process ended is noticed here.
    ///
    /// # Errors
    /// [`WaitError`]; the tasks go on.
    pub fn wait(&mut self, until: Instant) -> Result<Completion, WaitError> {
        loop {
            if let Some(completion) = self.wait_for_any(until)? {
                return Ok(completion);
            }
        }
    }

    /// As [`wait`](Self::wait), but `None` when a leaf has answered something that somebody gave up waiting for.
    pub(crate) fn wait_for_any(&mut self, until: Instant) -> Result<Option<Completion>, WaitError> {
        self.check_process()?;
        if let Some(completion) = self.completed.pop_front() {
            return Ok(Some(completion));
        }
        Ok(match self.next(until)? {
            Event::Task(completion) => Some(completion),
            Event::Answer(worker, kind, answer) => {
                self.note_late(worker, kind, answer);
                None
            }
        })
    }

    /// A leaf was asked for something that it has not answered, be it alive or not.
    pub(crate) fn is_busy(&self, worker: WorkerId) -> bool {
        self.links.work(worker.0).is_some()
    }

    /// A leaf was asked for something that is no task, and has not answered it.
    pub(super) fn has_question(&self, worker: WorkerId) -> bool {
        matches!(self.links.work(worker.0), Some(Work::Question(_)))
    }

    /// Waits until `until` for anything that is over, and keeps it for whoever asks for it.
    pub(super) fn next_answer(&mut self, until: Instant) -> Result<(), WaitError> {
        self.check_process()?;
        match self.next(until)? {
            Event::Task(completion) => self.completed.push_back(completion),
            Event::Answer(worker, kind, answer) => self.note_late(worker, kind, answer),
        }
        Ok(())
    }

    /// Tells every leaf to drop what it has mapped for an identity, as is due when its owner has released it, and waits for
    /// their answers until `until`; one that has a task is told when that is over. What could not be dropped, or was
    /// not answered in time, is named. A leaf that has ended has nothing mapped, and the workers above leaves map nothing.
    ///
    /// # Errors
    /// [`WaitError::Os`], [`WaitError::Forked`].
    pub fn release_imports(
        &mut self,
        identity: Identity,
        until: Instant,
    ) -> Result<Vec<KeptImport>, WaitError> {
        let everyone: Vec<WorkerId> = (0..self.len()).map(WorkerId).collect();
        let asked = self.ask(&everyone, RequestKind::Release, identity.encode().as_bytes(), until)?;
        let kept = asked.into_iter().filter_map(|(worker, answer)| match answer {
            Some(Ok(_) | Err(TaskFailure::WorkerDied(_))) => None,
            Some(Err(why)) => Some(KeptImport { worker, why: Some(why) }),
            None => Some(KeptImport { worker, why: None }),
        });
        Ok(kept.collect())
    }

    /// Asks each of those leaves the same, one that has a task when that is over, and waits for their answers until `until`. One that
    /// has ended answers with that.
    ///
    /// # Errors
    /// [`WaitError::Os`], [`WaitError::Forked`].
    pub(super) fn ask(
        &mut self,
        workers: &[WorkerId],
        kind: RequestKind,
        what: &[u8],
        until: Instant,
    ) -> Result<Vec<Asked>, WaitError> {
        self.check_process()?;
        let (mut asked, mut waiting) = (Vec::<Asked>::new(), Vec::new());
        let mut untold = workers.to_vec();
        let request = Request { kind: kind.to_wire(), kernel: 0, task: 0, member: 0, blob_bytes: 0 };
        loop {
            untold.retain(|&worker| {
                if self.links.work(worker.0).is_some() {
                    return true;
                }
                if let Some(death) = self.links.ended(worker.0) {
                    asked.push((worker, Some(Err(TaskFailure::WorkerDied(death.clone())))));
                } else {
                    waiting.push(worker);
                    // One that cannot be woken does not answer in time.
                    let _ = self.links.post(worker.0, &request, what, Work::Question(kind));
                }
                false
            });
            if untold.is_empty() && waiting.is_empty() {
                return Ok(asked);
            }
            match self.next(until) {
                Ok(Event::Task(completion)) => self.completed.push_back(completion),
                Ok(Event::Answer(worker, _, answer)) if waiting.contains(&worker) => {
                    waiting.retain(|&other| other != worker);
                    asked.push((worker, Some(answer)));
                }
                Ok(Event::Answer(worker, kind, answer)) => self.note_late(worker, kind, answer),
                Err(WaitError::TimedOut { .. } | WaitError::Interrupted) => {
                    asked.extend(waiting.into_iter().chain(untold).map(|worker| (worker, None)));
                    return Ok(asked);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// From now on a wait for tasks ends with [`WaitError::Interrupted`] as soon as `fd` can be read, and what a chip is asked counts as
    /// not answered in time.
    ///
    /// # Errors
    /// [`OsError`].
    pub fn watch_interrupt(&self, fd: BorrowedFd<'_>) -> Result<(), OsError> {
        self.links.watch().add_socket(fd, INTERRUPT)
    }

    fn check_process(&self) -> Result<(), WaitError> {
        let here = current_pid();
        if here == self.creator { Ok(()) } else { Err(WaitError::Forked { creator: self.creator, here }) }
    }

    /// Waits until `until` for an answer, or for the end of a process that owes one.
    fn next(&mut self, until: Instant) -> Result<Event, WaitError> {
        loop {
            if self.links.is_idle() {
                return Err(WaitError::Idle);
            }
            let nothing = || None::<core::convert::Infallible>;
            let mut is_interrupted = false;
            let told = |token| is_interrupted |= token == INTERRUPT;
            match self
                .links
                .next(&mut self.spin, Some(until), nothing, |_| {}, told)
                .map_err(WaitError::Os)?
            {
                Next::Over(over) => return Ok(self.complete(over)),
                Next::Ready(never) => match never {},
                Next::Woken if is_interrupted => return Err(WaitError::Interrupted),
                Next::Woken => {}
                Next::TimedOut => {
                    let busy = self.links.busy().count();
                    let Some((lane, work)) = self.links.busy().next() else { return Err(WaitError::Idle) };
                    return Err(WaitError::TimedOut { busy, worker: WorkerId(lane), task: work.number() });
                }
            }
        }
    }

    fn complete(&mut self, over: Over<Work>) -> Event {
        let Over { lane, work, outcome } = over;
        let (number, tensors) = match &work {
            Work::Task(task) => (task.task, task.tensors),
            Work::Question(_) => (0, 0),
        };
        let answer = match (outcome, self.links.mailbox(lane)) {
            (Ok(raw), Some(mailbox)) => read(mailbox, &raw, number, tensors),
            (Ok(_), None) => Err(TaskFailure::MessageBroken),
            (Err(death), _) => Err(TaskFailure::WorkerDied(death)),
        };
        if let Err(TaskFailure::WorkerDied(death)) = &answer {
            self.links.learn_death(lane, death);
        }
        let worker = WorkerId(lane);
        match work {
            Work::Task(Task { task, member, .. }) => {
                let result = answer.map(|answer| answer.reply);
                Event::Task(Completion { worker, task, member, result })
            }
            Work::Question(kind) => Event::Answer(worker, kind, answer.map(|answer| answer.answer)),
        }
    }

    /// Ends all workers: those without a task are told to stop, the others are killed. After `until` all are.
    pub fn stop(mut self, until: Instant) {
        if current_pid() == self.creator {
            self.links.end(until);
        }
    }
}
