//! Ending with one's parent, even in the middle of a computation that watches nothing.
//!
//! The kernel's signal on a parent's death comes when the *thread* that forked ends, which need not be the process's end.
//! So the signal's handler asks the parent's descriptor, and ends this process only when the parent has ended. The kernel
//! sends it again when the next thread that became the parent ends.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, IntoRawFd};
use std::sync::atomic::{AtomicI32, Ordering};

use super::error::{OsError, retry};
use super::process::{Process, exit_now, ignores};

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
    set_handler(SIGNAL, on_signal)?;
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
    // SAFETY: ignoring a signal runs no code.
    let previous = unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
    if previous == libc::SIG_ERR { Err(OsError::last("signal")) } else { Ok(()) }
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
    // SAFETY: the default action runs no code of ours.
    let previous = unsafe { libc::signal(libc::SIGTERM, libc::SIG_DFL) };
    if previous == libc::SIG_ERR { Err(OsError::last("signal")) } else { unblock(libc::SIGTERM) }
}

/// Installs a handler that only makes calls that are allowed in one.
fn set_handler(signal: i32, handler: extern "C" fn(i32)) -> Result<(), OsError> {
    // SAFETY: all zero bits are a legal action: the default one, with an empty mask.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler_address(handler);
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `action` is readable, and its handler makes no call that a handler must not make.
    retry("sigaction", || unsafe { libc::sigaction(signal, &raw const action, core::ptr::null_mut()) })?;
    Ok(())
}

/// Lets a signal through to this thread, which may have been started with it blocked: a mask is inherited.
fn unblock(signal: i32) -> Result<(), OsError> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `set` is writable, and all of it is written.
    retry("sigemptyset", || unsafe { libc::sigemptyset(set.as_mut_ptr()) })?;
    // SAFETY: the call before wrote the set.
    retry("sigaddset", || unsafe { libc::sigaddset(set.as_mut_ptr(), signal) })?;
    // SAFETY: the set is readable, and the one before is not asked for.
    let errno = unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), core::ptr::null_mut()) };
    if errno == 0 { Ok(()) } else { Err(OsError { call: "pthread_sigmask", errno }) }
}

#[expect(clippy::as_conversions, reason = "the operating system takes a handler's address as a number")]
fn handler_address(handler: extern "C" fn(i32)) -> usize {
    handler as *const () as usize
}

extern "C" fn on_signal(_: i32) {
    end_if_parent_ended();
}

/// Makes only calls that a signal handler may make: poll and _exit.
fn end_if_parent_ended() {
    let mut ask = libc::pollfd { fd: PARENT.load(Ordering::Acquire), events: libc::POLLIN, revents: 0 };
    // SAFETY: `ask` is one entry, readable and writable.
    if unsafe { libc::poll(&raw mut ask, 1, 0) } == 1 {
        exit_now(0);
    }
}
