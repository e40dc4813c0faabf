//! A chip in software: memory of its own, at addresses that no process of this machine can follow, and kernels that reach it there.
//!
//! The memory has a file and no name. What asks for bytes gets copies of them through the file; only [`launch`](Device::launch)
//! sees the one mapping of it.

use core::fmt;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use bufabi_core::wire::chip_args::{MAX_SCALARS, MAX_TENSORS};
use bufabi_core::{Access, ChipTensor, View};

use super::{Device, DeviceError, Launch, LaunchError, Resolved};
use crate::memory::{Mapping, Operand};
use crate::space::Space;
use crate::sys::memfd::{self, Pages, Seals};
use crate::sys::{OsError, memory};
use crate::worker::Kernels;

/// Where the addresses of simulated chips start. No user memory of any machine lies there: the top byte is not canonical, and where
/// machines leave that byte to programs, bit 55 says that an address is the kernel's.
const BASE: u64 = 0xd1de_0000_0000_0000;
/// Chips lie so far apart, so an address of one is none of another's, for 256 chips.
const CHIP_SHIFT: u32 = 40;
/// Bytes of a chip's memory, at most.
const MAX_NBYTES: u64 = 1 << CHIP_SHIFT;
/// Bytes written at once to make memory zero.
const ZEROS: usize = 64 << 10;

/// What a simulated chip is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulatedChipOptions {
    /// Its number.
    pub device_id: i32,
    /// Bytes of its memory, up to 1 TiB, rounded up to pages. The machine's own memory stands behind what is allocated, and nothing else.
    pub nbytes: u64,
    /// Its kernels reach this process's mappings, as those of a chip with host access do.
    pub reaches_host_memory: bool,
}

/// A chip in software, which runs `kernels`.
pub struct SimulatedChip<'k, K: ?Sized> {
    kernels: &'k K,
    options: SimulatedChipOptions,
    base: u64,
    nbytes: u64,
    /// Made when some of it is allocated for the first time.
    memory: OnceLock<Memory>,
    space: Mutex<Space>,
}

/// A chip's memory.
struct Memory {
    file: File,
    /// The same, for kernels alone.
    mapping: Mapping,
}

impl Memory {
    fn new(nbytes: u64) -> Result<Self, DeviceError> {
        let file = File::from(memfd::create(c"bufabi-chip", Pages::Ordinary)?);
        file.set_len(nbytes).map_err(|error| OsError::from_io("ftruncate", &error))?;
        memfd::seal(file.as_fd(), Seals::SIZE)?;
        // A machine of 64 bits counts as many.
        let length = usize::try_from(nbytes).unwrap_or(usize::MAX);
        let mapping = Mapping::of_file(file.as_fd(), length, Access::ReadWrite)?;
        mapping.leave_out_of_forks()?;
        Ok(Self { file, mapping })
    }
}

impl<'k, K: Kernels + ?Sized> SimulatedChip<'k, K> {
    /// A chip whose memory nobody has yet.
    ///
    /// # Errors
    /// [`DeviceError::OutOfRange`] for more memory than a chip can have, or none; [`DeviceError::Os`].
    pub fn new(kernels: &'k K, options: SimulatedChipOptions) -> Result<Self, DeviceError> {
        let [number, ..] = options.device_id.to_le_bytes();
        let base = BASE | u64::from(number) << CHIP_SHIFT;
        let out_of_range = DeviceError::OutOfRange { address: base, nbytes: options.nbytes };
        if !(1..=MAX_NBYTES).contains(&options.nbytes) {
            return Err(out_of_range);
        }
        let alignment = alignment();
        let nbytes = options.nbytes.next_multiple_of(alignment);
        let space = Mutex::new(Space::new(base, nbytes, alignment).ok_or(out_of_range)?);
        Ok(Self { kernels, options, base, nbytes, memory: OnceLock::new(), space })
    }

    fn memory(&self) -> Result<&Memory, DeviceError> {
        if let Some(memory) = self.memory.get() {
            return Ok(memory);
        }
        let made = Memory::new(self.nbytes)?;
        Ok(self.memory.get_or_init(|| made))
    }

    fn space(&self) -> MutexGuard<'_, Space> {
        // Every step on it is whole, so a panic elsewhere leaves it as it should be.
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where in the file bytes lie, if all of them are the chip's.
    fn place(&self, address: u64, nbytes: u64) -> Result<u64, DeviceError> {
        let offset = address.checked_sub(self.base);
        let room = offset.and_then(|offset| self.nbytes.checked_sub(offset));
        match (offset, room) {
            (Some(offset), Some(room)) if nbytes <= room => Ok(offset),
            _ => Err(DeviceError::OutOfRange { address, nbytes }),
        }
    }

