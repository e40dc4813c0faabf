//! Regions and queues through real mappings: both sides in one process, each with mappings of its own.

mod attach;
mod ends;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bufabi_core::queue::{Kind, L2End, L3End, Opcode, QueueLayout, QueueView, ReceiveError, counters};
use bufabi_core::region::{
    AccessError, Clock, Comparison, Notification, Region, RegionAccess, RegionError, Seen, Watch,
};
use bufabi_core::{Code, DType};

use super::*;
use crate::backend::vmm_shareable::VmmShareable;
use crate::consumer::Consumer;
use crate::owner::Endpoint;
use crate::sys::futex;
use crate::vmm::memfd::{Broker, MemfdOptions};
use crate::vmm::{Admission, Imports, MemfdDriver};

/// A time that no test waits for unless something hangs.
const LIMIT: Duration = Duration::from_secs(20);

fn soon() -> Instant {
    Instant::now().checked_add(LIMIT).unwrap()
}

fn endpoint() -> Endpoint {
    Endpoint::with_capacity(8).unwrap()
}

fn attach<'a>(consumer: &'a Consumer, provided: &ProvidedRegion) -> AttachedRegion<'a> {
    let [payload, counter] = provided.descriptors().unwrap();
    AttachedRegion::attach(consumer, &payload, &counter).unwrap()
}

#[test]
fn two_ordinary_buffers_are_a_region_for_whoever_has_their_descriptors() {
    let (endpoint, consumer) = (endpoint(), Consumer::new(None).unwrap());
    let mut provided = ProvidedRegion::create(&endpoint, 192, 384).unwrap();
    assert_eq!(endpoint.live(), 2);
    let mut attached = attach(&consumer, &provided);
    assert_eq!(attached.parts(), provided.parts());
    let [payload, counter] = provided.descriptors().unwrap();
    assert_eq!(provided.parts().region_id(), payload.identity().buffer_id());
    assert_eq!(counter.identity().buffer_id(), payload.identity().buffer_id() + 1);
    let (here, there) = (provided.memory().unwrap(), attached.memory().unwrap());
    assert_eq!((there.payload_bytes(), there.counter_bytes()), (192, 384));
    for counter in (0..384).step_by(4) {
        assert_eq!(there.load(counter), Ok(0));
    }
    let views = [here.view(provided.parts()).unwrap(), there.view(attached.parts()).unwrap()];
    assert_ne!(views[0].payload().base, views[1].payload().base, "each side has its own mappings");
    let layout = QueueLayout::new(1, 64, 64).unwrap();
    let scalars = QueueView::new(views[0], layout).unwrap().to_scalars();
    assert_eq!(QueueView::from_scalars(scalars).unwrap().layout(), layout);

    let (mut here, there) = (Region::new(here), Region::new(there));
    here.write(5, b"bytes").unwrap();
    here.notify(64, Notification::Add, -3).unwrap();
    let mut clock = SleepingClock::new(&attached.memory().unwrap()).unwrap();
    let seen = there.wait(64, Comparison::LessOrEqual, -3, LIMIT, &mut clock);
    assert_eq!(seen, Ok(Seen { matched: true, observed: -3 }));
    let mut bytes = [0; 5];
    there.read(5, &mut bytes).unwrap();
    assert_eq!(&bytes, b"bytes");
    drop((here, there, clock));
    attached.close(soon()).unwrap();
    provided.close(soon()).unwrap();
    assert_eq!((consumer.counters().live, endpoint.live()), (0, 0));
}

#[test]
fn a_region_is_made_whole_or_not_at_all() {
    let endpoint = Endpoint::with_capacity(3).unwrap();
    let code = |payload, counter| ProvidedRegion::create(&endpoint, payload, counter).unwrap_err().code();
    assert_eq!(code(0, 64), Code::NbytesZero);
    assert_eq!(code(64, 0), Code::RegionCounter);
    assert_eq!(code(64, 6), Code::RegionCounter);
    assert_eq!(code(64, u64::MAX - 3), Code::NbytesTooLarge);
    let _first = ProvidedRegion::create(&endpoint, 64, 64).unwrap();
    assert_eq!(code(64, 64), Code::OwnerTableFull);
    assert_eq!(endpoint.live(), 2);
}

