//! Memory with a descriptor and no name, that can be sealed against shrinking: made, reserved, sealed, and asked for its seals.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::error::{OsError, retry};
use super::pieces::in_pieces;

/// `MFD_NOEXEC_SEAL` of Linux 6.3.
const NOEXEC_SEAL: u32 = 8;
/// `F_SEAL_EXEC` of Linux 6.3.
const SEAL_EXEC: i32 = 0x20;
/// `MFD_HUGETLB` with pages of 2 MiB, whatever the machine's default is.
const HUGE_2_MIB: u32 = libc::MFD_HUGETLB | libc::MFD_HUGE_2MB;

/// Which pages memory is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pages {
    /// The machine's ordinary ones.
    Ordinary,
    /// Ones of 2 MiB, which the machine's keeper has set aside.
    Huge,
}

/// Makes memory of 0 bytes, not executable where the kernel knows that, which can be sealed. It is closed on exec.
///
/// `name` is for people who read `/proc/<pid>/maps`.
///
/// # Errors
/// [`OsError`]: EMFILE, ENFILE, ENOMEM; EINVAL or ENODEV for huge pages that the kernel does not know.
pub fn create(name: &CStr, pages: Pages) -> Result<OwnedFd, OsError> {
    let huge = match pages {
        Pages::Ordinary => 0,
        Pages::Huge => HUGE_2_MIB,
    };
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | huge;
    create_with(flags, |flags| {
        // SAFETY: the name ends in a NUL and outlives the call.
        let fd = retry("memfd_create", || unsafe { libc::memfd_create(name.as_ptr(), flags) })?;
        // SAFETY: the call just opened it, and nobody else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    })
}

/// With the seal against execution first, and without it on a kernel that does not know it.
fn create_with<T>(flags: u32, mut attempt: impl FnMut(u32) -> Result<T, OsError>) -> Result<T, OsError> {
    match attempt(flags | NOEXEC_SEAL) {
        Err(OsError { errno: libc::EINVAL, .. }) => attempt(flags),
        other => other,
    }
}

/// Gives memory `nbytes` bytes, zero, and reserves them now.
///
/// # Errors
/// [`OsError`]: ENOSPC or ENOMEM when the machine has no such memory, EFBIG.
pub fn reserve(fd: BorrowedFd<'_>, nbytes: u64) -> Result<(), OsError> {
    reserve_from(fd, 0, nbytes)
}

/// Reserves the `nbytes` bytes from `offset` on now; those that were not there are zero.
///
/// # Errors
/// As [`reserve`].
pub fn reserve_from(fd: BorrowedFd<'_>, offset: u64, nbytes: u64) -> Result<(), OsError> {
    let call = "fallocate";
    let too_large = OsError { call, errno: libc::EFBIG };
    let from = i64::try_from(offset).map_err(|_| too_large)?;
    let end = offset.checked_add(nbytes).and_then(|end| i64::try_from(end).ok()).ok_or(too_large)?;
    if from == end {
        return Ok(());
    }
    in_pieces(from, end, |offset, length| {
        // SAFETY: it takes numbers alone.
        match unsafe { libc::fallocate(fd.as_raw_fd(), 0, offset, length) } {
            0 => Ok(()),
            _ => Err(OsError::last(call)),
        }
    })
}

/// Gives the pages of `nbytes` bytes from `offset` on back to the machine. They read as zeros then, and the size stays.
///
/// # Errors
/// [`OsError`]: EPERM when writing is sealed off, EINVAL for 0 bytes.
pub fn discard(fd: BorrowedFd<'_>, offset: u64, nbytes: u64) -> Result<(), OsError> {
    let call = "fallocate(FALLOC_FL_PUNCH_HOLE)";
    let too_large = OsError { call, errno: libc::EFBIG };
    let offset = i64::try_from(offset).map_err(|_| too_large)?;
    let nbytes = i64::try_from(nbytes).map_err(|_| too_large)?;
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: it takes numbers alone.
    retry(call, || unsafe { libc::fallocate(fd.as_raw_fd(), mode, offset, nbytes) })?;
    Ok(())
}

/// What can no longer happen to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seals(i32);

impl Seals {
    /// The size, and the seals themselves, stay as they are.
    pub const SIZE: Self = Self(libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL);

    /// It cannot shrink, so a mapping of it never faults for want of bytes.
    #[must_use]
    pub const fn hold_shrink(self) -> bool {
        self.0 & libc::F_SEAL_SHRINK != 0
    }

    /// It can never become a program: `MFD_NOEXEC_SEAL` was known to the kernel.
    #[must_use]
    pub const fn hold_exec(self) -> bool {
        self.0 & SEAL_EXEC != 0
    }

    /// All seals of `other` are set.
    #[must_use]
    pub const fn contain(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Seals memory.
///
/// # Errors
/// [`OsError`]: EPERM when it is sealed against that.
pub fn seal(fd: BorrowedFd<'_>, seals: Seals) -> Result<(), OsError> {
    // SAFETY: it takes numbers alone.
    retry("fcntl(F_ADD_SEALS)", || unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals.0) })?;
    Ok(())
}

/// The seals of a file; `None` for one that is no memory and knows no seals.
///
/// # Errors
/// [`OsError`].
pub fn seals(fd: BorrowedFd<'_>) -> Result<Option<Seals>, OsError> {
    // SAFETY: it takes numbers alone.
    match retry("fcntl(F_GET_SEALS)", || unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) }) {
        Ok(seals) => Ok(Some(Seals(seals))),
        // The second one is what a descriptor answers that only names a file.
        Err(OsError { errno: libc::EINVAL | libc::EBADF, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Bytes of memory that the machine could still give, by its own estimate; `None` where it does not say.
#[must_use]
pub fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let kibibytes = field("MemAvailable:")?.saturating_add(field("SwapFree:")?);
    Some(kibibytes.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::sys::shm::{FileStatus, status};

    #[test]
    fn sealed_memory_has_its_size_for_ever() {
        let fd = create(c"test", Pages::Ordinary).unwrap();
        reserve(fd.as_fd(), 5 << 20).unwrap();
        assert!(!seals(fd.as_fd()).unwrap().unwrap().hold_shrink());
        seal(fd.as_fd(), Seals::SIZE).unwrap();
        let found = seals(fd.as_fd()).unwrap().unwrap();
        assert!(found.contain(Seals::SIZE) && found.hold_shrink());
        let status = status(fd.as_fd()).unwrap();
        assert_eq!(status, FileStatus { is_regular: true, nbytes: 5 << 20 });
        let file = std::fs::File::from(fd);
        assert_eq!(file.set_len(4096).unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert_eq!(file.set_len(6 << 20).unwrap_err().raw_os_error(), Some(libc::EPERM));
        let refused = seal(file.as_fd(), Seals::SIZE).unwrap_err();
        assert_eq!(refused, OsError { call: "fcntl(F_ADD_SEALS)", errno: libc::EPERM });
    }

    #[test]
    fn a_file_that_is_no_memory_has_no_seals() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(seals(file.as_fd()), Ok(None));
    }

    #[test]
    fn a_kernel_that_does_not_know_the_seal_against_execution_is_asked_again_without_it() {
        let mut asked = Vec::new();
        let result = create_with(5, |flags| {
            asked.push(flags);
            if flags & NOEXEC_SEAL == 0 { Ok(flags) } else { Err(OsError { call: "", errno: libc::EINVAL }) }
        });
        assert_eq!((result, asked), (Ok(5), vec![5 | NOEXEC_SEAL, 5]));
        let other = OsError { call: "memfd_create", errno: libc::EMFILE };
        let mut attempts = 0;
        let result = create_with(5, |_| {
            attempts += 1;
            Err::<(), _>(other)
        });
        assert_eq!((result, attempts), (Err(other), 1));
    }

    #[test]
    fn the_machine_says_what_it_could_give() {
        assert!(available().unwrap() > 1 << 20);
    }
}
