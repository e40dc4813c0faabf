//! The message queue between processes: a million messages, and a peer that is killed.
#![expect(clippy::indexing_slicing, reason = "what a test does not expect fails it")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use bufabi_core::queue::{Kind, L2End, L3End, Opcode, QueueLayout};
use bufabi_core::{Code, DType, Descriptor, Tag, Tensor, View};
use bufabi_host::backend::Backend;
use bufabi_host::backend::posix_shm::PosixShm;
use bufabi_host::backend::vmm_shareable::VmmShareable;
use bufabi_host::consumer::Consumer;
use bufabi_host::memory::Mapping;
use bufabi_host::owner::Endpoint;
use bufabi_host::region::{AttachedRegion, ProvidedRegion, SleepingClock};
use bufabi_host::sys::process::{Ending, Process, fork};
use bufabi_host::vmm::memfd::{Broker, MemfdOptions};
use bufabi_host::vmm::{Admission, Imports, MemfdDriver};
use bufabi_host::worker::{TaskRequest, WorkerId, WorkerKind};
use bufabi_tests::message::message;
use bufabi_tests::waits::{HostWait, TaskWait, died, kill_soon};

use crate::Case;
use crate::support::{HANG, SIGSTOP, SLEEP_FOR_EVER, comes_true, is_running, own_objects, soon, spawn, spec};

pub(crate) const CASES: &[Case] = &[
    ("messages_go_between_two_processes_and_back_whole_and_in_order", exchange),
    ("a_killed_task_is_known_within_a_second_to_every_wait_of_its_host", || {
        host_of_killed_task(Backing::Posix)
    }),
    ("a_killed_host_is_known_within_a_second_to_every_wait_of_its_task", || {
        task_of_killed_host(Backing::Posix)
    }),
    ("the_same_of_a_task_over_device_memory", || host_of_killed_task(Backing::Shareable)),
    ("the_same_of_a_host_over_device_memory", || task_of_killed_host(Backing::Shareable)),
    ("the_same_of_a_task_over_memory_that_a_driver_copies", || host_of_killed_task(Backing::Copied)),
    ("the_same_of_a_host_over_memory_that_a_driver_copies", || task_of_killed_host(Backing::Copied)),
    ("a_provider_that_is_killed_while_it_is_attached_to_is_told_as_gone", killed_while_attached_to),
    ("a_region_closes_when_the_worker_is_killed_that_it_waits_for", killed_while_closing),
];

const LIMIT: Duration = Duration::from_secs(50);
const HOUR: Duration = Duration::from_secs(3600);

fn layout() -> QueueLayout {
    QueueLayout::new(16, 2048, 1024).unwrap()
}

/// The other process: attaches by the two descriptors alone, and answers each message with the same bytes until STOP.
fn task(provided: &ProvidedRegion, layout: QueueLayout, parent: &Process) -> i32 {
    let [payload, counter] = provided.descriptors().unwrap();
    let consumer = Consumer::new(None).unwrap();
    let mut region = AttachedRegion::attach(&consumer, &payload, &counter).unwrap();
    let memory = region.memory().unwrap();
    let mut clock = SleepingClock::new(&memory).unwrap().watching(parent).unwrap();
    let mut end = L2End::<_, _, 4>::new(layout, memory, marks(layout)).unwrap();
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
    // A ring that is full all the time, and one in which a side finds many messages when its turn comes.
    exchange_over(layout(), messages / 5);
    exchange_over(QueueLayout::new(512, 16 << 10, 32 << 10).unwrap(), messages / 5 * 4);
    assert_eq!(own_objects().len(), 0);
}

fn marks(layout: QueueLayout) -> Vec<u64> {
    vec![0; usize::try_from(layout.depth()).unwrap()]
}

fn exchange_over(layout: QueueLayout, messages: u64) {
    let endpoint = Endpoint::new().unwrap();
    let mut region =
        ProvidedRegion::create(&endpoint, layout.payload_bytes(), layout.counter_bytes()).unwrap();
    let parent = Process::current().unwrap();
    let child = fork(|| task(&region, layout, &parent)).unwrap();
    let memory = region.memory().unwrap();
    let mut clock = SleepingClock::new(&memory).unwrap().watching(&child).unwrap();
    let mut end = L3End::new(layout, memory, marks(layout)).unwrap();
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
}

