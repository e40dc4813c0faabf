//! The geometry of a strided view over one backing, and the rules that make one legal.

use core::fmt;

use crate::code::Code;
use crate::wire::dtype::DType;
use crate::wire::verdict::{Broken, First, Verdict};

/// Dimensions that a view can have.
pub const MAX_NDIMS: usize = 5;

/// A legal strided view: where its elements lie in a backing.
///
/// Holding one proves that the rank is 1 to 5, that no shape and no stride is 0, that slots past the rank are 0, that the offset is
/// a multiple of the element size, and that all of it lies within the backing that it was checked against. So none of
/// its byte positions passes 2^64 - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct View {
    byte_offset: u64,
    extent: u64,
    shapes: [u32; MAX_NDIMS],
    strides: [u32; MAX_NDIMS],
    ndims: u8,
    dtype: DType,
}

impl View {
    /// The view of `shapes` elements at `strides` (in elements) from `byte_offset` on, in a backing of `nbytes` bytes.
    ///
    /// # Errors
    /// The first broken rule. Shapes and strides of different lengths are a rank of the longer one, whose missing parts
    /// are zero.
    pub fn new(
        byte_offset: u64,
        dtype: DType,
        shapes: &[u32],
        strides: &[u32],
        nbytes: u64,
    ) -> Result<Self, ViewError> {
        let ndims = u32::try_from(shapes.len().max(strides.len())).unwrap_or(u32::MAX);
        let mut slots = [[0; MAX_NDIMS]; 2];
        for (slots, given) in slots.iter_mut().zip([shapes, strides]) {
            slots.iter_mut().zip(given).for_each(|(slot, value)| *slot = *value);
        }
        let [shapes, strides] = slots;
        Self::from_slots(byte_offset, ndims, dtype, shapes, strides, nbytes)
    }

    /// The view of all five slots of each, as a tensor has them.
    ///
    /// # Errors
    /// The first broken rule, in the order of the wire ABI.
    #[inline]
    pub fn from_slots(
        byte_offset: u64,
        ndims: u32,
        dtype: DType,
        shapes: [u32; MAX_NDIMS],
        strides: [u32; MAX_NDIMS],
        nbytes: u64,
    ) -> Result<Self, ViewError> {
        let slots = Slots { shapes: &shapes, strides: &strides };
        match check::<Broken, _>(byte_offset, ndims, dtype, slots, nbytes) {
            Ok(extent) => {
                Ok(Self { byte_offset, extent, shapes, strides, ndims: ndims.to_le_bytes()[0], dtype })
            }
            Err(Broken) => first_broken(byte_offset, ndims, dtype, slots, nbytes),
        }
    }

    /// The view of slots that a tensor's rules have found legal.
    #[inline]
    pub(crate) fn of_checked(
        byte_offset: u64,
        ndims: u32,
        dtype: DType,
        shapes: [u32; MAX_NDIMS],
        strides: [u32; MAX_NDIMS],
    ) -> Self {
        let extent = extent_elements(&shapes, &strides) << dtype.size_log2();
        Self { byte_offset, extent, shapes, strides, ndims: ndims.to_le_bytes()[0], dtype }
    }

    /// A dense row-major view.
    ///
    /// # Errors
    /// [`ViewError::RowMajorStride`] when a stride does not fit in 32 bits; else the first broken rule.
    pub fn row_major(byte_offset: u64, dtype: DType, shapes: &[u32], nbytes: u64) -> Result<Self, ViewError> {
        let ndims = u32::try_from(shapes.len()).unwrap_or(u32::MAX);
        if shapes.len() > MAX_NDIMS {
            return Err(ViewError::Ndims { found: ndims });
        }
        let mut slots = [0; MAX_NDIMS];
        slots.iter_mut().zip(shapes).for_each(|(slot, value)| *slot = *value);
        let strides = row_major_strides(&slots, shapes.len())?;
        Self::from_slots(byte_offset, ndims, dtype, slots, strides, nbytes)
    }

