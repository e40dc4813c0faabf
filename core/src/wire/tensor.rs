//! What a task argument is at L3 and above: a whole descriptor and a strided view, 144 bytes, and never an address.

use core::fmt;
use core::ops::Range;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

use super::descriptor::{self, Descriptor, DescriptorError, RawDescriptor};
use super::dtype::DType;
use super::layout::wire_layout;
use super::record::Holds;
use super::verdict::{Broken, First, Verdict};
use crate::code::Code;
use crate::view::{self, MAX_NDIMS, Slots, View, ViewError};

wire_layout! {
    /// A tensor's bytes, unchecked.
    #[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
    #[repr(C)]
    pub struct RawTensor as "Tensor", "bufabi_tensor": 144 bytes, align 1 {
        0, 88, pub buffer: RawDescriptor, "the backing";
        88, 8, pub byte_offset: U64, "bytes from the backing's start to the first element";
        96, 4, pub ndims: U32, "1 to 5";
        100, 20, pub shapes: [U32; MAX_NDIMS], "elements of each dimension; 0 past ndims";
        120, 20, pub strides: [U32; MAX_NDIMS], "elements from one index to the next, never 0; 0 past ndims";
        140, 1, pub dtype: u8, "the elements' type";
        141, 3, pub padding: [u8; 3], "written as zero, ignored on reading";
    }
}

/// A tensor whose rules all held: owned, or by reference (`Tensor<&RawTensor>`).
///
/// It proves that the descriptor keeps to its form and that the view lies within the `nbytes` that the descriptor claims. Whether
/// the backing really has them only an importer can tell.
#[derive(Clone, Copy, Immutable, IntoBytes)]
#[repr(transparent)]
pub struct Tensor<H = RawTensor>(H);

impl Tensor {
    /// The view of a backing. Padding is zero.
    ///
    /// # Errors
    /// [`ViewError`] when the view, legal in another backing, reaches past this one.
    pub fn new<D: Holds<RawDescriptor>>(buffer: &Descriptor<D>, view: &View) -> Result<Self, ViewError> {
        let nbytes = buffer.nbytes();
        if view.end() > nbytes {
            let (byte_offset, extent) = (view.byte_offset(), view.extent());
            return Err(ViewError::OutOfBounds { byte_offset, extent, nbytes });
        }
        Ok(Self(RawTensor {
            buffer: buffer.raw().without_padding(),
            byte_offset: U64::new(view.byte_offset()),
            ndims: U32::new(u32::from(view.ndims())),
            shapes: view.shape_slots().map(U32::new),
            strides: view.stride_slots().map(U32::new),
            dtype: view.dtype().to_wire(),
            padding: [0; 3],
        }))
    }

    /// Copies exactly 144 bytes once and checks the copy: for bytes that somebody else may write.
    ///
    /// # Errors
    /// The first rule that the copy breaks.
    pub fn decode(bytes: &[u8]) -> Result<Self, TensorError> {
        let raw = RawTensor::read_from_bytes(bytes).map_err(|_| TensorError::Size { found: bytes.len() })?;
        check(&raw)?;
        Ok(Self(raw.without_padding()))
    }
}

impl<'a> Tensor<&'a RawTensor> {
    /// Checks exactly 144 bytes where they lie, and copies nothing. Nobody may write them while the tensor lives, which the
    /// borrow says for this process alone.
    ///
    /// # Errors
    /// The first rule that they break.
    #[inline]
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, TensorError> {
        let raw = RawTensor::ref_from_bytes(bytes).map_err(|_| TensorError::Size { found: bytes.len() })?;
        Self::from_raw(raw)
    }

    /// Checks a record where it lies.
    ///
    /// # Errors
    /// The first rule that it breaks.
    #[inline]
    pub fn from_raw(raw: &'a RawTensor) -> Result<Self, TensorError> {
        check(raw)?;
        Ok(Self(raw))
    }

    /// A record that [`check`] has found legal.
    #[inline]
    pub(crate) const fn from_checked(raw: &'a RawTensor) -> Self {
        Self(raw)
    }
}

impl<H: Holds<RawTensor>> Tensor<H> {
    /// The record's bytes. Its padding is zero only if whoever wrote it kept to the wire ABI.
    #[must_use]
    #[inline]
    pub fn raw(&self) -> &RawTensor {
        self.0.record()
    }

    /// An owned copy, padding zero.
    #[must_use]
    #[inline]
    pub fn to_owned(&self) -> Tensor {
        Tensor(self.raw().without_padding())
    }

    /// The wire bytes, padding and tails zero.
    #[must_use]
    #[inline]
    pub fn encode(&self) -> [u8; RawTensor::SIZE] {
        transmute!(self.raw().without_padding())
    }

    /// The backing.
    #[must_use]
    #[inline]
    pub fn descriptor(&self) -> Descriptor<&RawDescriptor> {
        Descriptor::from_checked(&self.raw().buffer)
    }

    /// The elements' type.
    #[must_use]
    #[inline]
    pub fn dtype(&self) -> DType {
        DType::from_wire(self.raw().dtype).unwrap_or(DType::Uint8)
    }

