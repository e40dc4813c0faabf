//! The names of the objects that we make: each says which process made it, so that what a crash leaves can be swept.

use core::fmt;

use bufabi_core::wire::body::ShmName;

use crate::sys::OsError;
use crate::sys::process_mark::ProcessMark;
use crate::sys::random::random_bytes;

/// What all our names begin with. 24 characters of base64url follow: 30 in all, since macOS takes 31 with the slash.
pub const PREFIX: &str = "bufabi";

/// The alphabet of RFC 4648, section 5: none of it is `/`.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The bits of a word of 48 from which its eight characters are read.
const PLACES: [u32; 8] = [42, 36, 30, 24, 18, 12, 6, 0];

/// What a name of ours says.
///
/// Three words of 48 bits, eight characters each, from the highest bit: process number 22 and start time 36, of which
/// 10 in the second word; namespace 32; boot 6; random 48.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectName {
    /// The process that made the object.
    pub maker: ProcessMark,
    /// What tells its objects apart; less than 2^48.
    pub random: u64,
}

impl ObjectName {
    /// A new name of this process's.
    ///
    /// # Errors
    /// [`OsError`] when /proc is not there or no random bytes can be had.
    pub fn draw() -> Result<Self, OsError> {
        let [a, b, c, d, e, f] = random_bytes::<6>()?;
        let random = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
        Ok(Self { maker: ProcessMark::current()?, random })
    }

    /// The name as an object has it.
    #[must_use]
    #[expect(clippy::expect_used, reason = "30 characters of that alphabet are a name")]
    pub fn encode(&self) -> ShmName {
        let Self { maker: ProcessMark { pid, start_ticks, pid_namespace, boot }, random } = *self;
        let words = [
            u64::from(pid) << 26 | (start_ticks >> 10 & 0x3ff_ffff),
            (start_ticks & 0x3ff) << 38 | u64::from(pid_namespace) << 6 | u64::from(boot & 63),
            random,
        ];
        let digits = words.iter().flat_map(|word| PLACES.map(move |place| word >> place & 63));
        let letters = digits.filter_map(|digit| ALPHABET.get(usize::try_from(digit).ok()?).copied());
        let text: heapless::String<32> = PREFIX.chars().chain(letters.map(char::from)).collect();
        ShmName::new(&text).expect("a legal name")
    }

    /// What a name says; `None` when it is not one of ours.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let encoded = name.strip_prefix(PREFIX)?.as_bytes();
        let ([first, second, third], []) = encoded.as_chunks::<8>() else { return None };
        let (first, second, random) = (word(first)?, word(second)?, word(third)?);
        let maker = ProcessMark {
            pid: u32::try_from(first >> 26).ok()?,
            start_ticks: (first & 0x3ff_ffff) << 10 | second >> 38,
            pid_namespace: u32::try_from(second >> 6 & 0xffff_ffff).ok()?,
            boot: u8::try_from(second & 63).ok()?,
        };
        Some(Self { maker, random })
    }
}

/// The 48 bits of eight characters; `None` when one of them is not in the alphabet.
fn word(letters: &[u8; 8]) -> Option<u64> {
    letters.iter().try_fold(0_u64, |word, letter| {
        let digit = ALPHABET.iter().position(|known| known == letter)?;
        Some(word << 6 | u64::try_from(digit).ok()?)
    })
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.encode().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_name_says_what_was_put_into_it(
            pid in 0..1_u32 << 22,
            start_ticks in 0..1_u64 << 36,
            pid_namespace: u32,
            boot in 0..64_u8,
            random in 0..1_u64 << 48,
        ) {
            let name = ObjectName { maker: ProcessMark { pid, start_ticks, pid_namespace, boot }, random };
            let encoded = name.encode();
            prop_assert_eq!(encoded.as_str().len(), 30);
            prop_assert_eq!(ObjectName::parse(encoded.as_str()), Some(name));
        }

        #[test]
        fn any_text_is_parsed_or_refused(text: String) {
            if let Some(name) = ObjectName::parse(&text) {
                let encoded = name.encode();
                prop_assert_eq!(encoded.as_str(), text);
            }
        }
    }

    #[test]
    fn a_name_of_another_form_is_not_ours() {
        let name = ObjectName::draw().unwrap().encode();
        let name = name.as_str();
        let shorter = name.get(..29).unwrap();
        assert_eq!(ObjectName::parse(shorter), None);
        assert_eq!(ObjectName::parse(&format!("{name}A")), None);
        assert_eq!(ObjectName::parse(&name.replace("bufabi", "bufabj")), None);
        assert_eq!(ObjectName::parse(&format!("{shorter}.")), None);
        assert_eq!(ObjectName::parse(""), None);
    }

    #[test]
    fn a_drawn_name_names_this_process() {
        let name = ObjectName::draw().unwrap();
        assert_eq!(name.maker, ProcessMark::current().unwrap());
        assert_ne!(name.random, ObjectName::draw().unwrap().random);
    }
}