    /// Bytes from the backing's start to the first element.
    #[must_use]
    #[inline]
    pub const fn byte_offset(&self) -> u64 {
        self.byte_offset
    }

    /// Bytes from the first element's first to the last element's last; less than 2^64 - 1.
    #[must_use]
    #[inline]
    pub const fn extent(&self) -> u64 {
        self.extent
    }

    /// The byte behind the view's last.
    #[must_use]
    #[inline]
    pub const fn end(&self) -> u64 {
        self.byte_offset.saturating_add(self.extent)
    }

    /// Dimensions, 1 to 5.
    #[must_use]
    #[inline]
    pub const fn ndims(&self) -> u8 {
        self.ndims
    }

    /// The elements' type.
    #[must_use]
    #[inline]
    pub const fn dtype(&self) -> DType {
        self.dtype
    }

    /// Elements of each dimension, none 0.
    #[must_use]
    #[inline]
    pub fn shapes(&self) -> &[u32] {
        self.shapes.get(..usize::from(self.ndims)).unwrap_or(&self.shapes)
    }

    /// Elements from one index to the next, for each dimension, none 0.
    #[must_use]
    #[inline]
    pub fn strides(&self) -> &[u32] {
        self.strides.get(..usize::from(self.ndims)).unwrap_or(&self.strides)
    }

    /// All five slots of the shape; those past the rank are 0.
    #[must_use]
    #[inline]
    pub const fn shape_slots(&self) -> &[u32; MAX_NDIMS] {
        &self.shapes
    }

    /// All five slots of the strides; those past the rank are 0.
    #[must_use]
    #[inline]
    pub const fn stride_slots(&self) -> &[u32; MAX_NDIMS] {
        &self.strides
    }

    /// Elements, counted as often as an index names them; saturates at 2^64 - 1.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.shapes().iter().fold(1_u64, |product, &shape| product.saturating_mul(u64::from(shape)))
    }

    /// The strides are exactly the row-major ones of the shape. That of a dimension of one element counts too: strides
    /// are never normalised.
    #[must_use]
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        is_row_major(&self.shapes, &self.strides)
    }
}

/// The row-major strides of a shape, 0 past the rank.
fn row_major_strides(shapes: &[u32; MAX_NDIMS], ndims: usize) -> Result<[u32; MAX_NDIMS], ViewError> {
    let mut strides = [0; MAX_NDIMS];
    let mut step = 1_u64;
    for (dim, (slot, &shape)) in (0_u8..5).zip(strides.iter_mut().zip(shapes)).take(ndims).rev() {
        *slot = u32::try_from(step).map_err(|_| ViewError::RowMajorStride { dim, stride: step })?;
        // A dimension of no elements is for the rules to find, and not as a stride of 0.
        step = step.saturating_mul(u64::from(shape.max(1)));
    }
    Ok(strides)
}

/// `strides` are exactly the row-major ones of `shapes`, both legal: each is the product of the next slot's shape and stride,
/// and the last is 1. Each product is exact, so none depends on another.
///
/// Past the rank both are 0, so that the last stride within it differs from the product by itself, which is not 0: exactly that one
/// difference is 1, and no other is more than 0.
#[inline]
pub(crate) fn is_row_major(shapes: &[u32; MAX_NDIMS], strides: &[u32; MAX_NDIMS]) -> bool {
    let [_, a, b, c, d] = [0, 1, 2, 3, 4].map(|slot: usize| {
        let (shape, stride) = (shapes.get(slot), strides.get(slot));
        u64::from(shape.copied().unwrap_or(0)).wrapping_mul(u64::from(stride.copied().unwrap_or(0)))
    });
    let (mut bits, mut sum) = (0, 0_u64);
    for (&stride, product) in strides.iter().zip([a, b, c, d, 0]) {
        let difference = u64::from(stride) ^ product;
        bits |= difference;
        sum = sum.wrapping_add(difference);
    }
    // The first says that all of them are 0 or 1, the second that there is one 1.
    bits == 1 && sum == 1
}

