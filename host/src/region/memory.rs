//! A region's bytes in this process's mappings, as the core reaches them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bufabi_core::Code;
use bufabi_core::region::{AccessError, Part, Place, RegionAccess, RegionParts, RegionView, RegionViewError};

use super::gate::{Gate, Ticket};
use crate::memory::Mapping;
use crate::sys::futex;

/// Both parts of a region, mapped. While one is there the region's mappings stay; after the region was closed, or its peer died,
/// every access is refused with that reason, and whoever still has one should drop it.
///
/// Memory between processors of one machine is coherent, so counters that release and acquire are all the order there is.
#[derive(Debug)]
pub struct RegionMemory {
    // In this order they are dropped: the ticket last, when the mappings are no longer used.
    payload: Arc<Mapping>,
    counter: Arc<Mapping>,
    ticket: Ticket,
}

impl RegionMemory {
    /// Comes into a region, unless it is closed.
    pub(super) fn enter(
        [payload, counter]: &[Arc<Mapping>; 2],
        gate: &Arc<Gate>,
    ) -> Result<Self, AccessError> {
        let ticket = gate.enter().map_err(|code| AccessError::new(code, 0))?;
        Ok(Self { payload: Arc::clone(payload), counter: Arc::clone(counter), ticket })
    }

    /// The same region once more.
    ///
    /// # Errors
    /// [`AccessError`] with the reason for which everyone is refused.
    pub fn another(&self) -> Result<Self, AccessError> {
        let mappings = [Arc::clone(&self.payload), Arc::clone(&self.counter)];
        Self::enter(&mappings, self.ticket.gate())
    }

    /// The six scalars by which a task in this process is told of the region: its addresses here.
    ///
    /// # Errors
    /// [`RegionViewError`].
    pub fn view(&self, parts: RegionParts) -> Result<RegionView, RegionViewError> {
        let part = |mapping: &Mapping| Part { base: mapping.address(), nbytes: mapping.nbytes() };
        RegionView::new(parts.region_id(), part(&self.payload), part(&self.counter))
    }

    /// Refuses every access from now on, also of others who have the region in this process: the other side is gone.
    pub(super) fn peer_died(&self) {
        self.ticket.gate().shut(Code::WorkerDied);
    }

    pub(super) fn word(&self, offset: u64) -> Option<&AtomicU32> {
        self.counter.atomic_u32(usize::try_from(offset).ok()?)
    }

    #[inline]
    fn check_open(&self) -> Result<(), AccessError> {
        self.ticket.gate().refusal().map_or(Ok(()), |code| Err(AccessError::new(code, 0)))
    }
}

/// Outside a part. The core asks for nothing such.
const OUTSIDE: AccessError = AccessError::new(Code::RegionRange, 0);

impl RegionAccess for RegionMemory {
    fn payload_bytes(&self) -> u64 {
        self.payload.nbytes()
    }

    fn counter_bytes(&self) -> u64 {
        self.counter.nbytes()
    }

    #[inline]
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), AccessError> {
        self.check_open()?;
        let offset = usize::try_from(offset).map_err(|_| OUTSIDE)?;
        self.payload.read(offset, out).map_err(|_| OUTSIDE)
    }

    #[inline]
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.check_open()?;
        let offset = usize::try_from(offset).map_err(|_| OUTSIDE)?;
        self.payload.write(offset, bytes).map_err(|_| OUTSIDE)
    }

    #[inline]
    fn load(&self, offset: u64) -> Result<u32, AccessError> {
        self.check_open()?;
        Ok(self.word(offset).ok_or(OUTSIDE)?.load(Ordering::Acquire))
    }

    #[inline]
    fn store(&self, offset: u64, value: u32) -> Result<(), AccessError> {
        // Also behind a shut gate: an operation that came this far is finished.
        self.word(offset).ok_or(OUTSIDE)?.store(value, Ordering::Release);
        Ok(())
    }

    #[inline]
    fn publish(&self, _: Place) -> Result<(), AccessError> {
        Ok(())
    }

    #[inline]
    fn observe(&self, _: Place) -> Result<(), AccessError> {
        Ok(())
    }

    /// Wakes the other side if its flag says that it sleeps. A flag that is set at this very moment may be missed: a sleep ends
    /// after 1 ms.
    #[inline]
    fn wake(&self, counter: u64, sleep_flag: u64) {
        let flag = self.word(sleep_flag);
        if flag.is_some_and(|flag| flag.load(Ordering::Relaxed) & 0xff != 0)
            && let Some(word) = self.word(counter)
        {
            // A sleeper that is not woken wakes by itself.
            let _ = futex::wake(word);
        }
    }
}
