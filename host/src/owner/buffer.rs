//! A buffer, in the hands of the endpoint that made it.

use std::sync::Arc;
use std::time::Instant;

use bufabi_core::{DType, Descriptor, Identity, Tensor, View};

use super::{Endpoint, OwnError, ReleaseError, tensor};
use crate::memory::Mapping;

/// A buffer that an [`Endpoint`] made. Dropping it releases it as far as it can: what tasks hold goes when they are done.
#[derive(Debug)]
pub struct Buffer {
    endpoint: Endpoint,
    descriptor: Descriptor,
    /// `None` for memory that this process does not map, and once its release has begun.
    mapping: Option<Arc<Mapping>>,
}

impl Buffer {
    pub(super) const fn new(
        endpoint: Endpoint,
        descriptor: Descriptor,
        mapping: Option<Arc<Mapping>>,
    ) -> Self {
        Self { endpoint, descriptor, mapping }
    }

    /// Its descriptor, whether or not it is alive.
    pub(super) const fn known(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Its name.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.descriptor.identity()
    }

    /// Its size, bytes.
    #[must_use]
    pub fn nbytes(&self) -> u64 {
        self.descriptor.nbytes()
    }

    /// The owner's own mapping, for loads and stores whatever is granted to others; `None` for memory that this process does not
    /// map, and once its release has begun.
    #[must_use]
    pub fn mapping(&self) -> Option<&Mapping> {
        self.mapping.as_deref()
    }

    /// What a consumer needs to reach it.
    ///
    /// # Errors
    /// [`OwnError::Owner`] once its release has begun.
    pub fn descriptor(&self) -> Result<Descriptor, OwnError> {
        self.endpoint.check_live(self.identity())?;
        Ok(self.descriptor)
    }

    /// A dense row-major view of it from `byte_offset` on, as a task argument.
    ///
    /// # Errors
    /// [`OwnError::View`] with the first broken rule; [`OwnError::Owner`] once its release has begun.
    pub fn row_major(&self, byte_offset: u64, dtype: DType, shapes: &[u32]) -> Result<Tensor, OwnError> {
        let view = View::row_major(byte_offset, dtype, shapes, self.nbytes()).map_err(OwnError::View)?;
        self.tensor(&view)
    }

    /// A view of it, strides in elements, as a task argument.
    ///
    /// # Errors
    /// As [`row_major`](Self::row_major).
    pub fn strided(
        &self,
        byte_offset: u64,
        dtype: DType,
        shapes: &[u32],
        strides: &[u32],
    ) -> Result<Tensor, OwnError> {
        let view = View::new(byte_offset, dtype, shapes, strides, self.nbytes()).map_err(OwnError::View)?;
        self.tensor(&view)
    }

    /// A view of it, as a task argument.
    ///
    /// # Errors
    /// As [`row_major`](Self::row_major).
    pub fn tensor(&self, view: &View) -> Result<Tensor, OwnError> {
        self.endpoint.check_live(self.identity())?;
        tensor(&self.descriptor, view)
    }

    /// Unmaps and frees it, each at most once. After a success every call says that it is stale.
    ///
    /// # Errors
    /// [`ReleaseError`]: while tasks or views hold it nothing changes; after a failure it can be called again.
    pub fn release(&mut self) -> Result<(), ReleaseError> {
        self.endpoint.release(self.descriptor.identity(), &mut self.mapping)
    }

    /// As [`release`](Self::release), but waits until `until` for the tasks that hold it. Nothing new comes from it once it waits.
    /// Some other thread has to see to it that they finish.
    ///
    /// # Errors
    /// As [`release`](Self::release), and [`ReleaseError::TimedOut`].
    pub fn release_when_idle(&mut self, until: Instant) -> Result<(), ReleaseError> {
        self.endpoint.release_when_idle(self.descriptor.identity(), &mut self.mapping, until)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.mapping = None;
        self.endpoint.abandon(self.descriptor.identity());
    }
}
