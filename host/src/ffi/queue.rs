//! The host's end of a message queue.

use core::ffi::c_void;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bufabi_core::Code;
use bufabi_core::queue::{
    AttachError, Handle, L3End, Message as Received, QueueLayout, QueueView, ReceiveError, SendError,
};
use bufabi_core::region::{Patience, RegionAccess, RegionView, Watch};
use zerocopy::{FromBytes, Immutable};

use super::boundary::{answer, noted};
use super::handle::{Kind, Table};
use super::message::{Message, QueueReservation, described, kind, opcode};
use super::parameter::{Out, OutSlice, apart_from, given, given_slice, span_of};
use super::region::{RegionHandle, memory};
use super::status::Status;
use crate::region::{RegionMemory, SleepingClock};
use crate::sys::memory::slots;
use crate::sys::process::Process;

/// The host's end of a queue. 0 is none.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct QueueHandle {
    /// Nothing to be read into.
    pub token: u64,
}

struct End {
    end: L3End<RegionMemory, Box<[u64]>>,
    clock: SleepingClock,
    /// Where PAYLOAD is mapped; 0 when it is not.
    base: u64,
    /// A piece of a message on its way to C.
    piece: Box<[u8]>,
}

/// Bytes of a message that are on their way to C at once. A multiple of 8: pieces are whole words of the region.
const PIECE: usize = 64 << 10;

static TABLE: Table<Mutex<End>> = Table::new(Kind::Queue);

