//! What one endpoint incarnation owns: the one allocator of its identities, and a value for each that is live.
//!
//! An identity's `buffer_id` is its slot's number, from 1, so that a lookup is one index and a comparison of 20 bytes. A slot that is
//! used again has one generation more; one whose generation is at its last value is retired for ever. So no identity is
//! ever given out twice.
//!
//! A value is **live** from its insertion on. Tasks that were submitted and have not finished *hold* it. Its release is refused as
//! busy while it is held, and changes nothing then; otherwise it is **closing**, in that same step: it can be looked at, so
//! that a release which failed half way can be tried again, but not held, and nothing new may come from it. When its
//! release is finished the identity is stale.

mod allocator;
mod error;
mod slot;
#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]
mod tests;

use core::marker::PhantomData;
use core::num::NonZeroU32;

use crate::wire::identity::{Identity, OwnerInstanceId};
use allocator::Allocator;
use slot::{at, at_mut};

pub use error::{InsertError, LookupError, OwnerError, OwnerTableFull};
pub use slot::{Owned, OwnerSlot};

/// The identities of one owner and their values, in slots that are an array, a lent slice, or a box of one.
#[derive(Debug)]
pub struct OwnerTable<T, S> {
    owner_instance_id: OwnerInstanceId,
    allocator: Allocator,
    slots: S,
    value: PhantomData<T>,
}

impl<T, S: AsRef<[OwnerSlot<T>]> + AsMut<[OwnerSlot<T>]>> OwnerTable<T, S> {
    /// A table without a value, for an incarnation that has given nothing out. Values that the slots still hold are dropped.
    /// At most 2^32 - 2 slots are used.
    #[must_use]
    pub fn new(owner_instance_id: OwnerInstanceId, slots: S) -> Self {
        Self::starting_after(owner_instance_id, slots, 0)
    }

    /// The same, as if every slot had been used up to that generation: for tests that want to see the last generation, which
    /// nobody reaches by waiting. One generation is always left.
    #[must_use]
    pub fn starting_after(owner_instance_id: OwnerInstanceId, mut slots: S, generation: u32) -> Self {
        let generation = generation.min(u32::MAX.saturating_sub(1));
        for slot in slots.as_mut() {
            *slot = OwnerSlot::used_up_to(generation);
        }
        let allocator = Allocator::new(slots.as_ref().len());
        Self { owner_instance_id, allocator, slots, value: PhantomData }
    }

    /// Whose identities they are.
    #[must_use]
    pub const fn owner_instance_id(&self) -> OwnerInstanceId {
        self.owner_instance_id
    }

