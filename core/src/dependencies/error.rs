//! What a tracker answers when it cannot do what it was asked; the state is as it was then.

use core::fmt;

use crate::code::Code;

/// Which capacity a task would pass. It was not submitted, and nothing has changed.
///
/// Room is asked for before anything is freed that the task itself covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// More arguments than one submit may have, those without dependencies not counted.
    Arguments {
        /// The capacity.
        capacity: u32,
    },
    /// It would wait in more ways than one submit may: an edge for each task before it and each hazard.
    FanIn {
        /// The capacity.
        capacity: u32,
    },
    /// Every task that it can hold has not been retired.
    Tasks {
        /// The capacity.
        capacity: u32,
    },
    /// It names more backings than are left.
    Backings {
        /// The capacity.
        capacity: u32,
    },
    /// It has more views than entries are left.
    Entries {
        /// Entries that it needs.
        needed: u32,
        /// Entries that are left.
        left: u32,
    },
    /// Its views have more pieces than are left.
    Pieces {
        /// Pieces that it needs.
        needed: u32,
        /// Pieces that are left.
        left: u32,
    },
    /// It waits for more tasks than links are left: the fan-out of all tasks together.
    Links {
        /// Links that it needs.
        needed: u32,
        /// Links that are left.
        left: u32,
    },
}

impl SubmitError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Arguments { .. } => Code::TrackerArguments,
            Self::FanIn { .. } => Code::TrackerFanIn,
            Self::Tasks { .. } => Code::TrackerTasks,
            Self::Backings { .. } => Code::TrackerBackings,
            Self::Entries { .. } => Code::TrackerEntries,
            Self::Pieces { .. } => Code::TrackerPieces,
            Self::Links { .. } => Code::TrackerLinks,
        }
    }
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Arguments { capacity } => {
                write!(f, "the tracker takes at most {capacity} arguments of one task")
            }
            Self::FanIn { capacity } => write!(f, "the tracker takes at most {capacity} edges to one task"),
            Self::Tasks { capacity } => write!(f, "the tracker holds {capacity} tasks, and none was retired"),
            Self::Backings { capacity } => {
                write!(f, "the tracker holds {capacity} backings, and all have live views")
            }
            Self::Entries { needed, left } => {
                write!(f, "the task needs {needed} entries of the tracker, and {left} are left")
            }
            Self::Pieces { needed, left } => {
                write!(f, "the task needs {needed} pieces of the tracker, and {left} are left")
            }
            Self::Links { needed, left } => {
                write!(f, "the task waits for {needed} others, and the tracker has {left} links left")
            }
        }
    }
}

impl core::error::Error for SubmitError {}

/// The handle's task has been retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotTracked;

impl NotTracked {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        Code::NotTracked
    }
}

impl fmt::Display for NotTracked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task is not in the tracker: it has been retired")
    }
}

impl core::error::Error for NotTracked {}
