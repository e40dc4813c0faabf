//! Where an import table keeps one descriptor with its value, and the lists that run through the slots.

use core::fmt;

use zerocopy::transmute;

use crate::wire::descriptor::{Descriptor, RawDescriptor};

/// No slot: what a list ends with.
pub(super) const NONE: u32 = u32::MAX;

/// Storage for one import and its value, lent or given to an [`ImportTable`](super::ImportTable).
///
/// The descriptor starts a cache line and the counts follow it, so that a lookup touches two lines of a slot.
#[repr(C, align(64))]
pub struct ImportSlot<T> {
    pub(super) record: RawDescriptor,
    /// How often it is pinned.
    pub(super) pins: u32,
    /// How many values the slot has held before, modulo 2^32.
    pub(super) stamp: u32,
    /// Neighbours in a list of slots.
    previous: u32,
    next: u32,
    pub(super) value: Option<T>,
}

impl<T> ImportSlot<T> {
    /// A slot without a value.
    pub const EMPTY: Self = Self {
        record: transmute!([0_u8; RawDescriptor::SIZE]),
        pins: 0,
        stamp: 0,
        previous: NONE,
        next: NONE,
        value: None,
    };
}

impl<T> Default for ImportSlot<T> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<T: fmt::Debug> fmt::Debug for ImportSlot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let descriptor = self.value.as_ref().map(|_| Descriptor::from_checked(&self.record));
        f.debug_struct("ImportSlot")
            .field("descriptor", &descriptor)
            .field("pins", &self.pins)
            .field("value", &self.value)
            .finish()
    }
}

/// Slots in the order in which they came, doubly linked through them, so that any one can be taken out in a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotList {
    first: u32,
    last: u32,
    len: u32,
}

impl SlotList {
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE, len: 0 };

    pub(super) fn first(self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    pub(super) const fn len(self) -> u32 {
        self.len
    }

    pub(super) fn push_last<T>(&mut self, slots: &mut [ImportSlot<T>], index: u32) {
        let old = core::mem::replace(&mut self.last, index);
        match at_mut(slots, old) {
            Some(slot) => slot.next = index,
            None => self.first = index,
        }
        if let Some(slot) = at_mut(slots, index) {
            (slot.previous, slot.next) = (old, NONE);
        }
        self.len = self.len.saturating_add(1);
    }

    pub(super) fn take_out<T>(&mut self, slots: &mut [ImportSlot<T>], index: u32) {
        let Some(slot) = at_mut(slots, index) else { return };
        let (previous, next) = (slot.previous, slot.next);
        (slot.previous, slot.next) = (NONE, NONE);
        match at_mut(slots, previous) {
            Some(slot) => slot.next = next,
            None => self.first = next,
        }
        match at_mut(slots, next) {
            Some(slot) => slot.previous = previous,
            None => self.last = previous,
        }
        self.len = self.len.saturating_sub(1);
    }
}

#[inline]
pub(super) fn at<T>(slots: &[ImportSlot<T>], index: u32) -> Option<&ImportSlot<T>> {
    slots.get(usize::try_from(index).ok()?)
}

#[inline]
pub(super) fn at_mut<T>(slots: &mut [ImportSlot<T>], index: u32) -> Option<&mut ImportSlot<T>> {
    slots.get_mut(usize::try_from(index).ok()?)
}
