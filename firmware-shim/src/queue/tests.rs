//! The C functions of a task's end, beside a host's end in Rust over the same memory.

use core::ptr::{null, null_mut};

use bufabi_core::queue::{Kind, L3End, Opcode, QueueLayout};
use bufabi_core::region::RegionView;

use super::super::message::{Message, QUEUE_DATA, QUEUE_ERROR, QueueReservation};
use super::*;

/// The memory of a region, and a task's end of its queue.
#[repr(C, align(64))]
struct Board {
    counters: [u64; 48],
    payload: [u64; 64],
    marks: [u64; 4],
    window: [QueueWindow; 2],
    queue: Queue,
}

const NOTHING: QueueWindow = QueueWindow { opaque: [0; 5] };

/// It is lent for ever, so each test has one of its own.
fn board() -> &'static mut Board {
    extern crate std;
    std::boxed::Box::leak(std::boxed::Box::new(Board {
        counters: [0; 48],
        payload: [0; 64],
        marks: [0; 4],
        window: [NOTHING; 2],
        queue: Queue { opaque: [0; 64] },
    }))
}

fn address<T>(place: *mut T) -> u64 {
    u64::try_from(place.expose_provenance()).unwrap()
}

fn view(board: *mut Board) -> QueueView {
    let layout = QueueLayout::new(4, 128, 128).unwrap();
    // SAFETY: the board is alive for ever.
    let (payload, counters) = unsafe { (&raw mut (*board).payload, &raw mut (*board).counters) };
    let payload = Part { base: address(payload), nbytes: 512 };
    let counter = Part { base: address(counters), nbytes: 384 };
    QueueView::new(RegionView::new(7, payload, counter).unwrap(), layout).unwrap()
}

fn attach(board: *mut Board, scalars: &[u64; 12]) -> Status {
    // SAFETY: everything is a board's, which is alive for ever.
    unsafe {
        let (marks, window) = ((&raw mut (*board).marks).cast(), (&raw mut (*board).window).cast());
        bufabi_queue_attach(scalars.as_ptr(), null(), marks, 4, window, 2, &raw mut (*board).queue)
    }
}

/// Both ends, attached.
fn both() -> (*mut Queue, L3End<Memory, [u64; 4]>, *mut Board) {
    let board: *mut Board = board();
    let view = view(board);
    assert_eq!(attach(board, &view.to_scalars()), 0);
    // SAFETY: the board is alive for ever, and nobody else is in this process.
    let memory = unsafe { Memory::new(view.region(), Machine::NONE) };
    // SAFETY: as above.
    let queue = unsafe { &raw mut (*board).queue };
    (queue, L3End::new(view.layout(), memory, [0; 4]).unwrap(), board)
}

fn receive(queue: *mut Queue) -> Result<Message, Status> {
    let mut message = Message { handle: 9, address: 9, nbytes: 9, opcode: 9 };
    // SAFETY: the queue is a board's; the message is a local.
    match unsafe { bufabi_queue_receive(queue, 0, &raw mut message) } {
        0 => Ok(message),
        status => Err(status),
    }
}

fn read(queue: *mut Queue, handle: u64, capacity: usize) -> Result<std::vec::Vec<u8>, (Status, usize)> {
    let (mut out, mut nbytes) = (std::vec![0x55; capacity], 0);
    let at = if capacity == 0 { null_mut() } else { out.as_mut_ptr().cast() };
    // SAFETY: as above.
    match unsafe { bufabi_queue_read(queue, handle, at, capacity, &raw mut nbytes) } {
        0 => {
            out.truncate(nbytes);
            Ok(out)
        }
        status => Err((status, nbytes)),
    }
}

fn send(queue: *mut Queue, kind: i32, bytes: &[u8]) -> Status {
    let at = if bytes.is_empty() { null() } else { bytes.as_ptr().cast() };
    // SAFETY: as above.
    unsafe { bufabi_queue_send(queue, kind, at, bytes.len(), 0) }
}

extern crate std;

