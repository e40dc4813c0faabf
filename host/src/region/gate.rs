//! Who uses a region now, and whether anyone may begin to.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bufabi_core::Code;

/// A region's gate: once it is shut nobody comes in, whoever is in is refused the next access, and one can wait until all have left.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// The number of the code with which everyone is refused; 0 while the gate is open.
    refusal: AtomicI32,
    inside: Mutex<usize>,
    left: Condvar,
}

impl Gate {
    /// Why everyone is refused; `None` while the gate is open.
    #[inline]
    pub(super) fn refusal(&self) -> Option<Code> {
        // Nothing depends on when it is seen: a shutter waits for those inside.
        match self.refusal.load(Ordering::Relaxed) {
            0 => None,
            number => Some(Code::from_number(number).unwrap_or(Code::Released)),
        }
    }

    /// Comes in, until the ticket is dropped.
    pub(super) fn enter(self: &Arc<Self>) -> Result<Ticket, Code> {
        let mut inside = self.inside();
        if let Some(code) = self.refusal() {
            return Err(code);
        }
        *inside = inside.saturating_add(1);
        drop(inside);
        Ok(Ticket(Arc::clone(self)))
    }

    /// Shuts the gate; the first reason is kept.
    pub(super) fn shut(&self, code: Code) {
        // Under the lock: whoever came in before is counted.
        let _inside = self.inside();
        let _ = self.refusal.compare_exchange(0, code.number(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Waits until all have left or the time comes, and says how many have not.
    pub(super) fn wait(&self, until: Instant) -> usize {
        let mut inside = self.inside();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if *inside == 0 || left.is_zero() {
                return *inside;
            }
            inside = self.left.wait_timeout(inside, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn inside(&self) -> MutexGuard<'_, usize> {
        // A count is whole at any moment.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody is inside.
#[derive(Debug)]
pub(super) struct Ticket(Arc<Gate>);

impl Ticket {
    #[inline]
    pub(super) const fn gate(&self) -> &Arc<Gate> {
        &self.0
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut inside = self.0.inside();
        *inside = inside.saturating_sub(1);
        drop(inside);
        self.0.left.notify_all();
    }
}
