//! Tasks: who waits for whom, how many are still to finish, and which will never run.

use super::pool::{Memory, NONE, Pool, Slot};

/// A task in the tracker. One that has been retired is never taken for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    pub(super) slot: u32,
    pub(super) stamp: u64,
}

impl Handle {
    /// Its two numbers, for those who keep it outside of Rust.
    #[must_use]
    pub const fn parts(self) -> (u32, u64) {
        (self.slot, self.stamp)
    }

    /// The handle of two numbers. Those that [`parts`](Self::parts) gave make the same one; others name no task.
    #[must_use]
    pub const fn from_parts(slot: u32, stamp: u64) -> Self {
        Self { slot, stamp }
    }
}

/// Why a task never runs: the first failure among those that it depends on, or its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The number of the task that failed.
    pub task: u64,
    /// What was said of its failure.
    pub reason: u64,
    /// Failures are counted, and the first one stays.
    pub(super) failure: u64,
}

impl Cause {
    /// Of the two the one that came first.
    pub(super) const fn first(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        match (a, b) {
            (Some(x), Some(y)) if y.failure < x.failure => b,
            (Some(_), _) => a,
            (None, _) => b,
        }
    }
}

/// A task that no longer waits for any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Which one.
    pub handle: Handle,
    /// Its number.
    pub task: u64,
    /// It must not run, and why.
    pub poisoned: Option<Cause>,
}

/// Storage for one task that has not been retired: what a lookup needs of it is one line of a cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct TaskSlot {
    pub(super) number: u64,
    /// Which submit brought it; 0 when it has been retired.
    pub(super) stamp: u64,
    /// The last submit that found it, and the edge of each hazard that it got there.
    pub(super) found_by: u64,
    pub(super) edges: [u32; 3],
    pub(super) first_entry: u32,
    first_link: u32,
    /// Tasks that it waits for.
    pub(super) waiting: u32,
    /// The next free slot, or the next whose dependents are to be poisoned.
    next: u32,
    pub(super) poisoned: Option<Cause>,
}

impl TaskSlot {
    /// A slot without a task.
    pub const EMPTY: Self = Self::new(0, 0);

    const fn new(number: u64, stamp: u64) -> Self {
        Self {
            number,
            stamp,
            poisoned: None,
            found_by: 0,
            edges: [NONE; 3],
            first_entry: NONE,
            first_link: NONE,
            waiting: 0,
            next: NONE,
        }
    }
}

impl Slot for TaskSlot {
    const EMPTY: Self = Self::EMPTY;
    fn next_free(&self) -> u32 {
        self.next
    }
    fn set_next_free(&mut self, slot: u32) {
        self.next = slot;
    }
}

/// Storage for one task that waits for another.
#[derive(Clone, Debug)]
pub struct LinkSlot {
    after: Handle,
    next: u32,
}

impl LinkSlot {
    /// A slot without a link.
    pub const EMPTY: Self = Self { after: Handle { slot: NONE, stamp: 0 }, next: NONE };
}

impl Slot for LinkSlot {
    const EMPTY: Self = Self::EMPTY;
    fn next_free(&self) -> u32 {
        self.next
    }
    fn set_next_free(&mut self, slot: u32) {
        self.next = slot;
    }
}

/// All tasks and their links.
#[derive(Debug)]
pub(super) struct Tasks<M: Memory> {
    pub(super) slots: Pool<M, TaskSlot>,
    pub(super) links: Pool<M, LinkSlot>,
    failures: u64,
}

impl<M: Memory> Tasks<M> {
    pub(super) fn new(slots: M::Of<TaskSlot>, links: M::Of<LinkSlot>) -> Self {
        Self { slots: Pool::new(slots), links: Pool::new(links), failures: 0 }
    }

    /// A new task, for which there is a slot.
    pub(super) fn insert(&mut self, number: u64, stamp: u64) -> Handle {
        Handle { slot: self.slots.take(|_| TaskSlot::new(number, stamp)), stamp }
    }

    #[inline]
    pub(super) fn is_live(&self, handle: Handle) -> bool {
        handle.stamp != 0 && self.slots.at(handle.slot).stamp == handle.stamp
    }

    /// `after` waits for `before`, for which there is a link.
    pub(super) fn link(&mut self, before: u32, after: Handle) {
        let next = self.slots.at(before).first_link;
        let link = self.links.take(|_| LinkSlot { after, next });
        self.slots.at_mut(before).first_link = link;
        let poisoned = self.slots.at(before).poisoned;
        let task = self.slots.at_mut(after.slot);
        task.waiting = task.waiting.saturating_add(1);
        task.poisoned = Cause::first(task.poisoned, poisoned);
    }

    /// Ends a live task whose entries are gone, and shows every task that no longer waits for any other.
    pub(super) fn remove(&mut self, slot: u32, mut ready: impl FnMut(Ready)) {
        let mut next = self.slots.at(slot).first_link;
        *self.slots.at_mut(slot) = TaskSlot::EMPTY;
        self.slots.give_back(slot);
        while next != NONE {
            let LinkSlot { after: handle, next: following } = *self.links.at(next);
            self.links.give_back(next);
            next = following;
            if self.is_live(handle) {
                let task = self.slots.at_mut(handle.slot);
                task.waiting = task.waiting.saturating_sub(1);
                if task.waiting == 0 {
                    ready(Ready { handle, task: task.number, poisoned: task.poisoned });
                }
            }
        }
    }

    /// A live task failed: it and all that depend on it never run. Shows every dependent that is poisoned by this.
    pub(super) fn fail(&mut self, slot: u32, reason: u64, mut poisoned: impl FnMut(Handle, u64)) {
        let task = self.slots.at_mut(slot);
        if task.poisoned.is_some() {
            return;
        }
        let cause = Cause { task: task.number, reason, failure: self.failures };
        self.failures = self.failures.saturating_add(1);
        task.poisoned = Some(cause);
        task.next = NONE;
        let mut pending = slot;
        while pending != NONE {
            let task = self.slots.at(pending);
            let mut link = task.first_link;
            pending = task.next;
            while link != NONE {
                let LinkSlot { after: handle, next } = *self.links.at(link);
                link = next;
                if self.is_live(handle) {
                    let dependent = self.slots.at_mut(handle.slot);
                    if dependent.poisoned.is_none() {
                        dependent.poisoned = Some(cause);
                        dependent.next = pending;
                        pending = handle.slot;
                        poisoned(handle, dependent.number);
                    }
                }
            }
        }
    }
}
