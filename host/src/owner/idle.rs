//! Waiting until no task holds a buffer any more. A task whose end nobody waits for makes no system call about it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::Duration;

/// Told whenever no task holds some buffer any more. It belongs to the state behind one mutex.
#[derive(Debug, Default)]
pub(super) struct Idle {
    changed: Condvar,
    /// Threads that wait. It changes, and is looked at, only while the state is locked, so nobody is missed.
    waiting: AtomicU32,
}

impl Idle {
    /// Unlocks the state until something of it has changed, or for `limit` at most.
    pub(super) fn wait<'a, T>(&self, state: MutexGuard<'a, T>, limit: Duration) -> MutexGuard<'a, T> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let waited = self.changed.wait_timeout(state, limit);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        state
    }

    /// Some buffer of the state, which is locked, is held no more.
    pub(super) fn tell<T>(&self, _state: &MutexGuard<'_, T>) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.changed.notify_all();
        }
    }
}
