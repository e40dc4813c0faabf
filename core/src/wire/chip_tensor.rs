//! What the device runtime reads: 128 bytes in two cache lines, made from a tensor and a resolved base. Never on the L3+ wire.

use core::fmt;

use zerocopy::little_endian::{I32, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, transmute};

use super::backend::AddressSpace;
use super::dtype::DType;
use super::layout::wire_layout;
use super::record::Holds;
use super::tensor::{RawTensor, Tensor, TensorError};
use crate::code::Code;
use crate::view::{MAX_NDIMS, extent_elements, is_row_major};

/// `owner_task_id` of a tensor that no task of the chip's runtime made.
pub const NO_OWNER_TASK: u64 = u64::MAX;

wire_layout! {
    /// A tensor as a chip reads it: an address and a strided view. Any bytes are one; only
    /// [`materialize`](Self::materialize) promises that the values agree with each other.
    #[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout)]
    #[repr(C, align(64))]
    pub struct ChipTensor as "ChipTensor", "bufabi_chip_tensor": 128 bytes, align 64 {
        0, 8, pub addr: U64, "base + byte_offset";
        8, 8, pub size: U64, "extent in bytes";
        16, 8, pub owner_task_id: U64, "2^64-1 is none; otherwise ring id << 32 | local id";
        24, 8, pub start_offset: U64, "elements; 0, since addr holds the offset already";
        32, 4, pub version: I32, "0";
        36, 4, pub ndims: U32, "1 to 5";
        40, 1, pub dtype: u8, "the elements' type";
        41, 1, pub manual_dep: u8, "bool; false";
        42, 1, pub is_contiguous: u8, "bool; strides are exactly the row-major ones of shapes";
        43, 1, pub address_space: u8, "HOST 0, DEVICE 1";
        44, 20, pub shapes: [U32; MAX_NDIMS], "elements of each dimension; 0 past ndims";
        64, 8, pub extent_elem: U64, "1 + sum of (shape-1)*stride";
        72, 20, pub strides: [U32; MAX_NDIMS], "elements from one index to the next; 0 past ndims";
        92, 36, pub padding: [u8; 36], "zero";
    }
}

impl ChipTensor {
    /// All bytes zero: an empty slot.
    pub const ZERO: Self = zerocopy::transmute!([0_u8; Self::SIZE]);

    /// Makes a chip's tensor from one of the wire and the address at which its backing was resolved.
    ///
    /// # Errors
    /// [`ChipError::AddressOverflow`] when base, offset and extent together pass 2^64.
    #[inline]
    pub fn materialize<H: Holds<RawTensor>>(tensor: &Tensor<H>, base: u64) -> Result<Self, ChipError> {
        Ok(Place::check(tensor, base)?.chip_tensor(tensor.raw()))
    }

    /// The same where the chip's tensor will lie, for stacks on which its 128 bytes count.
    ///
    /// # Errors
    /// [`ChipError::AddressOverflow`] when base, offset and extent together pass 2^64; nothing was written then.
    #[inline]
    pub fn materialize_into<H: Holds<RawTensor>>(
        &mut self,
        tensor: &Tensor<H>,
        base: u64,
    ) -> Result<(), ChipError> {
        *self = Place::check(tensor, base)?.chip_tensor(tensor.raw());
        Ok(())
    }

    /// Checks 144 bytes as a tensor and makes a chip's tensor of them.
    ///
    /// # Errors
    /// The tensor's first broken rule, then [`ChipError::AddressOverflow`].
    pub fn from_wire(bytes: &[u8], base: u64) -> Result<Self, ChipError> {
        let tensor = Tensor::from_bytes(bytes).map_err(ChipError::Tensor)?;
        Self::materialize(&tensor, base)
    }

    /// The elements' type, or `None` when the byte names none.
    #[must_use]
    pub const fn element_type(&self) -> Option<DType> {
        DType::from_wire(self.dtype)
    }

    /// Where the address lies, or `None` when the byte names no space.
    #[must_use]
    pub const fn space(&self) -> Option<AddressSpace> {
        AddressSpace::from_wire(self.address_space)
    }
}

/// Where a tensor's elements lie, every one of them at an address.
struct Place {
    addr: u64,
    extent: u64,
    extent_elem: u64,
    is_contiguous: bool,
}

/// A chip's tensor in the pieces that are written at once: fewer than its fields.
#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct Pieces {
    addr: U64,
    size: U64,
    owner_task_id: U64,
    start_offset: U64,
    version: I32,
    ndims: U32,
    /// `dtype`, `manual_dep`, `is_contiguous`, `address_space`.
    kind: U32,
    shapes: [u8; size_of::<[U32; MAX_NDIMS]>()],
    extent_elem: U64,
    strides: [u8; size_of::<[U32; MAX_NDIMS]>()],
    padding: [u8; 36],
}

impl Place {
    #[inline]
    fn check<H: Holds<RawTensor>>(tensor: &Tensor<H>, base: u64) -> Result<Self, ChipError> {
        let raw = tensor.raw();
        let (shapes, strides) = (raw.shapes.map(U32::get), raw.strides.map(U32::get));
        let (extent_elem, is_contiguous) =
            (extent_elements(&shapes, &strides), is_row_major(&shapes, &strides));
        let (byte_offset, extent) = (raw.byte_offset.get(), extent_elem << DType::size_log2_of(raw.dtype));
        let overflow = ChipError::AddressOverflow { base, byte_offset, extent };
        let addr = base.checked_add(byte_offset).ok_or(overflow)?;
        // The last byte must have an address; the one behind it need not. An extent is at least 1.
        addr.checked_add(extent.wrapping_sub(1)).ok_or(overflow)?;
        Ok(Self { addr, extent, extent_elem, is_contiguous })
    }

    #[inline]
    fn chip_tensor(self, raw: &RawTensor) -> ChipTensor {
        let kind = [raw.dtype, 0, u8::from(self.is_contiguous), raw.buffer.address_space];
        transmute!(Pieces {
            addr: U64::new(self.addr),
            size: U64::new(self.extent),
            owner_task_id: U64::new(NO_OWNER_TASK),
            start_offset: U64::ZERO,
            version: I32::ZERO,
            ndims: raw.ndims,
            kind: U32::new(u32::from_le_bytes(kind)),
            shapes: transmute!(raw.shapes),
            extent_elem: U64::new(self.extent_elem),
            strides: transmute!(raw.strides),
            padding: [0; 36],
        })
    }
}

impl fmt::Debug for ChipTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChipTensor")
            .field("addr", &self.addr.get())
            .field("size", &self.size.get())
            .field("ndims", &self.ndims.get())
            .field("dtype", &self.dtype)
            .field("is_contiguous", &self.is_contiguous)
            .field("shapes", &self.shapes)
            .field("strides", &self.strides)
            .finish_non_exhaustive()
    }
}

/// Why a chip's tensor could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChipError {
    /// The tensor breaks a rule.
    Tensor(TensorError),
    /// The view's addresses pass 2^64.
    AddressOverflow {
        /// The backing's address.
        base: u64,
        /// Bytes to the first element.
        byte_offset: u64,
        /// Bytes from the first element to the end.
        extent: u64,
    },
}

impl ChipError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Tensor(error) => error.code(),
            Self::AddressOverflow { .. } => Code::AddressOverflow,
        }
    }
}

impl fmt::Display for ChipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(error) => error.fmt(f),
            Self::AddressOverflow { base, byte_offset, extent } => {
                write!(f, "base {base:#x}, byte offset {byte_offset} and extent {extent} together pass 2^64")
            }
        }
    }
}

impl core::error::Error for ChipError {}
