//! Workers, as C lists them before they are started.

use core::ffi::c_char;

use bufabi_core::Code;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::boundary::noted;
use crate::device::{DeviceKind, QemuOptions};
use crate::worker::{WorkerKind, WorkerSpec};

/// A simulated chip: its kernels read what a chip reads.
pub const WORKER_CHIP: i32 = 0;
/// A host process that computes on mapped arguments.
pub const WORKER_SUB: i32 = 1;
/// A host process that has workers of its own.
pub const WORKER_HOST: i32 = 2;
/// A simulated chip that does not reach this machine's memory: arguments there are copied to it and back, once each.
pub const WORKER_STAGED_CHIP: i32 = 3;
/// A chip that is a machine in QEMU, with the firmware that the environment names in BUFABI_FIRMWARE; it runs that firmware's kernels.
pub const WORKER_QEMU_CHIP: i32 = 4;

/// A worker to be started.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct WorkerFields {
    /// Its name, and a closing NUL; no two below one worker have the same.
    pub name: [c_char; 56],
    /// One of `BUFABI_WORKER_...`.
    pub kind: i32,
    /// The host worker that it is below, by its place in the list, before its own; -1 for none.
    pub parent: i32,
}

/// The bytes of a text up to its NUL.
pub(super) fn text(bytes: &[c_char]) -> Result<&str, Code> {
    let text = bytes.as_bytes().split(|&byte| byte == 0).next().unwrap_or_default();
    core::str::from_utf8(text).map_err(|_| Code::TextBroken)
}

/// The trees that a list of workers says.
pub(super) fn specs(workers: &[WorkerFields]) -> Result<Vec<WorkerSpec>, Code> {
    below(workers, -1)
}

fn below(workers: &[WorkerFields], parent: i32) -> Result<Vec<WorkerSpec>, Code> {
    let mut specs: Vec<WorkerSpec> = Vec::new();
    for (place, worker) in (0_i32..).zip(workers) {
        if worker.parent < -1 || worker.parent >= place {
            return Err(Code::WorkerUnknown);
        }
        if worker.parent != parent {
            continue;
        }
        let is_below_host = usize::try_from(parent).ok().and_then(|parent| workers.get(parent));
        if is_below_host.is_some_and(|above| above.kind != WORKER_HOST) {
            return Err(Code::WorkerUnknown);
        }
        let name = text(&worker.name)?;
        if name.is_empty() || name.len() >= worker.name.len() || name.contains('/') {
            return Err(Code::TextBroken);
        }
        if specs.iter().any(|other| other.name == name) {
            return Err(Code::WorkerNameTaken);
        }
        let kind = match worker.kind {
            WORKER_CHIP => WorkerKind::Chip,
            WORKER_QEMU_CHIP => {
                let options = QemuOptions::from_environment().map_err(|error| noted(error.code(), &error))?;
                WorkerKind::Device(DeviceKind::Qemu(options))
            }
            WORKER_STAGED_CHIP => WorkerKind::Device(staged()),
            WORKER_SUB => WorkerKind::Sub,
            WORKER_HOST => WorkerKind::Host { workers: below(workers, place)? },
            _ => return Err(Code::OptionUnknown),
        };
        specs.push(WorkerSpec { name: name.to_owned(), kind });
    }
    // What is below a leaf is never come by from above.
    let has_children = |place: i32| workers.iter().any(|other| other.parent == place);
    let leaf_with_children =
        (0_i32..).zip(workers).any(|(place, worker)| worker.kind != WORKER_HOST && has_children(place));
    if leaf_with_children { Err(Code::WorkerUnknown) } else { Ok(specs) }
}

/// A device of the usual size that does not reach host memory.
fn staged() -> DeviceKind {
    match DeviceKind::default() {
        DeviceKind::Simulated { nbytes, .. } => DeviceKind::Simulated { nbytes, reaches_host_memory: false },
        other @ DeviceKind::Qemu(_) => other,
    }
}
