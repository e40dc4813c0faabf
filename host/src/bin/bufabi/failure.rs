//! How a command ends when it does not end well: a line for a person, and an exit status for a script.

use std::io;
use std::process::ExitCode;

/// The exit status of a command that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// A wire rule, a right, a clash or a range is broken, or an output differs from what was expected.
    Broken,
    /// Wrong usage, an unreadable file, an unknown name.
    Usage,
    /// The machine or a process failed.
    Machine,
}

impl Status {
    const fn number(self) -> u8 {
        match self {
            Self::Broken => 1,
            Self::Usage => 2,
            Self::Machine => 3,
        }
    }
}

/// Why a command failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    status: Status,
    /// What to tell; `None` when nobody listens or all has been told.
    message: Option<String>,
}

impl Failure {
    /// Something in the input breaks a rule.
    pub(crate) fn broken(message: impl Into<String>) -> Self {
        Self { status: Status::Broken, message: Some(message.into()) }
    }

    /// The input could not be understood at all.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { status: Status::Usage, message: Some(message.into()) }
    }

    /// The machine failed.
    pub(crate) fn machine(message: impl Into<String>) -> Self {
        Self { status: Status::Machine, message: Some(message.into()) }
    }

    /// Standard output could not be written. That its reader has gone needs no words.
    #[expect(clippy::needless_pass_by_value, reason = "the signature of `map_err`")]
    pub(crate) fn output(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { status: Status::Machine, message: None };
        }
        Self::machine(format!("standard output: {error}"))
    }

    /// Tells standard error and gives the exit status.
    pub(crate) fn report(self) -> ExitCode {
        if let Some(message) = self.message {
            eprintln!("bufabi: {message}");
        }
        ExitCode::from(self.status.number())
    }
}
