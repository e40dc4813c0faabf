//! A process that shares device memory with others, told what to do line by line: tests drive several of it, in any order.
//!
//! `vmm-peer memfd OWNER DEVICE` or `vmm-peer acl OWNER LOGICAL VISIBLE`, OWNER being 16 hex digits; or `vmm-peer chip LOGICAL VISIBLE`, which
//! owns a device's memory and runs tasks there. Each line of standard input is
//! a command and is answered with one line: `ok ...`, or `error CODE TEXT`. It ends with its input.
#![forbid(unsafe_code)]

mod chip;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, Write};
use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bufabi_core::{Access, Descriptor, Identity, OwnerInstanceId};
use bufabi_host::device::{Chip, Device, DeviceMemory};
use bufabi_host::memory::AddressRange;
use bufabi_host::sys::ascendcl::MemoryAttribute;
use bufabi_host::sys::memfd::{self, Pages};
use bufabi_host::sys::socket;
use bufabi_host::vmm::acl::AclDevice;
use bufabi_host::vmm::imports::Import;
use bufabi_host::vmm::memfd::{Broker, MemfdOptions};
use bufabi_host::vmm::{
    AclDriver, Admission, AllocationRequest, Imports, MemfdDriver, SharedAllocation, VmmDriver, VmmError,
};
use bufabi_tests::unhex;

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let owner = |hex| -> Result<OwnerInstanceId, String> {
        let bytes = unhex(hex)?;
        Ok(OwnerInstanceId(bytes.try_into().map_err(|_| "an owner has 8 bytes".to_owned())?))
    };
    match words.as_slice() {
        ["memfd", hex, device] => {
            let driver = MemfdDriver::new(owner(hex)?, number(device)?, MemfdOptions::default());
            let broker = Broker::new(&driver).map_err(|error| error.to_string())?;
            Peer::new(driver).serve(Some(broker))
        }
        ["acl", hex, logical, visible] => {
            let device = AclDevice { logical: number(logical)?, visible: number(visible)? };
            match AclDriver::new(owner(hex)?, device, MemoryAttribute::HbmHuge) {
                Ok(driver) => Peer::new(driver).serve(None),
                Err(error) => {
                    println!("{}", failed(&error));
                    Ok(())
                }
            }
        }
        ["chip", logical, visible] => match chip::open(number(logical)?) {
            Ok(device) => {
                let number = AclDevice { logical: number(logical)?, visible: number(visible)? };
                serve_chip(&device, number)
            }
            Err(error) => {
                println!("{error}");
                Ok(())
            }
        },
        _ => Err("usage: vmm-peer memfd OWNER DEVICE | acl OWNER LOGICAL VISIBLE | chip LOGICAL VISIBLE"
            .to_owned()),
    }
}

fn serve_chip(device: &dyn Device, number: AclDevice) -> Result<(), String> {
    let memory = DeviceMemory::on_ascend(device, number, MemoryAttribute::HbmHuge);
    let memory = memory.map_err(|error| error.to_string())?;
    let mut chip = Chip::of_memory(memory).map_err(|error| error.to_string())?;
    println!("ok ready");
    for line in std::io::stdin().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match chip::answer(&mut chip, &words)? {
            Ok(text) => println!("ok {text}"),
            Err((code, text)) => println!("error {code} {text}"),
        }
    }
    Ok(())
}

fn number<T: std::str::FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{word} is no number that fits"))
}

fn failed(error: &VmmError) -> String {
    format!("error {} {error}", error.code())
}

/// What a command says, or why it is no command.
type Answer = Result<Result<String, VmmError>, String>;

struct Peer<D: VmmDriver> {
    driver: Arc<D>,
    shared: BTreeMap<u64, SharedAllocation<D>>,
    imports: Imports<D>,
    imported: BTreeMap<u64, Import<D>>,
    next_import: u64,
    ballast: Vec<AddressRange>,
}

impl<D: VmmDriver> Peer<D> {
    fn new(driver: D) -> Self {
        let driver = Arc::new(driver);
        let imports = Imports::new(Arc::clone(&driver));
        let (shared, imported) = (BTreeMap::new(), BTreeMap::new());
        Self { driver, shared, imports, imported, next_import: 0, ballast: Vec::new() }
    }

    /// One event loop over commands and, where there is one, the broker.
    fn serve(mut self, mut broker: Option<Broker>) -> Result<(), String> {
        println!("ok ready");
        let mut input = std::io::stdin().lock();
        let mut line = String::new();
        loop {
            if let Some(broker) = &mut broker {
                let much_later =
                    Instant::now().checked_add(Duration::from_secs(60)).unwrap_or_else(Instant::now);
                let ready = socket::wait(std::io::stdin().as_fd(), Some(broker.fd()), much_later)
                    .map_err(|error| error.to_string())?;
                if ready.process {
                    broker.serve_ready().map_err(|error| error.to_string())?;
                }
                if !ready.socket {
                    continue;
                }
            }
            line.clear();
            if input.read_line(&mut line).map_err(|error| error.to_string())? == 0 {
                return Ok(());
            }
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let answer = match self.answer(&words)? {
                Ok(text) => format!("ok {text}"),
                Err(error) => failed(&error),
            };
            let mut output = std::io::stdout().lock();
            writeln!(output, "{answer}").and_then(|()| output.flush()).map_err(|error| error.to_string())?;
        }
    }

