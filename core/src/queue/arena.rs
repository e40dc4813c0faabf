//! Where the bytes of messages in flight lie: a ring of bytes from which they are given back in the order in which they were
//! taken, and which starts anew whenever it is empty.

/// The mark of a message without bytes.
const NO_BYTES: u64 = u64::MAX;

/// The bytes that messages in flight take, as their producer knows them by itself.
///
/// They are one piece, or two when the newer ones have started again at 0. A message lies in one piece, so bytes before the
/// end may stay unused behind the older piece. When no message in flight has bytes, nothing is taken at all, wherever the last one lay:
/// that is why a message of the arena's size always fits then.
pub(super) struct Arena<M> {
    /// Bytes of the arena.
    nbytes: u64,
    /// For each slot the start of its message's bytes, or [`NO_BYTES`].
    marks: M,
    /// The oldest message in flight that has bytes; the next message's index when there is none.
    oldest: u64,
    /// Where the bytes of `oldest` start.
    start: u64,
    /// Behind the bytes of the newest message that has some.
    end: u64,
}

impl<M: AsRef<[u64]> + AsMut<[u64]>> Arena<M> {
    /// An arena from which nothing is taken, before message `next`. `marks` has an element for each slot.
    pub(super) const fn new(nbytes: u64, marks: M, next: u64) -> Self {
        Self { nbytes, marks, oldest: next, start: 0, end: 0 }
    }

    pub(super) const fn nbytes(&self) -> u64 {
        self.nbytes
    }

    /// Where message `next` of so many bytes would start; `None` while there is no room. Changes nothing.
    ///
    /// It starts at a multiple of the largest power of two that is not above its size nor above 64, so that it touches no line more than
    /// it must, or where it can if that is the only way.
    #[inline]
    pub(super) fn find(&self, next: u64, nbytes: u64) -> Option<u64> {
        if nbytes == 0 || self.oldest == next {
            return (nbytes <= self.nbytes).then_some(0);
        }
        // In two pieces the newer one ends at or before the older one starts. What is taken is not empty, so a start and an end that
        // meet say that all is taken.
        let in_one_piece = self.start < self.end;
        let room_ends = if in_one_piece { self.nbytes } else { self.start };
        let fits = |start: u64, end: u64| end.checked_sub(start).is_some_and(|room| nbytes <= room);
        let below = (1_u64 << nbytes.ilog2().min(6)).wrapping_sub(1);
        // An arena ends at a multiple of 64, before the last address: rounding up within it passes neither.
        let aligned = self.end.wrapping_add(below) & !below;
        if fits(aligned, room_ends) {
            Some(aligned)
        } else if in_one_piece && nbytes <= self.start {
            Some(0)
        } else {
            fits(self.end, room_ends).then_some(self.end)
        }
    }

    /// Takes the bytes that [`find`](Self::find) found, for message `next` in slot `slot`.
    #[inline]
    pub(super) fn take(&mut self, next: u64, slot: u32, start: u64, nbytes: u64) {
        let is_first = self.oldest == next;
        self.set_mark(slot, if nbytes == 0 { NO_BYTES } else { start });
        if nbytes != 0 {
            // `find` saw that it lies within the arena.
            self.end = start.wrapping_add(nbytes);
            if is_first {
                self.start = start;
            }
        } else if is_first {
            self.oldest = next.wrapping_add(1);
        }
    }

    /// Gives back the bytes of all messages before `freed`, which goes on from `before`; `next` is the next message's index.
    #[inline]
    pub(super) fn give_back(&mut self, before: u64, freed: u64, next: u64, slot: impl Fn(u64) -> u32) {
        if self.oldest.wrapping_sub(before) >= freed.wrapping_sub(before) {
            return;
        }
        self.oldest = freed;
        // Over all calls each message is looked at once.
        while self.oldest != next {
            self.start = self.mark(slot(self.oldest));
            if self.start != NO_BYTES {
                break;
            }
            self.oldest = self.oldest.wrapping_add(1);
        }
    }

    // There is a mark for each slot, so neither branch for another slot is ever taken.

    fn mark(&self, slot: u32) -> u64 {
        let mark = usize::try_from(slot).ok().and_then(|slot| self.marks.as_ref().get(slot));
        mark.copied().unwrap_or(NO_BYTES)
    }

    fn set_mark(&mut self, slot: u32, start: u64) {
        let mark = usize::try_from(slot).ok().and_then(|slot| self.marks.as_mut().get_mut(slot));
        if let Some(mark) = mark {
            *mark = start;
        }
    }
}
