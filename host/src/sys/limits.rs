//! What this process may have at most, and how large a file system is.

use std::ffi::CStr;
use std::mem::MaybeUninit;

use super::error::{OsError, retry};
use super::memory::page_size;

/// Something of which a process may have only so much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Open file descriptors.
    FileDescriptors,
    /// Bytes of address space.
    AddressSpace,
    /// Bytes of memory that stays where it is.
    LockedMemory,
    /// Bytes of a file, shared-memory objects among them.
    FileSize,
    /// Processes of the user.
    Processes,
}

/// How much of a resource a process may have; `None` is as much as there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What holds now.
    pub now: Option<u64>,
    /// Up to where the process may raise it itself.
    pub highest: Option<u64>,
}

/// How much of a resource this process may have.
///
/// # Errors
/// [`OsError`].
pub fn limit(resource: Resource) -> Result<Limit, OsError> {
    let resource = match resource {
        Resource::FileDescriptors => libc::RLIMIT_NOFILE,
        Resource::AddressSpace => libc::RLIMIT_AS,
        Resource::LockedMemory => libc::RLIMIT_MEMLOCK,
        Resource::FileSize => libc::RLIMIT_FSIZE,
        Resource::Processes => libc::RLIMIT_NPROC,
    };
    let mut limit = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: `limit` is writable and large enough for one answer.
    retry("getrlimit", || unsafe { libc::getrlimit(resource, limit.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it wrote all of it.
    let limit = unsafe { limit.assume_init() };
    let finite = |number: u64| (number != libc::RLIM_INFINITY).then_some(number);
    Ok(Limit { now: finite(limit.rlim_cur), highest: finite(limit.rlim_max) })
}

/// Bytes of address space that this process's limit leaves it; `None` where there is no limit, or it is not known.
#[must_use]
pub fn address_space_left() -> Option<u64> {
    let limit = limit(Resource::AddressSpace).ok()?.now?;
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    let taken = pages.saturating_mul(u64::try_from(page_size()).ok()?);
    Some(limit.saturating_sub(taken))
}

/// The size of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Bytes; 0 for one that has no limit of its own.
    pub nbytes: u64,
    /// Bytes that this user could still have.
    pub free: u64,
}

/// The file system on which a path lies.
///
/// # Errors
/// [`OsError`]: ENOENT, EACCES.
pub fn file_system(path: &CStr) -> Result<FileSystem, OsError> {
    let mut status = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends in a NUL and outlives the call; `status` is writable and large enough for one answer.
    retry("statvfs", || unsafe { libc::statvfs(path.as_ptr(), status.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it wrote all of it.
    let status = unsafe { status.assume_init() };
    Ok(FileSystem {
        nbytes: status.f_blocks.saturating_mul(status.f_frsize),
        free: status.f_bavail.saturating_mul(status.f_frsize),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_that_the_kernel_lists() {
        let listed = std::fs::read_to_string("/proc/self/limits").unwrap();
        for (resource, name) in [
            (Resource::FileDescriptors, "Max open files"),
            (Resource::AddressSpace, "Max address space"),
            (Resource::LockedMemory, "Max locked memory"),
            (Resource::FileSize, "Max file size"),
            (Resource::Processes, "Max processes"),
        ] {
            let line = listed.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            let mut words = line.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
            let expected = Limit { now: words.next().unwrap(), highest: words.next().unwrap() };
            assert_eq!(limit(resource), Ok(expected), "{name}");
        }
    }

    #[test]
    fn a_file_system_has_a_size_and_one_that_is_not_there_is_an_error() {
        let shared = file_system(c"/dev/shm").unwrap();
        assert!(shared.free <= shared.nbytes && shared.nbytes > 0);
        let error = file_system(c"/no/such/folder").unwrap_err();
        assert_eq!(error, OsError { call: "statvfs", errno: libc::ENOENT });
    }
}
