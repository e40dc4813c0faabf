//! What came of a task.

use core::fmt;
use std::time::Duration;

use bufabi_core::Code;
use bufabi_core::wire::chip_args::MAX_TENSORS;

use super::failure::Failure;
use super::mailbox::{MAX_TEXT, Mailbox, RawReply};
use crate::consumer::Resolution;
use crate::sys::process::Ending;

/// A worker, by its place among those that were started with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub usize);

/// A task that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Where it ran.
    pub worker: WorkerId,
    /// The submitter's number for it.
    pub task: u64,
    /// Which member of its group, from 0.
    pub member: u32,
    /// What came of it.
    pub result: Result<Reply, TaskFailure>,
}

/// How a task that succeeded got at its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// How each argument was resolved, in order.
    pub resolutions: Vec<Resolution>,
    /// Bytes that the worker copied to get at its arguments.
    pub bytes_copied: u64,
    /// From the worker's seeing the task to its replying.
    pub duration: Duration,
}

/// A worker that may still have something mapped that it was told to drop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptImport {
    /// Which one.
    pub worker: WorkerId,
    /// What it says; `None` when it did not answer in time.
    pub why: Option<TaskFailure>,
}

/// Why a task failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskFailure {
    /// The worker says why.
    Reported(Failure),
    /// The worker's process ended before it replied.
    WorkerDied(Ending),
    /// The reply contradicts itself, or the request.
    MessageBroken,
}

impl TaskFailure {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Reported(failure) => failure.code,
            Self::WorkerDied(_) => Code::WorkerDied,
            Self::MessageBroken => Code::MessageBroken,
        }
    }
}

impl fmt::Display for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reported(failure) => failure.fmt(f),
            Self::WorkerDied(ending) => write!(f, "the worker's process {ending}"),
            Self::MessageBroken => f.write_str("the worker's reply contradicts itself"),
        }
    }
}

impl std::error::Error for TaskFailure {}

/// The number of a resolution in a mailbox.
pub(super) const fn resolution_number(resolution: Resolution) -> u8 {
    match resolution {
        Resolution::MappedNow => 0,
        Resolution::AlreadyMapped => 1,
        Resolution::Own => 2,
    }
}

const fn resolution_of(number: u8) -> Option<Resolution> {
    match number {
        0 => Some(Resolution::MappedNow),
        1 => Some(Resolution::AlreadyMapped),
        2 => Some(Resolution::Own),
        _ => None,
    }
}

/// Checks a reply that was copied out, and makes of it what the task came to.
pub(super) fn read(
    mailbox: &Mailbox,
    raw: &RawReply,
    task: u64,
    tensors: usize,
) -> Result<Reply, TaskFailure> {
    let broken = TaskFailure::MessageBroken;
    if raw.task != task {
        return Err(broken);
    }
    let code = Code::from_number(raw.code).ok_or(broken.clone())?;
    if code != Code::Ok {
        let mut text = [0; MAX_TEXT];
        let length = usize::try_from(raw.text_bytes).unwrap_or(usize::MAX);
        let text = text.get_mut(..length).ok_or(broken.clone())?;
        mailbox.read_text(text).map_err(|_| broken.clone())?;
        let text = core::str::from_utf8(text).map_err(|_| broken)?;
        let argument = usize::try_from(raw.argument).ok().filter(|_| raw.argument != u32::MAX);
        return Err(TaskFailure::Reported(Failure::new(code, argument, &text)));
    }
    let mut numbers = [0; MAX_TENSORS];
    let count = usize::try_from(raw.resolution_count).unwrap_or(usize::MAX);
    let numbers = numbers.get_mut(..count).filter(|_| count == tensors).ok_or(broken.clone())?;
    mailbox.read_resolutions(numbers).map_err(|_| broken.clone())?;
    let resolutions = numbers.iter().map(|&number| resolution_of(number)).collect::<Option<_>>();
    Ok(Reply {
        resolutions: resolutions.ok_or(broken)?,
        bytes_copied: raw.bytes_copied,
        duration: Duration::from_nanos(raw.nanoseconds),
    })
}
