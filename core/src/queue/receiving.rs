//! What an end does to receive: try, wait, copy out, give back.

use core::time::Duration;

use super::consumer::{Handle, Message, Outcome, WindowPlace};
use super::end::QueueEnd;
use super::error::ReceiveError;
use super::poison::Setback;
use super::ring::low;
use super::side::{Direction, Side};
use crate::region::{Clock, Patience, Place, RegionAccess, Watch};

impl<A, M, W, S> QueueEnd<A, M, W, S>
where
    A: RegionAccess,
    M: AsRef<[u64]> + AsMut<[u64]>,
    W: AsRef<[WindowPlace]> + AsMut<[WindowPlace]>,
    S: Side,
{
    /// Where the bytes of a message lie that was received and not released.
    ///
    /// # Errors
    /// [`ReceiveError`]; a handle that is not current poisons.
    #[inline]
    pub fn place(&mut self, handle: Handle) -> Result<Place, ReceiveError> {
        self.check_alive::<ReceiveError>()?;
        match self.consumer.place(handle) {
            Ok(place) => Ok(place),
            Err(poison) => Err(self.fail(poison.into())),
        }
    }

    /// Copies a message's bytes to the start of `out` and says how many they are.
    ///
    /// # Errors
    /// [`ReceiveError`]; [`ReceiveError::TooSmall`] when `out` cannot hold them; a handle that is not current poisons.
    #[inline]
    pub fn read_into(&mut self, handle: Handle, out: &mut [u8]) -> Result<usize, ReceiveError> {
        let place = self.place(handle)?;
        let capacity = out.len();
        let out = usize::try_from(place.nbytes).ok().and_then(|nbytes| out.get_mut(..nbytes));
        let out = out.ok_or(ReceiveError::TooSmall { needed: place.nbytes, capacity })?;
        if !out.is_empty() {
            self.access.read(place.offset, out).map_err(ReceiveError::Access)?;
        }
        Ok(out.len())
    }

    /// Is done with a message. Slots and bytes go back to the other side as soon as no older message is still held.
    ///
    /// # Errors
    /// [`ReceiveError`]; a handle that is not current poisons.
    #[inline]
    pub fn release(&mut self, handle: Handle) -> Result<(), ReceiveError> {
        self.check_alive::<ReceiveError>()?;
        let released = self.consumer.give_back(&self.access, handle);
        self.tell_given_back(released)
    }

    /// As [`release`](Self::release), of several, after which the other side is told once.
    ///
    /// # Errors
    /// [`ReceiveError`]; after [`ReceiveError::Access`] none is released. At the first handle that is not current the queue ends;
    /// those before it are released.
    pub fn release_all(&mut self, handles: &[Handle]) -> Result<(), ReceiveError> {
        self.check_alive::<ReceiveError>()?;
        let released = self.consumer.give_all_back(&self.access, handles);
        self.tell_given_back(released)
    }

    /// Tells the other side of what is given back, also when `so_far` says that something was not.
    #[inline]
    pub(super) fn tell_given_back(&mut self, so_far: Result<(), Setback>) -> Result<(), ReceiveError> {
        let told = self.consumer.tell(&self.access);
        match so_far.and(told) {
            Ok(()) => Ok(()),
            Err(setback) => Err(self.fail(setback)),
        }
    }

    /// Receives the next message, if one is there now.
    #[inline]
    pub(super) fn try_receive_next(&mut self) -> Result<Message, ReceiveError> {
        self.check_alive::<ReceiveError>()?;
        match self.receive_sent() {
            Err(ReceiveError::Empty) => match self.peer_goes_on() {
                Ok(true) => Err(ReceiveError::Empty),
                Ok(false) => self.receive_last(ReceiveError::PeerAborted),
                Err(error) => self.receive_last(ReceiveError::Access(error)),
            },
            outcome => outcome,
        }
    }

    #[inline]
    fn receive_sent(&mut self) -> Result<Message, ReceiveError> {
        match self.consumer.receive(&self.access) {
            Ok(Outcome::Message(message)) => Ok(message),
            Ok(Outcome::WindowFull) => Err(ReceiveError::WindowFull { window: self.consumer.capacity() }),
            Ok(Outcome::Stopped) => Err(ReceiveError::Stopped),
            Ok(Outcome::Empty) => Err(ReceiveError::Empty),
            Err(setback) => Err(self.fail(setback)),
        }
    }

    /// The other side has ended, for that reason: what it sent between the look at its count and its end is still received.
    #[cold]
    fn receive_last(&mut self, ended: ReceiveError) -> Result<Message, ReceiveError> {
        self.access.observe(Place::NOTHING).map_err(ReceiveError::Access)?;
        match self.receive_sent() {
            Err(ReceiveError::Empty) => Err(ended),
            outcome => outcome,
        }
    }

    /// The oldest message that was received and not given back, or else the next one.
    #[inline]
    pub(super) fn try_oldest(&mut self) -> Result<Message, ReceiveError> {
        self.check_alive::<ReceiveError>()?;
        match self.consumer.oldest() {
            Some(message) => Ok(message),
            None => self.try_receive_next(),
        }
    }

    /// What to look at for a message after a try that found none, for whoever waits without keeping the end to himself.
    #[inline]
    pub fn message_watch(&self) -> Watch {
        let sleep_flag = Some(S::Receives::CONSUMER_SLEEPS);
        Watch { counter: S::Receives::TAIL, seen: low(self.consumer.tail()), sleep_flag }
    }

    /// Tries until something else comes of it than that no message is there, or the limit is over.
    #[inline]
    pub(super) fn receive_within<T>(
        &mut self,
        limit: Duration,
        clock: &mut impl Clock,
        mut attempt: impl FnMut(&mut Self) -> Result<T, ReceiveError>,
    ) -> Result<T, ReceiveError> {
        self.check_alive::<ReceiveError>()?;
        if !limit.is_zero() && self.peer_aborted().map_err(ReceiveError::Access)? {
            return Err(ReceiveError::PeerAborted);
        }
        let mut patience = Patience::new(limit);
        loop {
            match attempt(self) {
                Err(ReceiveError::Empty) => {
                    if !patience.again(clock, self.message_watch()) {
                        return Err(ReceiveError::TimedOut);
                    }
                }
                outcome => return outcome,
            }
        }
    }
}
