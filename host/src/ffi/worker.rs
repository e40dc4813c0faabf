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

/// Host workers below one another, at most. What makes, starts and drops a tree calls itself for each.
const MAX_DEPTH: u32 = 64;

/// The trees that a list of workers says.
pub(super) fn specs(workers: &[WorkerFields]) -> Result<Vec<WorkerSpec>, Code> {
    let mut top: Vec<WorkerSpec> = Vec::new();
    // What is below each worker, and how many more are below one another there; both last one first.
    let mut below: Vec<(Vec<WorkerSpec>, u32)> = workers.iter().map(|_| (Vec::new(), 0)).collect();
    // A worker is behind the one that it is below: from the last one on, all that is below is there when its turn comes.
    for (place, worker) in workers.iter().enumerate().rev() {
        let (mut own, depth) = below.get_mut(place).map(core::mem::take).unwrap_or_default();
        own.reverse();
        let siblings = if worker.parent == -1 {
            &mut top
        } else {
            let parent = usize::try_from(worker.parent).ok().filter(|&parent| parent < place);
            let is_host =
                |parent: &usize| workers.get(*parent).is_some_and(|above| above.kind == WORKER_HOST);
            let above = parent.filter(is_host).and_then(|parent| below.get_mut(parent));
            let (siblings, deepest) = above.ok_or(Code::WorkerUnknown)?;
            *deepest = depth.saturating_add(1).max(*deepest);
            if *deepest > MAX_DEPTH {
                let message = format!("host workers are more than {MAX_DEPTH} deep below one another");
                return Err(noted(Code::OptionUnknown, &message));
            }
            siblings
        };
        let name = text(&worker.name)?;
        if name.is_empty() || name.len() >= worker.name.len() || name.contains('/') {
            return Err(Code::TextBroken);
        }
        if siblings.iter().any(|other| other.name == name) {
            return Err(Code::WorkerNameTaken);
        }
        let kind = match worker.kind {
            WORKER_CHIP => WorkerKind::Chip,
            WORKER_QEMU_CHIP => {
                let options = QemuOptions::from_environment().map_err(|error| noted(error.code(), &error))?;
                WorkerKind::Device(DeviceKind::Qemu(options))
            }
            WORKER_STAGED_CHIP => WorkerKind::Device(DeviceKind::staged()),
            WORKER_SUB => WorkerKind::Sub,
            WORKER_HOST => WorkerKind::Host { workers: own },
            _ => return Err(Code::OptionUnknown),
        };
        siblings.push(WorkerSpec { name: name.to_owned(), kind });
    }
    top.reverse();
    Ok(top)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(name: &str, kind: i32, parent: i32) -> WorkerFields {
        let mut fields = WorkerFields { name: [0; 56], kind, parent };
        fields.name.as_mut_bytes().iter_mut().zip(name.bytes()).for_each(|(at, byte)| *at = byte);
        fields
    }

    #[test]
    fn a_list_becomes_trees_in_its_order() {
        let list = [
            fields("h", WORKER_HOST, -1),
            fields("a", WORKER_SUB, 0),
            fields("z", WORKER_CHIP, -1),
            fields("i", WORKER_HOST, 0),
            fields("a", WORKER_CHIP, 3),
            fields("b", WORKER_SUB, 0),
        ];
        let spec = |name: &str, kind| WorkerSpec { name: name.to_owned(), kind };
        let inner = WorkerKind::Host { workers: vec![spec("a", WorkerKind::Chip)] };
        let outer = vec![spec("a", WorkerKind::Sub), spec("i", inner), spec("b", WorkerKind::Sub)];
        let expected = [spec("h", WorkerKind::Host { workers: outer }), spec("z", WorkerKind::Chip)];
        assert_eq!(specs(&list).as_deref(), Ok(&expected[..]));
    }

    #[test]
    fn what_is_no_tree_is_refused_however_deep_it_is() {
        let leaf = |parent| fields("leaf", WORKER_SUB, parent);
        let host = fields("host", WORKER_HOST, -1);
        for (list, code) in [
            (vec![leaf(-2)], Code::WorkerUnknown),
            (vec![leaf(0)], Code::WorkerUnknown),
            (vec![host, leaf(2), leaf(0)], Code::WorkerUnknown),
            (vec![leaf(-1), leaf(0)], Code::WorkerUnknown),
            (vec![host, leaf(0), leaf(0)], Code::WorkerNameTaken),
            (vec![fields("", WORKER_SUB, -1)], Code::TextBroken),
            (vec![fields("a/b", WORKER_SUB, -1)], Code::TextBroken),
            (vec![fields("x", 9, -1)], Code::OptionUnknown),
        ] {
            assert_eq!(specs(&list), Err(code));
        }
        let chain = |count| (0..count).map(|place| fields("h", WORKER_HOST, place - 1)).collect::<Vec<_>>();
        assert!(specs(&chain(65)).is_ok());
        assert_eq!(specs(&chain(66)), Err(Code::OptionUnknown));
        assert_eq!(specs(&chain(100_000)), Err(Code::OptionUnknown));
    }
}
