//! Starting another program that ends when the thread which started it does, and that is handed open files.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::error::OsError;
use super::process::{Process, current_pid};

/// Starts a program with a process group of its own, so that no key of the terminal ends it, and bound to this thread: when the
/// thread ends, whatever the cause, the kernel kills the program. It is handed `files` under the numbers that they have here.
///
/// # Errors
/// [`OsError`]: ENOENT when there is no such program, EACCES, EAGAIN, ENOMEM; there is no process then.
pub fn start(command: &mut Command, files: &[BorrowedFd<'_>]) -> Result<Process, OsError> {
    let parent = current_pid().cast_signed();
    let numbers: Vec<i32> = files.iter().map(AsRawFd::as_raw_fd).collect();
    let prepare = move || {
        // SAFETY: it takes numbers alone.
        check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
        // It may have ended before the kernel was asked to tell.
        // SAFETY: it takes nothing.
        if unsafe { libc::getppid() } != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        numbers.iter().try_for_each(|&number| {
            // SAFETY: it takes numbers alone; a file is open as long as the caller lends it, and this is a copy of its number.
            check(unsafe { libc::fcntl(number, libc::F_SETFD, 0) })
        })
    };
    command.process_group(0);
    // SAFETY: between fork and exec it makes system calls, allocates nothing and takes no lock.
    unsafe { command.pre_exec(prepare) };
    let mut child = command.spawn().map_err(|error| OsError::from_io("exec", &error))?;
    let pid = i32::try_from(child.id()).unwrap_or(0);
    Process::open(pid).inspect_err(|_| {
        // Nobody could watch it.
        let _ = child.kill();
        let _ = child.wait();
    })
}

fn check(answer: i32) -> io::Result<()> {
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::process::Stdio;
    use std::time::Duration;

    use super::*;
    use crate::sys::event::deadline;
    use crate::sys::memfd::{self, Pages};
    use crate::sys::process::Ending;

    fn ending(process: &Process) -> Ending {
        assert!(process.has_ended_by(deadline(Duration::from_secs(60))).unwrap());
        process.ended().unwrap().unwrap()
    }

    #[test]
    fn a_program_reads_the_files_that_it_is_handed() {
        let [script, number] = [&b"exit $(cat /proc/self/fd/$1)\n"[..], b"7"].map(|text| {
            let file = File::from(memfd::create(c"test", Pages::Ordinary).unwrap());
            io::Write::write_all(&mut &file, text).unwrap();
            file
        });
        let mut command = Command::new("sh");
        command.arg(format!("/proc/self/fd/{}", script.as_raw_fd())).arg(number.as_raw_fd().to_string());
        let process = start(command.stdin(Stdio::null()), &[script.as_fd(), number.as_fd()]).unwrap();
        assert_eq!(ending(&process), Ending::Exited { status: 7 });
    }

    #[test]
    fn a_program_ends_with_the_thread_that_started_it() {
        let file = File::open("/dev/null").unwrap();
        let process = std::thread::spawn(move || {
            start(Command::new("sleep").arg("1000").stdin(Stdio::null()), &[file.as_fd()]).unwrap()
        });
        let process = process.join().unwrap();
        assert_eq!(ending(&process), Ending::Killed { signal: libc::SIGKILL });
    }

    #[test]
    fn a_program_that_is_not_there_is_told() {
        let file = File::open("/dev/null").unwrap();
        let refused = start(&mut Command::new("/no/such/program"), &[file.as_fd()]).unwrap_err();
        assert_eq!(refused.errno, libc::ENOENT);
    }
}