/// Works with an end, alone.
fn with<T>(queue: QueueHandle, work: impl FnOnce(&mut End) -> Result<T, Code>) -> Result<T, Code> {
    let queue = TABLE.get(queue.token)?;
    // An end's steps are whole, so a panic elsewhere leaves it as it should be.
    work(&mut queue.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Tries until something else comes of it than that there is nothing to do yet, or the limit is over. Between two tries nobody keeps the
/// end, so that another thread can send, receive or give up meanwhile, and each try sees what it did.
fn within<T>(
    queue: QueueHandle,
    limit_ns: u64,
    mut attempt: impl FnMut(&mut End) -> Result<T, Refused>,
) -> Result<T, Code> {
    let queue = TABLE.get(queue.token)?;
    // As in the core: a wait is refused once the other side gave up, and a try does what it still can.
    if limit_ns > 0 {
        let end = &queue.lock().unwrap_or_else(PoisonError::into_inner).end;
        if end.poison().is_none() && end.peer_aborted().map_err(|error| noted(error.code(), &error))? {
            return Err(not_received(ReceiveError::PeerAborted));
        }
    }
    let mut patience = Patience::new(Duration::from_nanos(limit_ns));
    let mut clock = None;
    loop {
        let mut end = queue.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = match attempt(&mut end) {
            Ok(done) => return Ok(done),
            Err(refused) => refused,
        };
        let Some(watch) = refused.watch(&end.end) else { return Err(refused.noted()) };
        let clock = clock.get_or_insert_with(|| end.clock.clone());
        drop(end);
        if !patience.again(clock, watch) {
            return Err(refused.noted());
        }
    }
}

/// Why a try of a waiting call did not go through.
enum Refused {
    Send(SendError),
    Receive(ReceiveError),
}

impl Refused {
    /// What to wait for, when it may go through later.
    fn watch(&self, end: &L3End<RegionMemory, Box<[u64]>>) -> Option<Watch> {
        match self {
            Self::Send(SendError::TimedOut(_)) => Some(end.room_watch()),
            Self::Receive(ReceiveError::TimedOut) => Some(end.message_watch()),
            Self::Send(_) | Self::Receive(_) => None,
        }
    }

    fn noted(self) -> Code {
        match self {
            Self::Send(error) => not_sent(error),
            Self::Receive(error) => not_received(error),
        }
    }
}

fn not_sent(error: SendError) -> Code {
    noted(error.code(), &error)
}

fn not_received(error: ReceiveError) -> Code {
    noted(error.code(), &error)
}

impl End {
    /// Where a place of PAYLOAD is mapped.
    const fn address(&self, offset: u64) -> u64 {
        if self.base == 0 { 0 } else { self.base.saturating_add(offset) }
    }

    /// The oldest output, if one is there now.
    fn peek(&mut self) -> Result<Received, Refused> {
        self.end.peek(Duration::ZERO, &mut self.clock).map_err(Refused::Receive)
    }

    /// Copies a message to C, and says how many bytes it has.
    fn read(&mut self, handle: Handle, out: &OutSlice<'_, u8>, nbytes: &Out<'_, usize>) -> Result<(), Code> {
        let place = self.end.place(handle).map_err(not_received)?;
        let needed = usize::try_from(place.nbytes).map_err(|_| Code::Length)?;
        nbytes.set(needed);
        if needed > out.len() {
            let (needed, capacity) = (place.nbytes, out.len());
            return Err(not_received(ReceiveError::TooSmall { needed, capacity }));
        }
        // What is the caller's is no slice of ours, and a message may be larger than what memory is left.
        let starts = (0..needed).step_by(PIECE).zip((place.offset..u64::MAX).step_by(PIECE));
        for (start, offset) in starts {
            let count = needed.saturating_sub(start).min(PIECE);
            let piece = self.piece.get_mut(..count).ok_or(Code::Internal)?;
            let read = self.end.access().read(offset, piece);
            read.map_err(|error| not_received(ReceiveError::Access(error)))?;
            out.set_from(start, piece);
        }
        Ok(())
    }
}

fn input_kind(number: i32) -> Result<bufabi_core::queue::Kind, Code> {
    kind(number).map_err(|code| {
        noted(
            code,
            &format_args!("an input is DATA 1 or ERROR 3, and STOP has a call of its own; found {number}"),
        )
    })
}

fn layout(depth: u64, input_arena_bytes: u64, output_arena_bytes: u64) -> Result<QueueLayout, Code> {
    QueueLayout::new(depth, input_arena_bytes, output_arena_bytes)
        .map_err(|error| noted(error.code(), &error))
}

/// The bytes that a region needs for a queue with rings of `depth` slots, a power of two, and arenas of so many bytes, multiples of 64.
///
/// # Safety
/// `payload_bytes` and `counter_bytes` each point to a uint64_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_bytes(
    depth: u64,
    input_arena_bytes: u64,
    output_arena_bytes: u64,
    payload_bytes: *mut u64,
    counter_bytes: *mut u64,
) -> Status {
    answer("queue_bytes", || {
        // SAFETY: the caller's promise above.
        let payload = unsafe { Out::new(payload_bytes) }?;
        // SAFETY: the caller's promise above.
        let counter = unsafe { Out::new(counter_bytes) }?;
        apart_from(&[payload.span(), counter.span()], &[])?;
        let layout = layout(depth, input_arena_bytes, output_arena_bytes)?;
        payload.set(layout.payload_bytes());
        counter.set(layout.counter_bytes());
        Ok(())
    })
}

/// The twelve scalars by which a task is told of a queue in a region: `region` is the region's six, with the addresses that the task
/// has for it.
///
/// # Safety
/// `region` points to six numbers that nobody writes during the call, `scalars` to twelve that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_scalars(
    region: *const u64,
    depth: u64,
    input_arena_bytes: u64,
    output_arena_bytes: u64,
    scalars: *mut u64,
) -> Status {
    answer("queue_scalars", || {
        // SAFETY: the caller's promise above.
        let region = unsafe { given(region.cast::<[u64; RegionView::SCALARS]>()) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { OutSlice::new(scalars, QueueView::SCALARS) }?;
        apart_from(&[out.span()], &[span_of(region)])?;
        let region = RegionView::from_scalars(*region).map_err(|error| noted(error.code(), &error))?;
        let layout = layout(depth, input_arena_bytes, output_arena_bytes)?;
        let view = QueueView::new(region, layout).map_err(|error| noted(error.code(), &error))?;
        out.set(&view.to_scalars());
        Ok(())
    })
}

/// Attaches the host's end to a queue in a region whose counters are zero. When `peer_pid` is not 0, that process is watched: when it has
/// ended, every call that waits, and any later one, answers `worker_died` within a second.
///
/// # Safety
/// `queue` points to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_attach(
    region: RegionHandle,
    depth: u64,
    input_arena_bytes: u64,
    output_arena_bytes: u64,
    peer_pid: i32,
    queue: *mut QueueHandle,
) -> Status {
    answer("queue_attach", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(queue) }?;
        let layout = layout(depth, input_arena_bytes, output_arena_bytes)?;
        let (memory, base) = memory(region)?;
        // First of all: the marks are a word for each slot, and a depth that no region holds may be more than there is memory for.
        let (found, needed) = (memory.payload_bytes(), layout.payload_bytes());
        if found < needed {
            let error = AttachError::PayloadBytes { found, needed };
            return Err(noted(error.code(), &error));
        }
        let mut clock = SleepingClock::new(&memory).map_err(|error| noted(error.code(), &error))?;
        if peer_pid != 0 {
            let watched = Process::open(peer_pid).and_then(|peer| clock.watching(&peer));
            clock = watched.map_err(|error| noted(error.code(), &error))?;
        }
        let depth = usize::try_from(layout.depth()).map_err(|_| Code::Length)?;
        let marks = slots(depth, || 0).map_err(|error| noted(error.code(), &error))?;
        let piece = slots(PIECE, || 0).map_err(|error| noted(error.code(), &error))?;
        let end = L3End::new(layout, memory, marks).map_err(|error| noted(error.code(), &error))?;
        let end = End { end, clock, base, piece };
        out.set(QueueHandle { token: TABLE.insert(Mutex::new(end))? });
        Ok(())
    })
}

