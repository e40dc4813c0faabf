//! Devices: the Ascend driver, and a machine that stands for a chip.

use std::env;
use std::path::PathBuf;

use bufabi_host::sys::ascendcl::{AscendCl, LoadError};

use super::Check;

/// The machine in which firmware runs as a chip of a run.
const QEMU: &str = "qemu-system-aarch64";

pub(super) fn checks() -> Vec<Check> {
    vec![driver(), qemu()]
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

fn qemu() -> Check {
    let name = "QEMU";
    let path = env::var_os("PATH").unwrap_or_default();
    let found: Option<PathBuf> =
        env::split_paths(&path).map(|folder| folder.join(QEMU)).find(|program| program.is_file());
    match found {
        Some(program) => Check::there(name, program.display()),
        None => {
            let found = format!("no {QEMU} in PATH");
            Check::lacking(name, found, "no chip that runs firmware: apt-get install qemu-system-arm")
        }
    }
}
