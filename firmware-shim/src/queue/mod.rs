//! A task's end of the message queue, asked from C: storage that the caller lends, and what is done with an end of either side.
//!
//! The functions that send and receive are in files of their own. One end is used by one thread at a time.

mod memory;
mod receive;
mod send;
#[cfg(test)]
#[expect(clippy::multiple_unsafe_ops_per_block, clippy::as_conversions, reason = "a test calls as C does")]
mod tests;

use core::ptr::without_provenance;
use core::slice;
use core::time::Duration;

use bufabi_core::Code;
use bufabi_core::queue::{Counts, L2, QueueEnd, QueueView, ReceiveError, SendError, WindowPlace};
use bufabi_core::region::Part;
use static_assertions::{const_assert, const_assert_eq};

use super::argument::{Span, apart};
use super::boundary::{answer, noted};
use super::status::Status;
use memory::Memory;

pub use memory::Machine;
pub use receive::{bufabi_queue_is_drained, bufabi_queue_read, bufabi_queue_receive, bufabi_queue_release};
pub use send::{
    bufabi_queue_cancel, bufabi_queue_commit, bufabi_queue_reserve, bufabi_queue_send, bufabi_queue_write,
};

/// Storage for one end of a queue. What is in it is the library's; it must not move while an end is attached.
#[derive(Debug)]
#[repr(C)]
pub struct Queue {
    /// Not to be looked at.
    pub opaque: [u64; 64],
}

/// Storage for one message that an end holds. What is in it is the library's.
#[derive(Debug)]
#[repr(C)]
pub struct QueueWindow {
    /// Not to be looked at.
    pub opaque: [u64; 5],
}

/// What stands in the storage of an end.
#[repr(C)]
struct State {
    mark: u64,
    end: End,
    clock: Machine,
}

type End = QueueEnd<Memory, &'static mut [u64], &'static mut [WindowPlace], L2>;

const_assert!(size_of::<State>() <= size_of::<Queue>() && align_of::<State>() <= align_of::<Queue>());
const_assert_eq!(size_of::<WindowPlace>(), size_of::<QueueWindow>());
const_assert_eq!(align_of::<WindowPlace>(), align_of::<QueueWindow>());

/// In storage without it nothing was ever attached, or not any more.
const MARK: u64 = 0x6275_6661_6269_4c32;

/// Attaches the task's end to a queue. `scalars` are the twelve that the task was given; their addresses are this processor's.
/// `machine` may be NULL: coherent memory, and only single looks. `marks` lends `mark_count` numbers, one for each slot of a ring at
/// least; `window` lends room for `window_count` messages that may be held at once, 1 to the ring's slots.
///
/// Nothing of the region is read or written. What was lent is the library's until `bufabi_queue_detach`, or for ever.
///
/// # Safety
/// `queue` points to storage that may be written and has no end attached; `scalars` to twelve numbers; `machine`, if it is not NULL, to
/// one whose functions do what they say; `marks` and `window` to as many values as is said, which may be written and have been
/// written before (static objects have). The region's two parts are memory at the addresses in the scalars, readable and writable,
/// as long as the end is attached, and nothing of them is of this program's other objects.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_attach(
    scalars: *const u64,
    machine: *const Machine,
    marks: *mut u64,
    mark_count: usize,
    window: *mut QueueWindow,
    window_count: usize,
    queue: *mut Queue,
) -> Status {
    answer("queue_attach", || {
        let mark_bytes = mark_count.checked_mul(size_of::<u64>()).ok_or(Code::Length)?;
        let window_bytes = window_count.checked_mul(size_of::<QueueWindow>()).ok_or(Code::Length)?;
        let spans = [
            Span::check(scalars, QueueView::SCALARS.wrapping_mul(8), align_of::<u64>())?,
            Span::check(marks, mark_bytes, align_of::<u64>())?,
            Span::check(window, window_bytes, align_of::<QueueWindow>())?,
            Span::of(queue)?,
        ];
        apart(&spans)?;
        // SAFETY: not NULL and aligned: checked by Span. Twelve numbers that nobody writes: the caller's promise above.
        let scalars = unsafe { *scalars.cast::<[u64; QueueView::SCALARS]>() };
        let machine = if machine.is_null() {
            Machine::NONE
        } else {
            Span::of(machine)?;
            // SAFETY: not NULL and aligned, as was just seen. Readable: the caller's promise above.
            unsafe { *machine }
        };
        let view = QueueView::from_scalars(scalars).map_err(|error| noted(error.code(), &error))?;
        for part in [view.region().payload(), view.region().counter()] {
            check_apart(part, &spans)?;
        }
        // SAFETY: not NULL, aligned and without a wrap: checked by Span. Lent, writable and written before: the caller's
        // promise above, and that they share no byte with another argument was just checked.
        let marks = unsafe { slice::from_raw_parts_mut(marks, mark_count) };
        let window = window.cast::<WindowPlace>();
        for index in 0..window_count {
            // SAFETY: within the storage that is lent, whose elements are as wide as a place and aligned as one.
            let place = unsafe { window.add(index) };
            // SAFETY: as above; writable.
            unsafe { place.write(WindowPlace::EMPTY) };
        }
        // SAFETY: as for the marks; every element was just written.
        let window = unsafe { slice::from_raw_parts_mut(window, window_count) };
        // SAFETY: the region's parts are there, and the machine's functions do what they say: the caller's promise above.
        let memory = unsafe { Memory::new(view.region(), machine) };
        let end = End::with_window(view.layout(), memory, marks, window, Counts::default());
        let end = end.map_err(|error| noted(error.code(), &error))?;
        let state = State { mark: MARK, end, clock: machine };
        // SAFETY: not NULL and aligned: checked by Span; large enough: asserted above. Writable: the caller's promise.
        unsafe { queue.cast::<State>().write(state) };
        Ok(())
    })
}

