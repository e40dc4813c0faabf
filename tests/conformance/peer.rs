//! Another process: a fork of this one that does as it is told over a socket, and is interrupted by a timer all the while.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bufabi_core::wire::identity::RawIdentity;
use bufabi_core::{Code, Descriptor, Identity, OwnerInstanceId};
use bufabi_host::backend;
use bufabi_host::backend::vmm_shareable::VmmShareable;
use bufabi_host::consumer::{Consumer, Import, Resolution};
use bufabi_host::memory::Mapping;
use bufabi_host::sys::interruption::Interruptions;
use bufabi_host::sys::process::{Process, fork};
use bufabi_host::sys::random::random_bytes;
use bufabi_host::vmm::MemfdDriver;
use bufabi_host::vmm::memfd::MemfdOptions;
use zerocopy::{FromZeros, IntoBytes};

/// How often a signal interrupts a process.
pub(crate) const BEAT: Duration = Duration::from_micros(200);

/// Options with which nobody gives up on a busy machine.
pub(crate) fn patient() -> MemfdOptions {
    MemfdOptions { patience: Duration::from_secs(10), ..MemfdOptions::default() }
}

/// What a process has and holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) files: u64,
    /// Of what is shared or reserved.
    pub(crate) mappings: u64,
    pub(crate) resident_kib: u64,
}

/// What this process has and holds.
pub(crate) fn usage() -> Usage {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let count = |number: usize| u64::try_from(number).unwrap();
    Usage {
        files: count(fs::read_dir("/proc/self/fd").unwrap().count()),
        mappings: count(fs::read_to_string("/proc/self/maps").unwrap().lines().filter(is_backing).count()),
        resident_kib: resident.trim().trim_end_matches(" kB").trim().parse().unwrap(),
    }
}

/// A line of the operating system's list is about memory that is shared, or about addresses that are reserved: not about what an
/// allocator has taken, which comes and goes.
fn is_backing(line: &&str) -> bool {
    line.split(' ').nth(1).is_some_and(|rights| rights.ends_with('s') || rights == "---p")
}

/// What this process may do at an address, as the operating system's page tables have it: `rw-s` and the like.
pub(crate) fn protection(address: u64) -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let found = maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let holds =
            (u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?).contains(&address);
        holds.then(|| rest.split(' ').next().unwrap_or_default().to_owned())
    });
    found.unwrap_or_default()
}

/// As much as the operating system lets this process have.
pub(crate) enum Filled {
    Files(#[expect(dead_code, reason = "it is there to be dropped")] Vec<File>),
    Mappings(#[expect(dead_code, reason = "it is there to be dropped")] Vec<Mapping>),
}

impl Filled {
    pub(crate) fn with_files() -> Self {
        let mut files = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            files.push(file);
        }
        Self::Files(files)
    }

    pub(crate) fn with_mappings() -> Self {
        // Room for all of them now: an allocator needs mappings too.
        let limit = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
        let mut mappings = Vec::with_capacity(limit.trim().parse().unwrap());
        while let Ok(mapping) = Mapping::inherited(1) {
            mappings.push(mapping);
        }
        Self::Mappings(mappings)
    }
}

/// A fork of this process with a consumer of its own.
pub(crate) struct Peer {
    socket: UnixStream,
    process: Process,
}

/// What it can be told to do.
mod request {
    pub(super) const IMPORT: u8 = 0;
    pub(super) const READ: u8 = 1;
    pub(super) const WRITE: u8 = 2;
    pub(super) const DROP: u8 = 3;
    pub(super) const RELEASE: u8 = 4;
    pub(super) const PROTECTION: u8 = 5;
    pub(super) const USAGE: u8 = 6;
    pub(super) const EVICT: u8 = 7;
    pub(super) const FILL: u8 = 8;
}

impl Peer {
    /// Forks. This process has one thread.
    pub(crate) fn fork() -> Self {
        let (socket, theirs) = UnixStream::pair().unwrap();
        let process = fork(|| {
            let _interruptions = Interruptions::begin(BEAT).unwrap();
            Server::new(theirs).serve();
            0
        });
        Self { socket, process: process.unwrap() }
    }

