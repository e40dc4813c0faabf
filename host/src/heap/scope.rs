//! A scope: a part of a program's run, at whose end what was allocated in it is let go.

use bufabi_core::{DType, Identity, Tensor};

use super::ForkHeap;
use crate::owner::{Buffer, CreateError};

/// Slabs of a heap that end together, each when the last task that names it is done. Scopes nest as values do.
#[derive(Debug)]
pub struct Scope<'a> {
    heap: &'a ForkHeap,
    buffers: Vec<Buffer>,
}

impl<'a> Scope<'a> {
    pub(super) const fn new(heap: &'a ForkHeap) -> Self {
        Self { heap, buffers: Vec::new() }
    }

    /// A slab for a dense tensor of that shape, for reading and writing, as a task argument.
    ///
    /// # Errors
    /// As [`ForkHeap::alloc_shared`].
    pub fn alloc_shared(&mut self, shapes: &[u32], dtype: DType) -> Result<Tensor, CreateError> {
        let buffer = self.heap.alloc_shared(shapes, dtype)?;
        let tensor = buffer.row_major(0, dtype, shapes).map_err(CreateError::Own)?;
        self.buffers.push(buffer);
        Ok(tensor)
    }

    /// A slab that was allocated in this scope.
    #[must_use]
    pub fn buffer(&self, identity: Identity) -> Option<&Buffer> {
        self.buffers.iter().find(|buffer| buffer.identity() == identity)
    }

    /// Ends the scope, as dropping it does.
    pub fn end(self) {
        drop(self);
    }
}
