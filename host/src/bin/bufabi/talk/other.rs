//! The other side: a process of this program, or firmware in an emulated machine.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bufabi_core::queue::QueueLayout;
use bufabi_host::device::check_firmware;
use bufabi_host::owner::Endpoint;
use bufabi_host::region::{Emulator, ProvidedRegion};
use bufabi_host::sys::event::deadline;
use bufabi_host::sys::process::{Ending, Process, fork};
use bufabi_host::sys::random::random_bytes;
use bufabi_host::vmm::memfd::{Broker, BrokerThread, MemfdOptions};
use bufabi_host::vmm::{Admission, MemfdDriver};

use super::host::LIMIT;
use super::task;
use crate::failure::Failure;

/// What the other side does with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It sends it back.
    Echo,
    /// It drops it, and answers one of kind ERROR when all before it are dropped.
    Sink,
}

impl Purpose {
    /// How the firmware is told.
    const fn number(self) -> u64 {
        match self {
            Self::Echo => 1,
            Self::Sink => 2,
        }
    }
}

/// The other side of a queue, which runs.
#[derive(Debug)]
pub(super) enum Other {
    Process(Process),
    // Dropped in this order: the machine before what it has its memory of.
    Machine { emulator: Emulator, _folder: Folder, _broker: BrokerThread },
}

impl Other {
    /// Another process, forked from this one, and the region between them.
    pub(super) fn process(
        layout: QueueLayout,
        purpose: Purpose,
        spin: Duration,
    ) -> Result<(Self, ProvidedRegion), Failure> {
        let endpoint = Endpoint::new().map_err(Failure::machine)?;
        let (payload, counter) = (layout.payload_bytes(), layout.counter_bytes());
        let region = ProvidedRegion::create(&endpoint, payload, counter).map_err(Failure::machine)?;
        let [payload, counter] = region.descriptors().map_err(Failure::machine)?;
        let parent = Process::current().map_err(Failure::machine)?;
        let child = fork(|| match task::run(layout, &payload, &counter, &parent, purpose, spin) {
            Ok(()) => 0,
            Err(failure) => {
                failure.report();
                1
            }
        });
        Ok((Self::Process(child.map_err(Failure::machine)?), region))
    }

    /// Firmware in QEMU, and the region in its memory.
    pub(super) fn firmware(
        layout: QueueLayout,
        purpose: Purpose,
        image: &Path,
    ) -> Result<(Self, ProvidedRegion), Failure> {
        let image = image.canonicalize().map_err(|error| Failure::usage(error.to_string()).in_file(image))?;
        // The emulator would run anything else as it is, and nothing would be heard of it.
        check_firmware(&image).map_err(|error| Failure::usage(error.to_string()))?;
        let (owner, machine) =
            (Endpoint::new().map_err(Failure::machine)?, Endpoint::new().map_err(Failure::machine)?);
        let driver = |endpoint: &Endpoint| {
            Arc::new(MemfdDriver::new(endpoint.owner_instance_id(), 0, MemfdOptions::default()))
        };
        let (owner_driver, machine_driver) = (driver(&owner), driver(&machine));
        let broker = Broker::new(&owner_driver).and_then(Broker::spawn).map_err(Failure::machine)?;
        let (payload, counter) = (layout.payload_bytes(), layout.counter_bytes());
        let admission = Admission::Anyone;
        let region = ProvidedRegion::create_shareable(&owner, &owner_driver, payload, counter, admission);
        let region = region.map_err(Failure::machine)?;
        let [payload, counter] = region.descriptors().map_err(Failure::machine)?;
        let folder = Folder::new()?;
        let parts = [&payload, &counter];
        let what = purpose.number();
        let emulator = Emulator::start(&machine_driver, parts, layout, &image, &folder.0, what, LIMIT);
        let emulator = emulator.map_err(Failure::machine)?;
        Ok((Self::Machine { emulator, _folder: folder, _broker: broker }, region))
    }

    /// The process to be watched.
    pub(super) const fn watched(&self) -> &Process {
        match self {
            Self::Process(process) => process,
            Self::Machine { emulator, .. } => emulator.process(),
        }
    }

    /// Waits for its end, which STOP has brought about.
    pub(super) fn wait(self, limit: Duration) -> Result<(), Failure> {
        match self {
            Self::Machine { emulator, .. } => emulator.wait(limit).map_err(Failure::machine),
            Self::Process(process) => {
                process.has_ended_by(deadline(limit)).map_err(Failure::machine)?;
                match process.ended().map_err(Failure::machine)? {
                    Some(Ending::Exited { status: 0 }) => Ok(()),
                    Some(ending) => Err(Failure::machine(format!("the other process {ending}"))),
                    None => {
                        let limit = limit.as_secs();
                        Err(Failure::machine(format!("the other process did not end within {limit} s")))
                    }
                }
            }
        }
    }
}

/// A folder for the emulated machine's files, which goes with it.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        // No name that a killed process may have left behind, or that somebody else could take beforehand.
        let random = random_bytes().map(u64::from_le_bytes).map_err(Failure::machine)?;
        let folder = std::env::temp_dir().join(format!("bufabi-{random:016x}"));
        let made = DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(|error| Failure::machine(error).in_file(&folder))?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nobody is left who could be told.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
