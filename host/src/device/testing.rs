//! A device that does as it is told, but for the calls that it was told to refuse; and tasks for one.

use core::cell::{Cell, RefCell};

use bufabi_core::wire::blob;
use bufabi_core::{Access, Blob, DType, Descriptor, Tensor, View};

use super::chip::RunError;
use super::{Chip, Device, DeviceError, Launch, LaunchError, SimulatedChip, SimulatedChipOptions};
use crate::kernels::{Call, Kernel, StandardKernels};

pub(super) const OPTIONS: SimulatedChipOptions =
    SimulatedChipOptions { device_id: 0, nbytes: 1 << 20, reaches_host_memory: true };

pub(super) fn simulated(options: SimulatedChipOptions) -> SimulatedChip<'static, StandardKernels> {
    SimulatedChip::new(&StandardKernels, options).unwrap()
}

/// What a device was asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Malloc(u64),
    Free,
    Zero,
    CopyTo,
    CopyFrom,
    Launch,
}

/// A chip whose memory is never clean, and which refuses what it is told to.
#[derive(Debug)]
pub(super) struct Stubborn {
    chip: SimulatedChip<'static, StandardKernels>,
    pub(super) asked: RefCell<Vec<Asked>>,
    /// The number of the call that is refused, from 0.
    pub(super) refuses: Cell<Option<usize>>,
    /// Allocations that were not freed.
    pub(super) allocations: Cell<usize>,
}

/// What a refused call says.
pub(super) const REFUSED: DeviceError = DeviceError::TimedOut { milliseconds: 7 };

impl Stubborn {
    pub(super) fn new(options: SimulatedChipOptions) -> Self {
        Self {
            chip: simulated(options),
            asked: RefCell::default(),
            refuses: Cell::new(None),
            allocations: Cell::new(0),
        }
    }

    /// From now on, counts calls anew and refuses that one.
    pub(super) fn refuse(&self, call: Option<usize>) {
        self.asked.borrow_mut().clear();
        self.refuses.set(call);
    }

    fn ask(&self, asked: Asked) -> Result<(), DeviceError> {
        let mut all = self.asked.borrow_mut();
        all.push(asked);
        if self.refuses.get() == Some(all.len() - 1) { Err(REFUSED) } else { Ok(()) }
    }
}

impl Device for Stubborn {
    fn alignment(&self) -> u64 {
        self.chip.alignment()
    }

    fn reaches_host_memory(&self) -> bool {
        self.chip.reaches_host_memory()
    }

    fn needs(&self, kernel: u32, argument: usize, count: usize) -> Option<Access> {
        self.chip.needs(kernel, argument, count)
    }

    fn malloc(&self, nbytes: u64) -> Result<u64, DeviceError> {
        self.ask(Asked::Malloc(nbytes))?;
        let address = self.chip.malloc(nbytes)?;
        self.allocations.set(self.allocations.get() + 1);
        self.chip.copy_to(address, &vec![0xa5; usize::try_from(nbytes).unwrap()])?;
        Ok(address)
    }

    fn free(&self, address: u64) -> Result<(), DeviceError> {
        self.ask(Asked::Free)?;
        self.chip.free(address)?;
        self.allocations.set(self.allocations.get() - 1);
        Ok(())
    }

    fn zero(&self, address: u64, nbytes: u64) -> Result<(), DeviceError> {
        self.ask(Asked::Zero)?;
        self.chip.zero(address, nbytes)
    }

    fn copy_to(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.ask(Asked::CopyTo)?;
        self.chip.copy_to(address, bytes)
    }

    fn copy_from(&self, address: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.ask(Asked::CopyFrom)?;
        self.chip.copy_from(address, out)
    }

    fn launch(&self, task: &Launch<'_>) -> Result<(), LaunchError> {
        self.ask(Asked::Launch)?;
        self.chip.launch(task)
    }
}

/// The number of C = A.
pub(super) fn copy() -> u32 {
    Call { kernel: Kernel::Copy, accumulate: false }.number()
}

/// All bytes of a buffer.
pub(super) fn whole(descriptor: &Descriptor) -> Tensor {
    let elements = u32::try_from(descriptor.nbytes()).unwrap();
    let view = View::row_major(0, DType::Uint8, &[elements], descriptor.nbytes()).unwrap();
    Tensor::new(descriptor, &view).unwrap()
}

pub(super) fn run(chip: &mut Chip<'_>, kernel: u32, tensors: &[Tensor]) -> Result<(), RunError> {
    let mut bytes = vec![0; blob::encoded_size(tensors.len(), 0).unwrap()];
    blob::encode(tensors, &[], &mut bytes).unwrap();
    chip.run(kernel, &Blob::from_bytes(&bytes).unwrap())
}
