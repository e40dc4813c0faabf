//! An argument of a running task as numbers: slices, and views of the `ndarray` crate.
//!
//! This is the one place where memory that other processes can write becomes references, and this is why that is sound:
//!
//! - **Bounds**: an operand's bytes stay mapped as long as it lives, and a view ends within them. What is handed out reaches from the
//!   view's first element to its last, and no byte further.
//! - **Alignment** is looked at, and refused by a typed error.
//! - **Values**: any bits are a value of every type here. BOOL is `u8`, since not every byte is a `bool`.
//! - **Aliasing**: a view that is to be written and may name an element twice is refused; what remains for it is strided access by
//!   copies ([`Strided`](super::Strided)). That nobody, in this process or another, writes what a running task reads, or reaches what it
//!   writes, is what whoever makes an [`Argument`] promises, which is `unsafe`. Among those who cooperate, edges and the check of a task's
//!   arguments establish it; whoever cannot vouch for every process that has the memory mapped for stores takes copies instead.
//!
//! Control memory, where a broken promise would matter beyond the data, is never handed out in this way.

use core::fmt;

use bufabi_core::{Access, Code, DType};
#[cfg(feature = "ndarray")]
use bufabi_core::{View, overlap::may_overlap_itself};
#[cfg(feature = "ndarray")]
use ndarray::{ArrayView, ArrayViewMut, Dim, IxDyn, ShapeBuilder};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::operand::Operand;

/// A type whose values tensors hold: any bits are one, and it has no bits that are none.
///
/// Numbers of 8 bits without a type in Rust are `u8`, as BOOL is.
pub trait Element: Copy + FromBytes + IntoBytes + Immutable + 'static {
    /// The element types that it stands for.
    const DTYPES: &'static [DType];
}

macro_rules! elements {
    ($($type:ty: $($dtype:ident)*;)*) => { $(
        impl Element for $type {
            const DTYPES: &'static [DType] = &[$(DType::$dtype,)*];
        }
        const _: () = {
            let mut rest = <$type as Element>::DTYPES;
            while let [dtype, others @ ..] = rest {
                assert!(dtype.size().trailing_zeros() == size_of::<$type>().trailing_zeros());
                rest = others;
            }
        };
    )* };
}

elements! {
    f32: Float32;
    i8: Int8;
    u8: Uint8 Bool Fp8E4M3Fn Fp8E8M0 Fp4E2M1;
    i16: Int16;
    u16: Uint16;
    i32: Int32;
    u32: Uint32;
    i64: Int64;
    u64: Uint64;
}

#[cfg(feature = "ndarray")]
elements! {
    half::f16: Float16;
    half::bf16: Bfloat16;
}

/// One argument of a task, while the task runs. What it lends ends with the borrow; it cannot be had twice.
#[derive(Debug)]
pub struct Argument<'a>(Operand<'a>);

impl<'a> Argument<'a> {
    /// The argument of a task that an operand is.
    ///
    /// # Safety
    /// As long as the answer lives, nobody, in this process or another, writes a byte of the operand's view, and if the operand's right
    /// writes, nobody else loads or stores one: neither another argument of the same task. For the operands of a kernel, each limited
    /// to what the kernel does with it, and processes that keep to the protocol, that holds from its start to its return: the check at
    /// submit refuses arguments of one task that clash, and edges keep other tasks away.
    #[must_use]
    pub const unsafe fn new(operand: Operand<'a>) -> Self {
        Self(operand)
    }

    /// What may be done with it.
    #[must_use]
    pub const fn access(&self) -> Access {
        self.0.access()
    }

    /// Its elements, if they lie densely one behind the other.
    ///
    /// # Errors
    /// [`TypedError`].
    pub fn slice<T: Element>(&self) -> Result<&[T], TypedError> {
        let (first, count) = self.dense::<T>(Access::Read)?;
        // SAFETY: `dense` says that so many elements lie from `first` on within the view, aligned; they stay mapped, readable and,
        // by the promise of `new`, unwritten as long as `self` lives; any bits are a `T`.
        Ok(unsafe { core::slice::from_raw_parts(first, count) })
    }

