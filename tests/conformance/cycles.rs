//! Making, sharing, using and releasing, over and over: a process has at the end what it had at the start.

use bufabi_core::Access;
use bufabi_tests::apart::count;

use crate::ForEach;
use crate::kinds::{Kind, Owner};
use crate::peer::{Peer, Usage, usage};
use crate::rules::pair;

pub(crate) const CASES: &[ForEach] = &[("leaves_nothing_after_many_cycles", cycles)];

/// Cycles after which everything that a process keeps for the next one is there.
const WARM_UP: u32 = 200;
/// What resident memory may differ by, KiB: pages that an allocator happens to touch.
const SLACK: u64 = 512;

fn cycles(kind: Kind) {
    let (mut owner, mut peer) = pair(kind);
    for round in 0..WARM_UP {
        cycle(&mut owner, &mut peer, round);
    }
    let before = (usage(), peer.usage());
    for round in 0..count(2_000, 100_000) {
        cycle(&mut owner, &mut peer, round);
    }
    let after = (usage(), peer.usage());
    same(before.0, after.0);
    same(before.1, after.1);
    assert_eq!(owner.endpoint.live(), 0);
}

fn same(before: Usage, after: Usage) {
    assert_eq!((before.files, before.mappings), (after.files, after.mappings));
    assert!(after.resident_kib <= before.resident_kib + SLACK, "{before:?}, {after:?}");
}

fn cycle(owner: &mut Owner, peer: &mut Peer, round: u32) {
    let kind = owner.kind;
    let access = if kind == Kind::ForkCow { Access::Read } else { Access::ReadWrite };
    let descriptor = owner.make(5000, access).unwrap();
    let identity = descriptor.identity();
    let stored = round.to_le_bytes();
    owner.write(identity, 4000, &stored).unwrap();
    if kind.resolves().is_ok() {
        assert_eq!(peer.import(&descriptor).unwrap().0, kind.resolves().unwrap());
        if kind.shares() {
            assert_eq!(peer.read(identity, 4000, 4), stored);
            assert!(peer.write(identity, 0, &stored));
            assert_eq!(owner.read(identity, 0, 4).unwrap(), stored);
        }
        peer.drop_views(identity);
        // Half of them go by eviction.
        if round.is_multiple_of(2) {
            assert_eq!(peer.evict(), 1);
        } else {
            peer.release(identity).unwrap();
        }
    }
    assert_eq!(owner.read(identity, 4000, 4).unwrap(), stored);
    owner.release(identity).unwrap();
    owner.forget(identity);
}
