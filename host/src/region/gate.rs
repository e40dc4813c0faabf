//! Who uses a region now, and whether anyone may begin to.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bufabi_core::Code;
use bufabi_core::region::AccessError;

/// A region's gate: once it is shut nobody comes in, whoever is in is refused the next access, and one can wait until all have left.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// With what everyone is refused: the code's number, and above it, in the high half, the number that belongs to it; 0 while the
    /// gate is open.
    refusal: AtomicU64,
    /// What lies there may be read nevertheless: the other side is gone, and what it sent is still to be received.
    is_readable: AtomicBool,
    inside: Mutex<usize>,
    left: Condvar,
}

impl Gate {
    /// Why everyone is refused; `None` while the gate is open.
    #[inline]
    pub(super) fn refusal(&self) -> Option<AccessError> {
        // Nothing depends on when it is seen: a shutter waits for those inside.
        match self.refusal.load(Ordering::Relaxed) {
            0 => None,
            packed => Some(unpack(packed)),
        }
    }

    /// Why a reader is refused.
    #[inline]
    pub(super) fn reading_refusal(&self) -> Option<AccessError> {
        match self.refusal() {
            Some(error) if !self.is_readable.load(Ordering::Relaxed) => Some(error),
            _ => None,
        }
    }

    /// Why nothing more can come. What the other side did before its end is seen by whoever looks after this.
    #[inline]
    pub(super) fn end(&self) -> Option<AccessError> {
        self.refusal().inspect(|_| fence(Ordering::Acquire))
    }

    /// Comes in, until the ticket is dropped.
    pub(super) fn enter(self: &Arc<Self>) -> Result<Ticket, AccessError> {
        let mut inside = self.inside();
        if let Some(error) = self.refusal() {
            return Err(error);
        }
        *inside = inside.saturating_add(1);
        drop(inside);
        Ok(Ticket(Arc::clone(self)))
    }

    /// Shuts the gate; the first reason is kept. `number` is what [`AccessError::number`] will be.
    pub(super) fn shut(&self, code: Code, number: i32) {
        // Under the lock: whoever came in before is counted.
        let _inside = self.inside();
        let packed = pack(code, number);
        self.is_readable.store(false, Ordering::Relaxed);
        let _ = self.refusal.compare_exchange(0, packed, Ordering::Release, Ordering::Relaxed);
    }

    /// As [`shut`](Self::shut), because the other side is gone: what it left may be read.
    pub(super) fn shut_but_for_reading(&self, code: Code, number: i32) {
        let _inside = self.inside();
        if self.refusal().is_none() {
            self.is_readable.store(true, Ordering::Relaxed);
            self.refusal.store(pack(code, number), Ordering::Release);
        }
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

fn pack(code: Code, number: i32) -> u64 {
    u64::from(number.cast_unsigned()) << 32 | u64::from(code.number().cast_unsigned())
}

#[cold]
fn unpack(packed: u64) -> AccessError {
    let half = |bits: u64| u32::try_from(bits & 0xffff_ffff).unwrap_or(0).cast_signed();
    let code = Code::from_number(half(packed)).unwrap_or(Code::Released);
    AccessError::new(code, i64::from(half(packed >> 32)))
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
