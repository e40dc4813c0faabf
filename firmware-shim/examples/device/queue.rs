//! The queue's bytes as this machine reaches them: atomics alone, since the host writes them at any moment.
//!
//! Counters acquire and release, `ldar` and `stlr`: whatever the host wrote before it stored a counter is read behind the load that saw
//! it, and whatever was done here is done before a counter says so. Memory is coherent under QEMU, and the memory system is off,
//! so nothing lies in a cache. Hardware that shares memory with its host through caches that are not coherent would clean the
//! published place to the point of coherency (`dc cvac`, then `dsb`) in `publish`, and invalidate it (`dc ivac`) in `observe`.

use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use bufabi_core::Code;
use bufabi_core::region::{AccessError, Part, Place, RegionAccess, RegionView};

use super::board::place;

/// Outside a part. The core asks for nothing such.
const OUTSIDE: AccessError = AccessError::new(Code::RegionRange, 0);

/// Both parts.
pub(crate) struct QueueMemory {
    payload: Part,
    counter: Part,
}

impl QueueMemory {
    /// # Safety
    /// Both parts are memory of this machine that this program does not use in another way.
    pub(crate) const unsafe fn new(region: RegionView) -> Self {
        Self { payload: region.payload(), counter: region.counter() }
    }

    fn word(&self, offset: u64) -> Result<&AtomicU32, AccessError> {
        if !offset.is_multiple_of(4) {
            return Err(OUTSIDE);
        }
        let address = within(self.counter, offset, 4)?;
        // SAFETY: the four bytes lie in the part, which starts at a multiple of 64, and both sides use atomics on them.
        Ok(unsafe { AtomicU32::from_ptr(with_exposed_provenance_mut(address)) })
    }

    /// The bytes of PAYLOAD from `offset` on.
    fn bytes(&self, offset: u64, length: usize) -> Result<&[AtomicU8], AccessError> {
        let address = within(self.payload, offset, length)?;
        // SAFETY: the bytes lie in the part, and both sides use atomics on them.
        Ok(unsafe { core::slice::from_raw_parts(with_exposed_provenance_mut::<AtomicU8>(address), length) })
    }
}

/// The address of `length` bytes from `offset` on, if all of them lie in the part.
fn within(part: Part, offset: u64, length: usize) -> Result<usize, AccessError> {
    let length = u64::try_from(length).map_err(|_| OUTSIDE)?;
    let room = part.nbytes.checked_sub(offset).ok_or(OUTSIDE)?;
    let address = part.base.checked_add(offset).ok_or(OUTSIDE)?;
    if length <= room { Ok(place(address)) } else { Err(OUTSIDE) }
}

/// Single bytes up to an aligned word, words, and single ones again.
fn split(bytes: &[AtomicU8]) -> (&[AtomicU8], &[AtomicU64], &[AtomicU8]) {
    // SAFETY: eight atomic bytes, aligned to eight, have the layout of one atomic word.
    unsafe { bytes.align_to() }
}

impl RegionAccess for QueueMemory {
    fn payload_bytes(&self) -> u64 {
        self.payload.nbytes
    }

    fn counter_bytes(&self) -> u64 {
        self.counter.nbytes
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), AccessError> {
        let (head, words, tail) = split(self.bytes(offset, out.len())?);
        let (out_head, rest) = out.split_at_mut_checked(head.len()).ok_or(OUTSIDE)?;
        let (out_words, out_tail) = rest.as_chunks_mut();
        let (Some(out_words), true) = (out_words.get_mut(..words.len()), tail.len() == out_tail.len()) else {
            return Err(OUTSIDE);
        };
        out_head.iter_mut().zip(head).for_each(|(out, byte)| *out = byte.load(Ordering::Relaxed));
        out_words
            .iter_mut()
            .zip(words)
            .for_each(|(out, word)| *out = word.load(Ordering::Relaxed).to_le_bytes());
        out_tail.iter_mut().zip(tail).for_each(|(out, byte)| *out = byte.load(Ordering::Relaxed));
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        let (head, words, tail) = split(self.bytes(offset, bytes.len())?);
        let (in_head, rest) = bytes.split_at_checked(head.len()).ok_or(OUTSIDE)?;
        let (in_words, in_tail) = rest.as_chunks();
        head.iter().zip(in_head).for_each(|(byte, from)| byte.store(*from, Ordering::Relaxed));
        words
            .iter()
            .zip(in_words)
            .for_each(|(word, from)| word.store(u64::from_le_bytes(*from), Ordering::Relaxed));
        tail.iter().zip(in_tail).for_each(|(byte, from)| byte.store(*from, Ordering::Relaxed));
        Ok(())
    }

    fn load(&self, offset: u64) -> Result<u32, AccessError> {
        Ok(self.word(offset)?.load(Ordering::Acquire))
    }

    fn store(&self, offset: u64, value: u32) -> Result<(), AccessError> {
        self.word(offset)?.store(value, Ordering::Release);
        Ok(())
    }

    fn publish(&self, _: Place) -> Result<(), AccessError> {
        Ok(())
    }

    fn observe(&self, _: Place) -> Result<(), AccessError> {
        Ok(())
    }
}
