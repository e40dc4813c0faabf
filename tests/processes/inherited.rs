//! Memory that workers inherit: shared with their parent, or as it was when they were forked.

use bufabi_core::wire::body::Body;
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{Access, Code, DType, Descriptor, Tag, Tensor, View};
use bufabi_host::consumer::{Consumer, Resolution};
use bufabi_host::heap::ForkHeap;
use bufabi_host::kernels::Kernel;
use bufabi_host::memory::{InheritedRegion, Sharing};
use bufabi_host::owner::Endpoint;
use bufabi_host::sys::process::{Ending, fork};
use bufabi_host::worker::{TaskFailure, TaskRequest, WorkerKind, WorkerSpec, Workers};

use crate::Case;
use crate::support::{SLEEP_50_MS, comes_true, is_running, load, row, run, soon, spawn, spec, store};

pub(crate) const CASES: &[Case] = &[
    ("workers_compute_in_a_heap_that_they_inherited_and_nothing_is_mapped", computes),
    ("a_copied_region_shows_workers_its_bytes_as_they_were_at_the_fork", copied),
    ("what_was_mapped_after_the_fork_is_refused", mapped_later),
    ("a_released_slab_resolves_in_no_worker_that_has_not_seen_it", released),
    ("a_scope_ends_while_a_worker_is_busy_and_its_slab_stays_until_then", scope_ends),
    ("a_fork_of_a_fork_inherits_too", descended),
];

const NAMES: [&str; 2] = ["chip0", "sub0"];

fn pair() -> [WorkerSpec; 2] {
    [spec("chip0", WorkerKind::Chip), spec("sub0", WorkerKind::Sub)]
}

fn computes() {
    let endpoint = Endpoint::new().unwrap();
    let heap = ForkHeap::new(&endpoint, 1 << 20).unwrap();
    let a = heap.create_buffer(16, Access::Read).unwrap();
    let mut workers = spawn(&endpoint, &pair());
    // What was allocated after the fork lies in what was mapped before.
    let c = heap.alloc_shared(&[4], DType::Int32).unwrap();
    store(&a, &[1, -2, 3, 1 << 30]);
    for name in NAMES {
        let worker = workers.find(name).unwrap();
        for expected in [Resolution::Inherited, Resolution::AlreadyMapped] {
            store(&c, &[0; 4]);
            let done =
                run(&mut workers, worker, Kernel::Copy, &[row(&a), row(&c)], &[Tag::Input, Tag::Output]);
            let reply = done.result.unwrap();
            assert_eq!((reply.resolutions, reply.bytes_copied), (vec![expected; 2], 0));
            assert_eq!(load(&c), [1, -2, 3, 1 << 30]);
        }
    }
}

fn copied() {
    let endpoint = Endpoint::new().unwrap();
    let heap = ForkHeap::new(&endpoint, 1 << 20).unwrap();
    let region = InheritedRegion::new(endpoint.owner_instance_id(), 8192, Sharing::Copied).unwrap();
    let wrapped = endpoint.wrap_fork_inherited(&region, 4096, 16, Access::Read).unwrap();
    let bytes = |numbers: [i32; 4]| numbers.map(i32::to_le_bytes).concat();
    region.memory().write(4096, &bytes([1, 2, 3, 4])).unwrap();
    let mut workers = spawn(&endpoint, &pair());
    region.memory().write(4096, &bytes([9; 4])).unwrap();
    let c = heap.alloc_shared(&[4], DType::Int32).unwrap();
    let a = wrapped.row_major(0, DType::Int32, &[4]).unwrap();
    for name in NAMES {
        let worker = workers.find(name).unwrap();
        store(&c, &[0; 4]);
        let done = run(&mut workers, worker, Kernel::Copy, &[a, row(&c)], &[Tag::Input, Tag::Output]);
        assert_eq!(done.result.unwrap().resolutions, [Resolution::Inherited; 2]);
        assert_eq!(load(&c), [1, 2, 3, 4]);
    }
    let mut here = [0; 16];
    wrapped.mapping().unwrap().read(0, &mut here).unwrap();
    assert_eq!(here.to_vec(), bytes([9; 4]), "the owner has its own");
}

/// What a worker of each kind says of a task with that argument.
fn refusals(endpoint: &Endpoint, workers: &mut Workers, tensor: Tensor) -> Vec<Code> {
    let c = endpoint.create_buffer(16, Access::ReadWrite).unwrap();
    let refusal = |name: &&str| {
        let worker = workers.find(name).unwrap();
        let done = run(workers, worker, Kernel::Copy, &[tensor, row(&c)], &[Tag::Input, Tag::Output]);
        let Err(TaskFailure::Reported(failure)) = done.result else { panic!("{done:?}") };
        assert_eq!(failure.argument, Some(0));
        failure.code
    };
    NAMES.iter().map(refusal).collect()
}

