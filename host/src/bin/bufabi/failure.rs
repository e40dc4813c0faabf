//! How a command ends when it does not end well: a line for a person, and an exit status for a script.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use bufabi_core::Fault;

use crate::terminal::{Plain, tell};

/// The exit status of a command that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// A wire rule, a right, a clash or a range is broken, or an output differs from what was expected.
    Broken,
    /// Wrong usage, an unreadable file, an unknown name.
    Usage,
    /// The machine or a process failed.
    Machine,
    /// Nobody reads on: whoever did has seen enough, which is no failure.
    ReaderGone,
}

impl Status {
    const fn number(self) -> u8 {
        match self {
            Self::Broken => 1,
            Self::Usage => 2,
            Self::Machine => 3,
            Self::ReaderGone => 0,
        }
    }
}

/// Why a command failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    status: Status,
    /// Where in the input it is, from the outside in: `tasks[2].args[1]`.
    place: String,
    /// What to tell; `None` when nobody listens or all has been told.
    message: Option<String>,
}

impl Failure {
    /// Something in the input breaks a rule.
    pub(crate) fn broken(message: impl Into<String>) -> Self {
        Self { status: Status::Broken, place: String::new(), message: Some(message.into()) }
    }

    /// The input could not be understood at all.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { status: Status::Usage, place: String::new(), message: Some(message.into()) }
    }

    /// The machine failed.
    #[expect(clippy::needless_pass_by_value, reason = "the signature of `map_err`")]
    pub(crate) fn machine(message: impl ToString) -> Self {
        Self { status: Status::Machine, place: String::new(), message: Some(message.to_string()) }
    }

    /// Something failed, and that is whose fault it was.
    pub(crate) fn of_fault(fault: Fault, message: impl ToString) -> Self {
        match fault {
            Fault::Machine | Fault::Capacity | Fault::Library => Self::machine(message),
            Fault::Nobody | Fault::Sender | Fault::Caller => Self::broken(message.to_string()),
        }
    }

    /// The same, within the field or entry `place`.
    pub(crate) fn at(mut self, place: &str) -> Self {
        let dot = if self.place.is_empty() { "" } else { "." };
        self.place = format!("{place}{dot}{}", self.place);
        self
    }

    /// The same, with the file in front of the place in it.
    pub(crate) fn in_file(mut self, path: &Path) -> Self {
        let colon = if self.place.is_empty() { "" } else { ": " };
        let place = std::mem::take(&mut self.place);
        self.message = self.message.map(|message| format!("{}: {place}{colon}{message}", path.display()));
        self
    }

    /// Standard output could not be written. When its reader has gone, the command ends there, quietly and well.
    #[expect(clippy::needless_pass_by_value, reason = "the signature of `map_err`")]
    pub(crate) fn output(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { status: Status::ReaderGone, place: String::new(), message: None };
        }
        Self::machine(format!("standard output: {error}"))
    }

    /// What a command comes to that has found a verdict and told it: a reader that has gone changes nothing about that, output that
    /// could not be written weighs more.
    pub(crate) fn conclude(written: io::Result<()>, verdict: Result<(), Self>) -> Result<(), Self> {
        match written {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Self::output(error)),
            Ok(()) | Err(_) => verdict,
        }
    }

    /// Tells standard error and gives the exit status.
    pub(crate) fn report(self) -> ExitCode {
        if let Some(message) = self.message {
            let Self { place, .. } = self;
            let colon = if place.is_empty() { "" } else { ": " };
            tell(format_args!("bufabi: {}\n", Plain(format_args!("{place}{colon}{message}"))));
        }
        ExitCode::from(self.status.number())
    }
}
