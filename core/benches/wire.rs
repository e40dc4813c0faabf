//! The wire rows of docs/figures.md: what a check, a decode, an encode and a materialisation take, each beside a plain copy of
//! the same bytes in the same run.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a benchmark makes its own input"
)]

use std::hint::black_box;
use std::num::{NonZeroU32, NonZeroU64};

use bufabi_core::wire::backend::AddressSpace;
use bufabi_core::wire::blob;
use bufabi_core::wire::body::{Body, ShmName};
use bufabi_core::wire::chip_args::MAX_TENSORS;
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{Access, Blob, ChipTensor, DType, Descriptor, Identity, OwnerInstanceId, Tensor, View};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const NBYTES: u64 = 1 << 30;

fn descriptor(number: u64, body: Body) -> Descriptor {
    let identity = Identity::new(OwnerInstanceId([0xa5; 8]), number, NonZeroU32::MIN);
    let fields = DescriptorFields {
        identity,
        access: Access::ReadWrite,
        nbytes: NBYTES,
        owner_worker_path_id: 3,
        body,
    };
    Descriptor::new(&fields).unwrap()
}

fn bodies() -> [(&'static str, Body); 4] {
    let base = NonZeroU64::new(0x7f00_0000_0000).unwrap();
    [
        ("address body", Body::DeviceMalloc { base }),
        ("shm name", Body::PosixShm { name: ShmName::new("bufabi.Zm9vYmFyYmF6cXV4.012345").unwrap() }),
        ("shareable", Body::VmmShareable { device_id: 1, shareable_handle: base, mapping_bytes: NBYTES }),
        ("remote", Body::RemoteSidecar { address_space: AddressSpace::Device }),
    ]
}

fn tensor(number: u64, shapes: &[u32]) -> Tensor {
    let [(_, address), ..] = bodies();
    let buffer = descriptor(number, address);
    Tensor::new(&buffer, &View::row_major(64, DType::Float32, shapes, NBYTES).unwrap()).unwrap()
}

fn shapes(rank: usize) -> &'static [u32] {
    &[8, 16, 4, 2, 32][..rank]
}

fn check_descriptor(c: &mut Criterion) {
    let mut group = c.benchmark_group("check descriptor");
    group.throughput(Throughput::Bytes(88));
    for (name, body) in bodies() {
        let bytes = descriptor(7, body).encode();
        group.bench_function(name, |b| {
            b.iter(|| Descriptor::from_bytes(black_box(bytes.as_slice())).map(|_| ()).is_ok());
        });
    }
    let bytes = [7_u8; 88];
    group.bench_function("plain copy", |b| b.iter(|| *black_box(&bytes)));
}

fn check_tensor(c: &mut Criterion) {
    let mut group = c.benchmark_group("check tensor");
    group.throughput(Throughput::Bytes(144));
    for rank in [1, 3, 5] {
        let bytes = tensor(7, shapes(rank)).encode();
        group.bench_function(format!("rank {rank}"), |b| {
            b.iter(|| Tensor::from_bytes(black_box(bytes.as_slice())).map(|_| ()).is_ok());
        });
    }
    let bytes = [7_u8; 144];
    group.bench_function("plain copy", |b| b.iter(|| *black_box(&bytes)));
}

/// 256 tensors of ranks 1 to 5 in turn.
fn arguments() -> Vec<Tensor> {
    (0..MAX_TENSORS).map(|i| tensor(u64::try_from(i).unwrap(), shapes(i % 5 + 1))).collect()
}

fn blobs(c: &mut Criterion) {
    let tensors = arguments();
    let size = blob::encoded_size(tensors.len(), 0).unwrap();
    let mut bytes = vec![0; size];
    blob::encode(&tensors, &[], &mut bytes).unwrap();
    let mut out = vec![0; size];

    let mut group = c.benchmark_group("decode blob of 256 tensors, per tensor");
    group.throughput(Throughput::Elements(256));
    group.bench_function("ranks 1 to 5", |b| {
        b.iter(|| Blob::from_bytes(black_box(&bytes)).map(|blob| blob.tensor_count()));
    });
    group.bench_function("plain copy", |b| b.iter(|| out.copy_from_slice(black_box(&bytes))));
    group.finish();

    let mut group = c.benchmark_group("encode blob of 256 tensors, whole");
    group.throughput(Throughput::Bytes(u64::try_from(size).unwrap()));
    group
        .bench_function("encode", |b| b.iter(|| blob::encode(black_box(&tensors), &[], black_box(&mut out))));
    group.bench_function("plain copy", |b| {
        b.iter(|| black_box(&mut out).copy_from_slice(black_box(&bytes)));
    });
}

fn materialize(c: &mut Criterion) {
    let mut group = c.benchmark_group("tensor to ChipTensor");
    for rank in [1, 3, 5] {
        let wire = tensor(7, shapes(rank)).encode();
        let tensor = Tensor::from_bytes(&wire).unwrap();
        group.bench_function(format!("rank {rank}"), |b| {
            let mut out = ChipTensor::ZERO;
            b.iter(|| {
                let base = black_box(0x7f00_0000_0000);
                *black_box(&mut out) = ChipTensor::materialize(black_box(&tensor), base).unwrap();
            });
        });
    }
    let bytes = [7_u8; 128];
    group.bench_function("plain copy", |b| b.iter(|| *black_box(&bytes)));
}

criterion_group!(benches, check_descriptor, check_tensor, blobs, materialize);
criterion_main!(benches);