#[test]
fn messages_go_both_ways_until_stop_is_released() {
    let (queue, mut host, board) = both();
    assert_eq!(receive(queue), Err(Code::QueueEmpty.number()));
    host.try_enqueue(Kind::Data, &[1; 33]).unwrap();
    host.try_enqueue(Kind::Error, &[]).unwrap();
    let mut machine = Machine::NONE;
    host.request_stop(Duration::ZERO, &mut machine).unwrap();
    let first = receive(queue).unwrap();
    assert_eq!((first.handle, first.nbytes, first.opcode), (0, 33, 1));
    // SAFETY: the board is alive for ever.
    let payload = address(unsafe { &raw mut (*board).payload });
    assert_eq!(first.address, payload + 256, "it can be read in place");
    assert_eq!(read(queue, 0, 40), Ok(std::vec![1; 33]));
    assert_eq!(read(queue, 0, 32), Err((Code::BufferTooSmall.number(), 33)));
    let second = receive(queue).unwrap();
    assert_eq!((second.handle, second.nbytes, second.opcode), (1, 0, 3));
    assert_eq!(read(queue, 1, 0), Ok(std::vec![]));
    let stop = receive(queue).unwrap();
    assert_eq!((stop.nbytes, stop.opcode), (0, 2), "it has a place beside a full window");
    assert_eq!(receive(queue), Err(Code::QueueStopped.number()));
    for (handle, drained_after) in [(1, 0), (2, 0), (0, 1)] {
        let mut drained = 9;
        // SAFETY: the queue is a board's; the number is a local.
        unsafe {
            assert_eq!(bufabi_queue_release(queue, handle), 0);
            assert_eq!(bufabi_queue_is_drained(queue, &raw mut drained), 0);
        }
        assert_eq!(drained, drained_after);
    }
    assert_eq!(send(queue, QUEUE_ERROR, &[5; 128]), 0);
    assert_eq!(send(queue, QUEUE_DATA, &[]), 0);
    assert_eq!(send(queue, QUEUE_DATA, &[0]), Code::ArenaFull.number());
    assert_eq!(send(queue, QUEUE_DATA, &[0; 129]), Code::MessageTooLarge.number());
    let mut out = [0; 128];
    assert_eq!(host.try_dequeue_into(&mut out), Ok((Opcode::Error, 128)));
    assert_eq!(out, [5; 128]);
    assert_eq!(host.try_dequeue_into(&mut out), Ok((Opcode::Data, 0)));
}

#[test]
fn a_message_is_written_in_its_place_and_committed_shorter_or_given_up() {
    let (queue, mut host, _) = both();
    let mut reservation = QueueReservation { number: 0, address: 0, nbytes: 0 };
    // SAFETY: the queue is a board's; all else is local, and the address is that of the reservation's bytes.
    unsafe {
        assert_eq!(bufabi_queue_reserve(queue, 100, 0, &raw mut reservation), 0);
        assert_eq!(send(queue, QUEUE_DATA, &[]), Code::QueueReserved.number());
        let in_place: *mut u8 = core::ptr::with_exposed_provenance_mut(reservation.address as usize);
        in_place.write_bytes(7, 10);
        assert_eq!(bufabi_queue_write(queue, reservation.number, 10, [8_u8; 5].as_ptr().cast(), 5), 0);
        let outside = bufabi_queue_write(queue, reservation.number, 96, [8_u8; 5].as_ptr().cast(), 5);
        assert_eq!(outside, Code::RegionRange.number());
        assert_eq!(bufabi_queue_commit(queue, reservation.number, QUEUE_DATA, 15), 0);
        assert_eq!(bufabi_queue_reserve(queue, 1, 0, &raw mut reservation), 0);
        assert_eq!(bufabi_queue_cancel(queue, reservation.number), 0);
    }
    let mut out = [0; 128];
    assert_eq!(host.try_dequeue_into(&mut out), Ok((Opcode::Data, 15)));
    assert_eq!(out[..15], [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 8, 8, 8, 8]);
    // SAFETY: as above.
    unsafe {
        assert_eq!(bufabi_queue_cancel(queue, reservation.number), Code::QueueHandle.number());
        assert_eq!(bufabi_queue_poison(queue), Code::QueueHandle.number(), "the first cause is kept");
        assert_eq!(bufabi_queue_abort(queue), 0);
        assert_eq!(bufabi_queue_poison(queue), Code::QueueHandle.number());
    }
    assert_eq!(host.peer_aborted(), Ok(true));
}

#[test]
fn time_is_the_machines_and_without_it_there_are_only_single_looks() {
    unsafe extern "C" fn now(context: *mut core::ffi::c_void) -> u64 {
        // SAFETY: the context is the test's count.
        unsafe { context.cast::<u64>().read() }
    }
    unsafe extern "C" fn pause(context: *mut core::ffi::c_void, nanoseconds: u64) {
        assert!(nanoseconds <= 1000);
        // SAFETY: as above.
        unsafe { *context.cast::<u64>() += 100 };
    }
    let (queue, ..) = both();
    let mut message = Message { handle: 0, address: 0, nbytes: 0, opcode: 0 };
    // SAFETY: the queue is a board's; the message is a local.
    let waited = unsafe { bufabi_queue_receive(queue, 1000, &raw mut message) };
    assert_eq!(waited, Code::NullPointer.number());
    let mut time = 5_u64;
    let context = (&raw mut time).cast();
    let machine = Machine { context, now: Some(now), pause: Some(pause), ..Machine::NONE };
    let board: *mut Board = board();
    let scalars = view(board).to_scalars();
    // SAFETY: everything is a board's, alive for ever; the time outlives the calls.
    unsafe {
        let (marks, window) = ((&raw mut (*board).marks).cast(), (&raw mut (*board).window).cast());
        let queue = &raw mut (*board).queue;
        assert_eq!(bufabi_queue_attach(scalars.as_ptr(), &raw const machine, marks, 4, window, 2, queue), 0);
        assert_eq!(bufabi_queue_receive(queue, 1000, &raw mut message), Code::TimedOut.number());
    }
    assert_eq!(time, 1005);
}

