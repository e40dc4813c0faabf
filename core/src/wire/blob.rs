//! A task's arguments on their way: two counts, the tensors, the scalars. Tags do not travel.

use core::fmt;

use zerocopy::little_endian::{I32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::layout::wire_layout;
use super::tensor::{self, RawTensor, Tensor, TensorError};
use crate::code::Code;

wire_layout! {
    /// The two counts at a blob's start, unchecked.
    #[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
    #[repr(C)]
    pub struct RawBlobHeader as "TaskArgs blob header", "bufabi_blob_header": 8 bytes, align 1 {
        0, 4, pub tensor_count: I32, "tensors that follow, 144 bytes each";
        4, 4, pub scalar_count: I32, "scalars behind them, u64 each";
    }
}

/// A task's arguments, in bytes that nobody else writes. Holding one proves that every tensor's rules held.
#[derive(Clone, Copy)]
pub struct Blob<'a> {
    tensors: &'a [RawTensor],
    scalars: &'a [U64],
}

impl<'a> Blob<'a> {
    /// Checks a blob where it lies, and copies nothing. Bytes after the last scalar are allowed: [`size`](Self::size) says
    /// where it ended. Memory that another process can write goes through [`copy_from`](Self::copy_from) instead.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, BlobError> {
        let (header, rest) =
            RawBlobHeader::ref_from_prefix(bytes).map_err(|_| BlobError::Short { found: bytes.len() })?;
        let counts = Counts::check(header, bytes.len())?;
        let past_end = || counts.past_end(bytes.len());
        let (tensors, rest) =
            <[RawTensor]>::ref_from_prefix_with_elems(rest, counts.tensors).map_err(|_| past_end())?;
        let (scalars, _) =
            <[U64]>::ref_from_prefix_with_elems(rest, counts.scalars).map_err(|_| past_end())?;
        let mut index = 0_u32;
        for raw in tensors {
            if let Err(error) = tensor::check(raw) {
                return Err(BlobError::Tensor { index, error });
            }
            index = index.wrapping_add(1);
        }
        Ok(Self { tensors, scalars })
    }

    /// Copies a blob out of memory that somebody else may write, once, and checks the copy. What lies behind the last scalar
    /// is not read.
    ///
    /// # Errors
    /// [`BlobError::Scratch`] when `scratch` is smaller than the blob; else the first broken rule.
    pub fn copy_from(source: &impl ByteSource, scratch: &'a mut [u8]) -> Result<Self, BlobError> {
        let readable = source.len();
        let mut header = RawBlobHeader { tensor_count: I32::ZERO, scalar_count: I32::ZERO };
        if readable < RawBlobHeader::SIZE {
            return Err(BlobError::Short { found: readable });
        }
        source.copy_out(0, header.as_mut_bytes());
        let counts = Counts::check(&header, readable)?;
        let (needed, capacity) = (counts.size, scratch.len());
        let too_small = BlobError::Scratch { needed, capacity };
        let copy = scratch.get_mut(..needed).ok_or(too_small)?;
        let (start, rest) = copy.split_at_mut_checked(RawBlobHeader::SIZE).ok_or(too_small)?;
        // The counts that were checked, whatever the source says by now.
        start.copy_from_slice(header.as_bytes());
        source.copy_out(RawBlobHeader::SIZE, rest);
        Self::from_bytes(copy)
    }

    /// Number of tensors.
    #[must_use]
    #[inline]
    pub const fn tensor_count(&self) -> usize {
        self.tensors.len()
    }

    /// Number of scalars.
    #[must_use]
    #[inline]
    pub const fn scalar_count(&self) -> usize {
        self.scalars.len()
    }

    /// Bytes from its start to behind its last scalar.
    #[must_use]
    pub const fn size(&self) -> usize {
        RawBlobHeader::SIZE
            .saturating_add(size_of_val(self.tensors))
            .saturating_add(size_of_val(self.scalars))
    }

    /// Its bytes, in three pieces that follow one another: the header, the tensors, the scalars.
    #[must_use]
    pub fn pieces(&self) -> ([u8; RawBlobHeader::SIZE], &'a [u8], &'a [u8]) {
        // Both numbers were counted as 32 bits when it was checked.
        let count = |length: usize| I32::new(i32::try_from(length).unwrap_or(i32::MAX));
        let header = RawBlobHeader {
            tensor_count: count(self.tensors.len()),
            scalar_count: count(self.scalars.len()),
        };
        (zerocopy::transmute!(header), self.tensors.as_bytes(), self.scalars.as_bytes())
    }

    /// Tensor number `index`, from 0.
    #[must_use]
    #[inline]
    pub fn tensor(&self, index: usize) -> Option<Tensor<&'a RawTensor>> {
        self.tensors.get(index).map(Tensor::from_checked)
    }

    /// All tensors, in order.
    #[inline]
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Tensor<&'a RawTensor>> + Clone + use<'a> {
        self.tensors.iter().map(Tensor::from_checked)
    }

    /// Scalar number `index`, from 0.
    #[must_use]
    #[inline]
    pub fn scalar(&self, index: usize) -> Option<u64> {
        self.scalars.get(index).map(|scalar| scalar.get())
    }

    /// All scalars, in order.
    #[inline]
    pub fn scalars(&self) -> impl ExactSizeIterator<Item = u64> + Clone + use<'a> {
        self.scalars.iter().map(|scalar| scalar.get())
    }
}

