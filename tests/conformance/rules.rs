//! What is true of a backing of any kind between its making and its release.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::wire::descriptor::FieldSet;
use bufabi_core::{Access, Code, Descriptor, Identity};
use bufabi_host::consumer::{Consumer, ImportError, Resolution};

use crate::ForEach;
use crate::kinds::{Kind, Owner, at_the_fork, whole};
use crate::peer::Peer;

pub(crate) const CASES: &[ForEach] = &[
    ("is_seen_by_another_process_as_its_owner_made_it", shared),
    ("holds_its_consumers_to_the_right_that_it_grants", rights),
    ("is_mapped_once_and_a_descriptor_that_differs_is_refused", conflicts),
    ("is_stale_after_its_release_and_nothing_else_is", lookups),
    ("is_released_by_nobody_while_a_task_or_a_view_holds_it", busy),
    ("is_released_once_tasks_are_done_if_that_is_what_was_asked_for", when_idle),
    ("belongs_to_the_process_that_made_it", forks),
];

/// An owner and another process, which was forked before anything was made.
pub(crate) fn pair(kind: Kind) -> (Owner, Peer) {
    let mut owner = Owner::new(kind);
    let peer = Peer::fork();
    owner.begin();
    (owner, peer)
}

/// A right that lets the owner's side and its consumers do what the kind allows.
fn widest(kind: Kind) -> Access {
    *kind.rights().last().unwrap()
}

fn shared(kind: Kind) {
    let (mut owner, mut peer) = pair(kind);
    for nbytes in [1, 100, 4096, 5000, 100_000] {
        let descriptor = owner.make(nbytes, widest(kind)).unwrap();
        let identity = descriptor.identity();
        assert_eq!((descriptor.nbytes(), descriptor.access()), (nbytes, widest(kind)));
        assert_eq!(descriptor.backend_kind(), kind.backend());
        assert_eq!(identity.owner_instance_id(), owner.endpoint.owner_instance_id());
        let before = owner.read(identity, 0, nbytes).unwrap();
        let stored: Vec<u8> = before.iter().map(|byte| !byte).collect();
        owner.write(identity, 0, &stored).unwrap();
        assert_eq!(owner.read(identity, 0, nbytes).unwrap(), stored);
        // No byte beyond its last one is its own.
        assert!(owner.read(identity, nbytes, 1).is_err() && owner.write(identity, nbytes, &[0]).is_err());
        // The owner's own consumers use its own mapping.
        let here = Consumer::new(Some(owner.endpoint.clone())).unwrap().import(&descriptor);
        match here {
            Ok(import) if kind.is_mapped_by_owner() => assert_eq!(import.resolution(), Resolution::Own),
            Err(error) if !kind.is_mapped_by_owner() => assert_eq!(error.code(), Code::NotResolvable),
            other => panic!("{other:?}"),
        }
        match kind.resolves() {
            Err(code) => assert_eq!(peer.import(&descriptor), Err(code)),
            Ok(resolution) => {
                let (found, address) = peer.import(&descriptor).unwrap();
                assert_eq!(found, resolution);
                let expected =
                    if kind.shares() { stored } else { at_the_fork(offset(&owner, &descriptor), nbytes) };
                assert_eq!(peer.read(identity, 0, nbytes), expected);
                assert_eq!(peer.import(&descriptor), Ok((Resolution::AlreadyMapped, address)));
                if kind.shares() {
                    assert!(peer.write(identity, nbytes - 1, &[77]));
                    assert_eq!(owner.read(identity, nbytes - 1, 1), Ok(vec![77]));
                }
                peer.drop_views(identity);
                assert_eq!(peer.release(identity), Ok(()));
                assert_eq!(peer.release(identity), Ok(()), "what is not imported is no error");
            }
        }
        owner.release(identity).unwrap();
    }
    assert_eq!(owner.endpoint.live(), 0);
}

/// Where a copied region's part begins.
fn offset(owner: &Owner, descriptor: &Descriptor) -> u64 {
    owner.offset_in_region(descriptor)
}

fn rights(kind: Kind) {
    let (mut owner, mut peer) = pair(kind);
    for access in [Access::Read, Access::Write, Access::ReadWrite] {
        let made = owner.make(4096, access);
        if !kind.rights().contains(&access) {
            assert_eq!(made, Err(Code::ForkCowAccess));
            continue;
        }
        let descriptor = made.unwrap();
        let identity = descriptor.identity();
        if let Ok((_, address)) = peer.import(&descriptor) {
            let protection = peer.protection(address);
            if kind.is_mapped_by_importer() {
                let expected = if access.writes() { "rw-s" } else { "r--s" };
                assert_eq!(protection, expected, "a store faults unless it is granted");
            }
            assert!(protection.starts_with('r'));
            assert_eq!(peer.write(identity, 0, &[1]), access.writes());
            peer.drop_views(identity);
            peer.release(identity).unwrap();
        }
        owner.release(identity).unwrap();
    }
}

