//! A region's operations: bytes in and out of PAYLOAD, and counters that one side notifies and the other side tests.

use core::fmt;
use core::time::Duration;

use super::access::{AccessError, Place, RegionAccess};
use super::clock::{Clock, Patience, Watch};
use crate::code::Code;
use crate::wire::wire_enum::wire_enum;

wire_enum! {
    /// What a notify does with the counter.
    pub enum Notification {
        /// The value replaces what was there.
        Set = 0, "SET";
        /// The value is added, and wraps. Since one line of counters has one writer, this is no atomic operation.
        Add = 1, "ADD";
    }
}

wire_enum! {
    /// How a counter is compared with a value.
    pub enum Comparison {
        /// The counter equals the value.
        Equal = 0, "EQ";
        /// It does not.
        NotEqual = 1, "NE";
        /// It is greater.
        Greater = 2, "GT";
        /// It is greater or equal.
        GreaterOrEqual = 3, "GE";
        /// It is less.
        Less = 4, "LT";
        /// It is less or equal.
        LessOrEqual = 5, "LE";
    }
}

impl Comparison {
    /// The counter's value compares so with `value`.
    #[must_use]
    pub const fn holds(self, observed: i32, value: i32) -> bool {
        match self {
            Self::Equal => observed == value,
            Self::NotEqual => observed != value,
            Self::Greater => observed > value,
            Self::GreaterOrEqual => observed >= value,
            Self::Less => observed < value,
            Self::LessOrEqual => observed <= value,
        }
    }
}

/// What a test or a wait saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The comparison held; what the other side wrote before it stored the value can be read. Else nothing is promised.
    pub matched: bool,
    /// The counter's value at the last look.
    pub observed: i32,
}

/// One side's use of a region.
///
/// An argument out of range, a comparison that does not hold and a limit that passes change nothing. An operation whose write
/// failed half done poisons: from then on every operation answers with that first cause, and only
/// [`into_access`](Self::into_access) is left.
#[derive(Debug)]
pub struct Region<A> {
    access: A,
    poison: Option<AccessError>,
}

impl<A: RegionAccess> Region<A> {
    /// Uses the region that `access` reaches.
    pub const fn new(access: A) -> Self {
        Self { access, poison: None }
    }

