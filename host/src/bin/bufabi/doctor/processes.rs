//! Processes: /proc, descriptors of processes, the namespaces that this one sees, and where it may run.

use std::{fs, thread};

use bufabi_host::sys::process::Process;
use bufabi_host::sys::process_mark::{ProcessMark, thread_count};
use bufabi_host::sys::random::random_bytes;

use super::Check;
use crate::table::counted;

pub(super) fn checks() -> Vec<Check> {
    vec![marks(), descriptors(), threads(), namespace(), processors(), randomness()]
}

/// Who made an object is told by /proc.
fn marks() -> Check {
    let name = "/proc";
    match ProcessMark::current() {
        Ok(mark) => Check::there(name, format!("this process is {}, and known by its start time", mark.pid)),
        Err(error) => Check::missing(
            name,
            error,
            "whose shared memory is whose cannot be told: mount the /proc of this namespace of processes",
        ),
    }
}

fn descriptors() -> Check {
    let name = "pidfd";
    match Process::current() {
        Ok(_) => Check::there(name, "a process can be watched for its end"),
        Err(error) => Check::missing(name, error, "no worker processes: Linux 5.4 has it"),
    }
}

/// A fork without exec needs a process of one thread.
fn threads() -> Check {
    let name = "threads";
    let means = "fork_shm and fork_cow buffers, and workers, need a process of one thread: something was loaded into this one";
    match thread_count() {
        Ok(1) => Check::there(name, "1: workers can be forked"),
        Ok(count) => Check::lacking(name, count, means),
        Err(error) => Check::missing(name, error, means),
    }
}

/// In a namespace of its own a process does not see who made objects elsewhere.
fn namespace() -> Check {
    let name = "process numbers";
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    match numbers.map(|numbers| numbers.split_ascii_whitespace().count()) {
        Some(0 | 1) => Check::there(name, "no namespace above this one is known of"),
        Some(depth) => Check::lacking(
            name,
            format!("in a namespace within {}", counted(depth.saturating_sub(1), "other", "others")),
            "what other namespaces left in a /dev/shm that they share with this one is listed, and kept by gc",
        ),
        None => Check::lacking(
            name,
            "/proc/self/status does not say",
            "what other namespaces left in /dev/shm is listed, and kept by gc",
        ),
    }
}

fn processors() -> Check {
    let name = "processors";
    match thread::available_parallelism() {
        Ok(count) if count.get() > 1 => Check::there(name, count),
        Ok(count) => Check::lacking(
            name,
            count,
            "a worker and its parent take turns: a task waits for a wake-up of some microseconds, and nobody spins",
        ),
        Err(error) => Check::lacking(name, error, "whether it is worth spinning is found out by trying"),
    }
}

fn randomness() -> Check {
    let name = "random bytes";
    match random_bytes::<8>() {
        Ok(_) => Check::there(name, "of the kernel"),
        Err(error) => Check::missing(name, error, "no identities: every owner draws its own"),
    }
}
