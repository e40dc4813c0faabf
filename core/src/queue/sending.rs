//! What an end does to send: try, wait, reserve and write in place, several at once.

use core::time::Duration;

use super::consumer::WindowPlace;
use super::end::{QueueEnd, Reservation, widen};
use super::error::SendError;
use super::poison::Poison;
use super::producer::Plan;
use super::ring::low;
use super::side::{Direction, Side};
use super::slot::{Kind, Opcode};
use super::untold::Untold;
use crate::region::{Clock, Patience, Place, RegionAccess, Watch};

impl<A, M, W, S> QueueEnd<A, M, W, S>
where
    A: RegionAccess,
    M: AsRef<[u64]> + AsMut<[u64]>,
    W: AsRef<[WindowPlace]> + AsMut<[WindowPlace]>,
    S: Side,
{
    /// Reserves room for a message of at most `nbytes` bytes, to be written in its place. One reservation can be open at a time.
    ///
    /// # Errors
    /// [`SendError`]; [`SendError::Full`] is an ordinary answer.
    pub fn try_reserve(&mut self, nbytes: u64) -> Result<Reservation, SendError> {
        let plan = self.plan(nbytes)?;
        self.open = Some(plan);
        self.reservations = self.reservations.wrapping_add(1);
        Ok(Reservation { number: self.reservations, place: self.producer.place(plan) })
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
        self.send_within(limit, clock, |end| end.try_reserve(nbytes))
    }

    /// Writes bytes of a reserved message, `start` bytes from its start.
    ///
    /// # Errors
    /// [`SendError`]; a reservation that is not open poisons.
    #[inline]
    pub fn write(&mut self, reservation: &Reservation, start: u64, bytes: &[u8]) -> Result<(), SendError> {
        self.write_reserved(reservation.number, start, bytes)
    }

    /// As [`write`](Self::write), by the reservation's number, as it crosses a boundary without types.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_reserved(&mut self, number: u64, start: u64, bytes: &[u8]) -> Result<(), SendError> {
        let plan = self.current(number)?;
        let nbytes = widen(bytes.len());
        if plan.nbytes.checked_sub(start).is_none_or(|room| nbytes > room) {
            return Err(SendError::OutsideReservation { start, nbytes, reserved: plan.nbytes });
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let offset = self.producer.place(plan).offset.wrapping_add(start);
        self.access.write(offset, bytes).map_err(SendError::Access)
    }

    /// Sends the first `nbytes` bytes of a reserved message.
    ///
    /// # Errors
    /// [`SendError`]; a reservation that is not open poisons.
    #[inline]
    pub fn commit(&mut self, reservation: &Reservation, kind: Kind, nbytes: u64) -> Result<(), SendError> {
        self.commit_reserved(reservation.number, kind, nbytes)
    }

    /// As [`commit`](Self::commit), by the reservation's number.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_reserved(&mut self, number: u64, kind: Kind, nbytes: u64) -> Result<(), SendError> {
        let plan = self.current(number)?;
        let Some(shortened) = plan.shortened(nbytes) else {
            return Err(SendError::OutsideReservation { start: 0, nbytes, reserved: plan.nbytes });
        };
        self.send_planned(shortened, kind.opcode())?;
        self.open = None;
        Ok(())
    }

    /// Gives a reservation up. Nothing was sent, and its room is free again.
    ///
    /// # Errors
    /// [`SendError`]; a reservation that is not open poisons.
    #[inline]
    pub fn cancel(&mut self, reservation: &Reservation) -> Result<(), SendError> {
        self.cancel_reserved(reservation.number)
    }

    /// As [`cancel`](Self::cancel), by the reservation's number.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel).
    pub fn cancel_reserved(&mut self, number: u64) -> Result<(), SendError> {
        self.current(number)?;
        self.open = None;
        Ok(())
    }

    fn current(&mut self, number: u64) -> Result<Plan, SendError> {
        self.check_alive::<SendError>()?;
        match self.open {
            Some(plan) if number == self.reservations => Ok(plan),
            _ => Err(self.fail(Poison::Handle { found: number }.into())),
        }
    }

    /// Finds room for a message, or says why there is none. Changes nothing.
    #[inline]
    fn plan(&mut self, nbytes: u64) -> Result<Plan, SendError> {
        self.check_alive::<SendError>()?;
        if self.stop_is_sent {
            return Err(SendError::Stopped);
        }
        if self.open.is_some() {
            return Err(SendError::Reserved);
        }
        // In what is known to be free, a message that is too large has no room either.
        match self.producer.find(nbytes) {
            Ok(plan) => Ok(plan),
            Err(_) => self.plan_anew(nbytes),
        }
    }

    /// As [`plan`](Self::plan), in what is free by now.
    #[cold]
    fn plan_anew(&mut self, nbytes: u64) -> Result<Plan, SendError> {
        let arena_bytes = self.producer.arena_bytes();
        if nbytes > arena_bytes {
            return Err(SendError::TooLarge { nbytes, arena_bytes });
        }
        match self.find_anew(nbytes) {
            Err(SendError::Full(full)) => {
                let ended = match self.peer_goes_on() {
                    Ok(true) => return Err(SendError::Full(full)),
                    Ok(false) => SendError::PeerAborted,
                    Err(error) => SendError::Access(error),
                };
                // What it gave back between the look at its count and its end is room as any other.
                self.access.observe(Place::NOTHING).map_err(SendError::Access)?;
                self.find_anew(nbytes)
                    .map_err(|error| if matches!(error, SendError::Full(_)) { ended } else { error })
            }
            outcome => outcome,
        }
    }

    fn find_anew(&mut self, nbytes: u64) -> Result<Plan, SendError> {
        if let Err(setback) = self.producer.learn(&self.access) {
            return Err(self.fail(setback));
        }
        self.producer.find(nbytes).map_err(SendError::Full)
    }

    /// Sends a message if there is room now.
    #[inline]
    pub(super) fn try_send_one(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), SendError> {
        self.fill(kind, bytes)?;
        self.tell_sent()
    }

    /// Sends messages, in order, as long as there is room now, and tells the other side once.
    pub(super) fn try_send_several<B: AsRef<[u8]>>(
        &mut self,
        kind: Kind,
        messages: impl IntoIterator<Item = B>,
    ) -> Result<usize, SendError> {
        self.check_alive::<SendError>()?;
        let mut filled = Untold::new(self, |end: &mut Self| {
            // Nobody is left who could be told.
            let _ = end.tell_sent();
        });
        for message in messages {
            match filled.end.fill(kind, message.as_ref()) {
                Ok(()) => filled.count = filled.count.wrapping_add(1),
                Err(error) if filled.count == 0 || filled.end.poison.is_some() => {
                    filled.settle();
                    return Err(error);
                }
                // What stopped it is answered when it is tried again.
                Err(_) => break,
            }
        }
        let sent = filled.settle();
        if sent > 0 {
            self.tell_sent()?;
        }
        Ok(sent)
    }

    /// Fills in the next message, of which the other side is told later.
    #[inline]
    fn fill(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), SendError> {
        let plan = self.plan(widen(bytes.len()))?;
        if !bytes.is_empty() {
            self.access.write(self.producer.place(plan).offset, bytes).map_err(SendError::Access)?;
        }
        self.fill_planned(plan, kind.opcode())
    }

    #[inline]
    fn fill_planned(&mut self, plan: Plan, opcode: Opcode) -> Result<(), SendError> {
        match self.producer.fill(&self.access, plan, opcode) {
            Ok(()) => Ok(()),
            Err(setback) => Err(self.fail(setback)),
        }
    }

    #[inline]
    fn tell_sent(&mut self) -> Result<(), SendError> {
        match self.producer.tell(&self.access) {
            Ok(()) => Ok(()),
            Err(setback) => Err(self.fail(setback)),
        }
    }

    #[inline]
    fn send_planned(&mut self, plan: Plan, opcode: Opcode) -> Result<(), SendError> {
        self.fill_planned(plan, opcode)?;
        self.tell_sent()
    }

    pub(super) fn try_stop(&mut self) -> Result<(), SendError> {
        let plan = self.plan(0)?;
        self.send_planned(plan, Opcode::Stop)?;
        self.stop_is_sent = true;
        Ok(())
    }

    /// What to look at for room after a try that found none, for whoever waits without keeping the end to himself.
    #[inline]
    pub fn room_watch(&self) -> Watch {
        let sleep_flag = Some(S::Sends::PRODUCER_SLEEPS);
        Watch { counter: S::Sends::HEAD, seen: low(self.producer.freed()), sleep_flag }
    }

    /// Tries until something else comes of it than a lack of room, or the limit is over.
    #[inline]
    pub(super) fn send_within<T>(
        &mut self,
        limit: Duration,
        clock: &mut impl Clock,
        mut attempt: impl FnMut(&mut Self) -> Result<T, SendError>,
    ) -> Result<T, SendError> {
        self.check_alive::<SendError>()?;
        if !limit.is_zero() && !self.peer_goes_on().map_err(SendError::Access)? {
            return Err(SendError::PeerAborted);
        }
        let mut patience = Patience::new(limit);
        loop {
            match attempt(self) {
                Err(SendError::Full(full)) => {
                    if !patience.again(clock, self.room_watch()) {
                        return Err(SendError::TimedOut(full));
                    }
                }
                outcome => return outcome,
            }
        }
    }
}