/// The five slots of shapes and of strides, where they lie: as numbers, or as a record's bytes.
#[derive(Clone, Copy)]
pub(crate) struct Slots<'a, S> {
    pub(crate) shapes: &'a [S; MAX_NDIMS],
    pub(crate) strides: &'a [S; MAX_NDIMS],
}

impl<S: Copy + Into<u32>> Slots<'_, S> {
    /// Each slot's number, shape and stride.
    #[inline]
    fn numbered(self) -> impl Iterator<Item = (u8, u32, u32)> {
        (0_u8..)
            .zip(self.shapes.iter().zip(self.strides))
            .map(|(dim, (&shape, &stride))| (dim, shape.into(), stride.into()))
    }
}

/// The rules of a view in the order of the wire ABI, from the rank on. Gives the extent in bytes.
#[inline]
pub(crate) fn check<V: Verdict<ViewError>, S: Copy + Into<u32>>(
    byte_offset: u64,
    ndims: u32,
    dtype: DType,
    slots: Slots<'_, S>,
    nbytes: u64,
) -> Result<u64, V> {
    let element_size = dtype.size();
    if !(1..=5).contains(&ndims) {
        return Err(V::of(|| ViewError::Ndims { found: ndims }));
    }
    if byte_offset & u64::from(element_size.wrapping_sub(1)) != 0 {
        return Err(V::of(|| ViewError::ByteOffsetAlignment { byte_offset, element_size }));
    }
    // A jump by rank, so that each rank's loop has a known length.
    let elements = match ndims {
        1 => check_slots::<1, V, S>(slots)?,
        2 => check_slots::<2, V, S>(slots)?,
        3 => check_slots::<3, V, S>(slots)?,
        4 => check_slots::<4, V, S>(slots)?,
        _ => check_slots::<5, V, S>(slots)?,
    };
    let extent = elements.saturating_mul(u64::from(element_size));
    if extent == u64::MAX {
        return Err(V::of(|| ViewError::ExtentOverflow { elements, element_size }));
    }
    match nbytes.checked_sub(byte_offset) {
        Some(room) if extent <= room => Ok(extent),
        Some(_) | None => Err(V::of(|| ViewError::OutOfBounds { byte_offset, extent, nbytes })),
    }
}

/// The rules of the slots for rank `N`. Gives the extent in elements, saturating: 1 + sum of (shape - 1) * stride.
// Always, or the compiler calls the five of them through a table, with the slots in memory.
#[inline(always)]
fn check_slots<const N: usize, V: Verdict<ViewError>, S: Copy + Into<u32>>(
    slots: Slots<'_, S>,
) -> Result<u64, V> {
    let mut elements = 1_u64;
    for (dim, shape, stride) in slots.numbered().take(N) {
        if shape == 0 {
            return Err(V::of(|| ViewError::ShapeZero { dim }));
        }
        if stride == 0 {
            return Err(V::of(|| ViewError::StrideZero { dim }));
        }
        // (2^32 - 1)^2 fits in 64 bits.
        elements = elements.saturating_add(u64::from(shape.wrapping_sub(1)).wrapping_mul(u64::from(stride)));
    }
    for (dim, shape, stride) in slots.numbered().skip(N) {
        if shape | stride != 0 {
            return Err(V::of(|| ViewError::InactiveDims { dim, shape, stride }));
        }
    }
    Ok(elements)
}

/// The rules once more, for the error.
#[cold]
#[inline(never)]
fn first_broken(
    byte_offset: u64,
    ndims: u32,
    dtype: DType,
    slots: Slots<'_, u32>,
    nbytes: u64,
) -> Result<View, ViewError> {
    match check::<First<ViewError>, _>(byte_offset, ndims, dtype, slots, nbytes) {
        Ok(extent) => {
            let (shapes, strides) = (*slots.shapes, *slots.strides);
            Ok(View { byte_offset, extent, shapes, strides, ndims: ndims.to_le_bytes()[0], dtype })
        }
        Err(First(error)) => Err(error),
    }
}

