//! The receiving half of an end: a window of messages that were received and not yet given back.

use zerocopy::FromZeros;

use super::poison::{Poison, Setback};
use super::ring::{AHEAD, Ring, ahead, look, low, tell};
use super::side::Direction;
use super::slot::{Opcode, RawSlot};
use crate::region::{Place, RegionAccess};

/// Names a message that was received, until it is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(u64);

impl Handle {
    /// The handle of that number, as it crosses a boundary without types. A number that no message has now poisons the end that
    /// is given it, as any other handle that is not current does.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// The message's index: 0 for the first one of its direction.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// A message that was received: its slot was copied, and the copy checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    handle: Handle,
    opcode: Opcode,
    place: Place,
}

impl Message {
    /// Its name until it is given back.
    #[must_use]
    pub const fn handle(&self) -> Handle {
        self.handle
    }

    /// What it is.
    #[must_use]
    pub const fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// Where its bytes lie in PAYLOAD: inside its direction's arena, readable until it is given back. The other side can still write
    /// there, if it breaks the protocol: bytes on which something depends are copied first and checked then.
    #[must_use]
    pub const fn place(&self) -> Place {
        self.place
    }

    /// Bytes of the message.
    #[must_use]
    pub const fn nbytes(&self) -> u64 {
        self.place.nbytes
    }
}

/// The consumer of one direction, with a window of as many messages as `W` has places; STOP needs no place in it.
pub(super) struct Consumer<D, W> {
    ring: Ring<D>,
    /// Messages given back: all before this one.
    head: u64,
    /// Messages given back as far as the other side is told; between two operations of an end, all.
    told: u64,
    /// Messages that the other side is known to have sent.
    tail: u64,
    /// Where the bytes of the next message lie if they follow those of the last one, as they mostly do.
    expected: u64,
    /// The window from `head` on: the place of message `head` is `first`, the later ones follow around the end.
    window: W,
    first: usize,
    held: usize,
    /// The message behind the window, whose slot was read.
    beyond: Beyond,
    drained: bool,
}

/// Storage for one message of a window, which an end fills.
#[derive(Clone, Copy, Debug)]
pub struct WindowPlace {
    message: Message,
    is_given_back: bool,
}

impl WindowPlace {
    /// Nothing yet.
    pub const EMPTY: Self = Self {
        message: Message { handle: Handle(0), opcode: Opcode::Data, place: Place::NOTHING },
        is_given_back: true,
    };
}

#[derive(Clone, Copy)]
enum Beyond {
    Unread,
    /// No STOP; it waits for a place in the window.
    Waiting(Message),
    /// STOP, which was handed out.
    Stop {
        index: u64,
        is_given_back: bool,
    },
}

/// What receiving came to.
pub(super) enum Outcome {
    Message(Message),
    Empty,
    WindowFull,
    /// STOP was handed out before.
    Stopped,
}

impl<D: Direction, W: AsRef<[WindowPlace]> + AsMut<[WindowPlace]>> Consumer<D, W> {
    pub(super) const fn new(ring: Ring<D>, window: W, count: u64) -> Self {
        Self {
            expected: ring.arena.offset,
            ring,
            head: count,
            told: count,
            tail: count,
            window,
            first: 0,
            held: 0,
            beyond: Beyond::Unread,
            drained: false,
        }
    }

