//! Handles: what C holds of a thing that was made here. A handle is a number, looked up in a table each time, and never an address.
//!
//! From the high end: 8 bits for the kind, 24 for the slot of that kind's table, 32 for a nonce. A slot's first nonce is random, and
//! each later one is one more, so that what was released is told from what never was, and a number taken from nowhere hits nothing.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bufabi_core::Code;

use super::boundary::noted;
use crate::sys::random::random_bytes;

/// What a handle may belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// A task's arguments.
    TaskArgs = 1,
    /// A tracker of dependencies.
    Tracker = 2,
    /// An endpoint incarnation.
    Endpoint = 3,
    /// What an unfinished task holds.
    Hold = 4,
    /// A buffer, made or wrapped.
    Buffer = 5,
    /// A use of a mapping.
    Mapping = 6,
    /// A consumer.
    Consumer = 7,
    /// A driver of device memory.
    Vmm = 8,
    /// A heap that workers inherit.
    Heap = 9,
    /// Memory that workers inherit.
    Inherited = 10,
    /// Workers, and the tasks on them.
    Orchestrator = 11,
    /// A region.
    Region = 12,
    /// An end of a message queue.
    Queue = 13,
    /// Windows of several chips.
    Domain = 14,
}

impl Kind {
    const ALL: [Self; 14] = [
        Self::TaskArgs,
        Self::Tracker,
        Self::Endpoint,
        Self::Hold,
        Self::Buffer,
        Self::Mapping,
        Self::Consumer,
        Self::Vmm,
        Self::Heap,
        Self::Inherited,
        Self::Orchestrator,
        Self::Region,
        Self::Queue,
        Self::Domain,
    ];

    #[expect(clippy::as_conversions, reason = "the number is what the value is made of")]
    const fn number(self) -> u8 {
        self as u8
    }
}

/// All things of one kind that C has handles to.
pub(super) struct Table<T> {
    kind: Kind,
    slots: RwLock<Slots<T>>,
}

struct Slots<T> {
    slots: Vec<Slot<T>>,
    /// Slots without a thing.
    free: Vec<u32>,
}

struct Slot<T> {
    first_nonce: u32,
    nonce: u32,
    thing: Option<Arc<T>>,
}

/// Slots of one table.
const SLOTS: usize = 1 << 24;

impl<T> Table<T> {
    pub(super) const fn new(kind: Kind) -> Self {
        Self { kind, slots: RwLock::new(Slots { slots: Vec::new(), free: Vec::new() }) }
    }

    /// Enters a thing and gives its handle.
    pub(super) fn insert(&self, thing: T) -> Result<u64, Code> {
        self.insert_shared(Arc::new(thing))
    }

    /// The same for a thing that others have too.
    pub(super) fn insert_shared(&self, thing: Arc<T>) -> Result<u64, Code> {
        let mut slots = self.write();
        let number = match slots.free.pop() {
            Some(number) => number,
            None => {
                let count = slots.slots.len();
                let number = u32::try_from(count).ok().filter(|_| count < SLOTS);
                let number = number.ok_or(Code::HandlesFull)?;
                let nonce = random_bytes().map_err(|error| noted(error.code(), &error))?;
                let nonce = u32::from_le_bytes(nonce);
                slots.slots.push(Slot { first_nonce: nonce, nonce, thing: None });
                number
            }
        };
        let slot = slots.slots.get_mut(position(number)).ok_or(Code::HandlesFull)?;
        slot.thing = Some(thing);
        Ok(self.handle(number, slot.nonce))
    }

    /// The thing of a handle, which stays as long as the answer, whoever releases it meanwhile.
    #[inline]
    pub(super) fn get(&self, handle: u64) -> Result<Arc<T>, Code> {
        let (number, nonce) = self.parts(handle)?;
        let slots = self.read();
        let slot = slots.slots.get(position(number)).ok_or(Code::HandleUnknown)?;
        match &slot.thing {
            Some(thing) if slot.nonce == nonce => Ok(Arc::clone(thing)),
            Some(_) | None => Err(slot.absent(nonce)),
        }
    }

    /// The thing of a handle, which is none from now on.
    pub(super) fn remove(&self, handle: u64) -> Result<Arc<T>, Code> {
        let (number, nonce) = self.parts(handle)?;
        let mut slots = self.write();
        let slot = slots.slots.get_mut(position(number)).ok_or(Code::HandleUnknown)?;
        if slot.nonce != nonce {
            return Err(slot.absent(nonce));
        }
        let thing = slot.thing.take().ok_or(Code::HandleUnknown)?;
        slot.nonce = nonce.wrapping_add(1);
        // A slot that has had every nonce is never used again.
        if slot.nonce != slot.first_nonce {
            slots.free.push(number);
        }
        Ok(thing)
    }

