//! Which tasks must wait for which, exactly: a tracker that is fed task by task and answers with edges.
//!
//! The definition is one sentence per byte: who wrote it last, and who has read it since. A task that reads a byte waits for the
//! last that wrote it; one that writes a byte waits for the last that wrote it and for all that read it since. How that is kept
//! without a word per byte, and where the bound of exactness lies, is told in docs/decisions/dependencies.md.

mod apply;
mod area;
mod argument;
mod backing;
mod error;
mod groups;
mod layout;
mod lookup;
mod paint;
mod pool;
mod rest;
mod state;
mod storage;
mod table;
mod tasks;
#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]
mod tests;
mod tree;

pub use argument::{Argument, ArgumentSlot};
pub use backing::BackingSlot;
pub use error::{NotTracked, SubmitError};
pub use groups::{EntrySlot, GroupSlot};
pub use lookup::{Edge, Hazard};
pub use pool::{Lent, Memory};
pub use storage::{Allocate, Capacities, Storage};
pub use tasks::{Cause, Handle, LinkSlot, Ready, TaskSlot};
pub use tree::Node as PieceSlot;

use self::backing::Kind;
use self::lookup::STEPS;
use self::pool::{NONE, count};
use self::state::State;
use crate::keyed_hash::KeyedHash;
use crate::wire::identity::Identity;

/// Which orders a tracker keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// All of them: reads wait for writes, writes for writes and reads.
    Full,
    /// Only who made what is read: exactly the edges of [`Hazard::ReadAfterWrite`]. For runtimes that order the rest themselves.
    Producers,
}

/// What a submit answers.
#[derive(Debug)]
pub struct Submitted<'a> {
    /// The task, from now on.
    pub handle: Handle,
    /// Whom it waits for: one edge for each task and hazard.
    pub edges: &'a [Edge],
    /// A task that it depends on has failed: it must not run.
    pub poisoned: Option<Cause>,
}

/// Tasks that have not been retired, the bytes they touch, and who waits for whom.
#[derive(Debug)]
pub struct Tracker<M: Memory> {
    state: State<M>,
    /// Those of the task that is being submitted.
    arguments: M::Of<ArgumentSlot>,
}

impl<M: Memory> Tracker<M> {
    /// A tracker without a task. The hash's seed must be random where views or identities come from outside.
    #[must_use]
    pub fn new(policy: Policy, hash: KeyedHash, storage: Storage<M>) -> Self {
        let (state, arguments) = State::new(policy, hash, storage);
        Self { state, arguments }
    }

    /// Takes the next task of the sequence: its arguments, those of all members if it is a group. Argument by argument the
    /// work is bounded by the logarithm of what is live in the backing, and by the edges that are found.
    ///
    /// # Errors
    /// The first capacity that does not suffice; then nothing has changed.
    pub fn submit(
        &mut self,
        task: u64,
        arguments: impl IntoIterator<Item = Argument>,
    ) -> Result<Submitted<'_>, SubmitError> {
        let state = &mut self.state;
        if state.tasks.slots.left() == 0 {
            return Err(SubmitError::Tasks { capacity: state.tasks.slots.capacity() });
        }
        let arguments = state.find_all(arguments, self.arguments.as_mut())?;
        let (needed, left) = (state.found.tasks, state.tasks.links.left());
        if needed > left {
            return Err(SubmitError::Links { needed, left });
        }
        state.reserve(arguments)?;
        let handle = state.tasks.insert(task, state.stamp);
        state.link_all(handle);
        state.apply_all(arguments, handle.slot);
        let poisoned = state.tasks.slots.at(handle.slot).poisoned;
        Ok(Submitted { handle, edges: state.found.edges(), poisoned })
    }

    /// The edges that a task of these arguments would have now. Nothing changes.
    ///
    /// # Errors
    /// The capacity of arguments or edges does not suffice, or a backing that was never named finds no slot.
    pub fn look_up(&mut self, arguments: impl IntoIterator<Item = Argument>) -> Result<&[Edge], SubmitError> {
        self.state.find_all(arguments, self.arguments.as_mut())?;
        Ok(self.state.found.edges())
    }

    /// Retires a task whose run has ended: nothing waits for it any longer. Shows every task that now waits for none.
    ///
    /// # Errors
    /// It has been retired before.
    pub fn finish(&mut self, handle: Handle, ready: impl FnMut(Ready)) -> Result<(), NotTracked> {
        let slot = self.live(handle)?;
        self.state.retire_entries(slot);
        self.state.tasks.remove(slot, ready);
        Ok(())
    }

    /// Says that a task failed: all that depend on it, over every kind of edge, must not run, now or when they are submitted
    /// later. It stays until it is retired, as they do. Shows the handle and number of every dependent that is poisoned by
    /// this; one that was poisoned before keeps its first cause.
    ///
    /// # Errors
    /// It has been retired.
    pub fn fail(
        &mut self,
        handle: Handle,
        reason: u64,
        poisoned: impl FnMut(Handle, u64),
    ) -> Result<(), NotTracked> {
        let slot = self.live(handle)?;
        self.state.tasks.fail(slot, reason, poisoned);
        Ok(())
    }

    /// Tasks that a task still waits for.
    ///
    /// # Errors
    /// It has been retired.
    pub fn waiting(&self, handle: Handle) -> Result<u32, NotTracked> {
        Ok(self.state.tasks.slots.at(self.live(handle)?).waiting)
    }

    /// Why a task must not run, if so.
    ///
    /// # Errors
    /// It has been retired.
    pub fn poisoned(&self, handle: Handle) -> Result<Option<Cause>, NotTracked> {
        Ok(self.state.tasks.slots.at(self.live(handle)?).poisoned)
    }

    /// Drops all that is known of a backing's bytes. Edges that were given stay.
    pub fn release(&mut self, identity: Identity) {
        self.state.release(identity);
    }

    /// How often an edge was given that may be one too many, because a fixed bound of work was passed.
    #[must_use]
    pub const fn inexact(&self) -> u64 {
        self.state.inexact
    }

    /// Tasks that have not been retired.
    #[must_use]
    pub const fn tasks(&self) -> u32 {
        self.state.tasks.slots.in_use()
    }

    /// Live pairs of a task and a view.
    #[must_use]
    pub const fn entries(&self) -> u32 {
        self.state.entries.in_use()
    }

    /// Views that differ, of live pairs and of writes that are still needed though their task has been retired.
    #[must_use]
    pub const fn groups(&self) -> u32 {
        self.state.groups.slots.in_use()
    }

    /// Pieces that they have been cut into.
    #[must_use]
    pub const fn pieces(&self) -> u32 {
        self.state.pieces
    }

    /// Backings that they lie in.
    #[must_use]
    pub const fn backings(&self) -> u32 {
        self.state.backings.in_use()
    }

    /// Waiting tasks, counted once for each that they wait for.
    #[must_use]
    pub const fn links(&self) -> u32 {
        self.state.tasks.links.in_use()
    }

    fn live(&self, handle: Handle) -> Result<u32, NotTracked> {
        if self.state.tasks.is_live(handle) { Ok(handle.slot) } else { Err(NotTracked) }
    }
}