    /// Messages that it can hold.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.window.as_ref().len()
    }

    /// The other side's count as it was seen last.
    pub(super) const fn tail(&self) -> u64 {
        self.tail
    }

    /// STOP and everything before it were given back.
    pub(super) const fn is_drained(&self) -> bool {
        self.drained
    }

    /// The oldest message that is not given back.
    pub(super) fn oldest(&self) -> Option<Message> {
        (self.held > 0)
            .then(|| self.window.as_ref().get(self.first).map(|received| received.message))
            .flatten()
    }

    /// Receives the next message. The other side's count is only looked at when no message is known to be there.
    #[inline]
    pub(super) fn receive(&mut self, access: &impl RegionAccess) -> Result<Outcome, Setback> {
        let message = match self.beyond {
            Beyond::Unread => match self.read_next(access)? {
                None => return Ok(Outcome::Empty),
                Some(message) => message,
            },
            Beyond::Waiting(message) => message,
            Beyond::Stop { index, .. } => {
                self.look(access)?;
                self.check_last(index)?;
                return Ok(Outcome::Stopped);
            }
        };
        if message.opcode == Opcode::Stop {
            let index = message.handle.0;
            self.beyond = Beyond::Stop { index, is_given_back: false };
            self.check_last(index)?;
            return Ok(Outcome::Message(message));
        }
        if self.held >= self.capacity() {
            self.beyond = Beyond::Waiting(message);
            return Ok(Outcome::WindowFull);
        }
        let position = self.position(self.held);
        if let Some(received) = self.window.as_mut().get_mut(position) {
            *received = WindowPlace { message, is_given_back: false };
        }
        self.held = self.held.wrapping_add(1);
        self.beyond = Beyond::Unread;
        Ok(Outcome::Message(message))
    }

    /// Reads the slot behind the window, if a message is there.
    #[inline]
    fn read_next(&mut self, access: &impl RegionAccess) -> Result<Option<Message>, Setback> {
        // At most the window, and no more than were sent.
        let index = self.head.wrapping_add(widen(self.held));
        if index == self.tail {
            self.look(access)?;
            if index == self.tail {
                return Ok(None);
            }
            // The other side's caches have its lines: those of its bytes are fetched while its slot comes, that says where they lie.
            access.will_read(self.expected);
        }
        let mut slot = RawSlot::new_zeroed();
        self.ring.read_slot(access, index, &mut slot)?;
        let (opcode, place) = slot.check(index, self.ring.arena, D::HAS_STOP)?;
        if place.nbytes != 0 {
            access.observe(place)?;
            // It ends within the arena.
            self.expected = place.offset.wrapping_add(place.nbytes);
        }
        if self.tail.wrapping_sub(index) > AHEAD {
            access.will_read(self.ring.slot(index.wrapping_add(AHEAD)).offset);
            if let Some(offset) = self.ring.behind(place.offset, ahead(place.nbytes)) {
                access.will_read(offset);
            }
        }
        Ok(Some(Message { handle: Handle(index), opcode, place }))
    }

    /// Looks how many messages the other side has sent by now.
    #[inline]
    fn look(&mut self, access: &impl RegionAccess) -> Result<(), Setback> {
        // The other side has no more room than it was told of.
        let room = u64::from(self.ring.depth).wrapping_sub(self.tail.wrapping_sub(self.told));
        self.tail = look(access, D::TAIL, self.tail, room)?;
        Ok(())
    }

    /// STOP is the last message.
    fn check_last(&self, stop: u64) -> Result<(), Poison> {
        match self.tail.wrapping_sub(stop) {
            1 => Ok(()),
            sent => Err(Poison::AfterStop { index: stop, messages: low(sent.wrapping_sub(1)) }),
        }
    }

    /// Where the bytes of a message lie that is held.
    #[inline]
    pub(super) fn place(&self, handle: Handle) -> Result<Place, Poison> {
        if let Some(distance) = self.distance(handle)
            && let Some(received) = self.window.as_ref().get(self.position(distance))
            && !received.is_given_back
        {
            return Ok(received.message.place);
        }
        // STOP has no bytes.
        if self.holds_stop(handle) { Ok(Place::NOTHING) } else { Err(not_current(handle)) }
    }

    /// Is done with a message. The head moves over all that are given back at the front; [`tell`](Self::tell) says so.
    #[inline]
    pub(super) fn give_back(&mut self, access: &impl RegionAccess, handle: Handle) -> Result<(), Setback> {
        self.place(handle)?;
        if handle.0 == self.head {
            // What was read of it was read before the other side can write there again.
            access.publish(Place::NOTHING)?;
        }
        self.mark_given_back(handle);
        Ok(())
    }

    /// Is done with several messages. What memory can refuse comes before the first of them, so that it refuses all or none.
    pub(super) fn give_all_back(
        &mut self,
        access: &impl RegionAccess,
        handles: &[Handle],
    ) -> Result<(), Setback> {
        if handles.is_empty() {
            return Ok(());
        }
        access.publish(Place::NOTHING)?;
        for &handle in handles {
            self.place(handle)?;
            self.mark_given_back(handle);
        }
        Ok(())
    }

    /// A message that is held is not any more.
    #[inline]
    fn mark_given_back(&mut self, handle: Handle) {
        // One of the two it is, as was just seen.
        if let Some(distance) = self.distance(handle) {
            let position = self.position(distance);
            if let Some(held) = self.window.as_mut().get_mut(position) {
                held.is_given_back = true;
            }
        } else {
            self.beyond = Beyond::Stop { index: handle.0, is_given_back: true };
        }
        if handle.0 == self.head {
            self.move_head();
        }
    }

    /// The handle is that of STOP, and STOP is held.
    fn holds_stop(&self, handle: Handle) -> bool {
        matches!(self.beyond, Beyond::Stop { index, is_given_back: false } if index == handle.0)
    }

    #[inline]
    fn move_head(&mut self) {
        while self.held > 0
            && self.window.as_ref().get(self.first).is_some_and(|received| received.is_given_back)
        {
            self.first = self.position(1);
            self.held = self.held.wrapping_sub(1);
            self.head = self.head.wrapping_add(1);
        }
        if matches!(self.beyond, Beyond::Stop { index, is_given_back: true } if index == self.head) {
            self.head = self.head.wrapping_add(1);
            self.drained = true;
        }
    }

    /// Tells the other side how far the head has moved, if it has.
    #[inline]
    pub(super) fn tell(&mut self, access: &impl RegionAccess) -> Result<(), Setback> {
        if self.told == self.head {
            return Ok(());
        }
        self.told = self.head;
        tell(access, D::HEAD, self.head, D::PRODUCER_SLEEPS)
    }

    /// How far behind the head a message of the window is.
    #[inline]
    fn distance(&self, handle: Handle) -> Option<usize> {
        usize::try_from(handle.0.wrapping_sub(self.head)).ok().filter(|&distance| distance < self.held)
    }

    /// Where in the window the message stands that is so far behind the head; `distance` is at most the window.
    #[inline]
    fn position(&self, distance: usize) -> usize {
        let (position, capacity) = (self.first.wrapping_add(distance), self.capacity());
        if position >= capacity { position.wrapping_sub(capacity) } else { position }
    }
}

#[cold]
const fn not_current(handle: Handle) -> Poison {
    Poison::Handle { found: handle.0 }
}

#[expect(clippy::as_conversions, reason = "no usize is wider")]
const fn widen(value: usize) -> u64 {
    value as u64
}
