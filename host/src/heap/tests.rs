//! The heap in one process; what its forks see is tested with real workers.

use std::time::{Duration, Instant};

use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{Code, Descriptor};

use super::*;
use crate::consumer::{Consumer, Resolution};
use crate::space::SpaceError;

fn heap(nbytes: u64) -> (Endpoint, ForkHeap) {
    let endpoint = Endpoint::new().unwrap();
    let heap = ForkHeap::new(&endpoint, nbytes).unwrap();
    (endpoint, heap)
}

#[test]
fn slabs_are_aligned_disjoint_and_an_empty_heap_serves_any_size() {
    let (endpoint, heap) = heap(10_000);
    assert_eq!(heap.nbytes(), 10_000);
    for nbytes in [1, 1023, 1024, 1025, 9999, 10_000] {
        let buffer = heap.create_buffer(nbytes, Access::Read).unwrap();
        let descriptor = buffer.descriptor().unwrap();
        let Body::ForkShm { base } = descriptor.body() else { panic!("{descriptor:?}") };
        assert_eq!((base.get() % ALIGNMENT, descriptor.nbytes()), (0, nbytes));
        assert_eq!(buffer.mapping().unwrap().address(), base.get());
    }
    let slabs: Vec<_> = (0..9).map(|_| heap.create_buffer(1024, Access::ReadWrite).unwrap()).collect();
    let last = heap.create_buffer(784, Access::ReadWrite).unwrap();
    for (number, slab) in (0..).zip(slabs.iter().chain([&last])) {
        slab.mapping().unwrap().write(0, &vec![number; slab.nbytes().try_into().unwrap()]).unwrap();
    }
    for (number, slab) in (0..).zip(slabs.iter().chain([&last])) {
        let mut found = vec![0xff; slab.nbytes().try_into().unwrap()];
        slab.mapping().unwrap().read(0, &mut found).unwrap();
        assert!(found.iter().all(|&byte| byte == number));
    }
    let full = heap.create_buffer(1, Access::Read).unwrap_err();
    assert_eq!(full, CreateError::Space(SpaceError::Full { nbytes: 1, largest: 0, size: 10_000 }));
    assert_eq!((full.code(), endpoint.live(), heap.live()), (Code::SpaceFull, 10, 10));
    drop((slabs, last));
    assert_eq!((heap.live(), heap.largest_free(), endpoint.live()), (0, 10_000, 0));
}

#[test]
fn sizes_out_of_range_are_refused_and_leave_nothing() {
    let endpoint = Endpoint::new().unwrap();
    let refused = |nbytes| ForkHeap::new(&endpoint, nbytes).unwrap_err();
    assert_eq!(refused(0), CreateError::NbytesZero);
    assert_eq!(refused(u64::MAX), CreateError::NbytesTooLarge { nbytes: u64::MAX });
    assert_eq!(refused(1 << 62).code(), Code::NoAddressSpace);
    let (endpoint, heap) = heap(4096);
    assert_eq!(heap.create_buffer(0, Access::Read).unwrap_err(), CreateError::NbytesZero);
    assert_eq!(heap.create_buffer(u64::MAX, Access::Read).unwrap_err().code(), Code::SpaceFull);
    assert_eq!(heap.alloc_shared(&[0], DType::Int32).unwrap_err().code(), Code::ShapeZero);
    assert_eq!(heap.alloc_shared(&[u32::MAX; 5], DType::Int64).unwrap_err().code(), Code::RowMajorStride);
    assert_eq!((endpoint.live(), heap.live()), (0, 0));
}

#[test]
fn what_a_scope_allocated_goes_when_it_has_ended_and_its_last_task_is_done() {
    let (endpoint, heap) = heap(1 << 20);
    let mut outer = heap.scope();
    let kept = outer.alloc_shared(&[16], DType::Float32).unwrap();
    let mut inner = heap.scope();
    let tensor = inner.alloc_shared(&[64, 4], DType::Float16).unwrap();
    let idle = inner.alloc_shared(&[1], DType::Uint8).unwrap();
    assert_eq!((tensor.descriptor().nbytes(), heap.live()), (512, 3));
    assert!(inner.buffer(tensor.descriptor().identity()).unwrap().mapping().is_some());
    let holds = endpoint.hold(&[tensor]).unwrap();
    inner.end();
    assert_eq!(heap.live(), 2, "a task names one of them");
    assert_eq!(endpoint.hold(&[tensor]).unwrap_err().1.code(), Code::Closing);
    assert_eq!(endpoint.hold(&[idle]).unwrap_err().1.code(), Code::Stale);
    drop(holds);
    assert_eq!((heap.live(), endpoint.live()), (1, 1));
    assert!(endpoint.hold(&[kept]).is_ok());
    drop(outer);
    assert_eq!((heap.live(), endpoint.live()), (0, 0));
}

