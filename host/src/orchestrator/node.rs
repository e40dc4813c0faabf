//! A task that is not over: what of it waits, and what is under way.

use bufabi_core::dependencies::Handle;

use super::finished::Cause;
use crate::worker::{Prepared, Reply};

/// A task.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) handle: Handle,
    /// Members that have not begun.
    pub(super) waiting: Vec<Option<Prepared>>,
    /// Members that are under way.
    pub(super) running: usize,
    /// What each member that is done came to.
    replies: Vec<Option<Reply>>,
    /// The first failure of a member.
    pub(super) failure: Option<Cause>,
    /// Nobody wants to know what comes of it.
    pub(super) is_abandoned: bool,
}

impl Node {
    pub(super) fn new(handle: Handle, members: Vec<Prepared>) -> Self {
        let replies = members.iter().map(|_| None).collect();
        let waiting = members.into_iter().map(Some).collect();
        Self { handle, waiting, running: 0, replies, failure: None, is_abandoned: false }
    }

    /// Takes a member that is about to begin, unless the task has failed meanwhile.
    pub(super) fn take(&mut self, member: usize) -> Option<Prepared> {
        self.waiting.get_mut(member)?.take()
    }

    /// None of it will begin any more. What only that would have touched is free.
    pub(super) fn drop_waiting(&mut self) {
        self.waiting.clear();
    }

    /// Keeps what a member came to.
    pub(super) fn keep(&mut self, member: usize, reply: Reply) {
        if let Some(slot) = self.replies.get_mut(member) {
            *slot = Some(reply);
        }
    }

    /// Nothing of it is under way or will be.
    pub(super) fn is_over(&self) -> bool {
        self.running == 0 && self.waiting.iter().all(Option::is_none)
    }

    /// What all members came to.
    pub(super) fn into_replies(self) -> Vec<Reply> {
        self.replies.into_iter().flatten().collect()
    }
}
