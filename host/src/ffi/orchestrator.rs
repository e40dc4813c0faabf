//! Worker processes with kernels in C, and an orchestrator that runs tasks on them in order.

use core::ffi::{c_char, c_void};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bufabi_core::wire::identity::RawIdentity;
use bufabi_core::{Code, Tag, Tensor};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use super::boundary::{answer, noted};
use super::buffer::deadline;
use super::consumer::resolution_number;
use super::endpoint::{ENDPOINTS, EndpointHandle};
use super::handle::{Kind, Table};
use super::kernel::{Foreign, RunKernel};
use super::parameter::{Out, OutSlice, apart_from, given, given_slice, span_of, span_of_slice};
use super::status::Status;
use super::task_args::{self, TaskArgsHandle};
use super::worker::{WorkerFields, specs, text};
use crate::kernels::StandardKernels;
use crate::orchestrator::{Finished, Member, Orchestrator, TaskFailed};
use crate::worker::{TaskFailure, WaitPolicy, WorkerId, Workers};

/// Worker processes, and the tasks that run on them. 0 is none.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct OrchestratorHandle {
    /// Nothing to be read into.
    pub token: u64,
}

/// What one worker does of a task.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct MemberFields {
    /// Its arguments, inputs first; they are read during the call alone.
    pub arguments: TaskArgsHandle,
    /// Where it runs, as `bufabi_orchestrator_find` says it.
    pub worker: u32,
    /// Which kernel.
    pub kernel: u32,
}

/// A task that is over.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct FinishedFields {
    /// Which one: its place in the order of all, from 0.
    pub task: u64,
    /// 0, or why it, or the task that it depends on, failed.
    pub status: Status,
    /// 1 when it never ran, since a task that it depends on failed.
    pub is_poisoned: i32,
    /// The task that failed first.
    pub cause_task: u64,
    /// The member of that task, from 0.
    pub cause_member: u32,
    /// Where that ran.
    pub cause_worker: u32,
    /// The argument that it is about, from 0; -1 when there is none.
    pub cause_argument: i32,
    /// Workers that handed it on, of its first member.
    pub hops: u32,
    /// Bytes that workers copied to get at the arguments, of all members.
    pub bytes_copied: u64,
    /// Nanoseconds from a worker's seeing the task to its answer, of the slowest member.
    pub nanoseconds: u64,
    /// How the arguments of its first member were resolved, in order: `BUFABI_RESOLUTION_...`.
    pub resolutions: [u8; 256],
    /// Arguments of its first member; 0 when it failed.
    pub resolution_count: u32,
    /// 0.
    pub reserved: u32,
    /// Why it failed, for a person, and a closing NUL.
    pub text: [c_char; 256],
}

static TABLE: Table<Mutex<Orchestrator>> = Table::new(Kind::Orchestrator);

/// Works on the orchestrator of a handle, alone.
pub(super) fn with<R>(
    handle: OrchestratorHandle,
    work: impl FnOnce(&mut Orchestrator) -> Result<R, Code>,
) -> Result<R, Code> {
    let orchestrator = TABLE.get(handle.token)?;
    work(&mut lock(&orchestrator))
}

fn lock(orchestrator: &Mutex<Orchestrator>) -> MutexGuard<'_, Orchestrator> {
    // A panic of the orchestrator itself would be a fault of this library; a later call on it is as good as none.
    orchestrator.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a process for each worker, by forks without exec, and an orchestrator over them. This process has one thread then: the
/// orchestrator comes before `bufabi_vmm_serve` and before threads of the program's own. What tasks name of `endpoint` is held until
/// they are over. `run` is the kernels; NULL stands for those of this library, see `bufabi_kernel_number`. Before it sleeps, a side spins
/// for `spin_nanoseconds` at most; UINT64_MAX stands for what suits most.
///
/// # Safety
/// `workers` points to `worker_count` workers that nobody writes during the call, `orchestrator` to a handle that may be written. `run`
/// is a function that keeps to what its type says, and `context` is good for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_orchestrator_create(
    endpoint: EndpointHandle,
    workers: *const WorkerFields,
    worker_count: usize,
    run: RunKernel,
    context: *mut c_void,
    spin_nanoseconds: u64,
    orchestrator: *mut OrchestratorHandle,
) -> Status {
    answer("orchestrator_create", || {
        // SAFETY: the caller's promise above.
        let workers = unsafe { given_slice(workers, worker_count) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(orchestrator) }?;
        apart_from(&[out.span()], &[span_of_slice(workers)])?;
        let (endpoint, specs) = (ENDPOINTS.get(endpoint.token)?, specs(workers)?);
        let policy = match spin_nanoseconds {
            u64::MAX => WaitPolicy::default(),
            nanoseconds => WaitPolicy { spin: Duration::from_nanos(nanoseconds) },
        };
        let workers = match run {
            Some(run) => Workers::spawn(&endpoint, &specs, &Foreign { run, context }, policy),
            None => Workers::spawn(&endpoint, &specs, &StandardKernels, policy),
        };
        let workers = workers.map_err(|error| noted(error.code(), &error))?;
        let orchestrator = Orchestrator::new(workers).map_err(|error| noted(error.code(), &error))?;
        out.set(OrchestratorHandle { token: TABLE.insert(Mutex::new(orchestrator))? });
        Ok(())
    })
}

