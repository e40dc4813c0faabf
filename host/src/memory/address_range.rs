//! Addresses that were reserved, and what lies there: nothing, a file that nobody may touch, or memory.
//!
//! The steps are those of a device's driver: reserve, map, set access; unmap, release.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use std::os::fd::BorrowedFd;

use bufabi_core::Access;

use super::mapping::Mapping;
use crate::sys::address_range;
use crate::sys::memory::{self, Protection};
use crate::sys::{OsError, process::current_pid};

/// What lies in a range.
enum Content {
    /// Nothing.
    Nothing,
    /// A file's bytes, which nobody may touch.
    Closed,
    /// Memory.
    Open(ManuallyDrop<Mapping>),
}

/// A range of addresses of this process alone. Dropping it gives it back with whatever lies there, but not in a fork of the
/// process, where it was left out.
pub struct AddressRange {
    base: NonNull<u8>,
    nbytes: usize,
    creator: u32,
    content: Content,
}

// SAFETY: a range belongs to the process, not to a thread.
unsafe impl Send for AddressRange {}
// SAFETY: changing what lies there takes an exclusive borrow; the memory there is reached as any mapping is.
unsafe impl Sync for AddressRange {}

impl AddressRange {
    /// Reserves `nbytes` bytes, a multiple of a page's, at a multiple of `alignment`.
    ///
    /// # Errors
    /// [`OsError`]: ENOMEM when no address space or no further mapping is left.
    pub fn reserve(nbytes: usize, alignment: usize) -> Result<Self, OsError> {
        let base = address_range::reserve(nbytes, alignment)?;
        let range = Self { base, nbytes, creator: current_pid(), content: Content::Nothing };
        range.leave_out_of_forks()?;
        Ok(range)
    }

    /// Puts a file's first bytes there, in place of what lies there. Nobody may touch them yet.
    ///
    /// # Errors
    /// [`OsError`]: ENOMEM when no further mapping or no huge page is left.
    pub fn map(&mut self, fd: BorrowedFd<'_>) -> Result<(), OsError> {
        self.content = Content::Nothing;
        // SAFETY: the range is ours, and the exclusive borrow says that nothing refers to what lies there.
        unsafe { address_range::put(self.base, self.nbytes, fd) }?;
        self.content = Content::Closed;
        // A file that is put there is not left out as the reservation was.
        self.leave_out_of_forks()
    }

    /// Says what may be done with the bytes there. Without a file there, it does nothing.
    ///
    /// # Errors
    /// [`OsError`].
    pub fn set_access(&mut self, access: Access) -> Result<(), OsError> {
        if matches!(self.content, Content::Nothing) {
            return Ok(());
        }
        let protection = if access.writes() { Protection::ReadWrite } else { Protection::Read };
        self.content = Content::Closed;
        // SAFETY: the range is ours, and the exclusive borrow says that nothing refers to what lies there.
        unsafe { address_range::protect(self.base, self.nbytes, protection) }?;
        // SAFETY: what lies there was just made to allow what `access` says, and changing that takes an exclusive borrow of
        // the range, from which the mapping is only lent.
        self.content = Content::Open(unsafe { Mapping::within_range(self.base, self.nbytes, access) });
        Ok(())
    }

    /// Takes out what lies there; the addresses stay reserved.
    ///
    /// # Errors
    /// [`OsError`]: ENOMEM; it is still there then.
    pub fn unmap(&mut self) -> Result<(), OsError> {
        // SAFETY: the range is ours, and the exclusive borrow says that nothing refers to what lies there.
        unsafe { address_range::take_out(self.base, self.nbytes) }?;
        self.content = Content::Nothing;
        self.leave_out_of_forks()
    }

    /// Gives the addresses back.
    ///
    /// # Errors
    /// [`OsError`], and the range for another try.
    pub fn release(self) -> Result<(), (Self, OsError)> {
        let range = ManuallyDrop::new(self);
        match range.give_back() {
            Ok(()) => Ok(()),
            Err(error) => Err((ManuallyDrop::into_inner(range), error)),
        }
    }

