//! Outputs of a run: written whole or not at all, and compared bit for bit.

use std::io::{self, Read};
use std::path::Path;

use bufabi_core::DType;
use bufabi_host::memory::Operand;
use bufabi_host::memory::lines::read_in_order;
use half::{bf16, f16};

use super::buffers::Buffers;
use crate::failure::Failure;
use crate::graph::Output;
use crate::npy::{self, Array};
use crate::table::counted;

/// How an output compares to what was expected.
pub(super) enum Outcome {
    /// Nothing was expected.
    Written,
    /// Every bit is as expected.
    Equal,
    /// It differs.
    Differs(String),
}

/// Compares an output with what was expected.
pub(super) fn compare(output: &Output, buffers: &Buffers) -> Result<Outcome, Failure> {
    let Some(path) = &output.expect else { return Ok(Outcome::Written) };
    compare_with(&buffers.operand(output.buffer, output.view)?, path)
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())).at("expect"))
}

/// Writes an output, if it is wanted as a file.
pub(super) fn write(output: &Output, buffers: &Buffers) -> Result<(), Failure> {
    let Some(path) = &output.npy else { return Ok(()) };
    let operand = buffers.operand(output.buffer, output.view)?;
    let (dtype, shape) = (output.view.dtype(), output.view.shapes());
    let written = npy::write(path, dtype, shape, |out| read_in_order(&operand, |bytes| out.write_all(bytes)));
    written.map_err(|error| {
        let message = format!("{}: {error}", path.display());
        let is_path = error.raw_os_error() == Some(libc::ELOOP)
            || matches!(
                error.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::PermissionDenied
                    | io::ErrorKind::ReadOnlyFilesystem
                    | io::ErrorKind::IsADirectory
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::InvalidFilename
                    | io::ErrorKind::InvalidInput
            );
        let failure = if is_path { Failure::usage(message) } else { Failure::machine(message) };
        failure.at("npy")
    })
}

/// Compares every element with those of an array.
fn compare_with(operand: &Operand<'_>, path: &Path) -> io::Result<Outcome> {
    let (dtype, shape) = (operand.view().dtype(), operand.view().shapes());
    let expected = Array::open(path)?;
    if let Some(difference) = other_kind(&expected, dtype, shape) {
        return Ok(Outcome::Differs(format!("{} is {difference}", path.display())));
    }
    let mut comparison = Comparison::new(expected.into_data()?, dtype);
    read_in_order(operand, |bytes| comparison.add(bytes))?;
    let Comparison { elements, differing, first, .. } = comparison;
    Ok(match first {
        None => Outcome::Equal,
        Some(Difference { element, found, expected }) => {
            let (path, index) = (path.display(), index_of(element, shape));
            let differ = if differing == 1 { "differs" } else { "differ" };
            let [found, expected] = [found, expected].map(|bits| value(bits, dtype));
            let elements = counted(elements, "element", "elements");
            Outcome::Differs(format!(
                "{differing} of {elements} {differ} from {path}, {index:?} first: {found}, expected {expected}"
            ))
        }
    })
}

/// What an array is, if it is of another type or shape.
fn other_kind(expected: &Array, dtype: DType, shape: &[u32]) -> Option<String> {
    let shape: Vec<u64> = shape.iter().copied().map(u64::from).collect();
    let same = expected.holds(dtype) && expected.shape() == shape;
    (!same).then(|| format!("{} {:?}, the output is {dtype} {shape:?}", expected.element(), expected.shape()))
}

/// The first element that differs.
struct Difference {
    element: u64,
    found: u64,
    expected: u64,
}

/// Elements compared to those of an array, in order.
struct Comparison<R> {
    expected: R,
    piece: Vec<u8>,
    /// Bytes of an element.
    size: usize,
    elements: u64,
    differing: u64,
    first: Option<Difference>,
}

impl<R: Read> Comparison<R> {
    fn new(expected: R, dtype: DType) -> Self {
        let size = usize::try_from(dtype.size()).unwrap_or(1);
        Self { expected, piece: Vec::new(), size, elements: 0, differing: 0, first: None }
    }

    /// Compares the next elements.
    fn add(&mut self, found: &[u8]) -> io::Result<()> {
        self.piece.resize(found.len(), 0);
        self.expected.read_exact(&mut self.piece)?;
        let pairs = found.chunks(self.size).zip(self.piece.chunks(self.size));
        for (found, expected) in pairs {
            if found != expected {
                self.differing = self.differing.saturating_add(1);
                self.first.get_or_insert_with(|| Difference {
                    element: self.elements,
                    found: bits(found),
                    expected: bits(expected),
                });
            }
            self.elements = self.elements.saturating_add(1);
        }
        Ok(())
    }
}

