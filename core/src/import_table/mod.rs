//! What one endpoint has imported: each identity once, with the descriptor that it first came with and a value, its mapping.
//!
//! An identity is compared as a whole, 20 bytes of it, and in the same step all that its descriptor says. The hash that finds it
//! has a secret seed, and no lookup compares more than 12 identities whoever chose them (see [`ImportBucket`]).
//!
//! Views of a mapping *pin* it. What is pinned is not removed. What is not is kept for the next time that it comes, in the order in
//! which it was last used, so that a full table can evict what was unused the longest, in a constant number of steps.

mod error;
mod index;
mod slot;
#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]
mod tests;

use core::marker::PhantomData;

use crate::keyed_hash::KeyedHash;
use crate::wire::agreement::agree;
use crate::wire::descriptor::{Descriptor, FieldSet, RawDescriptor};
use crate::wire::identity::Identity;
use crate::wire::record::Holds;
use index::{Index, Place};
use slot::{SlotList, at, at_mut};

pub use error::{CloseError, InsertRefusal, InsertRefused, PinError, ViewsAlive};
pub use index::ImportBucket;
pub use slot::ImportSlot;

/// Imports by identity, in slots and buckets that are arrays, lent slices, or boxes of them.
///
/// With `N` slots it wants [`ImportBucket::count_for`]`(N)` buckets.
#[derive(Debug)]
pub struct ImportTable<T, S, B> {
    hash: KeyedHash,
    index: Index,
    slots: S,
    buckets: B,
    /// Slots from here on were never used.
    fresh: u32,
    free: SlotList,
    /// Values that nobody has pinned, the longest unused first.
    unused: SlotList,
    value: PhantomData<T>,
}

/// What stands for one import as long as it is in the table, without a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ImportKey {
    slot: u32,
    stamp: u32,
}

/// What is known of a descriptor's identity.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup<'a, T> {
    /// It is there with a descriptor that says the same.
    Hit(ImportKey, &'a T),
    /// It is there with a descriptor that differs in these fields.
    Conflict(FieldSet),
    /// It is not there.
    Vacant,
}

