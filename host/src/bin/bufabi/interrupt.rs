//! A signal that asks the program to end: it ends as it does after any failure, and leaves nothing behind.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bufabi_host::sys::OsError;
use bufabi_host::sys::signal::ignores;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXCPU};
use signal_hook::flag;
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use crate::failure::Failure;

/// What a first signal leaves behind. A second one ends the program at once.
pub(crate) struct Interrupt {
    came: Arc<AtomicBool>,
    /// Can be read once a signal came, which wakes whoever waits.
    told: SignalDelivery<UnixStream, SignalOnly>,
}

impl Interrupt {
    /// From now on SIGINT, SIGTERM, SIGHUP and SIGXCPU are taken note of, but for those that whoever started the program had it ignore.
    pub(crate) fn on_signals() -> Result<Self, Failure> {
        let came = Arc::new(AtomicBool::new(false));
        let mut signals = Vec::new();
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGXCPU] {
            if ignores(signal).map_err(Failure::machine)? {
                continue;
            }
            // In this order: the first signal finds the flag clear, and sets it.
            flag::register_conditional_default(signal, Arc::clone(&came))
                .and_then(|_| flag::register(signal, Arc::clone(&came)))
                .map_err(|error| Failure::machine(format!("signal {signal}: {error}")))?;
            signals.push(signal);
        }
        // Behind the flags: whoever is woken finds his set.
        let (read, write) = UnixStream::pair().map_err(|error| {
            let errno = error.raw_os_error().unwrap_or_default();
            Failure::machine(OsError { call: "socketpair", errno })
        })?;
        read.set_nonblocking(true).map_err(Failure::machine)?;
        let told = SignalDelivery::with_pipe(read, write, SignalOnly, signals);
        Ok(Self { came, told: told.map_err(Failure::machine)? })
    }

    /// Can be read once a signal came.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.told.get_read().as_fd()
    }

    /// Fails once a signal came.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.came.load(Ordering::Relaxed) { Err(Failure::machine("interrupted")) } else { Ok(()) }
    }

    /// As [`check`](Self::check), for who was woken: it was not for this process if it was for one that had just been forked.
    pub(crate) fn check_woken(&self) -> Result<(), Failure> {
        // Read before the flag is looked at, so that no signal is lost.
        let mut told = self.told.get_read();
        while told.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
        self.check()
    }
}
