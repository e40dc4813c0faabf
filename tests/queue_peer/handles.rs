//! Handles and reservations that are not current: each ends the queue of whoever brings it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bufabi_core::queue::{Handle, Kind, L2End, L3End, Opcode, Poison, ReceiveError, SendError, counters};
use bufabi_tests::clock::Counted;

use crate::script::{layout, new_memory};

/// A handle that is not current ends the queue: one that was released, one of another end, one that nobody gave out.
#[test]
fn a_handle_that_is_not_current_ends_the_queue() {
    let poisoned = |found| ReceiveError::Poisoned(Poison::Handle { found });
    for number in [1, 2, u64::MAX, 1 << 32] {
        let memory = new_memory();
        let mut l3 = L3End::new(layout(), &memory, [0; 2]).unwrap();
        let mut l2 = L2End::<_, _, 1>::new(layout(), &memory, [0; 2]).unwrap();
        l3.try_enqueue(Kind::Data, &[1]).unwrap();
        l3.try_enqueue(Kind::Data, &[2]).unwrap();
        let first = l2.try_receive().unwrap().handle();
        assert_eq!(first.number(), 0);
        // The window is full: message 1 was looked at, but not received.
        assert_eq!(l2.try_receive(), Err(ReceiveError::WindowFull { window: 1 }));
        assert_eq!(l2.release(Handle::from_number(number)), Err(poisoned(number)));
        assert_eq!(l2.release(first), Err(poisoned(number)), "the first cause stays");
        l2.abort().unwrap();
        assert_eq!(l2.poison(), Some(Poison::Handle { found: number }), "also when this side gives up");
        assert_eq!(memory.counter(counters::L2_ABORT).load(Ordering::Relaxed), 1);
        assert_eq!(memory.counter(counters::INPUT_HEAD).load(Ordering::Relaxed), 0);
    }
    let memory = new_memory();
    let mut l3 = L3End::new(layout(), &memory, [0; 2]).unwrap();
    let mut l2 = L2End::<_, _, 2>::new(layout(), &memory, [0; 2]).unwrap();
    l3.try_enqueue(Kind::Data, &[1]).unwrap();
    l3.try_enqueue(Kind::Data, &[2]).unwrap();
    let (_, second) = (l2.try_receive().unwrap(), l2.try_receive().unwrap().handle());
    l2.release(second).unwrap();
    assert_eq!(l2.read_into(second, &mut [0; 8]), Err(poisoned(1)), "it was given back");
}

#[test]
fn a_reservation_that_is_not_open_ends_the_queue() {
    let memory = new_memory();
    let mut l2 = L2End::<_, _, 1>::new(layout(), &memory, [0; 2]).unwrap();
    let first = l2.try_reserve(8).unwrap();
    l2.cancel(&first).unwrap();
    let second = l2.try_reserve(8).unwrap();
    assert_eq!(first.place(), second.place());
    let poison = SendError::Poisoned(Poison::Handle { found: first.number() });
    assert_eq!(l2.commit(&first, Kind::Data, 8), Err(poison));
    assert_eq!(l2.commit(&second, Kind::Data, 8), Err(poison));
    assert_eq!(memory.counter(counters::OUTPUT_TAIL).load(Ordering::Relaxed), 0);
}

/// STOP has a handle as any message does, and gives it back once: before the inputs that came before it, and after them.
#[test]
fn stop_is_given_back_once() {
    for is_first in [false, true] {
        let memory = new_memory();
        let mut l3 = L3End::new(layout(), &memory, [0; 2]).unwrap();
        let mut l2 = L2End::<_, _, 1>::new(layout(), &memory, [0; 2]).unwrap();
        l3.try_enqueue(Kind::Data, &[1]).unwrap();
        l3.request_stop(Duration::ZERO, &mut Counted::default()).unwrap();
        let data = l2.try_receive().unwrap().handle();
        let stop = l2.try_receive().unwrap();
        assert_eq!(stop.opcode(), Opcode::Stop);
        if !is_first {
            l2.release(data).unwrap();
        }
        l2.release(stop.handle()).unwrap();
        assert_eq!(l2.is_drained(), !is_first);
        let poison = ReceiveError::Poisoned(Poison::Handle { found: stop.handle().number() });
        assert_eq!(l2.read_into(stop.handle(), &mut []), Err(poison));
        let head = memory.counter(counters::INPUT_HEAD).load(Ordering::Relaxed);
        assert_eq!(head, if is_first { 0 } else { 2 });
    }
}

/// A slot is read once, also when its message has to wait for a place in the window: what is written there meanwhile is not seen.
#[test]
fn a_message_that_waits_for_the_window_is_the_one_that_was_read() {
    let memory = new_memory();
    let mut l3 = L3End::new(layout(), &memory, [0; 2]).unwrap();
    let mut l2 = L2End::<_, _, 1>::new(layout(), &memory, [0; 2]).unwrap();
    l3.try_enqueue(Kind::Data, &[1]).unwrap();
    l3.try_enqueue(Kind::Error, &[2; 5]).unwrap();
    let first = l2.try_receive().unwrap();
    assert_eq!(l2.try_receive(), Err(ReceiveError::WindowFull { window: 1 }));
    for word in 0..4 {
        memory.word(layout().input_ring() + 32 + word * 8).store(u64::MAX, Ordering::Relaxed);
    }
    assert_eq!(l2.try_receive(), Err(ReceiveError::WindowFull { window: 1 }));
    l2.release(first.handle()).unwrap();
    let second = l2.try_receive().unwrap();
    assert_eq!((second.opcode(), second.nbytes()), (Opcode::Error, 5));
    let mut bytes = [0; 5];
    assert_eq!(l2.read_into(second.handle(), &mut bytes), Ok(5));
    assert_eq!(bytes, [2; 5]);
}
