//! A region whose memory shows every order that the memory model allows.

use bufabi_core::queue::{COUNTER_BYTES, Counts, QueueLayout, counters};
use bufabi_core::region::{AccessError, Place, RegionAccess};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// How publishing and observing are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Fences, and counters without an order of their own.
    Fences,
    /// Counters that release and acquire.
    Counters,
    /// Nothing is published: wrong, to see that it is found.
    NoPublish,
    /// Nothing is observed: wrong, to see that it is found.
    NoObserve,
}

/// A region of atomics that have no order but what the access gives them. Words are only reached as a whole.
pub(crate) struct Memory {
    order: Order,
    words: Vec<AtomicU64>,
    counters: Vec<AtomicU32>,
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

impl Memory {
    pub(crate) fn new(order: Order, layout: QueueLayout, counts: Counts) -> Arc<Self> {
        let count = |counter: u64| match counter {
            counters::INPUT_TAIL | counters::INPUT_HEAD => counts.input,
            counters::OUTPUT_TAIL | counters::OUTPUT_HEAD => counts.output,
            _ => 0,
        };
        let low = |count: u64| u32::try_from(count & 0xffff_ffff).unwrap();
        Arc::new(Self {
            order,
            words: (0..layout.payload_bytes() / 8).map(|_| AtomicU64::new(0)).collect(),
            counters: (0..6).map(|line| AtomicU32::new(low(count(line * 64)))).collect(),
        })
    }

    fn counter(&self, offset: u64) -> &AtomicU32 {
        assert_eq!(offset % 64, 0);
        &self.counters[index(offset / 64)]
    }
}

pub(crate) struct Shared(pub(crate) Arc<Memory>);

impl RegionAccess for Shared {
    fn payload_bytes(&self) -> u64 {
        u64::try_from(self.0.words.len()).unwrap() * 8
    }

    fn counter_bytes(&self) -> u64 {
        COUNTER_BYTES
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), AccessError> {
        assert_eq!((offset % 8, out.len() % 8), (0, 0));
        for (word, out) in self.0.words[index(offset / 8)..].iter().zip(out.chunks_exact_mut(8)) {
            out.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        assert_eq!((offset % 8, bytes.len() % 8), (0, 0));
        for (word, bytes) in self.0.words[index(offset / 8)..].iter().zip(bytes.chunks_exact(8)) {
            word.store(u64::from_le_bytes(bytes.try_into().unwrap()), Ordering::Relaxed);
        }
        Ok(())
    }

    fn load(&self, offset: u64) -> Result<u32, AccessError> {
        let order = if self.0.order == Order::Counters { Ordering::Acquire } else { Ordering::Relaxed };
        Ok(self.0.counter(offset).load(order))
    }

    fn store(&self, offset: u64, value: u32) -> Result<(), AccessError> {
        let order = if self.0.order == Order::Counters { Ordering::Release } else { Ordering::Relaxed };
        self.0.counter(offset).store(value, order);
        Ok(())
    }

    fn publish(&self, _: Place) -> Result<(), AccessError> {
        if matches!(self.0.order, Order::Fences | Order::NoObserve) {
            fence(Ordering::Release);
        }
        Ok(())
    }

    fn observe(&self, _: Place) -> Result<(), AccessError> {
        if matches!(self.0.order, Order::Fences | Order::NoPublish) {
            fence(Ordering::Acquire);
        }
        Ok(())
    }
}
