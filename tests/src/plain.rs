//! A region whose PAYLOAD is copied line by line: with `--cfg bufabi_shows_races` those copies are plain, so what one side writes without
//! the other one's knowing races, and ThreadSanitizer sees it.

use std::sync::atomic::Ordering;

use bufabi_core::region::{AccessError, Place, RegionAccess};
use bufabi_core::{Code, DType, View, ViewError};
use bufabi_host::memory::{Mapping, Strided};
use bufabi_host::sys::OsError;

/// Both parts of a region, zero, which threads share.
#[derive(Debug)]
pub struct Plain {
    payload: Mapping,
    counters: Mapping,
}

impl Plain {
    /// A region of so many bytes.
    ///
    /// # Errors
    /// [`OsError`]: ENOMEM.
    pub fn new(payload_bytes: usize, counter_bytes: usize) -> Result<Self, OsError> {
        Ok(Self { payload: Mapping::inherited(payload_bytes)?, counters: Mapping::inherited(counter_bytes)? })
    }

    /// One side's use of it. Without `ordered` its counters neither release nor acquire, which is wrong, to see that it is found.
    ///
    /// # Errors
    /// [`ViewError`] when PAYLOAD is more than a view can say.
    pub fn side(&self, ordered: bool) -> Result<PlainMemory<'_>, ViewError> {
        let nbytes = self.payload.nbytes();
        let elements = u32::try_from(nbytes).unwrap_or(u32::MAX);
        let whole = self.payload.operand(View::row_major(0, DType::Uint8, &[elements], nbytes)?)?;
        let bytes =
            Strided::new(&whole).ok_or(ViewError::OutOfBounds { byte_offset: 0, extent: nbytes, nbytes })?;
        let (load, store) = if ordered {
            (Ordering::Acquire, Ordering::Release)
        } else {
            (Ordering::Relaxed, Ordering::Relaxed)
        };
        Ok(PlainMemory { bytes, region: self, load, store })
    }
}

/// One side's use of [`Plain`] memory. Counters release and acquire, so publishing and observing have nothing left to do.
#[derive(Debug)]
pub struct PlainMemory<'a> {
    /// PAYLOAD, copied as memory of this thread alone is.
    bytes: Strided<'a, u8>,
    region: &'a Plain,
    load: Ordering,
    store: Ordering,
}

const OUTSIDE: AccessError = AccessError::new(Code::RegionRange, 0);

impl PlainMemory<'_> {
    fn start(&self, offset: u64, nbytes: usize) -> Result<usize, AccessError> {
        let start = usize::try_from(offset).map_err(|_| OUTSIDE)?;
        let end = start.checked_add(nbytes).and_then(|end| u64::try_from(end).ok());
        if end.is_some_and(|end| end <= self.payload_bytes()) { Ok(start) } else { Err(OUTSIDE) }
    }
}

impl RegionAccess for PlainMemory<'_> {
    fn payload_bytes(&self) -> u64 {
        self.region.payload.nbytes()
    }

    fn counter_bytes(&self) -> u64 {
        self.region.counters.nbytes()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), AccessError> {
        self.bytes.load(self.start(offset, out.len())?, 1, out);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.bytes.store(self.start(offset, bytes.len())?, 1, bytes);
        Ok(())
    }

    fn load(&self, offset: u64) -> Result<u32, AccessError> {
        let counter = usize::try_from(offset).ok().and_then(|offset| self.region.counters.atomic_u32(offset));
        Ok(counter.ok_or(OUTSIDE)?.load(self.load))
    }

    fn store(&self, offset: u64, value: u32) -> Result<(), AccessError> {
        let counter = usize::try_from(offset).ok().and_then(|offset| self.region.counters.atomic_u32(offset));
        counter.ok_or(OUTSIDE)?.store(value, self.store);
        Ok(())
    }

    fn publish(&self, _: Place) -> Result<(), AccessError> {
        Ok(())
    }

    fn observe(&self, _: Place) -> Result<(), AccessError> {
        Ok(())
    }
}