    /// Nothing lies there.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        matches!(self.content, Content::Nothing)
    }

    /// The memory there; `None` when there is nothing, or nobody may touch it.
    #[must_use]
    pub fn memory(&self) -> Option<&Mapping> {
        match &self.content {
            Content::Open(mapping) => Some(mapping),
            Content::Nothing | Content::Closed => None,
        }
    }

    /// The memory there as a mapping of its first `nbytes` bytes, which gives the whole range back when it is unmapped.
    ///
    /// # Errors
    /// The range, when there is nothing or nobody may touch it.
    pub fn into_mapping(self, nbytes: usize) -> Result<Mapping, Self> {
        let Some(access) = self.memory().map(Mapping::access) else { return Err(self) };
        let range = ManuallyDrop::new(self);
        // SAFETY: memory lies in the range for what `access` says, and the range, which is gone now, neither unmaps nor lends it.
        Ok(unsafe { Mapping::of_range(range.base, range.nbytes, nbytes, access) })
    }

    /// Its first address.
    #[must_use]
    pub fn address(&self) -> u64 {
        u64::try_from(self.base.addr().get()).unwrap_or(u64::MAX)
    }

    /// Its size, bytes.
    #[must_use]
    pub fn nbytes(&self) -> u64 {
        u64::try_from(self.nbytes).unwrap_or(u64::MAX)
    }

    fn leave_out_of_forks(&self) -> Result<(), OsError> {
        // SAFETY: the range is ours. A process forked later that reaches for it dies of that, and corrupts nothing.
        unsafe { memory::leave_out_of_forks(self.base, self.nbytes) }
    }

    fn give_back(&self) -> Result<(), OsError> {
        if self.creator != current_pid() {
            return Ok(());
        }
        // SAFETY: the range is ours, and whoever calls this uses it no more.
        unsafe { memory::unmap(self.base, self.nbytes) }
    }
}

impl Drop for AddressRange {
    fn drop(&mut self) {
        // If it fails, the addresses stay taken, and nothing refers to them.
        let _ = self.give_back();
    }
}

impl fmt::Debug for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let content = match &self.content {
            Content::Nothing => "nothing",
            Content::Closed => "closed",
            Content::Open(_) => "open",
        };
        f.debug_struct("AddressRange")
            .field("base", &self.base)
            .field("nbytes", &self.nbytes)
            .field("content", &content)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::sys::memfd::{self, Pages};

    #[test]
    fn two_ranges_show_one_file_and_access_comes_and_goes() {
        let fd = memfd::create(c"two-ranges", Pages::Ordinary).unwrap();
        memfd::reserve(fd.as_fd(), 1 << 21).unwrap();
        let mut writer = AddressRange::reserve(1 << 21, 1 << 21).unwrap();
        let mut reader = AddressRange::reserve(1 << 21, 1 << 21).unwrap();
        assert!(writer.is_empty() && writer.memory().is_none());
        writer.set_access(Access::ReadWrite).unwrap();
        assert!(writer.memory().is_none(), "without a file there is nothing to reach");
        for range in [&mut writer, &mut reader] {
            range.map(fd.as_fd()).unwrap();
            assert!(!range.is_empty() && range.memory().is_none());
        }
        writer.set_access(Access::ReadWrite).unwrap();
        reader.set_access(Access::Read).unwrap();
        drop(fd);
        writer.memory().unwrap().write(4095, b"both").unwrap();
        let mut found = [0; 4];
        reader.memory().unwrap().read(4095, &mut found).unwrap();
        assert_eq!(&found, b"both");
        assert!(reader.memory().unwrap().write(0, b"x").is_err());
        writer.unmap().unwrap();
        assert!(writer.is_empty() && writer.memory().is_none());
        writer.release().unwrap();
        reader.memory().unwrap().read(4095, &mut found).unwrap();
        assert_eq!(&found, b"both", "a mapping keeps the memory");
        // By the file's name: another thread may be given the addresses meanwhile.
        let is_there = || std::fs::read_to_string("/proc/self/maps").unwrap().contains("/memfd:two-ranges");
        let mapping = reader.into_mapping(5000).unwrap();
        assert_eq!((mapping.nbytes(), mapping.access()), (5000, Access::Read));
        assert!(is_there());
        mapping.unmap().unwrap();
        assert!(!is_there(), "all of it, and not only the bytes that could be reached");
        let empty = AddressRange::reserve(1 << 21, 1 << 21).unwrap();
        assert!(empty.into_mapping(5000).is_err());
    }
}
