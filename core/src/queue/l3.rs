//! The host's end: it sends inputs and receives outputs.

use core::time::Duration;

use super::consumer::{Message, WindowPlace};
use super::end::{Counts, QueueEnd};
use super::error::{AttachError, ReceiveError, SendError};
use super::layout::QueueLayout;
use super::side::L3;
use super::slot::{Kind, Opcode};
use super::untold::Untold;
use crate::region::{Clock, RegionAccess};

/// The L3 end of a queue, over the region that `A` reaches. `M` is storage of one `u64` for each slot of the ring, an array or a
/// slice, lent or owned: where the inputs in flight lie. It holds one output at a time.
pub type L3End<A, M> = QueueEnd<A, M, [WindowPlace; 1], L3>;

impl<A: RegionAccess, M: AsRef<[u64]> + AsMut<[u64]>> QueueEnd<A, M, [WindowPlace; 1], L3> {
    /// Attaches to a queue whose counters are zero.
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
        Self::with_window(layout, access, marks, [WindowPlace::EMPTY], counts)
    }

    /// Sends an input if there is room now.
    ///
    /// # Errors
    /// [`SendError`]; [`SendError::Full`] is an ordinary answer.
    #[inline]
    pub fn try_enqueue(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), SendError> {
        self.try_send_one(kind, bytes)
    }

    /// Sends inputs, in order, as long as there is room now, and tells L2 once: that is what several cost less together.
    /// Says how many were sent; none only when there were none.
    ///
    /// # Errors
    /// [`SendError`], when not even the first was sent.
    #[inline]
    pub fn try_enqueue_all<B: AsRef<[u8]>>(
        &mut self,
        kind: Kind,
        messages: impl IntoIterator<Item = B>,
    ) -> Result<usize, SendError> {
        self.try_send_several(kind, messages)
    }

    /// Sends an input as soon as there is room, within a limit; a limit of 0 is one try.
    ///
    /// # Errors
    /// [`SendError`]; [`SendError::TimedOut`] is an ordinary answer.
    pub fn enqueue(
        &mut self,
        kind: Kind,
        bytes: &[u8],
        limit: Duration,
        clock: &mut impl Clock,
    ) -> Result<(), SendError> {
        self.send_within(limit, clock, |end| end.try_send_one(kind, bytes))
    }

    /// Sends STOP as soon as there is a slot, within a limit; a limit of 0 is one try. After it no input can be sent.
    ///
    /// # Errors
    /// [`SendError`]; [`SendError::Stopped`] when STOP was sent before.
    pub fn request_stop(&mut self, limit: Duration, clock: &mut impl Clock) -> Result<(), SendError> {
        self.send_within(limit, clock, Self::try_stop)
    }

    /// The oldest output that was not released, if one is there now. It stays until it is released.
    ///
    /// # Errors
    /// [`ReceiveError`]; [`ReceiveError::Empty`] is an ordinary answer.
    #[inline]
    pub fn try_peek(&mut self) -> Result<Message, ReceiveError> {
        self.try_oldest()
    }

    /// The oldest output that was not released, as soon as one is there, within a limit; a limit of 0 is one look.
    ///
    /// # Errors
    /// [`ReceiveError`]; [`ReceiveError::TimedOut`] is an ordinary answer.
    pub fn peek(&mut self, limit: Duration, clock: &mut impl Clock) -> Result<Message, ReceiveError> {
        self.receive_within(limit, clock, Self::try_oldest)
    }

    /// Copies the next output to the start of `out` and releases it, if one is there now. Says what it was and how many bytes.
    ///
    /// # Errors
    /// [`ReceiveError`]; [`ReceiveError::TooSmall`] leaves the output where it is.
    #[inline]
    pub fn try_dequeue_into(&mut self, out: &mut [u8]) -> Result<(Opcode, usize), ReceiveError> {
        let message = self.try_oldest()?;
        let nbytes = self.read_into(message.handle(), out)?;
        self.release(message.handle())?;
        Ok((message.opcode(), nbytes))
    }

    /// Copies the next output to the start of `out` and releases it, as soon as one is there, within a limit; a limit of 0 is one
    /// look. Says what it was and how many bytes.
    ///
    /// # Errors
    /// [`ReceiveError`]; [`ReceiveError::TooSmall`] leaves the output where it is.
    pub fn dequeue_into(
        &mut self,
        out: &mut [u8],
        limit: Duration,
        clock: &mut impl Clock,
    ) -> Result<(Opcode, usize), ReceiveError> {
        self.receive_within(limit, clock, |end| end.try_dequeue_into(out))
    }

    /// Copies outputs, one after the other, to the start of `out`, and hands each to `each`, as long as some are there now, and
    /// at most `at_most`; then L2 is told once that they are released. Says how many were handed on, at least one.
    ///
    /// # Errors
    /// [`ReceiveError`], when there was not even one, or the queue ended. What else stopped it is answered when it is called again.
    #[inline]
    pub fn try_dequeue_each(
        &mut self,
        out: &mut [u8],
        at_most: usize,
        mut each: impl FnMut(Opcode, &[u8]),
    ) -> Result<usize, ReceiveError> {
        self.check_alive::<ReceiveError>()?;
        let mut given_back = Untold::new(self, |end: &mut Self| {
            // Nobody is left who could be told.
            let _ = end.tell_given_back(Ok(()));
        });
        let mut first = None;
        while given_back.count < at_most {
            let end = &mut *given_back.end;
            let step = end.try_oldest().and_then(|message| {
                let nbytes = end.read_into(message.handle(), out)?;
                let released = end.consumer.give_back(&end.access, message.handle());
                released.map_err(|setback| end.fail::<ReceiveError>(setback))?;
                Ok((message.opcode(), nbytes))
            });
            match step {
                Ok((opcode, nbytes)) => {
                    given_back.count = given_back.count.wrapping_add(1);
                    each(opcode, out.get(..nbytes).unwrap_or_default());
                }
                Err(error) => {
                    first = Some(error);
                    break;
                }
            }
        }
        let taken = given_back.settle();
        match (first, self.poison) {
            (Some(error), Some(_)) => return Err(error),
            _ => self.tell_given_back(Ok(()))?,
        }
        match first {
            Some(error) if taken == 0 => Err(error),
            Some(_) | None => Ok(taken),
        }
    }
}
