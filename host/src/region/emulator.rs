//! A bare machine in QEMU whose memory contains a region: a task that runs on another processor, as far as a host can tell.

use core::fmt;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bufabi_core::queue::{QueueLayout, QueueView, QueueViewError};
use bufabi_core::region::{Part, PartsError, RegionParts, RegionView, RegionViewError};
use bufabi_core::{Code, Descriptor};

use crate::sys::event::deadline;
use crate::sys::process::{Ending, Process};
use crate::sys::{OsError, program};
use crate::vmm::{MemfdDriver, Shareable, VmmDriver, VmmError};

/// Where the memory of QEMU's aarch64 `virt` machine starts.
const MEMORY: u64 = 0x4000_0000;
/// Bytes of it that are the program's alone. The region's parts follow.
const PROGRAM_BYTES: u64 = 32 << 20;
const MIB: u64 = 1 << 20;

/// Between two looks at a machine that is about to begin.
const LOOK: Duration = Duration::from_millis(1);
/// How long a machine that was killed may take to be gone.
const LAST: Duration = Duration::from_secs(10);

/// An emulated machine that runs. Dropping it ends it, and so does the end of the thread that started it, whatever the cause: a machine
/// whose host is gone would have nobody to tell it.
#[derive(Debug)]
pub struct Emulator {
    process: Process,
    /// It was waited for, and has no process any more.
    is_over: bool,
}

impl Emulator {
    /// Starts the bare aarch64 program `image` with the region's two parts, which must be software device memory, in its memory.
    /// Its file `requests`, in `folder`, is `what` and the twelve scalars of the queue, 64 bits each; what it writes to its file
    /// `answers` is found there.
    ///
    /// The machine ends when this thread does. It has `patience` to begin: a machine whose program is none runs, and says nothing.
    ///
    /// `importer` is a driver of another endpoint than the region's, for the machine: it imports both parts, whose owner must
    /// permit it.
    ///
    /// # Errors
    /// [`EmulatorError`].
    pub fn start(
        importer: &MemfdDriver,
        [payload, counter]: [&Descriptor; 2],
        layout: QueueLayout,
        image: &Path,
        folder: &Path,
        what: u64,
        patience: Duration,
    ) -> Result<Self, EmulatorError> {
        let parts = RegionParts::check(payload, counter).map_err(EmulatorError::Parts)?;
        let import = |descriptor| -> Result<_, EmulatorError> {
            let shareable = Shareable::from_descriptor(descriptor).map_err(EmulatorError::Vmm)?;
            let memory = importer.import(&shareable).map_err(EmulatorError::Vmm)?;
            Ok((memory, shareable.mapping_bytes))
        };
        let (payload_memory, payload_mapped) = import(payload)?;
        let (counter_memory, counter_mapped) = import(counter)?;
        let payload_base = MEMORY.saturating_add(PROGRAM_BYTES);
        let counter_base = payload_base.saturating_add(payload_mapped);
        let region = RegionView::new(
            parts.region_id(),
            Part { base: payload_base, nbytes: payload.nbytes() },
            Part { base: counter_base, nbytes: counter.nbytes() },
        );
        let view = QueueView::new(region.map_err(EmulatorError::Region)?, layout);
        let scalars = view.map_err(EmulatorError::Queue)?.to_scalars();
        let numbers = [what].into_iter().chain(scalars);
        let request: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
        let os = |call| move |error: std::io::Error| EmulatorError::Os(OsError::from_io(call, &error));
        fs::write(folder.join("requests"), request).map_err(os("write"))?;
        // One of an earlier run would tell too early that this one has begun.
        match fs::remove_file(folder.join("answers")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(os("unlink")(error)),
            Ok(()) | Err(_) => {}
        }

        // QEMU is handed both descriptors, and maps what is behind them: the machine's memory is made of three pieces.
        let file = |name, nbytes, file: i32| {
            format!("memory-backend-file,id={name},size={nbytes},share=on,mem-path=/proc/self/fd/{file}")
        };
        let whole = PROGRAM_BYTES.saturating_add(payload_mapped).saturating_add(counter_mapped);
        let mut command = Command::new("qemu-system-aarch64");
        command.args(["-machine", "virt", "-cpu", "cortex-a72", "-nic", "none", "-nographic"]);
        command.args([
            "-monitor",
            "none",
            "-serial",
            "none",
            "-semihosting-config",
            "enable=on,target=native",
        ]);
        command.arg("-m").arg(format!("{}M", whole.div_ceil(MIB)));
        command.arg("-object").arg(format!("memory-backend-ram,id=program,size={PROGRAM_BYTES}"));
        command.arg("-object").arg(file("payload", payload_mapped, payload_memory.as_fd().as_raw_fd()));
        command.arg("-object").arg(file("counter", counter_mapped, counter_memory.as_fd().as_raw_fd()));
        command.args(["-numa", "node,memdev=program,cpus=0"]);
        command.args(["-numa", "node,memdev=payload", "-numa", "node,memdev=counter"]);
        command.arg("-kernel").arg(image).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
        let memory = [payload_memory.as_fd(), counter_memory.as_fd()];
        let process = program::start(&mut command, &memory).map_err(|OsError { errno, .. }| {
            EmulatorError::Os(OsError { call: "qemu-system-aarch64", errno })
        })?;
        let mut emulator = Self { process, is_over: false };
        // Its program writes the file of its answers first.
        let until = deadline(patience);
        while fs::metadata(folder.join("answers")).is_err() {
            let now = Instant::now();
            if now >= until {
                return Err(EmulatorError::Silent { awaited: Awaited::Answers, patience });
            }
            let look = now.checked_add(LOOK).map_or(until, |look| look.min(until));
            if let Some(ending) = emulator.ended_by(look)? {
                return Err(EmulatorError::Ended { ending });
            }
        }
        Ok(emulator)
    }

