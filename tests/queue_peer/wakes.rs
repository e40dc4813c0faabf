//! Whom an end wakes and when, and what it tells a clock to watch: each side's own flag, on its own line.

use std::cell::RefCell;
use std::time::Duration;

use bufabi_core::queue::{Kind, L2End, L3End, ReceiveError, SendError, counters};
use bufabi_core::region::{AccessError, Clock, Place, RegionAccess, Watch};
use bufabi_tests::memory::AtomicMemory;

use crate::script::{layout, new_memory};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    Store(u64),
    Wake(u64, u64),
}

/// A memory that keeps what it is told.
struct Telling<'a>(&'a AtomicMemory, &'a RefCell<Vec<Told>>);

impl RegionAccess for Telling<'_> {
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
        self.1.borrow_mut().push(Told::Store(offset));
        self.0.store(offset, value)
    }

    fn publish(&self, place: Place) -> Result<(), AccessError> {
        self.0.publish(place)
    }

    fn observe(&self, place: Place) -> Result<(), AccessError> {
        self.0.observe(place)
    }

    fn wake(&self, counter: u64, sleep_flag: u64) {
        self.1.borrow_mut().push(Told::Wake(counter, sleep_flag));
    }
}

#[test]
fn whoever_may_wait_for_a_counter_is_woken_once_it_is_stored() {
    use counters::{
        INPUT_HEAD, INPUT_TAIL, L2_ABORT, L2_SLEEPS, L3_ABORT, L3_SLEEPS, OUTPUT_HEAD, OUTPUT_TAIL,
    };
    assert_eq!((L3_SLEEPS, L2_SLEEPS), (260, 324), "byte 4 of each side's own line");
    let (memory, told) = (new_memory(), RefCell::new(Vec::new()));
    let mut l3 = L3End::new(layout(), Telling(&memory, &told), [0; 2]).unwrap();
    let mut l2 = L2End::<_, _, 2>::new(layout(), Telling(&memory, &told), [0; 2]).unwrap();
    let stored_and_woken = |counter, flag| [Told::Store(counter), Told::Wake(counter, flag)];
    l3.try_enqueue(Kind::Data, &[1]).unwrap();
    assert_eq!(told.take(), stored_and_woken(INPUT_TAIL, L2_SLEEPS));
    l3.try_enqueue_all(Kind::Data, [[2]]).unwrap();
    assert_eq!(told.take(), stored_and_woken(INPUT_TAIL, L2_SLEEPS));
    let handles = [(); 2].map(|()| l2.try_receive().unwrap().handle());
    l2.release(handles[1]).unwrap();
    assert_eq!(told.take(), [], "nothing has moved");
    l2.release_all(&handles[..1]).unwrap();
    assert_eq!(told.take(), stored_and_woken(INPUT_HEAD, L3_SLEEPS));
    l2.try_send(Kind::Data, &[3]).unwrap();
    assert_eq!(told.take(), stored_and_woken(OUTPUT_TAIL, L3_SLEEPS));
    l3.try_dequeue_into(&mut [0]).unwrap();
    assert_eq!(told.take(), stored_and_woken(OUTPUT_HEAD, L2_SLEEPS));
    // Whoever gives up wakes the other side from whatever it waits for.
    l3.abort().unwrap();
    let woken = [Told::Wake(INPUT_TAIL, L2_SLEEPS), Told::Wake(OUTPUT_HEAD, L2_SLEEPS)];
    assert_eq!(told.take(), [vec![Told::Store(L3_ABORT)], woken.to_vec()].concat());
    l2.abort().unwrap();
    let woken = [Told::Wake(OUTPUT_TAIL, L3_SLEEPS), Told::Wake(INPUT_HEAD, L3_SLEEPS)];
    assert_eq!(told.take(), [vec![Told::Store(L2_ABORT)], woken.to_vec()].concat());
}

/// A clock that keeps what it is to watch, and at whose first pause the limit is over.
#[derive(Default)]
struct Watching(Vec<Watch>);

