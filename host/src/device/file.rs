//! The memory of a device as a file without a name: its pages are the machine's only where something is allocated.
//!
//! What asks for bytes gets copies of them through the file, so that no pointer to a task's data exists here.

use core::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use bufabi_core::region::Part;

use super::DeviceError;
use crate::pieces::pieces;
use crate::sys::memfd::{self, Pages, Seals};
use crate::sys::{OsError, memory};

/// Bytes written at once to make memory zero.
const ZEROS: usize = 64 << 10;

/// A device's memory, all of it, and which of its addresses are given out.
#[derive(Debug)]
pub(super) struct DeviceFile {
    file: File,
    /// The device address of the file's first byte.
    origin: u64,
    /// What is given out, within the file.
    heap: Part,
}

impl DeviceFile {
    /// A file of `nbytes` bytes, none of which takes memory yet. `name` is for people who read `/proc/<pid>/maps`.
    pub(super) fn new(name: &CStr, nbytes: u64, origin: u64, heap: Part) -> Result<Self, OsError> {
        let file = File::from(memfd::create(name, Pages::Ordinary)?);
        file.set_len(nbytes).map_err(|error| OsError::from_io("ftruncate", &error))?;
        memfd::seal(file.as_fd(), Seals::SIZE)?;
        Ok(Self { file, origin, heap })
    }

    /// What allocations are multiples of: whole pages, so that freeing one gives its memory back to the machine.
    pub(super) fn alignment() -> u64 {
        u64::try_from(memory::page_size()).unwrap_or(4096)
    }

    pub(super) const fn heap(&self) -> Part {
        self.heap
    }

    /// Where in the file bytes lie, if all of them are given out.
    pub(super) fn place(&self, address: u64, nbytes: u64) -> Result<u64, DeviceError> {
        let room =
            address.checked_sub(self.heap.base).and_then(|offset| self.heap.nbytes.checked_sub(offset));
        match room {
            Some(room) if nbytes <= room => Ok(address.saturating_sub(self.origin)),
            Some(_) | None => Err(DeviceError::OutOfRange { address, nbytes }),
        }
    }

    /// Has the machine set memory aside for the pages of an allocation, or say that it has none: later, a store that finds none would
    /// end the process.
    pub(super) fn reserve(&self, address: u64, nbytes: u64) -> Result<(), DeviceError> {
        let offset = self.place(address, nbytes)?;
        Ok(memfd::reserve_from(self.as_fd(), offset, nbytes.next_multiple_of(Self::alignment()))?)
    }

    /// Gives an allocation's pages back to the machine.
    pub(super) fn discard(&self, address: u64, nbytes: u64) -> Result<(), DeviceError> {
        let offset = self.place(address, nbytes)?;
        Ok(memfd::discard(self.as_fd(), offset, nbytes.next_multiple_of(Self::alignment()))?)
    }

    pub(super) fn zero(&self, address: u64, nbytes: u64) -> Result<(), DeviceError> {
        let offset = self.place(address, nbytes)?;
        let zeros = [0; ZEROS];
        for (start, length) in pieces(0..nbytes, ZEROS) {
            self.write_at(offset.saturating_add(start), zeros.get(..length).unwrap_or(&zeros))?;
        }
        Ok(())
    }

    pub(super) fn write(&self, address: u64, from: &[u8]) -> Result<(), DeviceError> {
        self.write_at(self.place(address, bytes(from.len()))?, from)
    }

    pub(super) fn read(&self, address: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        let offset = self.place(address, bytes(out.len()))?;
        let read = self.file.read_exact_at(out, offset);
        read.map_err(|error| DeviceError::Os(OsError::from_io("pread", &error)))
    }

    fn write_at(&self, offset: u64, from: &[u8]) -> Result<(), DeviceError> {
        let written = self.file.write_all_at(from, offset);
        written.map_err(|error| DeviceError::Os(OsError::from_io("pwrite", &error)))
    }

    /// Bytes of memory that it takes now.
    #[cfg(test)]
    pub(super) fn taken(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        self.file.metadata().unwrap().blocks().saturating_mul(512)
    }
}

impl AsFd for DeviceFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A length as a number of bytes.
pub(super) fn bytes(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
