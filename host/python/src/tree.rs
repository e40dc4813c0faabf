//! The workers below a Python program: which there are, and how one is named.

use bufabi_core::Code;
use bufabi_host::device::DeviceKind;
use bufabi_host::worker::{WorkerId, WorkerKind, WorkerSpec, Workers};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::refusal::Refusal;

/// The level of a host that has chips: those are level 2.
const LOWEST: u32 = 3;
/// More levels than anybody stacks, so that no mistake forks for ever.
const HIGHEST: u32 = 16;
/// Workers of one kind below one host, at most.
pub(crate) const MOST: usize = 1024;
/// Workers, members or parts that one call names, at most: more than any host has workers.
pub(crate) const MOST_NAMED: usize = 1 << 16;

/// What lies below a worker, before it is started.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    level: u32,
    /// The device of each.
    chips: Vec<DeviceKind>,
    subs: usize,
    children: Vec<Self>,
}

impl Tree {
    /// A worker of that level, with those chips and so many sub-workers of its own, and workers one level down.
    pub(crate) fn new(
        level: u32,
        chips: Vec<DeviceKind>,
        subs: usize,
        children: Vec<Self>,
    ) -> PyResult<Self> {
        if !(LOWEST..=HIGHEST).contains(&level) {
            let message = format!(
                "level: {level} is not {LOWEST} to {HIGHEST}; a chip is level 2, and has no worker of its own"
            );
            return Err(PyValueError::new_err(message));
        }
        if let Some(child) = children.iter().find(|child| child.level.checked_add(1) != Some(level)) {
            let message = format!(
                "children: below level {level} come workers of one level less, and one has level {}",
                child.level
            );
            return Err(PyValueError::new_err(message));
        }
        if chips.len().max(subs).max(children.len()) > MOST {
            return Err(too_many());
        }
        let tree = Self { level, chips, subs, children };
        if tree.specs().is_empty() {
            return Err(PyValueError::new_err("a worker needs chips, sub-workers or children below it"));
        }
        Ok(tree)
    }

    /// Its level.
    pub(crate) const fn level(&self) -> u32 {
        self.level
    }

    /// What is started: `chip0`, ..., `sub0`, ..., and children, `l3.0`, ...
    pub(crate) fn specs(&self) -> Vec<WorkerSpec> {
        let chips = self.chips.iter().enumerate().map(|(index, device)| WorkerSpec {
            name: format!("chip{index}"),
            kind: WorkerKind::Device(device.clone()),
        });
        let subs =
            (0..self.subs).map(|index| WorkerSpec { name: format!("sub{index}"), kind: WorkerKind::Sub });
        let children = self.children.iter().enumerate().map(|(index, child)| WorkerSpec {
            name: format!("l{}.{index}", child.level),
            kind: WorkerKind::Host { workers: child.specs() },
        });
        chips.chain(subs).chain(children).collect()
    }
}

/// More workers of one kind than there can be.
pub(crate) fn too_many() -> PyErr {
    PyValueError::new_err(format!("a worker has up to {MOST} chips, sub-workers and children each"))
}

/// Names of workers that a refusal lists.
const TOLD: usize = 16;

/// The leaves of a started tree, by what they are.
#[derive(Debug)]
pub(crate) struct Leaves {
    /// Chips, in order.
    pub(crate) chips: Vec<WorkerId>,
    /// Sub-workers, in order.
    pub(crate) subs: Vec<WorkerId>,
    next_chip: usize,
    next_sub: usize,
}

/// What a task asks of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeafKind {
    Chip,
    Sub,
}

/// How a leaf is named.
#[derive(Debug)]
pub(crate) enum Named {
    /// It is not: they take turns.
    Nobody,
    /// By its place among its kind.
    Place(usize),
    /// By its path.
    Path(String),
    /// By a number that is no place.
    NoPlace(String),
}

impl Named {
    /// What a caller says. Anything but None, a place or a path is a TypeError.
    pub(crate) fn read(given: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(given) = given.filter(|given| !given.is_none()) else { return Ok(Self::Nobody) };
        if let Ok(path) = given.extract::<String>() {
            return Ok(Self::Path(path));
        }
        match given.extract::<usize>() {
            Ok(place) => Ok(Self::Place(place)),
            Err(error) if error.is_instance_of::<PyOverflowError>(given.py()) => {
                Ok(Self::NoPlace(given.to_string()))
            }
            Err(_) => {
                let found = given.get_type();
                let message = format!("worker: a place or a path is needed, not {found} {given}");
                Err(PyTypeError::new_err(message))
            }
        }
    }
}

impl Leaves {
    /// Those of `workers`: a leaf's own name says what it is.
    pub(crate) fn new(workers: &Workers) -> Self {
        let (mut chips, mut subs) = (Vec::new(), Vec::new());
        for worker in (0..workers.len()).map(WorkerId) {
            let name = workers.name(worker).and_then(|path| path.rsplit('/').next()).unwrap_or("");
            if name.starts_with("chip") { chips.push(worker) } else { subs.push(worker) }
        }
        Self { chips, subs, next_chip: 0, next_sub: 0 }
    }

    /// The leaf that is named by its place among its kind, or by its path; with no name they take turns.
    pub(crate) fn find(
        &mut self,
        workers: &Workers,
        kind: LeafKind,
        named: &Named,
    ) -> Result<WorkerId, Refusal> {
        let (of_kind, next, what) = match kind {
            LeafKind::Chip => (&self.chips, &mut self.next_chip, "chip"),
            LeafKind::Sub => (&self.subs, &mut self.next_sub, "sub-worker"),
        };
        let nobody = |named: &dyn core::fmt::Display| {
            let known = of_kind.iter().take(TOLD).filter_map(|&worker| workers.name(worker));
            let (known, more) = (known.collect::<Vec<_>>(), if of_kind.len() > TOLD { ", ..." } else { "" });
            let list = if known.is_empty() { String::new() } else { format!(": {}{more}", known.join(", ")) };
            Refusal::Rule(
                Code::WorkerUnknown,
                format!("there is no {what} {named} among {}{list}", of_kind.len()),
            )
        };
        match named {
            Named::Nobody => {
                let turn = *next;
                let found = of_kind.get(turn).or_else(|| of_kind.first()).copied();
                *next = if turn.saturating_add(1) < of_kind.len() { turn.saturating_add(1) } else { 0 };
                found.ok_or_else(|| nobody(&"at all"))
            }
            Named::Place(place) => of_kind.get(*place).copied().ok_or_else(|| nobody(place)),
            Named::Path(path) => {
                workers.find(path).filter(|found| of_kind.contains(found)).ok_or_else(|| nobody(path))
            }
            Named::NoPlace(number) => Err(nobody(number)),
        }
    }
}
