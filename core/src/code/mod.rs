//! The frozen number, name and fault of every error: one table, spoken by Rust, C and firmware alike.

use core::fmt;

pub use table::Code;

/// Whose fault an error is: where a person looks first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Nobody's: success, or an ordinary answer.
    Nobody,
    /// Whoever made the bytes: they break a rule of the wire, or claim what is not so.
    Sender,
    /// The program that made the call: an argument, an order of calls, a right that it does not have.
    Caller,
    /// A capacity that was chosen when this program was built or set up.
    Capacity,
    /// The machine or its operating system: no space, no descriptor, a process that died.
    Machine,
    /// This library: a fault in it, to be reported.
    Library,
}

impl Fault {
    /// One lower-case word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Sender => "sender",
            Self::Caller => "caller",
            Self::Capacity => "capacity",
            Self::Machine => "machine",
            Self::Library => "library",
        }
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $number:literal $variant:ident $name:literal $fault:ident;)*) => {
        /// Every error, by number. Numbers are frozen: a new error takes a new number, an old one never moves.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(i32)]
        pub enum Code { $($(#[$doc])* $variant = $number,)* }

        impl Code {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The frozen number; success is 0.
            #[must_use]
            #[expect(clippy::as_conversions, reason = "the number is what the value is made of: no table, no search")]
            pub const fn number(self) -> i32 {
                self as i32
            }

            /// The code with that number, or `None` when no error has it.
            #[must_use]
            pub const fn from_number(number: i32) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }

            /// The rule's name, as the wire ABI spells it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The name with a closing NUL, for C.
            #[must_use]
            pub const fn c_name(self) -> &'static core::ffi::CStr {
                match self { $(Self::$variant => {
                    const NAME: &core::ffi::CStr = match core::ffi::CStr::from_bytes_with_nul(
                        concat!($name, "\0").as_bytes()) { Ok(name) => name, Err(_) => c"" };
                    NAME
                })* }
            }

            /// Whose fault it is.
            #[must_use]
            pub const fn fault(self) -> Fault {
                match self { $(Self::$variant => Fault::$fault,)* }
            }
        }
    };
}

// Behind the macro that it uses.
mod table;

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique_and_come_back() {
        for (i, code) in Code::ALL.iter().enumerate() {
            assert_eq!(Code::from_number(code.number()), Some(*code));
            assert_eq!(code.c_name().to_bytes(), code.name().as_bytes());
            for other in Code::ALL.iter().skip(i).skip(1) {
                assert!(code.number() < other.number(), "{code} and {other}");
                assert_ne!(code.name(), other.name());
            }
        }
        assert_eq!(Code::from_number(-1), None);
        assert_eq!(Code::Ok.number(), 0);
        assert_eq!(Code::Ok.fault(), Fault::Nobody);
    }
}
