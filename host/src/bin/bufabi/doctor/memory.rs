//! Memory that processes share: where objects with names lie, memory without a name, pages of 2 MiB.

use std::fs;
use std::os::fd::AsFd;

use bufabi_core::Access;
use bufabi_host::memory::Mapping;
use bufabi_host::shm::{self, sweep};
use bufabi_host::sys::OsError;
use bufabi_host::sys::limits::file_system;
use bufabi_host::sys::memfd::{self, Pages, Seals};

use super::{Check, bytes};

/// What containers are given unless somebody asks for more.
const SMALL: u64 = 64 << 20;

pub(super) fn checks() -> Vec<Check> {
    vec![objects(), space(), available(), sealed(), huge()]
}

/// Making an object, for real.
fn objects() -> Check {
    let name = "shared memory";
    let made = shm::create(4096).map_err(|error| error.to_string());
    match made.and_then(|(mut object, _)| object.unlink().map_err(|error| error.to_string())) {
        Ok(()) => Check::there(name, format!("objects can be made in {}{}", sweep::FOLDER, mount())),
        Err(error) => Check::missing(
            name,
            error,
            "no posix_shm buffers: mount a tmpfs at /dev/shm that this user may write, and /proc",
        ),
    }
}

/// How the folder of objects is mounted.
fn mount() -> String {
    let Ok(mounts) = fs::read_to_string("/proc/self/mountinfo") else { return String::new() };
    // What was mounted last at a place is what is there.
    let line = mounts.lines().rev().find(|line| line.split(' ').nth(4) == Some(sweep::FOLDER));
    let Some((before, after)) = line.and_then(|line| line.split_once(" - ")) else {
        return ", which is no file system of its own".to_owned();
    };
    let (kind, of_kind) = (after.split(' ').next(), after.split(' ').nth(2));
    let options = [before.split(' ').nth(5), of_kind].into_iter().flatten().collect::<Vec<_>>().join(",");
    format!(", {}: {options}", kind.unwrap_or("of an unknown kind"))
}

fn space() -> Check {
    let name = "shared memory size";
    match file_system(c"/dev/shm") {
        Err(error) => Check::lacking(name, error, "how much shared memory there is cannot be told"),
        // Only its memory limits it.
        Ok(found) if found.nbytes == 0 => Check::there(name, "without a limit of its own"),
        Ok(found) => {
            let told = format!("{}, {} free", bytes(found.nbytes), bytes(found.free));
            if found.free > SMALL {
                Check::there(name, told)
            } else {
                let means = "posix_shm buffers that together need more are refused: in a container, raise its shm size";
                Check::lacking(name, told, means)
            }
        }
    }
}

fn available() -> Check {
    let name = "free memory";
    match memfd::available() {
        Some(nbytes) => Check::there(name, bytes(nbytes)),
        None => Check::lacking(
            name,
            "/proc/meminfo does not say",
            "what does not fit into memory may be found out too late",
        ),
    }
}

/// Memory without a name, which backs the devices of software.
fn sealed() -> Check {
    let name = "sealed memory";
    let made = memfd::create(c"bufabi doctor", Pages::Ordinary).and_then(|file| {
        memfd::reserve(file.as_fd(), 4096)?;
        memfd::seal(file.as_fd(), Seals::SIZE)?;
        memfd::seals(file.as_fd())
    });
    match made {
        Ok(Some(seals)) if seals.contain(Seals::SIZE) && seals.hold_exec() => {
            Check::there(name, "memfd, sealed against shrinking and against execution")
        }
        Ok(Some(seals)) if seals.contain(Seals::SIZE) => Check::lacking(
            name,
            "memfd, sealed against shrinking; the seal against execution is not known",
            "Linux 6.3 has it; nothing else depends on it",
        ),
        Ok(_) => Check::missing(name, "memfd without seals", MEANS),
        Err(error) => Check::missing(name, error, MEANS),
    }
}

const MEANS: &str = "no simulated chips, and no vmm_shareable buffers: Linux 3.17 has it";

/// Pages of 2 MiB: that they can be asked for says nothing, that they can be mapped does.
fn huge() -> Check {
    let name = "huge pages";
    const NBYTES: usize = 2 << 20;
    let mapped = memfd::create(c"bufabi doctor", Pages::Huge).and_then(|file| {
        memfd::reserve(file.as_fd(), 2 << 20)?;
        Mapping::of_file(file.as_fd(), NBYTES, Access::ReadWrite)
    });
    let set_aside = fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
    let set_aside = set_aside.map_or_else(|_| "none".to_owned(), |number| number.trim().to_owned());
    match mapped.map(drop) {
        Ok(()) => Check::there(name, format!("of 2 MiB, {set_aside} set aside")),
        Err(OsError { call, .. }) if set_aside == "0" || set_aside == "none" => Check::lacking(
            name,
            format!("none of 2 MiB is set aside ({call})"),
            "device memory of software is made of ordinary pages: sysctl vm.nr_hugepages sets some aside",
        ),
        Err(error) => Check::lacking(name, error, "device memory of software is made of ordinary pages"),
    }
}