    /// Slots, those retired for ever included.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.allocator.capacity()
    }

    /// Values, those whose release has begun included.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.allocator.occupied()
    }

    /// There is no value.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives out an identity for the value.
    ///
    /// # Errors
    /// [`OwnerTableFull`] with the value.
    pub fn insert(&mut self, value: T) -> Result<Identity, OwnerTableFull<T>> {
        match self.allocator.next_single() {
            Some(index) => Ok(self.occupy_single(index, value)),
            None => Err(OwnerTableFull { value, capacity: self.capacity() }),
        }
    }

    /// Gives out two identities in one step, the second's `buffer_id` one more than the first's: PAYLOAD and COUNTER of a
    /// region. Slots pair up as 1 and 2, 3 and 4 and so on: where none of those pairs is free the answer is full, even if other
    /// slots are.
    ///
    /// # Errors
    /// [`OwnerTableFull`] with both values.
    pub fn insert_pair(&mut self, values: [T; 2]) -> Result<[Identity; 2], OwnerTableFull<[T; 2]>> {
        match self.allocator.next_pair() {
            Some(index) => Ok(self.occupy_pair(index, values)),
            None => Err(OwnerTableFull { value: values, capacity: self.capacity() }),
        }
    }

    /// Makes a value that has to know its identity. When that fails nothing has happened, and the identity is still to be
    /// given out.
    ///
    /// # Errors
    /// [`InsertError::Full`], before `make` is called; [`InsertError::Make`] with its error.
    pub fn insert_with<E>(
        &mut self,
        make: impl FnOnce(Identity) -> Result<T, E>,
    ) -> Result<Identity, InsertError<E>> {
        let full = InsertError::Full { capacity: self.capacity() };
        let index = self.allocator.next_single().ok_or(full)?;
        let value = make(self.next_identity(index)).map_err(InsertError::Make)?;
        Ok(self.occupy_single(index, value))
    }

    /// Makes two values that have to know their identities, which follow one another as those of [`OwnerTable::insert_pair`].
    ///
    /// # Errors
    /// [`InsertError::Full`], before `make` is called; [`InsertError::Make`] with its error.
    pub fn insert_pair_with<E>(
        &mut self,
        make: impl FnOnce([Identity; 2]) -> Result<[T; 2], E>,
    ) -> Result<[Identity; 2], InsertError<E>> {
        let full = InsertError::Full { capacity: self.capacity() };
        let index = self.allocator.next_pair().ok_or(full)?;
        let identities = [index, index.saturating_add(1)].map(|index| self.next_identity(index));
        let values = make(identities).map_err(InsertError::Make)?;
        Ok(self.occupy_pair(index, values))
    }

    /// What is known of an identity: its value, live or closing.
    ///
    /// # Errors
    /// [`LookupError`] tells another owner's, what never existed, and what is stale apart.
    #[inline]
    pub fn get(&self, identity: Identity) -> Result<&Owned<T>, LookupError> {
        let asked = self.owner_instance_id;
        let Some(slot) = at(self.slots.as_ref(), index_of(identity)) else {
            return Err(why_absent(asked, identity, 0));
        };
        let latest = slot.generation;
        let is_named = identity.owner_instance_id() == asked && identity.generation().get() == latest;
        match &slot.content {
            Some(owned) if is_named => Ok(owned),
            Some(_) | None => Err(why_absent(asked, identity, latest)),
        }
    }

    /// The value, to change it; live or closing.
    ///
    /// # Errors
    /// As [`OwnerTable::get`].
    #[inline]
    pub fn get_mut(&mut self, identity: Identity) -> Result<&mut T, LookupError> {
        self.owned_mut(identity).map(|owned| &mut owned.value)
    }

    /// The value, for making a tensor or a descriptor of it: live only.
    ///
    /// # Errors
    /// [`OwnerError::Lookup`]; [`OwnerError::Closing`] once its release has begun.
    #[inline]
    pub fn live(&self, identity: Identity) -> Result<&T, OwnerError> {
        let owned = self.get(identity)?;
        if owned.is_closing { Err(OwnerError::Closing { identity }) } else { Ok(&owned.value) }
    }

    /// A submitted task names it once more. Answers how often it is named now.
    ///
    /// # Errors
    /// [`OwnerError::Lookup`]; [`OwnerError::Closing`] once its release has begun; [`OwnerError::TooManyHolds`].
    pub fn hold(&mut self, identity: Identity) -> Result<u32, OwnerError> {
        let owned = self.owned_mut(identity)?;
        if owned.is_closing {
            return Err(OwnerError::Closing { identity });
        }
        owned.holds = owned.holds.checked_add(1).ok_or(OwnerError::TooManyHolds { identity })?;
        Ok(owned.holds)
    }

    /// A task that named it has finished. Answers how often it is named still: at 0 a release that waits for that can go on.
    ///
    /// # Errors
    /// [`OwnerError::Lookup`]; [`OwnerError::NotHeld`].
    pub fn unhold(&mut self, identity: Identity) -> Result<u32, OwnerError> {
        let owned = self.owned_mut(identity)?;
        owned.holds = owned.holds.checked_sub(1).ok_or(OwnerError::NotHeld { identity })?;
        Ok(owned.holds)
    }

    /// Begins the release, or goes on with one that has begun: from now on nothing new comes from it and no task can hold it.
    /// Answers the value, so that what it stands for can be taken down.
    ///
    /// # Errors
    /// [`OwnerError::Lookup`]; [`OwnerError::Busy`] while tasks hold it, and then nothing has changed.
    pub fn begin_release(&mut self, identity: Identity) -> Result<&mut T, OwnerError> {
        let owned = self.owned_mut(identity)?;
        if owned.holds != 0 {
            return Err(OwnerError::Busy { identity, holds: owned.holds });
        }
        owned.is_closing = true;
        Ok(&mut owned.value)
    }

    /// Begins a release that waits: it is closing at once, although tasks may hold it. Answers how often they do; at 0 the
    /// release can go on.
    ///
    /// # Errors
    /// [`OwnerError::Lookup`].
    pub fn begin_release_when_idle(&mut self, identity: Identity) -> Result<u32, OwnerError> {
        let owned = self.owned_mut(identity)?;
        owned.is_closing = true;
        Ok(owned.holds)
    }

    /// Finishes a release: the value comes out, the identity is stale from now on, and its slot is free for the next
    /// generation, if there is one.
    ///
    /// # Errors
    /// [`OwnerError::Lookup`]; [`OwnerError::NotClosing`]; [`OwnerError::Busy`].
    pub fn finish_release(&mut self, identity: Identity) -> Result<T, OwnerError> {
        let owned = self.get(identity)?;
        if !owned.is_closing {
            return Err(OwnerError::NotClosing { identity });
        }
        if owned.holds != 0 {
            return Err(OwnerError::Busy { identity, holds: owned.holds });
        }
        let index = index_of(identity);
        let slots = self.slots.as_mut();
        let owned = at_mut(slots, index).and_then(|slot| slot.content.take());
        let owned = owned.ok_or(OwnerError::NotClosing { identity })?;
        self.allocator.give_back(slots, index);
        Ok(owned.value)
    }

    /// All values, live and closing, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (Identity, &Owned<T>)> {
        let owner = self.owner_instance_id;
        (1_u64..).zip(self.slots.as_ref()).filter_map(move |(buffer_id, slot)| {
            let generation = NonZeroU32::new(slot.generation)?;
            Some((Identity::new(owner, buffer_id, generation), slot.content.as_ref()?))
        })
    }

    #[inline]
    fn owned_mut(&mut self, identity: Identity) -> Result<&mut Owned<T>, LookupError> {
        let asked = self.owner_instance_id;
        let Some(slot) = at_mut(self.slots.as_mut(), index_of(identity)) else {
            return Err(why_absent(asked, identity, 0));
        };
        let latest = slot.generation;
        let is_named = identity.owner_instance_id() == asked && identity.generation().get() == latest;
        match &mut slot.content {
            Some(owned) if is_named => Ok(owned),
            Some(_) | None => Err(why_absent(asked, identity, latest)),
        }
    }

    /// The identity that the next use of a free slot has.
    fn next_identity(&self, index: u32) -> Identity {
        let last = at(self.slots.as_ref(), index).map_or(0, |slot| slot.generation);
        // A slot whose last generation is spent is never free, so that this does not saturate.
        let generation = NonZeroU32::MIN.saturating_add(last);
        Identity::new(self.owner_instance_id, u64::from(index).saturating_add(1), generation)
    }

    fn occupy_single(&mut self, index: u32, value: T) -> Identity {
        self.allocator.take_single(self.slots.as_mut(), index);
        self.occupy(index, value)
    }

    fn occupy_pair(&mut self, index: u32, [first, second]: [T; 2]) -> [Identity; 2] {
        self.allocator.take_pair(self.slots.as_mut(), index);
        [self.occupy(index, first), self.occupy(index.saturating_add(1), second)]
    }

    fn occupy(&mut self, index: u32, value: T) -> Identity {
        let identity = self.next_identity(index);
        if let Some(slot) = at_mut(self.slots.as_mut(), index) {
            slot.generation = identity.generation().get();
            slot.content = Some(Owned { value, holds: 0, is_closing: false });
        }
        identity
    }
}

/// The slot of a buffer id; of an id that no table has, a number that no slot has.
#[inline]
fn index_of(identity: Identity) -> u32 {
    u32::try_from(identity.buffer_id().wrapping_sub(1)).unwrap_or(u32::MAX)
}

/// Why an identity has no value in the table of `asked`, where its id was given out up to generation `latest`.
#[cold]
fn why_absent(asked: OwnerInstanceId, identity: Identity, latest: u32) -> LookupError {
    let (buffer_id, generation) = (identity.buffer_id(), identity.generation());
    let found = identity.owner_instance_id();
    if found != asked {
        return LookupError::OtherOwner { found, asked };
    }
    match NonZeroU32::new(latest) {
        Some(latest) if generation <= latest => LookupError::Stale { buffer_id, generation, latest },
        Some(_) | None => LookupError::NeverExisted { buffer_id, generation },
    }
}
