//! The message queue between processes: a million messages, and a peer that is killed.
#![expect(clippy::indexing_slicing, reason = "what a test does not expect fails it")]

use std::time::{Duration, Instant};

use bufabi_core::Code;
use bufabi_core::queue::{Kind, L2End, L3End, Opcode, QueueLayout, ReceiveError, SendError};
use bufabi_host::consumer::Consumer;
use bufabi_host::owner::Endpoint;
use bufabi_host::region::{AttachedRegion, ProvidedRegion, SleepingClock};
use bufabi_host::sys::process::{Ending, Process, fork};
use bufabi_tests::message::message;

use crate::Case;
use crate::support::{is_running, own_objects, soon, within_a_second};

pub(crate) const CASES: &[Case] = &[
    ("messages_go_between_two_processes_and_back_whole_and_in_order", exchange),
    ("a_killed_peer_is_known_within_a_second_to_a_waiting_receiver", || killed(false)),
    ("a_killed_peer_is_known_within_a_second_to_a_waiting_sender", || killed(true)),
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
    let messages: u64 = if long { 1_000_000 } else { 50_000 };
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
    within_a_second("the task's end", || !is_running(child.pid()));
    assert_eq!(child.ended(), Ok(Some(Ending::Exited { status: 0 })));
    drop((end, clock));
    region.close(soon()).unwrap();
    assert_eq!(own_objects().len(), 0);
}

fn killed(while_sending: bool) {
    let endpoint = Endpoint::new().unwrap();
    let layout = layout();
    let mut region =
        ProvidedRegion::create(&endpoint, layout.payload_bytes(), layout.counter_bytes()).unwrap();
    let child = fork(|| {
        let [payload, counter] = region.descriptors().unwrap();
        let consumer = Consumer::new(None).unwrap();
        let region = AttachedRegion::attach(&consumer, &payload, &counter).unwrap();
        let mut end = L2End::<_, _, 1>::new(layout, region.memory().unwrap(), [0; 16]).unwrap();
        let mut clock = SleepingClock::new(&region.memory().unwrap()).unwrap();
        end.send(Kind::Data, &[1], LIMIT, &mut clock).unwrap();
        end.receive(HOUR, &mut clock).unwrap();
        // In the middle of its work, with a message in its hands.
        loop {
            std::thread::sleep(HOUR);
        }
    })
    .unwrap();
    let memory = region.memory().unwrap();
    let mut clock = SleepingClock::new(&memory).unwrap().watching(&child).unwrap();
    let mut end = L3End::new(layout, memory, [0; 16]).unwrap();
    end.dequeue_into(&mut [0; 8], LIMIT, &mut clock).unwrap();
    end.enqueue(Kind::Data, &[0; 2048], LIMIT, &mut clock).unwrap();
    child.send(SIGKILL).unwrap();
    let start = Instant::now();
    let learnt = if while_sending {
        end.enqueue(Kind::Data, &[0], HOUR, &mut clock).map_err(SendError::code)
    } else {
        end.peek(HOUR, &mut clock).map(|_| ()).map_err(ReceiveError::code)
    };
    assert_eq!(learnt, Err(Code::WorkerDied));
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(child.ended(), Ok(Some(Ending::Killed { signal: SIGKILL })));
    // What is left is cleaned up as ever.
    drop((end, clock));
    region.close(soon()).unwrap();
    assert_eq!(own_objects().len(), 0);
}

const SIGKILL: i32 = 9;