impl Clock for Watching {
    fn now(&mut self) -> Duration {
        Duration::from_secs(u64::try_from(self.0.len()).unwrap())
    }

    fn pause(&mut self, watch: Watch, _: Duration) {
        self.0.push(watch);
    }
}

#[test]
fn a_wait_watches_the_other_sides_counter_and_sleeps_by_its_own_flag() {
    let memory = new_memory();
    let mut l3 = L3End::new(layout(), &memory, [0; 2]).unwrap();
    let mut l2 = L2End::<_, _, 1>::new(layout(), &memory, [0; 2]).unwrap();
    let second = Duration::from_secs(1);
    let watched = |clock: Watching| clock.0;
    let watch = |counter, seen, flag| vec![Watch { counter, seen, sleep_flag: Some(flag) }];

    let mut clock = Watching::default();
    assert_eq!(l3.peek(second, &mut clock).err(), Some(ReceiveError::TimedOut));
    assert_eq!(watched(clock), watch(counters::OUTPUT_TAIL, 0, counters::L3_SLEEPS));
    let mut clock = Watching::default();
    assert_eq!(l2.receive(second, &mut clock).err(), Some(ReceiveError::TimedOut));
    assert_eq!(watched(clock), watch(counters::INPUT_TAIL, 0, counters::L2_SLEEPS));
    for _ in 0..2 {
        l3.try_enqueue(Kind::Data, &[]).unwrap();
        l2.try_send(Kind::Data, &[]).unwrap();
    }
    let mut clock = Watching::default();
    assert!(matches!(l3.enqueue(Kind::Data, &[], second, &mut clock), Err(SendError::TimedOut(_))));
    assert_eq!(watched(clock), watch(counters::INPUT_HEAD, 0, counters::L3_SLEEPS));
    let mut clock = Watching::default();
    assert!(matches!(l2.reserve(0, second, &mut clock), Err(SendError::TimedOut(_))));
    assert_eq!(watched(clock), watch(counters::OUTPUT_HEAD, 0, counters::L2_SLEEPS));
}

/// A call that waits looks for the flag first; one that tries takes what was sent before the other side gave up.
#[test]
fn a_wait_sees_that_the_other_side_gave_up_also_when_it_need_not_wait() {
    let memory = new_memory();
    let mut l3 = L3End::new(layout(), &memory, [0; 2]).unwrap();
    let mut l2 = L2End::<_, _, 1>::new(layout(), &memory, [0; 2]).unwrap();
    l3.try_enqueue(Kind::Data, &[1]).unwrap();
    l2.try_send(Kind::Data, &[2]).unwrap();
    for flag in [counters::L3_ABORT, counters::L2_ABORT] {
        memory.store(flag, 7).unwrap();
    }
    let (hour, mut clock) = (Duration::from_secs(3600), Watching::default());
    assert_eq!(l2.receive(hour, &mut clock), Err(ReceiveError::PeerAborted));
    assert_eq!(l3.peek(hour, &mut clock), Err(ReceiveError::PeerAborted));
    assert_eq!(l3.dequeue_into(&mut [0], hour, &mut clock), Err(ReceiveError::PeerAborted));
    assert_eq!(l3.enqueue(Kind::Data, &[], hour, &mut clock), Err(SendError::PeerAborted));
    assert_eq!(l2.send(Kind::Data, &[], hour, &mut clock), Err(SendError::PeerAborted));
    assert_eq!(l2.reserve(0, hour, &mut clock), Err(SendError::PeerAborted));
    assert_eq!(l3.request_stop(hour, &mut clock), Err(SendError::PeerAborted));
    assert_eq!(clock.0, []);
    assert_eq!((l2.try_receive().map(drop), l3.try_peek().map(drop)), (Ok(()), Ok(())));
    assert_eq!((l3.try_enqueue(Kind::Data, &[]), l2.try_send(Kind::Data, &[])), (Ok(()), Ok(())));
}
