//! The machine's memory as this process reaches it: a file without a name, of which the control part alone is mapped.
//!
//! Task data goes through the file, so that no pointer to it exists here. What was written by `pwrite` is in memory when the call
//! returns, and the counter that tells the machine of it is stored behind that (release); a machine's store of a counter is loaded
//! with acquire before its data is read.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bufabi_core::region::{AccessError, Part, Place, RegionAccess, RegionView};
use bufabi_core::{Access, Code};
use bufabi_device::mailbox::{FAULT, HEAP, IS_FAULTED, MEMORY_BASE, PROGRESS, RawFault, START, Start};
use zerocopy::{FromZeros, IntoBytes};

use super::options::QemuError;
use crate::device::DeviceError;
use crate::memory::Mapping;
use crate::sys::memfd::{self, Pages, Seals};
use crate::sys::random::random_bytes;
use crate::sys::{OsError, memory as pages};

/// Bytes written at once to make memory zero.
const ZEROS: usize = 64 << 10;
/// Bytes of memory that a machine can have, at most.
const MAX_NBYTES: u64 = 4 << 30;

/// A machine's memory.
#[derive(Debug)]
pub(super) struct GuestMemory {
    file: File,
    /// Everything before the heap.
    control: Arc<Mapping>,
    start: Start,
}

impl GuestMemory {
    /// Memory of that size, its start record written.
    pub(super) fn new(nbytes: u64) -> Result<Self, QemuError> {
        let size = || QemuError::Memory { nbytes };
        if nbytes > MAX_NBYTES || !nbytes.is_multiple_of(1 << 20) {
            return Err(size());
        }
        let (first, second) = (random_bytes()?, random_bytes()?);
        let seed = [u64::from_le_bytes(first), u64::from_le_bytes(second)];
        let start = Start::for_memory(nbytes, seed).ok_or_else(size)?;
        let file = File::from(memfd::create(c"bufabi-device", Pages::Ordinary)?);
        file.set_len(nbytes).map_err(|error| OsError::from_io("ftruncate", &error))?;
        memfd::seal(file.as_fd(), Seals::SIZE)?;
        let control_bytes = HEAP.saturating_sub(MEMORY_BASE);
        // The machine has these pages now, or says so: later, a store that finds none would end the process.
        memfd::reserve_from(file.as_fd(), 0, control_bytes)?;
        let length = usize::try_from(control_bytes).unwrap_or(usize::MAX);
        let control = Mapping::of_file(file.as_fd(), length, Access::ReadWrite)?;
        control.leave_out_of_forks()?;
        let record = start.encode();
        control.write_control(control_offset(START), record.as_bytes()).map_err(|_| size())?;
        Ok(Self { file, control: Arc::new(control), start })
    }

    /// What allocations are multiples of: whole pages, so that freeing one gives its memory back to the machine.
    pub(super) fn alignment() -> u64 {
        u64::try_from(pages::page_size()).unwrap_or(4096)
    }

    pub(super) const fn heap(&self) -> Part {
        self.start.heap
    }

    pub(super) const fn start(&self) -> &Start {
        &self.start
    }

    /// The queue, for this side's end of it.
    pub(super) fn queue(&self) -> QueueMemory {
        QueueMemory { control: Arc::clone(&self.control), region: self.start.queue.region() }
    }

