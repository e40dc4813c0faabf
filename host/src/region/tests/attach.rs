//! What two descriptors must be to be attached to, and what closing such a region drops.

use bufabi_core::region::PartsError;
use bufabi_core::wire::body::{Body, ShmName};
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{Access, Descriptor, Identity, OwnerInstanceId};

use super::*;

fn changed(descriptor: &Descriptor, change: impl FnOnce(&mut DescriptorFields)) -> Descriptor {
    let mut fields = descriptor.fields();
    change(&mut fields);
    Descriptor::new(&fields).unwrap()
}

fn identified(descriptor: &Descriptor, owner: OwnerInstanceId, buffer_id: u64) -> Descriptor {
    let generation = descriptor.identity().generation();
    changed(descriptor, |fields| fields.identity = Identity::new(owner, buffer_id, generation))
}

fn code(consumer: &Consumer, payload: &Descriptor, counter: &Descriptor) -> Code {
    let refused = AttachedRegion::attach(consumer, payload, counter).unwrap_err();
    assert_eq!(consumer.counters().live, 0, "{refused}: nothing of it stays");
    refused.code()
}

#[test]
fn only_the_two_parts_of_one_region_are_attached_to_and_both_or_none() {
    let (endpoint, consumer) = (endpoint(), Consumer::new(None).unwrap());
    let (one, other) = (
        ProvidedRegion::create(&endpoint, 64, 64).unwrap(),
        ProvidedRegion::create(&endpoint, 64, 64).unwrap(),
    );
    let ([payload, counter], [_, strange]) = (one.descriptors().unwrap(), other.descriptors().unwrap());
    let code = |payload: &Descriptor, counter: &Descriptor| code(&consumer, payload, counter);
    let owner = payload.identity().owner_instance_id();
    // Parts of two regions, the same part twice, the parts the other way round.
    assert_eq!(code(&payload, &strange), Code::RegionParts);
    assert_eq!(code(&payload, &payload), Code::RegionParts);
    assert_eq!(code(&counter, &payload), Code::RegionParts);
    // Another owner, and numbers that wrap or are none.
    let elsewhere = identified(&counter, OwnerInstanceId([9; 8]), counter.identity().buffer_id());
    assert_eq!(code(&payload, &elsewhere), Code::RegionParts);
    let (last, first) = (identified(&payload, owner, u64::MAX), identified(&counter, owner, 0));
    assert_eq!(code(&last, &first), Code::RegionParts);
    let (none, second) = (identified(&payload, owner, 0), identified(&counter, owner, 1));
    assert_eq!(code(&none, &second), Code::RegionId);
    // Memory of two kinds.
    let on_a_device = changed(&counter, |fields| {
        fields.body = Body::VmmShareable {
            device_id: 0,
            shareable_handle: 7.try_into().unwrap(),
            mapping_bytes: 2 << 20,
        };
    });
    assert_eq!(code(&payload, &on_a_device), Code::RegionParts);
    assert_eq!(
        code(&changed(&payload, |fields| fields.body = on_a_device.body()), &counter),
        Code::RegionParts
    );
    // What cannot be both read and written.
    for access in [Access::Read, Access::Write] {
        assert_eq!(code(&payload, &changed(&counter, |fields| fields.access = access)), Code::Denied);
        assert_eq!(code(&changed(&payload, |fields| fields.access = access), &counter), Code::Denied);
    }
    // No whole counters, and more bytes than are there, of either part.
    let sized = |descriptor, nbytes| changed(descriptor, |fields| fields.nbytes = nbytes);
    for nbytes in [1, 2, 62, 63] {
        assert_eq!(code(&payload, &sized(&counter, nbytes)), Code::RegionCounter);
    }
    let more = 1 << 20;
    assert_eq!(code(&payload, &sized(&counter, more)), Code::ShmTooSmall);
    assert_eq!(code(&sized(&payload, more), &counter), Code::ShmTooSmall);
    let absent = changed(&counter, |fields| {
        fields.body = Body::PosixShm { name: ShmName::new("bufabi.no-such-object").unwrap() };
    });
    assert_eq!(code(&payload, &absent), Code::ShmNotFound);
    AttachedRegion::attach(&consumer, &payload, &counter).unwrap();
}

