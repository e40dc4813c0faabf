//! Regions in this process's own memory, for tests: one out of atomics, which any number of threads may use, and wrappers that watch,
//! break or corrupt another one.
#![expect(clippy::indexing_slicing, reason = "an access outside the region must fail the test")]

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bufabi_core::region::{AccessError, Place, RegionAccess};

/// A region of atomic words. Counters release and acquire, so publishing and observing have nothing left to do.
#[derive(Debug)]
pub struct AtomicMemory {
    payload: Box<[AtomicU64]>,
    counters: Box<[AtomicLine]>,
}

/// Counters of 64 bytes, apart from all others.
#[derive(Debug, Default)]
#[repr(align(64))]
struct AtomicLine([AtomicU32; 16]);

/// The number as an index. A number that is none fails the test that it came up in.
fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl AtomicMemory {
    /// A region of so many bytes, zero. Both are rounded up to what it can hold; the parts' sizes stay as they were asked for
    /// when they are multiples of 8 and 64.
    #[must_use]
    pub fn new(payload_bytes: u64, counter_bytes: u64) -> Self {
        Self {
            payload: (0..payload_bytes.div_ceil(8)).map(|_| AtomicU64::new(0)).collect(),
            counters: (0..counter_bytes.div_ceil(64)).map(|_| AtomicLine::default()).collect(),
        }
    }

    /// A word of PAYLOAD, at a multiple of 8.
    #[must_use]
    pub fn word(&self, offset: u64) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8), "{offset} is the start of no word");
        &self.payload[index(offset / 8)]
    }

    /// The counter at a multiple of 4.
    #[must_use]
    pub fn counter(&self, offset: u64) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4), "{offset} is the start of no counter");
        &self.counters[index(offset / 64)].0[index(offset % 64 / 4)]
    }
}

impl RegionAccess for AtomicMemory {
    fn payload_bytes(&self) -> u64 {
        u64::try_from(self.payload.len()).unwrap_or(0).saturating_mul(8)
    }

    fn counter_bytes(&self) -> u64 {
        u64::try_from(self.counters.len()).unwrap_or(0).saturating_mul(64)
    }

    #[inline]
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), AccessError> {
        if offset.is_multiple_of(8) && out.len().is_multiple_of(8) {
            let words = &self.payload[index(offset / 8)..][..out.len() / 8];
            for (word, out) in words.iter().zip(out.as_chunks_mut().0) {
                *out = word.load(Ordering::Relaxed).to_le_bytes();
            }
            return Ok(());
        }
        let (mut at, mut out) = (offset, out);
        while !out.is_empty() {
            let skipped = index(at % 8);
            let word = self.payload[index(at / 8)].load(Ordering::Relaxed).to_le_bytes();
            let count = out.len().min(8_usize.saturating_sub(skipped));
            let (now, later) = out.split_at_mut(count);
            now.copy_from_slice(&word[skipped..skipped.saturating_add(count)]);
            at = at.saturating_add(u64::try_from(count).unwrap_or(0));
            out = later;
        }
        Ok(())
    }

    #[inline]
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        if offset.is_multiple_of(8) && bytes.len().is_multiple_of(8) {
            let words = &self.payload[index(offset / 8)..][..bytes.len() / 8];
            for (word, bytes) in words.iter().zip(bytes.as_chunks().0) {
                word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
            }
            return Ok(());
        }
        let (mut at, mut bytes) = (offset, bytes);
        while !bytes.is_empty() {
            let skipped = index(at % 8);
            let count = bytes.len().min(8_usize.saturating_sub(skipped));
            let (now, later) = bytes.split_at(count);
            let cell = &self.payload[index(at / 8)];
            // Nobody else writes to bytes beside these: an arena has one writer, and slots are whole words.
            let mut word = if count == 8 { [0; 8] } else { cell.load(Ordering::Relaxed).to_le_bytes() };
            word[skipped..skipped.saturating_add(count)].copy_from_slice(now);
            cell.store(u64::from_le_bytes(word), Ordering::Relaxed);
            at = at.saturating_add(u64::try_from(count).unwrap_or(0));
            bytes = later;
        }
        Ok(())
    }

    #[inline]
    fn load(&self, offset: u64) -> Result<u32, AccessError> {
        Ok(self.counter(offset).load(Ordering::Acquire))
    }

    #[inline]
    fn store(&self, offset: u64, value: u32) -> Result<(), AccessError> {
        self.counter(offset).store(value, Ordering::Release);
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
}

/// What one call of an access did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Bytes were read.
    Read(Place),
    /// Bytes were written.
    Write(Place),
    /// A counter was loaded.
    Load(u64),
    /// A counter was stored.
    Store(u64, u32),
    /// A place was published.
    Publish(Place),
    /// A place was observed.
    Observe(Place),
}

/// Watches every call, before it is made: keeps them, lets a test change the memory in between, and fails the calls that it is told to.
pub struct Watched<'a, F: FnMut(&AtomicMemory, Step) -> Result<(), AccessError>> {
    memory: &'a AtomicMemory,
    before: RefCell<F>,
    steps: Cell<u64>,
}

impl<'a, F: FnMut(&AtomicMemory, Step) -> Result<(), AccessError>> Watched<'a, F> {
    /// Calls `before` before each call.
    pub const fn new(memory: &'a AtomicMemory, before: F) -> Self {
        Self { memory, before: RefCell::new(before), steps: Cell::new(0) }
    }

    /// Calls so far.
    pub const fn steps(&self) -> u64 {
        self.steps.get()
    }

    fn step(&self, step: Step) -> Result<(), AccessError> {
        let inside = |place: Place, nbytes: u64| {
            assert!(
                place.offset.checked_add(place.nbytes).is_some_and(|end| end <= nbytes),
                "{step:?} outside a part of {nbytes} bytes"
            );
        };
        match step {
            Step::Read(place) | Step::Write(place) | Step::Publish(place) | Step::Observe(place) => {
                inside(place, self.memory.payload_bytes());
            }
            Step::Load(offset) | Step::Store(offset, _) => {
                inside(Place { offset, nbytes: 4 }, self.memory.counter_bytes());
            }
        }
        self.steps.set(self.steps.get().saturating_add(1));
        (self.before.borrow_mut())(self.memory, step)
    }
}

fn place(offset: u64, bytes: &[u8]) -> Place {
    Place { offset, nbytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX) }
}

impl<F: FnMut(&AtomicMemory, Step) -> Result<(), AccessError>> RegionAccess for Watched<'_, F> {
    fn payload_bytes(&self) -> u64 {
        self.memory.payload_bytes()
    }

    fn counter_bytes(&self) -> u64 {
        self.memory.counter_bytes()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), AccessError> {
        self.step(Step::Read(place(offset, out)))?;
        self.memory.read(offset, out)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.step(Step::Write(place(offset, bytes)))?;
        self.memory.write(offset, bytes)
    }

    fn load(&self, offset: u64) -> Result<u32, AccessError> {
        self.step(Step::Load(offset))?;
        self.memory.load(offset)
    }

    fn store(&self, offset: u64, value: u32) -> Result<(), AccessError> {
        self.step(Step::Store(offset, value))?;
        self.memory.store(offset, value)
    }

    fn publish(&self, place: Place) -> Result<(), AccessError> {
        self.step(Step::Publish(place))?;
        self.memory.publish(place)
    }

    fn observe(&self, place: Place) -> Result<(), AccessError> {
        self.step(Step::Observe(place))?;
        self.memory.observe(place)
    }
}