/// What the region's parts are made of, and how they are reached.
#[derive(Clone, Copy, Debug)]
enum Backing {
    Posix,
    Shareable,
    /// A driver copies every byte at both ends.
    Copied,
}

/// What this process waits for when the other one is killed.
#[derive(Clone, Copy, Debug)]
enum Wait {
    Host(HostWait),
    Task(TaskWait),
}

fn host_of_killed_task(backing: Backing) {
    HostWait::ALL.into_iter().for_each(|wait| killed_during(backing, Wait::Host(wait)));
    assert_eq!(own_objects().len(), 0);
}

fn task_of_killed_host(backing: Backing) {
    TaskWait::ALL.into_iter().for_each(|wait| killed_during(backing, Wait::Task(wait)));
    assert_eq!(own_objects().len(), 0);
}

fn driver(endpoint: &Endpoint) -> Arc<MemfdDriver> {
    Arc::new(MemfdDriver::new(endpoint.owner_instance_id(), 0, MemfdOptions::default()))
}

/// The other process: it attaches, says so, and then does nothing any more, in the middle of its work.
fn idle(provided: &ProvidedRegion, backing: Backing, is_host: bool) -> i32 {
    let [payload, counter] = provided.descriptors().unwrap();
    let endpoint = Endpoint::new().unwrap();
    let backends: Vec<Box<dyn Backend>> =
        vec![Box::new(PosixShm), Box::new(VmmShareable::new(driver(&endpoint)))];
    let consumer = Consumer::with_backends(None, backends, 4).unwrap();
    let imports = Imports::new(driver(&endpoint));
    let region = match backing {
        Backing::Posix | Backing::Shareable => AttachedRegion::attach(&consumer, &payload, &counter),
        Backing::Copied => AttachedRegion::attach_copying(&imports, &payload, &counter),
    }
    .unwrap();
    let memory = region.memory().unwrap();
    let mut clock = SleepingClock::new(&memory).unwrap();
    if is_host {
        let mut end = L3End::new(layout(), memory, [0; 16]).unwrap();
        end.enqueue(Kind::Data, &[1], LIMIT, &mut clock).unwrap();
    } else {
        let mut end = L2End::<_, _, 1>::new(layout(), memory, [0; 16]).unwrap();
        end.send(Kind::Data, &[1], LIMIT, &mut clock).unwrap();
    }
    loop {
        thread::sleep(HOUR);
    }
}

fn killed_during(backing: Backing, wait: Wait) {
    let endpoint = Endpoint::new().unwrap();
    let (layout, driver) = (layout(), driver(&endpoint));
    let (payload_bytes, counter_bytes) = (layout.payload_bytes(), layout.counter_bytes());
    // It listens before the fork, and serves after it, from a thread.
    let broker = Broker::new(&driver).unwrap();
    let admission = Admission::Anyone;
    let mut region = match backing {
        Backing::Posix => ProvidedRegion::create(&endpoint, payload_bytes, counter_bytes),
        Backing::Shareable => {
            ProvidedRegion::create_shareable(&endpoint, &driver, payload_bytes, counter_bytes, admission)
        }
        Backing::Copied => {
            ProvidedRegion::create_copying(&endpoint, &driver, payload_bytes, counter_bytes, admission)
        }
    }
    .unwrap();
    let child = fork(|| idle(&region, backing, matches!(wait, Wait::Task(_)))).unwrap();
    let broker = broker.spawn().unwrap();
    let memory = region.memory().unwrap();
    // It is watched by a descriptor that is closed again at once.
    let watched = Process::open(child.pid()).unwrap();
    let mut clock = SleepingClock::new(&memory).unwrap().watching(&watched).unwrap();
    drop(watched);
    // The child has attached when its first message comes.
    let (killer, learnt) = match wait {
        Wait::Task(wait) => {
            let mut end = L2End::<_, _, 1>::new(layout, memory, vec![0; 16]).unwrap();
            let first = end.receive(LIMIT, &mut clock).unwrap();
            end.release(first.handle()).unwrap();
            (kill_soon(child.pid()).unwrap(), wait.wait(end, &mut clock))
        }
        Wait::Host(wait) => {
            let mut end = L3End::new(layout, memory, vec![0; 16]).unwrap();
            end.dequeue_into(&mut [0; 8], LIMIT, &mut clock).unwrap();
            (kill_soon(child.pid()).unwrap(), wait.wait(end, &mut clock))
        }
    };
    let elapsed = killer.join().unwrap().elapsed();
    assert_eq!(learnt, died(child.pid()), "{backing:?} {wait:?}");
    assert!(elapsed < HANG, "{backing:?} {wait:?}: {elapsed:?}");
    comes_true("its end", || !is_running(child.pid()));
    assert_eq!(child.ended(), Ok(Some(Ending::Killed { signal: SIGKILL })));
    // Nobody else is let in, and what is left is cleaned up as ever.
    assert_eq!(region.memory().unwrap_err().code(), Code::WorkerDied);
    drop(clock);
    region.close(soon()).unwrap();
    assert_eq!(endpoint.live(), 0);
    drop(broker);
}