    /// Imports, and keeps the import as a view until it is told to drop it. Answers how it was resolved, and where it lies.
    pub(crate) fn import(&mut self, descriptor: &Descriptor) -> Result<(Resolution, u64), Code> {
        let (code, numbers, _) = self.ask(request::IMPORT, descriptor.identity(), &descriptor.encode());
        let resolution = match numbers[0] {
            0 => Resolution::MappedNow,
            1 => Resolution::AlreadyMapped,
            2 => Resolution::Own,
            _ => Resolution::Inherited,
        };
        if code == Code::Ok { Ok((resolution, numbers[1])) } else { Err(code) }
    }

    /// The bytes from `offset` on that it sees.
    pub(crate) fn read(&mut self, identity: Identity, offset: u64, length: u64) -> Vec<u8> {
        let range = [offset.to_le_bytes(), length.to_le_bytes()].concat();
        self.ask(request::READ, identity, &range).2
    }

    /// Stores, and says whether its mapping takes that.
    pub(crate) fn write(&mut self, identity: Identity, offset: u64, bytes: &[u8]) -> bool {
        let range = [&offset.to_le_bytes()[..], bytes].concat();
        self.ask(request::WRITE, identity, &range).0 == Code::Ok
    }

    /// Drops the views of it.
    pub(crate) fn drop_views(&mut self, identity: Identity) {
        self.ask(request::DROP, identity, &[]);
    }

    pub(crate) fn release(&mut self, identity: Identity) -> Result<(), Code> {
        let (code, ..) = self.ask(request::RELEASE, identity, &[]);
        if code == Code::Ok { Ok(()) } else { Err(code) }
    }

    /// Drops all mappings that nobody uses, and says how many.
    pub(crate) fn evict(&mut self) -> u64 {
        self.ask(request::EVICT, nobody(), &[]).1[0]
    }

    /// Makes it have as many files open as it can.
    pub(crate) fn fill_files(&mut self) {
        self.ask(request::FILL, nobody(), &[1]);
    }

    /// Makes it have as many mappings as it can.
    pub(crate) fn fill_mappings(&mut self) {
        self.ask(request::FILL, nobody(), &[2]);
    }

    /// Gives back what it was filled with.
    pub(crate) fn empty(&mut self) {
        self.ask(request::FILL, nobody(), &[0]);
    }

    pub(crate) fn protection(&mut self, address: u64) -> String {
        String::from_utf8(self.ask(request::PROTECTION, nobody(), &address.to_le_bytes()).2).unwrap()
    }

    pub(crate) fn usage(&mut self) -> Usage {
        let (_, [files, mappings, resident_kib], _) = self.ask(request::USAGE, nobody(), &[]);
        Usage { files, mappings, resident_kib }
    }

