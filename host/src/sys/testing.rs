//! For tests: signals that interrupt every call of a thread, a fork that runs one function, and what a process holds open.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::error::retry;
use super::event::deadline;
use super::process::{Ending, Process, exit_now};
use super::signal;

/// Signals that came.
static INTERRUPTIONS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_interruption(_: i32) {
    INTERRUPTIONS.fetch_add(1, Ordering::Relaxed);
}

/// A signal to the thread that made this, every 20 microseconds until it is dropped. No call is resumed by itself.
pub(crate) struct Interruptions {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    before: u64,
}

impl Interruptions {
    pub(crate) fn begin() -> Self {
        // SAFETY: the handler only counts.
        unsafe { signal::handle(libc::SIGUSR2, count_interruption, 0) }.unwrap();
        // SAFETY: it takes nothing.
        let target = unsafe { libc::pthread_self() };
        let is_over = Arc::new(AtomicBool::new(false));
        let before = INTERRUPTIONS.load(Ordering::Relaxed);
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                // SAFETY: the target joins this thread before it ends.
                unsafe { libc::pthread_kill(target, libc::SIGUSR2) };
                std::thread::sleep(Duration::from_micros(20));
            }
        });
        Self { is_over, thread: Some(thread), before }
    }

    /// Signals that came since the beginning.
    pub(crate) fn count(&self) -> u64 {
        INTERRUPTIONS.load(Ordering::Relaxed).saturating_sub(self.before)
    }
}

impl Drop for Interruptions {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Runs a function in a fork of this process, without running any test's destructor there, and tells how it ended.
pub(crate) fn in_fork(child: impl FnOnce() -> i32) -> Ending {
    let process = start_fork(child);
    if !process.has_ended_by(deadline(Duration::from_secs(20))).unwrap() {
        process.send(libc::SIGKILL).unwrap();
    }
    assert!(
        process.has_ended_by(deadline(Duration::from_secs(20))).unwrap(),
        "it does not even end when it is killed"
    );
    process.ended().unwrap().unwrap()
}

/// Runs a function in a fork of this process, and goes on.
pub(crate) fn start_fork(child: impl FnOnce() -> i32) -> Process {
    // SAFETY: tests run in threads, so the child makes no call that could wait for a lock of another one: the allocator's are
    // looked after by the C library, and its function takes no others.
    match retry("fork", || unsafe { libc::fork() }).unwrap() {
        0 => exit_now(std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(101)),
        pid => Process::open(pid).unwrap(),
    }
}

/// Descriptors of this process whose file has that in its name.
pub(crate) fn open_files(name: &str) -> usize {
    let entries = fs::read_dir("/proc/self/fd").unwrap();
    let link = |entry: std::io::Result<fs::DirEntry>| fs::read_link(entry.ok()?.path()).ok();
    entries.filter_map(link).filter(|target| target.to_string_lossy().contains(name)).count()
}

/// Mappings of this process whose file has that in its name.
pub(crate) fn mappings(name: &str) -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains(name)).count()
}
