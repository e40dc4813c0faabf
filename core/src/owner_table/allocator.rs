//! Which slots are free, alone or side by side, in a constant number of steps for every question.

use super::slot::{FreeList, OwnerSlot, at};

/// Free slots, by their numbers from 0. Slots `2k` and `2k + 1` are buddies: while both are free they stand as one pair, under the
/// even number; while one is, it stands alone. Slots from `fresh` on were never used and stand nowhere.
#[derive(Debug)]
pub(super) struct Allocator {
    capacity: u32,
    fresh: u32,
    singles: FreeList,
    pairs: FreeList,
    occupied: u32,
}

impl Allocator {
    pub(super) fn new(slots: usize) -> Self {
        // Two numbers are no slots: the one that ends a list, and the one past the last.
        let capacity = u32::try_from(slots).unwrap_or(u32::MAX).min(u32::MAX.saturating_sub(2));
        Self { capacity, fresh: 0, singles: FreeList::EMPTY, pairs: FreeList::EMPTY, occupied: 0 }
    }

    pub(super) const fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(super) const fn occupied(&self) -> u32 {
        self.occupied
    }

    /// The slot that [`Allocator::take_single`] would take: one that stands alone, before a pair is broken.
    pub(super) fn next_single(&self) -> Option<u32> {
        let fresh = (self.fresh < self.capacity).then_some(self.fresh);
        self.singles.first().or(self.pairs.first()).or(fresh)
    }

    /// The even slot of the pair that [`Allocator::take_pair`] would take.
    pub(super) fn next_pair(&self) -> Option<u32> {
        let fresh = (self.fresh.saturating_add(1) < self.capacity).then_some(self.fresh);
        self.pairs.first().or(fresh)
    }

    /// Takes the slot that [`Allocator::next_single`] named.
    pub(super) fn take_single<T>(&mut self, slots: &mut [OwnerSlot<T>], index: u32) {
        if self.singles.first() == Some(index) {
            self.singles.take_out(slots, index);
        } else {
            self.take_pair_out(slots, index);
            let buddy = buddy(index);
            if buddy < self.capacity {
                self.singles.push(slots, buddy);
            }
        }
        self.occupied = self.occupied.saturating_add(1);
    }

    /// Takes the pair that [`Allocator::next_pair`] named.
    pub(super) fn take_pair<T>(&mut self, slots: &mut [OwnerSlot<T>], index: u32) {
        self.take_pair_out(slots, index);
        self.occupied = self.occupied.saturating_add(2);
    }

    fn take_pair_out<T>(&mut self, slots: &mut [OwnerSlot<T>], index: u32) {
        if self.pairs.first() == Some(index) {
            self.pairs.take_out(slots, index);
        } else {
            self.fresh = self.fresh.saturating_add(2).min(self.capacity);
        }
    }

    /// Takes an emptied slot back, or never again when its last generation is spent.
    pub(super) fn give_back<T>(&mut self, slots: &mut [OwnerSlot<T>], index: u32) {
        let Some(slot) = at(slots, index) else { return };
        self.occupied = self.occupied.saturating_sub(1);
        if !slot.is_free() {
            return;
        }
        let buddy = buddy(index);
        let buddy_is_free = at(slots, buddy).is_some_and(OwnerSlot::is_free);
        if buddy < self.capacity && buddy_is_free {
            self.singles.take_out(slots, buddy);
            self.pairs.push(slots, index.min(buddy));
        } else {
            self.singles.push(slots, index);
        }
    }
}

const fn buddy(index: u32) -> u32 {
    index ^ 1
}