/// 1 + sum of (shape - 1) * stride of slots that are legal, so that the sum does not wrap, taken from the products of both that
/// [`is_row_major`] needs too. Slots past the rank are 0 and add nothing.
#[inline]
pub(crate) fn extent_elements(shapes: &[u32; MAX_NDIMS], strides: &[u32; MAX_NDIMS]) -> u64 {
    shapes.iter().zip(strides).fold(1_u64, |sum, (&shape, &stride)| {
        let stride = u64::from(stride);
        sum.wrapping_add(u64::from(shape).wrapping_mul(stride)).wrapping_sub(stride)
    })
}

/// The first rule of a view that was broken, with the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewError {
    /// A rank that is not 1 to 5.
    Ndims {
        /// The rank that came.
        found: u32,
    },
    /// The offset is no multiple of the element size.
    ByteOffsetAlignment {
        /// The offset.
        byte_offset: u64,
        /// Bytes of an element.
        element_size: u32,
    },
    /// A dimension of no elements.
    ShapeZero {
        /// Which one, from 0.
        dim: u8,
    },
    /// A step of 0.
    StrideZero {
        /// Which dimension's, from 0.
        dim: u8,
    },
    /// A slot past the rank is not 0.
    InactiveDims {
        /// Which slot, from 0.
        dim: u8,
        /// Its shape.
        shape: u32,
        /// Its stride.
        stride: u32,
    },
    /// The extent does not fit in 64 bits.
    ExtentOverflow {
        /// Elements from the first to the last; saturates at 2^64 - 1.
        elements: u64,
        /// Bytes of an element.
        element_size: u32,
    },
    /// The view reaches past its backing.
    OutOfBounds {
        /// Where it starts, in bytes.
        byte_offset: u64,
        /// How far it reaches, in bytes.
        extent: u64,
        /// Bytes of the backing.
        nbytes: u64,
    },
    /// A dense view of that shape has a stride that does not fit in 32 bits. No record breaks this rule.
    RowMajorStride {
        /// Which dimension's, from 0.
        dim: u8,
        /// The stride, in elements; saturates at 2^64 - 1.
        stride: u64,
    },
}

impl ViewError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Ndims { .. } => Code::Ndims,
            Self::ByteOffsetAlignment { .. } => Code::ByteOffsetAlignment,
            Self::ShapeZero { .. } => Code::ShapeZero,
            Self::StrideZero { .. } => Code::StrideZero,
            Self::InactiveDims { .. } => Code::InactiveDims,
            Self::ExtentOverflow { .. } => Code::ExtentOverflow,
            Self::OutOfBounds { .. } => Code::OutOfBounds,
            Self::RowMajorStride { .. } => Code::RowMajorStride,
        }
    }
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Ndims { found } => write!(f, "a view has 1 to 5 dimensions, found {found}"),
            Self::ByteOffsetAlignment { byte_offset, element_size } => {
                write!(f, "byte offset {byte_offset} is no multiple of the element's {element_size} bytes")
            }
            Self::ShapeZero { dim } => write!(f, "dimension {dim} has no elements"),
            Self::StrideZero { dim } => {
                write!(f, "the stride of dimension {dim} is 0: there is no broadcast")
            }
            Self::InactiveDims { dim, shape, stride } => write!(
                f,
                "dimension {dim} lies past the rank and has shape {shape}, stride {stride}: both must be 0"
            ),
            Self::ExtentOverflow { elements, element_size } => {
                let least = if elements == u64::MAX { "at least " } else { "" };
                write!(
                    f,
                    "an extent of {least}{elements} elements of {element_size} bytes does not fit in 64 bits"
                )
            }
            Self::OutOfBounds { byte_offset, extent, nbytes } => write!(
                f,
                "{extent} bytes from byte offset {byte_offset} on reach past the backing's {nbytes} bytes"
            ),
            Self::RowMajorStride { dim, stride } => write!(
                f,
                "the row-major stride of dimension {dim} is {stride} elements: it does not fit in 32 bits"
            ),
        }
    }
}

