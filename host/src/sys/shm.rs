//! POSIX shared-memory objects: open, reserve, ask the size, unlink.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use bufabi_core::wire::body::ShmName;

use super::error::{OsError, retry};
use super::pieces::in_pieces;

/// The name as the operating system wants it: a slash, at most 32 bytes, a NUL.
struct ObjectPath([u8; 34]);

impl ObjectPath {
    fn new(name: &ShmName) -> Self {
        let mut path = [0; 34];
        let bytes = core::iter::once(&b'/').chain(name.as_str().as_bytes());
        path.iter_mut().zip(bytes).for_each(|(slot, byte)| *slot = *byte);
        Self(path)
    }

    fn as_c_str(&self) -> &CStr {
        // A name has no NUL, so the first one is behind its end.
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

/// How an object is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// Made now, for loads and stores by this user alone; it must not be there already.
    New,
    /// There already, for loads.
    Read,
    /// There already, for loads and stores.
    ReadWrite,
}

/// Opens an object. The descriptor is closed on exec. It never follows a symbolic link, and never waits on a pipe.
///
/// # Errors
/// [`OsError`]: EEXIST, ENOENT, EINVAL for `.` and `..`, ELOOP for a symbolic link, and the usual ones of a file.
pub fn open(name: &ShmName, how: Open) -> Result<OwnedFd, OsError> {
    let path = ObjectPath::new(name);
    let (flags, mode) = match how {
        Open::New => (libc::O_CREAT | libc::O_EXCL | libc::O_RDWR, 0o600),
        Open::Read => (libc::O_RDONLY, 0),
        Open::ReadWrite => (libc::O_RDWR, 0),
    };
    let flags = flags | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    // SAFETY: the path ends in a NUL and outlives the call.
    let fd = retry("shm_open", || unsafe { libc::shm_open(path.as_c_str().as_ptr(), flags, mode) })?;
    // SAFETY: the call just opened it, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Gives an object, which has none, `nbytes` bytes, zero, and reserves the memory for them. Whoever asks for more than
/// [`available`] says keeps the machine busy until it runs out.
///
/// # Errors
/// [`OsError`]: ENOSPC when the file system has no such space, EFBIG, EINVAL for 0. The object has no bytes then.
pub fn reserve(fd: BorrowedFd<'_>, nbytes: u64) -> Result<(), OsError> {
    let call = "posix_fallocate";
    let end = i64::try_from(nbytes).map_err(|_| OsError { call, errno: libc::EFBIG })?;
    let reserved = in_pieces(0, end, |offset, length| {
        // SAFETY: it takes numbers alone.
        match unsafe { libc::posix_fallocate(fd.as_raw_fd(), offset, length) } {
            0 => Ok(()),
            errno => Err(OsError { call, errno }),
        }
    });
    reserved.inspect_err(|_| {
        // The first error is the one to tell.
        // SAFETY: it takes numbers alone.
        let _ = retry("ftruncate", || unsafe { libc::ftruncate(fd.as_raw_fd(), 0) });
    })
}

/// Bytes that an object's file system could still give this user; `None` when it has no limit of its own.
///
/// # Errors
/// [`OsError`].
pub fn available(fd: BorrowedFd<'_>) -> Result<Option<u64>, OsError> {
    let mut status = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `status` is writable and large enough for one answer.
    retry("fstatvfs", || unsafe { libc::fstatvfs(fd.as_raw_fd(), status.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it wrote all of it.
    let status = unsafe { status.assume_init() };
    Ok((status.f_blocks > 0).then(|| status.f_bavail.saturating_mul(status.f_frsize)))
}

/// What kind of file a descriptor is, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// It is a regular file: neither a pipe nor a device nor a directory.
    pub is_regular: bool,
    /// Its size, bytes.
    pub nbytes: u64,
}

/// Asks for a file's kind and size.
///
/// # Errors
/// [`OsError`].
pub fn status(fd: BorrowedFd<'_>) -> Result<FileStatus, OsError> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `status` is writable and large enough for one answer.
    retry("fstat", || unsafe { libc::fstat(fd.as_raw_fd(), status.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it wrote all of it.
    let status = unsafe { status.assume_init() };
    Ok(FileStatus {
        is_regular: status.st_mode & libc::S_IFMT == libc::S_IFREG,
        nbytes: u64::try_from(status.st_size).unwrap_or(0),
    })
}

/// Removes an object's name. Mappings of it stay.
///
/// # Errors
/// [`OsError`]: ENOENT when nobody has that name, EACCES for somebody else's.
pub fn unlink(name: &ShmName) -> Result<(), OsError> {
    let path = ObjectPath::new(name);
    // SAFETY: the path ends in a NUL and outlives the call.
    retry("shm_unlink", || unsafe { libc::shm_unlink(path.as_c_str().as_ptr()) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::shm::ObjectName;
    use crate::sys::testing::Interruptions;

    #[test]
    fn a_timer_that_beats_faster_than_the_whole_is_reserved_does_not_keep_it_from_being_reserved() {
        let name = ObjectName::draw().unwrap().encode();
        let fd = open(&name, Open::New).unwrap();
        unlink(&name).unwrap();
        let interruptions = Interruptions::begin();
        reserve(fd.as_fd(), 100 << 20).unwrap();
        drop(interruptions);
        assert_eq!(status(fd.as_fd()), Ok(FileStatus { is_regular: true, nbytes: 100 << 20 }));
    }

    #[test]
    fn what_is_not_reserved_whole_is_given_back() {
        let name = ObjectName::draw().unwrap().encode();
        let fd = open(&name, Open::New).unwrap();
        unlink(&name).unwrap();
        assert_eq!(reserve(fd.as_fd(), 0).unwrap_err().errno, libc::EINVAL);
        assert_eq!(reserve(fd.as_fd(), 1 << 63).unwrap_err().errno, libc::EFBIG);
        assert!(available(fd.as_fd()).unwrap().is_none_or(|free| free > 0));
        assert_eq!(status(fd.as_fd()), Ok(FileStatus { is_regular: true, nbytes: 0 }));
    }
}
