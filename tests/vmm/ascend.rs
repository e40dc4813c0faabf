//! A chip whose device is the Ascend driver's: which calls its memory and its tasks make, with which arguments, and what becomes of it
//! when one of them fails.

use bufabi_core::Descriptor;
use bufabi_core::wire::body::Body;
use bufabi_tests::unhex;

use crate::peer::Peer;
use crate::stand_in::{DOWN, Log, NOTHING_LEFT, SHARE, World};

const INIT: &str = "aclInit(NULL) = 0";

/// The calls since the last look.
fn new_calls(log: &Log, seen: &mut usize) -> Vec<String> {
    let calls = log.calls().split_off(*seen);
    *seen = seen.saturating_add(calls.len());
    calls
}

fn ended(chip: Peer, log: &Log, seen: &mut usize) -> Vec<String> {
    chip.end();
    new_calls(log, seen)
}

fn base(hex: &str) -> u64 {
    let Body::VmmWindow { base } = Descriptor::decode(&unhex(hex).unwrap()).unwrap().body() else {
        panic!("{hex}")
    };
    base.get()
}

#[test]
fn the_calls_of_a_chips_memory_come_in_order_with_their_arguments() {
    let world = World::new();
    let (mut chip, log) = world.start_chip(0, &[]);
    let mut seen = 0;
    let buffer = chip.ok("malloc 5000 readwrite");
    assert_eq!(new_calls(&log, &mut seen), [INIT, "aclrtMalloc(5000, 0) = 0"]);
    chip.ok(&format!("put {buffer} 4990 00112233445566778899"));
    assert_eq!(new_calls(&log, &mut seen), ["aclrtMemcpy(10, 10, 1) = 0"]);
    assert_eq!(chip.ok(&format!("get {buffer} 4989 11")).split_at(2).1, "00112233445566778899");
    assert_eq!(new_calls(&log, &mut seen), ["aclrtMemcpy(11, 11, 2) = 0"]);
    // What is refused never comes to the driver.
    assert_eq!(chip.error(&format!("put {buffer} 4991 00112233445566778899")).0, "device_range");
    assert_eq!(chip.error("malloc 0 read").0, "nbytes_zero");
    let read = chip.ok("malloc 16 read");
    assert_eq!(chip.error(&format!("put {read} 0 00")).0, "denied");
    assert_eq!(new_calls(&log, &mut seen), ["aclrtMalloc(16, 0) = 0"]);
    chip.ok(&format!("free {buffer}"));
    assert_eq!(chip.error(&format!("free {buffer}")).0, "stale");
    assert_eq!(chip.error(&format!("get {buffer} 0 1")).0, "stale");
    // What is still there goes with its owner.
    let expected = ["aclrtFree(block 1) = 0", "aclrtFree(block 2) = 0", NOTHING_LEFT];
    assert_eq!(ended(chip, &log, &mut seen), expected);
}

#[test]
fn the_device_is_set_on_the_thread_before_each_call_of_a_chip() {
    let world = World::new();
    let (mut chip, log) = world.start_chip(2, &[]);
    let (from, to) = (chip.ok("malloc 64 readwrite"), chip.ok("malloc 64 readwrite"));
    chip.ok(&format!("put {from} 0 5a"));
    chip.ok(&format!("run 1 {from} {to}"));
    assert_eq!(chip.ok(&format!("get {to} 0 1")), "5a");
    chip.ok(&format!("free {from}"));
    let lines = log.lines();
    assert_eq!(lines.first().unwrap(), INIT);
    for pair in lines.get(1..).unwrap().chunks(2) {
        let [set, call] = pair else { panic!("{pair:?}") };
        assert_eq!(set, "aclrtSetDevice(2) = 0");
        assert!(!call.starts_with("aclrtSetDevice"), "{pair:?}");
    }
}

