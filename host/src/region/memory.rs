//! A region's bytes as this process reaches them, for the core: through mappings, or through a driver that copies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use bufabi_core::Code;
use bufabi_core::region::{AccessError, Part, Place, RegionAccess, RegionParts, RegionView, RegionViewError};

use super::gate::{Gate, Ticket};
use super::part::{CopiedPart, access_error};
use crate::memory::Mapping;
use crate::sys::futex;

/// PAYLOAD and COUNTER, as this process reaches them.
#[derive(Clone, Debug)]
pub(super) enum Parts {
    /// This process's CPU maps them. Memory between processors of one machine is coherent, so counters that release and acquire
    /// are all the order there is.
    Mapped([Arc<Mapping>; 2]),
    /// A driver copies, and each copy is done when it returns. Nobody can sleep on such a counter, and nobody is woken.
    Copied([Arc<dyn CopiedPart>; 2]),
}

/// Both parts of a region. While one is there the region's parts stay; after the region was closed, or its peer died, every access
/// is refused with that reason, and whoever still has one should drop it.
#[derive(Debug)]
pub struct RegionMemory {
    // In this order they are dropped: the ticket last, when the parts are no longer used.
    parts: Parts,
    ticket: Ticket,
}

impl RegionMemory {
    /// Comes into a region, unless it is closed.
    pub(super) fn enter(parts: &Parts, gate: &Arc<Gate>) -> Result<Self, AccessError> {
        let ticket = gate.enter()?;
        Ok(Self { parts: parts.clone(), ticket })
    }

    /// The same region once more.
    ///
    /// # Errors
    /// [`AccessError`] with the reason for which everyone is refused.
    pub fn another(&self) -> Result<Self, AccessError> {
        Self::enter(&self.parts, self.ticket.gate())
    }

    /// The six scalars by which a task is told of the region: its addresses in this process, or on this process's device.
    ///
    /// # Errors
    /// [`RegionViewError`].
    pub fn view(&self, parts: RegionParts) -> Result<RegionView, RegionViewError> {
        let [payload, counter] = match &self.parts {
            Parts::Mapped(parts) => {
                parts.each_ref().map(|part| Part { base: part.address(), nbytes: part.nbytes() })
            }
            // What is mapped on the device has an address; if it has none any more, the view is refused as empty.
            Parts::Copied(parts) => parts.each_ref().map(|part| match part.address() {
                Ok(base) => Part { base, nbytes: part.nbytes() },
                Err(_) => Part { base: 0, nbytes: 0 },
            }),
        };
        RegionView::new(parts.region_id(), payload, counter)
    }

    /// Somebody who waits for a counter can sleep until it changes.
    #[must_use]
    pub const fn allows_sleeping(&self) -> bool {
        matches!(self.parts, Parts::Mapped(_))
    }

    /// Refuses every access but reading from now on, also of others who have the region in this process: the other side, the process of
    /// that number, is gone. What it sent before can still be received.
    pub(super) fn peer_died(&self, pid: i32) {
        self.ticket.gate().shut_but_for_reading(Code::WorkerDied, pid);
    }

    /// Memory that a part lay in was taken away beneath it, and zeros are there instead.
    fn is_damaged(&self) -> bool {
        matches!(&self.parts, Parts::Mapped(parts) if parts.iter().any(|part| part.is_damaged()))
    }

    /// Nobody is let in any more.
    pub(super) fn is_shut(&self) -> bool {
        self.ticket.gate().refusal().is_some()
    }

    /// A counter where it is mapped.
    #[inline]
    pub(super) fn word(&self, offset: u64) -> Option<&AtomicU32> {
        match &self.parts {
            Parts::Mapped([_, counter]) => counter.atomic_u32(usize::try_from(offset).ok()?),
            Parts::Copied(_) => None,
        }
    }

    #[inline]
    fn check_open(&self) -> Result<(), AccessError> {
        self.ticket.gate().refusal().map_or(Ok(()), Err)
    }

    #[inline]
    fn check_readable(&self) -> Result<(), AccessError> {
        self.ticket.gate().reading_refusal().map_or(Ok(()), Err)
    }
}

/// Outside a part. The core asks for nothing such.
const OUTSIDE: AccessError = AccessError::new(Code::RegionRange, 0);

impl RegionAccess for RegionMemory {
    fn payload_bytes(&self) -> u64 {
        match &self.parts {
            Parts::Mapped([payload, _]) => payload.nbytes(),
            Parts::Copied([payload, _]) => payload.nbytes(),
        }
    }

    fn counter_bytes(&self) -> u64 {
        match &self.parts {
            Parts::Mapped([_, counter]) => counter.nbytes(),
            Parts::Copied([_, counter]) => counter.nbytes(),
        }
    }

