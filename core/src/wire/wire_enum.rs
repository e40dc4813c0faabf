//! Enumerations that travel as one byte: the numbers stand once, and both directions come from them.

/// Defines an enum with its wire number, its wire name, and the way back from either.
macro_rules! wire_enum {
    ($(#[$meta:meta])* $vis:vis enum $type:ident {
        $($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $vis enum $type { $($(#[$doc])* $variant,)* }

        impl $type {
            /// Every value, in the order of the wire numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The number on the wire.
            #[must_use]
            #[inline]
            pub const fn to_wire(self) -> u8 {
                match self { $(Self::$variant => $number,)* }
            }

            /// The value with that number on the wire, or `None` when there is none.
            #[must_use]
            #[inline]
            pub const fn from_wire(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }

            /// The name, as the wire ABI spells it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The value with that name; upper and lower case are the same.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name().eq_ignore_ascii_case(name))
            }
        }

        impl core::fmt::Display for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
pub(crate) use wire_enum;

#[cfg(test)]
mod tests {
    use crate::rights::{Access, Tag};
    use crate::wire::backend::{AddressSpace, BackendKind};
    use crate::wire::dtype::DType;

    #[test]
    fn every_number_and_name_comes_back_and_no_other_is_known() {
        macro_rules! check {
            ($type:ident, $count:literal) => {
                assert_eq!($type::ALL.len(), $count);
                for number in 0..=u8::MAX {
                    let value = $type::from_wire(number);
                    assert_eq!(value.is_some(), number < $count);
                    if let Some(value) = value {
                        assert_eq!(value.to_wire(), number);
                        assert_eq!($type::from_name(value.name()), Some(value));
                    }
                }
                assert_eq!($type::from_name("nothing"), None);
            };
        }
        check!(Access, 3);
        check!(AddressSpace, 2);
        check!(BackendKind, 7);
        check!(DType, 15);
        check!(Tag, 5);
    }
}
