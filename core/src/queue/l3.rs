//! The host's end: it sends inputs and receives outputs.

use core::time::Duration;

use super::consumer::{Handle, Message};
use super::end::{Counts, End, Reservation};
use super::error::{AttachError, ReceiveError, SendError};
use super::layout::QueueLayout;
use super::poison::Poison;
use super::slot::{Kind, Opcode};
use crate::region::{AccessError, Clock, RegionAccess};

/// The L3 end of a queue, over the region that `A` reaches. `M` is storage of one `u64` for each slot of the ring, an array or a
/// slice, lent or owned: where the inputs in flight lie.
///
/// Every operation on an end that has ended answers [`Poisoned`](SendError::Poisoned) with the first cause; dropping it or
/// [`into_access`](Self::into_access) always works.
pub struct L3End<A, M>(End<A, M, 1>);

impl<A: RegionAccess, M: AsRef<[u64]> + AsMut<[u64]>> L3End<A, M> {
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
        End::l3(layout, access, marks, counts).map(Self)
    }

    /// Sends an input if there is room now.
    ///
    /// # Errors
    /// [`SendError`]; [`SendError::Full`] is an ordinary answer.
    #[inline]
    pub fn try_enqueue(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), SendError> {
        self.0.try_send(kind, bytes)
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
        self.0.send_within(limit, clock, |end| end.try_send(kind, bytes))
    }

    /// Sends STOP as soon as there is a slot, within a limit; a limit of 0 is one try. After it no input can be sent.
    ///
    /// # Errors
    /// [`SendError`]; [`SendError::Stopped`] when STOP was sent before.
    pub fn request_stop(&mut self, limit: Duration, clock: &mut impl Clock) -> Result<(), SendError> {
        self.0.send_within(limit, clock, End::try_stop)
    }

    /// Reserves room for an input of at most `nbytes` bytes, to be written in its place. One reservation can be open at a time.
    ///
    /// # Errors
    /// [`SendError`]; [`SendError::Full`] is an ordinary answer.
    pub fn try_reserve(&mut self, nbytes: u64) -> Result<Reservation, SendError> {
        self.0.try_reserve(nbytes)
    }

    /// Reserves as soon as there is room, within a limit; a limit of 0 is one try.
    ///
    /// # Errors
    /// [`SendError`]; [`SendError::TimedOut`] is an ordinary answer.
    pub fn reserve(
        &mut self,
        nbytes: u64,
        limit: Duration,
        clock: &mut impl Clock,
    ) -> Result<Reservation, SendError> {
        self.0.send_within(limit, clock, |end| end.try_reserve(nbytes))
    }

    /// Writes bytes of a reserved input, `start` bytes from its start.
    ///
    /// # Errors
    /// [`SendError`]; a reservation that is not open poisons.
    pub fn write(&mut self, reservation: &Reservation, start: u64, bytes: &[u8]) -> Result<(), SendError> {
        self.0.write(reservation.number(), start, bytes)
    }

    /// Sends the first `nbytes` bytes of a reserved input.
    ///
    /// # Errors
    /// [`SendError`]; a reservation that is not open poisons.
    pub fn commit(&mut self, reservation: &Reservation, kind: Kind, nbytes: u64) -> Result<(), SendError> {
        self.0.commit(reservation.number(), kind, nbytes)
    }

    /// Gives a reservation up. Nothing was sent, and its room is free again.
    ///
    /// # Errors
    /// [`SendError`]; a reservation that is not open poisons.
    pub fn cancel(&mut self, reservation: &Reservation) -> Result<(), SendError> {
        self.0.cancel(reservation.number())
    }

    /// The oldest output that was not released, if one is there now. It stays until it is released.
    ///
    /// # Errors
    /// [`ReceiveError`]; [`ReceiveError::Empty`] is an ordinary answer.
    #[inline]
    pub fn try_peek(&mut self) -> Result<Message, ReceiveError> {
        self.0.try_peek()
    }

    /// The oldest output that was not released, as soon as one is there, within a limit; a limit of 0 is one look.
    ///
    /// # Errors
    /// [`ReceiveError`]; [`ReceiveError::TimedOut`] is an ordinary answer.
    pub fn peek(&mut self, limit: Duration, clock: &mut impl Clock) -> Result<Message, ReceiveError> {
        self.0.receive_within(limit, clock, End::try_peek)
    }

    /// Copies an output's bytes to the start of `out` and says how many they are.
    ///
    /// # Errors
    /// [`ReceiveError`]; [`ReceiveError::TooSmall`] when `out` cannot hold them; a handle that is not current poisons.
    #[inline]
    pub fn read_into(&mut self, handle: Handle, out: &mut [u8]) -> Result<usize, ReceiveError> {
        self.0.read_into(handle, out)
    }

    /// Gives an output's slot and bytes back to L2.
    ///
    /// # Errors
    /// [`ReceiveError`]; a handle that is not current poisons.
    #[inline]
    pub fn release(&mut self, handle: Handle) -> Result<(), ReceiveError> {
        self.0.release(handle)
    }

    /// Copies the next output to the start of `out` and releases it, if one is there now. Says what it was and how many bytes.
    ///
    /// # Errors
    /// [`ReceiveError`]; [`ReceiveError::TooSmall`] leaves the output where it is.
    #[inline]
    pub fn try_dequeue_into(&mut self, out: &mut [u8]) -> Result<(Opcode, usize), ReceiveError> {
        dequeue(&mut self.0, out)
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
        self.0.receive_within(limit, clock, |end| dequeue(end, out))
    }

    /// Gives up: this side's abort flag is set, and every later operation but cleanup is refused.
    ///
    /// # Errors
    /// The memory could not be reached to set the flag; calling again tries again.
    pub fn abort(&mut self) -> Result<(), AccessError> {
        self.0.abort()
    }

    /// L2 gave up.
    ///
    /// # Errors
    /// The memory could not be reached.
    pub fn peer_aborted(&self) -> Result<bool, AccessError> {
        self.0.peer_aborted()
    }

    /// The first cause, when the queue has ended here.
    #[must_use]
    pub const fn poison(&self) -> Option<Poison> {
        self.0.poison()
    }

    /// The memory, for reading and writing messages in their places.
    #[must_use]
    pub const fn access(&self) -> &A {
        self.0.access()
    }

    /// Detaches, whatever happened, and gives the access back.
    pub fn into_access(self) -> A {
        self.0.into_access()
    }
}

#[inline]
fn dequeue<A: RegionAccess, M: AsRef<[u64]> + AsMut<[u64]>>(
    end: &mut End<A, M, 1>,
    out: &mut [u8],
) -> Result<(Opcode, usize), ReceiveError> {
    let message = end.try_peek()?;
    let nbytes = end.read_into(message.handle(), out)?;
    end.release(message.handle())?;
    Ok((message.opcode(), nbytes))
}
