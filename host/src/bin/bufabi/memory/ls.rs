//! `bufabi ls`: shared memory, by the process that made it.

use std::io::{self, Write, stdout};

use clap::Args;
use serde_json::{Value, json};

use super::{Owner, State, listing, owners, total, write_owners, write_strangers};
use crate::failure::Failure;
use crate::table::counted;

/// Lists shared memory by the process that made it, and says whether that still runs.
///
/// A name says which process made the object: its number, when it started, its namespace of process numbers and the boot. What a process
/// that has ended left is orphaned, and `bufabi gc` removes it. Device memory of the software driver has no name: it goes
/// with the last process that has it.
#[derive(Args)]
#[command(after_help = "Examples:
  bufabi ls
  bufabi ls --json | jq '.owners[] | select(.state == \"orphaned\") | .nbytes'")]
pub(crate) struct Ls {
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

impl Ls {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let listing = listing()?;
        let owners = owners(&listing.objects);
        let mut out = io::BufWriter::new(stdout().lock());
        let written = if self.json {
            let strangers: Vec<_> = listing.strangers.iter().map(ToString::to_string).collect();
            let list: Vec<Value> = owners.iter().map(Owner::json).collect();
            writeln!(out, "{:#}", json!({"owners": list, "no_objects": strangers}))
        } else {
            write_owners(&mut out, &owners)
                .and_then(|()| write_total(&mut out, &owners))
                .and_then(|()| write_strangers(&mut out, &listing))
        };
        written.and_then(|()| out.flush()).map_err(Failure::output)
    }
}

fn write_total(out: &mut impl Write, owners: &[Owner]) -> io::Result<()> {
    if owners.is_empty() {
        return writeln!(out, "no shared memory of ours");
    }
    let (objects, nbytes) = total(owners, State::Orphaned);
    if objects == 0 {
        return writeln!(out, "nothing is orphaned");
    }
    writeln!(
        out,
        "{} of {nbytes} bytes orphaned: bufabi gc removes them",
        counted(objects, "object", "objects")
    )
}
