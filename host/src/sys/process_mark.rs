//! Which process is meant, for as long as the machine runs: a number alone is given out again, and means something else in another
//! namespace.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};

use super::error::OsError;
use super::process::current_pid;

/// The clock of process start times, ticks a second. It is the same on every Linux that has this ABI.
const TICKS_PER_SECOND: i64 = 100;

/// A process, told apart from every other one of this boot and, but for one in 64, of every other boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessMark {
    /// Its number, in its own namespace; less than 2^22.
    pub pid: u32,
    /// When it started, in ticks of 10 ms since boot, whatever its time namespace says; 36 bits are 21 years.
    pub start_ticks: u64,
    /// Its namespace of process numbers.
    pub pid_namespace: u32,
    /// 6 bits of the boot's random name.
    pub boot: u8,
}

/// What is known about a process that left something behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Liveness {
    /// It runs.
    Live,
    /// It has ended, provably.
    Dead,
    /// It cannot be seen from here: it ran in another namespace.
    Unknown,
}

impl ProcessMark {
    /// This process.
    ///
    /// # Errors
    /// [`OsError`] when /proc is not there.
    pub fn current() -> Result<Self, OsError> {
        // The answer is another one after a fork.
        static LAST: Mutex<Option<ProcessMark>> = Mutex::new(None);
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        match *last {
            Some(mark) if mark.pid == current_pid() => Ok(mark),
            Some(_) | None => {
                let pid = current_pid();
                let missing = OsError { call: "read /proc/self/stat", errno: libc::ESRCH };
                let start_ticks = start_ticks(pid)?.ok_or(missing)?;
                let mark = Self { pid, start_ticks, pid_namespace: pid_namespace()?, boot: boot()? };
                *last = Some(mark);
                Ok(mark)
            }
        }
    }

    /// Whether that process still runs, as far as it can be known from here.
    ///
    /// # Errors
    /// [`OsError`] when /proc cannot be read.
    pub fn liveness(&self) -> Result<Liveness, OsError> {
        let here = Self::current()?;
        if self.boot != here.boot {
            return Ok(Liveness::Dead);
        }
        if self.pid_namespace != here.pid_namespace {
            return Ok(Liveness::Unknown);
        }
        // The kernel rounds after it has added a time namespace's offset, so two readers can differ by a tick.
        let found = start_ticks(self.pid)?;
        let is_same = found.is_some_and(|ticks| ticks.abs_diff(self.start_ticks) <= 1);
        Ok(if is_same { Liveness::Live } else { Liveness::Dead })
    }
}

/// Threads of this process.
///
/// # Errors
/// [`OsError`] when /proc is not there.
pub fn thread_count() -> Result<u64, OsError> {
    let call = "read /proc/self/stat";
    let stat = fs::read_to_string("/proc/self/stat").map_err(|error| OsError::from_io(call, &error))?;
    number_field(&stat, 20).ok_or(OsError { call, errno: libc::EIO })
}

/// Since when a process runs, in ticks since boot; `None` when there is no such process, or only what is left of one
/// that nobody has waited for.
fn start_ticks(pid: u32) -> Result<Option<u64>, OsError> {
    let call = "read /proc/<pid>/stat";
    let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error)
            if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(OsError::from_io(call, &error)),
    };
    if matches!(field(&stat, 3), Some("Z" | "X" | "x")) {
        return Ok(None);
    }
    let seen = number_field(&stat, 22).ok_or(OsError { call, errno: libc::EIO })?;
    Ok(Some(seen.saturating_sub_signed(boot_offset_ticks())))
}

/// Field number `number` of a `stat` file, from 1. The second one is a name in parentheses, which may hold anything.
fn field(stat: &str, number: usize) -> Option<&str> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(number.checked_sub(3)?)
}

fn number_field(stat: &str, number: usize) -> Option<u64> {
    field(stat, number)?.parse().ok()
}

/// Ticks that this process's time namespace adds to the time since boot; 0 on a kernel without such namespaces.
fn boot_offset_ticks() -> i64 {
    let Ok(offsets) = fs::read_to_string("/proc/self/timens_offsets") else { return 0 };
    offsets
        .lines()
        .find_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let is_boot = matches!(words.next(), Some("boottime" | "7"));
            let seconds: i64 = words.next()?.parse().ok()?;
            let nanoseconds: i64 = words.next()?.parse().ok()?;
            let ticks = seconds.saturating_mul(TICKS_PER_SECOND).saturating_add(nanoseconds / 10_000_000);
            is_boot.then_some(ticks)
        })
        .unwrap_or(0)
}

/// The number of this process's namespace of process numbers.
fn pid_namespace() -> Result<u32, OsError> {
    let call = "stat /proc/self/ns/pid";
    let status = fs::metadata("/proc/self/ns/pid").map_err(|error| OsError::from_io(call, &error))?;
    u32::try_from(status.ino()).map_err(|_| OsError { call, errno: libc::EOVERFLOW })
}

/// 6 bits of the name that the kernel drew when it booted.
fn boot() -> Result<u8, OsError> {
    let call = "read /proc/sys/kernel/random/boot_id";
    let name = fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_err(|error| OsError::from_io(call, &error))?;
    let digits = name.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    Ok(digits.ok_or(OsError { call, errno: libc::EIO })? & 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_live_and_one_of_another_time_or_boot_is_dead() {
        let here = ProcessMark::current().unwrap();
        assert_eq!(here.liveness(), Ok(Liveness::Live));
        assert_eq!(ProcessMark { start_ticks: here.start_ticks / 2, ..here }.liveness(), Ok(Liveness::Dead));
        assert_eq!(ProcessMark { boot: here.boot ^ 1, ..here }.liveness(), Ok(Liveness::Dead));
        assert_eq!(ProcessMark { pid: (1 << 22) - 1, ..here }.liveness(), Ok(Liveness::Dead));
        let elsewhere = ProcessMark { pid_namespace: here.pid_namespace ^ 1, ..here };
        assert_eq!(elsewhere.liveness(), Ok(Liveness::Unknown));
    }

    #[test]
    fn a_process_that_nobody_waited_for_is_dead() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let here = ProcessMark::current().unwrap();
        let started = start_ticks(child.id()).unwrap();
        let mark = ProcessMark { pid: child.id(), start_ticks: started.unwrap_or(0), ..here };
        let limit = std::time::Instant::now().checked_add(std::time::Duration::from_secs(10)).unwrap();
        while mark.liveness() == Ok(Liveness::Live) {
            assert!(std::time::Instant::now() < limit, "it never ended");
            std::thread::yield_now();
        }
        assert_eq!(mark.liveness(), Ok(Liveness::Dead));
        child.wait().unwrap();
    }

    #[test]
    fn a_name_with_spaces_and_parentheses_moves_no_field() {
        let stat = "12 (a b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 9 0 777 99";
        assert_eq!(
            (field(stat, 3), number_field(stat, 20), number_field(stat, 22)),
            (Some("S"), Some(9), Some(777))
        );
        assert_eq!(field("no name", 3), None);
    }

    #[test]
    fn threads_are_counted() {
        let before = thread_count().unwrap();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || stopped.recv());
        assert!(thread_count().unwrap() > 1 && before >= 1);
        drop(stop);
        assert!(thread.join().unwrap().is_err());
    }
}