    /// Its elements, to be written, if they lie densely one behind the other. What a task may only write can be read through it
    /// too, and means nothing.
    ///
    /// # Errors
    /// [`TypedError`].
    pub fn slice_mut<T: Element>(&mut self) -> Result<&mut [T], TypedError> {
        let (first, count) = self.dense::<T>(Access::Write)?;
        // SAFETY: as for `slice`, for stores as well: the right writes, nobody else reaches them by the promise of `new`, and `self` is
        // borrowed exclusively. Memory that can be written can be read, and is never without a value.
        Ok(unsafe { core::slice::from_raw_parts_mut(first, count) })
    }

    /// All of it, with its shape and strides.
    ///
    /// # Errors
    /// [`TypedError`].
    #[cfg(feature = "ndarray")]
    pub fn array<T: Element>(&self) -> Result<ArrayView<'_, T, IxDyn>, TypedError> {
        let (first, layout) = self.strided::<T>(Access::Read)?;
        // SAFETY: `strided` says that all elements of the layout lie within the view, from the aligned `first` on, and that neither
        // their number nor their distance in bytes passes `isize::MAX`; they stay mapped, readable and, by the promise of `new`,
        // unwritten as long as `self` lives; any bits are a `T`. Strides are at least 0.
        Ok(unsafe { ArrayView::from_shape_ptr(layout, first.cast_const()) })
    }

    /// All of it, with its shape and strides, to be written.
    ///
    /// # Errors
    /// [`TypedError`]; [`TypedError::SelfOverlap`] for a view that may name an element twice, [`TypedError::Interleaved`] for one of
    /// which an array cannot know that it does not.
    #[cfg(feature = "ndarray")]
    pub fn array_mut<T: Element>(&mut self) -> Result<ArrayViewMut<'_, T, IxDyn>, TypedError> {
        let (first, layout) = self.strided::<T>(Access::Write)?;
        if !is_nested(self.0.view()) {
            let overlaps = may_overlap_itself(self.0.view());
            return Err(if overlaps { TypedError::SelfOverlap } else { TypedError::Interleaved });
        }
        // SAFETY: as for `array`, for stores as well: the right writes, nobody else reaches them by the promise of `new`, `self` is
        // borrowed exclusively, and no two indices name one element.
        Ok(unsafe { ArrayViewMut::from_shape_ptr(layout, first) })
    }

    /// The first element, after what all kinds of views ask for was checked.
    fn first<T: Element>(&self, needed: Access) -> Result<*mut T, TypedError> {
        let (view, granted) = (self.0.view(), self.0.access());
        if !T::DTYPES.contains(&view.dtype()) {
            return Err(TypedError::Dtype { found: view.dtype(), asked: core::any::type_name::<T>() });
        }
        if !granted.grants(needed) {
            return Err(TypedError::Denied { granted, needed });
        }
        // The operand keeps all up to the view's end mapped, so its start is an offset.
        let offset = usize::try_from(view.byte_offset()).unwrap_or(usize::MAX);
        let first = self.0.base().as_ptr().wrapping_add(offset).cast::<T>();
        if first.is_aligned() {
            Ok(first)
        } else {
            Err(TypedError::Misaligned { address: first.addr(), alignment: align_of::<T>() })
        }
    }

    /// The first element, and how many lie behind one another, itself included.
    fn dense<T: Element>(&self, needed: Access) -> Result<(*mut T, usize), TypedError> {
        let first = self.first::<T>(needed)?;
        let view = self.0.view();
        if !view.is_contiguous() {
            return Err(TypedError::NotContiguous);
        }
        // A dense view has as many elements as its extent has room for, and that lies in this address space.
        let count = usize::try_from(view.elements());
        Ok((first, count.map_err(|_| TypedError::TooManyElements { elements: view.elements() })?))
    }

    /// The first element, and where the others lie.
    #[cfg(feature = "ndarray")]
    fn strided<T: Element>(
        &self,
        needed: Access,
    ) -> Result<(*mut T, ndarray::StrideShape<IxDyn>), TypedError> {
        let first = self.first::<T>(needed)?;
        let view = self.0.view();
        let elements = view.elements();
        // A view that overlaps itself can have more of them than there are addresses.
        if isize::try_from(elements).is_err() {
            return Err(TypedError::TooManyElements { elements });
        }
        let wide = |slots: &[u32]| -> Vec<usize> {
            slots.iter().map(|&slot| usize::try_from(slot).unwrap_or(usize::MAX)).collect()
        };
        // A step in a dimension of one element is never taken, and may lead anywhere.
        let steps = view.strides().iter().zip(view.shapes());
        let steps: Vec<u32> = steps.map(|(&step, &count)| if count == 1 { 0 } else { step }).collect();
        Ok((first, Dim(wide(view.shapes())).strides(Dim(wide(&steps)))))
    }
}

