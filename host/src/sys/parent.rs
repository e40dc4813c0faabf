//! Ending with one's parent, even in the middle of a computation that watches nothing.
//!
//! The kernel's signal on a parent's death comes when the *thread* that forked ends, which need not be the process's end.
//! So the signal's handler asks the parent's descriptor, and ends this process only when the parent has ended. The kernel
//! sends it again when the next thread that became the parent ends.

use std::os::fd::{AsFd, IntoRawFd};
use std::sync::atomic::{AtomicI32, Ordering};

use super::error::{OsError, retry};
use super::process::{Process, exit_now};
use super::signal::{self, ignores, unblock};

/// The signal by which the kernel tells of the parent's death: the one that a process gets when its terminal is gone.
const SIGNAL: i32 = libc::SIGHUP;

/// The parent's descriptor, for the handler; -1 before there is one.
static PARENT: AtomicI32 = AtomicI32::new(-1);

/// Makes this process end as soon as `parent`, which forked it, has ended. A second call takes the place of the first.
///
/// # Errors
/// [`OsError`].
pub fn end_with(parent: &Process) -> Result<(), OsError> {
    let copy = parent.as_fd().try_clone_to_owned().map_err(|error| OsError::from_io("fcntl", &error))?;
    // It stays open for the handler as long as the process lives.
    PARENT.store(copy.into_raw_fd(), Ordering::Release);
    // SAFETY: the handler makes two calls that one may make, and leaves the error number as it was.
    unsafe { signal::handle(SIGNAL, on_signal, libc::SA_RESTART) }?;
    unblock(SIGNAL)?;
    // SAFETY: it takes numbers alone.
    retry("prctl", || unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, SIGNAL) })?;
    // It may have ended before the kernel was asked to tell.
    end_if_parent_ended();
    Ok(())
}

/// Lets an interrupt from the terminal, which goes to the whole group, be the parent's business.
///
/// # Errors
/// [`OsError`].
pub fn leave_interrupts_to_parent() -> Result<(), OsError> {
    signal::ignore(libc::SIGINT)
}

/// Lets SIGTERM end this process, whatever its parent, of which it is a copy, does on it. Only who was started with it ignored
/// goes on ignoring it.
///
/// # Errors
/// [`OsError`].
pub fn end_when_told_to() -> Result<(), OsError> {
    if ignores(libc::SIGTERM)? {
        return Ok(());
    }
    signal::reset(libc::SIGTERM)?;
    unblock(libc::SIGTERM)
}

extern "C" fn on_signal(_: i32) {
    // SAFETY: it takes nothing.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the address of this thread's error number is valid as long as the thread is.
    let errno = unsafe { place.read() };
    end_if_parent_ended();
    // SAFETY: as above.
    unsafe { place.write(errno) };
}

/// Makes only calls that a signal handler may make: poll and _exit.
fn end_if_parent_ended() {
    let mut ask = libc::pollfd { fd: PARENT.load(Ordering::Acquire), events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: `ask` is one entry, readable and writable.
        match unsafe { libc::poll(&raw mut ask, 1, 0) } {
            1 => exit_now(0),
            // Another signal came meanwhile. This one does not come again, so what it tells must not be missed.
            -1 if OsError::last("poll").errno == libc::EINTR => {}
            _ => return,
        }
    }
}