#[test]
fn lines_are_written_back_and_dropped_around_everything_that_crosses() {
    use std::sync::Mutex;
    static CALLS: Mutex<std::vec::Vec<(char, u64, u64)>> = Mutex::new(std::vec::Vec::new());
    unsafe extern "C" fn publish(base: *mut core::ffi::c_void, address: u64, nbytes: u64) {
        CALLS.lock().unwrap().push(('p', address - base.addr() as u64, nbytes));
    }
    unsafe extern "C" fn observe(base: *mut core::ffi::c_void, address: u64, nbytes: u64) {
        CALLS.lock().unwrap().push(('o', address - base.addr() as u64, nbytes));
    }
    let board: *mut Board = board();
    let scalars = view(board).to_scalars();
    let machine = Machine {
        context: board.cast(),
        line: 64,
        publish: Some(publish),
        observe: Some(observe),
        ..Machine::NONE
    };
    // SAFETY: everything is a board's, alive for ever.
    unsafe {
        let (marks, window) = ((&raw mut (*board).marks).cast(), (&raw mut (*board).window).cast());
        let queue = &raw mut (*board).queue;
        assert_eq!(bufabi_queue_attach(scalars.as_ptr(), &raw const machine, marks, 4, window, 2, queue), 0);
        assert_eq!(send(queue, QUEUE_DATA, &[1; 8]), 0);
        // The output arena, the slot, the tail. COUNTER is at the board's start, PAYLOAD behind its 384 bytes.
        let expected = [('p', 384 + 384, 8), ('p', 384 + 128, 32), ('p', 128, 4)];
        assert_eq!(std::mem::take(&mut *CALLS.lock().unwrap()), expected);
        assert_eq!(receive(queue), Err(Code::QueueEmpty.number()));
        // The input's tail, and L3's abort flag.
        assert_eq!(std::mem::take(&mut *CALLS.lock().unwrap()), [('o', 0, 4), ('o', 256, 4)]);
        let whole = Machine { line: 48, ..machine };
        let attached = bufabi_queue_attach(scalars.as_ptr(), &raw const whole, marks, 4, window, 2, queue);
        assert_eq!(attached, Code::QueueLine.number());
    }
}

#[test]
fn what_cannot_be_attached_is_refused_and_what_is_not_attached_too() {
    let board: *mut Board = board();
    let good = view(board).to_scalars();
    // SAFETY: the board is alive for ever; what is wrong on purpose is refused before it is used.
    unsafe {
        let (marks, window): (*mut u64, *mut QueueWindow) =
            ((&raw mut (*board).marks).cast(), (&raw mut (*board).window).cast());
        let queue = &raw mut (*board).queue;
        let attach = |scalars: &[u64; 12], marks, mark_count, window, window_count, queue| {
            bufabi_queue_attach(scalars.as_ptr(), null(), marks, mark_count, window, window_count, queue)
        };
        let with = |index: usize, value: u64| {
            let mut scalars = good;
            scalars[index] = value;
            scalars
        };
        assert_eq!(bufabi_queue_detach(queue), Code::QueueDetached.number());
        assert_eq!(receive(queue), Err(Code::QueueDetached.number()));
        for (code, status) in [
            (Code::NullPointer, attach(&good, null_mut(), 4, window, 2, queue)),
            (Code::NullPointer, attach(&good, marks, 4, null_mut(), 2, queue)),
            (Code::NullPointer, attach(&good, marks, 4, window, 2, null_mut())),
            (Code::Misaligned, attach(&good, marks.byte_add(1), 3, window, 2, queue)),
            (Code::Length, attach(&good, marks, usize::MAX, window, 2, queue)),
            (Code::Overlapping, attach(&good, window.cast(), 4, window, 2, queue)),
            (Code::QueueStorage, attach(&good, marks, 3, window, 2, queue)),
            (Code::QueueStorage, attach(&good, marks, 4, window, 0, queue)),
            (Code::QueueMagic, attach(&with(6, 0), marks, 4, window, 2, queue)),
            (Code::RegionId, attach(&with(1, 0), marks, 4, window, 2, queue)),
            (Code::QueueSize, attach(&with(10, 511), marks, 4, window, 2, queue)),
            (Code::Overlapping, attach(&with(2, address(marks) - 64), marks, 4, window, 2, queue)),
        ] {
            assert_eq!(status, code.number(), "{code}");
        }
        assert_eq!(receive(queue), Err(Code::QueueDetached.number()));
        assert_eq!(attach(&good, marks, 4, window, 2, queue), 0);
        assert_eq!(send(queue, 2, &[]), Code::OptionUnknown.number(), "STOP is not for sending");
        let mut number = 0;
        let inside = queue.cast::<i32>();
        assert_eq!(bufabi_queue_peer_aborted(queue, inside), Code::Overlapping.number());
        assert_eq!(bufabi_queue_peer_aborted(queue, &raw mut number), 0);
        assert_eq!(number, 0);
        assert_eq!(bufabi_queue_detach(queue), 0);
        assert_eq!(bufabi_queue_detach(queue), Code::QueueDetached.number());
    }
    assert_eq!(bufabi_queue_size(), 512);
}
