//! Devices: the Ascend driver, and a machine that stands for a chip.

use bufabi_host::device::{QemuOptions, find_program};
use bufabi_host::sys::ascendcl::{AscendCl, LoadError};

use super::Check;

pub(super) fn checks() -> Vec<Check> {
    vec![driver(), emulator(), firmware()]
}

fn driver() -> Check {
    let name = "CANN driver";
    let means = "chips are simulated, and vmm_shareable buffers are memory of the host";
    match AscendCl::load() {
        Ok(_) => Check::there(name, "loaded and initialised"),
        Err(LoadError::LibraryMissing) => {
            let complaint = AscendCl::complaint();
            Check::lacking(name, complaint.as_deref().unwrap_or(AscendCl::NAMES), means)
        }
        Err(LoadError::SymbolMissing(symbol)) => {
            Check::lacking(name, format!("its library lacks the function {symbol}"), means)
        }
        Err(LoadError::Acl(error)) => Check::lacking(name, error, means),
    }
}

/// The machine in which firmware runs as a chip of a run.
fn emulator() -> Check {
    let name = "QEMU";
    let named = QemuOptions::emulator_from_environment();
    match find_program(&named) {
        Some(program) => Check::there(name, program.display()),
        None => {
            let found = format!("no {}", named.display());
            Check::lacking(
                name,
                found,
                "no chips of the device \"qemu\": apt-get install qemu-system-arm has it",
            )
        }
    }
}

/// What runs in it.
fn firmware() -> Check {
    let name = "firmware";
    let means = "no chips of the device \"qemu\": BUFABI_FIRMWARE names their image, and examples/README.md says how to build one";
    match QemuOptions::from_environment() {
        Ok(options) if options.firmware.is_file() => Check::there(name, options.firmware.display()),
        Ok(options) => Check::lacking(name, format!("{} is no file", options.firmware.display()), means),
        Err(error) => Check::lacking(name, error, means),
    }
}