/// Of device memory the broker knows each generation, so one that is over is told; and what no generation is over is not the other one.
#[test]
fn a_generation_that_is_over_is_not_attached_to() {
    let driver = |endpoint: &Endpoint| {
        Arc::new(MemfdDriver::new(endpoint.owner_instance_id(), 3, MemfdOptions::default()))
    };
    let (owner, other) = (Endpoint::with_capacity(2).unwrap(), endpoint());
    let (owner_driver, other_driver) = (driver(&owner), driver(&other));
    let _broker = Broker::new(&owner_driver).unwrap().spawn().unwrap();
    let create =
        || ProvidedRegion::create_shareable(&owner, &owner_driver, 192, 384, Admission::Anyone).unwrap();
    let mut earlier = create();
    let [old_payload, old_counter] = earlier.descriptors().unwrap();
    earlier.close(soon()).unwrap();
    let later = create();
    let [payload, counter] = later.descriptors().unwrap();
    let backend = Box::new(VmmShareable::new(Arc::clone(&other_driver)));
    let consumer = Consumer::with_backends(Some(other), vec![backend], 4).unwrap();
    assert_eq!(code(&consumer, &old_payload, &old_counter), Code::VmmHandleUnknown);
    // A later identity with the handle of before, and the other way round, also where a driver copies.
    let mixed = changed(&counter, |fields| fields.body = old_counter.body());
    assert_eq!(code(&consumer, &payload, &mixed), Code::VmmHandleUnknown);
    let generation = counter.identity().generation().checked_add(1).unwrap();
    let identity = Identity::new(owner.owner_instance_id(), counter.identity().buffer_id(), generation);
    let mixed = changed(&counter, |fields| fields.identity = identity);
    assert_eq!(code(&consumer, &payload, &mixed), Code::VmmMismatch);
    let imports = Imports::new(other_driver);
    let refused = AttachedRegion::attach_copying(&imports, &payload, &mixed).unwrap_err();
    assert_eq!((refused.code(), imports.count()), (Code::VmmMismatch, 0));
    AttachedRegion::attach(&consumer, &payload, &counter).unwrap();
}

/// Where this process has it attached twice, each lets go of it once, and the mapping goes with the last one.
#[test]
fn what_is_attached_to_twice_is_dropped_with_the_last_one() {
    let (endpoint, consumer) = (endpoint(), Consumer::new(None).unwrap());
    let mut provided = ProvidedRegion::create(&endpoint, 64, 64).unwrap();
    let (mut one, mut other) = (attach(&consumer, &provided), attach(&consumer, &provided));
    assert_eq!(consumer.counters().live, 2);
    one.close(soon()).unwrap();
    assert_eq!(consumer.counters().live, 2, "the other one uses it");
    other.memory().unwrap().store(0, 7).unwrap();
    assert_eq!(provided.memory().unwrap().load(0), Ok(7));
    other.close(soon()).unwrap();
    assert_eq!(consumer.counters().live, 0);
    // What is there from now on is not theirs, even while nobody uses it.
    let [payload, counter] = provided.descriptors().unwrap();
    for part in [&payload, &counter] {
        consumer.import(part).unwrap();
    }
    one.close(soon()).unwrap();
    other.close(soon()).unwrap();
    assert_eq!(consumer.counters().live, 2);
    provided.close(soon()).unwrap();
}

#[test]
fn a_refusal_says_what_was_found() {
    let (endpoint, consumer) = (endpoint(), Consumer::new(None).unwrap());
    let provided = ProvidedRegion::create(&endpoint, 64, 64).unwrap();
    let [payload, counter] = provided.descriptors().unwrap();
    let refused = AttachedRegion::attach(&consumer, &counter, &payload).unwrap_err();
    let (payload, counter) = (counter.identity(), payload.identity());
    assert_eq!(refused, AttachError::Parts(PartsError::NotConsecutive { payload, counter }));
    let text = refused.to_string();
    assert!(text.contains(&payload.to_string()) && text.contains(&counter.to_string()), "{text}");
}
