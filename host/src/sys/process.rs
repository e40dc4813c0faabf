//! Processes: fork, descriptors of them, signals to them, and how they ended.

use core::fmt;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use bufabi_core::Code;

use super::error::{OsError, retry};
use super::event::milliseconds_until;
pub use super::own_number::current_pid;
use super::process_mark::thread_count;

/// Starts a process: a copy of this one, that runs `child` and ends with the status that it returns, or 101 if it panics. No
/// destructor of what it inherited runs in it.
///
/// # Errors
/// [`ForkError::SeveralThreads`]: what another thread holds, a lock above all, would be held in the child for ever.
/// [`ForkError::Os`]: EAGAIN past the limit of processes, ENOMEM, and EMFILE when the child's descriptor cannot be opened; there
/// is no child then.
pub fn fork(child: impl FnOnce() -> i32) -> Result<Process, ForkError> {
    let threads = thread_count().map_err(ForkError::Os)?;
    if threads != 1 {
        return Err(ForkError::SeveralThreads { threads });
    }
    // SAFETY: there is one thread, this one, so nobody else can have started another since, or holds anything.
    match retry("fork", || unsafe { libc::fork() }).map_err(ForkError::Os)? {
        0 => exit_now(catch_unwind(AssertUnwindSafe(child)).unwrap_or(101)),
        pid => Process::open(pid).map_err(|error| {
            // SAFETY: it takes numbers alone, and the number cannot mean another process: nobody has waited for it.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            // SAFETY: no status is asked for.
            let _ = retry("waitpid", || unsafe { libc::waitpid(pid, core::ptr::null_mut(), 0) });
            ForkError::Os(error)
        }),
    }
}

/// Why no process was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkError {
    /// This process has more threads than the one that calls.
    SeveralThreads {
        /// How many.
        threads: u64,
    },
    /// The operating system refused.
    Os(OsError),
}

impl ForkError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::SeveralThreads { .. } => Code::SeveralThreads,
            Self::Os(error) => error.code(),
        }
    }
}

impl fmt::Display for ForkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SeveralThreads { threads } => {
                write!(f, "a fork without exec needs a process of one thread, and this one has {threads}")
            }
            Self::Os(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ForkError {}

/// Names this process in what lists processes; of it are kept as many whole characters as 15 bytes hold.
///
/// # Errors
/// [`OsError`].
pub fn set_name(name: &str) -> Result<(), OsError> {
    let mut text = [0_u8; 16];
    let kept = name.as_bytes().iter().take(name.floor_char_boundary(15));
    text.iter_mut().zip(kept).for_each(|(slot, byte)| *slot = *byte);
    // SAFETY: the text ends in a NUL and outlives the call.
    retry("prctl", || unsafe { libc::prctl(libc::PR_SET_NAME, text.as_ptr()) })?;
    Ok(())
}

/// Whether some process of this namespace has that number, be it another user's or one that has ended and was not waited for.
///
/// # Errors
/// [`OsError`].
pub fn is_there(pid: i32) -> Result<bool, OsError> {
    // SAFETY: it takes numbers alone, and signal 0 is none.
    match retry("kill", || unsafe { libc::kill(pid, 0) }) {
        Ok(_) | Err(OsError { errno: libc::EPERM, .. }) => Ok(true),
        Err(OsError { errno: libc::ESRCH, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Ends this process at once: no destructor runs and no buffer is written out, since they are copies of the parent's.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: it takes a number alone and does not return.
    unsafe { libc::_exit(status) }
}

/// A process, by a descriptor that never comes to mean another one.
#[derive(Debug)]
pub struct Process {
    pid: i32,
    descriptor: OwnedFd,
}

impl Process {
    /// The process that now has that number.
    ///
    /// # Errors
    /// [`OsError`]: ESRCH, EMFILE, ENFILE; ENOSYS on a kernel before 5.3.
    pub fn open(pid: i32) -> Result<Self, OsError> {
        // SAFETY: it takes numbers alone.
        let fd = retry("pidfd_open", || unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
        let fd = i32::try_from(fd).map_err(|_| OsError { call: "pidfd_open", errno: libc::EBADF })?;
        // SAFETY: the call just opened it, and nobody else knows it. It is closed on exec.
        Ok(Self { pid, descriptor: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// This process.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn current() -> Result<Self, OsError> {
        Self::open(current_pid().cast_signed())
    }

    /// Its number. It says nothing once the process was waited for.
    #[must_use]
    pub const fn pid(&self) -> i32 {
        self.pid
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// [`OsError`]: ESRCH when it has ended, EPERM.
    pub fn send(&self, signal: i32) -> Result<(), OsError> {
        let info = core::ptr::null::<libc::siginfo_t>();
        // SAFETY: no information is passed along, so none is read.
        retry("pidfd_send_signal", || unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, self.descriptor.as_raw_fd(), signal, info, 0)
        })?;
        Ok(())
    }

    /// Waits until it has ended or the time has come, and says whether it has ended. It need be no child.
    ///
    /// # Errors
    /// [`OsError`].
    pub fn has_ended_by(&self, until: Instant) -> Result<bool, OsError> {
        let mut ask = libc::pollfd { fd: self.descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `ask` is one entry, readable and writable. The time left is worked out anew for each attempt.
        let ready =
            retry("poll", || unsafe { libc::poll(&raw mut ask, 1, milliseconds_until(Some(until))) })?;
        Ok(ready > 0)
    }

    /// How a child ended, after which nothing is left of it; `None` while it runs.
    ///
    /// # Errors
    /// [`OsError`]: ECHILD when it is no child of this process, or was waited for.
    pub fn ended(&self) -> Result<Option<Ending>, OsError> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let id = self.descriptor.as_raw_fd().cast_unsigned();
        // SAFETY: `info` is writable and large enough for one answer.
        retry("waitid", || unsafe {
            libc::waitid(libc::P_PIDFD, id, info.as_mut_ptr(), libc::WEXITED | libc::WNOHANG)
        })?;
        // SAFETY: all zero bits are an answer, which is the one for a child that runs.
        let info = unsafe { info.assume_init() };
        // SAFETY: the answer is about a child, or is zero.
        let pid = unsafe { info.si_pid() };
        // SAFETY: as above.
        let status = unsafe { info.si_status() };
        Ok(match (pid, info.si_code) {
            (0, _) => None,
            (_, libc::CLD_EXITED) => Some(Ending::Exited { status }),
            (_, _) => Some(Ending::Killed { signal: status }),
        })
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself.
    Exited {
        /// Its exit status.
        status: i32,
    },
    /// By a signal.
    Killed {
        /// The signal's number.
        signal: i32,
    },
    /// Nobody knows: something else in this process waited for it.
    Unknown,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Exited { status } => write!(f, "exited with status {status}"),
            Self::Killed { signal } => match signal_name(signal) {
                Some(name) => write!(f, "was killed by {name}"),
                None => write!(f, "was killed by signal {signal}"),
            },
            Self::Unknown => f.write_str("ended, and its status is lost"),
        }
    }
}

const fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGSYS => "SIGSYS",
        _ => return None,
    })
}
