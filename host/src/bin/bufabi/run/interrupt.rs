//! A signal that asks the program to end: it ends as it does after any failure, and leaves nothing behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bufabi_host::sys::signal::ignores;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXCPU};
use signal_hook::flag;

use crate::failure::Failure;

/// Set by the first signal. A second one ends the program at once.
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on SIGINT, SIGTERM, SIGHUP and SIGXCPU are taken note of, but for those that whoever started the program had it ignore.
    pub(super) fn on_signals() -> Result<Self, Failure> {
        let flag = Arc::new(AtomicBool::new(false));
        let failed = |signal| move |error| Failure::machine(format!("signal {signal}: {error}"));
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGXCPU] {
            if ignores(signal).map_err(|error| Failure::machine(error.to_string()))? {
                continue;
            }
            // In this order: the first signal finds the flag clear, and sets it.
            flag::register_conditional_default(signal, Arc::clone(&flag))
                .and_then(|_| flag::register(signal, Arc::clone(&flag)))
                .map_err(failed(signal))?;
        }
        Ok(Self(flag))
    }

    /// Fails once a signal came.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.0.load(Ordering::Relaxed) { Err(Failure::machine("interrupted")) } else { Ok(()) }
    }
}