/// Each step passes all that the smaller ones reach, which is how arrays know that no two indices name one element.
#[cfg(feature = "ndarray")]
fn is_nested(view: &View) -> bool {
    let dimensions = view.strides().iter().zip(view.shapes()).filter(|&(_, &count)| count > 1);
    let mut dimensions: Vec<(u64, u64)> =
        dimensions.map(|(&step, &count)| (u64::from(step), u64::from(count))).collect();
    dimensions.sort_unstable();
    let mut reach = 0_u64;
    dimensions.iter().all(|&(step, count)| {
        let passes = step > reach;
        // Nothing saturates for a view, since all of it lies below 2^64.
        reach = reach.saturating_add(step.saturating_mul(count.saturating_sub(1)));
        passes
    })
}

/// Why an argument is not to be had as numbers of that type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypedError {
    /// Its elements have another type.
    Dtype {
        /// The type that they have.
        found: DType,
        /// The type that was asked for.
        asked: &'static str,
    },
    /// The task may not do that with it.
    Denied {
        /// What it may do.
        granted: Access,
        /// What would be done.
        needed: Access,
    },
    /// Its first element does not lie where one of that type must.
    Misaligned {
        /// Where it lies.
        address: usize,
        /// What addresses must be a multiple of.
        alignment: usize,
    },
    /// Its elements do not lie densely one behind the other.
    NotContiguous,
    /// It is to be written and may name an element twice.
    SelfOverlap,
    /// It is to be written, and its dimensions reach into one another, although no two indices name one element.
    Interleaved,
    /// It has more elements than there are addresses, as only one that overlaps itself can.
    TooManyElements {
        /// How many, at most 2^64 - 1.
        elements: u64,
    },
}

impl TypedError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Dtype { .. } => Code::ElementType,
            Self::Denied { .. } => Code::Denied,
            Self::Misaligned { .. } => Code::Misaligned,
            Self::NotContiguous => Code::NotContiguous,
            Self::SelfOverlap | Self::Interleaved => Code::SelfOverlap,
            Self::TooManyElements { .. } => Code::TooManyElements,
        }
    }
}

impl fmt::Display for TypedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Dtype { found, asked } => write!(f, "its elements are {found}, and {asked} was asked for"),
            Self::Denied { granted, needed } => write!(f, "{granted} is granted, and {needed} was asked for"),
            Self::Misaligned { address, alignment } => {
                write!(f, "its first element lies at {address:#x}, which is no multiple of {alignment}")
            }
            Self::NotContiguous => f.write_str("its elements do not lie densely one behind the other"),
            Self::SelfOverlap => f.write_str("it is written and may overlap itself"),
            Self::Interleaved => {
                f.write_str("it is written and its dimensions reach into one another, which no array takes")
            }
            Self::TooManyElements { elements } => {
                write!(f, "it has {elements} elements, more than there are addresses")
            }
        }
    }
}

impl std::error::Error for TypedError {}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]
mod tests;
