//! What the host answers about workers by their numbers, told by their paths.

use bufabi_host::orchestrator::{Member, SubmitError};
use bufabi_host::worker::{self, DeviceNameError, WaitError, WorkerId, Workers};

use crate::error::Coded;
use crate::refusal::Refusal;

/// A worker's path.
pub(crate) fn path(workers: &Workers, worker: WorkerId) -> &str {
    workers.name(worker).unwrap_or("a worker")
}

/// Why a task of those members was not submitted.
#[cold]
pub(crate) fn refused(workers: &Workers, members: &[Member<'_>], error: SubmitError) -> Refusal {
    let told = if let SubmitError::Member { member, error: inner } = error {
        let place = members.get(member).map(|member| path(workers, member.worker));
        place.and_then(|place| by_path(workers, place, inner)).map(|text| match member {
            0 => text,
            member => format!("member {member}: {text}"),
        })
    } else {
        None
    };
    told.map_or_else(|| error.into(), |text| Refusal::Rule(error.frozen(), text))
}

/// The same of one member, where it is about workers.
fn by_path(workers: &Workers, place: &str, error: worker::SubmitError) -> Option<String> {
    if let worker::SubmitError::WorkerDied { .. } = error {
        return Some(format!("{place}: {error}"));
    }
    if let worker::SubmitError::Device {
        argument,
        error: DeviceNameError::OtherChip { owner, identity, .. },
    } = error
    {
        let owner = owner.map_or("a chip that is not there", |owner| path(workers, owner));
        return Some(format!(
            "argument {argument}: {identity} is memory of {owner}, and the task goes to {place}"
        ));
    }
    None
}

/// Why a wait has ended.
pub(crate) fn late(workers: &Workers, error: WaitError) -> String {
    if let WaitError::TimedOut { busy, worker, task } = error {
        let path = path(workers, worker);
        return match busy {
            1 => format!("{path} did not finish task {task} in time"),
            busy => format!("{busy} workers did not finish in time, among them {path} with task {task}"),
        };
    }
    error.to_string()
}
