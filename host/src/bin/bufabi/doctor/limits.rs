//! Limits that somebody set: each with how much of it a buffer or a worker takes.

use std::fs;

use bufabi_host::sys::limits::{Limit, Resource, limit};

use super::{Check, bytes};

pub(super) fn checks() -> Vec<Check> {
    vec![
        finite(
            "open files",
            Resource::FileDescriptors,
            count,
            256,
            "a worker takes a few, a vmm_shareable buffer 1 in its owner, and 1 while it is imported",
        ),
        mappings(),
        finite(
            "address space",
            Resource::AddressSpace,
            bytes,
            u64::MAX,
            "what is mapped beyond it is refused",
        ),
        finite(
            "file size",
            Resource::FileSize,
            bytes,
            u64::MAX,
            "a larger posix_shm buffer or output is refused: both are files",
        ),
        finite(
            "processes",
            Resource::Processes,
            count,
            256,
            "a worker takes 1, and the user's others count too",
        ),
        finite(
            "locked memory",
            Resource::LockedMemory,
            bytes,
            0,
            "a driver that pins a task's memory needs as much as that has; nothing else does",
        ),
        overcommit(),
    ]
}

fn count(number: u64) -> String {
    number.to_string()
}

/// A limit; one up to `low` counts as little, and so does any at all when that is the largest number.
fn finite(
    name: &'static str,
    resource: Resource,
    told: impl Fn(u64) -> String,
    low: u64,
    means: &'static str,
) -> Check {
    match limit(resource) {
        Ok(Limit { now: None, .. }) => Check::there(name, "no limit"),
        Ok(Limit { now: Some(now), highest }) => {
            let highest = highest.map_or_else(|| "without a limit".to_owned(), &told);
            let found = format!("{}, which can be raised to {highest}", told(now));
            if now > low { Check::there(name, found) } else { Check::lacking(name, found, means) }
        }
        Err(error) => Check::lacking(name, error, means),
    }
}

/// Mappings that a process may have: each buffer that a process has mapped is one.
fn mappings() -> Check {
    let name = "mappings";
    let means = "each buffer that a process has mapped takes 1: sysctl vm.max_map_count raises it";
    match number("/proc/sys/vm/max_map_count") {
        Ok(most) if most >= 65_530 => Check::there(name, format!("{most} in a process")),
        Ok(most) => Check::lacking(name, format!("{most} in a process"), means),
        Err(error) => Check::lacking(name, error, means),
    }
}

/// Whether the kernel promises more memory than it has.
fn overcommit() -> Check {
    let name = "overcommit";
    match number("/proc/sys/vm/overcommit_memory") {
        Ok(0) => Check::there(name, "0: by an estimate"),
        Ok(1) => Check::there(name, "1: always"),
        Ok(mode) => Check::lacking(
            name,
            format!("{mode}: never"),
            "a fork of a large process, and address space that is only reserved, may be refused",
        ),
        Err(error) => {
            Check::lacking(name, error, "whether a fork of a large process succeeds is found out by trying")
        }
    }
}

/// The number in a file of the kernel's.
fn number(path: &str) -> Result<u64, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    text.trim().parse().map_err(|_| format!("{path}: {:?} is no number", text.trim()))
}
