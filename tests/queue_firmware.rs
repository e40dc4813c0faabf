//! A host and bare aarch64 firmware in QEMU, whose end of the message queue is the firmware library's in C, over one region of software
//! device memory: a hundred thousand messages, a million in a long run, with every byte checked at both ends, and a machine that is killed in the middle.
#![expect(clippy::unwrap_used, reason = "what a test cannot build or run fails it")]

use std::fs;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bufabi_core::queue::{Kind, L3End, Opcode, QueueLayout, ReceiveError};
use bufabi_host::owner::Endpoint;
use bufabi_host::region::{Awaited, Emulator, EmulatorError, ProvidedRegion, RegionMemory, SleepingClock};
use bufabi_host::sys::process::{Ending, Process};
use bufabi_host::vmm::memfd::{Broker, MemfdOptions};
use bufabi_host::vmm::{Admission, MemfdDriver};
use bufabi_tests::device::{
    BARE_AARCH64, CORTEX_M, firmware_library, fresh_folder, link_alone, panics, queue_firmware, sizes,
};
use bufabi_tests::message::message;
use bufabi_tests::waits::{HostWait, died, kill_soon};

const LIMIT: Duration = Duration::from_secs(60);
/// What takes longer hangs: ten times the second in which everyone ought to know.
const HANG: Duration = Duration::from_secs(10);
const SIGKILL: i32 = 9;
const SIGSTOP: i32 = 19;

/// Kept between runs, so that only what changed is built again.
fn builds() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("firmware")
}

fn soon() -> Instant {
    Instant::now().checked_add(LIMIT).unwrap()
}

fn driver(endpoint: &Endpoint) -> Arc<MemfdDriver> {
    Arc::new(MemfdDriver::new(endpoint.owner_instance_id(), 0, MemfdOptions::default()))
}

/// Runs a host beside the firmware in `folder`, which is told to do `what`.
fn beside_firmware(
    folder: &Path,
    what: u64,
    host: impl FnOnce(L3End<RegionMemory, Vec<u64>>, &mut SleepingClock, Emulator),
) {
    let library = firmware_library(BARE_AARCH64, &[], &builds()).unwrap();
    let image = queue_firmware(&library, folder).unwrap();
    assert_eq!(panics(&image).unwrap(), [""; 0], "a path to a panic");
    let layout = QueueLayout::new(256, 64 << 10, 64 << 10).unwrap();
    let (owner, machine) = (Endpoint::new().unwrap(), Endpoint::new().unwrap());
    let (owner_driver, machine_driver) = (driver(&owner), driver(&machine));
    let _broker = Broker::new(&owner_driver).unwrap().spawn().unwrap();
    let (payload_bytes, counter_bytes) = (layout.payload_bytes(), layout.counter_bytes());
    let admission = Admission::Anyone;
    let region =
        ProvidedRegion::create_shareable(&owner, &owner_driver, payload_bytes, counter_bytes, admission);
    let mut region = region.unwrap();
    let [payload, counter] = region.descriptors().unwrap();
    let emulator =
        Emulator::start(&machine_driver, [&payload, &counter], layout, &image, folder, what, LIMIT).unwrap();
    let memory = region.memory().unwrap();
    let mut clock = SleepingClock::new(&memory).unwrap().watching(emulator.process()).unwrap();
    let end = L3End::new(layout, memory, vec![0; 256]).unwrap();
    host(end, &mut clock, emulator);
    drop(clock);
    region.close(soon()).unwrap();
}

#[test]
fn a_host_and_firmware_exchange_messages_and_both_check_every_byte() {
    let long = std::env::var("BUFABI_LONG").is_ok_and(|value| value == "1");
    let messages: u64 = if long { 1_000_000 } else { 100_000 };
    let folder = fresh_folder(&builds(), "queue").unwrap();
    beside_firmware(&folder, 0, |mut end, clock, emulator| {
        let (mut sent, mut answered, mut out) = (0, 0, [0; 1024]);
        while answered < messages {
            // It waits for answers while some are to come, and else for room.
            while sent < messages && end.try_enqueue(Kind::Data, &message(sent)).is_ok() {
                sent += 1;
            }
            let (opcode, nbytes) = end.dequeue_into(&mut out, LIMIT, clock).unwrap();
            assert_eq!((opcode, &out[..nbytes]), (Opcode::Data, &message(answered)[..]));
            answered += 1;
        }
        end.request_stop(LIMIT, clock).unwrap();
        emulator.wait(LIMIT).unwrap();
        assert_eq!(end.poison(), None);
    });
    assert_eq!(fs::read_to_string(folder.join("answers")).unwrap(), format!("ok {messages}\n"));
}

