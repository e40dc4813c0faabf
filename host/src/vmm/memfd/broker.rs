//! The owner's broker: the local socket by which importers get at what the owner exports.
//!
//! Each connection carries one request and one answer. Nothing here waits for a client: one that connects and is silent only takes
//! a place, and when places are few the oldest one has to go.

use core::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bufabi_core::Code;
use zerocopy::IntoBytes;

use super::MemfdDriver;
use super::exports::Exports;
use super::protocol::{RawReply, RawRequest, Refusal, address};
use crate::sys::event::{Doorbell, Watch};
use crate::sys::process::current_pid;
use crate::sys::{OsError, socket};
use crate::vmm::VmmError;
use crate::vmm::placement::check_creator;

/// Connections that have not asked yet, at most.
const PLACES: usize = 64;
/// Connections that wait to be accepted, at most: the kernel makes importers wait beyond it.
const BACKLOG: i32 = 128;
/// Connections that are accepted before those that are there are looked after.
const ACCEPTS_AT_ONCE: usize = 16;
/// The token of the listener; connections have their place's number.
const LISTENER: u64 = u64::MAX;

/// An owner's broker. It belongs to the process that made it; a fork that keeps a copy must drop it, and never serves.
///
/// It is served by the owner's event loop, through [`fd`](Self::fd) and [`serve_ready`](Self::serve_ready), or by a
/// [thread](Self::spawn) of its own: a process that forks workers without exec has only one thread, so it takes the first.
#[derive(Debug)]
pub struct Broker {
    exports: Arc<Mutex<Exports>>,
    listener: OwnedFd,
    /// Given up for a moment when no descriptor is left, to turn away whoever waits.
    spare: Option<OwnedFd>,
    watch: Watch,
    places: [Option<Connection>; PLACES],
    accepted: u64,
    creator: u32,
}

#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    /// How many were accepted before it.
    number: u64,
}

/// What a step of serving did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Imports that were consented to.
    pub consents: u64,
    /// Requests that were refused, broken ones included.
    pub refusals: u64,
    /// Connections that ended with no answer: closed by the importer, or by the broker for want of room.
    pub dropped: u64,
}

impl Broker {
    /// Listens at the address of the driver's endpoint.
    ///
    /// # Errors
    /// [`BrokerError::AddressTaken`], [`BrokerError::Os`], [`BrokerError::Vmm`] with [`VmmError::Forked`].
    pub fn new(driver: &MemfdDriver) -> Result<Self, BrokerError> {
        check_creator(driver.creator)?;
        let listener =
            socket::listen(&address(driver.owner_instance_id), BACKLOG).map_err(|error| match error {
                OsError { errno: libc::EADDRINUSE, .. } => BrokerError::AddressTaken,
                error => BrokerError::Os(error),
            })?;
        let watch = Watch::new()?;
        watch.add_socket(listener.as_fd(), LISTENER)?;
        let spare = spare(&listener)?;
        Ok(Self {
            exports: Arc::clone(&driver.exports),
            listener,
            spare: Some(spare),
            watch,
            places: [const { None }; PLACES],
            accepted: 0,
            creator: current_pid(),
        })
    }

    /// What an event loop waits for: it can be read when [`serve_ready`](Self::serve_ready) has something to do.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }

    /// Answers whoever has asked by now, and never waits. A flood of clients is served a part at a time.
    ///
    /// # Errors
    /// [`BrokerError::Vmm`] with [`VmmError::Forked`], [`BrokerError::Os`]; what was answered stays answered.
    pub fn serve_ready(&mut self) -> Result<Served, BrokerError> {
        check_creator(self.creator)?;
        let mut served = Served::default();
        let mut tokens = [None; PLACES];
        let mut count = 0_usize;
        self.watch.wait(Some(Instant::now()), |token| {
            if let Some(slot) = tokens.get_mut(count) {
                *slot = Some(token);
                count = count.saturating_add(1);
            }
        })?;
        // Those that have asked go first: a flood of new ones cannot take their places before they are answered.
        for token in tokens.into_iter().flatten().filter(|token| *token != LISTENER) {
            self.answer_place(token, &mut served);
        }
        if tokens.contains(&Some(LISTENER)) {
            self.accept_some(&mut served)?;
        }
        Ok(served)
    }

