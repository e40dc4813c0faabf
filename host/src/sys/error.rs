//! What the operating system answers when a call fails, and the loop around calls that a signal interrupts.

use core::fmt;
use std::io;

use bufabi_core::Code;

/// A call of the operating system that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OsError {
    /// The call's name.
    pub call: &'static str,
    /// The error number.
    pub errno: i32,
}

impl OsError {
    /// The error number that the last call of this thread left.
    pub(crate) fn last(call: &'static str) -> Self {
        Self::from_io(call, &io::Error::last_os_error())
    }

    /// The error number of an I/O error; one that has none, such as bytes that are no text, counts as EIO.
    pub(crate) fn from_io(call: &'static str, error: &io::Error) -> Self {
        Self { call, errno: error.raw_os_error().unwrap_or(libc::EIO) }
    }

    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self.errno {
            libc::ENOMEM if self.call == "mmap" => Code::NoAddressSpace,
            libc::ENOSPC | libc::ENOMEM | libc::EDQUOT => Code::NoSpace,
            libc::EMFILE | libc::ENFILE => Code::NoFileDescriptor,
            libc::EPERM | libc::EACCES => Code::NotPermitted,
            _ => Code::OsCall,
        }
    }
}

impl fmt::Display for OsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, errno } = *self;
        match meaning(errno) {
            Some((name, meaning)) => write!(f, "{call}: {name}, {meaning}"),
            None => write!(f, "{call}: error number {errno}"),
        }
    }
}

impl std::error::Error for OsError {}

macro_rules! meanings {
    ($($name:ident $meaning:literal;)*) => {
        /// The name and the meaning of the error numbers that these calls know.
        const fn meaning(errno: i32) -> Option<(&'static str, &'static str)> {
            match errno { $(libc::$name => Some((stringify!($name), $meaning)),)* _ => None }
        }
    };
}

meanings! {
    EPERM "operation not permitted";
    ENOENT "no such file or object";
    ESRCH "no such process";
    EINTR "interrupted by a signal";
    EIO "input or output failed";
    ENXIO "no such device or address";
    EBADF "not an open file descriptor";
    ECHILD "no such child process";
    EAGAIN "not now";
    ENOMEM "out of memory or address space";
    EACCES "permission denied";
    EFAULT "bad address";
    EBUSY "in use";
    EEXIST "exists already";
    ENODEV "not supported by this kind of file";
    ENOTDIR "not a directory";
    EISDIR "a directory";
    EINVAL "invalid argument";
    ENFILE "too many open files in the system";
    EMFILE "too many open files in the process";
    EFBIG "too large for a file";
    ENOSPC "no space left";
    EROFS "the file system is read-only";
    EPIPE "nobody reads the other end";
    ENAMETOOLONG "the name is too long";
    ENOSYS "not known to this kernel";
    ELOOP "a symbolic link, or too many";
    EOVERFLOW "too large for its type";
    EOPNOTSUPP "not supported";
    ETIMEDOUT "timed out";
    ECONNREFUSED "nobody listens";
    ECONNRESET "the other side closed the connection";
    EDQUOT "the quota is used up";
}

/// The result of a call that says -1 when it fails, made again as long as a signal interrupts it.
pub(super) fn retry<T: PartialEq + From<i8>>(
    call: &'static str,
    mut attempt: impl FnMut() -> T,
) -> Result<T, OsError> {
    loop {
        let result = attempt();
        if result != T::from(-1) {
            return Ok(result);
        }
        let error = OsError::last(call);
        if error.errno != libc::EINTR {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_call_the_number_and_the_meaning() {
        let error = OsError { call: "mmap", errno: libc::ENOMEM };
        assert_eq!(error.to_string(), "mmap: ENOMEM, out of memory or address space");
        assert_eq!(error.code(), Code::NoAddressSpace);
        assert_eq!(OsError { call: "fork", errno: 4000 }.to_string(), "fork: error number 4000");
    }

    #[test]
    fn an_interrupted_call_is_made_again_and_another_failure_is_not() {
        let set = |errno| {
            // SAFETY: it takes nothing.
            let place = unsafe { libc::__errno_location() };
            // SAFETY: the address of this thread's error number is valid as long as the thread is.
            unsafe { place.write(errno) };
        };
        let mut attempts = 0;
        let result = retry("test", || {
            attempts += 1;
            set(if attempts < 3 { libc::EINTR } else { libc::EBADF });
            -1_i32
        });
        assert_eq!((result, attempts), (Err(OsError { call: "test", errno: libc::EBADF }), 3));
    }
}