#[test]
fn firmware_that_gets_another_message_than_it_expects_gives_up_and_the_host_sees_it() {
    let folder = fresh_folder(&builds(), "queue-other").unwrap();
    beside_firmware(&folder, 0, |mut end, clock, emulator| {
        end.enqueue(Kind::Data, &message(0), LIMIT, clock).unwrap();
        end.enqueue(Kind::Data, &message(7), LIMIT, clock).unwrap();
        let mut out = [0; 1024];
        let first = end.dequeue_into(&mut out, LIMIT, clock).unwrap();
        assert_eq!(out[..first.1], message(0));
        assert_eq!(end.dequeue_into(&mut out, LIMIT, clock), Err(ReceiveError::PeerAborted));
        emulator.wait(LIMIT).unwrap();
        assert_eq!(end.poison(), None, "the other side's flag does not set ours");
    });
    let answers = fs::read_to_string(folder.join("answers")).unwrap();
    assert_eq!(answers, "input 1 is another: queue_aborted 1\n");
}

/// Each time a machine has answered a message and stands still then, so that nothing ends the wait but its end.
#[test]
fn a_machine_that_is_killed_is_known_within_a_second_to_every_wait_of_its_host() {
    for wait in HostWait::ALL {
        let folder = fresh_folder(&builds(), format!("queue-killed-{wait:?}")).unwrap();
        beside_firmware(&folder, 1, |mut end, clock, emulator| {
            end.enqueue(Kind::Data, &[1; 32], LIMIT, clock).unwrap();
            assert_eq!(end.dequeue_into(&mut [0; 32], LIMIT, clock), Ok((Opcode::Data, 32)));
            assert_eq!(end.poison(), None);
            let pid = emulator.process().pid();
            stand_still(emulator.process());
            let killer = kill_soon(pid).unwrap();
            assert_eq!(wait.wait(end, clock), died(pid));
            let elapsed = killer.join().unwrap().elapsed();
            assert!(elapsed < HANG, "{wait:?}: {elapsed:?}");
            let ending = Ending::Killed { signal: SIGKILL };
            assert_eq!(emulator.wait(LIMIT), Err(EmulatorError::Ended { ending }));
        });
    }
}

/// Starts a machine with `image`, which does not come to a program that begins within `patience`.
fn no_begin(image: &Path, folder: &Path, patience: Duration) -> EmulatorError {
    let (owner, machine) = (Endpoint::new().unwrap(), Endpoint::new().unwrap());
    let (owner_driver, machine_driver) = (driver(&owner), driver(&machine));
    let _broker = Broker::new(&owner_driver).unwrap().spawn().unwrap();
    let layout = QueueLayout::new(4, 64, 64).unwrap();
    let (payload_bytes, counter_bytes) = (layout.payload_bytes(), layout.counter_bytes());
    let admission = Admission::Anyone;
    let region =
        ProvidedRegion::create_shareable(&owner, &owner_driver, payload_bytes, counter_bytes, admission);
    let mut region = region.unwrap();
    let [payload, counter] = region.descriptors().unwrap();
    let none = Emulator::start(&machine_driver, [&payload, &counter], layout, image, folder, 0, patience);
    region.close(soon()).unwrap();
    none.unwrap_err()
}

/// What a machine without a program, or one that is killed while it starts, comes to.
#[test]
fn a_machine_that_ends_before_its_program_begins_is_told_at_once() {
    let folder = fresh_folder(&builds(), "queue-none").unwrap();
    let ending = Ending::Exited { status: 1 };
    let start = Instant::now();
    let ended = no_begin(&folder.join("no-such-image"), &folder, LIMIT);
    assert_eq!(ended, EmulatorError::Ended { ending });
    assert!(start.elapsed() < HANG, "{:?}", start.elapsed());
}