    /// Serves from a thread of its own until that is dropped.
    ///
    /// # Errors
    /// [`BrokerError::Os`]: EAGAIN when no further thread can be.
    pub fn spawn(self) -> Result<BrokerThread, BrokerError> {
        let stop = Arc::new(Doorbell::new()?);
        let watch = Watch::new()?;
        watch.add_watch(self.fd(), 0)?;
        watch.add_doorbell(&stop, 1)?;
        let creator = self.creator;
        let thread = std::thread::Builder::new()
            .name("bufabi-broker".to_owned())
            .spawn(move || serve_until_stopped(self, &watch))
            .map_err(|error| OsError::from_io("pthread_create", &error))?;
        Ok(BrokerThread { stop, thread: Some(thread), creator })
    }

    fn accept_some(&mut self, served: &mut Served) -> Result<(), BrokerError> {
        for _ in 0..ACCEPTS_AT_ONCE {
            let accepted = match socket::accept(self.listener.as_fd()) {
                Err(OsError { errno: libc::EMFILE | libc::ENFILE, .. }) => {
                    return self.turn_one_away(served);
                }
                accepted => accepted?,
            };
            let Some(socket) = accepted else { break };
            // Most have asked by the time they are accepted.
            match self.answer(socket.as_fd(), served) {
                Answered::NotYet => self.keep(socket, served)?,
                Answered::Done => {}
            }
        }
        Ok(())
    }

    /// No descriptor is left for whoever waits. Left waiting, it would keep the event loop awake for ever.
    fn turn_one_away(&mut self, served: &mut Served) -> Result<(), BrokerError> {
        self.spare = None;
        let turned_away = socket::accept(self.listener.as_fd()).map(|socket| match socket {
            Some(socket) => {
                // What it asks is of no interest, but left unread it would be answered with a reset.
                let _ = socket::receive(socket.as_fd(), &mut [0; RawRequest::SIZE]);
                let refusal = RawReply::refusal(Refusal::NoFileDescriptor);
                // Closed at once, so that there is room for the next one's.
                socket::send(socket.as_fd(), refusal.as_bytes(), None).is_ok()
            }
            None => false,
        });
        self.spare = spare(&self.listener).ok();
        // Somebody else in this process may have taken the spare one's place: whoever waits then waits on.
        served.refusals = served.refusals.saturating_add(u64::from(turned_away?));
        Ok(())
    }

    /// Keeps a connection until it asks, in a place that is free or that the oldest one has to give up.
    fn keep(&mut self, socket: OwnedFd, served: &mut Served) -> Result<(), BrokerError> {
        let number = self.accepted;
        self.accepted = number.saturating_add(1);
        // A free place counts as the oldest of all.
        let age = |place: &Option<Connection>| place.as_ref().map(|connection| connection.number);
        let place = self.places.iter().map(age).enumerate().min_by_key(|(_, age)| *age);
        let Some((index, age)) = place else { return Ok(()) };
        served.dropped = served.dropped.saturating_add(u64::from(age.is_some()));
        if let Some(oldest) = self.places.get_mut(index).and_then(Option::take) {
            self.close(oldest);
        }
        self.watch.add_socket(socket.as_fd(), u64::try_from(index).unwrap_or(LISTENER))?;
        if let Some(place) = self.places.get_mut(index) {
            *place = Some(Connection { socket, number });
        }
        Ok(())
    }

    fn answer_place(&mut self, token: u64, served: &mut Served) {
        let index = usize::try_from(token).unwrap_or(usize::MAX);
        let Some(connection) = self.places.get_mut(index).and_then(Option::take) else { return };
        match self.answer(connection.socket.as_fd(), served) {
            Answered::Done => self.close(connection),
            Answered::NotYet => {
                if let Some(place) = self.places.get_mut(index) {
                    *place = Some(connection);
                }
            }
        }
    }