    fn ask(&mut self, what: u8, identity: Identity, operand: &[u8]) -> (Code, [u64; 3], Vec<u8>) {
        let mut frame = vec![what];
        frame.extend_from_slice(identity.encode().as_bytes());
        frame.extend_from_slice(operand);
        send(&mut self.socket, &frame);
        let answer = receive(&mut self.socket).unwrap();
        let (code, rest) = answer.split_at(4);
        let (numbers, bytes) = rest.split_at(24);
        let code = Code::from_number(i32::from_le_bytes(code.try_into().unwrap())).unwrap();
        let numbers = [0, 8, 16].map(|at| u64::from_le_bytes(numbers[at..at + 8].try_into().unwrap()));
        (code, numbers, bytes.to_vec())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.send(9);
        while self.process.ended() == Ok(None) {
            std::thread::yield_now();
        }
    }
}

/// An identity for requests that are about none.
fn nobody() -> Identity {
    Identity::new(OwnerInstanceId([0; 8]), 1, std::num::NonZeroU32::MIN)
}

fn send(socket: &mut UnixStream, frame: &[u8]) {
    let length = u32::try_from(frame.len()).unwrap().to_le_bytes();
    socket.write_all(&[&length[..], frame].concat()).unwrap();
}

/// `None` when the other side is gone.
fn receive(socket: &mut UnixStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    socket.read_exact(&mut length).ok()?;
    let mut frame = vec![0; u32::from_le_bytes(length).try_into().unwrap()];
    socket.read_exact(&mut frame).ok()?;
    Some(frame)
}

/// The peer's side.
struct Server {
    socket: UnixStream,
    consumer: Consumer,
    views: HashMap<Identity, Vec<Import>>,
    filled: Option<Filled>,
}

impl Server {
    fn new(socket: UnixStream) -> Self {
        let me = OwnerInstanceId(random_bytes().unwrap());
        let driver = MemfdDriver::new(me, 0, patient());
        let mut backends = backend::of_host();
        backends.push(Box::new(VmmShareable::new(driver.into())));
        let consumer = Consumer::with_backends(None, backends, 64).unwrap();
        Self { socket, consumer, views: HashMap::new(), filled: None }
    }

    fn serve(mut self) {
        while let Some(frame) = receive(&mut self.socket) {
            let (code, numbers, bytes) = self.answer(&frame);
            let numbers: Vec<u8> = numbers.iter().flat_map(|number: &u64| number.to_le_bytes()).collect();
            send(&mut self.socket, &[&code.number().to_le_bytes()[..], &numbers, &bytes].concat());
        }
    }

    fn answer(&mut self, frame: &[u8]) -> (Code, [u64; 3], Vec<u8>) {
        let (&what, rest) = frame.split_first().unwrap();
        let (identity, operand) = rest.split_at(size_of::<RawIdentity>());
        let mut raw = RawIdentity::new_zeroed();
        raw.as_mut_bytes().copy_from_slice(identity);
        let identity = raw.decode().unwrap();
        let number = |at: usize| u64::from_le_bytes(operand[at..at + 8].try_into().unwrap());
        let done = (Code::Ok, [0; 3], Vec::new());
        let refused = |code| (code, [0; 3], Vec::new());
        match what {
            request::IMPORT => match self.consumer.import(&Descriptor::decode(operand).unwrap()) {
                Ok(import) => {
                    let resolution = match import.resolution() {
                        Resolution::MappedNow => 0,
                        Resolution::AlreadyMapped => 1,
                        Resolution::Own => 2,
                        _ => 3,
                    };
                    let address = import.address();
                    self.views.entry(identity).or_default().push(import);
                    (Code::Ok, [resolution, address, 0], Vec::new())
                }
                Err(error) => refused(error.code()),
            },
            request::READ => {
                let mut bytes = vec![0; number(8).try_into().unwrap()];
                self.views[&identity][0].read(number(0).try_into().unwrap(), &mut bytes).unwrap();
                (Code::Ok, [0; 3], bytes)
            }
            request::WRITE => {
                let written = self.views[&identity][0].write(number(0).try_into().unwrap(), &operand[8..]);
                refused(if written.is_ok() { Code::Ok } else { Code::Denied })
            }
            request::DROP => {
                self.views.remove(&identity);
                done
            }
            request::RELEASE => {
                refused(self.consumer.release(identity).map_or_else(|e| e.code(), |()| Code::Ok))
            }
            request::EVICT => (Code::Ok, [self.consumer.evict_unused().into(), 0, 0], Vec::new()),
            request::FILL => {
                self.filled = match operand[0] {
                    1 => Some(Filled::with_files()),
                    2 => Some(Filled::with_mappings()),
                    _ => None,
                };
                done
            }
            request::PROTECTION => (Code::Ok, [0; 3], protection(number(0)).into_bytes()),
            request::USAGE => {
                let Usage { files, mappings, resident_kib } = usage();
                (Code::Ok, [files, mappings, resident_kib], Vec::new())
            }
            _ => refused(Code::MessageBroken),
        }
    }
}
