//! A consumer's promises: one mapping for an identity, rights in its pages, and nothing dropped under somebody's hands.

use bufabi_core::wire::body::{Body, ShmName};
use bufabi_core::wire::descriptor::{DescriptorFields, FieldSet};
use bufabi_core::{Code, DType};

use super::*;
use crate::backend::posix_shm::PosixShm;
use crate::owner::Buffer;

fn owner() -> Endpoint {
    Endpoint::with_capacity(64).unwrap()
}

fn buffers(owner: &Endpoint, count: usize) -> Vec<Buffer> {
    (0..count).map(|_| owner.create_buffer(64, Access::ReadWrite).unwrap()).collect()
}

fn changed(descriptor: &Descriptor, change: impl FnOnce(&mut DescriptorFields)) -> Descriptor {
    let mut fields = descriptor.fields();
    change(&mut fields);
    Descriptor::new(&fields).unwrap()
}

fn small(capacity: usize) -> Consumer {
    Consumer::with_backends(None, vec![Box::new(PosixShm)], capacity).unwrap()
}

#[test]
fn an_identity_is_mapped_once_and_shares_its_bytes() {
    let (owner, consumer) = (owner(), Consumer::new(None).unwrap());
    let buffer = &buffers(&owner, 1)[0];
    let descriptor = buffer.descriptor().unwrap();
    let first = consumer.import(&descriptor).unwrap();
    let second = consumer.import(&descriptor).unwrap();
    assert_eq!(first.address(), second.address());
    assert_ne!(first.address(), buffer.mapping().unwrap().address());
    assert_eq!(first.resolution(), Resolution::MappedNow);
    assert_eq!(second.resolution(), Resolution::AlreadyMapped);
    buffer.mapping().unwrap().write(3, &[42]).unwrap();
    let mut byte = [0];
    second.read(3, &mut byte).unwrap();
    assert_eq!(byte, [42]);
    assert_eq!(consumer.counters(), Counters { live: 1, imports: 1, hits: 1, evictions: 0 });
}

#[test]
fn a_descriptor_that_differs_is_refused_and_names_its_fields() {
    let (owner, consumer) = (owner(), Consumer::new(None).unwrap());
    let buffer = &buffers(&owner, 1)[0];
    let descriptor = buffer.descriptor().unwrap();
    let mapped = consumer.import(&descriptor).unwrap();
    let identity = descriptor.identity();
    let other_name = Body::PosixShm { name: ShmName::new("other").unwrap() };
    let differing = [
        (changed(&descriptor, |fields| fields.access = Access::Read), FieldSet::ACCESS, "access"),
        (changed(&descriptor, |fields| fields.nbytes = 65), FieldSet::NBYTES, "nbytes"),
        (changed(&descriptor, |fields| fields.body = other_name), FieldSet::BODY, "body"),
    ];
    for (descriptor, fields, name) in differing {
        let error = consumer.import(&descriptor).unwrap_err();
        assert_eq!(error, ImportError::Conflict { identity, fields });
        assert!(error.to_string().ends_with(name), "{error}");
    }
    // For people reading logs alone.
    let relabelled = changed(&descriptor, |fields| fields.owner_worker_path_id = 9);
    assert_eq!(consumer.import(&relabelled).unwrap().address(), mapped.address());
}

#[test]
fn what_cannot_be_reached_leaves_nothing_and_can_be_tried_again() {
    let (owner, consumer) = (owner(), Consumer::new(None).unwrap());
    let buffer = &buffers(&owner, 1)[0];
    let descriptor = buffer.descriptor().unwrap();
    let missing = changed(&descriptor, |fields| {
        fields.body = Body::PosixShm { name: ShmName::new("bufabi-no-such-object").unwrap() };
    });
    assert_eq!(consumer.import(&missing).unwrap_err().code(), Code::ShmNotFound);
    let larger = changed(&descriptor, |fields| fields.nbytes = 4096);
    assert_eq!(consumer.import(&larger).unwrap_err().code(), Code::ShmTooSmall);
    let device = Body::DeviceMalloc { base: std::num::NonZeroU64::MIN };
    let device = changed(&descriptor, |fields| fields.body = device);
    assert_eq!(consumer.import(&device).unwrap_err().code(), Code::NotResolvable);
    assert_eq!(consumer.counters(), Counters::default());
    assert_eq!(consumer.import(&descriptor).unwrap().resolution(), Resolution::MappedNow);
}

