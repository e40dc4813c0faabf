//! The Ascend driver's calls, one by one: their order and arguments, what is undone when one of them fails, handle 0, numbers that
//! mean several things, the whitelist.

use crate::peer::Peer;
use crate::stand_in::{DOWN, Log, NOTHING_LEFT, SHARE, World, library_with_version, library_without};

/// Ends a peer, and tells the calls that it made after the first `skip`.
fn calls_at_end(peer: Peer, log: &Log, skip: usize) -> Vec<String> {
    peer.end();
    log.calls().split_off(skip)
}

#[test]
fn the_owners_calls_come_in_order_with_their_arguments() {
    let world = World::new();
    let (mut owner, log) = world.start(0, &[]);
    owner.ok("share 1 1 5000 readwrite listed");
    assert_eq!(log.calls(), SHARE);
    owner.ok("permit 1 11 12 13");
    owner.ok("free 1");
    let mut expected = vec!["aclrtMemSetPidToShareableHandle(handle 1, pids, 3) = 0"];
    expected.extend(DOWN);
    expected.push(NOTHING_LEFT);
    assert_eq!(calls_at_end(owner, &log, SHARE.len()), expected);
}

#[test]
fn the_device_is_set_on_the_thread_before_each_call() {
    let world = World::new();
    let (mut owner, log) = world.start(2, &[]);
    owner.ok("share 1 1 5000 readwrite anyone");
    let lines = log.lines();
    assert_eq!(lines[0], "aclInit(NULL) = 0");
    for pair in lines[1..].chunks(2) {
        assert_eq!(pair[0], "aclrtSetDevice(2) = 0");
        assert!(!pair[1].starts_with("aclrtSetDevice"), "{pair:?}");
    }
    assert!(lines.iter().any(|line| line.contains("device 2, attribute 4")));
    assert!(
        lines.iter().any(|line| line.contains("visible device 6")),
        "the driver's number, not the process's"
    );
    assert!(lines.iter().any(|line| line.contains("(physical 1, 0, 1, handle 1)")), "no whitelist");
}

#[test]
fn an_importers_calls_come_in_order_with_their_arguments() {
    let world = World::new();
    let (mut owner, _) = world.start(1, &[]);
    let (mut importer, log) = world.start(0, &[]);
    let first = owner.ok("share 1 1 5000 readwrite listed");
    let second = owner.ok("share 2 1 5000 readwrite anyone");
    let number = importer.number();
    owner.ok(&format!("permit 1 {number}"));
    importer.ok(&format!("import {first}"));
    importer.ok(&format!("import {second}"));
    importer.ok("drop 0");
    let expected = [
        "aclInit(NULL) = 0",
        "aclrtDeviceGetBareTgid() = 0",
        "aclrtDeviceEnablePeerAccess(1, 0) = 0",
        "aclrtMemImportFromShareableHandle(handle 1, device 0) = 0",
        "aclrtReserveMemAddress(2097152, 0, NULL, 0) = 0",
        "aclrtMapMem(range 1, 2097152, 0, physical 1, 0) = 0",
        "aclrtMemSetAccess(range 1, 2097152, flags 3, visible device 4, 1) = 0",
        // The other device's memory can be reached by now.
        "aclrtMemImportFromShareableHandle(handle 2, device 0) = 0",
        "aclrtReserveMemAddress(2097152, 0, NULL, 0) = 0",
        "aclrtMapMem(range 2, 2097152, 0, physical 2, 0) = 0",
        "aclrtMemSetAccess(range 2, 2097152, flags 3, visible device 4, 1) = 0",
        "aclrtUnmapMem(range 1) = 0",
        "aclrtReleaseMemAddress(range 1) = 0",
        "aclrtFreePhysical(physical 1) = 0",
    ];
    assert_eq!(log.calls(), expected);
    assert_eq!(
        calls_at_end(importer, &log, expected.len()),
        [
            "aclrtUnmapMem(range 2) = 0",
            "aclrtReleaseMemAddress(range 2) = 0",
            "aclrtFreePhysical(physical 2) = 0",
            NOTHING_LEFT
        ]
    );
}