#[test]
fn a_slab_whose_view_is_alive_is_not_released_and_its_place_not_given_out_again() {
    let (endpoint, heap) = heap(1024);
    let mut buffer = heap.create_buffer(1024, Access::ReadWrite).unwrap();
    let view = endpoint.own_mapping(&buffer.descriptor().unwrap()).unwrap();
    assert_eq!(buffer.release().unwrap_err().code(), Code::ViewsAlive);
    drop(buffer);
    assert_eq!(endpoint.live(), 0);
    assert_eq!(heap.create_buffer(1, Access::Read).unwrap_err().code(), Code::SpaceFull);
    view.write(0, &[1]).unwrap();
    drop(view);
    let mut buffer = heap.create_buffer(1, Access::Read).unwrap();
    assert_eq!(buffer.release_when_idle(Instant::now() + Duration::from_secs(1)), Ok(()));
    assert_eq!(buffer.release().unwrap_err().code(), Code::Stale);
}

#[test]
fn a_consumer_resolves_only_what_is_live_as_the_owner_made_it() {
    let (endpoint, heap) = heap(1 << 16);
    let mut buffer = heap.create_buffer(3000, Access::Read).unwrap();
    let descriptor = buffer.descriptor().unwrap();
    let import = |descriptor| Consumer::new(None).unwrap().import(&descriptor);
    let found = import(descriptor).unwrap();
    assert_eq!(found.resolution(), Resolution::Inherited);
    assert_eq!(found.address(), buffer.mapping().unwrap().address());
    assert_eq!((found.access(), found.nbytes()), (Access::Read, 3000));
    assert!(found.write(0, &[1]).is_err());
    let base = found.address();
    let at = |base| Body::ForkShm { base: NonZeroU64::new(base).unwrap() };
    let cow = Body::ForkCow { base: NonZeroU64::new(base).unwrap() };
    let (identity, own) = (descriptor.identity(), endpoint.owner_instance_id());
    let other = Endpoint::new().unwrap().owner_instance_id();
    let named =
        |owner, id, generation| Identity::new(owner, id, core::num::NonZeroU32::new(generation).unwrap());
    let fields = descriptor.fields();
    for forged in [
        DescriptorFields { access: Access::ReadWrite, ..fields },
        DescriptorFields { nbytes: 3001, ..fields },
        DescriptorFields { nbytes: u64::MAX, ..fields },
        DescriptorFields { body: at(base + 1024), ..fields },
        DescriptorFields { body: at(base + 1), ..fields },
        DescriptorFields { body: at(1), ..fields },
        DescriptorFields { body: at(u64::MAX), ..fields },
        DescriptorFields { body: cow, ..fields },
        DescriptorFields { identity: named(other, identity.buffer_id(), 1), ..fields },
        DescriptorFields { identity: named(own, identity.buffer_id(), 2), ..fields },
        DescriptorFields { identity: named(own, identity.buffer_id() + 1, 1), ..fields },
    ] {
        let forged = Descriptor::new(&forged).unwrap();
        assert_eq!(import(forged).unwrap_err().code(), Code::NotInherited, "{forged:?}");
    }
    drop(found);
    buffer.release().unwrap();
    assert_eq!(import(descriptor).unwrap_err().code(), Code::NotInherited);
    let again = heap.create_buffer(3000, Access::Read).unwrap();
    assert_eq!(again.mapping().unwrap().address(), base, "another one lies there now");
    assert_eq!(import(descriptor).unwrap_err().code(), Code::NotInherited);
    assert!(import(again.descriptor().unwrap()).is_ok());
    let descriptor = again.descriptor().unwrap();
    drop((again, heap));
    assert_eq!(import(descriptor).unwrap_err().code(), Code::NotInherited);
}