impl core::error::Error for ViewError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_rules_is_that_of_the_wire_abi() {
        let at = |offset, dims: &[u32], strides: &[u32]| View::new(offset, DType::Float32, dims, strides, 64);
        assert_eq!(at(0, &[], &[]), Err(ViewError::Ndims { found: 0 }));
        assert_eq!(at(0, &[1; 6], &[1; 6]), Err(ViewError::Ndims { found: 6 }));
        assert_eq!(
            at(2, &[0], &[0]),
            Err(ViewError::ByteOffsetAlignment { byte_offset: 2, element_size: 4 })
        );
        assert_eq!(at(0, &[1, 0], &[0, 0]), Err(ViewError::StrideZero { dim: 0 }));
        assert_eq!(at(0, &[0, 0], &[0, 0]), Err(ViewError::ShapeZero { dim: 0 }));
        assert_eq!(
            at(0, &[17], &[1]),
            Err(ViewError::OutOfBounds { byte_offset: 0, extent: 68, nbytes: 64 })
        );
        assert!(at(0, &[16], &[1]).is_ok());
        assert!(at(60, &[1], &[7]).is_ok());
    }

    #[test]
    fn an_extent_past_64_bits_is_an_overflow_and_never_wraps() {
        let huge = [u32::MAX; 5];
        let view = View::from_slots(0, 5, DType::Int64, huge, huge, u64::MAX);
        assert_eq!(view, Err(ViewError::ExtentOverflow { elements: u64::MAX, element_size: 8 }));
        let view =
            View::from_slots(0, 1, DType::Int64, [1 << 31, 0, 0, 0, 0], [1 << 31, 0, 0, 0, 0], u64::MAX);
        let elements = ((1 << 31) - 1) * (1 << 31) + 1;
        assert_eq!(view, Err(ViewError::ExtentOverflow { elements, element_size: 8 }));
        // (2^32 - 2) * (2^32 - 1) + 1 elements of one byte: the largest of rank 1.
        let extent = 4_294_967_294 * 4_294_967_295 + 1;
        let view = View::new(0, DType::Uint8, &[u32::MAX], &[u32::MAX], u64::MAX).unwrap();
        assert_eq!((view.extent(), view.end()), (extent, extent));
        assert!(View::new(u64::MAX - extent, DType::Uint8, &[u32::MAX], &[u32::MAX], u64::MAX).is_ok());
        assert!(matches!(
            View::new(u64::MAX - extent + 1, DType::Uint8, &[u32::MAX], &[u32::MAX], u64::MAX),
            Err(ViewError::OutOfBounds { .. })
        ));
    }

    #[test]
    fn row_major_is_contiguous_and_a_transposed_view_is_not() {
        let dense = View::row_major(0, DType::Float32, &[3, 4, 5], 240).unwrap();
        assert_eq!(dense.strides(), [20, 5, 1]);
        assert!(dense.is_contiguous());
        let transposed = View::new(0, DType::Float32, &[4, 3], &[1, 4], 48).unwrap();
        assert!(!transposed.is_contiguous());
        // The stride of a dimension of one element is not normalised.
        assert!(!View::new(0, DType::Float32, &[1, 4], &[5, 1], 48).unwrap().is_contiguous());
    }

    #[test]
    fn a_row_major_view_that_cannot_be_says_what_is_wrong_with_its_shape() {
        let dense = |shapes: &[u32]| View::row_major(0, DType::Uint8, shapes, u64::MAX);
        let stride = 1 << 32;
        assert_eq!(dense(&[1, 65_536, 65_536]), Err(ViewError::RowMajorStride { dim: 0, stride }));
        assert_eq!(dense(&[4, 0]), Err(ViewError::ShapeZero { dim: 1 }));
        assert_eq!(dense(&[]), Err(ViewError::Ndims { found: 0 }));
        assert_eq!(dense(&[u32::MAX; 6]), Err(ViewError::Ndims { found: 6 }));
    }
}
