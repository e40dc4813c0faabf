//! Signals of this process: what happens when one comes, and whether it is let through.

use std::mem::MaybeUninit;

use super::error::{OsError, retry};

/// What runs when a signal comes.
pub(super) type Handler = extern "C" fn(i32);

/// Has a handler run when a signal comes, with these flags of `sigaction` and no further signal held back meanwhile.
///
/// # Errors
/// [`OsError`]: EINVAL when there is no such signal, or none that can be handled.
///
/// # Safety
/// The handler makes no call that a signal handler must not make, and leaves the thread's error number as it was.
pub(super) unsafe fn handle(signal: i32, handler: Handler, flags: i32) -> Result<(), OsError> {
    // SAFETY: all zero bits are a legal action: the default one, with an empty mask.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = address(handler);
    action.sa_flags = flags;
    // SAFETY: `action` is readable, and the caller vouches for its handler.
    retry("sigaction", || unsafe { libc::sigaction(signal, &raw const action, core::ptr::null_mut()) })?;
    Ok(())
}

/// Ignores a signal from now on.
///
/// # Errors
/// As [`handle`].
pub(super) fn ignore(signal: i32) -> Result<(), OsError> {
    set(signal, libc::SIG_IGN)
}

/// Has a signal do what it does by default.
///
/// # Errors
/// As [`handle`].
pub(super) fn reset(signal: i32) -> Result<(), OsError> {
    set(signal, libc::SIG_DFL)
}

fn set(signal: i32, action: libc::sighandler_t) -> Result<(), OsError> {
    // SAFETY: neither ignoring a signal nor its default action runs code of ours.
    let previous = unsafe { libc::signal(signal, action) };
    if previous == libc::SIG_ERR { Err(OsError::last("signal")) } else { Ok(()) }
}

/// Whether this process ignores a signal, as one does from its start that outlives its terminal or runs in the background.
///
/// # Errors
/// [`OsError`]: EINVAL when there is no such signal.
pub fn ignores(signal: i32) -> Result<bool, OsError> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: `action` is writable and large enough for one answer, and nothing is changed.
    retry("sigaction", || unsafe { libc::sigaction(signal, core::ptr::null(), action.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it wrote all of it.
    Ok(unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN)
}

/// Lets a signal through to this thread, which may have been started with it blocked: a mask is inherited.
///
/// # Errors
/// [`OsError`].
pub(super) fn unblock(signal: i32) -> Result<(), OsError> {
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
fn address(handler: Handler) -> usize {
    handler as *const () as usize
}
