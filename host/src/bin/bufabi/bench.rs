//! `bufabi bench`: what the parts cost on this machine, each beside something plain in the same run.

mod dependencies;
mod machine;
mod session;
mod tables;
mod views;
mod wire;

use std::io::{self, Write, stdout};

use clap::Args;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::table::write_table;
use crate::terminal::tell;
use session::{Figure, Session};

/// Measures what the parts cost on this machine, in nanoseconds, each beside a plain copy of the same bytes, or the bare system
/// calls, in the same run.
///
/// Each figure is the median of many passes, taken in turn with those of what stands beside it: a slow hour of a shared machine shows in
/// both. It takes a few seconds. docs/figures.md has more, measured longer.
#[derive(Args)]
#[command(after_help = "Examples:
  bufabi bench
  bufabi bench --only import
  bufabi bench --json | jq '.figures[] | select(.reached == false)'")]
pub(crate) struct Bench {
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Only what has this text in its name.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

impl Bench {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if cfg!(debug_assertions) {
            tell(format_args!("bufabi: built without optimisation: these figures say little\n"));
        }
        let mut session = Session::new(self.only.unwrap_or_default());
        // First what forks, which a process of several threads cannot.
        machine::round_trips(&mut session)?;
        wire::checks(&mut session)?;
        wire::blobs(&mut session)?;
        views::relations(&mut session)?;
        views::submit_checks(&mut session)?;
        tables::imports(&mut session)?;
        tables::owners(&mut session)?;
        machine::imports(&mut session)?;
        dependencies::lookups(&mut session)?;
        dependencies::submits(&mut session)?;
        let figures = session.finish();
        if figures.is_empty() {
            return Err(Failure::usage("no figure has that text in its name").at("--only"));
        }
        let mut out = io::BufWriter::new(stdout().lock());
        let written = if self.json { write_json(&mut out, &figures) } else { write_text(&mut out, &figures) };
        Failure::conclude(written.and_then(|()| out.flush()), Ok(()))
    }
}

fn write_text(out: &mut impl Write, figures: &[Figure]) -> io::Result<()> {
    let titles = ["what", "ns", "goal", "", "beside it", "ns"];
    let mut rows = vec![titles.map(str::to_owned)];
    for figure in figures {
        rows.push([
            figure.name.clone(),
            number(figure.nanoseconds),
            figure.goal.map_or_else(String::new, number),
            match figure.is_reached() {
                Some(true) => "reached".to_owned(),
                Some(false) => "missed".to_owned(),
                None => String::new(),
            },
            figure.beside.clone(),
            number(figure.beside_nanoseconds),
        ]);
    }
    write_table(out, &rows, [false, true, true, false, false, true])
}

/// Tenths below a hundred, whole nanoseconds above.
fn number(nanoseconds: f64) -> String {
    if nanoseconds < 100.0 { format!("{nanoseconds:.1}") } else { format!("{nanoseconds:.0}") }
}

fn write_json(out: &mut impl Write, figures: &[Figure]) -> io::Result<()> {
    let list: Vec<Value> = figures
        .iter()
        .map(|figure| {
            json!({
                "name": figure.name,
                "nanoseconds": figure.nanoseconds,
                "goal": figure.goal,
                "reached": figure.is_reached(),
                "beside": figure.beside,
                "beside_nanoseconds": figure.beside_nanoseconds,
                "passes": figure.passes,
            })
        })
        .collect();
    let is_optimised = !cfg!(debug_assertions);
    writeln!(out, "{:#}", json!({"is_optimised": is_optimised, "figures": list}))
}