fn conflicts(kind: Kind) {
    let (mut owner, mut peer) = pair(kind);
    let descriptor = owner.make(4096, widest(kind)).unwrap();
    let identity = descriptor.identity();
    let fields = descriptor.fields();
    let other = owner.make(4096, widest(kind)).unwrap();
    let narrower = if fields.access == Access::Read { Access::Read } else { Access::Write };
    let differing = [
        (DescriptorFields { nbytes: 4095, ..fields }, FieldSet::NBYTES),
        (DescriptorFields { body: other.fields().body, ..fields }, FieldSet::BODY),
        (DescriptorFields { access: narrower, ..fields }, FieldSet::ACCESS),
    ];
    let differing = differing.map(|(fields, set)| (Descriptor::new(&fields).unwrap(), set));
    let differing = differing.iter().filter(|(forged, _)| *forged != descriptor);
    let first = peer.import(&descriptor);
    for (forged, set) in differing {
        // The owner knows better.
        let (index, error) = owner.endpoint.hold(&[whole(forged)]).unwrap_err();
        assert_eq!((index, error.code()), (0, Code::ImportConflict));
        let mine = Consumer::new(Some(owner.endpoint.clone())).unwrap().import(forged).unwrap_err();
        assert_eq!(mine.code(), Code::ImportConflict);
        let ImportError::Own(bufabi_host::owner::OwnError::Conflict { fields, .. }) = mine else {
            panic!("{mine:?}")
        };
        assert_eq!(fields, *set);
        if kind.resolves().is_ok() {
            assert_eq!(peer.import(forged), Err(Code::ImportConflict));
        }
    }
    if let Ok((_, address)) = first {
        let relabelled = DescriptorFields { owner_worker_path_id: 9, ..fields };
        let relabelled = Descriptor::new(&relabelled).unwrap();
        assert_eq!(peer.import(&relabelled), Ok((Resolution::AlreadyMapped, address)));
        peer.drop_views(identity);
        // Once it is dropped, a claim that the owner never made is refused where something knows better.
        peer.release(identity).unwrap();
        let larger = Descriptor::new(&DescriptorFields { nbytes: 1 << 40, ..fields });
        let expected = match kind {
            Kind::PosixShm => Code::ShmTooSmall,
            Kind::ForkShm | Kind::ForkCow => Code::NotInherited,
            Kind::VmmShareable => Code::BodyShareableMapping,
            Kind::DeviceMalloc | Kind::VmmWindow => Code::NotResolvable,
        };
        match larger {
            Ok(larger) => assert_eq!(peer.import(&larger), Err(expected)),
            Err(error) => assert_eq!(error.code(), expected),
        }
        assert_eq!(peer.import(&descriptor).unwrap().0, kind.resolves().unwrap());
    }
}

fn lookups(kind: Kind) {
    let (mut owner, mut peer) = pair(kind);
    let descriptor = owner.make(4096, widest(kind)).unwrap();
    let identity = descriptor.identity();
    let of = |identity: Identity| {
        whole(&Descriptor::new(&DescriptorFields { identity, ..descriptor.fields() }).unwrap())
    };
    let held =
        |owner: &Owner, tensor| owner.endpoint.hold(&[tensor]).map_err(|(_, error)| error.code()).map(drop);
    let (name, id) = (identity.owner_instance_id(), identity.buffer_id());
    let generation = identity.generation();
    let later = Identity::new(name, id, generation.checked_add(1).unwrap());
    let unknown = Identity::new(name, id + 100, NonZeroU32::MIN);
    assert_eq!(held(&owner, of(identity)), Ok(()));
    assert_eq!(held(&owner, of(later)), Err(Code::NeverExisted));
    assert_eq!(held(&owner, of(unknown)), Err(Code::NeverExisted));
    owner.release(identity).unwrap();
    assert_eq!(held(&owner, of(identity)), Err(Code::Stale));
    assert_eq!(held(&owner, of(unknown)), Err(Code::NeverExisted));
    let mine = Consumer::new(Some(owner.endpoint.clone())).unwrap().import(&descriptor);
    assert_eq!(mine.unwrap_err().code(), Code::Stale);
    if let Some(gone) = kind.gone() {
        assert_eq!(peer.import(&descriptor), Err(gone));
    }
    assert_eq!(owner.descriptor(identity).unwrap_or(Err(Code::Stale)), Err(Code::Stale));
    assert_eq!(owner.release(identity), Err(Code::Stale));
    // The slot is used again: the same id, another generation.
    let again = owner.make(4096, widest(kind)).unwrap();
    assert_eq!(again.identity(), later);
    assert_eq!(held(&owner, of(identity)), Err(Code::Stale));
    assert_eq!(held(&owner, whole(&again)), Ok(()));
    if let Some(gone) = kind.gone() {
        assert_eq!(peer.import(&descriptor), Err(gone));
    }
}

