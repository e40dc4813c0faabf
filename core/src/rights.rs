//! Rights: what an owner grants, what a tag needs, and whether the need is a subset of the grant.

use core::fmt;

use crate::code::Code;
use crate::wire::wire_enum::wire_enum;

wire_enum! {
    /// What an owner grants.
    pub enum Access {
        /// Loads only.
        Read = 0, "READ";
        /// Stores only.
        Write = 1, "WRITE";
        /// Loads and stores.
        ReadWrite = 2, "READWRITE";
    }
}

wire_enum! {
    /// What a task does with an argument. Tags do not travel in a blob; as C integers they are `int32_t`.
    pub enum Tag {
        /// Reads it.
        Input = 0, "INPUT";
        /// Writes it; whatever it held is of no use.
        Output = 1, "OUTPUT";
        /// Reads and writes it.
        Inout = 2, "INOUT";
        /// Writes into a buffer that others hold too.
        OutputExisting = 3, "OUTPUT_EXISTING";
        /// Names it and asks for no order and no right.
        NoDep = 4, "NO_DEP";
    }
}

impl Access {
    /// Loads are granted.
    #[must_use]
    #[inline]
    pub const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::ReadWrite)
    }

    /// Stores are granted.
    #[must_use]
    #[inline]
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::ReadWrite)
    }

    /// Every right of `needed` is granted by `self`.
    #[must_use]
    #[inline]
    pub const fn grants(self, needed: Self) -> bool {
        (self.reads() || !needed.reads()) && (self.writes() || !needed.writes())
    }
}

impl Tag {
    /// What the tag needs; `None` for [`Tag::NoDep`], which needs nothing.
    #[must_use]
    #[inline]
    pub const fn needs(self) -> Option<Access> {
        match self {
            Self::Input => Some(Access::Read),
            Self::Output | Self::OutputExisting => Some(Access::Write),
            Self::Inout => Some(Access::ReadWrite),
            Self::NoDep => None,
        }
    }

    /// The task reads the argument.
    #[must_use]
    #[inline]
    pub const fn reads(self) -> bool {
        matches!(self, Self::Input | Self::Inout)
    }

    /// The task writes the argument.
    #[must_use]
    #[inline]
    pub const fn writes(self) -> bool {
        matches!(self, Self::Output | Self::OutputExisting | Self::Inout)
    }

    /// The tag of a C integer.
    ///
    /// # Errors
    /// [`RightsError::TagUnknown`] when no tag has that number.
    pub const fn from_number(number: i32) -> Result<Self, RightsError> {
        match number {
            0 => Ok(Self::Input),
            1 => Ok(Self::Output),
            2 => Ok(Self::Inout),
            3 => Ok(Self::OutputExisting),
            4 => Ok(Self::NoDep),
            found => Err(RightsError::TagUnknown { found }),
        }
    }
}

/// Checks that what `requested` needs is a subset of what `granted` gives.
///
/// # Errors
/// [`RightsError::Denied`] with both sides.
#[inline]
pub const fn check(granted: Access, requested: Tag) -> Result<(), RightsError> {
    match requested.needs() {
        Some(needed) if !granted.grants(needed) => Err(RightsError::Denied { granted, requested }),
        Some(_) | None => Ok(()),
    }
}

/// Why a tag was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RightsError {
    /// No tag has this number.
    TagUnknown {
        /// The number that came.
        found: i32,
    },
    /// The owner does not grant what the tag needs.
    Denied {
        /// What the owner grants.
        granted: Access,
        /// What the task asked for.
        requested: Tag,
    },
}

impl RightsError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::TagUnknown { .. } => Code::TagUnknown,
            Self::Denied { .. } => Code::Denied,
        }
    }
}

impl fmt::Display for RightsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TagUnknown { found } => write!(f, "tag {found} does not exist: 0 to 4 do"),
            Self::Denied { granted, requested } => {
                let needed = requested.needs().map_or("nothing", Access::name);
                write!(f, "{requested} needs {needed}, but the owner grants {granted}")
            }
        }
    }
}

impl core::error::Error for RightsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_grant_and_tag() {
        use {Access as A, Tag as T};
        let allowed = [
            (A::Read, T::Input),
            (A::Read, T::NoDep),
            (A::Write, T::Output),
            (A::Write, T::OutputExisting),
            (A::Write, T::NoDep),
            (A::ReadWrite, T::Input),
            (A::ReadWrite, T::Output),
            (A::ReadWrite, T::Inout),
            (A::ReadWrite, T::OutputExisting),
            (A::ReadWrite, T::NoDep),
        ];
        for &granted in A::ALL {
            for &requested in T::ALL {
                let expected = if allowed.contains(&(granted, requested)) {
                    Ok(())
                } else {
                    Err(RightsError::Denied { granted, requested })
                };
                assert_eq!(check(granted, requested), expected);
            }
        }
    }

    #[test]
    fn a_tag_number_out_of_range_is_named() {
        for found in [-1, 5, i32::MIN, i32::MAX] {
            assert_eq!(Tag::from_number(found), Err(RightsError::TagUnknown { found }));
        }
        for &tag in Tag::ALL {
            assert_eq!(Tag::from_number(i32::from(tag.to_wire())), Ok(tag));
        }
    }
}
