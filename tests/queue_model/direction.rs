//! The model of one direction: a list of messages, and where they lie.

use std::collections::VecDeque;

use bufabi_core::queue::{Full, Handle, Message, Opcode, ReceiveError, SendError};
use bufabi_core::region::Place;

/// A message as the model keeps it from when it is sent until its slot is free again.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) opcode: Opcode,
    pub(crate) bytes: Vec<u8>,
    /// Where the end put it.
    pub(crate) place: Place,
    pub(crate) handle: Option<Handle>,
    pub(crate) is_released: bool,
}

/// One direction, as simple as it can be said.
pub(crate) struct Direction {
    pub(crate) depth: usize,
    pub(crate) arena: Place,
    pub(crate) window: usize,
    /// Messages in flight, oldest first: those before `received` were received.
    pub(crate) flight: VecDeque<Sent>,
    pub(crate) received: usize,
    pub(crate) stopped: bool,
    pub(crate) count: u64,
}

impl Direction {
    pub(crate) fn new(depth: usize, arena: Place, window: usize, count: u64) -> Self {
        Self { depth, arena, window, flight: VecDeque::new(), received: 0, stopped: false, count }
    }

    /// A new place is inside the arena, and shares no byte with those in flight.
    pub(crate) fn check_place(&self, new: Place) {
        if new.nbytes == 0 {
            assert_eq!(new.offset, 0);
            return;
        }
        let end = new.offset + new.nbytes;
        assert!(new.offset >= self.arena.offset && end <= self.arena.offset + self.arena.nbytes, "{new:?}");
        for Sent { place, .. } in &self.flight {
            assert!(
                place.nbytes == 0 || place.offset >= end || place.offset + place.nbytes <= new.offset,
                "{new:?} shares bytes with {place:?}"
            );
        }
    }

    /// Both the bytes behind the newest message, up to the end or the next message, and those at the arena's start, up to
    /// the first message, are too few.
    pub(crate) fn is_arena_full_for(&self, nbytes: u64) -> bool {
        let places: Vec<Place> =
            self.flight.iter().map(|sent| sent.place).filter(|place| place.nbytes > 0).collect();
        let Some(newest) = places.last() else { return nbytes > self.arena.nbytes };
        let end = newest.offset + newest.nbytes;
        let arena_end = self.arena.offset + self.arena.nbytes;
        let first_after = |from: u64| {
            places.iter().map(|place| place.offset).filter(|&start| start >= from).min().unwrap_or(arena_end)
        };
        let behind = first_after(end) - end;
        let at_start = first_after(self.arena.offset) - self.arena.offset;
        nbytes > behind && nbytes > at_start
    }

    pub(crate) fn sent(&mut self, opcode: Opcode, bytes: Vec<u8>, place: Place) {
        self.stopped |= opcode == Opcode::Stop;
        self.check_place(place);
        self.flight.push_back(Sent { opcode, bytes, place, handle: None, is_released: false });
        self.count = self.count.wrapping_add(1);
    }

    /// What a send that was refused says, or `None` when it must not be refused.
    pub(crate) fn refusal(&self, nbytes: u64) -> Option<SendError> {
        let arena_bytes = self.arena.nbytes;
        if self.stopped {
            Some(SendError::Stopped)
        } else if nbytes > arena_bytes {
            Some(SendError::TooLarge { nbytes, arena_bytes })
        } else if self.flight.len() == self.depth {
            Some(SendError::Full(Full::Ring))
        } else if self.is_arena_full_for(nbytes) {
            Some(SendError::Full(Full::Arena))
        } else {
            None
        }
    }

    /// What a receive that was refused says, or `None` when it must not be refused.
    pub(crate) fn receive_refusal(&self) -> Option<ReceiveError> {
        let held = self.flight.iter().take(self.received).filter(|sent| sent.opcode != Opcode::Stop).count();
        let stop_is_next_or_over = self.flight.get(self.received).map(|sent| sent.opcode == Opcode::Stop);
        let stop_received = self.stopped && (self.flight.is_empty() || self.received == self.flight.len());
        match stop_is_next_or_over {
            _ if stop_received => Some(ReceiveError::Stopped),
            None => Some(ReceiveError::Empty),
            Some(true) => None,
            Some(false) if held >= self.window => Some(ReceiveError::WindowFull { window: self.window }),
            Some(false) => None,
        }
    }

    pub(crate) fn received(&mut self, message: Message) {
        let sent = &mut self.flight[self.received];
        assert_eq!((sent.opcode, sent.place), (message.opcode(), message.place()));
        sent.handle = Some(message.handle());
        self.received += 1;
    }

    /// The handles that can be released.
    pub(crate) fn held(&self) -> Vec<usize> {
        (0..self.received).filter(|&index| !self.flight[index].is_released).collect()
    }

    pub(crate) fn released(&mut self, index: usize) {
        self.flight[index].is_released = true;
        while self.flight.front().is_some_and(|sent| sent.is_released) {
            self.flight.pop_front();
            self.received -= 1;
        }
    }
}