impl fmt::Debug for Blob<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blob")
            .field("tensors", &self.tensor_count())
            .field("scalars", &self.scalar_count())
            .finish()
    }
}

/// Bytes that somebody else may write at any moment, and that can only be copied out.
pub trait ByteSource {
    /// Bytes that can be read.
    fn len(&self) -> usize;

    /// No byte can be read.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the bytes from `offset` on into `out`. It is only called for ranges within [`len`](Self::len); bytes
    /// of a range that is not there are left as they are.
    fn copy_out(&self, offset: usize, out: &mut [u8]);
}

/// Two counts that fit the bytes at hand.
#[derive(Clone, Copy)]
struct Counts {
    tensors: usize,
    scalars: usize,
    size: usize,
}

impl Counts {
    #[inline]
    fn check(header: &RawBlobHeader, available: usize) -> Result<Self, BlobError> {
        let (tensors, scalars) = (header.tensor_count.get(), header.scalar_count.get());
        let (Ok(tensor_count), Ok(scalar_count)) = (u32::try_from(tensors), u32::try_from(scalars)) else {
            return Err(BlobError::Negative { tensors, scalars });
        };
        // Two counts below 2^31 imply less than 2^39 bytes.
        let needed = blob_bytes(u64::from(tensor_count), u64::from(scalar_count));
        let past_end = BlobError::PastEnd { needed, available };
        match (usize::try_from(tensor_count), usize::try_from(scalar_count), usize::try_from(needed)) {
            (Ok(tensors), Ok(scalars), Ok(size)) if size <= available => Ok(Self { tensors, scalars, size }),
            _ => Err(past_end),
        }
    }

    const fn past_end(self, available: usize) -> BlobError {
        #[expect(clippy::as_conversions, reason = "widening, and From is not const")]
        BlobError::PastEnd { needed: self.size as u64, available }
    }
}

/// Bytes of a blob with so many tensors and scalars, saturating.
const fn blob_bytes(tensors: u64, scalars: u64) -> u64 {
    tensors.saturating_mul(144).saturating_add(scalars.saturating_mul(8)).saturating_add(8)
}

/// Bytes of a blob with so many tensors and scalars; `None` past the limits of the two counts.
#[must_use]
pub fn encoded_size(tensors: usize, scalars: usize) -> Option<usize> {
    let tensors = i32::try_from(tensors).ok()?;
    let scalars = i32::try_from(scalars).ok()?;
    usize::try_from(blob_bytes(u64::from(tensors.unsigned_abs()), u64::from(scalars.unsigned_abs()))).ok()
}

