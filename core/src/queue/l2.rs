//! The task's end: it receives inputs, as many at a time as its window holds, and sends outputs.

use core::time::Duration;

use super::consumer::{Message, WindowPlace};
use super::end::{Counts, QueueEnd};
use super::error::{AttachError, ReceiveError, SendError};
use super::layout::QueueLayout;
use super::side::L2;
use super::slot::Kind;
use crate::region::{Clock, RegionAccess};

/// The L2 end of a queue, over the region that `A` reaches, with a window of `N` inputs: 1 to the depth. `M` is storage of one
/// `u64` for each slot of the ring, an array or a slice, lent or owned: where the outputs in flight lie.
pub type L2End<A, M, const N: usize> = QueueEnd<A, M, [WindowPlace; N], L2>;

impl<A: RegionAccess, M: AsRef<[u64]> + AsMut<[u64]>, const N: usize> QueueEnd<A, M, [WindowPlace; N], L2> {
    /// Attaches to a queue whose counters were zero when L3 attached.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn new(layout: QueueLayout, access: A, marks: M) -> Result<Self, AttachError> {
        Self::starting_at(layout, access, marks, Counts::default())
    }

    /// Attaches to a queue whose counts start elsewhere than at 0.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn starting_at(
        layout: QueueLayout,
        access: A,
        marks: M,
        counts: Counts,
    ) -> Result<Self, AttachError> {
        Self::with_window(layout, access, marks, [WindowPlace::EMPTY; N], counts)
    }
}

impl<A, M, W> QueueEnd<A, M, W, L2>
where
    A: RegionAccess,
    M: AsRef<[u64]> + AsMut<[u64]>,
    W: AsRef<[WindowPlace]> + AsMut<[WindowPlace]>,
{
    /// Receives the next input, if one is there now. STOP is received as any other, and has a place even when the window is full.
    ///
    /// # Errors
    /// [`ReceiveError`]; [`ReceiveError::Empty`] and [`ReceiveError::WindowFull`] are ordinary answers, and so is
    /// [`ReceiveError::Stopped`] after STOP.
    #[inline]
    pub fn try_receive(&mut self) -> Result<Message, ReceiveError> {
        self.try_receive_next()
    }

    /// Receives the next input as soon as one is there, within a limit; a limit of 0 is one look.
    ///
    /// # Errors
    /// [`ReceiveError`]; [`ReceiveError::TimedOut`] is an ordinary answer. A full window answers at once.
    pub fn receive(&mut self, limit: Duration, clock: &mut impl Clock) -> Result<Message, ReceiveError> {
        self.receive_within(limit, clock, Self::try_receive_next)
    }

    /// STOP was received and released, and so was every input before it.
    #[must_use]
    pub const fn is_drained(&self) -> bool {
        self.consumer.is_drained()
    }

    /// Sends an output whose bytes are at hand, if there is room now.
    ///
    /// # Errors
    /// [`SendError`]; [`SendError::Full`] is an ordinary answer.
    #[inline]
    pub fn try_send(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), SendError> {
        self.try_send_one(kind, bytes)
    }

    /// Sends outputs, in order, as long as there is room now, and tells L3 once: that is what several cost less together.
    /// Says how many were sent; none only when there were none.
    ///
    /// # Errors
    /// [`SendError`], when not even the first was sent.
    #[inline]
    pub fn try_send_all<B: AsRef<[u8]>>(
        &mut self,
        kind: Kind,
        messages: impl IntoIterator<Item = B>,
    ) -> Result<usize, SendError> {
        self.try_send_several(kind, messages)
    }

    /// Sends an output whose bytes are at hand as soon as there is room, within a limit; a limit of 0 is one try.
    ///
    /// # Errors
    /// [`SendError`]; [`SendError::TimedOut`] is an ordinary answer.
    pub fn send(
        &mut self,
        kind: Kind,
        bytes: &[u8],
        limit: Duration,
        clock: &mut impl Clock,
    ) -> Result<(), SendError> {
        self.send_within(limit, clock, |end| end.try_send_one(kind, bytes))
    }
}
