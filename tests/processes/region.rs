//! The message queue between processes: a million messages, and a peer that is killed.
#![expect(clippy::indexing_slicing, reason = "what a test does not expect fails it")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bufabi_core::Code;
use bufabi_core::queue::{Kind, L2End, L3End, Opcode, QueueLayout, ReceiveError, SendError};
use bufabi_core::region::{Comparison, Region, RegionError};
use bufabi_host::backend::Backend;
use bufabi_host::backend::posix_shm::PosixShm;
use bufabi_host::backend::vmm_shareable::VmmShareable;
use bufabi_host::consumer::Consumer;
use bufabi_host::owner::Endpoint;
use bufabi_host::region::{AttachedRegion, ProvidedRegion, SleepingClock};
use bufabi_host::sys::process::{Ending, Process, fork};
use bufabi_host::vmm::memfd::{Broker, MemfdOptions};
use bufabi_host::vmm::{Admission, MemfdDriver};
use bufabi_tests::message::message;

use crate::Case;
use crate::support::{HANG, comes_true, is_running, own_objects, soon};

pub(crate) const CASES: &[Case] = &[
    ("messages_go_between_two_processes_and_back_whole_and_in_order", exchange),
    ("a_killed_task_is_known_within_a_second_to_every_wait_of_its_host", || killed(Backing::Posix, HOST)),
    ("a_killed_host_is_known_within_a_second_to_every_wait_of_its_task", || killed(Backing::Posix, TASK)),
    ("the_same_of_a_task_over_device_memory", || killed(Backing::Shareable, HOST)),
    ("the_same_of_a_host_over_device_memory", || killed(Backing::Shareable, TASK)),
];

const LIMIT: Duration = Duration::from_secs(50);
const HOUR: Duration = Duration::from_secs(3600);

fn layout() -> QueueLayout {
    QueueLayout::new(16, 2048, 1024).unwrap()
}

/// The other process: attaches by the two descriptors alone, and answers each message with the same bytes until STOP.
fn task(provided: &ProvidedRegion, parent: &Process) -> i32 {
    let [payload, counter] = provided.descriptors().unwrap();
    let consumer = Consumer::new(None).unwrap();
    let mut region = AttachedRegion::attach(&consumer, &payload, &counter).unwrap();
    let memory = region.memory().unwrap();
    let mut clock = SleepingClock::new(&memory).unwrap().watching(parent).unwrap();
    let mut end = L2End::<_, _, 4>::new(layout(), memory, [0; 16]).unwrap();
    let (mut number, mut bytes) = (0, [0; 1024]);
    while !end.is_drained() {
        let received = end.receive(LIMIT, &mut clock).unwrap();
        if received.opcode() == Opcode::Data {
            let nbytes = end.read_into(received.handle(), &mut bytes).unwrap();
            assert_eq!(bytes[..nbytes], message(number));
            number += 1;
            end.send(Kind::Data, &bytes[..nbytes], LIMIT, &mut clock).unwrap();
        }
        end.release(received.handle()).unwrap();
    }
    drop((end, clock));
    region.close(soon()).unwrap();
    0
}

fn exchange() {
    let long = std::env::var("BUFABI_LONG").is_ok_and(|value| value == "1");
    let messages: u64 = if long { 10_000_000 } else { 50_000 };
    let endpoint = Endpoint::new().unwrap();
    let layout = layout();
    let mut region =
        ProvidedRegion::create(&endpoint, layout.payload_bytes(), layout.counter_bytes()).unwrap();
    let parent = Process::current().unwrap();
    let child = fork(|| task(&region, &parent)).unwrap();
    let memory = region.memory().unwrap();
    let mut clock = SleepingClock::new(&memory).unwrap().watching(&child).unwrap();
    let mut end = L3End::new(layout, memory, [0; 16]).unwrap();
    let (mut sent, mut answered, mut bytes) = (0, 0, [0; 1024]);
    while answered < messages {
        // It waits for answers while some are to come, and else for room.
        let limit = if answered < sent { Duration::ZERO } else { LIMIT };
        if sent < messages && end.enqueue(Kind::Data, &message(sent), limit, &mut clock).is_ok() {
            sent += 1;
            continue;
        }
        let (opcode, nbytes) = end.dequeue_into(&mut bytes, LIMIT, &mut clock).unwrap();
        assert_eq!((opcode, &bytes[..nbytes]), (Opcode::Data, &message(answered)[..]));
        answered += 1;
    }
    end.request_stop(LIMIT, &mut clock).unwrap();
    comes_true("the task's end", || !is_running(child.pid()));
    assert_eq!(child.ended(), Ok(Some(Ending::Exited { status: 0 })));
    drop((end, clock));
    region.close(soon()).unwrap();
    assert_eq!(own_objects().len(), 0);
}

/// What the region's parts are made of.
#[derive(Clone, Copy)]
enum Backing {
    Posix,
    Shareable,
}

/// What this process waits for when the other one is killed.
#[derive(Clone, Copy, Debug)]
enum Wait {
    Host(HostWait),
    Task(TaskWait),
}

#[derive(Clone, Copy, Debug)]
enum HostWait {
    Peek,
    Dequeue,
    Enqueue,
    Reserve,
    Stop,
    Counter,
}

#[derive(Clone, Copy, Debug)]
enum TaskWait {
    Receive,
    Send,
    Reserve,
}