#[test]
fn ones_own_identity_resolves_to_ones_own_mapping_with_the_rights_that_were_granted() {
    let owner = owner();
    let consumer = Consumer::new(Some(owner.clone())).unwrap();
    let mut buffer = owner.create_buffer(64, Access::Read).unwrap();
    let descriptor = buffer.descriptor().unwrap();
    let own = consumer.import(&descriptor).unwrap();
    assert_eq!(own.address(), buffer.mapping().unwrap().address());
    assert_eq!((own.resolution(), consumer.counters().live), (Resolution::Own, 0));
    let view = View::row_major(0, DType::Uint8, &[64], 64).unwrap();
    assert_eq!(own.operand(view).unwrap().access(), Access::Read);
    let forged = changed(&descriptor, |fields| fields.access = Access::ReadWrite);
    assert_eq!(consumer.import(&forged).unwrap_err().code(), Code::ImportConflict);
    assert_eq!(buffer.release().unwrap_err().code(), Code::ViewsAlive);
    drop(own);
    buffer.release().unwrap();
    assert_eq!(consumer.import(&descriptor).unwrap_err().code(), Code::Stale);
}

#[test]
fn a_release_is_refused_while_views_are_alive_and_what_never_was_is_no_error() {
    let (owner, consumer) = (owner(), Consumer::new(None).unwrap());
    let buffer = &buffers(&owner, 1)[0];
    let descriptor = buffer.descriptor().unwrap();
    let identity = descriptor.identity();
    assert_eq!(consumer.release(identity), Ok(()));
    let view = consumer.import(&descriptor).unwrap();
    let another = view.clone();
    assert_eq!(consumer.release(identity), Err(ImportError::ViewsAlive { identity, views: 2 }));
    drop(view);
    assert_eq!(consumer.release(identity), Err(ImportError::ViewsAlive { identity, views: 1 }));
    drop(another);
    assert_eq!(consumer.release(identity), Ok(()));
    assert_eq!(consumer.counters().live, 0);
    assert_eq!(consumer.import(&descriptor).unwrap().resolution(), Resolution::MappedNow);
}

#[test]
fn a_full_consumer_makes_room_by_what_nobody_uses_and_else_refuses() {
    let (owner, consumer) = (owner(), small(4));
    let buffers = buffers(&owner, 6);
    let import = |index: usize| consumer.import(&buffers[index].descriptor().unwrap());
    let kept: Vec<_> = [0, 1, 2].map(|index| import(index).unwrap()).into();
    drop(import(3).unwrap());
    let fourth = import(4).unwrap();
    assert_eq!(consumer.counters(), Counters { live: 4, imports: 5, hits: 0, evictions: 1 });
    assert_eq!(import(5).unwrap_err().code(), Code::ImportTableFull);
    assert_eq!(import(0).unwrap().resolution(), Resolution::AlreadyMapped);
    assert_eq!(consumer.evict_unused(), 0);
    drop((kept, fourth));
    assert_eq!(consumer.evict_unused(), 4);
    assert_eq!(consumer.counters().live, 0);
}

#[test]
fn closing_tries_all_and_keeps_what_is_in_use() {
    let (owner, consumer) = (owner(), Consumer::new(None).unwrap());
    let buffers = buffers(&owner, 3);
    let imports: Vec<_> =
        buffers.iter().map(|buffer| consumer.import(&buffer.descriptor().unwrap()).unwrap()).collect();
    let [first, second, third] = <[Import; 3]>::try_from(imports).unwrap();
    drop((first, third));
    let identity = buffers[1].identity();
    let expected = CloseError { first: ImportError::ViewsAlive { identity, views: 1 }, kept: 1 };
    assert_eq!(consumer.close(), Err(expected));
    assert_eq!(consumer.counters().live, 1);
    for buffer in &buffers {
        let error = consumer.import(&buffer.descriptor().unwrap()).unwrap_err();
        assert_eq!(error, ImportError::Closed, "the one that was kept serves nobody either");
    }
    drop(second);
    assert_eq!(consumer.close(), Ok(()));
}

/// A backend whose first mapping ends in a panic, once somebody else has had the time to wait for it.
#[derive(Debug, Default)]
struct PanicsOnce(std::sync::atomic::AtomicBool);

impl Backend for PanicsOnce {
    fn kind(&self) -> bufabi_core::wire::backend::BackendKind {
        PosixShm.kind()
    }

    fn map(&self, descriptor: &Descriptor) -> Result<Mapping, ResolveError> {
        if !self.0.swap(true, std::sync::atomic::Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
            panic!("as a backend must not");
        }
        PosixShm.map(descriptor)
    }
}

#[test]
fn a_thread_that_dies_while_it_maps_leaves_nobody_waiting() {
    let owner = owner();
    let buffer = &buffers(&owner, 1)[0];
    let descriptor = buffer.descriptor().unwrap();
    let consumer = Consumer::with_backends(None, vec![Box::new(PanicsOnce::default())], 4).unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| consumer.import(&descriptor).map(drop));
        while consumer.counters().live == 0 {
            std::thread::yield_now();
        }
        let second = scope.spawn(|| consumer.import(&descriptor).map(|import| import.resolution()));
        assert!(first.join().is_err());
        assert_eq!(second.join().unwrap(), Ok(Resolution::MappedNow));
    });
    assert_eq!(consumer.counters(), Counters { live: 1, imports: 1, hits: 0, evictions: 0 });
}
