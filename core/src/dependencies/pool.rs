//! Slots that a tracker's caller lends, given out and taken back in constant time.

use core::fmt;
use core::marker::PhantomData;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// What a tracker's slots lie in: lent slices, or whatever else the host has, as boxed slices.
pub trait Memory {
    /// A fixed number of `T`.
    type Of<T: Clone + fmt::Debug + 'static>: AsRef<[T]> + AsMut<[T]> + fmt::Debug;
}

/// Memory that is lent as mutable slices.
#[derive(Debug)]
pub struct Lent<'a>(PhantomData<&'a ()>);

impl<'a> Memory for Lent<'a> {
    type Of<T: Clone + fmt::Debug + 'static> = &'a mut [T];
}

/// A number that a slice's index can be.
#[inline]
pub(super) fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// A slice's length as slots count it; what is past 2^32 - 2 is not used.
#[inline]
pub(super) fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(NONE).min(NONE.wrapping_sub(1))
}

/// What a pool can hold: it has an empty state, and a place for the number of the next free slot.
pub(super) trait Slot: Clone + fmt::Debug + 'static {
    const EMPTY: Self;
    fn next_free(&self) -> u32;
    fn set_next_free(&mut self, slot: u32);
}

/// Slots by number. A number that no slot has, which nothing in here makes, reads as an empty slot and is written to
/// nowhere, so that no access can fail.
#[derive(Debug)]
pub(super) struct Pool<M: Memory, T: Slot> {
    slots: M::Of<T>,
    capacity: u32,
    /// Slots from here on were never used.
    fresh: u32,
    free: u32,
    in_use: u32,
    nothing: T,
    nowhere: T,
}

impl<M: Memory, T: Slot> Pool<M, T> {
    pub(super) fn new(slots: M::Of<T>) -> Self {
        let capacity = count(slots.as_ref().len());
        Self { slots, capacity, fresh: 0, free: NONE, in_use: 0, nothing: T::EMPTY, nowhere: T::EMPTY }
    }

    pub(super) const fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(super) const fn in_use(&self) -> u32 {
        self.in_use
    }

    pub(super) const fn left(&self) -> u32 {
        self.capacity.saturating_sub(self.in_use)
    }

    #[inline]
    pub(super) fn at(&self, slot: u32) -> &T {
        self.slots.as_ref().get(index(slot)).unwrap_or(&self.nothing)
    }

    #[inline]
    pub(super) fn at_mut(&mut self, slot: u32) -> &mut T {
        self.slots.as_mut().get_mut(index(slot)).unwrap_or(&mut self.nowhere)
    }

    /// A slot with the value that is made for its number, in its place; [`NONE`] when all are in use.
    #[inline]
    pub(super) fn take(&mut self, value: impl FnOnce(u32) -> T) -> u32 {
        let slot = if self.free != NONE {
            let slot = self.free;
            self.free = self.at(slot).next_free();
            slot
        } else if self.fresh < self.capacity {
            let slot = self.fresh;
            self.fresh = slot.saturating_add(1);
            slot
        } else {
            return NONE;
        };
        self.in_use = self.in_use.saturating_add(1);
        *self.at_mut(slot) = value(slot);
        slot
    }

    /// Takes a slot back, as it stands.
    #[inline]
    pub(super) fn give_back(&mut self, slot: u32) {
        let free = self.free;
        self.at_mut(slot).set_next_free(free);
        self.free = slot;
        self.in_use = self.in_use.saturating_sub(1);
    }
}