impl<T, S, B> ImportTable<T, S, B>
where
    S: AsRef<[ImportSlot<T>]> + AsMut<[ImportSlot<T>]>,
    B: AsRef<[ImportBucket]> + AsMut<[ImportBucket]>,
{
    /// A table without an import. Values that the slots still hold are dropped. Its capacity is the number of slots, or three times
    /// the largest power of two of the buckets, or 2^30, whichever is least.
    #[must_use]
    pub fn new(hash: KeyedHash, mut slots: S, mut buckets: B) -> Self {
        slots.as_mut().fill_with(|| ImportSlot::EMPTY);
        buckets.as_mut().fill(ImportBucket::EMPTY);
        let index = Index::new(slots.as_ref().len(), buckets.as_ref().len());
        let (free, unused) = (SlotList::EMPTY, SlotList::EMPTY);
        Self { hash, index, slots, buckets, fresh: 0, free, unused, value: PhantomData }
    }

    /// Imports that it can hold.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.index.capacity()
    }

    /// Imports that it holds.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.fresh.saturating_sub(self.free.len())
    }

    /// It holds no import.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Imports that are not pinned, and may be evicted.
    #[must_use]
    pub const fn unused(&self) -> u32 {
        self.unused.len()
    }

    /// Looks for the identity of a descriptor, and compares all that the descriptor says. Padding and `owner_worker_path_id` take
    /// no part.
    #[inline]
    pub fn find<H: Holds<RawDescriptor>>(&self, descriptor: &Descriptor<H>) -> Lookup<'_, T> {
        let hash = self.hash.record(&descriptor.raw().identity);
        let first = self.index.first(self.buckets.as_ref(), hash);
        match first.and_then(|index| self.hit(index, descriptor)) {
            Some(hit) => hit,
            None => self.find_beyond_the_first(hash, descriptor),
        }
    }

    /// What is left for a lookup whose first candidate was not it: another candidate, a conflict, or nothing.
    #[inline(never)]
    fn find_beyond_the_first<H: Holds<RawDescriptor>>(
        &self,
        hash: u64,
        descriptor: &Descriptor<H>,
    ) -> Lookup<'_, T> {
        let found = Index::find(self.buckets.as_ref(), self.index.place(hash), |index| {
            self.hit(index, descriptor).or_else(|| {
                let record = &at(self.slots.as_ref(), index)?.record;
                let fields = Descriptor::from_checked(record).differences(descriptor);
                (!fields.contains(FieldSet::IDENTITY)).then_some(Lookup::Conflict(fields))
            })
        });
        found.unwrap_or(Lookup::Vacant)
    }

    /// The value of a slot that agrees with the descriptor.
    #[inline]
    fn hit<H: Holds<RawDescriptor>>(&self, index: u32, descriptor: &Descriptor<H>) -> Option<Lookup<'_, T>> {
        let slot = at(self.slots.as_ref(), index)?;
        match &slot.value {
            Some(value) if agree(&slot.record, descriptor.raw()) => {
                Some(Lookup::Hit(ImportKey { slot: index, stamp: slot.stamp }, value))
            }
            Some(_) | None => None,
        }
    }

    /// Looks for an identity alone.
    #[must_use]
    pub fn find_identity(&self, identity: Identity) -> Option<ImportKey> {
        Index::find(self.buckets.as_ref(), self.place(identity), |index| {
            let slot = at(self.slots.as_ref(), index)?;
            slot.value.as_ref()?;
            let is_it = Descriptor::from_checked(&slot.record).identity() == identity;
            is_it.then_some(ImportKey { slot: index, stamp: slot.stamp })
        })
    }

    /// Inserts what was mapped for an identity that is not there. It is unused until it is pinned.
    ///
    /// # Errors
    /// [`InsertRefused`] with the value. When the table is full, [`ImportTable::evict`] may make room.
    pub fn insert<H: Holds<RawDescriptor>>(
        &mut self,
        descriptor: &Descriptor<H>,
        value: T,
    ) -> Result<ImportKey, InsertRefused<T>> {
        match self.take_slot(descriptor) {
            Ok((key, slot)) => {
                slot.value = Some(value);
                Ok(key)
            }
            Err(refusal) => Err(InsertRefused { value, refusal }),
        }
    }

    /// The value, as long as it is in the table.
    #[must_use]
    #[inline]
    pub fn get(&self, key: ImportKey) -> Option<&T> {
        self.slot(key)?.value.as_ref()
    }

    /// The value, to change it.
    #[must_use]
    pub fn get_mut(&mut self, key: ImportKey) -> Option<&mut T> {
        self.slot_mut(key)?.value.as_mut()
    }

    /// The descriptor that it first came with.
    #[must_use]
    pub fn descriptor(&self, key: ImportKey) -> Option<Descriptor<&RawDescriptor>> {
        self.slot(key).map(|slot| Descriptor::from_checked(&slot.record))
    }

    /// One more view of it is alive. Answers how many.
    ///
    /// # Errors
    /// [`PinError::NotImported`]; [`PinError::TooManyPins`].
    pub fn pin(&mut self, key: ImportKey) -> Result<u32, PinError> {
        let slot = self.slot_mut(key).ok_or(PinError::NotImported)?;
        let identity = Descriptor::from_checked(&slot.record).identity();
        slot.pins = slot.pins.checked_add(1).ok_or(PinError::TooManyPins { identity })?;
        let pins = slot.pins;
        if pins == 1 {
            self.unused.take_out(self.slots.as_mut(), key.slot);
        }
        Ok(pins)
    }

    /// A view of it is gone. Answers how many are left; with the last one it becomes the most recently used.
    ///
    /// # Errors
    /// [`PinError::NotImported`]; [`PinError::NotPinned`].
    pub fn unpin(&mut self, key: ImportKey) -> Result<u32, PinError> {
        let slot = self.slot_mut(key).ok_or(PinError::NotImported)?;
        let identity = Descriptor::from_checked(&slot.record).identity();
        slot.pins = slot.pins.checked_sub(1).ok_or(PinError::NotPinned { identity })?;
        let pins = slot.pins;
        if pins == 0 {
            self.unused.push_last(self.slots.as_mut(), key.slot);
        }
        Ok(pins)
    }

    /// It was used without a pin: of those that may be evicted it is the last now.
    pub fn touch(&mut self, key: ImportKey) {
        if self.slot(key).is_some_and(|slot| slot.pins == 0) {
            self.unused.take_out(self.slots.as_mut(), key.slot);
            self.unused.push_last(self.slots.as_mut(), key.slot);
        }
    }

    /// Takes out what was imported under an identity; `None` when nothing was.
    ///
    /// # Errors
    /// [`ViewsAlive`] while it is pinned.
    pub fn remove(&mut self, identity: Identity) -> Result<Option<T>, ViewsAlive> {
        let Some(key) = self.find_identity(identity) else { return Ok(None) };
        match self.slot(key) {
            Some(slot) if slot.pins != 0 => Err(ViewsAlive { identity, pins: slot.pins }),
            Some(_) | None => Ok(self.take_out(key.slot).map(|(_, value)| value)),
        }
    }

    /// Takes out what was unused the longest; `None` when all is pinned, or nothing is there.
    pub fn evict(&mut self) -> Option<(Descriptor, T)> {
        self.take_out(self.unused.first()?)
    }

    /// Takes out everything that is not pinned and for which `attempt` succeeds, and keeps the rest. Everything is tried.
    ///
    /// # Errors
    /// The first reason for which something was kept.
    pub fn close<E>(
        &mut self,
        mut attempt: impl FnMut(Descriptor<&RawDescriptor>, &mut T) -> Result<(), E>,
    ) -> Result<(), CloseError<E>> {
        let mut answer = Ok(());
        for index in 0..self.fresh {
            let Some(slot) = at_mut(self.slots.as_mut(), index) else { break };
            let Some(value) = &mut slot.value else { continue };
            let descriptor = Descriptor::from_checked(&slot.record);
            let identity = descriptor.identity();
            let tried = if slot.pins == 0 {
                attempt(descriptor, value).map_err(|error| CloseError::Failed { identity, error })
            } else {
                Err(CloseError::ViewsAlive(ViewsAlive { identity, pins: slot.pins }))
            };
            match tried {
                Ok(()) => drop(self.take_out(index)),
                Err(error) => answer = answer.and(Err(error)),
            }
        }
        answer
    }

    /// All imports with how often each is pinned, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Descriptor<&RawDescriptor>, &T, u32)> {
        self.slots.as_ref().iter().filter_map(|slot| {
            let value = slot.value.as_ref()?;
            Some((Descriptor::from_checked(&slot.record), value, slot.pins))
        })
    }

    fn place(&self, identity: Identity) -> Place {
        self.index.place(self.hash.identity(identity))
    }

    #[inline]
    fn slot(&self, key: ImportKey) -> Option<&ImportSlot<T>> {
        let slot = at(self.slots.as_ref(), key.slot)?;
        (slot.stamp == key.stamp && slot.value.is_some()).then_some(slot)
    }

    #[inline]
    fn slot_mut(&mut self, key: ImportKey) -> Option<&mut ImportSlot<T>> {
        let slot = at_mut(self.slots.as_mut(), key.slot)?;
        (slot.stamp == key.stamp && slot.value.is_some()).then_some(slot)
    }

    /// Enters a descriptor whose identity is not there; its value is still to come.
    fn take_slot<H: Holds<RawDescriptor>>(
        &mut self,
        descriptor: &Descriptor<H>,
    ) -> Result<(ImportKey, &mut ImportSlot<T>), InsertRefusal> {
        let identity = descriptor.identity();
        match self.find(descriptor) {
            Lookup::Hit(..) => return Err(InsertRefusal::AlreadyImported { identity }),
            Lookup::Conflict(fields) => return Err(InsertRefusal::Conflict { identity, fields }),
            Lookup::Vacant => {}
        }
        let full = InsertRefusal::Full { capacity: self.capacity() };
        let fresh = (self.fresh < self.capacity()).then_some(self.fresh);
        let index = self.free.first().or(fresh).ok_or(full)?;
        let (hash, slots) = (&self.hash, self.slots.as_mut());
        let place = self.index.place(hash.identity(identity));
        let place_of = |index| {
            let identity = at(slots, index).map(|slot| Descriptor::from_checked(&slot.record).identity());
            identity.map_or(place, |identity| self.index.place(hash.identity(identity)))
        };
        if !Index::insert(self.buckets.as_mut(), place, index, place_of) {
            return Err(InsertRefusal::Crowded { identity });
        }
        if self.free.first().is_some() {
            self.free.take_out(slots, index);
        } else {
            self.fresh = self.fresh.saturating_add(1);
        }
        self.unused.push_last(slots, index);
        let slot = at_mut(slots, index).ok_or(full)?;
        slot.record = *descriptor.to_owned().raw();
        slot.pins = 0;
        Ok((ImportKey { slot: index, stamp: slot.stamp }, slot))
    }

    /// Takes out a slot's value, which nobody has pinned.
    fn take_out(&mut self, index: u32) -> Option<(Descriptor, T)> {
        let slot = at_mut(self.slots.as_mut(), index)?;
        let value = slot.value.take()?;
        // After 2^32 values in one slot an old key would be taken for a new one.
        slot.stamp = slot.stamp.wrapping_add(1);
        let descriptor = Descriptor::from_checked(&slot.record).to_owned();
        let place = self.place(descriptor.identity());
        Index::remove(self.buckets.as_mut(), place, index);
        self.unused.take_out(self.slots.as_mut(), index);
        self.free.push_last(self.slots.as_mut(), index);
        Some((descriptor, value))
    }
}