/// The worker of that path: its name, behind those of the workers above it and slashes, as in `l3/chip1`. Only those that run tasks have
/// a number.
///
/// # Safety
/// `path` points to `path_bytes` bytes that nobody writes during the call, `worker` to a uint32_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_orchestrator_find(
    orchestrator: OrchestratorHandle,
    path: *const c_char,
    path_bytes: usize,
    worker: *mut u32,
) -> Status {
    answer("orchestrator_find", || {
        // SAFETY: the caller's promise above.
        let path = unsafe { given_slice(path, path_bytes) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(worker) }?;
        apart_from(&[out.span()], &[span_of_slice(path)])?;
        with(orchestrator, |orchestrator| {
            let WorkerId(worker) = orchestrator.workers().find(text(path)?).ok_or(Code::WorkerUnknown)?;
            out.set(u32::try_from(worker).unwrap_or(u32::MAX));
            Ok(())
        })
    })
}

/// The number of a worker's process.
///
/// # Safety
/// `pid` points to an int32_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_orchestrator_pid(
    orchestrator: OrchestratorHandle,
    worker: u32,
    pid: *mut i32,
) -> Status {
    answer("orchestrator_pid", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(pid) }?;
        with(orchestrator, |orchestrator| {
            out.set(orchestrator.workers().pid(worker_id(worker)).ok_or(Code::WorkerUnknown)?);
            Ok(())
        })
    })
}

/// A worker, by its number.
pub(super) fn worker_id(worker: u32) -> WorkerId {
    WorkerId(usize::try_from(worker).unwrap_or(usize::MAX))
}

/// Takes the next task of the sequence: one member, or several that are a group. Its rights and numbers are checked here on their final
/// values, and what it names cannot be released until it is over. It runs as soon as those that it waits for are done and its workers
/// are free. `*task` is its place in the order of all, from 0. One that depends on a task that failed is taken, and is over at once.
///
/// # Safety
/// `members` points to `member_count` members that nobody writes during the call, `task` to a uint64_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_orchestrator_submit(
    orchestrator: OrchestratorHandle,
    members: *const MemberFields,
    member_count: usize,
    task: *mut u64,
) -> Status {
    answer("orchestrator_submit", || {
        // SAFETY: the caller's promise above.
        let members = unsafe { given_slice(members, member_count) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(task) }?;
        apart_from(&[out.span()], &[span_of_slice(members)])?;
        // Copies: two members may have the same list, and none is locked while the orchestrator is.
        let arguments: Vec<(Vec<Tensor>, Vec<Tag>, Vec<u64>)> = members
            .iter()
            .map(|member| {
                task_args::with(member.arguments, |collected| {
                    let arguments = &collected.arguments;
                    Ok((
                        arguments.tensors().to_vec(),
                        arguments.tags().to_vec(),
                        arguments.scalars().to_vec(),
                    ))
                })
            })
            .collect::<Result<_, _>>()?;
        let members: Vec<Member<'_>> = members
            .iter()
            .zip(&arguments)
            .map(|(member, (tensors, tags, scalars))| {
                let (worker, kernel) = (worker_id(member.worker), member.kernel);
                Member { worker, kernel, tensors, tags, scalars }
            })
            .collect();
        with(orchestrator, |orchestrator| {
            let submitted = orchestrator.submit(&members).map_err(|error| noted(error.code(), &error))?;
            out.set(submitted.0);
            Ok(())
        })
    })
}

/// Waits up to so long for a task that is over, in no particular order. That one failed is no failure of this call: it is in
/// `finished->status`. `worker_idle` when every task is over and was told of.
///
/// # Safety
/// `finished` points to what may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_orchestrator_wait(
    orchestrator: OrchestratorHandle,
    nanoseconds: u64,
    finished: *mut FinishedFields,
) -> Status {
    answer("orchestrator_wait", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(finished) }?;
        let until = deadline(nanoseconds);
        with(orchestrator, |orchestrator| {
            let finished = orchestrator.wait(until).map_err(|error| noted(error.code(), &error))?;
            out.set(FinishedFields::of(&finished));
            Ok(())
        })
    })
}

