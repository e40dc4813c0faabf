//! One argument of a kernel: a strided view in memory that this process has mapped.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use bufabi_core::{Access, View, ViewError};
use bufabi_device::kernel::Bits;

use super::strided::Strided;

/// A view of mapped memory, with the right that the owner grants.
///
/// Holding one proves that the bytes from [`base`](Self::base) to the view's end stay mapped for `'a`, that loads are possible if
/// the right reads and stores if it writes. It proves nothing about who else writes them meanwhile, so they are reached by copies alone
/// ([`Strided`]): what orders cooperating tasks are the edges between them.
#[derive(Clone, Copy)]
pub struct Operand<'a> {
    base: NonNull<u8>,
    view: View,
    access: Access,
    memory: PhantomData<&'a [u8]>,
}

impl<'a> Operand<'a> {
    /// The view of memory of this process alone: for trying a kernel without a worker.
    ///
    /// # Errors
    /// [`ViewError::OutOfBounds`] when the view, legal in another backing, reaches past these bytes.
    pub fn in_cells(bytes: &'a [Cell<u8>], view: View, access: Access) -> Result<Self, ViewError> {
        let nbytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if view.end() > nbytes {
            let (byte_offset, extent) = (view.byte_offset(), view.extent());
            return Err(ViewError::OutOfBounds { byte_offset, extent, nbytes });
        }
        let base = NonNull::from(bytes).cast();
        // SAFETY: the view ends within `bytes`, which are borrowed for `'a`, and a cell may be read and written through a
        // shared reference, which stays in its thread.
        Ok(unsafe { Self::new(base, view, access) })
    }

    /// The view of the memory that starts at `base`.
    ///
    /// # Safety
    /// The `view.end()` bytes from `base` on stay mapped for `'a`: readable if `access` reads, writable if it writes. Nothing refers to
    /// them as memory that nobody else writes, and whoever else reaches them in another thread does it by copies as here, or by atomics.
    #[must_use]
    pub const unsafe fn new(base: NonNull<u8>, view: View, access: Access) -> Self {
        Self { base, view, access, memory: PhantomData }
    }

    /// The same, allowing no more than `access`; what was not allowed before is not now.
    #[must_use]
    pub const fn limited_to(mut self, access: Access) -> Self {
        if self.access.grants(access) {
            self.access = access;
        }
        self
    }

    /// Where the memory starts that the view's offset counts from.
    #[must_use]
    pub const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Where the elements lie, from [`base`](Self::base) on.
    #[must_use]
    pub const fn view(&self) -> &View {
        &self.view
    }

    /// What may be done with them.
    #[must_use]
    pub const fn access(&self) -> Access {
        self.access
    }
}

impl<'a> bufabi_device::kernel::Operand for Operand<'a> {
    type Elements<T: Bits> = Strided<'a, T>;

    fn view(&self) -> &View {
        Operand::view(self)
    }

    fn access(&self) -> Access {
        Operand::access(self)
    }

    fn elements<T: Bits>(&self) -> Option<Strided<'a, T>> {
        Strided::new(self)
    }
}

impl fmt::Debug for Operand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operand")
            .field("view", &self.view)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}
