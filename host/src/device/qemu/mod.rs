//! A device in QEMU: a bare aarch64 machine whose memory is a file of this process, and our firmware in it, which runs the tasks.
//!
//! The two talk over the mailbox of [`bufabi_device::mailbox`] in that memory, and in no other way. Addresses that this device gives
//! out are the machine's own; the firmware keeps a table of what is live, resolves each tensor and checks rights and ranges again.
//! The machine's process has no name in the file system, and ends with the thread that started it.

mod link;
mod memory;
mod options;
#[cfg(test)]
mod tests;

use core::fmt;
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bufabi_core::{Access, View};
use bufabi_device::kernel::{Call, KernelError};
use bufabi_device::message::{Answer, RawRequest, Request};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

use super::file::DeviceFile;
use super::{Device, DeviceError, Launch, LaunchError, Resolved};
use crate::space::Space;
use crate::sys::{OsError, program};
use link::Link;
use memory::GuestMemory;
pub use options::{QemuError, QemuOptions, check_firmware, find_program};

/// A device in QEMU.
pub struct QemuDevice {
    // In this order they are dropped: the machine first.
    link: Mutex<Link>,
    space: Mutex<Space>,
    memory: GuestMemory,
}

impl QemuDevice {
    /// Starts a machine, and waits until its firmware says that it has started. The machine ends when this thread does.
    ///
    /// # Errors
    /// [`QemuError`]; nothing is left of it then.
    pub fn start(options: &QemuOptions) -> Result<Self, QemuError> {
        check_firmware(&options.firmware)?;
        let memory = GuestMemory::new(options.nbytes)?;
        let size = QemuError::Memory { nbytes: options.nbytes };
        let heap = memory.file().heap();
        let space = Space::new(heap.base, heap.nbytes, DeviceFile::alignment()).ok_or(size)?;
        let queue = Link::queue(&memory)?;
        let file = memory.file().as_fd();
        let process =
            program::start(&mut command(options, file.as_raw_fd()), &[file]).map_err(
                |error| match error {
                    OsError { errno: libc::ENOENT, .. } => {
                        QemuError::EmulatorMissing { path: options.emulator.clone() }
                    }
                    error => QemuError::Os(error),
                },
            )?;
        let link = Link::open(&memory, queue, process, options.patience)?;
        Ok(Self { link: Mutex::new(link), space: Mutex::new(space), memory })
    }

    /// The number of the machine's process.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.link().pid()
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        // A request that was broken off would leave a reply behind, which is told by its number.
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn space(&self) -> MutexGuard<'_, Space> {
        // Every step on it is whole, so a panic elsewhere leaves it as it should be.
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks something that takes no more than a request's fixed part.
    fn ask(&self, request: Request<'_>) -> Result<(), DeviceError> {
        let answer = self.link().ask(&self.memory, size_of::<RawRequest>(), |number, write| {
            write(request.header(number).as_bytes())
        })?;
        answer.map_err(|refusal| DeviceError::Refused { code: refusal.code })
    }
}

/// How the emulator is called: one processor, the memory by the number of its open file, and nothing else of a machine.
fn command(options: &QemuOptions, file: i32) -> Command {
    let mut command = Command::new(&options.emulator);
    let nbytes = options.nbytes;
    command.args(["-machine", "virt,memory-backend=ram", "-cpu", "cortex-a72", "-accel", "tcg", "-smp", "1"]);
    command
        .arg("-object")
        .arg(format!("memory-backend-file,id=ram,size={nbytes},mem-path=/proc/self/fd/{file},share=on"));
    command.arg("-m").arg(format!("{}M", nbytes >> 20));
    command.args(["-nodefaults", "-no-user-config", "-nic", "none", "-display", "none", "-no-reboot"]);
    command.arg("-kernel").arg(&options.firmware);
    // What it complains of stands on standard error.
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

impl Device for QemuDevice {
    fn alignment(&self) -> u64 {
        DeviceFile::alignment()
    }

    fn reaches_host_memory(&self) -> bool {
        false
    }

    fn needs(&self, kernel: u32, argument: usize, count: usize) -> Option<Access> {
        // An unknown kernel runs on nothing.
        Call::from_number(kernel)?.needs(argument, count)
    }

    fn malloc(&self, nbytes: u64) -> Result<u64, DeviceError> {
        let mut space = self.space();
        let address = space.take(nbytes)?;
        let file = self.memory.file();
        let reserved = file.reserve(address, nbytes);
        if let Err(error) = reserved.and_then(|()| self.ask(Request::Allocate { address, nbytes })) {
            let _ = file.discard(address, nbytes);
            space.give_back(address)?;
            return Err(error);
        }
        Ok(address)
    }

    fn free(&self, address: u64) -> Result<(), DeviceError> {
        let mut space = self.space();
        let nbytes = space.nbytes_of(address)?;
        // What the machine would still use, or cannot be given back, is not given out again.
        self.ask(Request::Free { address })?;
        self.memory.file().discard(address, nbytes)?;
        space.give_back(address)?;
        Ok(())
    }

    fn zero(&self, address: u64, nbytes: u64) -> Result<(), DeviceError> {
        self.memory.file().zero(address, nbytes)
    }

    fn copy_to(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.memory.file().write(address, bytes)
    }

    fn copy_from(&self, address: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.memory.file().read(address, out)
    }

    /// What the kernel does not take is said here, in full; what the device finds wrong by itself comes back as a code.
    fn launch(&self, task: &Launch<'_>) -> Result<(), LaunchError> {
        check(task)?;
        let mut addresses = heapless::Vec::<U64, { bufabi_core::wire::chip_args::MAX_TENSORS }>::new();
        for (argument, backing) in task.backings.iter().enumerate() {
            let address = backing.address();
            let not_mapped = LaunchError::NotMapped { argument, address };
            match backing {
                Resolved::Device(_) => addresses.push(U64::new(address)).map_err(|_| not_mapped)?,
                Resolved::Host(_) => return Err(not_mapped),
            }
        }
        let (header, tensors, scalars) = task.blob.pieces();
        let addresses = addresses.as_bytes();
        let nbytes = [size_of::<RawRequest>(), task.blob.size(), addresses.len()];
        let nbytes = nbytes.iter().fold(0_usize, |sum, part| sum.saturating_add(*part));
        let answer: Answer = self.link().ask(&self.memory, nbytes, |number, write| {
            write(RawRequest::run(number, task.kernel, task.blob.size()).as_bytes())?;
            [&header[..], tensors, scalars, addresses].into_iter().try_for_each(write)
        })?;
        answer.map_err(|refusal| LaunchError::Refused { code: refusal.code, argument: refusal.argument })
    }
}

/// Views, scalars and rights, as the device checks them again.
fn check(task: &Launch<'_>) -> Result<(), KernelError> {
    let kernel = task.kernel;
    let call = Call::from_number(kernel).ok_or(KernelError::Unknown { kernel })?;
    let views: Vec<View> = task.blob.tensors().map(|tensor| tensor.view()).collect();
    let scalars: Vec<u64> = task.blob.scalars().collect();
    call.check(views.iter(), &scalars)?;
    for (operand, backing) in task.backings.iter().enumerate() {
        let granted = backing.access();
        if let Some(needed) = call.needs(operand, views.len())
            && !granted.grants(needed)
        {
            return Err(KernelError::Denied { operand, granted, needed });
        }
    }
    Ok(())
}

impl fmt::Debug for QemuDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QemuDevice").field("memory", &self.memory).finish_non_exhaustive()
    }
}