    /// Slot and nonce of a handle of this kind.
    #[inline]
    fn parts(&self, handle: u64) -> Result<(u32, u32), Code> {
        let [kind, slot @ .., a, b, c, d] = handle.to_be_bytes();
        if kind != self.kind.number() {
            let other = Kind::ALL.iter().any(|other| other.number() == kind);
            return Err(if other { Code::HandleKind } else { Code::HandleUnknown });
        }
        let [high, middle, low] = slot;
        Ok((u32::from_be_bytes([0, high, middle, low]), u32::from_be_bytes([a, b, c, d])))
    }

    fn handle(&self, slot: u32, nonce: u32) -> u64 {
        let ([_, high, middle, low], [a, b, c, d]) = (slot.to_be_bytes(), nonce.to_be_bytes());
        u64::from_be_bytes([self.kind.number(), high, middle, low, a, b, c, d])
    }

    // Every step on the slots is whole, so a panic elsewhere leaves them as they should be.

    #[inline]
    fn read(&self) -> RwLockReadGuard<'_, Slots<T>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Slots<T>> {
        self.slots.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Slot<T> {
    /// Why no thing has that nonce.
    #[cold]
    fn absent(&self, nonce: u32) -> Code {
        let had = |nonce: u32| nonce.wrapping_sub(self.first_nonce);
        if had(nonce) < had(self.nonce) { Code::HandleReleased } else { Code::HandleUnknown }
    }
}

fn position(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table<u32> {
        Table::new(Kind::Tracker)
    }

    #[test]
    fn a_handle_is_good_from_its_making_to_its_release_and_never_again() {
        let table = table();
        let handles: Vec<u64> = (0..5).map(|number| table.insert(number).unwrap()).collect();
        for (number, &handle) in (0..5).zip(&handles) {
            assert_eq!(table.get(handle).as_deref(), Ok(&number));
        }
        let kept = table.get(handles[2]).unwrap();
        assert_eq!(table.remove(handles[2]).as_deref(), Ok(&2));
        assert_eq!(*kept, 2, "who uses it keeps it");
        for _ in 0..100 {
            let next = table.insert(7).unwrap();
            assert_eq!(table.get(handles[2]).err(), Some(Code::HandleReleased));
            assert_eq!(table.remove(handles[2]).err(), Some(Code::HandleReleased));
            assert_eq!(table.remove(next).as_deref(), Ok(&7));
        }
        assert_eq!(table.get(handles[3]).as_deref(), Ok(&3));
    }

    #[test]
    fn a_number_that_is_no_handle_says_in_what_way() {
        let table = table();
        let handle = table.insert(1).unwrap();
        assert_eq!(table.get(0).err(), Some(Code::HandleUnknown));
        assert_eq!(table.get(u64::MAX).err(), Some(Code::HandleUnknown));
        // Every bit of a handle matters.
        for bit in 0..64 {
            let code = table.get(handle ^ (1 << bit)).err().unwrap();
            let kind = u8::try_from((handle ^ (1 << bit)) >> 56).unwrap();
            let other_kind = bit >= 56 && Kind::ALL.iter().any(|other| other.number() == kind);
            assert_eq!(code, if other_kind { Code::HandleKind } else { Code::HandleUnknown }, "bit {bit}");
        }
        let other = Table::new(Kind::TaskArgs).insert(()).unwrap();
        assert_eq!(table.get(other).err(), Some(Code::HandleKind));
        assert_eq!(table.remove(other).err(), Some(Code::HandleKind));
    }

    #[test]
    fn a_slot_that_has_had_every_nonce_is_retired() {
        let table = table();
        let first = table.insert(1).unwrap();
        let nonce = {
            let mut slots = table.write();
            let slot = &mut slots.slots[0];
            slot.nonce = slot.first_nonce.wrapping_sub(1);
            slot.nonce
        };
        let last = table.handle(0, nonce);
        assert_eq!(table.get(first).err(), Some(Code::HandleReleased));
        assert_eq!(table.remove(last).as_deref(), Ok(&1));
        assert_eq!(table.insert(2).unwrap() >> 32 & 0xff_ffff, 1, "another slot");
        assert!(table.get(last).is_err() && table.get(first).is_err());
    }

    #[test]
    fn threads_that_use_and_release_see_the_thing_or_its_end() {
        let table = &table();
        let handle = table.insert(41).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(move || {
                    while let Ok(thing) = table.get(handle) {
                        assert_eq!(*thing, 41);
                    }
                    assert_eq!(table.get(handle).err(), Some(Code::HandleReleased));
                });
            }
            scope.spawn(move || assert_eq!(table.remove(handle).as_deref(), Ok(&41)));
        });
    }
}