#[test]
fn whatever_stage_of_the_owner_fails_the_ones_before_it_are_undone_in_reverse() {
    let [unmap, release, free] = DOWN;
    let stages: [(&str, &str, usize, &[&str]); 9] = [
        ("aclrtSetDevice", "=", 1, &[]),
        ("aclrtMemGetAllocationGranularity", "=", 1, &[]),
        ("aclrtMallocPhysical", "=", 2, &[]),
        ("aclrtReserveMemAddress", "=", 3, &[free]),
        ("aclrtMapMem", "=", 4, &[release, free]),
        ("aclrtMemSetAccess", "=", 5, &[unmap, release, free]),
        ("aclrtMemcpy", "=", 6, &[unmap, release, free]),
        ("aclrtMemcpy", ":2=", 7, &[unmap, release, free]),
        ("aclrtMemExportToShareableHandle", "=", 8, &[unmap, release, free]),
    ];
    for (call, when, succeeded, undone) in stages {
        let world = World::new();
        let script = format!("{call}{when}500123");
        let (mut owner, log) = world.start(0, &[("STAND_IN_FAIL", &script)]);
        let (code, text) = owner.error("share 1 1 5000 readwrite listed");
        assert_eq!(code, "vmm_driver_call", "{call}");
        assert_eq!(text, format!("{call}: the driver returned 500123"));
        let calls = calls_at_end(owner, &log, 0);
        assert_eq!(calls[..succeeded], SHARE[..succeeded], "{call}");
        // Settings of the device are left out, the failing one too.
        let failed = usize::from(call != "aclrtSetDevice");
        assert!(failed == 0 || calls[succeeded].starts_with(call), "{calls:?}");
        let mut expected = undone.to_vec();
        expected.push(NOTHING_LEFT);
        assert_eq!(calls[succeeded..][failed..], expected, "{call}");
    }
}

#[test]
fn whatever_stage_of_an_importer_fails_the_ones_before_it_are_undone_in_reverse() {
    let [unmap, release, free] = DOWN;
    let stages: [(&str, &[&str]); 5] = [
        ("aclrtDeviceEnablePeerAccess", &[]),
        ("aclrtMemImportFromShareableHandle", &[]),
        ("aclrtReserveMemAddress", &[free]),
        ("aclrtMapMem", &[release, free]),
        ("aclrtMemSetAccess", &[unmap, release, free]),
    ];
    for (call, undone) in stages {
        let world = World::new();
        let (mut owner, _) = world.start(1, &[]);
        let descriptor = owner.ok("share 1 1 5000 readwrite anyone");
        // It fails once only: what was undone can be done.
        let script = format!("{call}:1=500123");
        let (mut importer, log) = world.start(0, &[("STAND_IN_FAIL", &script)]);
        let (code, text) = importer.error(&format!("import {descriptor}"));
        assert_eq!((code.as_str(), text), ("vmm_driver_call", format!("{call}: the driver returned 500123")));
        let calls = log.calls();
        let failed = calls.iter().position(|line| line.starts_with(call)).unwrap();
        assert_eq!(calls[failed..][1..], *undone, "{call}");
        importer.ok(&format!("import {descriptor}"));
        assert_eq!(calls_at_end(importer, &log, 0).last().unwrap(), NOTHING_LEFT);
    }
}

#[test]
fn the_first_error_is_the_one_reported_and_undoing_goes_as_far_as_it_may() {
    let world = World::new();
    let script = "aclrtMemSetAccess=11,aclrtUnmapMem=12,aclrtFreePhysical=13";
    let (mut owner, log) = world.start(0, &[("STAND_IN_FAIL", script)]);
    let (_, text) = owner.error("share 1 1 5000 readwrite listed");
    assert_eq!(text, "aclrtMemSetAccess: the driver returned 11");
    // Addresses at which memory is mapped must not be released.
    assert_eq!(log.calls()[6..], ["aclrtUnmapMem(range 1) = 12", "aclrtFreePhysical(physical 1) = 13"]);
}