impl<M: Memory> State<M> {
    /// Keeps the arguments, finds their edges in the state as it is, and gives those that have dependencies.
    fn find_all<'a>(
        &mut self,
        arguments: impl IntoIterator<Item = Argument>,
        slots: &'a mut [ArgumentSlot],
    ) -> Result<&'a [ArgumentSlot], SubmitError> {
        self.stamp = self.stamp.saturating_add(1);
        self.found.clear();
        let capacity = count(slots.len());
        let mut len = 0_usize;
        for argument in arguments {
            if argument.tag.needs().is_none() {
                continue;
            }
            let stamp = self.stamp;
            let backing = self.backings.obtain(&self.hash, argument.identity, argument.nbytes, stamp);
            if backing == NONE {
                return Err(SubmitError::Backings { capacity: self.backings.slots.capacity() });
            }
            let Some(slot) = slots.get_mut(len) else {
                return Err(SubmitError::Arguments { capacity });
            };
            *slot = ArgumentSlot::new(&argument, backing);
            self.look_up(slot, stamp);
            if self.found.is_full {
                return Err(SubmitError::FanIn { capacity: self.found.capacity() });
            }
            len = len.saturating_add(1);
        }
        Ok(slots.get(..len).unwrap_or(&[]))
    }

    /// Makes sure of room for what the arguments add.
    fn reserve(&mut self, arguments: &[ArgumentSlot]) -> Result<(), SubmitError> {
        let (mut entries, mut pieces) = (0_u32, 0_u32);
        for argument in arguments {
            if argument.writes || self.orders_writes() {
                entries = entries.saturating_add(1);
                pieces = pieces.saturating_add(self.pieces_needed(argument));
            }
        }
        let left = self.entries_left();
        if entries > left {
            return Err(SubmitError::Entries { needed: entries, left });
        }
        let left = self.pieces_left();
        if pieces > left {
            return Err(SubmitError::Pieces { needed: pieces, left });
        }
        self.reserved = pieces;
        Ok(())
    }

    fn link_all(&mut self, handle: Handle) {
        for edge in self.found.edges() {
            let task = self.tasks.slots.at_mut(edge.before.slot);
            // Once for each task, whatever its edges.
            if task.found_by == handle.stamp {
                task.found_by = 0;
                self.tasks.link(edge.before.slot, handle);
            }
        }
    }

    /// The reads first: a byte that the task writes too has no readers afterwards.
    fn apply_all(&mut self, arguments: &[ArgumentSlot], task: u32) {
        if self.orders_writes() {
            arguments
                .iter()
                .filter(|argument| !argument.writes)
                .for_each(|argument| self.read(argument, task));
        }
        arguments.iter().filter(|argument| argument.writes).for_each(|argument| self.write(argument, task));
        self.reserved = 0;
    }

    /// Takes a task's views away. A write that hides bytes of an older one, which is still there, stays without its task.
    fn retire_entries(&mut self, task: u32) {
        let mut steps = STEPS;
        loop {
            let entry = self.tasks.slots.at(task).first_entry;
            if entry == NONE {
                return;
            }
            let EntrySlot { group: number, in_group, .. } = *self.entries.at(entry);
            let group = self.groups.slots.at(number);
            let backing = group.backing;
            if in_group != [NONE; 2] {
                self.remove_entry(entry);
            } else if group.kind == Kind::Write && self.hides_something(number, &mut steps) {
                self.remove_entry(entry);
                self.enter_tombstones(number);
            } else {
                self.remove_group(number);
            }
            self.tidy(backing);
        }
    }

    fn release(&mut self, identity: Identity) {
        let number = self.backings.find(&self.hash, identity);
        if number == NONE {
            return;
        }
        for plane in 0..=backing::OTHER {
            for kind in [Kind::Write, Kind::Read] {
                loop {
                    let root = self.backings.slots.at(number).plane(plane).root(kind);
                    if root == NONE {
                        break;
                    }
                    let leaf = tree::any_leaf(&self.nodes, root);
                    self.remove_group(self.nodes.at(leaf).group());
                }
            }
        }
        self.backings.forget(&self.hash, number);
    }
}