#[test]
fn a_machine_whose_program_says_nothing_is_told_and_ends() {
    let folder = fresh_folder(&builds(), "queue-silent").unwrap();
    let image = folder.join("turns-in-place");
    fs::write(&image, 0x1400_0000_u32.to_le_bytes()).unwrap();
    let patience = Duration::from_millis(500);
    let start = Instant::now();
    let silent = no_begin(&image, &folder, patience);
    assert_eq!(silent, EmulatorError::Silent { awaited: Awaited::Answers, patience });
    assert!((patience..HANG).contains(&start.elapsed()), "{:?}", start.elapsed());
    assert_eq!(silent.to_string(), "the emulated machine made no file of its answers within 500ms");
}

#[test]
fn a_machine_that_does_not_end_is_told_and_killed() {
    let folder = fresh_folder(&builds(), "queue-endless").unwrap();
    beside_firmware(&folder, 1, |_end, _, emulator| {
        let process = Process::open(emulator.process().pid()).unwrap();
        let patience = Duration::from_millis(5);
        assert_eq!(emulator.wait(patience), Err(EmulatorError::Silent { awaited: Awaited::End, patience }));
        assert!(process.send(SIGKILL).is_err(), "it is there no more");
    });
}

/// Stops every thread of a process, which takes effect some time after it was asked for.
fn stand_still(process: &Process) {
    process.send(SIGSTOP).unwrap();
    let start = Instant::now();
    let is_stopped = |thread: fs::DirEntry| {
        let state = fs::read_to_string(thread.path().join("stat")).unwrap();
        state.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    };
    while !fs::read_dir(format!("/proc/{}/task", process.pid())).unwrap().all(|it| is_stopped(it.unwrap())) {
        assert!(start.elapsed() < HANG, "it goes on");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Its host's thread ends without a word, as it does when its process is killed.
#[test]
fn a_machine_ends_with_its_host() {
    let folder = fresh_folder(&builds(), "queue-orphan").unwrap();
    let machine = thread::spawn(move || {
        let mut machine = None;
        beside_firmware(&folder, 1, |_, _, emulator| {
            machine = Some(Process::open(emulator.process().pid()).unwrap());
            let _ = ManuallyDrop::new(emulator);
        });
        machine.unwrap()
    });
    let machine = machine.join().unwrap();
    let start = Instant::now();
    loop {
        match machine.ended().unwrap() {
            Some(ending) => break assert_eq!(ending, Ending::Killed { signal: SIGKILL }),
            None => assert!(start.elapsed() < HANG, "it goes on"),
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The entry points of a task's end.
const FUNCTIONS: [&str; 15] = [
    "bufabi_queue_attach",
    "bufabi_queue_detach",
    "bufabi_queue_receive",
    "bufabi_queue_read",
    "bufabi_queue_release",
    "bufabi_queue_is_drained",
    "bufabi_queue_send",
    "bufabi_queue_reserve",
    "bufabi_queue_write",
    "bufabi_queue_commit",
    "bufabi_queue_cancel",
    "bufabi_queue_abort",
    "bufabi_queue_peer_aborted",
    "bufabi_queue_poison",
    "bufabi_queue_size",
];

#[test]
fn no_function_of_a_tasks_end_has_a_path_to_a_panic_or_keeps_a_state_of_its_own() {
    let folder = fresh_folder(&builds(), "queue-functions").unwrap();
    for (target, linker) in [(CORTEX_M, "arm-none-eabi-ld"), (BARE_AARCH64, "aarch64-linux-gnu-ld")] {
        let library = firmware_library(target, &[], &builds()).unwrap();
        for function in FUNCTIONS {
            let image = folder.join(format!("{target}-{function}"));
            link_alone(linker, function, &library, &image).unwrap();
            assert_eq!(panics(&image).unwrap(), [""; 0], "{target}: {function} has a path to a panic");
            let sizes = sizes(&image).unwrap();
            assert_eq!(sizes.data, 0, "{target}: {function} keeps no state");
            assert!(sizes.text <= 8 * 1024, "{target}: {function} takes {} bytes of text", sizes.text);
        }
    }
}
