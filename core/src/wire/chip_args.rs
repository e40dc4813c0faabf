//! A whole task's arguments as a chip's runtime reads them, in one fixed block.

use core::fmt;

use zerocopy::little_endian::{I32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::blob::Blob;
use super::chip_tensor::{ChipError, ChipTensor};
use super::layout::wire_layout;
use super::tensor::{RawTensor, Tensor};
use crate::code::Code;

/// Tensors of a task's arguments, at most.
pub const MAX_TENSORS: usize = 256;
/// Scalars of a task's arguments, at most.
pub const MAX_SCALARS: usize = 128;
/// Tensors that a chip's runtime grants one core, checked there.
pub const MAX_CORE_TENSORS: usize = 32;
/// Scalars that a chip's runtime grants one core, checked there.
pub const MAX_CORE_SCALARS: usize = 16;

wire_layout! {
    /// A task's arguments for a chip. Slots past the counts say nothing: whoever reads them reads up to the counts.
    #[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
    #[repr(C, align(64))]
    pub struct ChipStorageTaskArgs as "ChipStorageTaskArgs", "bufabi_chip_storage_task_args": 33856 bytes, align 64 {
        0, 32768, pub(crate) tensors: [ChipTensor; MAX_TENSORS], "as many as tensor_count says";
        32768, 1024, pub(crate) scalars: [U64; MAX_SCALARS], "as many as scalar_count says";
        33792, 4, pub(crate) tensor_count: I32, "0 to 256";
        33796, 4, pub(crate) scalar_count: I32, "0 to 128";
        33800, 56, pub(crate) padding: [u8; 56], "zero";
    }
}

impl ChipStorageTaskArgs {
    /// No arguments, all bytes zero. It is large: put it in a static or on a heap.
    pub const EMPTY: Self = Self {
        tensors: [ChipTensor::ZERO; MAX_TENSORS],
        scalars: [U64::ZERO; MAX_SCALARS],
        tensor_count: I32::ZERO,
        scalar_count: I32::ZERO,
        padding: [0; 56],
    };

    /// Fills it from a blob: each tensor's backing is resolved once, in order, by `resolve`, which gives its base address.
    ///
    /// # Errors
    /// [`MaterializeError`], with what `resolve` said if it was that. The counts are 0 then.
    pub fn materialize<E>(
        &mut self,
        blob: &Blob<'_>,
        mut resolve: impl FnMut(usize, &Tensor<&RawTensor>) -> Result<u64, E>,
    ) -> Result<(), MaterializeError<E>> {
        self.tensor_count = I32::ZERO;
        self.scalar_count = I32::ZERO;
        let (tensors, scalars) = (blob.tensor_count(), blob.scalar_count());
        TooManyArguments::check(tensors, scalars).map_err(MaterializeError::TooMany)?;
        for (index, (slot, tensor)) in self.tensors.iter_mut().zip(blob.tensors()).enumerate() {
            let base = resolve(index, &tensor).map_err(|error| MaterializeError::Resolve { index, error })?;
            slot.materialize_into(&tensor, base).map_err(|error| MaterializeError::Chip { index, error })?;
        }
        for (slot, scalar) in self.scalars.iter_mut().zip(blob.scalars()) {
            *slot = U64::new(scalar);
        }
        let (Ok(tensor_count), Ok(scalar_count)) = (i32::try_from(tensors), i32::try_from(scalars)) else {
            return Err(MaterializeError::TooMany(TooManyArguments { tensors, scalars }));
        };
        self.tensor_count = I32::new(tensor_count);
        self.scalar_count = I32::new(scalar_count);
        Ok(())
    }

    /// The tensors; none past the 256 slots, whatever the count says.
    #[must_use]
    pub fn tensors(&self) -> &[ChipTensor] {
        let count = usize::try_from(self.tensor_count.get()).unwrap_or(0);
        self.tensors.get(..count).unwrap_or(&self.tensors)
    }

    /// The scalars; none past the 128 slots, whatever the count says.
    #[must_use]
    pub fn scalars(&self) -> &[U64] {
        let count = usize::try_from(self.scalar_count.get()).unwrap_or(0);
        self.scalars.get(..count).unwrap_or(&self.scalars)
    }
}

/// Why a task's arguments could not be made for a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaterializeError<E> {
    /// A backing could not be resolved.
    Resolve {
        /// The tensor's place, from 0.
        index: usize,
        /// What the resolver said.
        error: E,
    },
    /// A tensor could not be made.
    Chip {
        /// The tensor's place, from 0.
        index: usize,
        /// Why.
        error: ChipError,
    },
    /// There are more than the block holds.
    TooMany(TooManyArguments),
}

/// More tensors or scalars than a task's arguments hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyArguments {
    /// Tensors that came; 256 are the limit.
    pub tensors: usize,
    /// Scalars that came; 128 are the limit.
    pub scalars: usize,
}

impl TooManyArguments {
    /// Whether a task's arguments may be so many.
    ///
    /// # Errors
    /// Both numbers, when one of them passes its limit.
    pub const fn check(tensors: usize, scalars: usize) -> Result<(), Self> {
        if tensors > MAX_TENSORS || scalars > MAX_SCALARS { Err(Self { tensors, scalars }) } else { Ok(()) }
    }

    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        Code::TooManyArguments
    }
}

impl fmt::Display for TooManyArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tensors, scalars } = self;
        write!(
            f,
            "{tensors} tensors and {scalars} scalars: a task has at most {MAX_TENSORS} tensors and {MAX_SCALARS} scalars"
        )
    }
}

impl<E: fmt::Display> fmt::Display for MaterializeError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve { index, error } => write!(f, "tensor {index}: {error}"),
            Self::Chip { index, error } => write!(f, "tensor {index}: {error}"),
            Self::TooMany(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for TooManyArguments {}
impl<E: core::error::Error> core::error::Error for MaterializeError<E> {}