fn mapped_later() {
    let endpoint = Endpoint::new().unwrap();
    let mut workers = spawn(&endpoint, &pair());
    let heap = ForkHeap::new(&endpoint, 1 << 20).unwrap();
    let slab = heap.create_buffer(16, Access::Read).unwrap();
    assert_eq!(refusals(&endpoint, &mut workers, row(&slab)), [Code::NotInherited; 2]);
    let region = InheritedRegion::new(endpoint.owner_instance_id(), 4096, Sharing::Copied).unwrap();
    let wrapped = endpoint.wrap_fork_inherited(&region, 0, 16, Access::Read).unwrap();
    let tensor = wrapped.row_major(0, DType::Int32, &[4]).unwrap();
    assert_eq!(refusals(&endpoint, &mut workers, tensor), [Code::NotInherited; 2]);
}

fn released() {
    let endpoint = Endpoint::new().unwrap();
    let heap = ForkHeap::new(&endpoint, 1 << 20).unwrap();
    let mut workers = spawn(&endpoint, &pair());
    let mut slab = heap.create_buffer(16, Access::Read).unwrap();
    let stale = row(&slab).descriptor().to_owned();
    slab.release().unwrap();
    let other = heap.create_buffer(16, Access::Read).unwrap();
    // The endpoint would refuse it: only somebody who forges another owner's word gets it to a worker.
    let stranger = Endpoint::new().unwrap();
    let view = View::row_major(0, DType::Int32, &[4], 16).unwrap();
    let mut others = spawn(&stranger, &pair());
    let tensor = Tensor::new(&stale, &view).unwrap();
    let own = refusals(&stranger, &mut others, tensor);
    assert_eq!(own, [Code::NotInherited; 2], "the ledger knows no such identity");
    assert_eq!(endpoint.hold(&[tensor]).unwrap_err().1.code(), Code::Stale);
    let forged = DescriptorFields { access: Access::ReadWrite, ..stale.fields() };
    assert!(matches!(forged.body, Body::ForkShm { .. }));
    let forged = Tensor::new(&Descriptor::new(&forged).unwrap(), &view).unwrap();
    assert_eq!(refusals(&stranger, &mut others, forged), [Code::NotInherited; 2]);
    // The workers of the owner itself go on.
    let live = heap.create_buffer(16, Access::ReadWrite).unwrap();
    let worker = workers.find("sub0").unwrap();
    let done =
        run(&mut workers, worker, Kernel::Copy, &[row(&other), row(&live)], &[Tag::Input, Tag::Output]);
    assert!(done.result.is_ok());
}

fn scope_ends() {
    let endpoint = Endpoint::new().unwrap();
    let heap = ForkHeap::new(&endpoint, 1 << 20).unwrap();
    let mut workers = spawn(&endpoint, &pair());
    let mut scope = heap.scope();
    let tensor = scope.alloc_shared(&[4], DType::Int32).unwrap();
    let worker = workers.find("sub0").unwrap();
    let request = TaskRequest {
        task: 1,
        member: 0,
        kernel: SLEEP_50_MS,
        tensors: &[tensor],
        tags: &[Tag::Output],
        scalars: &[],
    };
    workers.submit(worker, &request).unwrap();
    scope.end();
    assert_eq!(heap.live(), 1);
    assert!(workers.wait(soon()).unwrap().result.is_ok());
    assert_eq!((heap.live(), heap.largest_free()), (0, 1 << 20));
}

fn descended() {
    let endpoint = Endpoint::new().unwrap();
    let heap = ForkHeap::new(&endpoint, 1 << 20).unwrap();
    let slab = heap.create_buffer(16, Access::ReadWrite).unwrap();
    store(&slab, &[1, 2, 3, 4]);
    let descriptor = slab.descriptor().unwrap();
    let child = fork(|| {
        let grandchild = fork(|| {
            let found = Consumer::new(None).unwrap().import(&descriptor).unwrap();
            found.write(12, &[5]).unwrap();
            i32::from(found.resolution() != Resolution::Inherited)
        });
        let grandchild = grandchild.unwrap();
        comes_true("the grandchild's end", || !is_running(grandchild.pid()));
        i32::from(grandchild.ended() != Ok(Some(Ending::Exited { status: 0 })))
    });
    let child = child.unwrap();
    comes_true("the child's end", || !is_running(child.pid()));
    assert_eq!(child.ended(), Ok(Some(Ending::Exited { status: 0 })));
    assert_eq!(load(&slab), [1, 2, 3, 5]);
}
