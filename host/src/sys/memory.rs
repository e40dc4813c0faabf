//! Mappings of memory: made, left out of forks, removed.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use super::error::{OsError, retry};
use super::memfd;

/// Bytes of a page.
#[must_use]
pub fn page_size() -> usize {
    // SAFETY: it takes a number alone.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// As many slots as that, each made anew. A number from outside may be larger than the machine has memory for, and an allocation that fails
/// would end the process.
///
/// # Errors
/// [`OsError`]: ENOMEM.
pub(crate) fn slots<T>(count: usize, make: impl FnMut() -> T) -> Result<Box<[T]>, OsError> {
    check_room(count.saturating_mul(size_of::<T>()))?;
    let mut slots = Vec::new();
    slots.try_reserve_exact(count).map_err(|_| NO_ROOM)?;
    slots.resize_with(count, make);
    Ok(slots.into_boxed_slice())
}

/// The machine could give `nbytes` bytes of memory now, by its own estimate, and lets this process have them.
///
/// # Errors
/// [`OsError`]: ENOMEM.
pub(crate) fn check_room(nbytes: usize) -> Result<(), OsError> {
    /// What any machine has: not worth asking.
    const LITTLE: usize = 64 << 20;
    let fits = |available| u64::try_from(nbytes).is_ok_and(|nbytes| nbytes <= available);
    let is_there = nbytes <= LITTLE || memfd::available().is_none_or(fits);
    // A limit of the process is not in the machine's estimate.
    if is_there && Vec::<u8>::new().try_reserve_exact(nbytes).is_ok() { Ok(()) } else { Err(NO_ROOM) }
}

const NO_ROOM: OsError = OsError { call: "malloc", errno: libc::ENOMEM };

/// What may be done with mapped memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Loads; a store faults.
    Read,
    /// Loads and stores. There is no memory that can only be written.
    ReadWrite,
}

impl Protection {
    pub(super) const fn flags(self) -> i32 {
        match self {
            Self::Read => libc::PROT_READ,
            Self::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        }
    }
}

/// Maps the first `nbytes` bytes of a file, shared with everybody else who does.
///
/// # Errors
/// [`OsError`]: ENOMEM when no address space or no further mapping is left, EACCES, EINVAL for 0.
pub fn map_file(fd: BorrowedFd<'_>, nbytes: usize, protection: Protection) -> Result<NonNull<u8>, OsError> {
    map(nbytes, protection, libc::MAP_SHARED, fd.as_raw_fd())
}

/// Maps `nbytes` bytes of new memory, zero, shared with every process forked afterwards.
///
/// # Errors
/// [`OsError`]: ENOMEM, EINVAL for 0.
pub fn map_inherited(nbytes: usize) -> Result<NonNull<u8>, OsError> {
    map(nbytes, Protection::ReadWrite, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1)
}

/// Maps `nbytes` bytes of new memory, zero. A process forked afterwards has a copy of its own, made page by page when either stores.
///
/// # Errors
/// [`OsError`]: ENOMEM, EINVAL for 0.
pub fn map_copied(nbytes: usize) -> Result<NonNull<u8>, OsError> {
    map(nbytes, Protection::ReadWrite, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
}

/// Maps `nbytes` bytes of new memory, zero, of this process alone: a process forked afterwards finds zeros there.
///
/// # Errors
/// [`OsError`]: ENOMEM, EINVAL for 0; on a kernel before 4.14, EINVAL.
pub fn map_emptied_in_forks(nbytes: usize) -> Result<NonNull<u8>, OsError> {
    let base = map_copied(nbytes)?;
    let emptied =
        // SAFETY: the mapping was just made, and nothing of it is known to anybody.
        retry("madvise", || unsafe { libc::madvise(base.as_ptr().cast(), nbytes, libc::MADV_WIPEONFORK) });
    emptied.map(|_| base).inspect_err(|_| {
        // SAFETY: as above.
        let _ = unsafe { unmap(base, nbytes) };
    })
}

fn map(nbytes: usize, protection: Protection, flags: i32, fd: i32) -> Result<NonNull<u8>, OsError> {
    // SAFETY: the kernel chooses addresses that nothing uses; nothing that exists is changed.
    unsafe { mmap(core::ptr::null_mut(), nbytes, protection.flags(), flags, fd) }
}

/// The call itself, made again as long as a signal interrupts it. `fd` is mapped from its first byte on; -1 is none.
///
/// # Safety
/// If the flags say that `base` is to be used, nothing refers to the `nbytes` bytes from there on.
pub(super) unsafe fn mmap(
    base: *mut libc::c_void,
    nbytes: usize,
    protection: i32,
    flags: i32,
    fd: i32,
) -> Result<NonNull<u8>, OsError> {
    let call = "mmap";
    loop {
        // SAFETY: the caller says that nothing refers to what it may replace.
        let found = unsafe { libc::mmap(base, nbytes, protection, flags, fd, 0) };
        if found != libc::MAP_FAILED {
            return NonNull::new(found.cast()).ok_or(OsError { call, errno: libc::EFAULT });
        }
        let error = OsError::last(call);
        if error.errno != libc::EINTR {
            return Err(error);
        }
    }
}

/// Removes a mapping.
///
/// # Errors
/// [`OsError`]; the mapping is still there then.
///
/// # Safety
/// `base` and `nbytes` are those of a mapping that was made here, and nothing uses it any more.
pub unsafe fn unmap(base: NonNull<u8>, nbytes: usize) -> Result<(), OsError> {
    // SAFETY: the caller owns the mapping and nothing refers to it.
    retry("munmap", || unsafe { libc::munmap(base.as_ptr().cast(), nbytes) })?;
    Ok(())
}

/// Leaves a mapping out of the processes that are forked from now on.
///
/// # Errors
/// [`OsError`].
///
/// # Safety
/// `base` and `nbytes` are those of a mapping of this process, and no process forked from now on uses it.
pub unsafe fn leave_out_of_forks(base: NonNull<u8>, nbytes: usize) -> Result<(), OsError> {
    // SAFETY: the caller owns the mapping; in this process nothing about it changes.
    retry("madvise", || unsafe { libc::madvise(base.as_ptr().cast(), nbytes, libc::MADV_DONTFORK) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_slots_than_the_machine_has_memory_for_are_an_error_and_no_end() {
        assert_eq!(slots(3, || 7_u64).as_deref(), Ok(&[7; 3][..]));
        for count in [1 << 44, usize::MAX] {
            assert_eq!(slots(count, || 0_u64), Err(NO_ROOM));
        }
    }
}
