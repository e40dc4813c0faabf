//! What the other side does last: it sends or gives back and then ends, between this side's look at its count and at whether it goes on.

use std::cell::Cell;
use std::time::Duration;

use bufabi_core::Code;
use bufabi_core::queue::{Kind, L2End, L3End, Opcode, ReceiveError, SendError, counters};
use bufabi_core::region::{AccessError, Place, RegionAccess};
use bufabi_tests::clock::Counted;
use bufabi_tests::memory::{AtomicMemory, Step, Watched};

use crate::script::{layout, new_memory};

#[test]
fn what_was_sent_just_before_the_other_side_gave_up_is_received() {
    let memory = new_memory();
    let mut l2 = L2End::<_, _, 2>::new(layout(), &memory, [0; 2]).unwrap();
    let is_due = Cell::new(false);
    let watched = Watched::new(&memory, |_: &AtomicMemory, step| {
        if step == Step::Load(counters::L2_ABORT) && is_due.take() {
            l2.try_send(Kind::Error, &[7]).unwrap();
            l2.abort().unwrap();
        }
        Ok(())
    });
    let mut l3 = L3End::new(layout(), &watched, [0; 2]).unwrap();
    assert_eq!(l3.try_peek(), Err(ReceiveError::Empty));
    is_due.set(true);
    assert_eq!(l3.try_dequeue_into(&mut [0]), Ok((Opcode::Error, 1)));
    assert_eq!(l3.try_peek(), Err(ReceiveError::PeerAborted));
    assert_eq!(l3.poison(), None);
}

#[test]
fn what_was_given_back_just_before_the_other_side_gave_up_is_room() {
    let memory = new_memory();
    let mut l3 = L3End::new(layout(), &memory, [0; 2]).unwrap();
    let is_due = Cell::new(false);
    let watched = Watched::new(&memory, |_: &AtomicMemory, step| {
        if step == Step::Load(counters::L3_ABORT) && is_due.take() {
            assert_eq!(l3.try_dequeue_into(&mut [0; 128]), Ok((Opcode::Data, 128)));
            l3.abort().unwrap();
        }
        Ok(())
    });
    let mut l2 = L2End::<_, _, 2>::new(layout(), &watched, [0; 2]).unwrap();
    assert_eq!(l2.try_send(Kind::Data, &[1; 128]), Ok(()));
    is_due.set(true);
    assert_eq!(l2.try_send(Kind::Data, &[2; 128]), Ok(()));
    assert_eq!(l2.try_send(Kind::Data, &[3]), Err(SendError::PeerAborted));
    assert_eq!(l2.poison(), None);
}

/// A limit of 0 is one try, and waits for nobody.
#[test]
fn a_limit_of_0_receives_and_sends_as_a_try_does_after_the_other_side_gave_up() {
    let (memory, mut clock) = (new_memory(), Counted::default());
    let mut l3 = L3End::new(layout(), &memory, [0; 2]).unwrap();
    let mut l2 = L2End::<_, _, 2>::new(layout(), &memory, [0; 2]).unwrap();
    l2.try_send(Kind::Data, &[5]).unwrap();
    l2.abort().unwrap();
    let within = |limit| Duration::from_millis(limit);
    assert_eq!(l3.peek(within(1), &mut clock), Err(ReceiveError::PeerAborted));
    assert_eq!(l3.dequeue_into(&mut [0], within(0), &mut clock), Ok((Opcode::Data, 1)));
    assert_eq!(l3.peek(within(0), &mut clock), Err(ReceiveError::PeerAborted));
    assert_eq!(l3.enqueue(Kind::Data, &[], within(1), &mut clock), Err(SendError::PeerAborted));
    assert_eq!(l3.enqueue(Kind::Data, &[], within(0), &mut clock), Ok(()));
    assert_eq!(l3.enqueue(Kind::Data, &[], within(0), &mut clock), Ok(()));
    assert_eq!(l3.enqueue(Kind::Data, &[], within(0), &mut clock), Err(SendError::PeerAborted));
    assert_eq!(clock.pauses, 0);
}

const GONE: AccessError = AccessError::new(Code::WorkerDied, 9);

/// A memory that knows whether the other side is there.
struct Knowing<'a>(&'a AtomicMemory, &'a dyn Fn() -> bool);

impl RegionAccess for Knowing<'_> {
    fn payload_bytes(&self) -> u64 {
        self.0.payload_bytes()
    }

    fn counter_bytes(&self) -> u64 {
        self.0.counter_bytes()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), AccessError> {
        self.0.read(offset, out)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.0.write(offset, bytes)
    }

    fn load(&self, offset: u64) -> Result<u32, AccessError> {
        self.0.load(offset)
    }

    fn store(&self, offset: u64, value: u32) -> Result<(), AccessError> {
        self.0.store(offset, value)
    }

    fn publish(&self, place: Place) -> Result<(), AccessError> {
        self.0.publish(place)
    }

    fn observe(&self, place: Place) -> Result<(), AccessError> {
        self.0.observe(place)
    }

    fn check_peer(&self) -> Result<(), AccessError> {
        if (self.1)() { Ok(()) } else { Err(GONE) }
    }
}

#[test]
fn what_was_sent_before_the_other_side_was_gone_is_received_by_whoever_waits_or_tries() {
    let (memory, mut clock) = (new_memory(), Counted::default());
    let second = Duration::from_secs(1);
    let mut l2 = L2End::<_, _, 2>::new(layout(), &memory, [0; 2]).unwrap();
    l2.try_send(Kind::Data, &[1]).unwrap();
    // The other one comes at the last moment: when this side asks.
    let other = std::cell::RefCell::new(Some(l2));
    let goes_on = || {
        if let Some(mut l2) = other.take() {
            l2.try_send(Kind::Data, &[2]).unwrap();
        }
        false
    };
    let mut l3 = L3End::new(layout(), Knowing(&memory, &goes_on), [0; 2]).unwrap();
    assert_eq!(l3.dequeue_into(&mut [0], second, &mut clock), Ok((Opcode::Data, 1)));
    assert!(other.borrow().is_some(), "nobody asks while a message is there");
    assert_eq!(l3.dequeue_into(&mut [0], second, &mut clock), Ok((Opcode::Data, 1)));
    assert_eq!(l3.dequeue_into(&mut [0], second, &mut clock), Err(ReceiveError::Access(GONE)));
    assert_eq!(l3.try_peek(), Err(ReceiveError::Access(GONE)));
    assert_eq!(l3.enqueue(Kind::Data, &[], second, &mut clock), Err(SendError::Access(GONE)));
    assert_eq!((l3.poison(), clock.pauses), (None, 0));
}