#[test]
fn closing_refuses_what_begins_and_waits_for_what_is_under_way() {
    let (endpoint, consumer) = (endpoint(), Consumer::new(None).unwrap());
    let mut provided = ProvidedRegion::create(&endpoint, 64, 64).unwrap();
    let mut attached = attach(&consumer, &provided);
    let memory = attached.memory().unwrap();
    let mut clock = SleepingClock::new(&memory).unwrap();
    let idle = provided.memory().unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(move || {
            let region = Region::new(memory);
            region.wait(0, Comparison::NotEqual, 0, Duration::from_secs(3600), &mut clock)
        });
        // It does not matter whether the thread has begun to wait.
        let start = Instant::now();
        attached.close(soon()).unwrap();
        assert!(start.elapsed() < LIMIT / 2, "it goes on as soon as the last one has left");
        let refused = AccessError::new(Code::Released, 0);
        assert_eq!(waiter.join().unwrap(), Err(RegionError::Access(refused)));
        assert_eq!(attached.memory().unwrap_err(), refused);
    });
    assert_eq!(consumer.counters().live, 0);
    // Somebody who does nothing is inside as well.
    assert_eq!(provided.close(Instant::now()), Err(CloseError::InUse { users: 1 }));
    assert_eq!(idle.load(0), Err(AccessError::new(Code::Released, 0)));
    assert!(idle.another().is_err());
    drop(idle);
    provided.close(soon()).unwrap();
    assert!(provided.descriptors().is_err());
    assert_eq!(endpoint.live(), 0);
    provided.close(soon()).unwrap();
    attached.close(soon()).unwrap();
}

#[test]
fn parts_that_a_task_names_are_freed_when_it_is_done() {
    let endpoint = endpoint();
    let mut provided = ProvidedRegion::create(&endpoint, 64, 64).unwrap();
    let [payload, _] = provided.descriptors().unwrap();
    let view = bufabi_core::View::row_major(0, DType::Uint8, &[64], 64).unwrap();
    let tensor = bufabi_core::Tensor::new(&payload, &view).unwrap();
    let holds = endpoint.hold(&[tensor]).unwrap();
    assert_eq!(provided.close(Instant::now()).map_err(CloseError::code), Err(Code::TimedOut));
    assert_eq!(endpoint.live(), 1, "the other part is freed already");
    drop(holds);
    provided.close(soon()).unwrap();
    assert_eq!(endpoint.live(), 0);
}

/// Both sides fall asleep at every message: without a wake-up each would take a sleep to its end.
#[test]
fn messages_go_there_and_back_while_both_sides_sleep() {
    let (endpoint, consumer) = (endpoint(), Consumer::new(None).unwrap());
    let layout = QueueLayout::new(4, 128, 128).unwrap();
    let mut provided =
        ProvidedRegion::create(&endpoint, layout.payload_bytes(), layout.counter_bytes()).unwrap();
    let mut attached = attach(&consumer, &provided);
    let (here, there) = (provided.memory().unwrap(), attached.memory().unwrap());
    let clock = |memory| SleepingClock::new(memory).unwrap().spinning(Duration::ZERO);
    let (mut l3_clock, mut l2_clock) = (clock(&here), clock(&there));
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut task = L2End::<_, _, 2>::new(layout, there, [0; 4]).unwrap();
            let mut bytes = [0; 128];
            while !task.is_drained() {
                let message = task.receive(LIMIT, &mut l2_clock).unwrap();
                let nbytes = task.read_into(message.handle(), &mut bytes).unwrap();
                if message.opcode() == Opcode::Data {
                    task.send(Kind::Data, &bytes[..nbytes], LIMIT, &mut l2_clock).unwrap();
                }
                task.release(message.handle()).unwrap();
            }
        });
        let mut host = L3End::new(layout, here, [0; 4]).unwrap();
        for number in 0..1000_u64 {
            let sent = number.to_le_bytes();
            host.enqueue(Kind::Data, &sent, LIMIT, &mut l3_clock).unwrap();
            let mut bytes = [0; 128];
            assert_eq!(host.dequeue_into(&mut bytes, LIMIT, &mut l3_clock), Ok((Opcode::Data, 8)));
            assert_eq!(bytes[..8], sent);
        }
        host.request_stop(LIMIT, &mut l3_clock).unwrap();
        drop((host, l3_clock));
    });
    attached.close(soon()).unwrap();
    provided.close(soon()).unwrap();
}

#[test]
fn whoever_sleeps_and_says_so_is_woken() {
    let endpoint = endpoint();
    let provided = ProvidedRegion::create(&endpoint, 64, 384).unwrap();
    let (here, there) = (provided.memory().unwrap(), provided.memory().unwrap());
    let start = Instant::now();
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| futex::sleep(there.word(0).unwrap(), 0, LIMIT));
        here.store(counters::L2_SLEEPS, 1).unwrap();
        while !sleeper.is_finished() {
            here.wake(0, counters::L2_SLEEPS);
            thread::yield_now();
        }
    });
    assert!(start.elapsed() < LIMIT / 2, "nobody was woken");
}

