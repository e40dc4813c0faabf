//! The task's end: it receives inputs, as many at a time as its window holds, and sends outputs.

use core::time::Duration;

use super::consumer::{Handle, Message};
use super::end::{Counts, End, Reservation};
use super::error::{AttachError, ReceiveError, SendError};
use super::layout::QueueLayout;
use super::poison::Poison;
use super::slot::Kind;
use crate::region::{AccessError, Clock, RegionAccess};

/// The L2 end of a queue, over the region that `A` reaches, with a window of `N` inputs: 1 to the depth. `M` is storage of one
/// `u64` for each slot of the ring, an array or a slice, lent or owned: where the outputs in flight lie.
///
/// Every operation on an end that has ended answers [`Poisoned`](ReceiveError::Poisoned) with the first cause; dropping it or
/// [`into_access`](Self::into_access) always works.
pub struct L2End<A, M, const N: usize>(End<A, M, N>);

impl<A: RegionAccess, M: AsRef<[u64]> + AsMut<[u64]>, const N: usize> L2End<A, M, N> {
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
        End::l2(layout, access, marks, counts).map(Self)
    }

    /// Receives the next input, if one is there now. STOP is received as any other, and has a place even when the window is full.
    ///
    /// # Errors
    /// [`ReceiveError`]; [`ReceiveError::Empty`] and [`ReceiveError::WindowFull`] are ordinary answers, and so is
    /// [`ReceiveError::Stopped`] after STOP.
    #[inline]
    pub fn try_receive(&mut self) -> Result<Message, ReceiveError> {
        self.0.try_receive()
    }

    /// Receives the next input as soon as one is there, within a limit; a limit of 0 is one look.
    ///
    /// # Errors
    /// [`ReceiveError`]; [`ReceiveError::TimedOut`] is an ordinary answer. A full window answers at once.
    pub fn receive(&mut self, limit: Duration, clock: &mut impl Clock) -> Result<Message, ReceiveError> {
        self.0.receive_within(limit, clock, End::try_receive)
    }

    /// Copies an input's bytes to the start of `out` and says how many they are.
    ///
    /// # Errors
    /// [`ReceiveError`]; [`ReceiveError::TooSmall`] when `out` cannot hold them; a handle that is not current poisons.
    #[inline]
    pub fn read_into(&mut self, handle: Handle, out: &mut [u8]) -> Result<usize, ReceiveError> {
        self.0.read_into(handle, out)
    }

    /// Is done with an input, in any order. Slots and bytes go back to L3 as soon as no older input is still held.
    ///
    /// # Errors
    /// [`ReceiveError`]; a handle that is not current poisons.
    #[inline]
    pub fn release(&mut self, handle: Handle) -> Result<(), ReceiveError> {
        self.0.release(handle)
    }

    /// STOP was received and released, and so was every input before it.
    #[must_use]
    pub const fn is_drained(&self) -> bool {
        self.0.is_drained()
    }

    /// Reserves room for an output of at most `nbytes` bytes, to be written in its place. One reservation can be open at a time.
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

    /// Writes bytes of a reserved output, `start` bytes from its start.
    ///
    /// # Errors
    /// [`SendError`]; a reservation that is not open poisons.
    pub fn write(&mut self, reservation: &Reservation, start: u64, bytes: &[u8]) -> Result<(), SendError> {
        self.0.write(reservation.number(), start, bytes)
    }

    /// Sends the first `nbytes` bytes of a reserved output.
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

    /// Sends an output whose bytes are at hand, if there is room now.
    ///
    /// # Errors
    /// [`SendError`]; [`SendError::Full`] is an ordinary answer.
    #[inline]
    pub fn try_send(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), SendError> {
        self.0.try_send(kind, bytes)
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
        self.0.send_within(limit, clock, |end| end.try_send(kind, bytes))
    }

    /// Gives up: this side's abort flag is set, and every later operation but cleanup is refused.
    ///
    /// # Errors
    /// The memory could not be reached to set the flag; calling again tries again.
    pub fn abort(&mut self) -> Result<(), AccessError> {
        self.0.abort()
    }

    /// L3 gave up.
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
