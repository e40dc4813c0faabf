//! Turns a result into the status that C sees, and says a refusal where a feature asks for it.

use bufabi_core::Code;

use crate::status::Status;

/// The status of a function's result.
#[inline]
pub(crate) fn answer(operation: &'static str, result: Result<(), Code>) -> Status {
    match result {
        Ok(()) => Code::Ok.number(),
        Err(code) => refused(operation, code),
    }
}

/// The status of a refusal, said once.
#[inline]
pub(crate) fn refused(operation: &'static str, code: Code) -> Status {
    say(operation, code);
    code.number()
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
