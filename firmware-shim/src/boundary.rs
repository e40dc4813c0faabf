//! Turns a result into the status that C sees, and says a refusal where a feature asks for it.

use core::fmt;

use bufabi_core::Code;

use crate::status::Status;

/// What a function answers: 0 when its work is done, else why it is not.
#[inline]
pub(crate) fn answer(operation: &'static str, work: impl FnOnce() -> Result<(), Code>) -> Status {
    answer_of(operation, || work().map(|()| Code::Ok.number()))
}

/// The same where the work has a status of its own to pass on: that of a function of the caller's.
#[inline]
pub(crate) fn answer_of(operation: &'static str, work: impl FnOnce() -> Result<Status, Code>) -> Status {
    work().unwrap_or_else(|code| {
        say(operation, code);
        code.number()
    })
}

/// The code of an error. What it says in words is lost: its formatting would be larger than all the rest.
#[inline]
pub(crate) fn noted(code: Code, _: &impl fmt::Display) -> Code {
    code
}

#[cfg(feature = "defmt")]
fn say(operation: &'static str, code: Code) {
    defmt::debug!("bufabi_{=str}: {=str}, fault of the {=str}", operation, code.name(), code.fault().name());
}

/// In pieces: the formatting of `core::fmt` would be larger than all the rest.
#[cfg(all(feature = "semihosting", target_arch = "arm"))]
fn say(operation: &'static str, code: Code) {
    let Ok(mut terminal) = cortex_m_semihosting::hio::hstdout() else { return };
    let pieces = ["bufabi_", operation, ": ", code.name(), ", fault of the ", code.fault().name(), "\n"];
    // A debugger that does not listen is no reason to stop.
    pieces.iter().all(|piece| terminal.write_all(piece.as_bytes()).is_ok());
}

/// In pieces: the formatting of `core::fmt` would be larger than all the rest.
#[cfg(all(feature = "semihosting", target_arch = "aarch64", target_os = "none"))]
fn say(operation: &'static str, code: Code) {
    use semihosting::io::Write;
    let Ok(mut terminal) = semihosting::io::stdout() else { return };
    let pieces = ["bufabi_", operation, ": ", code.name(), ", fault of the ", code.fault().name(), "\n"];
    // A debugger that does not listen is no reason to stop.
    pieces.iter().all(|piece| terminal.write_all(piece.as_bytes()).is_ok());
}

#[cfg(not(any(feature = "defmt", all(feature = "semihosting", target_os = "none"))))]
const fn say(_: &'static str, _: Code) {}
