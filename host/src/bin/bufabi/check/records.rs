//! One line, one answer: how each kind of record is read from its words, and what is said of it.

use bufabi_core::overlap::{self, Relation};
use bufabi_core::wire::chip_tensor::ChipTensor;
use bufabi_core::{Blob, BlobError, Code, Descriptor, Tensor};
use clap::ValueEnum;

/// What the lines hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// HEX: ok, or the first rule that it breaks.
    Descriptors,
    /// HEX: ok, or the first rule that it breaks.
    Tensors,
    /// CAPACITY HEX: ok T S, or the first broken rule; `-` is no bytes.
    Blobs,
    /// HEX HEX, two tensors: whether they share a byte, 0 or 1, and whether the first covers the second; or the first broken rule.
    Overlaps,
    /// HEX BASE: the 128 bytes that a chip reads, or the first broken rule.
    Chip,
}

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Holds,
    /// It holds, but its answer is the safe one: the exact one would have passed the work bound.
    HoldsUnsure,
    Breaks,
    Unreadable,
}

/// The words of a line do not form a record.
struct Unreadable;

/// Answers lines of one kind. Keeps the storage that records are decoded into.
pub(super) struct Checker {
    kind: Kind,
    record: Vec<u8>,
}

impl Checker {
    pub(super) const fn new(kind: Kind) -> Self {
        Self { kind, record: Vec::new() }
    }

    /// Appends the answer to `line`, without a line feed, to `answers`.
    pub(super) fn answer(&mut self, line: &[u8], answers: &mut Vec<u8>) -> Outcome {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let (first, second, third) = (words.next(), words.next(), words.next());
        let answered = match (self.kind, first, second, third) {
            (Kind::Descriptors, Some(hex), None, None) => self.descriptor(hex, answers),
            (Kind::Tensors, Some(hex), None, None) => self.tensor(hex, answers),
            (Kind::Blobs, Some(capacity), Some(hex), None) => self.blob(capacity, hex, answers),
            (Kind::Overlaps, Some(a), Some(b), None) => self.overlap(a, b, answers),
            (Kind::Chip, Some(hex), Some(base), None) => self.chip(hex, base, answers),
            _ => Err(Unreadable),
        };
        answered.unwrap_or_else(|Unreadable| {
            answers.extend_from_slice(b"unreadable");
            Outcome::Unreadable
        })
    }

    fn descriptor(&mut self, hex: &[u8], answers: &mut Vec<u8>) -> Result<Outcome, Unreadable> {
        let checked = Descriptor::from_bytes(self.decode(hex)?);
        Ok(rule(checked.err().map(|error| error.code()), answers))
    }

    fn tensor(&mut self, hex: &[u8], answers: &mut Vec<u8>) -> Result<Outcome, Unreadable> {
        let checked = Tensor::from_bytes(self.decode(hex)?);
        Ok(rule(checked.err().map(|error| error.code()), answers))
    }

    fn blob(&mut self, capacity: &[u8], hex: &[u8], answers: &mut Vec<u8>) -> Result<Outcome, Unreadable> {
        let capacity = number(capacity, 10)?;
        let bytes = self.decode(hex)?;
        let readable = usize::try_from(capacity).unwrap_or(usize::MAX).min(bytes.len());
        let text = match Blob::from_bytes(bytes.get(..readable).unwrap_or_default()) {
            Ok(blob) => {
                let text = format!("ok {} {}", blob.tensor_count(), blob.scalar_count());
                answers.extend_from_slice(text.as_bytes());
                return Ok(Outcome::Holds);
            }
            Err(BlobError::Tensor { index, error }) => format!("tensor {index} {}", error.code()),
            Err(error) => error.code().name().to_owned(),
        };
        answers.extend_from_slice(text.as_bytes());
        Ok(Outcome::Breaks)
    }

    fn overlap(&mut self, a: &[u8], b: &[u8], answers: &mut Vec<u8>) -> Result<Outcome, Unreadable> {
        let (a, b) = (Tensor::decode(self.decode(a)?), Tensor::decode(self.decode(b)?));
        let (a, b) = match (a, b) {
            (Ok(a), Ok(b)) => (a, b),
            (Err(error), _) | (_, Err(error)) => return Ok(rule(Some(error.code()), answers)),
        };
        // Views of two backings share nothing.
        let same = a.descriptor().identity() == b.descriptor().identity();
        let relation = if same { overlap::relate(&a.view(), &b.view()) } else { Relation::Disjoint };
        answers.extend_from_slice(match (relation.may_overlap(), relation.covers()) {
            (false, _) => b"0 0",
            (true, false) => b"1 0",
            (true, true) => b"1 1",
        });
        Ok(if relation == Relation::MayOverlap { Outcome::HoldsUnsure } else { Outcome::Holds })
    }

