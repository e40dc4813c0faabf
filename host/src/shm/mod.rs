//! POSIX shared-memory objects: made by an owner, opened by a consumer, swept after a crash.

pub mod error;
pub mod name;
pub mod sweep;

use std::os::fd::AsFd;

use bufabi_core::Access;
use bufabi_core::wire::body::ShmName;

pub use error::ShmError;
pub use name::ObjectName;

use crate::memory::Mapping;
use crate::sys::memfd;
use crate::sys::process::current_pid;
use crate::sys::shm::{self as os, Open};

/// Names to draw before giving up: each time, one of 2^48 would have to be taken.
const DRAWS: usize = 8;

/// The name of an object that this process made. Dropping it removes the name, but not in a fork of the process.
#[derive(Debug)]
pub struct OwnedName {
    name: ShmName,
    creator: u32,
    is_linked: bool,
}

impl OwnedName {
    /// The object's name.
    #[must_use]
    pub const fn name(&self) -> ShmName {
        self.name
    }

    /// Removes the name, once. That nobody has it any more is success, and a fork of its maker does nothing.
    ///
    /// # Errors
    /// [`ShmError`]; it can be tried again.
    pub fn unlink(&mut self) -> Result<(), ShmError> {
        if !self.is_linked || self.creator != current_pid() {
            return Ok(());
        }
        match os::unlink(&self.name) {
            Ok(()) => {}
            Err(error) if error.errno == libc::ENOENT => {}
            Err(error) => return Err(ShmError::of_call(self.name, 0, error)),
        }
        self.is_linked = false;
        Ok(())
    }
}

impl Drop for OwnedName {
    fn drop(&mut self) {
        // What cannot be removed stays for a sweep.
        let _ = self.unlink();
    }
}

/// Makes an object of `nbytes` bytes, zero and reserved, under a new name, and maps it for loads and stores.
///
/// # Errors
/// [`ShmError`]; nothing is left behind then.
pub fn create(nbytes: u64) -> Result<(OwnedName, Mapping), ShmError> {
    let mut draws = DRAWS;
    loop {
        let name = ObjectName::draw().map_err(ShmError::Os)?.encode();
        match create_named(name, nbytes) {
            Err(ShmError::NameTaken { .. }) if draws > 0 => draws = draws.saturating_sub(1),
            result => return result,
        }
    }
}

/// As [`create`], under a name that the caller chose. An object that is there already is left alone.
///
/// # Errors
/// [`ShmError`]; nothing is left behind then.
pub fn create_named(name: ShmName, nbytes: u64) -> Result<(OwnedName, Mapping), ShmError> {
    let length = length(nbytes)?;
    check_name(name)?;
    let failed = |error| ShmError::of_call(name, nbytes, error);
    let fd = os::open(&name, Open::New).map_err(|error| match error.errno {
        // It is the folder that is not there.
        libc::ENOENT => ShmError::Os(error),
        _ => failed(error),
    })?;
    // From here on the name is removed when something fails.
    let owned = OwnedName { name, creator: current_pid(), is_linked: true };
    // Refused before anything is done: filling the machine first would take its time, and other processes' memory.
    match os::available(fd.as_fd()).map_err(failed)?.or_else(memfd::available) {
        Some(available) if available < nbytes => {
            return Err(ShmError::NoSpace { nbytes, available: Some(available) });
        }
        Some(_) | None => os::reserve(fd.as_fd(), nbytes).map_err(failed)?,
    }
    let mapping = Mapping::of_file(fd.as_fd(), length, Access::ReadWrite).map_err(failed)?;
    Ok((owned, mapping))
}

/// Opens the object `name` and maps its first `nbytes` bytes, for stores only if `access` writes.
///
/// # Errors
/// [`ShmError`].
pub fn open(name: ShmName, nbytes: u64, access: Access) -> Result<Mapping, ShmError> {
    let length = length(nbytes)?;
    check_name(name)?;
    let failed = |error| ShmError::of_call(name, nbytes, error);
    let how = if access.writes() { Open::ReadWrite } else { Open::Read };
    let fd = os::open(&name, how).map_err(failed)?;
    let status = os::status(fd.as_fd()).map_err(failed)?;
    if !status.is_regular {
        return Err(ShmError::NotAnObject { name });
    }
    if status.nbytes < nbytes {
        return Err(ShmError::TooSmall { name, nbytes, found: status.nbytes });
    }
    Mapping::of_file(fd.as_fd(), length, access).map_err(failed)
}