    /// How far the machine has come.
    pub(super) fn progress(&self) -> u32 {
        let word = self.control.atomic_u32(control_offset(PROGRESS));
        word.map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Why the machine ended, and what it says of that, if it says anything.
    pub(super) fn fault(&self) -> Option<(u32, RawFault)> {
        let kind = self.control.atomic_u32(control_offset(IS_FAULTED))?.load(Ordering::Acquire);
        let mut fault = RawFault::new_zeroed();
        self.control.read_control(control_offset(FAULT), fault.as_mut_bytes()).ok()?;
        (kind != 0).then_some((kind, fault))
    }

    /// Where in the file bytes lie, if all of them are heap.
    fn place(&self, address: u64, nbytes: u64) -> Result<u64, DeviceError> {
        let heap = self.start.heap;
        let room = address.checked_sub(heap.base).and_then(|offset| heap.nbytes.checked_sub(offset));
        match room {
            Some(room) if nbytes <= room => Ok(address.saturating_sub(MEMORY_BASE)),
            Some(_) | None => Err(DeviceError::OutOfRange { address, nbytes }),
        }
    }

    /// Has the operating system set memory aside for the pages of an allocation.
    pub(super) fn reserve(&self, address: u64, nbytes: u64) -> Result<(), DeviceError> {
        let offset = self.place(address, nbytes)?;
        Ok(memfd::reserve_from(self.file.as_fd(), offset, nbytes.next_multiple_of(Self::alignment()))?)
    }

    /// Gives an allocation's pages back.
    pub(super) fn discard(&self, address: u64, nbytes: u64) -> Result<(), DeviceError> {
        let offset = self.place(address, nbytes)?;
        Ok(memfd::discard(self.file.as_fd(), offset, nbytes.next_multiple_of(Self::alignment()))?)
    }

    pub(super) fn zero(&self, address: u64, nbytes: u64) -> Result<(), DeviceError> {
        let offset = self.place(address, nbytes)?;
        let zeros = [0; ZEROS];
        let mut done = 0_u64;
        while done < nbytes {
            let left = usize::try_from(nbytes.saturating_sub(done)).unwrap_or(usize::MAX);
            let piece = zeros.get(..left.min(ZEROS)).unwrap_or(&zeros);
            self.write_at(offset.saturating_add(done), piece)?;
            done = done.saturating_add(bytes(piece.len()));
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
}

impl AsFd for GuestMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn bytes(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Where an address of the control part lies in its mapping.
fn control_offset(address: u64) -> usize {
    address.checked_sub(MEMORY_BASE).and_then(|offset| usize::try_from(offset).ok()).unwrap_or(usize::MAX)
}

/// Outside a part. The core asks for nothing such.
const OUTSIDE: AccessError = AccessError::new(Code::RegionRange, 0);

/// The queue's two parts in the mapping.
#[derive(Debug)]
pub(super) struct QueueMemory {
    control: Arc<Mapping>,
    region: RegionView,
}

impl QueueMemory {
    /// Where bytes of a part lie in the mapping.
    fn place(part: Part, offset: u64, nbytes: u64) -> Result<usize, AccessError> {
        let room = part.nbytes.checked_sub(offset).ok_or(OUTSIDE)?;
        let address = part.base.checked_add(offset).ok_or(OUTSIDE)?;
        if nbytes <= room { Ok(control_offset(address)) } else { Err(OUTSIDE) }
    }
}

impl RegionAccess for QueueMemory {
    fn payload_bytes(&self) -> u64 {
        self.region.payload().nbytes
    }

    fn counter_bytes(&self) -> u64 {
        self.region.counter().nbytes
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), AccessError> {
        let place = Self::place(self.region.payload(), offset, bytes(out.len()))?;
        self.control.read_control(place, out).map_err(|_| OUTSIDE)
    }

    fn write(&self, offset: u64, from: &[u8]) -> Result<(), AccessError> {
        let place = Self::place(self.region.payload(), offset, bytes(from.len()))?;
        self.control.write_control(place, from).map_err(|_| OUTSIDE)
    }

    fn load(&self, offset: u64) -> Result<u32, AccessError> {
        let place = Self::place(self.region.counter(), offset, 4)?;
        Ok(self.control.atomic_u32(place).ok_or(OUTSIDE)?.load(Ordering::Acquire))
    }

    fn store(&self, offset: u64, value: u32) -> Result<(), AccessError> {
        let place = Self::place(self.region.counter(), offset, 4)?;
        self.control.atomic_u32(place).ok_or(OUTSIDE)?.store(value, Ordering::Release);
        Ok(())
    }

    fn publish(&self, _: Place) -> Result<(), AccessError> {
        Ok(())
    }

    fn observe(&self, _: Place) -> Result<(), AccessError> {
        Ok(())
    }
}