    fn chip(&mut self, hex: &[u8], base: &[u8], answers: &mut Vec<u8>) -> Result<Outcome, Unreadable> {
        let base = number(base, 16)?;
        match ChipTensor::from_wire(self.decode(hex)?, base) {
            Ok(chip) => {
                let bytes: [u8; ChipTensor::SIZE] = zerocopy::transmute!(chip);
                let start = answers.len();
                answers.resize(start.saturating_add(2 * ChipTensor::SIZE), 0);
                let digits = answers.get_mut(start..).unwrap_or_default();
                // Two digits for each byte were just made room for.
                faster_hex::hex_encode(&bytes, digits).map_err(|_| Unreadable)?;
                Ok(Outcome::Holds)
            }
            Err(error) => Ok(rule(Some(error.code()), answers)),
        }
    }

    /// The bytes of hex digits; `-` is none.
    fn decode(&mut self, hex: &[u8]) -> Result<&[u8], Unreadable> {
        if hex == b"-" {
            return Ok(&[]);
        }
        let length = hex.len() / 2;
        if self.record.len() < length {
            self.record.resize(length, 0);
        }
        let bytes = self.record.get_mut(..length).ok_or(Unreadable)?;
        faster_hex::hex_decode(hex, bytes).map_err(|_| Unreadable)?;
        Ok(bytes)
    }
}

/// Appends `ok` or the rule's name.
fn rule(broken: Option<Code>, answers: &mut Vec<u8>) -> Outcome {
    answers.extend_from_slice(broken.unwrap_or(Code::Ok).name().as_bytes());
    if broken.is_some() { Outcome::Breaks } else { Outcome::Holds }
}

/// A number that is digits and nothing else.
fn number(word: &[u8], radix: u32) -> Result<u64, Unreadable> {
    let text = std::str::from_utf8(word).map_err(|_| Unreadable)?;
    if text.starts_with('+') {
        return Err(Unreadable);
    }
    u64::from_str_radix(text, radix).map_err(|_| Unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(kind: Kind, line: &str) -> (String, Outcome) {
        let mut answers = Vec::new();
        let outcome = Checker::new(kind).answer(line.as_bytes(), &mut answers);
        (String::from_utf8(answers).unwrap(), outcome)
    }

    #[test]
    fn a_line_that_is_no_record_is_unreadable() {
        for (kind, line) in [
            (Kind::Descriptors, ""),
            (Kind::Descriptors, "zz"),
            (Kind::Descriptors, "425"),
            (Kind::Descriptors, "4253 ok"),
            (Kind::Tensors, "42\u{e9}3"),
            (Kind::Blobs, "00"),
            (Kind::Blobs, "x 00"),
            (Kind::Blobs, "+8 0000000000000000"),
            (Kind::Blobs, "-8 0000000000000000"),
            (Kind::Overlaps, "4253"),
            (Kind::Overlaps, "4253 4253 4253"),
            (Kind::Chip, "4253"),
            (Kind::Chip, "4253 +0"),
            (Kind::Chip, "4253 10000000000000000"),
        ] {
            assert_eq!(answer(kind, line), ("unreadable".to_owned(), Outcome::Unreadable), "{line:?}");
        }
    }

    #[test]
    fn digits_of_either_case_and_line_ends_of_either_kind_are_read() {
        let size = ("size".to_owned(), Outcome::Breaks);
        for line in ["4253ab", "4253AB", "4253ab\r", " 4253ab ", "-"] {
            assert_eq!(answer(Kind::Tensors, line), size, "{line:?}");
        }
        assert_eq!(answer(Kind::Blobs, "8 0000000000000000"), ("ok 0 0".to_owned(), Outcome::Holds));
        assert_eq!(answer(Kind::Blobs, "18446744073709551615 -"), ("short".to_owned(), Outcome::Breaks));
        assert_eq!(answer(Kind::Blobs, "8 ffffffff00000000"), ("negative".to_owned(), Outcome::Breaks));
    }
}
