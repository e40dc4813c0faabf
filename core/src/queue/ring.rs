//! One direction of a queue: its slots, its arena, its two counts, and how a count of 64 bits is told in 32.

use core::marker::PhantomData;

use zerocopy::IntoBytes;

use super::layout::QueueLayout;
use super::poison::{Poison, Setback};
use super::side::Direction;
use super::slot::RawSlot;
use crate::region::{Place, RegionAccess};

/// Where one direction lies.
pub(super) struct Ring<D> {
    /// Its first slot in PAYLOAD.
    slots: u64,
    /// Slots: a power of two, at most 2^30.
    pub(super) depth: u32,
    /// Where the bytes of its messages lie.
    pub(super) arena: Place,
    direction: PhantomData<D>,
}

impl<D: Direction> Ring<D> {
    pub(super) fn new(layout: QueueLayout) -> Self {
        let (slots, arena) = (D::slots(layout), D::arena(layout));
        Self { slots, depth: layout.depth(), arena, direction: PhantomData }
    }

    /// Which slot message `index` takes.
    #[inline]
    pub(super) const fn slot_number(&self, index: u64) -> u32 {
        low(index) & self.depth.wrapping_sub(1)
    }

    /// Where the slot of message `index` lies in PAYLOAD.
    #[inline]
    pub(super) fn slot(&self, index: u64) -> Place {
        // A slot's number is below 2^30, so this stays below 2^37.
        let skipped = u64::from(self.slot_number(index)).wrapping_mul(SLOT_BYTES);
        Place { offset: self.slots.wrapping_add(skipped), nbytes: SLOT_BYTES }
    }

    /// Where the arena's byte lies that comes `distance` bytes behind another one of it, if that is within the arena.
    #[inline]
    pub(super) fn behind(&self, offset: u64, distance: u64) -> Option<u64> {
        let behind = offset.saturating_add(distance);
        (behind.saturating_sub(self.arena.offset) < self.arena.nbytes).then_some(behind)
    }

    /// Reads the slot of message `index`, once. Into its place: a result with a slot in it is moved in pieces that no longer are its
    /// words, and whoever then reads words waits for them.
    #[inline]
    pub(super) fn read_slot(
        &self,
        access: &impl RegionAccess,
        index: u64,
        slot: &mut RawSlot,
    ) -> Result<(), Setback> {
        let place = self.slot(index);
        access.observe(place)?;
        access.read(place.offset, slot.as_mut_bytes())?;
        Ok(())
    }

    /// Writes the slot of message `index`, its `seq` last, and publishes it.
    #[inline]
    pub(super) fn write_slot(
        &self,
        access: &impl RegionAccess,
        index: u64,
        slot: &RawSlot,
    ) -> Result<(), Setback> {
        let place = self.slot(index);
        let [seq, rest @ ..]: &[[u8; 8]; 4] = zerocopy::transmute_ref!(slot);
        access.write(place.offset.wrapping_add(8), rest.as_flattened())?;
        access.write(place.offset, seq)?;
        access.publish(place)?;
        Ok(())
    }
}

/// Stores one of this side's counts: from then on the other side, whose flag is at `peer_sleeps`, may rely on it.
#[inline]
pub(super) fn tell(
    access: &impl RegionAccess,
    counter: u64,
    count: u64,
    peer_sleeps: u64,
) -> Result<(), Setback> {
    access.store(counter, low(count)).map_err(|error| Poison::Store { counter, error })?;
    access.wake(counter, peer_sleeps);
    Ok(())
}

/// Looks at the other side's count: what was `before`, at most `at_most` on.
#[inline]
pub(super) fn look(
    access: &impl RegionAccess,
    counter: u64,
    before: u64,
    at_most: u64,
) -> Result<u64, Setback> {
    let found = access.load(counter)?;
    // Counts are told by their low halves. A count that went back shows as one that went on by nearly 2^32, while the most
    // that it can go on is the depth, at most 2^30.
    let progress = u64::from(found.wrapping_sub(low(before)));
    if progress > at_most {
        let at_most = low(at_most);
        return Err(Poison::Count { counter, found, before: low(before), at_most }.into());
    }
    Ok(before.wrapping_add(progress))
}

const SLOT_BYTES: u64 = 32;

/// How many messages ahead of the one at hand their memory is fetched from where the other side left it.
pub(super) const AHEAD: u64 = 8;
/// And how many bytes of each of those messages count at most.
const AHEAD_BYTES: u64 = 64;

/// How far behind a message the bytes are taken to lie of the one that comes [`AHEAD`] later: as far as if all were alike.
#[inline]
pub(super) fn ahead(nbytes: u64) -> u64 {
    // At most 512.
    nbytes.min(AHEAD_BYTES).wrapping_mul(AHEAD)
}

/// The half of a count that stands in memory.
#[inline]
#[expect(clippy::as_conversions, reason = "cut out on purpose")]
pub(super) const fn low(count: u64) -> u32 {
    count as u32
}