    /// Where the elements lie in the backing.
    #[must_use]
    #[inline]
    pub fn view(&self) -> View {
        let raw = self.raw();
        View::of_checked(
            raw.byte_offset.get(),
            raw.ndims.get(),
            self.dtype(),
            raw.shapes.map(U32::get),
            raw.strides.map(U32::get),
        )
    }
}

impl<H: Holds<RawTensor>, O: Holds<RawTensor>> PartialEq<Tensor<O>> for Tensor<H> {
    /// All fields, padding aside.
    fn eq(&self, other: &Tensor<O>) -> bool {
        self.descriptor() == other.descriptor() && self.view() == other.view()
    }
}

impl<H: Holds<RawTensor>> Eq for Tensor<H> {}

impl<H: Holds<RawTensor>> fmt::Debug for Tensor<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor").field("descriptor", &self.descriptor()).field("view", &self.view()).finish()
    }
}

impl RawTensor {
    #[inline]
    pub(crate) const fn without_padding(mut self) -> Self {
        self.buffer = self.buffer.without_padding();
        self.padding = [0; 3];
        self
    }
}

/// The first rule of a tensor that was broken, with what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorError {
    /// Not exactly 144 bytes.
    Size {
        /// Bytes that came.
        found: usize,
    },
    /// A rule of its descriptor.
    Descriptor(DescriptorError),
    /// No such element type.
    Dtype {
        /// The number that came.
        found: u8,
    },
    /// A rule of its view.
    View(ViewError),
}

impl TensorError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Size { .. } => Code::Size,
            Self::Descriptor(error) => error.code(),
            Self::Dtype { .. } => Code::Dtype,
            Self::View(error) => error.code(),
        }
    }

    /// The bytes of the record that break the rule, for pointing at them; a wrong size points past the end or at nothing.
    #[must_use]
    pub const fn span(self) -> Range<usize> {
        match self {
            Self::Size { found } if found > RawTensor::SIZE => RawTensor::SIZE..found,
            Self::Size { found } => found..found,
            Self::Descriptor(error) => error.span(),
            Self::Dtype { .. } => 140..141,
            Self::View(error) => match error {
                ViewError::Ndims { .. } => 96..100,
                ViewError::ByteOffsetAlignment { .. } => 88..96,
                ViewError::ShapeZero { dim } => slot(100, dim),
                ViewError::InactiveDims { dim, shape, .. } if shape != 0 => slot(100, dim),
                ViewError::StrideZero { dim }
                | ViewError::InactiveDims { dim, .. }
                | ViewError::RowMajorStride { dim, .. } => slot(120, dim),
                ViewError::ExtentOverflow { .. } => 100..140,
                ViewError::OutOfBounds { .. } => 88..140,
            },
        }
    }
}

/// The bytes of slot number `dim` of the array at `start`.
#[expect(clippy::as_conversions, reason = "widening, and From is not const")]
const fn slot(start: usize, dim: u8) -> Range<usize> {
    let start = start.saturating_add((dim as usize).saturating_mul(4));
    start..start.saturating_add(4)
}

impl From<DescriptorError> for TensorError {
    fn from(error: DescriptorError) -> Self {
        Self::Descriptor(error)
    }
}

impl From<ViewError> for TensorError {
    fn from(error: ViewError) -> Self {
        Self::View(error)
    }
}

impl fmt::Display for TensorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { found } => write!(f, "a tensor has exactly 144 bytes, found {found}"),
            Self::Descriptor(error) => error.fmt(f),
            Self::Dtype { found } => write!(f, "dtype {found} does not exist: 0 to 14 do"),
            Self::View(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for TensorError {}

/// All rules in the order of the wire ABI; the first broken one is the error.
#[inline]
pub(crate) fn check(raw: &RawTensor) -> Result<(), TensorError> {
    match rules::<Broken>(raw) {
        Ok(()) => Ok(()),
        Err(Broken) => first_broken(raw),
    }
}

/// The rules once more, for the error.
#[cold]
#[inline(never)]
fn first_broken(raw: &RawTensor) -> Result<(), TensorError> {
    rules::<First<TensorError>>(raw).map_err(|First(error)| error)
}

#[inline]
fn rules<V>(raw: &RawTensor) -> Result<(), V>
where
    V: Verdict<DescriptorError> + Verdict<TensorError> + Verdict<ViewError>,
{
    descriptor::rules(&raw.buffer)?;
    let ndims = raw.ndims.get();
    if !(1..=5).contains(&ndims) {
        return Err(V::of(|| ViewError::Ndims { found: ndims }));
    }
    let Some(dtype) = DType::from_wire(raw.dtype) else {
        return Err(V::of(|| TensorError::Dtype { found: raw.dtype }));
    };
    let slots = Slots { shapes: &raw.shapes, strides: &raw.strides };
    view::check(raw.byte_offset.get(), ndims, dtype, slots, raw.buffer.nbytes.get())?;
    Ok(())
}