fn busy(kind: Kind) {
    let (mut owner, _peer) = pair(kind);
    let descriptor = owner.make(4096, widest(kind)).unwrap();
    let identity = descriptor.identity();
    let holds = owner.endpoint.hold(&[whole(&descriptor), whole(&descriptor)]).unwrap();
    assert_eq!(owner.release(identity), Err(Code::Busy));
    // A refusal changes nothing.
    owner.write(identity, 0, &[5]).unwrap();
    assert_eq!(owner.descriptor(identity).unwrap_or(Ok(descriptor)), Ok(descriptor));
    drop(owner.endpoint.hold(&[whole(&descriptor)]).unwrap());
    drop(holds);
    let consumer = Consumer::new(Some(owner.endpoint.clone())).unwrap();
    if let Ok(view) = consumer.import(&descriptor) {
        assert_eq!(owner.release(identity), Err(Code::ViewsAlive));
        assert_eq!(owner.descriptor(identity), Some(Ok(descriptor)));
        drop(view);
    }
    assert_eq!(owner.release(identity), Ok(()));
    assert_eq!(owner.endpoint.live(), 0);
}

fn when_idle(kind: Kind) {
    let (mut owner, _peer) = pair(kind);
    let descriptor = owner.make(4096, widest(kind)).unwrap();
    let identity = descriptor.identity();
    let holds = owner.endpoint.hold(&[whole(&descriptor)]).unwrap();
    let soon = Instant::now() + Duration::from_millis(5);
    let Some(refused) = owner.release_when_idle(identity, soon) else {
        // A chip's memory is freed by the one who waits for its tasks.
        assert!(!kind.is_mapped_by_owner());
        drop(holds);
        return;
    };
    assert_eq!(refused, Err(Code::TimedOut));
    assert_eq!(owner.descriptor(identity), Some(Err(Code::Closing)));
    let error = owner.endpoint.hold(&[whole(&descriptor)]).unwrap_err().1;
    assert_eq!(error.code(), Code::Closing);
    let endpoint = owner.endpoint.clone();
    let finisher = std::thread::spawn(move || {
        drop(holds);
        endpoint.live()
    });
    let limit = Instant::now() + Duration::from_secs(20);
    assert_eq!(owner.release_when_idle(identity, limit), Some(Ok(())));
    finisher.join().unwrap();
    assert_eq!(owner.release(identity), Err(Code::Stale));
    // A handle that is dropped while a task names it goes with the task.
    let descriptor = owner.make(4096, widest(kind)).unwrap();
    let holds = owner.endpoint.hold(&[whole(&descriptor)]).unwrap();
    owner.forget(descriptor.identity());
    assert_eq!(owner.endpoint.live(), 1);
    drop(holds);
    assert_eq!(owner.endpoint.live(), 0);
}

fn forks(kind: Kind) {
    let mut owner = Owner::new(kind);
    let early = if kind == Kind::VmmShareable { None } else { Some(owner.make(4096, widest(kind)).unwrap()) };
    let (inner, identity) = (&mut owner, early.map(|descriptor| descriptor.identity()));
    let child = bufabi_host::sys::process::fork(|| {
        assert_eq!(inner.make(4096, widest(kind)), Err(Code::Forked));
        if let Some(identity) = identity {
            assert_eq!(inner.release(identity), Err(Code::Forked));
            inner.forget(identity);
        }
        0
    });
    let child = child.unwrap();
    while child.ended() == Ok(None) {
        std::thread::yield_now();
    }
    let Some(descriptor) = early else { return };
    owner.write(descriptor.identity(), 4095, &[9]).unwrap();
    assert_eq!(owner.read(descriptor.identity(), 4095, 1), Ok(vec![9]));
    assert_eq!(owner.release(descriptor.identity()), Ok(()));
}
