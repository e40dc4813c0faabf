//! What bytes cost: a descriptor or a tensor checked, a blob of 256 tensors encoded and decoded, a tensor made a chip's.

use std::hint::black_box;
use std::num::{NonZeroU32, NonZeroU64};

use bufabi_core::wire::blob;
use bufabi_core::wire::body::{Body, ShmName};
use bufabi_core::wire::chip_args::MAX_TENSORS;
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{Access, Blob, ChipTensor, DType, Descriptor, Identity, OwnerInstanceId, Tensor, View};

use super::session::{Goal, Session};
use crate::failure::Failure;

/// Bytes of a backing.
const NBYTES: u64 = 1 << 40;
/// The address of a backing.
const BASE: NonZeroU64 = NonZeroU64::new(0x7f00_0000_0000).expect("it is not 0");

/// A descriptor of a backing of one identity.
pub(super) fn descriptor(identity: Identity, body: Body) -> Result<Descriptor, Failure> {
    let (access, nbytes) = (Access::ReadWrite, NBYTES);
    Descriptor::new(&DescriptorFields { identity, access, nbytes, owner_worker_path_id: 3, body })
        .map_err(Failure::machine)
}

/// A tensor of backing number `number`.
pub(super) fn tensor(number: u64, view: &View) -> Result<Tensor, Failure> {
    let identity = Identity::new(OwnerInstanceId([0xa5; 8]), number, NonZeroU32::MIN);
    Tensor::new(&descriptor(identity, Body::DeviceMalloc { base: BASE })?, view).map_err(Failure::machine)
}

/// A strided view of such a backing.
pub(super) fn view(offset: u64, dtype: DType, shapes: &[u32], strides: &[u32]) -> Result<View, Failure> {
    View::new(offset, dtype, shapes, strides, NBYTES).map_err(Failure::machine)
}

fn of_rank(rank: usize) -> Result<Tensor, Failure> {
    let shapes = [8, 16, 4, 2, 32];
    let shapes = shapes.get(..rank).unwrap_or(&shapes);
    tensor(7, &View::row_major(64, DType::Float32, shapes, NBYTES).map_err(Failure::machine)?)
}

pub(super) fn checks(session: &mut Session) -> Result<(), Failure> {
    let identity = Identity::new(OwnerInstanceId([0xa5; 8]), 7, NonZeroU32::MIN);
    let name = ShmName::new("bufabiZm9vYmFyYmF6cXV4MDEyMzQ1");
    let name = name.ok_or_else(|| Failure::machine("a name of ours is not legal"))?;
    let shareable = Body::VmmShareable { device_id: 1, shareable_handle: BASE, mapping_bytes: NBYTES };
    for (name, goal, body) in [
        ("check a descriptor, address body", 5.0, Body::DeviceMalloc { base: BASE }),
        ("check a descriptor, shm name", 7.0, Body::PosixShm { name }),
        ("check a descriptor, shareable", 6.0, shareable),
    ] {
        let bytes = descriptor(identity, body)?.encode();
        session.copy(name, Goal::AtMost(goal), bytes.len(), 1, || {
            Descriptor::from_bytes(black_box(bytes.as_slice())).is_ok()
        });
    }
    for (name, rank, goal) in [
        ("check a tensor, rank 1", 1, 8.0),
        ("check a tensor, rank 3", 3, 9.0),
        ("check a tensor, rank 5", 5, 10.0),
    ] {
        let bytes = of_rank(rank)?.encode();
        session.copy(name, Goal::AtMost(goal), bytes.len(), 1, || {
            Tensor::from_bytes(black_box(bytes.as_slice())).is_ok()
        });
    }
    let bytes = of_rank(3)?.encode();
    let tensor = Tensor::from_bytes(&bytes).map_err(Failure::machine)?;
    let mut out = ChipTensor::ZERO;
    session.copy("tensor to ChipTensor", Goal::AtMost(8.0), size_of::<ChipTensor>(), 1, || {
        if let Ok(chip) = ChipTensor::materialize(black_box(&tensor), black_box(BASE.get())) {
            *black_box(&mut out) = chip;
        }
    });
    Ok(())
}

pub(super) fn blobs(session: &mut Session) -> Result<(), Failure> {
    let tensors: Vec<Tensor> = (1..=5).cycle().take(MAX_TENSORS).map(of_rank).collect::<Result<_, _>>()?;
    let size = blob::encoded_size(tensors.len(), 0);
    let size = size.ok_or_else(|| Failure::machine("a task's arguments have no size"))?;
    let mut bytes = vec![0; size];
    blob::encode(&tensors, &[], &mut bytes).map_err(Failure::machine)?;
    let mut out = vec![0; size];
    session.copy("encode a blob of 256 tensors", Goal::Times(1.2), size, 1, || {
        blob::encode(black_box(&tensors), &[], black_box(&mut out)).is_ok()
    });
    session.copy("decode a blob of 256 tensors, per tensor", Goal::AtMost(9.0), size, 256, || {
        Blob::from_bytes(black_box(&bytes)).is_ok()
    });
    Ok(())
}