/// The two names that mean folders are legal on the wire; what opening them gives differs from one system to the next.
fn check_name(name: ShmName) -> Result<(), ShmError> {
    if matches!(name.as_str(), "." | "..") { Err(ShmError::NameInvalid { name }) } else { Ok(()) }
}

/// A size that a mapping can have.
fn length(nbytes: u64) -> Result<usize, ShmError> {
    match isize::try_from(nbytes) {
        Ok(0) => Err(ShmError::NbytesZero),
        Ok(length) => Ok(length.unsigned_abs()),
        Err(_) => Err(ShmError::NbytesTooLarge { nbytes }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bufabi_core::Code;

    /// A name that a test holds until it ends.
    fn drawn() -> ShmName {
        ObjectName::draw().unwrap().encode()
    }

    #[test]
    fn an_object_is_zero_shared_and_gone_with_its_owner() {
        let (owned, mapping) = create(5000).unwrap();
        let name = owned.name();
        let seen = open(name, 5000, Access::Read).unwrap();
        assert_eq!((seen.nbytes(), seen.access()), (5000, Access::Read));
        let mut byte = [9];
        seen.read(4999, &mut byte).unwrap();
        assert_eq!(byte, [0]);
        mapping.write(4999, &[7]).unwrap();
        seen.read(4999, &mut byte).unwrap();
        assert_eq!(byte, [7]);
        assert!(seen.write(0, &[1]).is_err());
        drop(owned);
        assert_eq!(open(name, 1, Access::Read).unwrap_err(), ShmError::NotFound { name });
        seen.read(4999, &mut byte).unwrap();
        assert_eq!(byte, [7]);
    }

    #[test]
    fn a_name_that_is_taken_is_left_alone() {
        let (owned, mapping) = create(8).unwrap();
        mapping.write(0, b"occupied").unwrap();
        let name = owned.name();
        assert_eq!(create_named(name, 16).unwrap_err(), ShmError::NameTaken { name });
        let mut bytes = [0; 8];
        open(name, 8, Access::Read).unwrap().read(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"occupied");
    }

    #[test]
    fn an_object_that_is_too_small_is_refused_with_both_sizes() {
        let (owned, _mapping) = create(4096).unwrap();
        let name = owned.name();
        let error = open(name, 4097, Access::ReadWrite).unwrap_err();
        assert_eq!(error, ShmError::TooSmall { name, nbytes: 4097, found: 4096 });
        assert_eq!(error.code(), Code::ShmTooSmall);
        assert!(open(name, 100, Access::ReadWrite).is_ok());
    }

    #[test]
    fn names_that_the_operating_system_refuses_are_named() {
        for name in [".", ".."] {
            let name = ShmName::new(name).unwrap();
            assert_eq!(open(name, 1, Access::Read).unwrap_err(), ShmError::NameInvalid { name });
            assert_eq!(create_named(name, 1).unwrap_err(), ShmError::NameInvalid { name });
        }
    }

    #[test]
    fn a_link_or_a_pipe_under_a_name_is_no_object_and_stops_nobody() {
        let name = drawn();
        let path = format!("/dev/shm/{name}");
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        let (read, write) = (open(name, 1, Access::Read), open(name, 1, Access::ReadWrite));
        let made = create_named(name, 1);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read.unwrap_err(), ShmError::NotAnObject { name });
        assert_eq!(write.unwrap_err(), ShmError::NotAnObject { name });
        assert_eq!(made.unwrap_err(), ShmError::NameTaken { name });
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (read, write) = (open(name, 1, Access::Read), open(name, 1, Access::ReadWrite));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read.unwrap_err(), ShmError::NotAnObject { name });
        assert_eq!(write.unwrap_err(), ShmError::NotAnObject { name });
    }

    #[test]
    fn sizes_out_of_range_leave_nothing_behind() {
        let name = drawn();
        assert_eq!(create_named(name, 0).unwrap_err(), ShmError::NbytesZero);
        let nbytes = u64::MAX;
        assert_eq!(create_named(name, nbytes).unwrap_err(), ShmError::NbytesTooLarge { nbytes });
        let nbytes = 1 << 62;
        let error = create_named(name, nbytes).unwrap_err();
        assert!(matches!(error, ShmError::NoSpace { .. } | ShmError::FileTooLarge { .. }), "{error}");
        assert_eq!(open(name, 1, Access::Read).unwrap_err(), ShmError::NotFound { name });
    }

    #[test]
    fn a_name_that_somebody_else_removed_counts_as_removed() {
        let (mut owned, _mapping) = create(1).unwrap();
        os::unlink(&owned.name()).unwrap();
        assert_eq!(owned.unlink(), Ok(()));
    }
}