    /// Watches a connection no longer and closes it. A fork of this process may have a copy of its descriptor, so closing it
    /// would not end the watching.
    fn close(&self, connection: Connection) {
        // It is watched, so this cannot fail; if it did, the watch would tell of a place that is empty.
        let _ = self.watch.remove(connection.socket.as_fd());
    }

    /// Answers one connection if it has asked.
    fn answer(&self, socket: BorrowedFd<'_>, served: &mut Served) -> Answered {
        // One byte more than a request has, so that a longer one is seen to be longer.
        let mut bytes = [0; RawRequest::SIZE + 1];
        let received = match socket::receive(socket, &mut bytes) {
            Ok(None) => return Answered::NotYet,
            Ok(Some(received)) if received.length > 0 => received,
            Ok(Some(_)) | Err(_) => {
                served.dropped = served.dropped.saturating_add(1);
                return Answered::Done;
            }
        };
        let has_fds = received.fd.is_some() || received.has_more_fds;
        let handle = bytes.get(..received.length).and_then(RawRequest::decode);
        let consent = match (handle, socket::peer(socket)) {
            (Some(handle), Ok(peer)) if !has_fds => {
                self.exports.lock().unwrap_or_else(PoisonError::into_inner).consent(handle, peer.pid)
            }
            (_, _) => Err(Refusal::RequestBroken),
        };
        let sent = match &consent {
            Ok((export, file)) => {
                socket::send(socket, RawReply::consent(export).as_bytes(), Some(file.as_fd()))
            }
            Err(refusal) => socket::send(socket, RawReply::refusal(*refusal).as_bytes(), None),
        };
        let counter = match (sent, consent) {
            (Err(_), _) => &mut served.dropped,
            (Ok(()), Ok(_)) => &mut served.consents,
            (Ok(()), Err(_)) => &mut served.refusals,
        };
        *counter = counter.saturating_add(1);
        Answered::Done
    }
}

enum Answered {
    NotYet,
    Done,
}

/// A descriptor for bad times.
fn spare(listener: &OwnedFd) -> Result<OwnedFd, OsError> {
    listener.try_clone().map_err(|error| OsError::from_io("fcntl(F_DUPFD_CLOEXEC)", &error))
}

/// A broker that serves from a thread of its own, until this is dropped; dropped in a fork of the process, it does nothing.
#[derive(Debug)]
pub struct BrokerThread {
    stop: Arc<Doorbell>,
    thread: Option<JoinHandle<()>>,
    creator: u32,
}

/// How long a broker rests when its process has run out of something: without it the thread would never sleep.
const REST: Duration = Duration::from_millis(10);

fn serve_until_stopped(mut broker: Broker, watch: &Watch) {
    loop {
        let mut is_stopped = false;
        let woken = watch.wait(None, |token| is_stopped |= token == 1);
        if is_stopped {
            return;
        }
        if woken.is_err() || broker.serve_ready().is_err() {
            std::thread::sleep(REST);
        }
    }
}

impl Drop for BrokerThread {
    fn drop(&mut self) {
        if check_creator(self.creator).is_ok()
            && self.stop.ring().is_ok()
            && let Some(thread) = self.thread.take()
        {
            // It ends by itself; whether it panicked is of no use to anybody here.
            let _ = thread.join();
        }
    }
}

/// Why a broker cannot serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerError {
    /// Somebody listens at the endpoint's address already.
    AddressTaken,
    /// A call of the operating system failed.
    Os(OsError),
    /// The driver is of another process.
    Vmm(VmmError),
}

impl BrokerError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::AddressTaken => Code::VmmAddressTaken,
            Self::Os(error) => error.code(),
            Self::Vmm(error) => error.code(),
        }
    }
}

impl From<OsError> for BrokerError {
    fn from(error: OsError) -> Self {
        Self::Os(error)
    }
}

impl From<VmmError> for BrokerError {
    fn from(error: VmmError) -> Self {
        Self::Vmm(error)
    }
}

impl fmt::Display for BrokerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressTaken => f.write_str("somebody listens at this endpoint's address already"),
            Self::Os(error) => error.fmt(f),
            Self::Vmm(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BrokerError {}