#[test]
fn a_sleeper_of_either_side_says_so_on_its_own_line_and_needs_no_wake_up() {
    let (endpoint, consumer) = (endpoint(), Consumer::new(None).unwrap());
    let layout = QueueLayout::new(4, 128, 128).unwrap();
    let create =
        || ProvidedRegion::create(&endpoint, layout.payload_bytes(), layout.counter_bytes()).unwrap();
    let sleeping = |memory: &RegionMemory| SleepingClock::new(memory).unwrap().spinning(Duration::ZERO);
    // A peer that knows nothing of sleepers: it stores, and wakes nobody.
    let store_once_asleep = |memory: &RegionMemory, flag, abort, is_finished: &dyn Fn() -> bool| {
        while memory.load(flag) != Ok(1) {
            assert!(!is_finished());
            thread::yield_now();
        }
        memory.store(abort, 1).unwrap();
    };
    let aborted = Err(ReceiveError::PeerAborted);

    let provided = create();
    let attached = attach(&consumer, &provided);
    let (here, there) = (provided.memory().unwrap(), attached.memory().unwrap());
    let mut clock = sleeping(&there);
    let mut task = L2End::<_, _, 1>::new(layout, there, [0; 4]).unwrap();
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| task.receive(LIMIT, &mut clock).map(drop));
        let is_finished = || sleeper.is_finished();
        store_once_asleep(&here, counters::L2_SLEEPS, counters::L3_ABORT, &is_finished);
        assert_eq!(sleeper.join().unwrap(), aborted);
    });
    assert_eq!(here.load(counters::L2_SLEEPS), Ok(0));

    let provided = create();
    let attached = attach(&consumer, &provided);
    let (here, there) = (provided.memory().unwrap(), attached.memory().unwrap());
    let mut clock = sleeping(&here);
    let mut host = L3End::new(layout, here, [0; 4]).unwrap();
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| host.peek(LIMIT, &mut clock).map(drop));
        let is_finished = || sleeper.is_finished();
        store_once_asleep(&there, counters::L3_SLEEPS, counters::L2_ABORT, &is_finished);
        assert_eq!(sleeper.join().unwrap(), aborted);
    });
    assert_eq!(there.load(counters::L3_SLEEPS), Ok(0));
}

/// Each would last an hour if it waited for somebody to end it. The machine may have other things to do, so the shortest counts, for which
/// ten times what one may cost is allowed.
#[test]
fn a_sleep_that_nobody_ends_ends_by_itself_after_a_millisecond() {
    let endpoint = endpoint();
    let provided = ProvidedRegion::create(&endpoint, 64, 384).unwrap();
    let memory = provided.memory().unwrap();
    let mut clock = SleepingClock::new(&memory).unwrap().spinning(Duration::ZERO);
    for sleep_flag in [None, Some(counters::L3_SLEEPS), Some(counters::L2_SLEEPS)] {
        let sleeps = (0..16).map(|_| {
            let start = Instant::now();
            clock.pause(Watch { counter: 0, seen: 0, sleep_flag }, Duration::from_secs(3600));
            start.elapsed()
        });
        // Where nobody wakes a sleeper, each sleep is longer than the one before until it is the longest.
        let shortest = sleeps.skip(8).min().unwrap();
        assert!(shortest < Duration::from_millis(10), "{sleep_flag:?}: {shortest:?}");
    }
}

#[test]
fn a_region_of_device_memory_is_attached_to_by_its_handles() {
    let driver = |endpoint: &Endpoint| {
        Arc::new(MemfdDriver::new(endpoint.owner_instance_id(), 3, MemfdOptions::default()))
    };
    let (owner, other) = (endpoint(), endpoint());
    let (owner_driver, other_driver) = (driver(&owner), driver(&other));
    let _broker = Broker::new(&owner_driver).unwrap().spawn().unwrap();
    let layout = QueueLayout::new(4, 128, 128).unwrap();
    let (payload_bytes, counter_bytes) = (layout.payload_bytes(), layout.counter_bytes());
    let create = |counter_bytes| {
        let admission = Admission::Anyone;
        ProvidedRegion::create_shareable(&owner, &owner_driver, payload_bytes, counter_bytes, admission)
    };
    assert_eq!(create(2).unwrap_err().code(), Code::RegionCounter);
    assert_eq!(create(1 << 50).unwrap_err().code(), Code::NoSpace);
    assert_eq!(owner.live(), 0, "the part that could be made is gone again");
    let mut provided = create(counter_bytes).unwrap();
    let backend = Box::new(VmmShareable::new(other_driver));
    let consumer = Consumer::with_backends(Some(other), vec![backend], 4).unwrap();
    let mut attached = attach(&consumer, &provided);
    let mut host = L3End::new(layout, provided.memory().unwrap(), [0; 4]).unwrap();
    let mut task = L2End::<_, _, 1>::new(layout, attached.memory().unwrap(), [0; 4]).unwrap();
    host.try_enqueue(Kind::Data, &[7; 100]).unwrap();
    let (message, mut bytes) = (task.try_receive().unwrap(), [0; 128]);
    assert_eq!(task.read_into(message.handle(), &mut bytes), Ok(100));
    assert_eq!(bytes[..100], [7; 100]);
    task.release(message.handle()).unwrap();
    drop((host, task));
    attached.close(soon()).unwrap();
    provided.close(soon()).unwrap();
    assert_eq!(owner.live(), 0);
}