    /// Copies bytes of PAYLOAD from `offset` on into `out`.
    ///
    /// # Errors
    /// [`RegionError`]; `out` is then of no use.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), RegionError> {
        self.check_payload(offset, out.len())?;
        self.access.read(offset, out).map_err(RegionError::Access)
    }

    /// Copies `bytes` into PAYLOAD from `offset` on. The other side may read them once a later notify was seen.
    ///
    /// # Errors
    /// [`RegionError`]. A failure of the memory leaves some bytes written, and poisons.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), RegionError> {
        self.check_payload(offset, bytes.len())?;
        let written = self.access.write(offset, bytes);
        self.done(written)
    }

    /// Sets a counter of this side, or adds to it, and publishes all that this side wrote before. Returns the new value.
    ///
    /// # Errors
    /// [`RegionError`]. A failure after which the counter may have its new value poisons.
    pub fn notify(
        &mut self,
        counter: u64,
        notification: Notification,
        value: i32,
    ) -> Result<i32, RegionError> {
        self.check_counter(counter)?;
        let value = match notification {
            Notification::Set => value,
            Notification::Add => {
                let before = self.access.load(counter).map_err(RegionError::Access)?;
                before.cast_signed().wrapping_add(value)
            }
        };
        let everything = Place { offset: 0, nbytes: self.access.payload_bytes() };
        self.access.publish(everything).map_err(RegionError::Access)?;
        let stored = self.access.store(counter, value.cast_unsigned());
        self.done(stored)?;
        Ok(value)
    }

    /// Looks at a counter once.
    ///
    /// # Errors
    /// [`RegionError`].
    pub fn test(&self, counter: u64, comparison: Comparison, value: i32) -> Result<Seen, RegionError> {
        self.check_counter(counter)?;
        let look = || self.access.load(counter).map(u32::cast_signed).map_err(RegionError::Access);
        let mut observed = look()?;
        if !comparison.holds(observed, value)
            && let Err(gone) = self.access.check_peer()
        {
            // Its last notify may have come since that look.
            observed = look()?;
            if !comparison.holds(observed, value) {
                return Err(RegionError::Access(gone));
            }
        }
        let matched = comparison.holds(observed, value);
        if matched {
            let everything = Place { offset: 0, nbytes: self.access.payload_bytes() };
            self.access.observe(everything).map_err(RegionError::Access)?;
        }
        Ok(Seen { matched, observed })
    }

    /// Looks at a counter until the comparison holds or the limit is over; a limit of 0 is one look. Either way the answer
    /// has the value of the last look.
    ///
    /// # Errors
    /// [`RegionError`].
    pub fn wait(
        &self,
        counter: u64,
        comparison: Comparison,
        value: i32,
        limit: Duration,
        clock: &mut impl Clock,
    ) -> Result<Seen, RegionError> {
        let mut patience = Patience::new(limit);
        loop {
            let seen = self.test(counter, comparison, value)?;
            let watch = Watch { counter, seen: seen.observed.cast_unsigned(), sleep_flag: None };
            if seen.matched || !patience.again(clock, watch) {
                return Ok(seen);
            }
        }
    }

    /// The first cause, when an operation has failed half done.
    #[must_use]
    pub const fn poison(&self) -> Option<AccessError> {
        self.poison
    }

    /// Ends the use, poisoned or not, and gives the access back.
    pub fn into_access(self) -> A {
        self.access
    }

    fn check_payload(&self, offset: u64, length: usize) -> Result<(), RegionError> {
        if let Some(cause) = self.poison {
            return Err(RegionError::Poisoned(cause));
        }
        let part_bytes = self.access.payload_bytes();
        let left = part_bytes.checked_sub(offset);
        match u64::try_from(length) {
            Ok(nbytes) if left.is_some_and(|left| nbytes <= left) => Ok(()),
            nbytes => {
                Err(RegionError::PayloadRange { offset, nbytes: nbytes.unwrap_or(u64::MAX), part_bytes })
            }
        }
    }

    fn check_counter(&self, offset: u64) -> Result<(), RegionError> {
        if let Some(cause) = self.poison {
            return Err(RegionError::Poisoned(cause));
        }
        let part_bytes = self.access.counter_bytes();
        let fits = part_bytes.checked_sub(offset).is_some_and(|left| left >= 4);
        if fits && offset.is_multiple_of(4) {
            Ok(())
        } else {
            Err(RegionError::CounterRange { offset, part_bytes })
        }
    }

    /// Keeps the cause of an operation that failed half done.
    fn done(&mut self, outcome: Result<(), AccessError>) -> Result<(), RegionError> {
        outcome.map_err(|cause| {
            self.poison = Some(cause);
            RegionError::Poisoned(cause)
        })
    }
}

/// Why an operation of a region was refused or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionError {
    /// Bytes outside PAYLOAD.
    PayloadRange {
        /// The first byte.
        offset: u64,
        /// How many.
        nbytes: u64,
        /// Bytes of PAYLOAD.
        part_bytes: u64,
    },
    /// No counter is there: outside COUNTER, or at no multiple of 4.
    CounterRange {
        /// The counter's offset.
        offset: u64,
        /// Bytes of COUNTER.
        part_bytes: u64,
    },
    /// The memory could not be reached, and nothing was changed.
    Access(AccessError),
    /// This operation, or one before, failed half done: the first cause.
    Poisoned(AccessError),
}

impl RegionError {
    /// The frozen number, name and fault; of a poison, its cause's.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::PayloadRange { .. } | Self::CounterRange { .. } => Code::RegionRange,
            Self::Access(error) | Self::Poisoned(error) => error.code(),
        }
    }
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PayloadRange { offset, nbytes, part_bytes } => {
                write!(f, "{nbytes} bytes at {offset} do not lie in a payload of {part_bytes} bytes")
            }
            Self::CounterRange { offset, part_bytes } => {
                write!(f, "no counter lies at {offset} of {part_bytes} bytes of counters, 4 bytes each")
            }
            Self::Access(error) => error.fmt(f),
            Self::Poisoned(cause) => write!(f, "the region is poisoned: {cause}"),
        }
    }
}

impl core::error::Error for RegionError {}