    /// The machine's process, for who waits for its task.
    #[must_use]
    pub const fn process(&self) -> &Process {
        &self.process
    }

    /// Waits for its end. A machine that has not come to it within `patience` is killed.
    ///
    /// # Errors
    /// [`EmulatorError::Ended`] with a status other than 0, [`EmulatorError::Silent`], [`EmulatorError::Os`].
    pub fn wait(mut self, patience: Duration) -> Result<(), EmulatorError> {
        match self.ended_by(deadline(patience))? {
            Some(Ending::Exited { status: 0 }) => Ok(()),
            Some(ending) => Err(EmulatorError::Ended { ending }),
            None => Err(EmulatorError::Silent { awaited: Awaited::End, patience }),
        }
    }

    /// How it ended, as soon as it has; `None` when it runs at that time.
    fn ended_by(&mut self, until: Instant) -> Result<Option<Ending>, EmulatorError> {
        self.process.has_ended_by(until).map_err(EmulatorError::Os)?;
        let ended = self.process.ended().map_err(EmulatorError::Os)?;
        self.is_over |= ended.is_some();
        Ok(ended)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        if !self.is_over {
            // It may have ended already.
            let _ = self.process.send(libc::SIGKILL);
            let _ = self.ended_by(deadline(LAST));
        }
    }
}

/// What a machine was to do when nobody heard of it for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Its program was to make the file of its answers, which is the first that it does.
    Answers,
    /// It was to end.
    End,
}

/// Why no machine runs, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmulatorError {
    /// The two descriptors are no region.
    Parts(PartsError),
    /// A part could not be imported.
    Vmm(VmmError),
    /// The parts are no region in the machine's memory.
    Region(RegionViewError),
    /// The region is not the queue's.
    Queue(QueueViewError),
    /// A file or a process could not be made.
    Os(OsError),
    /// It ended otherwise than with status 0.
    Ended {
        /// How.
        ending: Ending,
    },
    /// Too long nothing was heard of it. It was killed.
    Silent {
        /// What was waited for.
        awaited: Awaited,
        /// How long.
        patience: Duration,
    },
}

impl EmulatorError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Parts(error) => error.code(),
            Self::Vmm(error) => error.code(),
            Self::Region(error) => error.code(),
            Self::Queue(error) => error.code(),
            Self::Os(error) => error.code(),
            Self::Ended { .. } => Code::WorkerDied,
            Self::Silent { .. } => Code::TimedOut,
        }
    }
}

impl fmt::Display for EmulatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parts(error) => error.fmt(f),
            Self::Vmm(error) => error.fmt(f),
            Self::Region(error) => error.fmt(f),
            Self::Queue(error) => error.fmt(f),
            Self::Os(error) => error.fmt(f),
            Self::Ended { ending } => write!(f, "the emulated machine {ending}"),
            Self::Silent { awaited, patience } => {
                let missing = match awaited {
                    Awaited::Answers => "made no file of its answers",
                    Awaited::End => "did not end",
                };
                write!(f, "the emulated machine {missing} within {patience:?}")
            }
        }
    }
}

impl std::error::Error for EmulatorError {}
