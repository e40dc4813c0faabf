//! A descriptor slot: the 32 bytes that announce a message, and what makes them believable.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::poison::Poison;
use crate::region::Place;
use crate::wire::layout::wire_layout;

wire_layout! {
    /// A slot's bytes, unchecked.
    #[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
    #[repr(C)]
    pub struct RawSlot as "QueueSlot", "bufabi_queue_slot": 32 bytes, align 1 {
        0, 8, pub seq: U64, "index of the message + 1";
        8, 8, pub opcode: U64, "DATA 1, STOP 2, ERROR 3";
        16, 8, pub payload_offset: U64, "from the payload's start; 0 for a message of no bytes";
        24, 8, pub payload_nbytes: U64, "bytes of the message";
    }
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Opcode {
    /// Work, or its result.
    Data,
    /// The last input: nothing comes after it.
    Stop,
    /// Something went wrong; the bytes say what.
    Error,
}

impl Opcode {
    /// The number in a slot.
    #[must_use]
    pub const fn to_wire(self) -> u64 {
        match self {
            Self::Data => 1,
            Self::Stop => 2,
            Self::Error => 3,
        }
    }

    /// The opcode with that number in a slot, or `None` when there is none.
    #[must_use]
    pub const fn from_wire(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::Data),
            2 => Some(Self::Stop),
            3 => Some(Self::Error),
            _ => None,
        }
    }
}

/// What a caller can send by its own choice; STOP has an operation of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// [`Opcode::Data`]
    Data,
    /// [`Opcode::Error`]
    Error,
}

impl Kind {
    pub(super) const fn opcode(self) -> Opcode {
        match self {
            Self::Data => Opcode::Data,
            Self::Error => Opcode::Error,
        }
    }
}

impl RawSlot {
    /// Checks a copy of a slot as the announcement of message `index` in a direction whose bytes lie in `arena`.
    #[inline]
    pub(super) fn check(
        &self,
        index: u64,
        arena: Place,
        stop_is_legal: bool,
    ) -> Result<(Opcode, Place), Poison> {
        let (seq, opcode) = (self.seq.get(), self.opcode.get());
        if seq != index.wrapping_add(1) {
            return Err(Poison::Sequence { index, found: seq });
        }
        let place = Place { offset: self.payload_offset.get(), nbytes: self.payload_nbytes.get() };
        let opcode = match Opcode::from_wire(opcode) {
            Some(Opcode::Stop) if !stop_is_legal => return Err(Poison::StopInOutput { index }),
            Some(Opcode::Stop) if place.nbytes != 0 => return Err(Poison::StopNotEmpty { index, place }),
            Some(opcode) => opcode,
            None => return Err(Poison::Opcode { index, found: opcode }),
        };
        let inside = if place.nbytes == 0 {
            place.offset == 0
        } else {
            // Its bytes start at or behind the arena's first one, and what lies between leaves room for them.
            place
                .offset
                .checked_sub(arena.offset)
                .and_then(|skipped| arena.nbytes.checked_sub(skipped))
                .is_some_and(|room| place.nbytes <= room)
        };
        if inside { Ok((opcode, place)) } else { Err(Poison::Place { index, place, arena }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARENA: Place = Place { offset: 128, nbytes: 64 };

    fn check(seq: u64, opcode: u64, offset: u64, nbytes: u64, stop: bool) -> Result<(Opcode, Place), Poison> {
        RawSlot {
            seq: U64::new(seq),
            opcode: U64::new(opcode),
            payload_offset: U64::new(offset),
            payload_nbytes: U64::new(nbytes),
        }
        .check(4, ARENA, stop)
    }

    #[test]
    fn a_slot_is_believed_exactly_when_every_rule_holds() {
        let max = u64::MAX;
        for (offset, nbytes, inside) in [
            (128, 64, true),
            (191, 1, true),
            (0, 0, true),
            (128, 0, false),
            (127, 1, false),
            (128, 65, false),
            (192, 1, false),
            (191, 2, false),
            (0, 1, false),
            (max, 1, false),
            (128, max, false),
            (max, max, false),
            (1, 0, false),
        ] {
            let place = Place { offset, nbytes };
            for (number, opcode) in [(1, Opcode::Data), (3, Opcode::Error)] {
                let expected = if inside {
                    Ok((opcode, place))
                } else {
                    Err(Poison::Place { index: 4, place, arena: ARENA })
                };
                assert_eq!(check(5, number, offset, nbytes, true), expected);
            }
        }
        assert_eq!(check(5, 2, 0, 0, true), Ok((Opcode::Stop, Place::NOTHING)));
    }

    #[test]
    fn rules_are_checked_in_their_order() {
        let place = Place { offset: 128, nbytes: 1 };
        assert_eq!(check(4, 9, 1, 0, false), Err(Poison::Sequence { index: 4, found: 4 }));
        assert_eq!(check(5, 9, 1, 0, false), Err(Poison::Opcode { index: 4, found: 9 }));
        assert_eq!(check(5, 0, 1, 0, false), Err(Poison::Opcode { index: 4, found: 0 }));
        assert_eq!(check(5, 1 << 32 | 1, 1, 0, false), Err(Poison::Opcode { index: 4, found: 1 << 32 | 1 }));
        assert_eq!(check(5, 2, 128, 1, false), Err(Poison::StopInOutput { index: 4 }));
        assert_eq!(check(5, 2, 128, 1, true), Err(Poison::StopNotEmpty { index: 4, place }));
        let place = Place { offset: 128, nbytes: 0 };
        assert_eq!(check(5, 2, 128, 0, true), Err(Poison::Place { index: 4, place, arena: ARENA }));
    }
}
