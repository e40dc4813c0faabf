//! One mapping of memory that others may write at any moment: it is read and written by copies and atomics, never as a slice.

mod bytes;
#[cfg(test)]
mod tests;

use core::fmt;
use core::mem::ManuallyDrop;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bufabi_core::{Access, View, ViewError};

pub use bytes::OutOfRange;

use super::operand::Operand;
use crate::sys::OsError;
use crate::sys::fault::Registration;
use crate::sys::memory::{self, Protection};
use crate::sys::process::current_pid;

/// Bytes that this process has copied into or out of backings. Control memory, which is copied by design, does not count.
static COPIED: AtomicU64 = AtomicU64::new(0);

/// Bytes that this process has copied so far into or out of the backings that it has mapped: kernels work in place, so what
/// grows while a task runs is what was copied on its way.
#[must_use]
pub fn bytes_copied() -> u64 {
    COPIED.load(Ordering::Relaxed)
}

/// Counts bytes that were copied into or out of a backing in another way than through a mapping.
pub(crate) fn count_copied(length: usize) {
    COPIED.fetch_add(u64::try_from(length).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// A mapping that this process made, of at least one byte. Dropping it unmaps it, but not in a fork of the process.
pub struct Mapping {
    base: NonNull<u8>,
    nbytes: usize,
    /// What is unmapped in the end: what is to be reached, and whatever a driver maps beyond it.
    mapped_nbytes: usize,
    access: Access,
    creator: u32,
    /// Copies into it and out of it count; those of control memory do not.
    is_backing: bool,
    registration: Option<Registration>,
    /// `None` for what this mapping unmaps itself.
    kept: Option<Box<Kept>>,
}

/// What keeps bytes mapped that a mapping does not unmap itself.
struct Kept {
    /// What it is a part of, which is unmapped when its last part is gone.
    whole: Option<Arc<Mapping>>,
    /// Dropped with it, when nothing reaches those bytes through it any more.
    _keeper: Option<Box<dyn Send + Sync>>,
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: its bytes are reached by atomics and by copies that are defined beside any others, operands' too.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(base: NonNull<u8>, nbytes: usize, access: Access) -> Self {
        let (mapped_nbytes, creator) = (nbytes, current_pid());
        Self {
            base,
            nbytes,
            mapped_nbytes,
            access,
            creator,
            is_backing: false,
            registration: None,
            kept: None,
        }
    }

    /// Maps the first `nbytes` bytes of a file, so that a store faults if `access` only reads. If the file shrinks, this process
    /// can survive it: [`survive_shrinking_objects`](crate::sys::fault::survive_shrinking_objects).
    ///
    /// # Errors
    /// [`OsError`]: ENOMEM when no address space, no further mapping or no further registration is left.
    pub fn of_file(fd: BorrowedFd<'_>, nbytes: usize, access: Access) -> Result<Self, OsError> {
        let protection = if access.writes() { Protection::ReadWrite } else { Protection::Read };
        let base = memory::map_file(fd, nbytes, protection)?;
        let mut mapping = Self::new(base, nbytes, access);
        mapping.is_backing = true;
        let registration = Registration::new(base, nbytes, protection);
        mapping.registration = Some(registration.ok_or(OsError { call: "mmap", errno: libc::ENOMEM })?);
        Ok(mapping)
    }

    /// Maps new memory, zero, which processes forked afterwards share at the same address.
    ///
    /// # Errors
    /// [`OsError`]: ENOMEM.
    pub fn inherited(nbytes: usize) -> Result<Self, OsError> {
        let base = memory::map_inherited(nbytes)?;
        Ok(Self::new(base, nbytes, Access::ReadWrite))
    }

    /// Maps new memory, zero, of which processes forked afterwards have copies at the same address.
    ///
    /// # Errors
    /// [`OsError`]: ENOMEM.
    pub fn copied(nbytes: usize) -> Result<Self, OsError> {
        let base = memory::map_copied(nbytes)?;
        Ok(Self::new(base, nbytes, Access::ReadWrite))
    }

    /// Memory that something else keeps, as long as `keeper` lives. It is never unmapped here.
    ///
    /// # Safety
    /// As long as `keeper` lives, in this process and in every process forked from it, the `nbytes` bytes from `base` on stay mapped:
    /// for loads and, if `access` writes, for stores, as ordinary memory. Nothing refers to them as memory that nobody else writes, and
    /// whoever else reaches them in this process does it by atomics, or by a mapping too.
    #[must_use]
    pub unsafe fn of_memory(
        base: NonNull<u8>,
        nbytes: usize,
        access: Access,
        keeper: Box<dyn Send + Sync>,
    ) -> Self {
        let mut mapping = Self::new(base, nbytes, access);
        mapping.is_backing = true;
        mapping.kept = Some(Box::new(Kept { whole: None, _keeper: Some(keeper) }));
        mapping
    }

    /// Some bytes of a mapping, for no more than `access`. What it is a part of stays mapped as long as it lives; `place` is
    /// dropped with it.
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub(crate) fn part(
        whole: &Arc<Self>,
        offset: usize,
        nbytes: usize,
        access: Access,
        place: Option<Box<dyn Send + Sync>>,
    ) -> Result<Self, OutOfRange> {
        let base = whole.range(offset, nbytes)?;
        let access = if whole.access.grants(access) { access } else { whole.access };
        let mut part = Self::new(base, nbytes, access);
        part.is_backing = true;
        part.kept = Some(Box::new(Kept { whole: Some(Arc::clone(whole)), _keeper: place }));
        Ok(part)
    }

    /// What lies in an address range, which unmaps it: so this one is never dropped.
    ///
    /// # Safety
    /// The `nbytes` bytes from `base` on stay mapped as long as it is used, for loads and, if `access` writes, for stores.
    pub(super) unsafe fn within_range(
        base: NonNull<u8>,
        nbytes: usize,
        access: Access,
    ) -> ManuallyDrop<Self> {
        ManuallyDrop::new(Self::new(base, nbytes, access))
    }

    /// The first `nbytes` bytes of an address range of `mapped_nbytes` bytes, which this one unmaps.
    ///
    /// # Safety
    /// As for [`within_range`](Self::within_range), and nobody else unmaps the range or uses it.
    pub(super) unsafe fn of_range(
        base: NonNull<u8>,
        mapped_nbytes: usize,
        nbytes: usize,
        access: Access,
    ) -> Self {
        let mut mapping = Self::new(base, nbytes.min(mapped_nbytes), access);
        mapping.is_backing = true;
        mapping.mapped_nbytes = mapped_nbytes;
        mapping
    }

    /// Leaves it out of the processes that are forked from now on.
    ///
    /// # Errors
    /// [`OsError`].
    pub(crate) fn leave_out_of_forks(&self) -> Result<(), OsError> {
        // SAFETY: the mapping is ours. A process forked later that reaches for it dies of that, and corrupts nothing.
        unsafe { memory::leave_out_of_forks(self.base, self.mapped_nbytes) }
    }

    /// Its first byte's address.
    #[must_use]
    #[inline]
    pub fn address(&self) -> u64 {
        u64::try_from(self.base.addr().get()).unwrap_or(u64::MAX)
    }

    /// Its first byte, for the one who lays records out in it.
    #[inline]
    pub(crate) const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Its size, bytes.
    #[must_use]
    #[inline]
    pub fn nbytes(&self) -> u64 {
        u64::try_from(self.nbytes).unwrap_or(u64::MAX)
    }

    /// What may be done with it.
    #[must_use]
    #[inline]
    pub const fn access(&self) -> Access {
        self.access
    }

    /// A page of it was gone, since the object shrank, and reads as zeros since.
    #[must_use]
    #[inline]
    pub fn is_damaged(&self) -> bool {
        match (&self.registration, &self.kept) {
            (Some(registration), _) => registration.is_damaged(),
            (None, Some(kept)) => kept.whole.as_ref().is_some_and(|whole| whole.is_damaged()),
            (None, None) => false,
        }
    }

    /// A view of it. Others may reach the same bytes at the same time, be they processes or threads: what each finds there is then for
    /// whoever orders them to see to.
    ///
    /// # Errors
    /// [`ViewError::OutOfBounds`] when the view, legal in another backing, reaches past this one.
    pub fn operand(&self, view: View) -> Result<Operand<'_>, ViewError> {
        self.operand_from(0, view)
    }

    /// A view whose offset counts from byte `start` of the mapping on.
    ///
    /// # Errors
    /// [`ViewError::OutOfBounds`], its `nbytes` those behind `start`, when the view reaches past the end.
    pub fn operand_from(&self, start: usize, view: View) -> Result<Operand<'_>, ViewError> {
        let room = self.nbytes.saturating_sub(start);
        let nbytes = u64::try_from(room).unwrap_or(u64::MAX);
        if view.end() > nbytes {
            let (byte_offset, extent) = (view.byte_offset(), view.extent());
            return Err(ViewError::OutOfBounds { byte_offset, extent, nbytes });
        }
        // SAFETY: a view ends behind its start, so `start` lies within the mapping.
        let base = unsafe { self.base.add(start) };
        // SAFETY: the view ends within the mapping, which lives as long as it is borrowed, and which was made for loads
        // and, if `access` writes, for stores; all reach it by copies and atomics. A page that a peer took away faults, which never reads
        // or writes anything else.
        Ok(unsafe { Operand::new(base, view, self.access) })
    }

    /// Unmaps it.
    ///
    /// # Errors
    /// [`OsError`], and the mapping for another try.
    pub fn unmap(self) -> Result<(), (Self, OsError)> {
        if self.creator != current_pid() || self.kept.is_some() {
            return Ok(());
        }
        let mut mapping = ManuallyDrop::new(self);
        mapping.registration.iter().for_each(Registration::suspend);
        // SAFETY: it made the mapping and is the last to know it, since operands borrow it.
        match unsafe { memory::unmap(mapping.base, mapping.mapped_nbytes) } {
            Ok(()) => {
                mapping.registration = None;
                Ok(())
            }
            Err(error) => {
                mapping.registration.iter().for_each(|registration| registration.resume(mapping.base));
                Err((ManuallyDrop::into_inner(mapping), error))
            }
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.creator == current_pid() && self.kept.is_none() {
            // Something else may lie there as soon as it is unmapped.
            self.registration = None;
            // SAFETY: `self` made the mapping and is the last to know it. If it fails, the mapping stays, and nothing refers to it.
            let _ = unsafe { memory::unmap(self.base, self.mapped_nbytes) };
        }
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping")
            .field("base", &self.base)
            .field("nbytes", &self.nbytes)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}