/// Ends a run: waits up to so long for all its tasks, and forgets what failed, so that what is submitted from now on is no longer poisoned by
/// it. `*failure` is the status of the first failure, or 0. What was not told of yet still is, by `bufabi_orchestrator_wait`.
///
/// # Safety
/// `failure` points to a status that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_orchestrator_end_run(
    orchestrator: OrchestratorHandle,
    nanoseconds: u64,
    failure: *mut Status,
) -> Status {
    answer("orchestrator_end_run", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(failure) }?;
        let until = deadline(nanoseconds);
        with(orchestrator, |orchestrator| {
            let cause = orchestrator.end_run(until).map_err(|error| noted(error.code(), &error))?;
            out.set(cause.map_or(0, |cause| cause.failure.code().number()));
            Ok(())
        })
    })
}

/// Tells every worker to drop what it has mapped for an identity, as is due when its owner has released it, and waits up to so long. Those that
/// may still have it are told by their numbers: `*kept_count` is how many, of which as many as fit are written to `kept`.
///
/// # Safety
/// `identity` points to an identity that nobody writes during the call, `kept` to `kept_capacity` numbers and `kept_count` to a
/// size_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_orchestrator_release_imports(
    orchestrator: OrchestratorHandle,
    identity: *const RawIdentity,
    nanoseconds: u64,
    kept: *mut u32,
    kept_capacity: usize,
    kept_count: *mut usize,
) -> Status {
    answer("orchestrator_release_imports", || {
        // SAFETY: the caller's promise above.
        let raw = unsafe { given(identity) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { OutSlice::new(kept, kept_capacity) }?;
        // SAFETY: the caller's promise above.
        let count = unsafe { Out::new(kept_count) }?;
        apart_from(&[out.span(), count.span()], &[span_of(raw)])?;
        let identity = raw.decode().ok_or(Code::Generation)?;
        let until = deadline(nanoseconds);
        with(orchestrator, |orchestrator| {
            let kept = orchestrator.workers_mut().release_imports(identity, until);
            let kept = kept.map_err(|error| noted(error.code(), &error))?;
            count.set(kept.len());
            out.fill(kept.iter().map(|kept| u32::try_from(kept.worker.0).unwrap_or(u32::MAX)));
            Ok(())
        })
    })
}

/// Ends the workers: those without a task are told to stop, the others are killed, and what is not over never is. The handle is none from
/// now on.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_orchestrator_release(orchestrator: OrchestratorHandle) -> Status {
    answer("orchestrator_release", || TABLE.remove(orchestrator.token).map(drop))
}

impl FinishedFields {
    fn of(finished: &Finished) -> Self {
        let mut fields = Self::new_zeroed();
        fields.task = finished.task.0;
        fields.cause_argument = -1;
        match &finished.outcome {
            Ok(replies) => {
                fields.bytes_copied =
                    replies.iter().fold(0, |sum, reply| reply.bytes_copied.saturating_add(sum));
                let slowest = replies.iter().map(|reply| reply.duration).max().unwrap_or_default();
                fields.nanoseconds = u64::try_from(slowest.as_nanos()).unwrap_or(u64::MAX);
                if let Some(first) = replies.first() {
                    fields.hops = first.hops;
                    for (slot, &resolution) in fields.resolutions.iter_mut().zip(&first.resolutions) {
                        *slot = resolution_number(resolution).to_le_bytes()[0];
                    }
                    fields.resolution_count = u32::try_from(first.resolutions.len()).unwrap_or(u32::MAX);
                }
            }
            Err(failed) => {
                let cause = failed.cause();
                fields.status = cause.failure.code().number();
                fields.is_poisoned = i32::from(matches!(failed, TaskFailed::Poisoned(_)));
                (fields.cause_task, fields.cause_member) = (cause.task.0, cause.member);
                fields.cause_worker = u32::try_from(cause.worker.0).unwrap_or(u32::MAX);
                if let TaskFailure::Reported(failure) = &cause.failure {
                    let argument = failure.argument.and_then(|argument| i32::try_from(argument).ok());
                    fields.cause_argument = argument.unwrap_or(-1);
                }
                let text = failed.to_string();
                let text = text.get(..text.floor_char_boundary(255)).unwrap_or(&text);
                for (slot, byte) in fields.text.as_mut_bytes().iter_mut().zip(text.bytes()) {
                    *slot = byte;
                }
            }
        }
        fields
    }
}