/// Detaches, whatever happened. The region stays. A call that waits in another thread ends at its limit; `bufabi_queue_abort` before ends
/// it at once.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_queue_detach(queue: QueueHandle) -> Status {
    answer("queue_detach", || TABLE.remove(queue.token).map(drop))
}

/// Sends the `len` bytes at `bytes` as an input of that kind, one of `BUFABI_QUEUE_...`, as soon as there is room, for `limit_ns`
/// nanoseconds; 0 is one try. Ordinary answers: `timed_out`, and `queue_stopped` after STOP. A message of more bytes than the arena is
/// `message_too_large`.
///
/// # Safety
/// `bytes` points to `len` bytes that nobody writes during the call; it may be NULL when that is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_enqueue(
    queue: QueueHandle,
    kind: i32,
    bytes: *const c_void,
    len: usize,
    limit_ns: u64,
) -> Status {
    answer("queue_enqueue", || {
        // SAFETY: the caller's promise above.
        let bytes = unsafe { given_slice(bytes.cast::<u8>(), len) }?;
        let kind = input_kind(kind)?;
        within(queue, limit_ns, |End { end, clock, .. }| {
            end.enqueue(kind, bytes, Duration::ZERO, clock).map_err(Refused::Send)
        })
    })
}

/// Sends STOP as soon as there is a slot, for `limit_ns` nanoseconds; 0 is one try. After it no input can be sent.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_queue_request_stop(queue: QueueHandle, limit_ns: u64) -> Status {
    answer("queue_request_stop", || {
        within(queue, limit_ns, |End { end, clock, .. }| {
            end.request_stop(Duration::ZERO, clock).map_err(Refused::Send)
        })
    })
}

/// The oldest output that was not released, as soon as one is there, for `limit_ns` nanoseconds; 0 is one look. It stays until it is
/// released. Ordinary answer: `timed_out`.
///
/// # Safety
/// `message` points to a value that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_peek(
    queue: QueueHandle,
    limit_ns: u64,
    message: *mut Message,
) -> Status {
    answer("queue_peek", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(message) }?;
        within(queue, limit_ns, |queue| {
            let message = queue.peek()?;
            out.set(described(&message, queue.address(message.place().offset)));
            Ok(())
        })
    })
}

/// Copies an output's bytes, each read once, to the `capacity` bytes at `out`, which may be NULL when that is 0. `*nbytes` is how many
/// the output has, also when they are more than `capacity` and nothing is copied: `buffer_too_small`. A handle that is not current ends
/// the queue.
///
/// # Safety
/// `out` points to `capacity` bytes that may be written, `nbytes` to a size_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_read(
    queue: QueueHandle,
    handle: u64,
    out: *mut c_void,
    capacity: usize,
    nbytes: *mut usize,
) -> Status {
    answer("queue_read", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { OutSlice::new(out.cast::<u8>(), capacity) }?;
        // SAFETY: the caller's promise above.
        let nbytes = unsafe { Out::new(nbytes) }?;
        apart_from(&[out.span(), nbytes.span()], &[])?;
        with(queue, |queue| queue.read(Handle::from_number(handle), &out, &nbytes))
    })
}

/// Gives an output's slot and bytes back to the task. A handle that is not current ends the queue.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_queue_release(queue: QueueHandle, handle: u64) -> Status {
    answer("queue_release", || {
        with(queue, |queue| queue.end.release(Handle::from_number(handle)).map_err(not_received))
    })
}

