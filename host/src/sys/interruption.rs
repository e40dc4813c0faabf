//! A timer whose signals interrupt whatever call this process makes: for seeing that every one of them is made again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::error::{OsError, retry};
use super::signal;

/// Signals that came.
static COUNT: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_one(_: i32) {
    COUNT.fetch_add(1, Ordering::Relaxed);
}

/// A signal to this process, SIGALRM, at every beat of a timer until this is dropped. No call is resumed by itself. A fork keeps the
/// handler, and has no timer until it begins one.
#[derive(Debug)]
pub struct Interruptions(());

impl Interruptions {
    /// Begins, in place of any timer of the kind that this process has.
    ///
    /// # Errors
    /// [`OsError`]: EINVAL for a time that the operating system does not take.
    pub fn begin(every: Duration) -> Result<Self, OsError> {
        // SAFETY: the handler does nothing but count in an atomic.
        unsafe { signal::handle(libc::SIGALRM, count_one, 0) }?;
        set_timer(every)?;
        Ok(Self(()))
    }

    /// Signals that have come to this process since it started.
    #[must_use]
    pub fn count() -> u64 {
        COUNT.load(Ordering::Relaxed)
    }
}

impl Drop for Interruptions {
    fn drop(&mut self) {
        // A timer can always be stopped.
        let _ = set_timer(Duration::ZERO);
    }
}

/// Sets the timer to that beat; zero stops it.
fn set_timer(every: Duration) -> Result<(), OsError> {
    let beat = libc::timeval {
        tv_sec: i64::try_from(every.as_secs()).unwrap_or(i64::MAX),
        tv_usec: i64::from(every.subsec_micros()),
    };
    let timer = libc::itimerval { it_interval: beat, it_value: beat };
    // SAFETY: `timer` is readable, and the old one is not asked for.
    retry("setitimer", || unsafe {
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, core::ptr::null_mut())
    })?;
    Ok(())
}
