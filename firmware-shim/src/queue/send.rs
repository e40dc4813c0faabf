//! Sending, from C.

use core::ffi::c_void;
use core::slice;

use bufabi_core::Code;

use super::super::argument::Span;
use super::super::boundary::answer;
use super::super::message::{QueueReservation, kind};
use super::super::status::Status;
use super::{Queue, State, limit, not_sent, state};

/// Bytes that the caller lends for reading; none where there are none, wherever the pointer points.
///
/// # Safety
/// `bytes` points to `len` readable bytes that nobody writes as long as the slice is used.
unsafe fn lent<'a>(bytes: *const c_void, len: usize) -> Result<&'a [u8], Code> {
    if len == 0 {
        return Ok(&[]);
    }
    Span::check(bytes, len, 1)?;
    // SAFETY: not NULL, without a wrap and within isize::MAX: checked by Span. Readable and unwritten: the caller's promise.
    Ok(unsafe { slice::from_raw_parts(bytes.cast(), len) })
}

/// The end in `queue`, and bytes that are lent beside it.
///
/// # Safety
/// As for [`state`] and [`lent`].
unsafe fn state_and_bytes<'a>(
    queue: *mut Queue,
    bytes: *const c_void,
    len: usize,
) -> Result<(&'static mut State, &'a [u8]), Code> {
    // SAFETY: the caller's promise.
    let lent = unsafe { lent(bytes, len) }?;
    let span = if lent.is_empty() { None } else { Some(Span::check(bytes, len, 1)?) };
    // SAFETY: the caller's promise.
    Ok((unsafe { state(queue, span.as_slice()) }?, lent))
}

/// Sends the `len` bytes at `bytes`, which may be NULL when that is 0, as a message of that kind, as soon as there is room, for
/// `limit_ns` nanoseconds; 0 is one try. Ordinary answers: `ring_full` and `arena_full` at one try, `timed_out`. A message of
/// more bytes than the arena is `message_too_large`.
///
/// # Safety
/// As for `bufabi_queue_detach`; `bytes` points to `len` readable bytes that nobody writes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_send(
    queue: *mut Queue,
    kind: i32,
    bytes: *const c_void,
    len: usize,
    limit_ns: u64,
) -> Status {
    answer("queue_send", || {
        let kind = self::kind(kind)?;
        // SAFETY: the caller's promise above.
        let (state, bytes) = unsafe { state_and_bytes(queue, bytes, len) }?;
        let limit = limit(state, limit_ns)?;
        let sent = if limit.is_zero() {
            state.end.try_send(kind, bytes)
        } else {
            state.end.send(kind, bytes, limit, &mut state.clock)
        };
        sent.map_err(not_sent)
    })
}

/// Reserves room for a message of at most `nbytes` bytes, as soon as there is some, for `limit_ns` nanoseconds; 0 is one try. One
/// reservation can be open at a time. Answers as `bufabi_queue_send` does.
///
/// # Safety
/// As for `bufabi_queue_detach`; `reservation` points to a value that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_reserve(
    queue: *mut Queue,
    nbytes: u64,
    limit_ns: u64,
    reservation: *mut QueueReservation,
) -> Status {
    answer("queue_reserve", || {
        // SAFETY: the caller's promise above.
        let state = unsafe { state(queue, &[Span::of(reservation)?]) }?;
        let limit = limit(state, limit_ns)?;
        let reserved = if limit.is_zero() {
            state.end.try_reserve(nbytes)
        } else {
            state.end.reserve(nbytes, limit, &mut state.clock)
        };
        let reserved = reserved.map_err(not_sent)?;
        let (number, address) = (reserved.number(), state.end.access().address(reserved.place()));
        // SAFETY: not NULL and aligned: checked by Span. Writable: the caller's promise above.
        unsafe { reservation.write(QueueReservation { number, address, nbytes }) };
        Ok(())
    })
}

/// Copies bytes into a reserved message, `start` bytes from its start. What is written at the reservation's address needs no copy. A
/// number that is not the open reservation's ends the queue.
///
/// # Safety
/// As for `bufabi_queue_send`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_write(
    queue: *mut Queue,
    number: u64,
    start: u64,
    bytes: *const c_void,
    len: usize,
) -> Status {
    answer("queue_write", || {
        // SAFETY: the caller's promise above.
        let (state, bytes) = unsafe { state_and_bytes(queue, bytes, len) }?;
        state.end.write_reserved(number, start, bytes).map_err(not_sent)
    })
}

/// Sends the first `nbytes` bytes of a reserved message. A number that is not the open reservation's ends the queue.
///
/// # Safety
/// As for `bufabi_queue_detach`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_commit(
    queue: *mut Queue,
    number: u64,
    kind: i32,
    nbytes: u64,
) -> Status {
    answer("queue_commit", || {
        let kind = self::kind(kind)?;
        // SAFETY: the caller's promise above.
        let state = unsafe { state(queue, &[]) }?;
        state.end.commit_reserved(number, kind, nbytes).map_err(not_sent)
    })
}

/// Gives a reservation up: nothing was sent, and its room is free again. A number that is not the open reservation's ends the queue.
///
/// # Safety
/// As for `bufabi_queue_detach`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_cancel(queue: *mut Queue, number: u64) -> Status {
    answer("queue_cancel", || {
        // SAFETY: the caller's promise above.
        let state = unsafe { state(queue, &[]) }?;
        state.end.cancel_reserved(number).map_err(not_sent)
    })
}
