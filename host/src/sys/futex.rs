//! Sleeping until a word of shared memory changes, between any processes that map it.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use super::error::OsError;

/// Sleeps while `word` is `expected`, until it is woken or the limit is over. It may also return for no reason: look again.
///
/// # Errors
/// [`OsError`]; that the word has another value, a signal and the limit are none.
pub fn sleep(word: &AtomicU32, expected: u32, limit: Duration) -> Result<(), OsError> {
    let limit = libc::timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(limit.subsec_nanos()),
    };
    // SAFETY: the word and the limit are readable during the call.
    let slept = unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &raw const limit)
    };
    if slept == 0 {
        return Ok(());
    }
    let error = OsError::last("futex");
    match error.errno {
        libc::EAGAIN | libc::EINTR | libc::ETIMEDOUT => Ok(()),
        _ => Err(error),
    }
}

/// Wakes all that sleep on `word`.
///
/// # Errors
/// [`OsError`].
pub fn wake(word: &AtomicU32) -> Result<(), OsError> {
    // SAFETY: the call takes the word's address and reads nothing there.
    let woken = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    if woken < 0 { Err(OsError::last("futex")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;
    use std::time::Instant;

    #[test]
    fn a_word_of_another_value_and_a_limit_end_a_sleep() {
        let word = AtomicU32::new(5);
        sleep(&word, 4, Duration::from_secs(60)).unwrap();
        sleep(&word, 5, Duration::from_millis(2)).unwrap();
    }

    #[test]
    fn a_sleeper_is_woken() {
        let (word, start) = (AtomicU32::new(0), Instant::now());
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                while word.load(Ordering::Acquire) == 0 {
                    sleep(&word, 0, Duration::from_secs(60)).unwrap();
                }
            });
            word.store(1, Ordering::Release);
            while !sleeper.is_finished() {
                wake(&word).unwrap();
                std::thread::yield_now();
            }
        });
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}
