//! The sending half of an end: it fills slots and arena of one direction, and learns from the other side's count what is free.

use zerocopy::little_endian::U64;

use super::arena::Arena;
use super::error::Full;
use super::poison::Setback;
use super::ring::{AHEAD, Ring, ahead, look, tell};
use super::side::Direction;
use super::slot::{Opcode, RawSlot};
use crate::region::{Place, RegionAccess};

/// The producer of one direction.
///
/// Its counts, and where every message in flight lies, are its own: nothing of it is read back from shared memory.
pub(super) struct Producer<D, M> {
    ring: Ring<D>,
    arena: Arena<M>,
    /// The next message's index. Those from the told tail up to it are filled in, and the other side does not know of them yet;
    /// between two operations of an end there are none.
    next: u64,
    /// Messages that the other side is known to have given back.
    freed: u64,
}

/// Bytes of the arena that are free and meant for the next message. Making one changes nothing.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// From the arena's start.
    start: u64,
    pub(super) nbytes: u64,
}

impl<D: Direction, M: AsRef<[u64]> + AsMut<[u64]>> Producer<D, M> {
    pub(super) const fn new(ring: Ring<D>, marks: M, count: u64) -> Self {
        let arena = Arena::new(ring.arena.nbytes, marks, count);
        Self { ring, arena, next: count, freed: count }
    }

    pub(super) const fn arena_bytes(&self) -> u64 {
        self.arena.nbytes()
    }

    /// The other side's count as it was seen last.
    pub(super) const fn freed(&self) -> u64 {
        self.freed
    }

    /// Where `plan` lies in PAYLOAD.
    #[inline]
    pub(super) const fn place(&self, plan: Plan) -> Place {
        // Inside the arena, which the layout saw to be inside PAYLOAD.
        let offset = if plan.nbytes == 0 { 0 } else { self.ring.arena.offset.wrapping_add(plan.start) };
        Place { offset, nbytes: plan.nbytes }
    }

    /// Finds room for a message of so many bytes in what is known to be free.
    #[inline]
    pub(super) fn find(&self, nbytes: u64) -> Result<Plan, Full> {
        if self.next.wrapping_sub(self.freed) >= u64::from(self.ring.depth) {
            return Err(Full::Ring);
        }
        let start = self.arena.find(self.next, nbytes).ok_or(Full::Arena)?;
        Ok(Plan { start, nbytes })
    }

    /// Learns from the other side's count what is free by now.
    pub(super) fn learn(&mut self, access: &impl RegionAccess) -> Result<(), Setback> {
        let in_flight = self.next.wrapping_sub(self.freed);
        let freed = look(access, D::HEAD, self.freed, in_flight)?;
        if freed != self.freed {
            // The other side is done with these bytes before they are written again.
            access.observe(Place::NOTHING)?;
            self.arena.give_back(self.freed, freed, self.next, |index| self.ring.slot_number(index));
            self.freed = freed;
        }
        Ok(())
    }

    /// Fills in the message whose bytes were written at the plan's place. A plan stays good until the next message is filled in.
    ///
    /// Until it is [told](Self::tell) nothing has happened that the other side could see.
    #[inline]
    pub(super) fn fill(
        &mut self,
        access: &impl RegionAccess,
        plan: Plan,
        opcode: Opcode,
    ) -> Result<(), Setback> {
        let (index, place) = (self.next, self.place(plan));
        let slot = RawSlot {
            seq: U64::new(index.wrapping_add(1)),
            opcode: U64::new(opcode.to_wire()),
            payload_offset: U64::new(place.offset),
            payload_nbytes: U64::new(place.nbytes),
        };
        if place.nbytes != 0 {
            access.publish(place)?;
        }
        self.ring.write_slot(access, index, &slot)?;
        self.arena.take(index, self.ring.slot_number(index), plan.start, plan.nbytes);
        self.next = index.wrapping_add(1);
        // The other side was the last to read what is there: its caches have the lines.
        if self.next.wrapping_sub(self.freed).wrapping_add(AHEAD) < u64::from(self.ring.depth) {
            access.will_write(self.ring.slot(index.wrapping_add(AHEAD)).offset);
            if let Some(offset) = self.ring.behind(place.offset, ahead(place.nbytes)) {
                access.will_write(offset);
            }
        }
        Ok(())
    }

    /// Tells the other side of every message that is filled in.
    #[inline]
    pub(super) fn tell(&self, access: &impl RegionAccess) -> Result<(), Setback> {
        tell(access, D::TAIL, self.next, D::CONSUMER_SLEEPS)
    }
}

impl Plan {
    /// The first `nbytes` of it; `None` when it has fewer.
    pub(super) fn shortened(self, nbytes: u64) -> Option<Self> {
        (nbytes <= self.nbytes).then_some(Self { start: self.start, nbytes })
    }
}
