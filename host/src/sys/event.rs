//! Sleeping until something happens: a doorbell that another process rings, and a watch over doorbells and processes.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::error::{OsError, retry};

/// Something that one process rings and another one hears, however often it was rung.
#[derive(Debug)]
pub struct Doorbell(OwnedFd);

impl Doorbell {
    /// A new doorbell. Processes forked afterwards share it.
    ///
    /// # Errors
    /// [`OsError`]: EMFILE, ENFILE, ENOMEM.
    pub fn new() -> Result<Self, OsError> {
        // SAFETY: it takes numbers alone.
        let fd = retry("eventfd", || unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: the call just opened it, and nobody else knows it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Rings it. A [`Watch`] that sleeps on it wakes.
    ///
    /// # Errors
    /// [`OsError`].
    pub fn ring(&self) -> Result<(), OsError> {
        let one = 1_u64;
        // SAFETY: the 8 bytes are readable.
        retry("write", || unsafe {
            libc::write(self.0.as_raw_fd(), (&raw const one).cast(), size_of_val(&one))
        })?;
        Ok(())
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What a [`Watch`] found, at most that many at once.
const EVENTS_AT_ONCE: usize = 16;

/// Sleeps until one of several doorbells was rung or one of several processes ended.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl Watch {
    /// A watch over nothing. It belongs to the process that made it.
    ///
    /// # Errors
    /// [`OsError`]: EMFILE, ENFILE, ENOMEM.
    pub fn new() -> Result<Self, OsError> {
        // SAFETY: it takes a number alone.
        let fd = retry("epoll_create1", || unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the call just opened it, and nobody else knows it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Watches a doorbell. Each ring is reported once and nothing need be read from it.
    ///
    /// # Errors
    /// [`OsError`]: ENOSPC past the user's limit of watches, ENOMEM.
    pub fn add_doorbell(&self, doorbell: &Doorbell, token: u64) -> Result<(), OsError> {
        self.add(doorbell.as_fd(), libc::EPOLLIN | libc::EPOLLET, token)
    }

    /// Watches a process by its descriptor. Its end is reported again and again until [`remove`](Self::remove).
    ///
    /// # Errors
    /// [`OsError`]: ENOSPC past the user's limit of watches, ENOMEM.
    pub fn add_process(&self, process: BorrowedFd<'_>, token: u64) -> Result<(), OsError> {
        self.add(process, libc::EPOLLIN, token)
    }

    /// Watches a socket. That it can be read is reported again and again as long as it is so.
    ///
    /// # Errors
    /// [`OsError`]: ENOSPC past the user's limit of watches, ENOMEM.
    pub fn add_socket(&self, socket: BorrowedFd<'_>, token: u64) -> Result<(), OsError> {
        self.add(socket, libc::EPOLLIN, token)
    }

    /// Watches all that another watch does, as long as anything there has happened that it has not told of.
    ///
    /// # Errors
    /// [`OsError`]: ENOSPC past the user's limit of watches, ENOMEM, ELOOP.
    pub fn add_watch(&self, watch: BorrowedFd<'_>, token: u64) -> Result<(), OsError> {
        self.add(watch, libc::EPOLLIN, token)
    }

    fn add(&self, fd: BorrowedFd<'_>, events: i32, token: u64) -> Result<(), OsError> {
        let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: token };
        let control = libc::EPOLL_CTL_ADD;
        // SAFETY: `event` is readable during the call.
        retry("epoll_ctl", || unsafe {
            libc::epoll_ctl(self.0.as_raw_fd(), control, fd.as_raw_fd(), &raw mut event)
        })?;
        Ok(())
    }

    /// Watches something no longer.
    ///
    /// # Errors
    /// [`OsError`]: ENOENT when it was not watched.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> Result<(), OsError> {
        let (control, none) = (libc::EPOLL_CTL_DEL, core::ptr::null_mut());
        // SAFETY: no event is read when one is removed.
        retry("epoll_ctl", || unsafe { libc::epoll_ctl(self.0.as_raw_fd(), control, fd.as_raw_fd(), none) })?;
        Ok(())
    }

    /// Sleeps until something happens or the time has come, and tells the token of each thing that happened. `None` is no
    /// limit. Says whether anything happened.
    ///
    /// # Errors
    /// [`OsError`].
    pub fn wait(&self, until: Option<Instant>, mut happened: impl FnMut(u64)) -> Result<bool, OsError> {
        let mut events = [const { MaybeUninit::<libc::epoll_event>::uninit() }; EVENTS_AT_ONCE];
        let limit = i32::try_from(EVENTS_AT_ONCE).unwrap_or(1);
        // The time left is worked out anew for each attempt, since a signal may interrupt many of them.
        // SAFETY: `events` has room for as many answers as said.
        let count = retry("epoll_wait", || unsafe {
            libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr().cast(), limit, milliseconds_until(until))
        })?;
        for event in events.iter().take(usize::try_from(count).unwrap_or(0)) {
            // SAFETY: the call wrote as many answers as it returned.
            let event = unsafe { event.assume_init_read() };
            happened(event.u64);
        }
        Ok(count > 0)
    }
}

impl AsFd for Watch {
    /// What another event loop can wait for: it can be read when something happened.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The moment so long from now; in a century at most, so that no clock passes its end.
#[must_use]
pub fn deadline(limit: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    let now = Instant::now();
    now.checked_add(limit.min(CENTURY)).unwrap_or(now)
}

/// Whole milliseconds from now on, rounded up so that nothing wakes too early; -1 is no limit.
pub(super) fn milliseconds_until(until: Option<Instant>) -> i32 {
    let Some(until) = until else { return -1 };
    let left = until.saturating_duration_since(Instant::now());
    i32::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]
mod tests {
    use super::*;

    fn tokens(watch: &Watch, milliseconds: u64) -> Vec<u64> {
        let mut tokens = Vec::new();
        watch
            .wait(Some(Instant::now() + Duration::from_millis(milliseconds)), |token| tokens.push(token))
            .unwrap();
        tokens
    }

    #[test]
    fn each_ring_wakes_once_and_nothing_need_be_read() {
        let (watch, first, second) =
            (Watch::new().unwrap(), Doorbell::new().unwrap(), Doorbell::new().unwrap());
        watch.add_doorbell(&first, 7).unwrap();
        watch.add_doorbell(&second, 8).unwrap();
        assert_eq!(tokens(&watch, 0), [0; 0]);
        for _ in 0..3 {
            first.ring().unwrap();
            assert_eq!(tokens(&watch, 1000), [7]);
            assert_eq!(tokens(&watch, 0), [0; 0]);
        }
        second.ring().unwrap();
        second.ring().unwrap();
        assert_eq!(tokens(&watch, 1000), [8]);
        watch.remove(second.as_fd()).unwrap();
        second.ring().unwrap();
        assert_eq!(tokens(&watch, 1), [0; 0]);
    }

    #[test]
    fn a_limit_that_no_clock_holds_is_far_away_and_not_over() {
        let year = Duration::from_secs(365 * 24 * 3600);
        assert!(deadline(Duration::MAX) > Instant::now() + 90 * year);
        assert!(deadline(Duration::ZERO) <= Instant::now());
    }

    #[test]
    fn a_limit_is_rounded_up_and_never_waits_forever() {
        assert_eq!(milliseconds_until(None), -1);
        assert_eq!(milliseconds_until(Some(Instant::now())), 0);
        let soon = Instant::now().checked_add(Duration::from_micros(1500)).unwrap();
        assert!((1..=2).contains(&milliseconds_until(Some(soon))));
    }
}
