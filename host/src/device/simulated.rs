//! A chip in software: memory of its own, at addresses that no process of this machine can follow, and kernels that reach it there.
//!
//! The memory has a file and no name. What asks for bytes gets copies of them through the file; only [`launch`](Device::launch)
//! sees the one mapping of it.

use core::fmt;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use bufabi_core::region::Part;
use bufabi_core::wire::chip_args::{MAX_SCALARS, MAX_TENSORS};
use bufabi_core::{Access, ChipTensor, View};

use super::file::DeviceFile;
use super::{Device, DeviceError, Launch, LaunchError, Resolved};
use crate::memory::{Mapping, Operand};
use crate::space::Space;
use crate::sys::{limits, memfd};
use crate::worker::Kernels;

/// Where the addresses of simulated chips start. No user memory of any machine lies there: the top byte is not canonical, and where
/// machines leave that byte to programs, bit 55 says that an address is the kernel's.
const BASE: u64 = 0xd1de_0000_0000_0000;
/// Chips lie so far apart, so an address of one is none of another's, for 256 chips.
const CHIP_SHIFT: u32 = 40;
/// Bytes of a chip's memory, at most.
const MAX_NBYTES: u64 = 1 << CHIP_SHIFT;

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
    /// All of its memory.
    heap: Part,
    /// Made when some of it is allocated for the first time.
    memory: OnceLock<Memory>,
    space: Mutex<Space>,
}

/// A chip's memory.
struct Memory {
    file: DeviceFile,
    /// The same, for kernels alone.
    mapping: Mapping,
}

impl Memory {
    fn new(heap: Part) -> Result<Self, DeviceError> {
        let file = DeviceFile::new(c"bufabi-chip", heap.nbytes, heap.base, heap)?;
        // A machine of 64 bits counts as many.
        let length = usize::try_from(heap.nbytes).unwrap_or(usize::MAX);
        let mapping = Mapping::of_file(file.as_fd(), length, Access::ReadWrite);
        let mapping = mapping.map_err(|error| match error.errno {
            libc::ENOMEM => {
                let available = limits::address_space_left();
                DeviceError::NoAddressSpace { requested: heap.nbytes, available }
            }
            _ => error.into(),
        })?;
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
        let alignment = DeviceFile::alignment();
        let heap = Part { base, nbytes: options.nbytes.next_multiple_of(alignment) };
        let space = Mutex::new(Space::new(base, heap.nbytes, alignment).ok_or(out_of_range)?);
        Ok(Self { kernels, options, heap, memory: OnceLock::new(), space })
    }

    fn file(&self) -> Result<&DeviceFile, DeviceError> {
        if let Some(memory) = self.memory.get() {
            return Ok(&memory.file);
        }
        let made = Memory::new(self.heap)?;
        Ok(&self.memory.get_or_init(|| made).file)
    }

    fn space(&self) -> MutexGuard<'_, Space> {
        // Every step on it is whole, so a panic elsewhere leaves it as it should be.
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
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
                let Memory { file, mapping } = self.memory.get()?;
                let start = usize::try_from(file.place(address, size).ok()?).ok()?;
                Some(mapping.operand_from(start, view).ok()?.limited_to(range.access))
            }
        }
    }
}

impl<K: Kernels + ?Sized> Device for SimulatedChip<'_, K> {
    fn alignment(&self) -> u64 {
        DeviceFile::alignment()
    }

    fn reaches_host_memory(&self) -> bool {
        self.options.reaches_host_memory
    }

    fn needs(&self, kernel: u32, argument: usize, count: usize) -> Option<Access> {
        self.kernels.needs(kernel, argument, count)
    }

    fn has_machine_memory(&self) -> bool {
        true
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
        if let Err(error) = self.file().and_then(|file| file.reserve(address, nbytes)) {
            let _ = self.file().and_then(|file| file.discard(address, nbytes));
            space.give_back(address)?;
            return Err(error);
        }
        Ok(address)
    }

    fn free(&self, address: u64) -> Result<(), DeviceError> {
        let mut space = self.space();
        let nbytes = space.nbytes_of(address)?;
        // What cannot be given back to the machine is not given out again either.
        self.file()?.discard(address, nbytes)?;
        space.give_back(address)?;
        Ok(())
    }

    fn zero(&self, address: u64, nbytes: u64) -> Result<(), DeviceError> {
        self.file()?.zero(address, nbytes)
    }

    fn copy_to(&self, address: u64, from: &[u8]) -> Result<(), DeviceError> {
        self.file()?.write(address, from)
    }

    fn copy_from(&self, address: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.file()?.read(address, out)
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

impl<K: ?Sized> fmt::Debug for SimulatedChip<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedChip")
            .field("options", &self.options)
            .field("base", &format_args!("{:#x}", self.heap.base))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
