//! Address space by itself: reserved, files put into it and taken out again, what may be done there, given back.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use super::error::OsError;
use super::memory::{Protection, mmap, unmap};

/// Reserves `nbytes` bytes of addresses at a multiple of `alignment`, a power of two. Nothing can be done there yet.
///
/// # Errors
/// [`OsError`]: ENOMEM when no address space or no further mapping is left, EINVAL for 0 bytes.
pub fn reserve(nbytes: usize, alignment: usize) -> Result<NonNull<u8>, OsError> {
    let call = "mmap";
    let whole = nbytes.checked_add(alignment).ok_or(OsError { call, errno: libc::ENOMEM })?;
    if nbytes == 0 || !alignment.is_power_of_two() {
        return Err(OsError { call, errno: libc::EINVAL });
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: the kernel chooses addresses that nothing uses; nothing that exists is changed.
    let found = unsafe { mmap(core::ptr::null_mut(), whole, libc::PROT_NONE, flags, -1) }?;
    // Less than `alignment`, which is how many bytes more than wanted there are.
    let before = found.as_ptr().align_offset(alignment).min(alignment);
    // SAFETY: it lies within what was just reserved.
    let base = unsafe { found.add(before) };
    // SAFETY: as above: `before` and `nbytes` together are at most `whole`.
    let end = unsafe { base.add(nbytes) };
    let after = whole.saturating_sub(before).saturating_sub(nbytes);
    if before > 0 {
        // SAFETY: those addresses were just reserved, and nothing is there. If they stay, no byte of memory is lost.
        let _ = unsafe { unmap(found, before) };
    }
    if after > 0 {
        // SAFETY: as above.
        let _ = unsafe { unmap(end, after) };
    }
    Ok(base)
}

/// Puts the first `nbytes` bytes of a file there, shared with everybody else who maps it. Nothing can be done with them yet.
///
/// # Errors
/// [`OsError`]: ENOMEM when no further mapping is left, or no huge page; EACCES. What was there may be gone then.
///
/// # Safety
/// `base` and `nbytes` are those of a range that [`reserve`] made, and nothing refers to what is there.
pub unsafe fn put(base: NonNull<u8>, nbytes: usize, fd: BorrowedFd<'_>) -> Result<(), OsError> {
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    // SAFETY: the caller owns the range, and nothing refers to it.
    unsafe { mmap(base.as_ptr().cast(), nbytes, libc::PROT_NONE, flags, fd.as_raw_fd()) }?;
    Ok(())
}

/// Takes out what is there; the range stays reserved.
///
/// # Errors
/// [`OsError`]: ENOMEM.
///
/// # Safety
/// As for [`put`].
pub unsafe fn take_out(base: NonNull<u8>, nbytes: usize) -> Result<(), OsError> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: the caller owns the range, and nothing refers to it.
    unsafe { mmap(base.as_ptr().cast(), nbytes, libc::PROT_NONE, flags, -1) }?;
    Ok(())
}

/// Says what may be done there.
///
/// # Errors
/// [`OsError`]: ENOMEM, EACCES when the file there was not opened for it.
///
/// # Safety
/// `base` and `nbytes` are those of a range that [`reserve`] made, and nothing that refers to it needs more than `protection`.
pub unsafe fn protect(base: NonNull<u8>, nbytes: usize, protection: Protection) -> Result<(), OsError> {
    // SAFETY: the caller owns the range.
    super::error::retry("mprotect", || unsafe {
        libc::mprotect(base.as_ptr().cast(), nbytes, protection.flags())
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_aligned_and_what_was_too_much_is_given_back() {
        for alignment in [4096, 1 << 21] {
            let base = reserve(3 << 20, alignment).unwrap();
            assert_eq!(base.addr().get() % alignment, 0);
            // SAFETY: it was just reserved, and nothing is there.
            unsafe { unmap(base, 3 << 20) }.unwrap();
        }
    }

    #[test]
    fn a_size_that_no_address_space_has_is_refused() {
        let no_space = OsError { call: "mmap", errno: libc::ENOMEM };
        assert_eq!(reserve(usize::MAX, 1 << 21), Err(no_space));
        assert_eq!(reserve(1 << 60, 1 << 21), Err(no_space));
        assert_eq!(reserve(0, 1 << 21).unwrap_err().errno, libc::EINVAL);
        assert_eq!(reserve(4096, 3).unwrap_err().errno, libc::EINVAL);
    }
}
