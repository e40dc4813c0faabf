//! The machine's memory as this process reaches it: a file without a name, of which the control part alone is mapped.
//!
//! Task data goes through the file, so that no pointer to it exists here. What was written by `pwrite` is in memory when the call
//! returns, and the counter that tells the machine of it is stored behind that (release); a machine's store of a counter is loaded
//! with acquire before its data is read.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bufabi_core::region::{AccessError, Part, Place, RegionAccess, RegionView};
use bufabi_core::{Access, Code};
use bufabi_device::mailbox::{FAULT, HEAP, IS_FAULTED, MEMORY_BASE, PROGRESS, RawFault, START, Start};
use zerocopy::{FromZeros, IntoBytes};

use super::options::QemuError;
use crate::device::file::{DeviceFile, bytes};
use crate::memory::Mapping;
use crate::sys::memfd;
use crate::sys::random::random_bytes;

/// Bytes of memory that a machine can have, at most.
const MAX_NBYTES: u64 = 4 << 30;

/// A machine's memory.
#[derive(Debug)]
pub(super) struct GuestMemory {
    file: DeviceFile,
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
        let file = DeviceFile::new(c"bufabi-device", nbytes, MEMORY_BASE, start.heap)?;
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

    /// Task data: all that lies in the heap.
    pub(super) const fn file(&self) -> &DeviceFile {
        &self.file
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