/// Writes a blob at the start of `out` and says how many bytes it took. Padding and tails are zero; nothing behind is touched.
///
/// # Errors
/// [`EncodeError`] when `out` is too small; nothing was written then.
pub fn encode(tensors: &[Tensor], scalars: &[u64], out: &mut [u8]) -> Result<usize, EncodeError> {
    let available = out.len();
    let error = EncodeError { tensors: tensors.len(), scalars: scalars.len(), available };
    let size = encoded_size(tensors.len(), scalars.len()).ok_or(error)?;
    let out = out.get_mut(..size).ok_or(error)?;
    let (header, rest) = RawBlobHeader::mut_from_prefix(out).map_err(|_| error)?;
    let (tensor_bytes, rest) = rest.split_at_mut_checked(size_of_val(tensors)).ok_or(error)?;
    let (scalar_slots, _) = <[U64]>::mut_from_prefix_with_elems(rest, scalars.len()).map_err(|_| error)?;
    header.tensor_count = I32::new(i32::try_from(tensors.len()).map_err(|_| error)?);
    header.scalar_count = I32::new(i32::try_from(scalars.len()).map_err(|_| error)?);
    // An owned tensor is its wire bytes, padding zero.
    tensor_bytes.copy_from_slice(tensors.as_bytes());
    for (slot, &scalar) in scalar_slots.iter_mut().zip(scalars) {
        *slot = U64::new(scalar);
    }
    Ok(size)
}

/// The bytes to write into are too few for the blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeError {
    /// Tensors to be written.
    pub tensors: usize,
    /// Scalars to be written.
    pub scalars: usize,
    /// Bytes to write into.
    pub available: usize,
}

impl EncodeError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        Code::BufferTooSmall
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tensors, scalars, available } = self;
        write!(f, "{tensors} tensors and {scalars} scalars do not fit in {available} bytes")
    }
}

impl core::error::Error for EncodeError {}

/// The first rule of a blob that was broken, with what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobError {
    /// Fewer than the 8 bytes of the counts.
    Short {
        /// Bytes at hand.
        found: usize,
    },
    /// A count below 0.
    Negative {
        /// The tensor count.
        tensors: i32,
        /// The scalar count.
        scalars: i32,
    },
    /// The counts imply more bytes than are at hand.
    PastEnd {
        /// Bytes that they imply.
        needed: u64,
        /// Bytes at hand.
        available: usize,
    },
    /// A tensor breaks a rule; those before it do not.
    Tensor {
        /// Its place, from 0.
        index: u32,
        /// The rule.
        error: TensorError,
    },
    /// The storage lent for a copy is smaller than the blob.
    Scratch {
        /// Bytes of the blob.
        needed: usize,
        /// Bytes lent.
        capacity: usize,
    },
}

impl BlobError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Short { .. } => Code::Short,
            Self::Negative { .. } => Code::Negative,
            Self::PastEnd { .. } => Code::PastEnd,
            Self::Tensor { error, .. } => error.code(),
            Self::Scratch { .. } => Code::BufferTooSmall,
        }
    }
}

impl fmt::Display for BlobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { found } => write!(f, "a blob starts with two counts in 8 bytes, found {found}"),
            Self::Negative { tensors, scalars } => {
                write!(f, "a count is below 0: {tensors} tensors, {scalars} scalars")
            }
            Self::PastEnd { needed, available } => {
                write!(f, "the counts imply {needed} bytes, {available} are at hand")
            }
            Self::Tensor { index, error } => write!(f, "tensor {index}: {error}"),
            Self::Scratch { needed, capacity } => {
                write!(f, "the blob has {needed} bytes, the storage for its copy {capacity}")
            }
        }
    }
}

impl core::error::Error for BlobError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pieces_of_a_blob_are_its_bytes_in_order() {
        let mut bytes = [0; 64];
        let size = encode(&[], &[7, u64::MAX], &mut bytes).unwrap();
        let blob = Blob::from_bytes(&bytes).unwrap();
        let (header, tensors, scalars) = blob.pieces();
        let (first, rest) = bytes[..size].split_at(header.len());
        assert_eq!((&header[..], rest), (first, [tensors, scalars].concat().as_slice()));
        assert_eq!(size, blob.size());
    }
}