#[test]
fn a_task_gets_addresses_of_the_device() {
    let world = World::new();
    let (mut chip, log) = world.start_chip(0, &[]);
    let (from, to) = (chip.ok("malloc 4 readwrite"), chip.ok("malloc 4 readwrite"));
    let window = chip.ok("window 4");
    chip.ok(&format!("put {from} 0 01020304"));
    let mut seen = 0;
    new_calls(&log, &mut seen);
    chip.ok(&format!("run 1 {from} {to}"));
    chip.ok(&format!("run 1 {to} {window}"));
    assert_eq!(new_calls(&log, &mut seen), ["aclrtMemcpy(4, 4, 3) = 0"; 2]);
    assert_eq!(chip.ok(&format!("get {window} 0 4")), "01020304");
    assert_eq!(chip.error(&format!("run 2 {from} {to}")).0, "kernel_unknown");
    chip.ok(&format!("free {to}"));
    assert_eq!(chip.error(&format!("run 1 {from} {to}")).0, "stale");
    let (mut other, _) = world.start_chip(1, &[]);
    let foreign = other.ok("malloc 4 readwrite");
    assert_eq!(chip.error(&format!("run 1 {from} {foreign}")).0, "device_other_chip");
}

#[test]
fn a_window_is_zero_and_aligned_whatever_the_driver_gives_and_whole_or_not_there() {
    let world = World::new();
    let (mut chip, log) = world.start_chip(0, &[]);
    let mut seen = 0;
    let buffers = chip.ok("window 1500 1500000");
    // 2048 + 1500000 bytes, and up to 1023 to the first multiple of 1024.
    let made = [
        "aclrtMalloc(1503071, 0) = 0",
        "aclrtMemcpy(1048576, 1048576, 1) = 0",
        "aclrtMemcpy(453472, 453472, 1) = 0",
    ];
    assert_eq!(new_calls(&log, &mut seen).split_off(1), made);
    let bases: Vec<u64> = buffers.split(' ').map(base).collect();
    let [first, second] = bases.as_slice() else { panic!("{bases:?}") };
    assert_eq!((first.checked_rem(1024), second.checked_sub(*first)), (Some(0), Some(2048)));
    let one = buffers.split(' ').next().unwrap();
    assert_eq!(chip.error(&format!("free {one}")).0, "device_in_domain");
    chip.ok(&format!("free-window {one}"));
    assert_eq!(new_calls(&log, &mut seen), ["aclrtFree(block 1) = 0"]);
    drop(chip);
    for (script, undone) in [
        ("aclrtSetDevice:1=500123", &[][..]),
        ("aclrtMalloc=500123", &[]),
        ("aclrtMemcpy:1=500123", &["aclrtFree(block 1) = 0"]),
        ("aclrtMemcpy:2=500123", &["aclrtFree(block 1) = 0"]),
    ] {
        let world = World::new();
        let (mut chip, log) = world.start_chip(0, &[("STAND_IN_FAIL", script)]);
        let (code, text) = chip.error("window 1500 1500000");
        let call = script.split([':', '=']).next().unwrap();
        assert_eq!((code.as_str(), text), ("vmm_driver_call", format!("{call}: the driver returned 500123")));
        let calls = log.calls();
        let failed = calls.iter().position(|line| line.ends_with("= 500123"));
        assert_eq!(calls.get(failed.map_or(1, |at| at.saturating_add(1))..).unwrap(), undone, "{script}");
        assert_eq!(chip.ok("leaked"), "0 0");
        let mut seen = 0;
        assert_eq!(ended(chip, &log, &mut seen).last().unwrap(), NOTHING_LEFT);
    }
}

#[test]
fn whatever_call_fails_is_named_with_its_number_and_what_is_not_freed_is_lost() {
    let world = World::new();
    let script = "aclrtMalloc:2=7,aclrtMemcpy:1=8,aclrtMemcpy:2=9,aclrtFree:1=10";
    let (mut chip, log) = world.start_chip(0, &[("STAND_IN_FAIL", script)]);
    let buffer = chip.ok("malloc 5000 readwrite");
    let failed = |call: &str, number: u32| {
        ("vmm_driver_call".to_owned(), format!("{call}: the driver returned {number}"))
    };
    assert_eq!(chip.error("malloc 5000 readwrite"), failed("aclrtMalloc", 7));
    assert_eq!(chip.error(&format!("put {buffer} 0 00")), failed("aclrtMemcpy", 8));
    assert_eq!(chip.error(&format!("get {buffer} 0 1")), failed("aclrtMemcpy", 9));
    let (code, text) = chip.error(&format!("free {buffer}"));
    assert_eq!(code, "device_leaked");
    assert!(
        text.ends_with("is freed, but its 5000 bytes are lost: aclrtFree: the driver returned 10"),
        "{text}"
    );
    assert_eq!(chip.ok("leaked"), "1 5000");
    assert_eq!(chip.error(&format!("free {buffer}")).0, "stale", "nobody can name it any more");
    let mut seen = 0;
    assert_eq!(
        ended(chip, &log, &mut seen).last().unwrap(),
        "at exit: 0 physical, 0 ranges, 0 mapped, 1 blocks",
        "the driver is asked once"
    );
}