    /// The operand that a chip's tensor describes, if all of it lies in one backing of the task. `hint` is the one to look at first.
    fn operand<'a>(
        &'a self,
        tensor: &ChipTensor,
        backings: &'a [Resolved],
        hint: usize,
    ) -> Option<Operand<'a>> {
        let (address, size) = (tensor.addr.get(), tensor.size.get());
        let holds = |backing: &&Resolved| backing.offset_of(address, size).is_some();
        let backing = backings.get(hint).filter(holds).or_else(|| backings.iter().find(holds))?;
        let (shapes, strides) = (tensor.shapes.map(|slot| slot.get()), tensor.strides.map(|slot| slot.get()));
        let view =
            View::from_slots(0, tensor.ndims.get(), tensor.element_type()?, shapes, strides, size).ok()?;
        match backing {
            Resolved::Host(import) if self.options.reaches_host_memory => {
                let start = usize::try_from(address.checked_sub(import.address())?).ok()?;
                import.operand_from(start, view).ok()
            }
            Resolved::Host(_) => None,
            Resolved::Device(range) => {
                let start = usize::try_from(self.place(address, size).ok()?).ok()?;
                let mapping = &self.memory.get()?.mapping;
                Some(mapping.operand_from(start, view).ok()?.limited_to(range.access))
            }
        }
    }
}

/// Allocations are whole pages, so that freeing one gives its memory back to the machine.
fn alignment() -> u64 {
    u64::try_from(memory::page_size()).unwrap_or(4096)
}

fn bytes(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

impl<K: Kernels + ?Sized> Device for SimulatedChip<'_, K> {
    fn alignment(&self) -> u64 {
        alignment()
    }

    fn reaches_host_memory(&self) -> bool {
        self.options.reaches_host_memory
    }

    fn needs(&self, kernel: u32, argument: usize, count: usize) -> Option<Access> {
        self.kernels.needs(kernel, argument, count)
    }

    /// Memory that was not used before is zero, and so is what comes back: a freed page is another one later.
    fn malloc(&self, nbytes: u64) -> Result<u64, DeviceError> {
        if let Some(available) = memfd::available()
            && nbytes.min(self.options.nbytes) > available
        {
            return Err(DeviceError::NoMemory { requested: nbytes, available });
        }
        let mut space = self.space();
        let address = space.take(nbytes)?;
        let reserved = self.place(address, nbytes).and_then(|offset| {
            // The machine has it now, or says so: later, a store that finds none would end the process.
            let nbytes = nbytes.next_multiple_of(alignment());
            Ok(memfd::reserve_from(self.memory()?.file.as_fd(), offset, nbytes)?)
        });
        if let Err(error) = reserved {
            let _ = self.discard(address, nbytes);
            space.give_back(address)?;
            return Err(error);
        }
        Ok(address)
    }

    fn free(&self, address: u64) -> Result<(), DeviceError> {
        let mut space = self.space();
        let nbytes = space.nbytes_of(address)?;
        // What cannot be given back to the machine is not given out again either.
        self.discard(address, nbytes)?;
        space.give_back(address)?;
        Ok(())
    }

    fn zero(&self, address: u64, nbytes: u64) -> Result<(), DeviceError> {
        let offset = self.place(address, nbytes)?;
        let zeros = [0; ZEROS];
        let mut done = 0_u64;
        while done < nbytes {
            let left = usize::try_from(nbytes.saturating_sub(done)).unwrap_or(usize::MAX);
            let piece = zeros.get(..left.min(ZEROS)).unwrap_or(&zeros);
            self.write(offset.saturating_add(done), piece)?;
            done = done.saturating_add(bytes(piece.len()));
        }
        Ok(())
    }

    fn copy_to(&self, address: u64, from: &[u8]) -> Result<(), DeviceError> {
        let offset = self.place(address, bytes(from.len()))?;
        self.write(offset, from)
    }

    fn copy_from(&self, address: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        let offset = self.place(address, bytes(out.len()))?;
        let read = self.memory()?.file.read_exact_at(out, offset);
        read.map_err(|error| DeviceError::Os(OsError::from_io("pread", &error)))
    }

    fn launch(&self, task: &Launch<'_>) -> Result<(), LaunchError> {
        let mut operands = heapless::Vec::<Operand<'_>, MAX_TENSORS>::new();
        for (index, tensor) in task.arguments.tensors().iter().enumerate() {
            let not_mapped = LaunchError::NotMapped { argument: index, address: tensor.addr.get() };
            let operand = self.operand(tensor, task.backings, index).ok_or(not_mapped)?;
            operands.push(operand).map_err(|_| not_mapped)?;
        }
        let scalars: heapless::Vec<u64, MAX_SCALARS> =
            task.arguments.scalars().iter().map(|scalar| scalar.get()).collect();
        self.kernels.run(task.kernel, &operands, &scalars).map_err(LaunchError::Kernel)
    }
}

impl<K: Kernels + ?Sized> SimulatedChip<'_, K> {
    fn write(&self, offset: u64, from: &[u8]) -> Result<(), DeviceError> {
        let written = self.memory()?.file.write_all_at(from, offset);
        written.map_err(|error| DeviceError::Os(OsError::from_io("pwrite", &error)))
    }

    /// Gives an allocation's pages back to the machine.
    fn discard(&self, address: u64, nbytes: u64) -> Result<(), DeviceError> {
        let offset = self.place(address, nbytes)?;
        Ok(memfd::discard(self.memory()?.file.as_fd(), offset, nbytes.next_multiple_of(alignment()))?)
    }
}

impl<K: ?Sized> fmt::Debug for SimulatedChip<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedChip")
            .field("options", &self.options)
            .field("base", &format_args!("{:#x}", self.base))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
