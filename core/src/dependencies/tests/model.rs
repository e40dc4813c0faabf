//! The definition of dependencies, byte by byte, with a set where the tracker has structure.

use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use super::super::{Argument, Hazard, Policy};
use crate::view::View;
use crate::wire::identity::Identity;

/// Who wrote a byte last, and who has read it since.
#[derive(Clone, Debug, Default)]
struct Byte {
    writer: Option<u64>,
    readers: BTreeSet<u64>,
}

/// A task that has not been retired.
#[derive(Clone, Debug, Default)]
pub(super) struct Task {
    pub(super) waits_for: BTreeSet<u64>,
    /// When the failure happened that it suffers from, and whose it was.
    pub(super) poisoned: Option<(u64, u64)>,
}

/// All that the definition needs.
#[derive(Debug)]
pub(super) struct Model {
    policy: Policy,
    bytes: BTreeMap<(Identity, u64), Byte>,
    pub(super) tasks: BTreeMap<u64, Task>,
    failures: u64,
}

/// Edges by task and hazard, each with rank and byte.
pub(super) type Edges = BTreeMap<(u64, Hazard), (u32, u64)>;

/// The bytes of a view, element by element.
pub(super) fn bytes_of(view: &View) -> BTreeSet<u64> {
    let mut offsets = BTreeSet::from([0_u64]);
    for (&count, &stride) in view.shapes().iter().zip(view.strides()) {
        let mut moved = BTreeSet::new();
        for index in 0..u64::from(count) {
            moved.extend(offsets.iter().map(|offset| offset + index * u64::from(stride)));
        }
        offsets = moved;
    }
    let size = u64::from(view.dtype().size());
    let elements = offsets.into_iter().map(|offset| view.byte_offset() + offset * size);
    elements.flat_map(|first| first..first + size).collect()
}

impl Model {
    pub(super) fn new(policy: Policy) -> Self {
        Self { policy, bytes: BTreeMap::new(), tasks: BTreeMap::new(), failures: 0 }
    }

    pub(super) fn edges(&self, arguments: &[Argument]) -> Edges {
        let mut edges = Edges::new();
        let mut note = |task: &u64, hazard, place: (u32, u64)| {
            if self.tasks.contains_key(task) {
                let edge = edges.entry((*task, hazard)).or_insert(place);
                *edge = place.min(*edge);
            }
        };
        for argument in arguments {
            for byte in bytes_of(&argument.view) {
                let Some(state) = self.bytes.get(&(argument.identity, byte)) else { continue };
                let place = (argument.rank, byte);
                if argument.tag.reads() {
                    state.writer.iter().for_each(|task| note(task, Hazard::ReadAfterWrite, place));
                }
                if argument.tag.writes() && self.policy == Policy::Full {
                    state.writer.iter().for_each(|task| note(task, Hazard::WriteAfterWrite, place));
                    state.readers.iter().for_each(|task| note(task, Hazard::WriteAfterRead, place));
                }
            }
        }
        edges
    }

    pub(super) fn submit(&mut self, task: u64, arguments: &[Argument]) {
        let mut new = Task::default();
        for &(before, _) in self.edges(arguments).keys() {
            new.waits_for.insert(before);
            let poisoned = self.tasks[&before].poisoned;
            new.poisoned = [new.poisoned, poisoned].into_iter().flatten().min();
        }
        self.tasks.insert(task, new);
        for argument in arguments.iter().filter(|argument| argument.tag.reads()) {
            for byte in bytes_of(&argument.view) {
                self.bytes.entry((argument.identity, byte)).or_default().readers.insert(task);
            }
        }
        for argument in arguments.iter().filter(|argument| argument.tag.writes()) {
            for byte in bytes_of(&argument.view) {
                let written = Byte { writer: Some(task), readers: BTreeSet::new() };
                self.bytes.insert((argument.identity, byte), written);
            }
        }
    }

    /// The tasks that become ready.
    pub(super) fn finish(&mut self, task: u64) -> Vec<u64> {
        self.tasks.remove(&task);
        let mut ready = Vec::new();
        for (&number, other) in &mut self.tasks {
            if other.waits_for.remove(&task) && other.waits_for.is_empty() {
                ready.push(number);
            }
        }
        ready
    }

    /// The dependents that are poisoned by it.
    pub(super) fn fail(&mut self, task: u64) -> BTreeSet<u64> {
        let mut poisoned = BTreeSet::new();
        if self.tasks[&task].poisoned.is_some() {
            return poisoned;
        }
        let cause = Some((self.failures, task));
        self.failures += 1;
        self.tasks.get_mut(&task).unwrap().poisoned = cause;
        // Tasks only wait for earlier ones, so one pass in their order reaches all.
        let mut sick = BTreeSet::from([task]);
        for (&number, other) in &mut self.tasks {
            if other.poisoned.is_none() && !other.waits_for.is_disjoint(&sick) {
                other.poisoned = cause;
                sick.insert(number);
                poisoned.insert(number);
            }
        }
        poisoned
    }

    pub(super) fn release(&mut self, identity: Identity) {
        self.bytes.retain(|&(of, _), _| of != identity);
    }
}
