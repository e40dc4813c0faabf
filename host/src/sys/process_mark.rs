//! Which process is meant, for as long as the machine runs: a number alone is given out again, and means something else in another
//! namespace.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};

use super::error::OsError;
use super::process::{current_pid, is_there};

/// The clock of process start times, ticks a second. It is the same on every Linux that has this ABI.
const TICKS_PER_SECOND: i64 = 100;
/// What fails when this process's own `stat` file cannot be read.
const READ_OWN_STAT: &str = "read /proc/self/stat";

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
                let (pid, call) = (current_pid(), READ_OWN_STAT);
                let stat = read_stat("/proc/self/stat").map_err(|error| OsError::from_io(call, &error))?;
                // A /proc of another namespace numbers its processes otherwise, and would tell of somebody else.
                if stat.split_ascii_whitespace().next().and_then(|first| first.parse().ok()) != Some(pid) {
                    return Err(OsError { call, errno: libc::ESRCH });
                }
                let start_ticks = start_ticks(&stat).ok_or(OsError { call, errno: libc::EIO })?;
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
        Ok(match find(self.pid)? {
            // The kernel rounds after it has added a time namespace's offset, so two readers can differ by a tick.
            Found::Since(ticks) if ticks.abs_diff(self.start_ticks) <= 1 => Liveness::Live,
            Found::Since(_) | Found::Nobody => Liveness::Dead,
            Found::Hidden => Liveness::Unknown,
        })
    }
}

/// What a process calls itself, at most 15 bytes; `None` when there is none of that number, or it cannot be seen.
#[must_use]
pub fn command_name(pid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(&name)).into_owned())
}

/// Threads of this process.
///
/// # Errors
/// [`OsError`] when /proc is not there.
pub fn thread_count() -> Result<u64, OsError> {
    let call = READ_OWN_STAT;
    let stat = read_stat("/proc/self/stat").map_err(|error| OsError::from_io(call, &error))?;
    number_field(&stat, 20).ok_or(OsError { call, errno: libc::EIO })
}

/// What there is under a process number.
enum Found {
    /// Nothing, or what is left of a process that nobody has waited for.
    Nobody,
    /// A process of which /proc does not tell this user.
    Hidden,
    /// A process that has run since so many ticks after the boot.
    Since(u64),
}

fn find(pid: u32) -> Result<Found, OsError> {
    let call = "read /proc/<pid>/stat";
    let stat = match read_stat(&format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        // That it is not listed proves nothing: /proc can be told to hide what this user may not look into.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
                || error.raw_os_error() == Some(libc::ESRCH) =>
        {
            return Ok(if is_there(pid.cast_signed())? { Found::Hidden } else { Found::Nobody });
        }
        Err(error) => return Err(OsError::from_io(call, &error)),
    };
    // The first thread of a process can end before the others do: it is a zombie then, and the process lives.
    let is_over = match field(&stat, 3) {
        Some("Z") => number_field(&stat, 20).is_none_or(|threads| threads <= 1),
        Some("X" | "x") => true,
        Some(_) | None => false,
    };
    if is_over {
        return Ok(Found::Nobody);
    }
    start_ticks(&stat).map(Found::Since).ok_or(OsError { call, errno: libc::EIO })
}

/// A `stat` file. The process's name in it is any bytes, and need not be text.
fn read_stat(path: &str) -> io::Result<String> {
    fs::read(path).map(|stat| String::from_utf8_lossy(&stat).into_owned())
}

/// Since when a process runs, in ticks since boot, by its `stat` file.
fn start_ticks(stat: &str) -> Option<u64> {
    Some(number_field(stat, 22)?.saturating_sub_signed(boot_offset_ticks()))
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
    use crate::sys::testing::start_fork;

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
        let start_ticks = match find(child.id()).unwrap() {
            Found::Since(ticks) => ticks,
            Found::Nobody | Found::Hidden => 0,
        };
        let mark = ProcessMark { pid: child.id(), start_ticks, ..here };
        let limit = std::time::Instant::now().checked_add(std::time::Duration::from_secs(10)).unwrap();
        while mark.liveness() == Ok(Liveness::Live) {
            assert!(std::time::Instant::now() < limit, "it never ended");
            std::thread::yield_now();
        }
        assert_eq!(mark.liveness(), Ok(Liveness::Dead));
        child.wait().unwrap();
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_lives() {
        let process = start_fork(|| {
            std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_secs(60)));
            // SAFETY: it takes a number alone, and ends this thread and nothing else.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
            1
        });
        let pid = process.pid().cast_unsigned();
        let is_zombie = || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            field(&stat, 3) == Some("Z")
        };
        let limit = std::time::Instant::now().checked_add(std::time::Duration::from_secs(10)).unwrap();
        while !is_zombie() {
            assert!(std::time::Instant::now() < limit, "its first thread never ended");
            std::thread::yield_now();
        }
        let Found::Since(start_ticks) = find(pid).unwrap() else { panic!("it lives") };
        let mark = ProcessMark { pid, start_ticks, ..ProcessMark::current().unwrap() };
        assert_eq!(mark.liveness(), Ok(Liveness::Live));
        process.send(libc::SIGKILL).unwrap();
        while process.ended().unwrap().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(mark.liveness(), Ok(Liveness::Dead));
    }

    #[test]
    fn this_process_has_a_name_and_one_that_is_not_there_has_none() {
        assert!(command_name(current_pid()).is_some_and(|name| !name.is_empty()));
        assert_eq!(command_name((1 << 22) - 1), None);
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
    fn a_name_that_is_no_text_hides_nothing() {
        let process = start_fork(|| {
            // SAFETY: the name ends in a NUL and outlives the call.
            unsafe { libc::prctl(libc::PR_SET_NAME, c"\xff) Z 0".as_ptr()) };
            let here = ProcessMark::current().unwrap();
            assert_eq!((here.liveness(), thread_count()), (Ok(Liveness::Live), Ok(1)));
            std::thread::sleep(std::time::Duration::from_secs(60));
            0
        });
        let pid = process.pid().cast_unsigned();
        let limit = std::time::Instant::now().checked_add(std::time::Duration::from_secs(10)).unwrap();
        while !command_name(pid).is_some_and(|name| name.starts_with('\u{fffd}')) {
            assert!(std::time::Instant::now() < limit, "it never named itself");
            std::thread::yield_now();
        }
        let found = find(pid);
        process.send(libc::SIGKILL).unwrap();
        while process.ended().unwrap().is_none() {
            std::thread::yield_now();
        }
        assert!(matches!(found, Ok(Found::Since(_))));
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
