//! `bufabi doctor`: what this machine offers, and what each lack means.

mod devices;
mod limits;
mod memory;
mod processes;

use std::fmt;
use std::io::{self, Write, stdout};

use clap::Args;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::table::counted;
use crate::terminal::Plain;

/// Tells what this machine offers, by trying it, and what each lack means.
#[derive(Args)]
#[command(after_help = "Exit status: 3 when something is missing without which no task runs.

Examples:
  bufabi doctor
  bufabi doctor --json | jq '.checks[] | select(.state != \"there\")'")]
pub(crate) struct Doctor {
    /// One JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// Whether something is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is.
    There,
    /// It is not, or there is little of it; what that means is said.
    Lacking,
    /// It is not, and no task runs without it.
    Missing,
}

impl State {
    const fn name(self) -> &'static str {
        match self {
            Self::There => "there",
            Self::Lacking => "lacking",
            Self::Missing => "missing",
        }
    }
}

/// One thing that a machine may offer.
struct Check {
    name: &'static str,
    state: State,
    /// What was found, or what the machine answered.
    found: String,
    /// What follows from it; empty for nothing.
    means: &'static str,
}

impl Check {
    fn there(name: &'static str, found: impl fmt::Display) -> Self {
        Self { name, state: State::There, found: found.to_string(), means: "" }
    }

    fn lacking(name: &'static str, found: impl fmt::Display, means: &'static str) -> Self {
        Self { name, state: State::Lacking, found: found.to_string(), means }
    }

    fn missing(name: &'static str, found: impl fmt::Display, means: &'static str) -> Self {
        Self { name, state: State::Missing, found: found.to_string(), means }
    }
}

impl Doctor {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let checks: Vec<Check> = [memory::checks(), devices::checks(), processes::checks(), limits::checks()]
            .into_iter()
            .flatten()
            .collect();
        let mut out = io::BufWriter::new(stdout().lock());
        let written = if self.json { write_json(&mut out, &checks) } else { write_text(&mut out, &checks) };
        let missing = checks.iter().filter(|check| check.state == State::Missing).count();
        let verdict = match missing {
            0 => Ok(()),
            count => {
                let things = counted(count, "thing is", "things are");
                Err(Failure::machine(format!("{things} missing without which no task runs")))
            }
        };
        Failure::conclude(written.and_then(|()| out.flush()), verdict)
    }
}

fn write_text(out: &mut impl Write, checks: &[Check]) -> io::Result<()> {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    for Check { name, state, found, means } in checks {
        writeln!(out, "{:<7}  {name:<width$}  {}", state.name(), Plain(found))?;
        if !means.is_empty() {
            writeln!(out, "{:7}  {:width$}  {means}", "", "")?;
        }
    }
    Ok(())
}

fn write_json(out: &mut impl Write, checks: &[Check]) -> io::Result<()> {
    let list = checks.iter().map(|Check { name, state, found, means }| {
        let means = if means.is_empty() { Value::Null } else { Value::from(*means) };
        json!({"name": name, "state": state.name(), "found": found, "means": means})
    });
    writeln!(out, "{:#}", json!({"checks": list.collect::<Vec<_>>()}))
}

/// A number of bytes in its largest unit, as `24.0 GiB`.
fn bytes(nbytes: u64) -> String {
    const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match UNITS.into_iter().find(|&(shift, _)| nbytes >> shift > 0) {
        Some((shift, unit)) => {
            // Tenths, rounded down: what is said to be free is.
            let tenths = u128::from(nbytes).saturating_mul(10) >> shift;
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        }
        None => counted(nbytes, "byte", "bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_in_their_largest_unit_and_never_as_more() {
        for (nbytes, told) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            ((1 << 20) - 1, "1023.9 KiB"),
            (3 << 29, "1.5 GiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(bytes(nbytes), told);
        }
    }
}
