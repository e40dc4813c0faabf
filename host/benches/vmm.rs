//! Software device memory of 2 MiB: creating and exporting it, and importing it from the broker of another thread, each beside the
//! bare system calls in the same run.
#![expect(clippy::unwrap_used, reason = "a benchmark makes its own input")]

use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::sync::Arc;

use bufabi_core::{Access, Identity, OwnerInstanceId};
use bufabi_host::memory::Mapping;
use bufabi_host::sys::memfd::{self, Pages, Seals};
use bufabi_host::sys::random::random_bytes;
use bufabi_host::vmm::memfd::{Broker, GRANULARITY, MemfdOptions};
use bufabi_host::vmm::{
    Admission, AllocationRequest, ImportedMapping, MemfdDriver, SharedAllocation, VmmDriver,
};
use criterion::Criterion;

fn driver() -> Arc<MemfdDriver> {
    let owner = OwnerInstanceId(random_bytes().unwrap());
    Arc::new(MemfdDriver::new(owner, 0, MemfdOptions::default()))
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let (owner, importer) = (driver(), driver());
    let identity = Identity::new(owner.owner_instance_id(), 1, NonZeroU32::MIN);
    let (access, admission) = (Access::ReadWrite, Admission::Anyone);
    let request = AllocationRequest { identity, nbytes: GRANULARITY.get(), access, admission };
    let nbytes = usize::try_from(GRANULARITY.get()).unwrap();

    let mut group = criterion.benchmark_group("device memory of 2 MiB");
    group.bench_function("create, export and free", |b| {
        b.iter(|| SharedAllocation::new(&owner, &request).unwrap());
    });
    group.bench_function("bare creation", |b| {
        b.iter(|| {
            let file = memfd::create(c"bare", Pages::Ordinary).unwrap();
            memfd::reserve(file.as_fd(), GRANULARITY.get()).unwrap();
            memfd::seal(file.as_fd(), Seals::SIZE).unwrap();
            Mapping::of_file(file.as_fd(), nbytes, access).unwrap()
        });
    });
    let _broker = Broker::new(&owner).unwrap().spawn().unwrap();
    let allocation = SharedAllocation::new(&owner, &request).unwrap();
    let descriptor = allocation.descriptor(0).unwrap();
    group.bench_function("import and release", |b| {
        b.iter(|| ImportedMapping::import(&importer, &descriptor).unwrap());
    });
    let file = memfd::create(c"bare", Pages::Ordinary).unwrap();
    memfd::reserve(file.as_fd(), GRANULARITY.get()).unwrap();
    group.bench_function("bare map and unmap", |b| {
        b.iter(|| Mapping::of_file(file.as_fd(), nbytes, access).unwrap());
    });
    group.finish();
    criterion.final_summary();
}
