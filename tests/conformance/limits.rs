//! Limits that are reached: sizes, room, file descriptors and mappings. Each is its own error, and leaves nothing behind.

use bufabi_core::{Access, Code};

use crate::ForEach;
use crate::kinds::{Kind, Owner, ROOM};
use crate::peer::{Filled, Peer, Usage, usage};
use crate::rules::pair;

pub(crate) const CASES: &[ForEach] = &[
    ("has_a_size_that_memory_can_have_or_is_not_made", sizes),
    ("says_that_no_file_descriptor_is_left_where_it_needs_one", files),
    ("says_that_no_further_mapping_is_left_where_it_needs_one", mappings),
];

/// What the kind grants that every kind does.
const ACCESS: Access = Access::Read;

fn sizes(kind: Kind) {
    let (mut owner, mut peer) = pair(kind);
    // Whatever a first one brings with it is there then, the stacks of the threads that serve it included.
    let [before, _] = settled(&mut owner, &mut peer);
    assert_eq!(owner.make(0, ACCESS), Err(Code::NbytesZero));
    for nbytes in [u64::MAX, u64::MAX - 4096, 1 << 63, (1 << 63) - 1, 1 << 62, 1 << 50] {
        let refused = owner.make(nbytes, ACCESS).unwrap_err();
        let is_right = match kind {
            Kind::PosixShm | Kind::VmmShareable => matches!(refused, Code::NbytesTooLarge | Code::NoSpace),
            Kind::ForkCow => refused == Code::WrapRange,
            Kind::ForkShm | Kind::DeviceMalloc | Kind::VmmWindow => refused == Code::SpaceFull,
        };
        assert!(is_right, "{nbytes}: {refused}");
    }
    assert_eq!(owner.endpoint.live(), 0);
    let after = usage();
    assert_eq!((before.files, before.mappings), (after.files, after.mappings));
    if matches!(kind, Kind::ForkShm | Kind::DeviceMalloc | Kind::VmmWindow) {
        // Empty, it serves all of its room; a byte more is too much, and so is a byte beside it.
        for _ in 0..3 {
            assert_eq!(owner.make(ROOM + 1, ACCESS), Err(Code::SpaceFull));
            let all = owner.make(ROOM, ACCESS).unwrap();
            assert_eq!(owner.make(1, ACCESS), Err(Code::SpaceFull));
            owner.release(all.identity()).unwrap();
            let parts: Vec<_> = (0..4).map(|_| owner.make(ROOM / 4, ACCESS).unwrap()).collect();
            assert_eq!(owner.make(1, ACCESS), Err(Code::SpaceFull));
            for part in parts.iter().rev() {
                owner.release(part.identity()).unwrap();
            }
        }
    }
    // It works after all that.
    let descriptor = owner.make(5000, ACCESS).unwrap();
    assert_eq!(peer.import(&descriptor).map(|(resolution, _)| resolution), kind.resolves());
}

/// What both have, once they have done everything at least once.
fn settled(owner: &mut Owner, peer: &mut Peer) -> [Usage; 2] {
    for _ in 0..3 {
        let descriptor = owner.make(5000, ACCESS).unwrap();
        let _ = peer.import(&descriptor);
        peer.drop_views(descriptor.identity());
        peer.release(descriptor.identity()).unwrap();
        owner.release(descriptor.identity()).unwrap();
        owner.forget(descriptor.identity());
        let _ = (usage(), peer.usage());
    }
    [usage(), peer.usage()]
}

/// Neither has anything more or less than before.
fn assert_settled(before: [Usage; 2], peer: &mut Peer) {
    for (before, after) in before.into_iter().zip([usage(), peer.usage()]) {
        assert_eq!((before.files, before.mappings), (after.files, after.mappings));
    }
}

/// Something of which a process has only so much.
struct Scarce {
    /// Takes all that this process has left.
    fill: fn() -> Filled,
    /// Makes the peer do so.
    fill_peer: fn(&mut Peer),
    /// What is said when none is left.
    code: Code,
}

fn files(kind: Kind) {
    let files =
        Scarce { fill: Filled::with_files, fill_peer: Peer::fill_files, code: Code::NoFileDescriptor };
    runs_out(kind, &files);
}

fn mappings(kind: Kind) {
    let mappings =
        Scarce { fill: Filled::with_mappings, fill_peer: Peer::fill_mappings, code: Code::NoAddressSpace };
    runs_out(kind, &mappings);
}

/// Where owner or importer needs one and has none left, it says so, keeps nothing, and works again once it has.
fn runs_out(kind: Kind, scarce: &Scarce) {
    let (mut owner, mut peer) = pair(kind);
    let needs_one = kind.is_mapped_by_importer();
    // Once for nothing: an allocator that finds no mapping takes memory elsewhere, and keeps it.
    drop((scarce.fill)());
    (scarce.fill_peer)(&mut peer);
    peer.empty();
    let before = settled(&mut owner, &mut peer);
    let filled = (scarce.fill)();
    let made = owner.make(5000, ACCESS);
    drop(filled);
    match made {
        Err(code) => assert!(needs_one && code == scarce.code, "{code}"),
        Ok(made) => {
            assert!(!needs_one);
            owner.release(made.identity()).unwrap();
            owner.forget(made.identity());
        }
    }
    assert_eq!(owner.endpoint.live(), 0);
    let descriptor = owner.make(5000, ACCESS).unwrap();
    (scarce.fill_peer)(&mut peer);
    let imported = peer.import(&descriptor).map(|(resolution, _)| resolution);
    peer.empty();
    let expected = if needs_one { Err(scarce.code) } else { kind.resolves() };
    assert_eq!(imported, expected);
    peer.drop_views(descriptor.identity());
    peer.release(descriptor.identity()).unwrap();
    owner.release(descriptor.identity()).unwrap();
    owner.forget(descriptor.identity());
    assert_settled(before, &mut peer);
    let descriptor = owner.make(5000, ACCESS).unwrap();
    assert_eq!(peer.import(&descriptor).map(|(resolution, _)| resolution), kind.resolves());
}
