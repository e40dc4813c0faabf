//! What came of a task.

use core::fmt;
use std::time::Duration;

use bufabi_core::Code;

use super::death::Death;
use super::failure::Failure;
use super::mailbox::{Mailbox, RawReply};
use crate::consumer::Resolution;

/// A leaf, by its place among those that were started with it.
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
    /// Workers that handed the task on, and mapped nothing: 0 for a leaf that is this process's own child.
    pub hops: u32,
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
    /// The worker's process, or one above it, ended before it replied.
    WorkerDied(Death),
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
            Self::WorkerDied(death) => death.fmt(f),
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
        Resolution::Inherited => 3,
    }
}

const fn resolution_of(number: u8) -> Option<Resolution> {
    match number {
        0 => Some(Resolution::MappedNow),
        1 => Some(Resolution::AlreadyMapped),
        2 => Some(Resolution::Own),
        3 => Some(Resolution::Inherited),
        _ => None,
    }
}

/// A good answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) reply: Reply,
    /// What was asked for of a chip's memory.
    pub(super) answer: Vec<u8>,
}

/// Checks a reply that was copied out, and makes of it what the request came to.
pub(super) fn read(
    mailbox: &Mailbox,
    raw: &RawReply,
    task: u64,
    tensors: usize,
) -> Result<Answer, TaskFailure> {
    let broken = || TaskFailure::MessageBroken;
    if raw.task != task {
        return Err(broken());
    }
    let code = Code::from_number(raw.code).ok_or_else(broken)?;
    let said = raw.said(mailbox).ok_or_else(broken)?;
    if code == Code::WorkerDied {
        return Err(TaskFailure::WorkerDied(Death::decode(&said).ok_or_else(broken)?));
    }
    if code != Code::Ok {
        let text = core::str::from_utf8(&said).map_err(|_| broken())?;
        let argument = usize::try_from(raw.argument).ok().filter(|_| raw.argument != u32::MAX);
        return Err(TaskFailure::Reported(Failure::new(code, argument, &text)));
    }
    let numbers = raw.resolutions(mailbox).filter(|numbers| numbers.len() == tensors);
    let numbers = numbers.ok_or_else(broken)?;
    let resolutions = numbers.iter().map(|&number| resolution_of(number));
    let reply = Reply {
        resolutions: resolutions.collect::<Option<_>>().ok_or_else(broken)?,
        bytes_copied: raw.bytes_copied,
        duration: Duration::from_nanos(raw.nanoseconds),
        hops: raw.hops,
    };
    Ok(Answer { reply, answer: raw.answer(mailbox).ok_or_else(broken)? })
}
