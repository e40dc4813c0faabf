//! What the C boundary costs: a handle looked up in its table, and a check with and without the boundary around it.
#![expect(clippy::expect_used, reason = "a benchmark that cannot be set up has nothing to say")]

use core::ffi::c_void;
use std::hint::black_box;

use bufabi_core::wire::body::{Body, ShmName};
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{Access, Descriptor, Identity, OwnerInstanceId};
use bufabi_host::ffi::{
    EndpointHandle, bufabi_descriptor_check, bufabi_endpoint_create, bufabi_endpoint_owner_instance_id,
    bufabi_endpoint_release,
};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

/// The cheapest call that takes a handle: all that it does behind the look-up is to copy 8 bytes.
fn owner_instance_id(endpoint: EndpointHandle) -> [u8; 8] {
    let mut id = [0; 8];
    // SAFETY: it points to 8 writable bytes.
    let status = unsafe { bufabi_endpoint_owner_instance_id(endpoint, id.as_mut_ptr()) };
    assert_eq!(status, 0);
    id
}

fn look_up(c: &mut Criterion) {
    let mut group = c.benchmark_group("c_abi/look_up");
    for live in [1_usize, 4096] {
        let endpoints: Vec<EndpointHandle> = (0..live)
            .map(|_| {
                let mut endpoint = EndpointHandle { token: 0 };
                // SAFETY: it points to a writable handle.
                assert_eq!(unsafe { bufabi_endpoint_create(1, &raw mut endpoint) }, 0);
                endpoint
            })
            .collect();
        let mut next = endpoints.iter().cycle();
        group.bench_function(BenchmarkId::from_parameter(live), |b| {
            b.iter(|| owner_instance_id(black_box(*next.next().expect("a cycle has no end"))));
        });
        for endpoint in endpoints {
            assert_eq!(bufabi_endpoint_release(endpoint), 0);
        }
    }
    group.finish();
}

fn check(c: &mut Criterion) {
    let identity = Identity::new(OwnerInstanceId([7; 8]), 9, core::num::NonZeroU32::MIN);
    let body = Body::PosixShm { name: ShmName::new("bufabi-object").expect("a legal name") };
    let fields =
        DescriptorFields { identity, access: Access::ReadWrite, nbytes: 4096, owner_worker_path_id: 0, body };
    let bytes = Descriptor::new(&fields).expect("legal fields").encode();
    let mut group = c.benchmark_group("c_abi/descriptor_check");
    group.bench_function("rust", |b| b.iter(|| Descriptor::from_bytes(black_box(&bytes)).is_ok()));
    group.bench_function("c", |b| {
        // SAFETY: they are 88 bytes, which nobody writes.
        b.iter(|| unsafe { bufabi_descriptor_check(black_box(&bytes).as_ptr().cast::<c_void>(), 88) });
    });
    group.finish();
}

criterion_group!(benches, look_up, check);
criterion_main!(benches);
