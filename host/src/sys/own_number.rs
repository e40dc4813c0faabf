//! This process's number, which the system is asked for once. Whatever must not happen in a fork asks for it, every task does.
//!
//! It is kept in a page that the kernel empties in whatever is forked from this process, by whomever: so a fork never takes its parent's
//! number for its own.

use core::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::memory::{map_emptied_in_forks, unmap};

/// Where the number is kept: 0 is not known yet. Null before it was first asked for, and where there is no such page.
static KEPT: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());

/// This process's number, in its own namespace.
#[must_use]
#[inline]
pub fn current_pid() -> u32 {
    match kept().map(|number| number.load(Ordering::Relaxed)) {
        Some(pid) if pid != 0 => pid,
        Some(_) | None => ask(),
    }
}

#[inline]
fn kept() -> Option<&'static AtomicU32> {
    // SAFETY: it is null or the start of a page that stays mapped as long as the process lives, and that atomics alone reach.
    unsafe { KEPT.load(Ordering::Acquire).as_ref() }
}

#[cold]
fn ask() -> u32 {
    let pid = std::process::id();
    if let Some(number) = kept().or_else(make) {
        number.store(pid, Ordering::Relaxed);
    }
    pid
}

/// The page, made by this thread or by another one meanwhile. Where there is none the system is asked each time.
fn make() -> Option<&'static AtomicU32> {
    if cfg!(miri) {
        // It knows neither such pages nor forks.
        return None;
    }
    let page = map_emptied_in_forks(size_of::<AtomicU32>()).ok()?;
    let number = page.cast::<AtomicU32>().as_ptr();
    if KEPT.compare_exchange(null_mut(), number, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: it was just mapped, with that size, and nobody else knows it.
        let _ = unsafe { unmap(page, size_of::<AtomicU32>()) };
    }
    kept()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::process::exit_now;

    #[test]
    fn a_fork_has_a_number_of_its_own() {
        assert_eq!(current_pid(), std::process::id());
        assert_eq!(kept().unwrap().load(Ordering::Relaxed), std::process::id());
        // SAFETY: the child makes system calls alone, which other threads hold nothing of.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_own = |_| current_pid() == std::process::id();
            exit_now(i32::from((0..2).all(is_own)));
        }
        let mut status = 0;
        // SAFETY: the status is writable.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(libc::WEXITSTATUS(status), 1);
        assert_eq!(current_pid(), std::process::id());
    }
}
