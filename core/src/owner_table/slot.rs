//! Where one buffer id keeps what belongs to it, and the free lists that run through the slots.

/// No slot: what a list ends with.
pub(super) const NONE: u32 = u32::MAX;

/// A value that has an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned<T> {
    /// The value.
    pub value: T,
    /// How often unfinished tasks name it.
    pub holds: u32,
    /// Its release has begun.
    pub is_closing: bool,
}

/// Storage for one buffer id of an owner and its value, lent or given to an [`OwnerTable`](super::OwnerTable).
#[derive(Debug)]
pub struct OwnerSlot<T> {
    /// The last one given out; 0 is none.
    pub(super) generation: u32,
    /// Neighbours in a free list.
    previous: u32,
    next: u32,
    pub(super) content: Option<Owned<T>>,
}

impl<T> OwnerSlot<T> {
    /// A slot that was never used.
    pub const EMPTY: Self = Self::used_up_to(0);

    pub(super) const fn used_up_to(generation: u32) -> Self {
        Self { generation, previous: NONE, next: NONE, content: None }
    }

    /// It can take a value: one whose last generation is spent is retired for ever.
    pub(super) const fn is_free(&self) -> bool {
        self.content.is_none() && self.generation != u32::MAX
    }
}

impl<T> Default for OwnerSlot<T> {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// A list of free slots, doubly linked through them, so that any one can be taken out in a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreeList {
    first: u32,
}

impl FreeList {
    pub(super) const EMPTY: Self = Self { first: NONE };

    pub(super) fn first(self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    pub(super) fn push<T>(&mut self, slots: &mut [OwnerSlot<T>], index: u32) {
        let old = core::mem::replace(&mut self.first, index);
        if let Some(slot) = at_mut(slots, old) {
            slot.previous = index;
        }
        if let Some(slot) = at_mut(slots, index) {
            (slot.previous, slot.next) = (NONE, old);
        }
    }

    pub(super) fn take_out<T>(&mut self, slots: &mut [OwnerSlot<T>], index: u32) {
        let Some(slot) = at_mut(slots, index) else { return };
        let (previous, next) = (slot.previous, slot.next);
        (slot.previous, slot.next) = (NONE, NONE);
        match at_mut(slots, previous) {
            Some(slot) => slot.next = next,
            None => self.first = next,
        }
        if let Some(slot) = at_mut(slots, next) {
            slot.previous = previous;
        }
    }
}

#[inline]
pub(super) fn at<T>(slots: &[OwnerSlot<T>], index: u32) -> Option<&OwnerSlot<T>> {
    slots.get(usize::try_from(index).ok()?)
}

#[inline]
pub(super) fn at_mut<T>(slots: &mut [OwnerSlot<T>], index: u32) -> Option<&mut OwnerSlot<T>> {
    slots.get_mut(usize::try_from(index).ok()?)
}