    fn answer(&mut self, words: &[&str]) -> Answer {
        match words {
            ["number"] => Ok(self.driver.peer_number().map(|number| number.to_string())),
            ["share", id, generation, nbytes, access, admission] => {
                self.share(number(id)?, number(generation)?, number(nbytes)?, access, admission)
            }
            ["permit", id, peers @ ..] => {
                let peers = peers.iter().map(|peer| number(peer)).collect::<Result<Vec<i32>, _>>()?;
                Ok(self.owned(id)?.permit(&peers).map(done))
            }
            ["revoke", id] => Ok(self.owned(id)?.revoke().map(done)),
            ["release", id] => Ok(self.owned(id)?.release().map(done)),
            ["free", id] => {
                self.shared.remove(&number(id)?);
                Ok(Ok(String::new()))
            }
            ["import", hex] => {
                let descriptor = Descriptor::decode(&unhex(hex)?).map_err(|error| error.to_string())?;
                Ok(self.imports.import(&descriptor).map(|import| {
                    let (key, users) = (self.next_import, import.users());
                    self.next_import = key.saturating_add(1);
                    self.imported.insert(key, import);
                    format!("{key} {users}")
                }))
            }
            ["drop", key] => {
                self.imported.remove(&number(key)?);
                Ok(Ok(String::new()))
            }
            ["write", "own", id, offset, hex] => {
                Ok(self.owned(id)?.copy_to(number(offset)?, &unhex(hex)?).map(done))
            }
            ["write", "import", key, offset, hex] => {
                Ok(self.import(key)?.copy_to(number(offset)?, &unhex(hex)?).map(done))
            }
            ["read", "own", id, offset, count] => {
                let mut out = vec![0; number(count)?];
                Ok(self.owned(id)?.copy_from(number(offset)?, &mut out).map(|()| hex(&out)))
            }
            ["read", "import", key, offset, count] => {
                let mut out = vec![0; number(count)?];
                Ok(self.import(key)?.copy_from(number(offset)?, &mut out).map(|()| hex(&out)))
            }
            ["permissions", key] => Ok(self.import(key)?.address().map(permissions)),
            ["count"] => Ok(Ok(format!("{} {}", count("/proc/self/fd")?, lines("/proc/self/maps")?))),
            ["fill-maps"] => {
                self.fill_maps()?;
                Ok(Ok(String::new()))
            }
            ["empty-maps"] => {
                self.ballast = Vec::new();
                Ok(Ok(String::new()))
            }
            _ => Err(format!("no command: {}", words.join(" "))),
        }
    }

    fn share(&mut self, id: u64, generation: u32, nbytes: u64, access: &str, admission: &str) -> Answer {
        let access = match access {
            "read" => Access::Read,
            "write" => Access::Write,
            _ => Access::ReadWrite,
        };
        let admission = if admission == "anyone" { Admission::Anyone } else { Admission::Listed };
        let generation = NonZeroU32::new(generation).ok_or("generation 0")?;
        let identity = Identity::new(self.driver.owner_instance_id(), id, generation);
        let request = AllocationRequest { identity, nbytes, access, admission };
        let allocation = match SharedAllocation::new(&self.driver, &request) {
            Ok(allocation) => allocation,
            Err(error) => return Ok(Err(error)),
        };
        let descriptor = allocation.descriptor(0).map_err(|error| error.to_string())?;
        self.shared.insert(id, allocation);
        Ok(Ok(hex(&descriptor.encode())))
    }

    fn owned(&mut self, id: &str) -> Result<&mut SharedAllocation<D>, String> {
        self.shared.get_mut(&number(id)?).ok_or_else(|| format!("nothing is shared as {id}"))
    }

    fn import(&self, key: &str) -> Result<&Import<D>, String> {
        self.imported.get(&number(key)?).ok_or_else(|| format!("nothing is imported as {key}"))
    }

    /// Maps until the operating system lets this process map no more.
    fn fill_maps(&mut self) -> Result<(), String> {
        const PIECE: usize = 1 << 16;
        self.ballast.reserve(1 << 17);
        let file = memfd::create(c"ballast", Pages::Ordinary).map_err(|error| error.to_string())?;
        loop {
            let Ok(mut range) = AddressRange::reserve(PIECE, 4096) else { return Ok(()) };
            // The same file's start again and again: no two of them become one mapping.
            let mapped = range.map(file.as_fd());
            self.ballast.push(range);
            if mapped.is_err() {
                return Ok(());
            }
        }
    }
}

fn done((): ()) -> String {
    String::new()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What this process may do with what lies at an address, as `/proc/self/maps` has it.
fn permissions(address: u64) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let start = format!("{address:x}-");
    let line = maps.lines().find(|line| line.starts_with(&start)).unwrap_or("");
    line.split(' ').nth(1).unwrap_or("none").to_owned()
}

fn count(folder: &str) -> Result<usize, String> {
    // The folder itself is open while it is read.
    std::fs::read_dir(folder).map(Iterator::count).map_err(|error| error.to_string())
}

fn lines(file: &str) -> Result<usize, String> {
    std::fs::read_to_string(file).map(|text| text.lines().count()).map_err(|error| error.to_string())
}