/// Copies the next output to the `capacity` bytes at `out` and releases it, as soon as one is there, for `limit_ns` nanoseconds; 0 is
/// one look. `*opcode` is DATA 1 or ERROR 3, `*nbytes` how many bytes it has, also when they are more than `capacity` and it stays
/// where it is: `buffer_too_small`.
///
/// # Safety
/// `out` points to `capacity` bytes that may be written, `opcode` to a uint64_t, `nbytes` to a size_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_dequeue(
    queue: QueueHandle,
    out: *mut c_void,
    capacity: usize,
    limit_ns: u64,
    opcode: *mut u64,
    nbytes: *mut usize,
) -> Status {
    answer("queue_dequeue", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { OutSlice::new(out.cast::<u8>(), capacity) }?;
        // SAFETY: the caller's promise above.
        let what = unsafe { Out::new(opcode) }?;
        // SAFETY: the caller's promise above.
        let nbytes = unsafe { Out::new(nbytes) }?;
        apart_from(&[out.span(), what.span(), nbytes.span()], &[])?;
        within(queue, limit_ns, |queue| {
            let message = queue.peek()?;
            Ok(queue.read(message.handle(), &out, &nbytes).and_then(|()| {
                what.set(self::opcode(message.opcode()));
                queue.end.release(message.handle()).map_err(not_received)
            }))
        })?
    })
}

/// Reserves room for an input of at most `nbytes` bytes, as soon as there is some, for `limit_ns` nanoseconds; 0 is one try. One
/// reservation can be open at a time. Answers as `bufabi_queue_enqueue` does.
///
/// # Safety
/// `reservation` points to a value that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_reserve(
    queue: QueueHandle,
    nbytes: u64,
    limit_ns: u64,
    reservation: *mut QueueReservation,
) -> Status {
    answer("queue_reserve", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(reservation) }?;
        within(queue, limit_ns, |queue| {
            let reserved =
                queue.end.reserve(nbytes, Duration::ZERO, &mut queue.clock).map_err(Refused::Send)?;
            let (number, address) = (reserved.number(), queue.address(reserved.place().offset));
            out.set(QueueReservation { number, address, nbytes });
            Ok(())
        })
    })
}

/// Copies bytes into a reserved input, `start` bytes from its start. What is written at the reservation's address needs no copy. A
/// number that is not the open reservation's ends the queue.
///
/// # Safety
/// `bytes` points to `len` bytes that nobody writes during the call; it may be NULL when that is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_write(
    queue: QueueHandle,
    number: u64,
    start: u64,
    bytes: *const c_void,
    len: usize,
) -> Status {
    answer("queue_write", || {
        // SAFETY: the caller's promise above.
        let bytes = unsafe { given_slice(bytes.cast::<u8>(), len) }?;
        with(queue, |queue| queue.end.write_reserved(number, start, bytes).map_err(not_sent))
    })
}

/// Sends the first `nbytes` bytes of a reserved input. A number that is not the open reservation's ends the queue.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_queue_commit(queue: QueueHandle, number: u64, kind: i32, nbytes: u64) -> Status {
    answer("queue_commit", || {
        let kind = input_kind(kind)?;
        with(queue, |queue| queue.end.commit_reserved(number, kind, nbytes).map_err(not_sent))
    })
}

/// Gives a reservation up: nothing was sent, and its room is free again. A number that is not the open reservation's ends the queue.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_queue_cancel(queue: QueueHandle, number: u64) -> Status {
    answer("queue_cancel", || with(queue, |queue| queue.end.cancel_reserved(number).map_err(not_sent)))
}

/// Gives up: the task sees it, and every later call but `bufabi_queue_detach` is refused as `queue_aborted`, as is, within about a
/// millisecond, one that waits in another thread.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_queue_abort(queue: QueueHandle) -> Status {
    answer("queue_abort", || {
        with(queue, |queue| queue.end.abort().map_err(|error| noted(error.code(), &error)))
    })
}

/// Writes 1 to `*aborted` when the task gave up, else 0.
///
/// # Safety
/// `aborted` points to an int32_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_peer_aborted(queue: QueueHandle, aborted: *mut i32) -> Status {
    answer("queue_peer_aborted", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(aborted) }?;
        with(queue, |queue| {
            let has_aborted = queue.end.peer_aborted().map_err(|error| noted(error.code(), &error))?;
            out.set(i32::from(has_aborted));
            Ok(())
        })
    })
}

/// The first cause, when the queue has ended here; 0 while it has not.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_queue_poison(queue: QueueHandle) -> Status {
    answer("queue_poison", || {
        with(queue, |queue| queue.end.poison().map_or(Ok(()), |poison| Err(noted(poison.code(), &poison))))
    })
}