/// Detaches an end, whatever happened: what was lent is the caller's again. The region stays as it is.
///
/// # Safety
/// `queue` points to storage with an end, or that was all zero before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_detach(queue: *mut Queue) -> Status {
    answer("queue_detach", || {
        // SAFETY: the caller's promise above.
        let state = unsafe { state(queue, &[]) }?;
        state.mark = 0;
        Ok(())
    })
}

/// Gives up: the other side sees it, and every later call but `bufabi_queue_detach` is refused as `queue_aborted`.
///
/// # Safety
/// As for `bufabi_queue_detach`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_abort(queue: *mut Queue) -> Status {
    answer("queue_abort", || {
        // SAFETY: the caller's promise above.
        let state = unsafe { state(queue, &[]) }?;
        state.end.abort().map_err(|error| noted(error.code(), &error))
    })
}

/// Writes 1 to `*aborted` when the other side gave up, else 0.
///
/// # Safety
/// As for `bufabi_queue_detach`; `aborted` points to an int32_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_peer_aborted(queue: *mut Queue, aborted: *mut i32) -> Status {
    answer("queue_peer_aborted", || {
        // SAFETY: the caller's promise above.
        let state = unsafe { state(queue, &[Span::of(aborted)?]) }?;
        let has_aborted = state.end.peer_aborted().map_err(|error| noted(error.code(), &error))?;
        // SAFETY: not NULL and aligned: checked by Span. Writable: the caller's promise above.
        unsafe { aborted.write(i32::from(has_aborted)) };
        Ok(())
    })
}

/// The first cause, when the queue has ended here; 0 while it has not.
///
/// # Safety
/// As for `bufabi_queue_detach`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_queue_poison(queue: *mut Queue) -> Status {
    answer("queue_poison", || {
        // SAFETY: the caller's promise above.
        let state = unsafe { state(queue, &[]) }?;
        state.end.poison().map_or(Ok(()), |poison| Err(poison.code()))
    })
}

/// Bytes of a `bufabi_queue_t`.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_queue_size() -> usize {
    size_of::<Queue>()
}

/// The end in `queue`, which shares no byte with `others`.
///
/// # Safety
/// `queue` points to storage that `bufabi_queue_attach` filled or that was all zero before, used by nobody else during the call.
unsafe fn state(queue: *mut Queue, others: &[Span]) -> Result<&'static mut State, Code> {
    let span = Span::of(queue)?;
    for other in others {
        apart(&[span, *other])?;
    }
    let state = queue.cast::<State>();
    // SAFETY: not NULL and aligned: checked by Span. All zero or a whole state: the caller's promise above, and the mark is a
    // number in either.
    if unsafe { (*state).mark } != MARK {
        return Err(Code::QueueDetached);
    }
    // SAFETY: the mark says that it is a state; nobody else uses it during the call, which it does not outlive.
    Ok(unsafe { &mut *state })
}

/// The part is in this address space, and shares no byte with an argument.
fn check_apart(part: Part, spans: &[Span]) -> Result<(), Code> {
    let (base, nbytes) = (usize::try_from(part.base), usize::try_from(part.nbytes));
    let (Ok(base), Ok(nbytes)) = (base, nbytes) else { return Err(Code::Length) };
    // Memory may start at address 0, where no argument is.
    let first = base.max(1);
    let part =
        Span::check(without_provenance::<u8>(first), nbytes.saturating_sub(first.wrapping_sub(base)), 1)?;
    spans.iter().try_for_each(|span| apart(&[part, *span]))
}

/// How long a call goes on trying.
fn limit(state: &State, nanoseconds: u64) -> Result<Duration, Code> {
    if nanoseconds > 0 && state.clock.now.is_none() {
        return Err(Code::NullPointer);
    }
    Ok(Duration::from_nanos(nanoseconds))
}

fn not_sent(error: SendError) -> Code {
    noted(error.code(), &error)
}

fn not_received(error: ReceiveError) -> Code {
    noted(error.code(), &error)
}
