//! Regions over the Ascend driver's memory, which no CPU here maps: two processes, every byte through the driver's copies.

use std::time::{Duration, Instant};

use crate::peer::Peer;
use crate::stand_in::{Log, World};

const NOTHING_LEFT: &str = "at exit: 0 physical, 0 ranges, 0 mapped, 0 blocks";

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
fn a_peer_that_is_killed_is_known_within_a_second_to_a_receiver_and_to_a_sender() {
    for command in ["receive-for-ever", "send-for-ever"] {
        let world = World::new();
        let (mut provider, _, mut consumer, _) = both(&world);
        provider.ok(&format!("watch {}", consumer.pid()));
        provider.tell(command);
        let start = Instant::now();
        consumer.kill();
        let answer = provider.heard();
        assert!(answer.starts_with("error worker_died "), "{answer}");
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        assert_eq!(provider.ok("close"), "0 0");
    }
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
