//! `bufabi gc`: removes the shared memory that processes left which have ended.

use std::io::{self, Write, stdout};

use bufabi_host::shm::ShmError;
use bufabi_host::shm::sweep::{Entry, Listing};
use clap::Args;
use serde_json::{Value, json};

use super::{Owner, State, listing, owners, total, write_owners, write_strangers};
use crate::failure::Failure;
use crate::table::counted;
use crate::terminal::{Plain, tell};

/// Failures that are told one by one; the others are counted.
const TOLD: usize = 10;

/// Removes this user's shared memory whose maker has provably ended.
///
/// What another user made, and what was made in a namespace that cannot be seen from here, stays. What cannot be removed is told, and
/// the rest is removed all the same.
#[derive(Args)]
#[command(after_help = "Exit status: 3 when something that should go could not be removed.

Examples:
  bufabi gc
  bufabi gc --json | jq .removed.nbytes")]
pub(crate) struct Gc {
    /// One JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

/// What came of it.
struct Swept {
    listing: Listing,
    removed: Vec<Entry>,
    kept: Vec<Entry>,
    failed: Vec<(Entry, ShmError)>,
}

impl Gc {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let swept = Swept::sweep(listing()?);
        let mut out = io::BufWriter::new(stdout().lock());
        let written = if self.json { swept.write_json(&mut out) } else { swept.write_text(&mut out) };
        Failure::conclude(written.and_then(|()| out.flush()), swept.verdict())
    }
}

impl Swept {
    fn sweep(listing: Listing) -> Self {
        let mut swept = Self { removed: Vec::new(), kept: Vec::new(), failed: Vec::new(), listing };
        for entry in &swept.listing.objects {
            let result = match State::of(entry) {
                State::Orphaned => entry.sweep(),
                State::Live | State::Unknown | State::OtherUser => Ok(false),
            };
            match result {
                Ok(true) => swept.removed.push(*entry),
                Ok(false) => swept.kept.push(*entry),
                Err(error) => swept.failed.push((*entry, error)),
            }
        }
        swept
    }

    fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        let (removed, kept) = (owners(&self.removed), owners(&self.kept));
        let (objects, nbytes) = total(&removed, State::Orphaned);
        writeln!(out, "{} of {nbytes} bytes removed", counted(objects, "object", "objects"))?;
        write_owners(out, &removed)?;
        if !kept.is_empty() {
            writeln!(out, "kept:")?;
            write_owners(out, &kept)?;
        }
        write_strangers(out, &self.listing)
    }

    fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        let removed = owners(&self.removed);
        let (objects, nbytes) = total(&removed, State::Orphaned);
        let list = |owners: &[Owner]| -> Vec<Value> { owners.iter().map(Owner::json).collect() };
        let failed = self.failed.iter();
        let failed =
            failed.map(|(entry, error)| json!({"name": entry.name.to_string(), "error": error.to_string()}));
        let strangers: Vec<_> = self.listing.strangers.iter().map(ToString::to_string).collect();
        let value = json!({
            "removed": {"objects": objects, "nbytes": nbytes, "owners": list(&removed)},
            "kept": list(&owners(&self.kept)),
            "failed": failed.collect::<Vec<_>>(),
            "no_objects": strangers,
        });
        writeln!(out, "{value:#}")
    }

    /// Fails when something is still there that should not be.
    fn verdict(&self) -> Result<(), Failure> {
        for (entry, error) in self.failed.iter().take(TOLD) {
            tell(format_args!("bufabi: {}: {}\n", entry.name, Plain(error)));
        }
        match self.failed.len() {
            0 => Ok(()),
            count => Err(Failure::machine(format!("{} not removed", counted(count, "object", "objects")))),
        }
    }
}
