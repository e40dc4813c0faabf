//! What several threads share: the one way to a value behind a lock, and the rule of all locks of this package.
//!
//! **While a lock is held no Python runs, and the interpreter's lock is neither given up nor taken.** Making or reading an exception,
//! dropping an object, formatting one, converting an argument, and allocating one, since that may collect garbage: all of it can run
//! somebody's `__del__`, which may use the very thing that is locked, or hand the interpreter to a thread that waits for it. So
//! arguments are converted before; in here are plain values and plain errors, [`Refusal`](crate::refusal::Refusal); what must be dropped
//! is handed out, and dropped behind.
//!
//! It holds by construction: the work is `Send`, and nothing that proves that this thread is attached, no `Python`, no `Bound`, is. Who
//! waits for a lock waits detached, and then works detached.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

use pyo3::prelude::*;

/// How long a thread that was let through may take to wake up.
const WAKING: Duration = Duration::from_micros(20);
/// As many of these, and no more, are granted to those who wait.
const WAKINGS: u32 = 500;

/// A value for one thread at a time.
#[derive(Default)]
pub(crate) struct Guarded<T> {
    value: Mutex<T>,
    /// Threads that wait for it.
    waiting: AtomicUsize,
}

impl<T: Send> Guarded<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { value: Mutex::new(value), waiting: AtomicUsize::new(0) }
    }

    /// Works on the value for a moment.
    #[inline]
    pub(crate) fn with<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut T) -> R + Send) -> R {
        match self.value.try_lock() {
            Ok(mut value) => work(&mut value),
            // A panic would be a fault of this library; whoever must know of it asks.
            Err(TryLockError::Poisoned(value)) => work(&mut value.into_inner()),
            Err(TryLockError::WouldBlock) => self.with_detached(py, work),
        }
    }

    /// Works on the value for as long as it takes: other threads of Python go on.
    pub(crate) fn with_detached<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut T) -> R + Send) -> R {
        py.detach(|| self.work(work))
    }

    /// Lets those who wait for it go first, then works on the value for as long as it takes.
    pub(crate) fn with_last<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut T) -> R + Send) -> R {
        py.detach(|| {
            for _ in 0..WAKINGS {
                if self.waiting.load(Ordering::Relaxed) == 0 {
                    break;
                }
                std::thread::sleep(WAKING);
            }
            self.work(work)
        })
    }

    fn work<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let locked = self.value.lock();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        work(&mut locked.unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks at the value for the collector of garbage, if nobody has it: that must not wait, and `look` runs nothing of Python's.
    pub(crate) fn try_look<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        self.value.try_lock().ok().map(|value| look(&value))
    }

    /// A piece of work on it panicked.
    pub(crate) fn is_broken(&self) -> bool {
        self.value.is_poisoned()
    }
}