const HOST: &[Wait] = &[
    Wait::Host(HostWait::Peek),
    Wait::Host(HostWait::Dequeue),
    Wait::Host(HostWait::Enqueue),
    Wait::Host(HostWait::Reserve),
    Wait::Host(HostWait::Stop),
    Wait::Host(HostWait::Counter),
];
const TASK: &[Wait] =
    &[Wait::Task(TaskWait::Receive), Wait::Task(TaskWait::Send), Wait::Task(TaskWait::Reserve)];

fn killed(backing: Backing, waits: &[Wait]) {
    for &wait in waits {
        killed_during(backing, wait);
    }
    assert_eq!(own_objects().len(), 0);
}

fn driver(endpoint: &Endpoint) -> Arc<MemfdDriver> {
    Arc::new(MemfdDriver::new(endpoint.owner_instance_id(), 0, MemfdOptions::default()))
}

/// The other process: it attaches, says so, and then does nothing any more, in the middle of its work.
fn idle(provided: &ProvidedRegion, is_host: bool) -> i32 {
    let [payload, counter] = provided.descriptors().unwrap();
    let endpoint = Endpoint::new().unwrap();
    let backends: Vec<Box<dyn Backend>> =
        vec![Box::new(PosixShm), Box::new(VmmShareable::new(driver(&endpoint)))];
    let consumer = Consumer::with_backends(None, backends, 4).unwrap();
    let region = AttachedRegion::attach(&consumer, &payload, &counter).unwrap();
    let (memory, mut clock) =
        (region.memory().unwrap(), SleepingClock::new(&region.memory().unwrap()).unwrap());
    if is_host {
        let mut end = L3End::new(layout(), memory, [0; 16]).unwrap();
        end.enqueue(Kind::Data, &[1], LIMIT, &mut clock).unwrap();
    } else {
        let mut end = L2End::<_, _, 1>::new(layout(), memory, [0; 16]).unwrap();
        end.send(Kind::Data, &[1], LIMIT, &mut clock).unwrap();
    }
    loop {
        std::thread::sleep(HOUR);
    }
}

fn killed_during(backing: Backing, wait: Wait) {
    let endpoint = Endpoint::new().unwrap();
    let (layout, driver) = (layout(), driver(&endpoint));
    let (payload_bytes, counter_bytes) = (layout.payload_bytes(), layout.counter_bytes());
    // It listens before the fork, and serves after it, from a thread.
    let broker = Broker::new(&driver).unwrap();
    let mut region = match backing {
        Backing::Posix => ProvidedRegion::create(&endpoint, payload_bytes, counter_bytes),
        Backing::Shareable => {
            let admission = Admission::Anyone;
            ProvidedRegion::create_shareable(&endpoint, &driver, payload_bytes, counter_bytes, admission)
        }
    }
    .unwrap();
    let child = fork(|| idle(&region, matches!(wait, Wait::Task(_)))).unwrap();
    let broker = broker.spawn().unwrap();
    let memory = region.memory().unwrap();
    let mut clock = SleepingClock::new(&memory).unwrap().watching(&child).unwrap();
    let (start, learnt) = match wait {
        Wait::Task(wait) => {
            let mut end = L2End::<_, _, 1>::new(layout, memory, [0; 16]).unwrap();
            let first = end.receive(LIMIT, &mut clock).unwrap();
            end.release(first.handle()).unwrap();
            while end.try_send(Kind::Data, &[0; 64]).is_ok() {}
            let start = kill(&child);
            let clock = &mut clock;
            let learnt = match wait {
                TaskWait::Receive => end.receive(HOUR, clock).map(drop).map_err(ReceiveError::code),
                TaskWait::Send => end.send(Kind::Data, &[0; 64], HOUR, clock).map_err(SendError::code),
                TaskWait::Reserve => end.reserve(64, HOUR, clock).map(drop).map_err(SendError::code),
            };
            (start, learnt)
        }
        Wait::Host(wait) => {
            let mut end = L3End::new(layout, memory, [0; 16]).unwrap();
            end.dequeue_into(&mut [0; 8], LIMIT, &mut clock).unwrap();
            // Messages without bytes fill the ring, for STOP as well.
            while end.try_enqueue(Kind::Data, &[]).is_ok() {}
            let start = kill(&child);
            let (clock, mut out) = (&mut clock, [0; 8]);
            let learnt = match wait {
                HostWait::Peek => end.peek(HOUR, clock).map(drop).map_err(ReceiveError::code),
                HostWait::Dequeue => {
                    end.dequeue_into(&mut out, HOUR, clock).map(drop).map_err(ReceiveError::code)
                }
                HostWait::Enqueue => end.enqueue(Kind::Data, &[], HOUR, clock).map_err(SendError::code),
                HostWait::Reserve => end.reserve(0, HOUR, clock).map(drop).map_err(SendError::code),
                HostWait::Stop => end.request_stop(HOUR, clock).map_err(SendError::code),
                HostWait::Counter => {
                    let region = Region::new(end.into_access());
                    let waited = region.wait(0, Comparison::Less, 0, HOUR, clock);
                    waited.map(drop).map_err(RegionError::code)
                }
            };
            (start, learnt)
        }
    };
    assert_eq!(learnt, Err(Code::WorkerDied), "{wait:?}");
    assert!(start.elapsed() < HANG, "{wait:?}: {:?}", start.elapsed());
    comes_true("its end", || !is_running(child.pid()));
    assert_eq!(child.ended(), Ok(Some(Ending::Killed { signal: SIGKILL })));
    // What is left is cleaned up as ever.
    drop(clock);
    region.close(soon()).unwrap();
    drop(broker);
}

fn kill(child: &Process) -> Instant {
    child.send(SIGKILL).unwrap();
    Instant::now()
}

const SIGKILL: i32 = 9;
