//! Shared memory by who made it, for `bufabi ls` and `bufabi gc`.

mod gc;
mod ls;

use std::collections::BTreeMap;
use std::io::{self, Write};

use bufabi_host::shm::sweep::{self, Entry, Listing};
use bufabi_host::sys::process_mark::{Liveness, ProcessMark, command_name};
use bufabi_host::sys::socket::current_user;
use serde_json::{Value, json};

pub(crate) use gc::Gc;
pub(crate) use ls::Ls;

use crate::failure::Failure;
use crate::table::{counted, write_table};

/// What is known of the process that made objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It runs.
    Live,
    /// It has ended: what it left is of no use to anybody.
    Orphaned,
    /// It ran, or runs, where this process cannot see it.
    Unknown,
    /// It is another user's, whose business that is.
    OtherUser,
}

impl State {
    fn of(entry: &Entry) -> Self {
        match entry.maker {
            _ if entry.uid != current_user() => Self::OtherUser,
            Liveness::Live => Self::Live,
            Liveness::Dead => Self::Orphaned,
            Liveness::Unknown => Self::Unknown,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Orphaned => "orphaned",
            Self::Unknown => "unknown",
            Self::OtherUser => "other_user",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Orphaned => "orphaned",
            Self::Unknown => "unknown: of a process that cannot be seen from here",
            Self::OtherUser => "another user's",
        }
    }
}

/// The objects of one process.
struct Owner {
    mark: ProcessMark,
    uid: u32,
    state: State,
    /// What the process calls itself, if it runs.
    command: Option<String>,
    objects: u64,
    nbytes: u64,
}

impl Owner {
    fn json(&self) -> Value {
        json!({
            "process": self.mark.pid,
            "start_ticks": self.mark.start_ticks,
            "pid_namespace": self.mark.pid_namespace,
            "user": self.uid,
            "command": self.command,
            "state": self.state.name(),
            "objects": self.objects,
            "nbytes": self.nbytes,
        })
    }
}

/// All objects that have a name of ours.
fn listing() -> Result<Listing, Failure> {
    sweep::list().map_err(|error| Failure::machine(format!("{}: {error}", sweep::FOLDER)))
}

/// Who made objects, in the order of process numbers.
fn owners<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<Owner> {
    let mut owners = BTreeMap::new();
    for entry in entries {
        let ProcessMark { pid, start_ticks, pid_namespace, boot } = entry.name.maker;
        let owner = owners.entry((pid, start_ticks, pid_namespace, boot, entry.uid)).or_insert_with(|| {
            let is_live = entry.maker == Liveness::Live;
            Owner {
                mark: entry.name.maker,
                uid: entry.uid,
                state: State::of(entry),
                command: if is_live { command_name(pid) } else { None },
                objects: 0,
                nbytes: 0,
            }
        });
        owner.objects = owner.objects.saturating_add(1);
        owner.nbytes = owner.nbytes.saturating_add(entry.nbytes);
    }
    owners.into_values().collect()
}

/// A table of owners, or that there is none.
fn write_owners(out: &mut impl Write, owners: &[Owner]) -> io::Result<()> {
    if owners.is_empty() {
        return Ok(());
    }
    let mut rows = vec![["process", "command", "user", "objects", "bytes", "state"].map(str::to_owned)];
    for owner in owners {
        rows.push([
            owner.mark.pid.to_string(),
            owner.command.clone().unwrap_or_else(|| "-".to_owned()),
            owner.uid.to_string(),
            owner.objects.to_string(),
            owner.nbytes.to_string(),
            owner.state.words().to_owned(),
        ]);
    }
    write_table(out, &rows, [true, false, true, true, true, false])
}

/// Objects and bytes of the owners in a state.
fn total(owners: &[Owner], state: State) -> (u64, u64) {
    let of_state = owners.iter().filter(|owner| owner.state == state);
    of_state.fold((0, 0), |(objects, nbytes), owner| {
        (objects.saturating_add(owner.objects), nbytes.saturating_add(owner.nbytes))
    })
}

/// What has a name of ours and is no object.
fn write_strangers(out: &mut impl Write, listing: &Listing) -> io::Result<()> {
    let count = listing.strangers.len();
    if let Some(first) = listing.strangers.first() {
        let things = counted(count, "entry", "entries");
        let are = if count == 1 { "is no object" } else { "are no objects" };
        writeln!(out, "{things} with a name of ours {are}, and left alone: {first} first")?;
    }
    Ok(())
}
