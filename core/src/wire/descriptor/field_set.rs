//! Which fields of a descriptor differ, as a set: what a conflict names.

use core::fmt;

/// Which fields of a descriptor something is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSet(u8);

impl FieldSet {
    /// `address_space`
    pub const ADDRESS_SPACE: Self = Self(1);
    /// `access`
    pub const ACCESS: Self = Self(2);
    /// `backend_kind`
    pub const BACKEND_KIND: Self = Self(4);
    /// `identity`
    pub const IDENTITY: Self = Self(8);
    /// `nbytes`
    pub const NBYTES: Self = Self(16);
    /// `body_len` and `body`
    pub const BODY: Self = Self(32);

    const NAMES: [(Self, &'static str); 6] = [
        (Self::ADDRESS_SPACE, "address_space"),
        (Self::ACCESS, "access"),
        (Self::BACKEND_KIND, "backend_kind"),
        (Self::IDENTITY, "identity"),
        (Self::NBYTES, "nbytes"),
        (Self::BODY, "body"),
    ];

    #[inline]
    pub(super) const fn with(self, field: Self, present: bool) -> Self {
        if present { Self(self.0 | field.0) } else { self }
    }

    /// No field at all.
    #[must_use]
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// All fields of `other` are in it.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// One bit for each field, in the order of the record.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The names of the fields, in the order of the record.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(field, _)| self.contains(*field)).map(|(_, name)| name)
    }
}

impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.names().enumerate() {
            f.write_str(if i == 0 { "" } else { ", " })?;
            f.write_str(name)?;
        }
        Ok(())
    }
}
