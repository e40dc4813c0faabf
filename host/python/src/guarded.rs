//! What several threads share: the one way to a value behind a lock, and the rule of all locks of this package.
//!
//! **While a lock is held no Python runs, and the interpreter's lock is neither given up nor taken.** Making or reading an exception,
//! dropping an object, formatting one, converting an argument, and allocating one, since that may collect garbage: all of it can run
//! somebody's `__del__`, which may use the very thing that is locked, or hand the interpreter to a thread that waits for it. So
//! arguments are converted before; in here are plain values and plain errors, [`Refusal`](crate::refusal::Refusal); what must be dropped
//! is handed out, and dropped behind.
//!
//! It holds by construction: the work is `Send`, and nothing that proves that this thread is attached, no `Python`, no `Bound`, is. Who
//! waits for a lock waits detached, and then works detached. What the host drops by itself, such as memory of an object of Python's when
//! the last task that named it ends, is [`DroppedBehind`] the lock.

use core::any::Any;
use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

use pyo3::prelude::*;

/// How long a thread that was let through may take to wake up.
const WAKING: Duration = Duration::from_micros(20);
/// As many of these, and no more, are granted to those who wait.
const WAKINGS: u32 = 500;

thread_local! {
    /// This thread has locked something.
    static IS_LOCKED: Cell<bool> = const { Cell::new(false) };
    /// What it is to drop when it has not.
    static BEHIND: RefCell<Vec<Box<dyn Any + Send>>> = const { RefCell::new(Vec::new()) };
}

/// Something of Python's that the host drops when it likes: never while this thread has locked something.
pub(crate) struct DroppedBehind<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> DroppedBehind<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T: Send + 'static> Drop for DroppedBehind<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        // A thread that ends has nothing locked.
        if IS_LOCKED.try_with(Cell::get).unwrap_or(false) {
            BEHIND.with_borrow_mut(|behind| behind.push(Box::new(value)));
        }
    }
}

/// Drops what was kept until now, where nothing is locked.
#[inline]
fn drop_behind() {
    if BEHIND.with_borrow(|behind| !behind.is_empty()) {
        drop(BEHIND.take());
    }
}

/// While it lives this thread has locked something. Work in work is told of as the outer one.
struct Locked(bool);

impl Locked {
    fn new() -> Self {
        Self(IS_LOCKED.replace(true))
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        IS_LOCKED.set(self.0);
    }
}

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
        let done = match self.value.try_lock() {
            Ok(mut value) => in_work(&mut *value, work),
            // A panic would be a fault of this library; whoever must know of it asks.
            Err(TryLockError::Poisoned(value)) => in_work(&mut *value.into_inner(), work),
            Err(TryLockError::WouldBlock) => return self.with_detached(py, work),
        };
        drop_behind();
        done
    }

    /// Works on the value for as long as it takes: other threads of Python go on.
    pub(crate) fn with_detached<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut T) -> R + Send) -> R {
        let done = py.detach(|| self.work(work));
        drop_behind();
        done
    }

    /// Lets those who wait for it go first, then works on the value for as long as it takes.
    pub(crate) fn with_last<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut T) -> R + Send) -> R {
        let done = py.detach(|| {
            for _ in 0..WAKINGS {
                if self.waiting.load(Ordering::Relaxed) == 0 {
                    break;
                }
                std::thread::sleep(WAKING);
            }
            self.work(work)
        });
        drop_behind();
        done
    }

    fn work<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let locked = self.value.lock();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        in_work(&mut *locked.unwrap_or_else(PoisonError::into_inner), work)
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

#[inline]
fn in_work<T, R>(value: &mut T, work: impl FnOnce(&mut T) -> R) -> R {
    let _locked = Locked::new();
    work(value)
}
