//! Receiving, from C.

use core::ffi::c_void;
use core::slice;

use bufabi_core::Code;
use bufabi_core::queue::{Handle, ReceiveError};

use super::super::argument::Span;
use super::super::boundary::answer;
use super::super::message::{Message, described};
use super::super::status::Status;
use super::{Queue, limit, not_received, state};

/// Receives the next message, as soon as one is there, for `limit_ns` nanoseconds; 0 is one look. STOP is the last one, and has a
/// place even when the window is full. Ordinary answers: `queue_empty` at one look, `timed_out`, `window_full`, and
/// `queue_stopped` after STOP.
///
/// # Safety
/// As for `bufabi_queue_detach`; `message` points to a value that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_receive(
    queue: *mut Queue,
    limit_ns: u64,
    message: *mut Message,
) -> Status {
    answer("queue_receive", || {
        // SAFETY: the caller's promise above.
        let state = unsafe { state(queue, &[Span::of(message)?]) }?;
        let limit = limit(state, limit_ns)?;
        let received = if limit.is_zero() {
            state.end.try_receive()
        } else {
            state.end.receive(limit, &mut state.clock)
        };
        let received = received.map_err(not_received)?;
        let out = described(&received, state.end.access().address(received.place()));
        // SAFETY: not NULL and aligned: checked by Span. Writable: the caller's promise above.
        unsafe { message.write(out) };
        Ok(())
    })
}

/// Copies a message's bytes, each read once, to the `capacity` bytes at `out`, which may be NULL when that is 0. `*nbytes` is how many
/// the message has, also when they are more than `capacity` and nothing is copied: `buffer_too_small`. A handle that is not
/// current ends the queue.
///
/// # Safety
/// As for `bufabi_queue_detach`; `out` points to `capacity` bytes that may be written, `nbytes` to a size_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_read(
    queue: *mut Queue,
    handle: u64,
    out: *mut c_void,
    capacity: usize,
    nbytes: *mut usize,
) -> Status {
    answer("queue_read", || {
        let mut spans = [Span::of(nbytes)?; 2];
        if capacity > 0 {
            spans[1] = Span::check(out, capacity, 1)?;
            super::apart(&spans)?;
        }
        // SAFETY: the caller's promise above.
        let state = unsafe { state(queue, &spans) }?;
        let handle = Handle::from_number(handle);
        let place = state.end.place(handle).map_err(not_received)?;
        let needed = usize::try_from(place.nbytes).map_err(|_| Code::Length)?;
        // SAFETY: not NULL and aligned: checked by Span. Writable: the caller's promise above.
        unsafe { nbytes.write(needed) };
        if needed > capacity {
            return Err(not_received(ReceiveError::TooSmall { needed: place.nbytes, capacity }));
        }
        if needed == 0 {
            return Ok(());
        }
        let out = out.cast::<u8>();
        // SAFETY: `needed` of the `capacity` bytes that may be written: the caller's promise above. Written once before they
        // become a slice, they are values.
        unsafe { out.write_bytes(0, needed) };
        // SAFETY: not NULL, without a wrap and within isize::MAX: checked by Span. Nobody else uses them during the call: the
        // caller's promise above, and that they share no byte with another argument was just checked.
        let out = unsafe { slice::from_raw_parts_mut(out, needed) };
        state.end.read_into(handle, out).map(drop).map_err(not_received)
    })
}

/// Is done with a message, in any order. Its bytes go back to the other side as soon as no older message is still held. A handle
/// that is not current ends the queue.
///
/// # Safety
/// As for `bufabi_queue_detach`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_release(queue: *mut Queue, handle: u64) -> Status {
    answer("queue_release", || {
        // SAFETY: the caller's promise above.
        let state = unsafe { state(queue, &[]) }?;
        state.end.release(Handle::from_number(handle)).map_err(not_received)
    })
}

/// Writes 1 to `*drained` once STOP and every message before it were received and released, else 0.
///
/// # Safety
/// As for `bufabi_queue_detach`; `drained` points to an int32_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_is_drained(queue: *mut Queue, drained: *mut i32) -> Status {
    answer("queue_is_drained", || {
        // SAFETY: the caller's promise above.
        let state = unsafe { state(queue, &[Span::of(drained)?]) }?;
        // SAFETY: not NULL and aligned: checked by Span. Writable: the caller's promise above.
        unsafe { drained.write(i32::from(state.end.is_drained())) };
        Ok(())
    })
}
