//! `bufabi check`: an answer for each of millions of records.

mod lines;
mod records;

use std::io::{IsTerminal, Write, stderr, stdin, stdout};
use std::time::{Duration, Instant};

use clap::Args;

use crate::failure::Failure;
use crate::table::counted;
use crate::terminal::tell;
use lines::{Line, Lines};
use records::{Checker, Kind, Outcome};

/// Bytes of a line, at most: 8 MiB of record, 200 times the arguments of the largest task. A longer line is unreadable.
const LINE_LIMIT: usize = 16 * 1024 * 1024;
/// Answers are written once there are so many bytes of them, or the input pauses.
const WRITE_AT: usize = 64 * 1024;

/// Reads records in hex from standard input, one to a line, and prints an answer for each.
///
/// A line that holds no record is answered with `unreadable`. Exit status: 2 if there was such a line, else 1 if a record broke
/// a rule.
#[derive(Args)]
#[command(after_help = "Lines have at most 16 MiB.

Examples:
  cut -d' ' -f1 tests/vectors/tensors.txt | bufabi check tensors
  cut -d' ' -f1,2 tests/vectors/chip.txt | bufabi check chip
  cut -d' ' -f1,2 tests/vectors/blobs.txt | bufabi check blobs
  cut -d' ' -f1,2 tests/vectors/overlaps.txt | bufabi check overlaps
  cut -d' ' -f1 tests/vectors/descriptors.txt | bufabi check descriptors | sort | uniq -c")]
pub(crate) struct Check {
    /// What the lines hold.
    kind: Kind,
}

/// How many lines came, and what became of them.
#[derive(Default)]
struct Tally {
    lines: u64,
    broken: u64,
    unreadable: u64,
    first_unreadable: u64,
    unsure: u64,
}

impl Tally {
    fn count(&mut self, outcome: Outcome) {
        self.lines = self.lines.saturating_add(1);
        match outcome {
            Outcome::Holds => {}
            Outcome::HoldsUnsure => self.unsure = self.unsure.saturating_add(1),
            Outcome::Breaks => self.broken = self.broken.saturating_add(1),
            Outcome::Unreadable => {
                if self.unreadable == 0 {
                    self.first_unreadable = self.lines;
                }
                self.unreadable = self.unreadable.saturating_add(1);
            }
        }
    }
}

impl Check {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut out = stdout().lock();
        let mut lines = Lines::new(stdin().lock(), LINE_LIMIT);
        let mut checker = Checker::new(self.kind);
        let mut answers = Vec::with_capacity(2 * WRITE_AT);
        let mut tally = Tally::default();
        let mut progress = Progress::new(!out.is_terminal());
        let mut open = true;
        while open {
            let mut written = Ok(());
            let read = lines.read(|line| {
                tally.count(match line {
                    Line::Whole(line) => checker.answer(line, &mut answers),
                    Line::TooLong => {
                        answers.extend_from_slice(b"unreadable");
                        Outcome::Unreadable
                    }
                });
                answers.push(b'\n');
                if answers.len() >= WRITE_AT && written.is_ok() {
                    written = out.write_all(&answers);
                    answers.clear();
                }
            });
            written.and_then(|()| out.write_all(&answers)).map_err(Failure::output)?;
            answers.clear();
            open = read.map_err(|error| Failure::usage(format!("standard input: {error}")))?;
            progress.show(tally.lines);
        }
        out.flush().map_err(Failure::output)?;
        progress.end();
        let Tally { lines, broken, unreadable, first_unreadable, unsure } = tally;
        if unsure > 0 {
            tell(format_args!(
                "{unsure} of {} passed the work bound and have the safe answer: 1 0\n",
                counted(lines, "pair", "pairs")
            ));
        }
        if unreadable > 0 {
            Err(Failure::usage(format!(
                "{unreadable} of {} {} unreadable, line {first_unreadable} first",
                counted(lines, "line", "lines"),
                if unreadable == 1 { "is" } else { "are" }
            )))
        } else if broken > 0 {
            let breaks = if broken == 1 { "breaks" } else { "break" };
            let records = counted(lines, "record", "records");
            Err(Failure::broken(format!("{broken} of {records} {breaks} a rule")))
        } else {
            Ok(())
        }
    }
}

/// A line on a terminal that says how far the work is.
struct Progress {
    started: Instant,
    /// When to show it next; `None` when nobody watches.
    next: Option<Duration>,
    shown: bool,
}

impl Progress {
    const STEP: Duration = Duration::from_millis(200);

    fn new(wanted: bool) -> Self {
        let next = (wanted && stderr().is_terminal()).then_some(Duration::from_secs(1));
        Self { started: Instant::now(), next, shown: false }
    }

    fn show(&mut self, lines: u64) {
        let elapsed = self.started.elapsed();
        if self.next.is_some_and(|next| elapsed >= next) {
            tell(format_args!("\r{lines} lines "));
            self.next = elapsed.checked_add(Self::STEP);
            self.shown = true;
        }
    }

    fn end(&self) {
        if self.shown {
            tell(format_args!("\r\x1b[K"));
        }
    }
}
