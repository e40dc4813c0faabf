//! A task's arguments on their way to being submitted: tensors with tags, then scalars, and the checks that they must pass.
//!
//! [`TaskArgs`] collects them within fixed capacities; [`Submission::check`] judges them, wherever they lie. What holds then:
//!
//! - there are at most [`MAX_TENSORS`] and [`MAX_SCALARS`] of them, the limits of the wire ABI;
//! - every tag needs no more than its tensor's owner grants. That was so when an argument was added, too, but tags can
//!   change in between;
//! - no argument writes a byte that another one names in any way, whatever their order or tags; those tagged
//!   [`Tag::NoDep`] take no part. Disjoint slices of one buffer are fine, and a written view may overlap itself.
//!
//! Members of a group are tasks with arguments of their own: each is checked alone, and nothing here compares two of them.

mod clash;
mod error;
mod rectangles;
mod submission;

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]
mod tests;

pub use clash::Scratch;
pub use error::{AddError, SubmitError};
pub use submission::Submission;

pub use crate::wire::chip_args::{MAX_SCALARS, MAX_TENSORS};

use crate::rights::{self, Tag};
use crate::wire::blob::Blob;
use crate::wire::record::Holds;
use crate::wire::tensor::{RawTensor, Tensor};

/// Collects a task's arguments: tensors first, each with a tag, then scalars.
///
/// The capacities are the limits of the wire ABI unless chosen smaller, as firmware will, or larger: what passes the limits
/// is refused when the task is submitted. It is large (144 bytes for each tensor): keep it and [`clear`](Self::clear) it.
#[derive(Clone, Debug, Default)]
pub struct TaskArgs<const TENSORS: usize = MAX_TENSORS, const SCALARS: usize = MAX_SCALARS> {
    tensors: heapless::Vec<Tensor, TENSORS>,
    tags: heapless::Vec<Tag, TENSORS>,
    scalars: heapless::Vec<u64, SCALARS>,
}

impl<const TENSORS: usize, const SCALARS: usize> TaskArgs<TENSORS, SCALARS> {
    /// No arguments.
    #[must_use]
    pub const fn new() -> Self {
        Self { tensors: heapless::Vec::new(), tags: heapless::Vec::new(), scalars: heapless::Vec::new() }
    }

    /// The arguments of a blob, with the tags that `tag` gives for each index: tags do not travel. `|_| Tag::NoDep`
    /// suits whoever only hands them on.
    ///
    /// # Errors
    /// [`AddError`] when they do not fit or a tag needs more than is granted.
    pub fn from_blob(blob: &Blob<'_>, mut tag: impl FnMut(usize) -> Tag) -> Result<Self, AddError> {
        let mut arguments = Self::new();
        for (index, tensor) in blob.tensors().enumerate() {
            arguments.add_tensor(&tensor, tag(index))?;
        }
        for scalar in blob.scalars() {
            arguments.add_scalar(scalar)?;
        }
        Ok(arguments)
    }

    /// Adds a tensor behind those that are there and says its index.
    ///
    /// # Errors
    /// [`AddError`]: a scalar is there already, the tag needs more than the owner grants, or there is no room. Nothing
    /// was added then.
    pub fn add_tensor<H: Holds<RawTensor>>(
        &mut self,
        tensor: &Tensor<H>,
        tag: Tag,
    ) -> Result<usize, AddError> {
        let index = self.tensors.len();
        if !self.scalars.is_empty() {
            return Err(AddError::TensorAfterScalar { scalars: self.scalars.len() });
        }
        rights::check(tensor.descriptor().access(), tag).map_err(AddError::Rights)?;
        let full = AddError::TensorsFull { capacity: TENSORS };
        self.tensors.push(tensor.to_owned()).map_err(|_| full)?;
        // There are never more tags than tensors.
        self.tags.push(tag).map_err(|_| full)?;
        Ok(index)
    }

    /// Adds a scalar behind those that are there and says its index among them.
    ///
    /// # Errors
    /// [`AddError::ScalarsFull`] when there is no room.
    pub fn add_scalar(&mut self, scalar: u64) -> Result<usize, AddError> {
        let index = self.scalars.len();
        self.scalars.push(scalar).map_err(|_| AddError::ScalarsFull { capacity: SCALARS })?;
        Ok(index)
    }

    /// Changes a tensor's tag. Whether its owner grants what the new one needs is seen when the task is submitted.
    ///
    /// # Errors
    /// [`AddError::NoSuchTensor`].
    pub fn set_tag(&mut self, index: usize, tag: Tag) -> Result<(), AddError> {
        let tensors = self.tensors.len();
        let slot = self.tags.get_mut(index).ok_or(AddError::NoSuchTensor { index, tensors })?;
        *slot = tag;
        Ok(())
    }

    /// The tensors, in order.
    #[must_use]
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The tensors' tags, in order.
    #[must_use]
    pub fn tags(&self) -> &[Tag] {
        &self.tags
    }

    /// The scalars, in order.
    #[must_use]
    pub fn scalars(&self) -> &[u64] {
        &self.scalars
    }

    /// Removes all of them.
    pub fn clear(&mut self) {
        self.tensors.clear();
        self.tags.clear();
        self.scalars.clear();
    }

    /// Checks them as they are now. `scratch` is room to work in; what it held before makes no difference.
    ///
    /// # Errors
    /// The first of [`SubmitError`] that applies. The arguments stay as they are.
    pub fn submit<const N: usize>(&self, scratch: &mut Scratch<N>) -> Result<Submission<'_>, SubmitError> {
        Submission::check(&self.tensors, &self.tags, &self.scalars, scratch)
    }
}