/// The bits of an element.
fn bits(element: &[u8]) -> u64 {
    let mut wide = [0; 8];
    wide.iter_mut().zip(element).for_each(|(wide, byte)| *wide = *byte);
    u64::from_le_bytes(wide)
}

/// An element, as a person reads it and by its bits. Of the smallest floats the bits must do.
fn value(bits: u64, dtype: DType) -> String {
    let [b0, b1, b2, b3, ..] = bits.to_le_bytes();
    let (two, four) = ([b0, b1], [b0, b1, b2, b3]);
    let value = match dtype {
        // The fewest digits that tell it from every other one.
        DType::Float32 => format!("{:?}", f32::from_le_bytes(four)),
        DType::Float16 => format!("{:?}", f16::from_le_bytes(two)),
        DType::Bfloat16 => format!("{:?}", bf16::from_le_bytes(two)),
        DType::Int8 => i8::from_le_bytes([b0]).to_string(),
        DType::Int16 => i16::from_le_bytes(two).to_string(),
        DType::Int32 => i32::from_le_bytes(four).to_string(),
        DType::Int64 => bits.cast_signed().to_string(),
        DType::Uint8 | DType::Uint16 | DType::Uint32 | DType::Uint64 => bits.to_string(),
        DType::Bool if bits == 0 => "false".to_owned(),
        DType::Bool if bits == 1 => "true".to_owned(),
        DType::Bool | DType::Fp8E4M3Fn | DType::Fp8E8M0 | DType::Fp4E2M1 => return format!("{bits:#x}"),
    };
    format!("{value} ({bits:#x})")
}

/// The index of an element by its place in order.
fn index_of(mut element: u64, shape: &[u32]) -> Vec<u64> {
    let mut index = Vec::new();
    for &count in shape.iter().rev() {
        let count = u64::from(count);
        index.push(element.checked_rem(count).unwrap_or(0));
        element = element.checked_div(count).unwrap_or(0);
    }
    index.reverse();
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_told_by_its_index() {
        let expected: Vec<u8> = (0..12).collect();
        let mut comparison = Comparison::new(expected.as_slice(), DType::Int16);
        comparison.add(&[0, 1, 2, 3]).unwrap();
        comparison.add(&[4, 5, 6, 9, 8, 8, 10, 11]).unwrap();
        assert_eq!((comparison.elements, comparison.differing), (6, 2));
        let first = comparison.first.unwrap();
        assert_eq!((first.element, first.found, first.expected), (3, 0x0906, 0x0706));
        assert_eq!(index_of(3, &[2, 3]), [1, 0]);
        assert_eq!(index_of(5, &[2, 3]), [1, 2]);
        assert!(comparison_fails_when_bytes_run_out());
    }

    #[test]
    fn an_element_is_told_by_its_value_and_its_bits() {
        for (bits, dtype, told) in [
            (0x3fc0_0000, DType::Float32, "1.5 (0x3fc00000)"),
            (0x8000_0000, DType::Float32, "-0.0 (0x80000000)"),
            (0x7fc0_0001, DType::Float32, "NaN (0x7fc00001)"),
            (0x3dcc_cccd, DType::Float32, "0.1 (0x3dcccccd)"),
            (0x3e00, DType::Float16, "1.5 (0x3e00)"),
            (0xc000, DType::Bfloat16, "-2.0 (0xc000)"),
            (0xff, DType::Int8, "-1 (0xff)"),
            (0xfffe, DType::Int16, "-2 (0xfffe)"),
            (0xffff_fffd, DType::Int32, "-3 (0xfffffffd)"),
            (u64::MAX, DType::Int64, "-1 (0xffffffffffffffff)"),
            (u64::MAX, DType::Uint64, "18446744073709551615 (0xffffffffffffffff)"),
            (1, DType::Bool, "true (0x1)"),
            (2, DType::Bool, "0x2"),
            (0x38, DType::Fp8E4M3Fn, "0x38"),
        ] {
            assert_eq!(value(bits, dtype), told);
        }
    }

    fn comparison_fails_when_bytes_run_out() -> bool {
        Comparison::new(&[1_u8][..], DType::Int16).add(&[1, 2]).is_err()
    }
}
