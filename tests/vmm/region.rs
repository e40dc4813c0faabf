//! Regions over the Ascend driver's memory, which no CPU here maps: two processes, every byte through the driver's copies.

use std::time::{Duration, Instant};

use bufabi_tests::waits::{HostWait, TaskWait, died};

use crate::peer::Peer;
use crate::stand_in::{Log, World};

const NOTHING_LEFT: &str = "at exit: 0 physical, 0 ranges, 0 mapped, 0 blocks";

/// What takes longer hangs: ten times the second in which everyone ought to know.
const HANG: Duration = Duration::from_secs(10);

/// Both ends of a region: the one that provides it and the one that attached to it.
fn both(world: &World) -> (Peer, Log, Peer, Log) {
    let (mut provider, provider_log) = world.start_region(0, &[]);
    let (mut consumer, consumer_log) = world.start_region(1, &[]);
    let descriptors = provider.ok("provide");
    consumer.ok(&format!("attach {descriptors}"));
    (provider, provider_log, consumer, consumer_log)
}

#[test]
fn messages_go_between_two_processes_through_the_drivers_copies_and_nothing_is_left() {
    let world = World::new();
    let (mut provider, provider_log, mut consumer, consumer_log) = both(&world);
    consumer.tell("echo");
    provider.ok(&format!("watch {}", consumer.pid()));
    assert_eq!(provider.ok("ask 200"), "200");
    assert_eq!(consumer.heard(), "ok ");
    assert_eq!(consumer.ok("close"), "0 0");
    assert_eq!(provider.ok("close"), "0 0");
    // PAYLOAD and COUNTER, in this order, each made whole: memory, zeroed, exported.
    let made: Vec<String> = provider_log.calls();
    let exports = made.iter().filter(|call| call.starts_with("aclrtMemExportToShareableHandle"));
    assert_eq!(exports.count(), 2);
    for (peer, log) in [(provider, provider_log), (consumer, consumer_log)] {
        peer.end();
        assert_eq!(log.calls().last().map(String::as_str), Some(NOTHING_LEFT));
    }
}

#[test]
fn a_peer_that_is_killed_is_known_within_a_second_to_every_wait_of_either_side() {
    let waits = HostWait::ALL.map(|wait| format!("host {wait:?}")).into_iter();
    for wait in waits.chain(TaskWait::ALL.map(|wait| format!("task {wait:?}"))) {
        let world = World::new();
        let (mut provider, provider_log, mut consumer, _) = both(&world);
        provider.ok(&format!("watch {}", consumer.pid()));
        provider.tell(&format!("wait {wait}"));
        // It is past all spinning by then.
        std::thread::sleep(Duration::from_millis(20));
        let start = Instant::now();
        let (code, text) = died(i32::try_from(consumer.pid()).unwrap());
        consumer.kill();
        assert_eq!(provider.heard(), format!("error {code} {text}"), "{wait}");
        assert!(start.elapsed() < HANG, "{wait}: {:?}", start.elapsed());
        assert_eq!(provider.ok("close"), "0 0");
        provider.end();
        assert_eq!(provider_log.calls().last().map(String::as_str), Some(NOTHING_LEFT), "{wait}");
    }
}

/// Importing leaves a mark at the importer alone: what the provider's death leaves is whole, and goes with its last user.
#[test]
fn a_provider_that_is_killed_is_known_to_whoever_attached_and_lets_go() {
    let world = World::new();
    let (mut provider, _, mut consumer, consumer_log) = both(&world);
    consumer.ok(&format!("watch {}", provider.pid()));
    consumer.tell("wait task Receive");
    std::thread::sleep(Duration::from_millis(20));
    let start = Instant::now();
    let (code, text) = died(i32::try_from(provider.pid()).unwrap());
    provider.kill();
    assert_eq!(consumer.heard(), format!("error {code} {text}"));
    assert!(start.elapsed() < HANG, "{:?}", start.elapsed());
    assert_eq!(consumer.ok("close"), "0 0");
    consumer.end();
    assert_eq!(consumer_log.calls().last().map(String::as_str), Some(NOTHING_LEFT));
}

#[test]
fn a_region_of_which_one_part_cannot_be_made_leaves_nothing() {
    let world = World::new();
    for call in ["aclrtMallocPhysical", "aclrtMapMem", "aclrtMemExportToShareableHandle"] {
        let script = format!("{call}:2=500123");
        let (mut provider, log) = world.start_region(0, &[("STAND_IN_FAIL", &script)]);
        let (code, text) = provider.error("provide");
        assert_eq!((code.as_str(), text), ("vmm_driver_call", format!("{call}: the driver returned 500123")));
        assert_eq!(provider.ok("close"), "0 0");
        provider.end();
        assert_eq!(log.calls().last().map(String::as_str), Some(NOTHING_LEFT));
    }
}

#[test]
fn a_copy_that_fails_is_told_with_the_drivers_number() {
    let world = World::new();
    // Copies make both parts zero, two for each of 2 MiB; the fifth is the first look at a counter.
    let (mut provider, _) = world.start_region(0, &[("STAND_IN_FAIL", "aclrtMemcpy:5=507899")]);
    provider.ok("provide");
    let (code, text) = provider.error("receive-for-ever");
    assert_eq!(code, "region_access");
    assert!(text.contains("507899"), "{text}");
    assert_eq!(provider.ok("close"), "0 0");
}
