//! A mapping's bytes, reached by copies and atomics alone: others may write them at any moment.

use core::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use bufabi_core::wire::blob::ByteSource;

use super::{Mapping, count_copied};
use crate::memory::shared;

impl Mapping {
    /// Copies the bytes from `offset` on into `out`: each was there at some time during the call.
    ///
    /// # Errors
    /// [`OutOfRange`], also for a mapping that is not to be read; nothing was copied then.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfRange> {
        self.range(offset, out.len())?;
        if !self.access.reads() {
            return Err(OutOfRange { offset, length: out.len(), nbytes: 0 });
        }
        self.carry(offset, out)
    }

    /// As [`read`](Self::read), whatever is granted: for bytes that are on their way there or back with those that a task writes, and that
    /// no task sees.
    pub(crate) fn carry(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfRange> {
        self.read_control(offset, out)?;
        self.count_copy(out.len());
        Ok(())
    }

    /// Copies `bytes` to the place from `offset` on.
    ///
    /// # Errors
    /// [`OutOfRange`], also for a mapping that is not to be written; nothing was copied then.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfRange> {
        self.write_control(offset, bytes)?;
        self.count_copy(bytes.len());
        Ok(())
    }

    /// As [`read`](Self::read), of control memory, whose copies are not counted.
    #[inline]
    pub(crate) fn read_control(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfRange> {
        let start = self.range(offset, out.len())?;
        // SAFETY: the range lies within the mapping, which lives as long as it is borrowed.
        unsafe { shared::read(start.as_ptr(), out) };
        Ok(())
    }

    /// As [`write`](Self::write), of control memory, whose copies are not counted.
    #[inline]
    pub(crate) fn write_control(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfRange> {
        let start = self.writable(offset, bytes.len())?;
        // SAFETY: the range lies within the mapping, which lives as long as it is borrowed, and can be written.
        unsafe { shared::write(start.as_ptr(), bytes) };
        Ok(())
    }

    /// The bytes from `offset` on as words, if they are whole ones within the mapping.
    #[inline(always)]
    pub(crate) fn words(&self, offset: usize, length: usize) -> Option<&[AtomicU64]> {
        let fits = self.nbytes.checked_sub(offset).is_some_and(|room| length <= room);
        let start = self.base.as_ptr().wrapping_add(offset);
        if !fits || !(start.addr() | length).is_multiple_of(8) {
            return None;
        }
        // SAFETY: the range lies within the mapping, which lives as long as it is borrowed, and is aligned, as was just seen. A
        // slice of atomics is sound beside writers in other processes, which is what atomics are for.
        Some(unsafe { core::slice::from_raw_parts(start.cast::<AtomicU64>(), length / 8) })
    }

    /// Tells this processor's caches that the line at `offset` will be used, and whether it will be written: then they take it away from
    /// those of the other processors. That has no effect but on time.
    #[inline(always)]
    pub(crate) fn prefetch<const IS_WRITTEN: bool>(&self, offset: usize) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if offset < self.nbytes {
            let at = self.base.as_ptr().wrapping_add(offset).cast_const().cast::<i8>();
            if IS_WRITTEN {
                // The intrinsic for writing becomes one for reading wherever the target at large may lack this instruction, which those
                // processors skip.
                // SAFETY: a prefetch reads and writes nothing, and faults at no address.
                unsafe {
                    core::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
                }
            } else {
                use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                // SAFETY: as above.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = offset;
    }

    /// The 32-bit number at `offset`, which both sides reach by atomics; `None` past the end, at an address that is no multiple of 4, or in
    /// a mapping that is not to be written.
    #[must_use]
    #[inline]
    pub fn atomic_u32(&self, offset: usize) -> Option<&AtomicU32> {
        let at = self.range(offset, 4).ok()?.cast::<u32>();
        // A part of a mapping may start anywhere, so it is the address that counts.
        if !at.is_aligned() || !self.access.writes() {
            return None;
        }
        // SAFETY: the four bytes lie within the mapping, which lives as long as it is borrowed, are aligned and can be written, as was
        // just seen; they are reached by atomics, or by those who know that others write.
        Some(unsafe { AtomicU32::from_ptr(at.as_ptr()) })
    }

    /// Makes `nbytes` bytes from `offset` on zero. It counts as no copy.
    ///
    /// # Errors
    /// [`OutOfRange`], also for a mapping that is not to be written; nothing has changed then.
    pub fn clear(&self, offset: usize, nbytes: usize) -> Result<(), OutOfRange> {
        const ZEROS: [u8; 4096] = [0; 4096];
        let start = self.writable(offset, nbytes)?.as_ptr();
        for done in (0..nbytes).step_by(ZEROS.len()) {
            let zeros = ZEROS.get(..nbytes.saturating_sub(done)).unwrap_or(&ZEROS);
            // SAFETY: no more than the range, which lies within the mapping, which lives as long as it is borrowed, and can be written.
            unsafe { shared::write(start.wrapping_add(done), zeros) };
        }
        Ok(())
    }

    fn count_copy(&self, length: usize) {
        if self.is_backing {
            count_copied(length);
        }
    }

    /// Where `length` bytes from `offset` on start, if they lie within the mapping.
    #[inline]
    pub(super) fn range(&self, offset: usize, length: usize) -> Result<NonNull<u8>, OutOfRange> {
        match self.nbytes.checked_sub(offset) {
            Some(room) if length <= room => {
                // SAFETY: the offset lies within the mapping.
                Ok(unsafe { self.base.add(offset) })
            }
            Some(_) | None => Err(OutOfRange { offset, length, nbytes: self.nbytes }),
        }
    }

    /// As [`range`](Self::range), if it may be written.
    #[inline]
    fn writable(&self, offset: usize, length: usize) -> Result<NonNull<u8>, OutOfRange> {
        let start = self.range(offset, length)?;
        if self.access.writes() { Ok(start) } else { Err(OutOfRange { offset, length, nbytes: 0 }) }
    }
}

impl ByteSource for Mapping {
    fn len(&self) -> usize {
        self.nbytes
    }

    fn copy_out(&self, offset: usize, out: &mut [u8]) {
        // The trait lets bytes of a range that is not there stay as they are.
        let _ = self.read(offset, out);
    }
}

/// A range that does not lie within a mapping, or may not be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// Its first byte.
    pub offset: usize,
    /// Its length, bytes.
    pub length: usize,
    /// Bytes that may be reached; 0 when none may be in that way.
    pub nbytes: usize,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, length, nbytes } = self;
        write!(f, "{length} bytes from {offset} on do not lie within the {nbytes} bytes that may be reached")
    }
}

impl std::error::Error for OutOfRange {}