#[test]
fn what_a_chip_shares_by_handle_is_physical_memory_of_the_driver_and_another_chip_computes_on_it() {
    let world = World::new();
    let (mut owner, log) = world.start_chip(0, &[]);
    let (mut other, other_log) = world.start_chip(1, &[]);
    let mut seen = 0;
    let shared = owner.ok("share 5000 readwrite listed");
    assert_eq!(new_calls(&log, &mut seen), SHARE);
    owner.ok(&format!("put {shared} 4998 5a5b"));
    assert_eq!(owner.error(&format!("put {shared} 4999 5a5b")).0, "device_range");
    assert_eq!(new_calls(&log, &mut seen), ["aclrtMemcpy(2, 2, 1) = 0"]);
    let to = other.ok("malloc 5000 readwrite");
    let (_, text) = other.error(&format!("run 1 {shared} {to}"));
    assert_eq!(text, "aclrtMemImportFromShareableHandle: the driver returned 507899");
    let number = other.ok("number");
    owner.ok(&format!("permit {shared} {number}"));
    other.ok(&format!("run 1 {shared} {to}"));
    assert_eq!(other.ok(&format!("get {to} 4998 2")), "5a5b");
    let imports = |log: &Log| {
        let calls = log.calls();
        calls.iter().filter(|line| line.starts_with("aclrtMemImport") && line.ends_with("= 0")).count()
    };
    other.ok(&format!("put {to} 0 77"));
    other.ok(&format!("run 1 {to} {shared}"));
    assert_eq!(imports(&other_log), 1, "once for each identity");
    // The owner computes on its own without an import.
    let own = owner.ok("malloc 5000 readwrite");
    owner.ok(&format!("run 1 {shared} {own}"));
    assert_eq!(owner.ok(&format!("get {own} 0 1")), "77");
    assert_eq!(imports(&log), 0);
    other.ok(&format!("release {shared}"));
    let calls = other_log.calls();
    assert_eq!(calls[calls.len().saturating_sub(DOWN.len())..], DOWN);
    new_calls(&log, &mut seen);
    owner.ok(&format!("free {shared}"));
    assert_eq!(new_calls(&log, &mut seen), DOWN);
    assert_eq!(owner.error(&format!("get {shared} 0 1")).0, "stale");
    assert_eq!(owner.error(&format!("run 1 {shared} {own}")).0, "stale");
    assert_eq!(ended(owner, &log, &mut seen).last().unwrap(), NOTHING_LEFT);
    other.end();
    assert_eq!(other_log.calls().last().unwrap(), NOTHING_LEFT);
}

#[test]
fn shared_memory_that_the_driver_does_not_take_back_is_lost_and_nobody_can_name_it() {
    let world = World::new();
    let (mut chip, log) = world.start_chip(0, &[("STAND_IN_FAIL", "aclrtFreePhysical=500123")]);
    let shared = chip.ok("share 5000 read anyone");
    let (code, text) = chip.error(&format!("free {shared}"));
    assert_eq!(code, "device_leaked");
    assert!(text.ends_with("lost: aclrtFreePhysical: the driver returned 500123"), "{text}");
    assert_eq!(chip.ok("leaked"), "1 5000");
    assert_eq!(chip.error(&format!("free {shared}")).0, "stale");
    let mut seen = 0;
    let calls = ended(chip, &log, &mut seen);
    assert_eq!(calls.last().unwrap(), "at exit: 1 physical, 0 ranges, 0 mapped, 0 blocks");
    assert_eq!(calls.iter().filter(|line| line.starts_with("aclrtFreePhysical")).count(), 1);
}