    // Nearly all that crosses is whole words of a mapping, and their number is often known where the code is compiled.
    #[inline(always)]
    #[expect(clippy::host_endian_bytes, reason = "a copy keeps the order in which the bytes lie")]
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), AccessError> {
        self.check_readable()?;
        if let Some(words) = self.words(offset, out.len()) {
            for (out, word) in out.as_chunks_mut().0.iter_mut().zip(words) {
                *out = word.load(Ordering::Relaxed).to_ne_bytes();
            }
            return Ok(());
        }
        self.read_any(offset, out)
    }

    #[inline(always)]
    #[expect(clippy::host_endian_bytes, reason = "a copy keeps the order in which the bytes lie")]
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.check_open()?;
        if let Some(words) = self.words(offset, bytes.len()) {
            for (word, from) in words.iter().zip(bytes.as_chunks().0) {
                word.store(u64::from_ne_bytes(*from), Ordering::Relaxed);
            }
            return Ok(());
        }
        self.write_any(offset, bytes)
    }

    #[inline]
    fn load(&self, offset: u64) -> Result<u32, AccessError> {
        self.check_readable()?;
        match &self.parts {
            Parts::Mapped(_) => Ok(self.word(offset).ok_or(OUTSIDE)?.load(Ordering::Acquire)),
            Parts::Copied([_, counter]) => {
                let mut word = [0; 4];
                counter.copy_from(offset, &mut word).map_err(access_error)?;
                Ok(u32::from_le_bytes(word))
            }
        }
    }

    #[inline]
    fn store(&self, offset: u64, value: u32) -> Result<(), AccessError> {
        // Also behind a shut gate: an operation that came this far is finished.
        match &self.parts {
            Parts::Mapped(_) => {
                self.word(offset).ok_or(OUTSIDE)?.store(value, Ordering::Release);
                Ok(())
            }
            Parts::Copied([_, counter]) => {
                counter.copy_to(offset, &value.to_le_bytes()).map_err(access_error)
            }
        }
    }

    #[inline]
    fn publish(&self, _: Place) -> Result<(), AccessError> {
        self.order()
    }

    #[inline]
    fn observe(&self, _: Place) -> Result<(), AccessError> {
        self.order()
    }

    #[inline(always)]
    fn will_write(&self, offset: u64) {
        if let (Parts::Mapped([payload, _]), Ok(offset)) = (&self.parts, usize::try_from(offset)) {
            payload.prefetch::<true>(offset);
        }
    }

    #[inline(always)]
    fn will_read(&self, offset: u64) {
        if let (Parts::Mapped([payload, _]), Ok(offset)) = (&self.parts, usize::try_from(offset)) {
            payload.prefetch::<false>(offset);
        }
    }

    /// Wakes the other side if its flag says that it sleeps. A flag that is set at this very moment may be missed: a sleep ends
    /// after 1 ms.
    #[inline]
    fn wake(&self, counter: u64, sleep_flag: u64) {
        let flag = self.word(sleep_flag);
        if flag.is_some_and(|flag| flag.load(Ordering::Relaxed) & 0xff != 0) {
            self.wake_sleeper(counter);
        }
    }

    #[inline]
    fn check_peer(&self) -> Result<(), AccessError> {
        if self.is_damaged() {
            self.ticket.gate().shut(Code::BackingShrank, 0);
        }
        self.ticket.gate().end().map_or(Ok(()), Err)
    }
}

impl RegionMemory {
    /// Bytes of PAYLOAD as words, where they are mapped and whole ones. Both parts of a region are there for reading and writing.
    #[inline(always)]
    fn words(&self, offset: u64, length: usize) -> Option<&[AtomicU64]> {
        match &self.parts {
            Parts::Mapped([payload, _]) => payload.words(usize::try_from(offset).ok()?, length),
            Parts::Copied(_) => None,
        }
    }

    #[inline(never)]
    fn read_any(&self, offset: u64, out: &mut [u8]) -> Result<(), AccessError> {
        match &self.parts {
            Parts::Mapped([payload, _]) => {
                let offset = usize::try_from(offset).map_err(|_| OUTSIDE)?;
                payload.read_control(offset, out).map_err(|_| OUTSIDE)
            }
            Parts::Copied([payload, _]) => payload.copy_from(offset, out).map_err(access_error),
        }
    }

    #[inline(never)]
    fn write_any(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        match &self.parts {
            Parts::Mapped([payload, _]) => {
                let offset = usize::try_from(offset).map_err(|_| OUTSIDE)?;
                payload.write_control(offset, bytes).map_err(|_| OUTSIDE)
            }
            Parts::Copied([payload, _]) => payload.copy_to(offset, bytes).map_err(access_error),
        }
    }

    #[inline]
    fn order(&self) -> Result<(), AccessError> {
        if matches!(self.parts, Parts::Copied(_)) {
            // The driver may copy with other instructions than this processor's own loads and stores.
            fence(Ordering::SeqCst);
        }
        Ok(())
    }

    #[cold]
    fn wake_sleeper(&self, counter: u64) {
        if let Some(word) = self.word(counter) {
            // A sleeper that is not woken wakes by itself.
            let _ = futex::wake(word);
        }
    }
}