/// Its broker does not answer any more when the attaching begins, and is gone before it ends.
fn killed_while_attached_to() {
    let place = Mapping::inherited(4096).unwrap();
    let is_ready = || place.atomic_u32(0).unwrap().load(Ordering::Acquire) == 1;
    let child = fork(|| {
        let endpoint = Endpoint::new().unwrap();
        let driver = driver(&endpoint);
        let _broker = Broker::new(&driver).unwrap().spawn().unwrap();
        let region = ProvidedRegion::create_shareable(&endpoint, &driver, 192, 384, Admission::Anyone);
        let [payload, counter] = region.unwrap().descriptors().unwrap().map(|part| part.encode());
        place.write(64, &payload).unwrap();
        place.write(256, &counter).unwrap();
        place.atomic_u32(0).unwrap().store(1, Ordering::Release);
        loop {
            thread::sleep(HOUR);
        }
    })
    .unwrap();
    comes_true("the provider's region", is_ready);
    let [payload, counter] = [64, 256].map(|offset| {
        let mut bytes = [0; 88];
        place.read(offset, &mut bytes).unwrap();
        Descriptor::decode(&bytes).unwrap()
    });
    child.send(SIGSTOP).unwrap();
    let endpoint = Endpoint::new().unwrap();
    let backends: Vec<Box<dyn Backend>> = vec![Box::new(VmmShareable::new(driver(&endpoint)))];
    let consumer = Consumer::with_backends(None, backends, 4).unwrap();
    let killer = kill_soon(child.pid()).unwrap();
    let refused = AttachedRegion::attach(&consumer, &payload, &counter).unwrap_err();
    let elapsed = killer.join().unwrap().elapsed();
    assert_eq!(refused.code(), Code::VmmOwnerGone, "{refused}");
    assert!(elapsed < HANG, "{elapsed:?}");
    assert_eq!(consumer.counters().live, 0);
    comes_true("its end", || !is_running(child.pid()));
}

/// A task that never ends names PAYLOAD; its worker is killed while the region waits for it to be done.
fn killed_while_closing() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &[spec("leaf", WorkerKind::Sub)]);
    let mut region = ProvidedRegion::create(&endpoint, 64, 384).unwrap();
    let [payload, _] = region.descriptors().unwrap();
    let view = View::row_major(0, DType::Uint8, &[64], 64).unwrap();
    let tensors = [Tensor::new(&payload, &view).unwrap()];
    let request = TaskRequest {
        task: 7,
        member: 0,
        kernel: SLEEP_FOR_EVER,
        tensors: &tensors,
        tags: &[Tag::Input],
        scalars: &[],
    };
    workers.submit(WorkerId(0), &request).unwrap();
    let killer = kill_soon(workers.pid(WorkerId(0)).unwrap()).unwrap();
    let elapsed = thread::scope(|scope| {
        let closing = scope.spawn(|| {
            region.close(soon()).unwrap();
            Instant::now()
        });
        let done = workers.wait(soon()).unwrap();
        assert_eq!(done.result.unwrap_err().code(), Code::WorkerDied);
        closing.join().unwrap().duration_since(killer.join().unwrap())
    });
    assert!(elapsed < HANG, "{elapsed:?}");
    assert_eq!((endpoint.live(), own_objects().len()), (0, 0));
}

const SIGKILL: i32 = 9;
