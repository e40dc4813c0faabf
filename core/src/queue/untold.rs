//! What was done of a batch and not told yet, while code runs that is not ours: an iterator, or who takes the messages. If that panics, the
//! other side is told all the same, and waits for nothing that was done.

/// Messages of a batch that `end` has done with, of which `tell` tells the other side if this is dropped before it is
/// [settled](Self::settle).
pub(super) struct Untold<'e, E, T: FnMut(&mut E)> {
    pub(super) end: &'e mut E,
    /// How many.
    pub(super) count: usize,
    tell: T,
}

impl<'e, E, T: FnMut(&mut E)> Untold<'e, E, T> {
    #[inline]
    pub(super) const fn new(end: &'e mut E, tell: T) -> Self {
        Self { end, count: 0, tell }
    }

    /// The batch is over, and the caller does what there is to do. Says how many messages it had.
    #[inline]
    pub(super) fn settle(mut self) -> usize {
        core::mem::take(&mut self.count)
    }
}

impl<E, T: FnMut(&mut E)> Drop for Untold<'_, E, T> {
    #[inline]
    fn drop(&mut self) {
        if self.count > 0 {
            (self.tell)(self.end);
        }
    }
}
