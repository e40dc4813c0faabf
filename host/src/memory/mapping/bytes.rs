//! A mapping's bytes, reached by copies and atomics alone: others may write them at any moment.

use core::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use bufabi_core::wire::blob::ByteSource;

use super::{Mapping, count_copied};

impl Mapping {
    /// Copies the bytes from `offset` on into `out`, each read once.
    ///
    /// # Errors
    /// [`OutOfRange`]; nothing was copied then.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfRange> {
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
    #[expect(clippy::host_endian_bytes, reason = "a copy keeps the order in which the bytes lie")]
    pub(crate) fn read_control(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfRange> {
        let start = self.range(offset, out.len())?;
        let (head, words, tail) = self.split(start, out.len());
        let (out_head, rest) = out.split_at_mut(head.len());
        let (out_words, out_tail) = rest.split_at_mut(words.len().saturating_mul(8));
        for (out, byte) in out_head.iter_mut().zip(head) {
            *out = byte.load(Ordering::Relaxed);
        }
        for (out, word) in out_words.as_chunks_mut().0.iter_mut().zip(words) {
            *out = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        for (out, byte) in out_tail.iter_mut().zip(tail) {
            *out = byte.load(Ordering::Relaxed);
        }
        Ok(())
    }

    /// As [`write`](Self::write), of control memory, whose copies are not counted.
    #[expect(clippy::host_endian_bytes, reason = "a copy keeps the order in which the bytes lie")]
    pub(crate) fn write_control(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfRange> {
        let start = self.range(offset, bytes.len())?;
        if !self.access.writes() {
            return Err(OutOfRange { offset, length: bytes.len(), nbytes: 0 });
        }
        let (head, words, tail) = self.split(start, bytes.len());
        let (in_head, rest) = bytes.split_at(head.len());
        let (in_words, in_tail) = rest.split_at(words.len().saturating_mul(8));
        for (byte, from) in head.iter().zip(in_head) {
            byte.store(*from, Ordering::Relaxed);
        }
        for (word, from) in words.iter().zip(in_words.as_chunks().0) {
            word.store(u64::from_ne_bytes(*from), Ordering::Relaxed);
        }
        for (byte, from) in tail.iter().zip(in_tail) {
            byte.store(*from, Ordering::Relaxed);
        }
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
        let start = self.range(offset, nbytes)?;
        if !self.access.writes() {
            return Err(OutOfRange { offset, length: nbytes, nbytes: 0 });
        }
        let (head, words, tail) = self.split(start, nbytes);
        head.iter().chain(tail).for_each(|byte| byte.store(0, Ordering::Relaxed));
        words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
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

    /// The bytes from `start` on, whose range was checked: single ones up to an aligned word, words, and single ones again.
    fn split(&self, start: NonNull<u8>, length: usize) -> (&[AtomicU8], &[AtomicU64], &[AtomicU8]) {
        // SAFETY: the range lies within the mapping, which lives as long as it is borrowed. A slice of atomics is sound beside
        // writers in other processes, which is what atomics are for; no two processes' accesses of ours overlap in
        // different widths without an order between them.
        let bytes = unsafe { core::slice::from_raw_parts(start.cast::<AtomicU8>().as_ptr(), length) };
        // SAFETY: eight atomic bytes, aligned to eight, have the layout of one atomic word.
        unsafe { bytes.align_to() }
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

/// A range that does not lie within a mapping, or may not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// Its first byte.
    pub offset: usize,
    /// Its length, bytes.
    pub length: usize,
    /// Bytes that may be reached; 0 when none may be written.
    pub nbytes: usize,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, length, nbytes } = self;
        write!(f, "{length} bytes from {offset} on do not lie within the {nbytes} bytes that may be reached")
    }
}

impl std::error::Error for OutOfRange {}
