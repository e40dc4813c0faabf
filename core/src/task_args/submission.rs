//! The proof that a task's arguments passed all checks of a submit.

use core::fmt;

use super::clash::{self, Scratch};
use super::error::SubmitError;
use super::{MAX_SCALARS, MAX_TENSORS};
use crate::rights::{self, Tag};
use crate::wire::blob::{self, EncodeError};
use crate::wire::record::Holds;
use crate::wire::tensor::{RawTensor, Tensor};

/// Arguments that passed every check: limits, rights on their final tags, and no clash over a written byte.
///
/// It borrows them, so that they cannot change while it lives. It does not say that a backing exists: only an importer can.
#[derive(Clone, Copy)]
pub struct Submission<'a, H: Holds<RawTensor> = RawTensor> {
    tensors: &'a [Tensor<H>],
    tags: &'a [Tag],
    scalars: &'a [u64],
}

impl<'a, H: Holds<RawTensor>> Submission<'a, H> {
    /// Checks arguments wherever they lie; `tags` has one for each tensor.
    ///
    /// # Errors
    /// The first of [`SubmitError`] that applies, in its order.
    pub fn check<const N: usize>(
        tensors: &'a [Tensor<H>],
        tags: &'a [Tag],
        scalars: &'a [u64],
        scratch: &mut Scratch<N>,
    ) -> Result<Self, SubmitError> {
        if tags.len() != tensors.len() {
            return Err(SubmitError::TagCount { tensors: tensors.len(), tags: tags.len() });
        }
        if tensors.len() > MAX_TENSORS.min(N) {
            return Err(SubmitError::TooManyTensors { found: tensors.len(), limit: MAX_TENSORS.min(N) });
        }
        if scalars.len() > MAX_SCALARS {
            return Err(SubmitError::TooManyScalars { found: scalars.len(), limit: MAX_SCALARS });
        }
        for (index, (tensor, &tag)) in tensors.iter().zip(tags).enumerate() {
            rights::check(tensor.descriptor().access(), tag)
                .map_err(|error| SubmitError::Rights { index, error })?;
        }
        clash::check(tensors, tags, scratch)?;
        Ok(Self { tensors, tags, scalars })
    }

    /// The tensors, in order.
    #[must_use]
    pub const fn tensors(&self) -> &'a [Tensor<H>] {
        self.tensors
    }

    /// The tensors' tags, in order.
    #[must_use]
    pub const fn tags(&self) -> &'a [Tag] {
        self.tags
    }

    /// Each tensor with its tag, in order.
    pub fn arguments(&self) -> impl ExactSizeIterator<Item = (&'a Tensor<H>, Tag)> + Clone + use<'a, H> {
        self.tensors.iter().zip(self.tags.iter().copied())
    }

    /// The scalars, in order.
    #[must_use]
    pub const fn scalars(&self) -> &'a [u64] {
        self.scalars
    }
}

impl Submission<'_> {
    /// Writes them as a blob at the start of `out` and says how many bytes it took.
    ///
    /// # Errors
    /// [`EncodeError`] when `out` is too small; nothing was written then.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        blob::encode(self.tensors, self.scalars, out)
    }
}

impl<H: Holds<RawTensor>> fmt::Debug for Submission<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submission")
            .field("tensors", &self.tensors.len())
            .field("scalars", &self.scalars.len())
            .finish()
    }
}
