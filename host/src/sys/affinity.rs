//! On which processors a process may run: who shares its only one with another must not spin.

use std::mem::MaybeUninit;

use super::error::{OsError, retry};

/// The one processor on which the process may run; `None` when there are several. `None` for `pid` is the calling thread.
///
/// # Errors
/// [`OsError`]: ESRCH when there is no such process; EINVAL on a machine of more than 1,024 processors.
pub fn only_processor(pid: Option<i32>) -> Result<Option<usize>, OsError> {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: `set` is writable and as large as said.
    retry("sched_getaffinity", || unsafe {
        libc::sched_getaffinity(pid.unwrap_or(0), size_of::<libc::cpu_set_t>(), set.as_mut_ptr())
    })?;
    // SAFETY: all zero bits are a set, the empty one, and the call wrote over some of them.
    let set = unsafe { set.assume_init() };
    let is_set = |processor: &usize| {
        // SAFETY: the processor lies within the set, since only those below its size are asked for.
        unsafe { libc::CPU_ISSET(*processor, &set) }
    };
    let processors = usize::try_from(libc::CPU_SETSIZE).unwrap_or(0);
    let mut allowed = (0..processors).filter(is_set);
    Ok(allowed.next().filter(|_| allowed.next().is_none()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_bound_to_one_processor_has_only_that_one() {
        let processor = std::thread::spawn(|| {
            let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
            // SAFETY: all zero bits are the empty set.
            let set = unsafe { set.assume_init_mut() };
            // SAFETY: processor 0 lies within the set.
            unsafe { libc::CPU_SET(0, set) };
            // SAFETY: the set is readable and as large as said.
            let done = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) };
            assert_eq!(done, 0);
            only_processor(None)
        })
        .join()
        .unwrap();
        assert_eq!(processor, Ok(Some(0)));
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert_eq!(only_processor(Some(i32::MAX)).unwrap_err().errno, libc::ESRCH);
    }
}
