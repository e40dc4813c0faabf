//! One direction of a queue: its slots, its arena, its two counts, and how a count of 64 bits is told in 32.

use zerocopy::FromZeros;

use super::layout::{QueueLayout, counters};
use super::poison::{Poison, Setback};
use super::slot::RawSlot;
use crate::region::{Place, RegionAccess};

/// Where one direction lies.
#[derive(Clone, Copy)]
pub(super) struct Ring {
    /// Its first slot in PAYLOAD.
    slots: u64,
    /// Slots: a power of two, at most 2^30.
    pub(super) depth: u32,
    /// Where the bytes of its messages lie.
    pub(super) arena: Place,
    /// The counter of messages sent.
    pub(super) tail: u64,
    /// The counter of messages given back.
    pub(super) head: u64,
    /// The direction in which STOP may come.
    pub(super) is_input: bool,
    /// The byte that says that the other side sleeps.
    pub(super) peer_sleeps: u64,
}

impl Ring {
    pub(super) const fn input(layout: QueueLayout, peer_sleeps: u64) -> Self {
        Self {
            slots: layout.input_ring(),
            depth: layout.depth(),
            arena: layout.input_arena(),
            tail: counters::INPUT_TAIL,
            head: counters::INPUT_HEAD,
            is_input: true,
            peer_sleeps,
        }
    }

    pub(super) const fn output(layout: QueueLayout, peer_sleeps: u64) -> Self {
        Self {
            slots: layout.output_ring(),
            depth: layout.depth(),
            arena: layout.output_arena(),
            tail: counters::OUTPUT_TAIL,
            head: counters::OUTPUT_HEAD,
            is_input: false,
            peer_sleeps,
        }
    }

    /// Which slot message `index` takes.
    pub(super) fn slot_number(&self, index: u64) -> u32 {
        low(index) & self.depth.wrapping_sub(1)
    }

    /// Where the slot of message `index` lies in PAYLOAD.
    fn slot(&self, index: u64) -> Place {
        // A slot's number is below 2^30, so this stays below 2^37.
        let skipped = u64::from(self.slot_number(index)).wrapping_mul(SLOT_BYTES);
        Place { offset: self.slots.wrapping_add(skipped), nbytes: SLOT_BYTES }
    }

    /// Reads the slot of message `index`, once.
    #[inline]
    pub(super) fn read_slot(&self, access: &impl RegionAccess, index: u64) -> Result<RawSlot, Setback> {
        let place = self.slot(index);
        access.observe(place)?;
        let mut slot = RawSlot::new_zeroed();
        access.read(place.offset, zerocopy::IntoBytes::as_mut_bytes(&mut slot))?;
        Ok(slot)
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

    /// Stores one of this side's counts: from then on the other side may rely on it.
    #[inline]
    pub(super) fn store(&self, access: &impl RegionAccess, counter: u64, count: u64) -> Result<(), Setback> {
        access.store(counter, low(count)).map_err(|error| Poison::Store { counter, error })?;
        access.wake(counter, self.peer_sleeps);
        Ok(())
    }

    /// Looks at the other side's count: what was `before`, at most `at_most` on.
    #[inline]
    pub(super) fn look(
        &self,
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
}

const SLOT_BYTES: u64 = 32;

/// The half of a count that stands in memory.
#[inline]
#[expect(clippy::as_conversions, reason = "cut out on purpose")]
pub(super) const fn low(count: u64) -> u32 {
    count as u32
}