#[test]
fn a_release_that_failed_is_finished_by_the_next_and_nothing_is_done_twice() {
    let [unmap, release, free] = DOWN;
    for (call, first, second) in [
        ("aclrtUnmapMem", vec!["aclrtUnmapMem(range 1) = 7", free], vec![unmap, release]),
        ("aclrtReleaseMemAddress", vec![unmap, "aclrtReleaseMemAddress(range 1) = 7", free], vec![release]),
        ("aclrtFreePhysical", vec![unmap, release, "aclrtFreePhysical(physical 1) = 7"], vec![free]),
    ] {
        let world = World::new();
        let script = format!("{call}:1=7");
        let (mut owner, log) = world.start(0, &[("STAND_IN_FAIL", &script)]);
        owner.ok("share 1 1 5000 readwrite listed");
        let (_, text) = owner.error("release 1");
        assert_eq!(text, format!("{call}: the driver returned 7"));
        assert_eq!(log.calls()[SHARE.len()..], first, "{call}");
        owner.ok("release 1");
        owner.ok("release 1");
        assert_eq!(log.calls()[SHARE.len()..][first.len()..], second, "{call}");
        assert_eq!(calls_at_end(owner, &log, 0).last().unwrap(), NOTHING_LEFT);
    }
}

#[test]
fn revoking_frees_early_and_leaves_the_mapping() {
    let world = World::new();
    let (mut owner, log) = world.start(0, &[]);
    owner.ok("share 1 1 5000 readwrite listed");
    owner.ok("revoke 1");
    let [unmap, release, free] = DOWN;
    assert_eq!(log.calls()[SHARE.len()..], [free]);
    owner.ok("write own 1 0 5a");
    assert_eq!(owner.ok("read own 1 0 1"), "5a");
    let (code, _) = owner.error("permit 1 1");
    assert_eq!(code, "vmm_order");
    let copies = 2;
    assert_eq!(
        calls_at_end(owner, &log, SHARE.len().saturating_add(1).saturating_add(copies)),
        [unmap, release, NOTHING_LEFT]
    );
}

#[test]
fn handle_0_never_travels() {
    let world = World::new();
    let (mut owner, log) = world.start(0, &[("STAND_IN_FIRST_HANDLE", "0")]);
    let (mut importer, _) = world.start(1, &[]);
    let descriptor = owner.ok("share 1 1 5000 readwrite anyone");
    // What has handle 0 is kept until something else is there, so that 0 is not given out again.
    let calls = log.calls();
    assert!(calls.iter().any(|line| line.ends_with("(physical 1, 0, 1, handle 0) = 0")), "{calls:?}");
    assert_eq!(calls[calls.len().saturating_sub(4)..], {
        let [unmap, release, free] = DOWN;
        ["aclrtMemExportToShareableHandle(physical 2, 0, 1, handle 1) = 0", unmap, release, free]
    });
    importer.ok(&format!("import {descriptor}"));
    owner.ok("write own 1 0 5a");
    assert_eq!(importer.ok("read import 0 0 1"), "5a");
    owner.ok("free 1");
    assert_eq!(calls_at_end(owner, &log, 0).last().unwrap(), NOTHING_LEFT);
}

#[test]
fn a_driver_that_knows_only_handle_0_is_an_error_of_its_own() {
    let world = World::new();
    let (mut owner, log) = world.start(0, &[("STAND_IN_HANDLE", "0")]);
    let (code, text) = owner.error("share 1 1 5000 readwrite listed");
    assert_eq!(code, "vmm_handle_zero");
    assert_eq!(text, "the driver gave handle 0, which must not travel, 2 times");
    assert_eq!(calls_at_end(owner, &log, 0).last().unwrap(), NOTHING_LEFT);
}