/// The driver copies at both ends, as it does with memory of a device that this CPU does not map.
#[test]
fn a_region_that_a_driver_copies_is_used_as_any_other_and_nobody_sleeps_on_it() {
    let driver = |endpoint: &Endpoint| {
        Arc::new(MemfdDriver::new(endpoint.owner_instance_id(), 3, MemfdOptions::default()))
    };
    let (owner, other) = (endpoint(), endpoint());
    let (owner_driver, other_driver) = (driver(&owner), driver(&other));
    let _broker = Broker::new(&owner_driver).unwrap().spawn().unwrap();
    let layout = QueueLayout::new(4, 128, 128).unwrap();
    let (payload_bytes, counter_bytes) = (layout.payload_bytes(), layout.counter_bytes());
    let create = |counter_bytes| {
        let admission = Admission::Anyone;
        ProvidedRegion::create_copying(&owner, &owner_driver, payload_bytes, counter_bytes, admission)
    };
    assert_eq!(create(2).unwrap_err().code(), Code::RegionCounter);
    assert_eq!(create(1 << 50).unwrap_err().code(), Code::NoSpace);
    assert_eq!(owner.live(), 0, "the part that could be made is gone again");
    let mut provided = create(counter_bytes).unwrap();
    let [payload, counter] = provided.descriptors().unwrap();
    assert_eq!(counter.identity().buffer_id(), payload.identity().buffer_id() + 1);
    let imports = Imports::new(other_driver);
    let mut attached = AttachedRegion::attach_copying(&imports, &payload, &counter).unwrap();
    assert_eq!((attached.parts(), imports.count()), (provided.parts(), 2));
    let (here, there) = (provided.memory().unwrap(), attached.memory().unwrap());
    assert!(!here.allows_sleeping() && !there.allows_sleeping());
    assert_eq!(here.view(provided.parts()).unwrap().payload().nbytes, payload_bytes);
    assert_eq!(there.counter_bytes(), 384);
    let error = here.read(payload_bytes, &mut [0]).unwrap_err();
    assert_eq!(
        (error.code(), here.load(384).unwrap_err().code()),
        (Code::VmmOutOfRange, Code::VmmOutOfRange)
    );
    let clock = |memory| SleepingClock::new(memory).unwrap().spinning(Duration::ZERO);
    let (mut l3_clock, mut l2_clock) = (clock(&here), clock(&there));
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut task = L2End::<_, _, 2>::new(layout, there, [0; 4]).unwrap();
            let mut bytes = [0; 128];
            while !task.is_drained() {
                let message = task.receive(LIMIT, &mut l2_clock).unwrap();
                let nbytes = task.read_into(message.handle(), &mut bytes).unwrap();
                if message.opcode() == Opcode::Data {
                    task.send(Kind::Data, &bytes[..nbytes], LIMIT, &mut l2_clock).unwrap();
                }
                task.release(message.handle()).unwrap();
            }
            assert_eq!(task.access().load(counters::L2_SLEEPS), Ok(0));
        });
        let mut host = L3End::new(layout, here, [0; 4]).unwrap();
        for number in 0..100_u64 {
            host.enqueue(Kind::Data, &number.to_le_bytes(), LIMIT, &mut l3_clock).unwrap();
            let mut bytes = [0; 128];
            assert_eq!(host.dequeue_into(&mut bytes, LIMIT, &mut l3_clock), Ok((Opcode::Data, 8)));
            assert_eq!(bytes[..8], number.to_le_bytes());
        }
        host.request_stop(LIMIT, &mut l3_clock).unwrap();
        drop((host, l3_clock));
    });
    attached.close(soon()).unwrap();
    assert_eq!(imports.count(), 0);
    provided.close(soon()).unwrap();
    assert_eq!(owner.live(), 0);
}