#[test]
fn a_number_of_the_drivers_is_kept_and_no_cause_is_guessed() {
    for number in [507_899, 107_017, 207_001, 207_006, 107_002, 1, -1] {
        let world = World::new();
        let (mut owner, _) = world.start(0, &[]);
        let descriptor = owner.ok("share 1 1 5000 readwrite anyone");
        let script = format!("aclrtMemImportFromShareableHandle={number}");
        let (mut importer, _) = world.start(0, &[("STAND_IN_FAIL", &script)]);
        let (code, text) = importer.error(&format!("import {descriptor}"));
        assert_eq!(code, "vmm_driver_call");
        assert_eq!(text, format!("aclrtMemImportFromShareableHandle: the driver returned {number}"));
    }
}

#[test]
fn only_207000_says_that_something_is_not_supported() {
    let world = World::new();
    let (mut owner, _) = world.start(0, &[("STAND_IN_FAIL", "aclrtMallocPhysical=207000")]);
    let (code, text) = owner.error("share 1 1 5000 readwrite anyone");
    assert_eq!(code, "vmm_not_supported");
    assert_eq!(text, "aclrtMallocPhysical: the driver does not support it here");
}

#[test]
fn an_importer_that_started_after_its_entry_is_another_process() {
    let world = World::new();
    let (mut owner, _) = world.start(0, &[]);
    let descriptor = owner.ok("share 1 1 5000 readwrite listed");
    owner.ok("permit 1 4242");
    // The clock of process starts ticks every 10 ms.
    std::thread::sleep(std::time::Duration::from_millis(50));
    let (mut importer, _) = world.start(0, &[("STAND_IN_BARE_TGID", "4242")]);
    assert_eq!(importer.number(), "4242", "the number outside all containers, not the process's own");
    let (_, text) = importer.error(&format!("import {descriptor}"));
    assert_eq!(text, "aclrtMemImportFromShareableHandle: the driver returned 507899");
    owner.ok("permit 1 4242");
    importer.ok(&format!("import {descriptor}"));
}

#[test]
fn a_handle_that_never_was_is_the_drivers_107017() {
    let world = World::new();
    let (mut owner, _) = world.start(0, &[]);
    let (mut importer, _) = world.start(0, &[]);
    let descriptor = owner.ok("share 1 1 5000 readwrite anyone");
    let mut bytes = bufabi_tests::unhex(&descriptor).unwrap();
    bytes[64] = 99;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let (_, text) = importer.error(&format!("import {hex}"));
    assert_eq!(text, "aclrtMemImportFromShareableHandle: the driver returned 107017");
}

#[test]
fn a_driver_that_is_initialised_already_is_fine_and_one_that_fails_is_not() {
    let world = World::new();
    let (mut owner, log) = world.start(0, &[("STAND_IN_FAIL", "aclInit=100002")]);
    assert_eq!(log.calls(), ["aclInit(NULL) = 100002"]);
    let (_, text) = owner.error("share 1 1 5000 readwrite anyone");
    assert_eq!(
        text, "aclrtSetDevice: the driver returned 107000",
        "the stand-in was not initialised in truth"
    );
    let (_, first) = world.start_with(library_with_version(), &[("STAND_IN_FAIL", "aclInit=5")]);
    assert_eq!(first, "error vmm_driver_call aclInit: the driver returned 5");
}

#[test]
fn a_library_or_function_that_is_missing_is_named() {
    let world = World::new();
    let nowhere = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (_, first) = world.start_with(nowhere, &[]);
    assert_eq!(
        first,
        "error vmm_library_missing no driver: libascendcl.so, libascendcl.so.1 cannot be loaded"
    );
    let (mut peer, first) = world.start_with(library_with_version(), &[]);
    assert_eq!(first, "ok ready");
    peer.ok("share 1 1 5000 readwrite anyone");
    for function in ["aclrtMemSetPidToShareableHandle", "aclInit", "aclrtMemcpy"] {
        let (_, first) = world.start_with(&library_without(function), &[]);
        assert_eq!(first, format!("error vmm_symbol_missing the driver's library has no {function}"));
    }
}
