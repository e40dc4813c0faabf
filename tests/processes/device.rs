//! Device memory of chips in processes of their own: it is named by identity, on the very chip that owns it, for as long as it lives.

use std::time::{Duration, Instant};

use bufabi_core::wire::body::Body;
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{Access, Code, DType, Descriptor, Identity, Tag, Tensor};
use bufabi_host::consumer::Resolution;
use bufabi_host::device::memory::WindowPart;
use bufabi_host::device::{Chip, DeviceKind, QemuOptions, SimulatedChip, SimulatedChipOptions};
use bufabi_host::kernels::{Kernel, StandardKernels};
use bufabi_host::owner::Endpoint;
use bufabi_host::sys::process::{Ending, Process, fork};
use bufabi_host::vmm::Admission;
use bufabi_host::worker::{
    DeviceBuffer, DeviceNameError, MemoryError, SpawnError, SubmitError, TaskFailure, TaskRequest,
    WaitPolicy, WorkerId, WorkerKind, WorkerSpec, Workers,
};

use crate::Case;
use crate::support::{
    MEET, Meeting, SLEEP_50_MS, TestKernels, comes_true, died, does_not_run, is_running, load, number,
    open_files, row, run, soon, spawn, spec, store,
};
use crate::tree::host;

pub(crate) const CASES: &[Case] = &[
    ("device_memory_is_computed_on_where_it_lies_several_hops_down_too", computed_in_place),
    ("device_memory_of_another_chip_is_refused_at_submit_and_both_chips_are_named", other_chip),
    ("a_freed_handle_stays_dead_when_its_address_is_given_out_again", freed_handle),
    ("device_memory_that_a_task_names_is_not_freed", busy),
    ("a_chip_tells_freed_already_from_anothers_and_from_what_never_was", frees_differ),
    ("copies_keep_to_direction_and_range_whatever_their_size", copies),
    ("device_memory_is_shared_by_handle_with_whom_its_chip_permits", shared_by_handle),
    ("host_buffers_are_copied_for_a_chip_that_needs_it_and_every_byte_is_counted", staged),
    ("what_a_chip_makes_too_late_is_taken_back", too_late),
    ("memory_that_a_busy_chip_was_to_free_is_freed_when_it_has_time", freed_when_there_is_time),
    ("a_chip_that_is_killed_takes_its_memory_along", chip_killed),
    ("only_chips_have_device_memory", only_chips),
    ("a_chip_whose_device_is_not_to_be_had_says_why", missing),
    ("a_fork_frees_nothing_of_a_chips_memory", forked),
];

pub(crate) const MIB: u64 = 1 << 20;

pub(crate) fn chip(name: &str, nbytes: u64, reaches_host_memory: bool) -> WorkerSpec {
    spec(name, WorkerKind::Device(DeviceKind::Simulated { nbytes, reaches_host_memory }))
}

/// A chip below a host worker, one beside that, and a sub-worker.
pub(crate) fn tree() -> (Endpoint, Workers, [WorkerId; 3]) {
    let endpoint = Endpoint::new().unwrap();
    let specs =
        [host("l3", vec![chip("chip0", MIB, true)]), chip("chip1", MIB, true), spec("sub", WorkerKind::Sub)];
    let workers = spawn(&endpoint, &specs);
    let found = ["l3/chip0", "chip1", "sub"].map(|path| workers.find(path).unwrap());
    (endpoint, workers, found)
}

/// All of it, as 32-bit numbers.
pub(crate) fn numbers(buffer: &DeviceBuffer) -> Tensor {
    buffer.row_major(0, DType::Int32, &[u32::try_from(buffer.nbytes() / 4).unwrap()]).unwrap()
}

pub(crate) fn malloc(workers: &mut Workers, chip: WorkerId, nbytes: u64) -> DeviceBuffer {
    workers.malloc(chip, nbytes, Access::ReadWrite, soon()).unwrap()
}

pub(crate) fn put(workers: &mut Workers, buffer: &DeviceBuffer, bytes: &[u8]) {
    workers.copy_to(buffer.worker(), buffer.identity(), 0, bytes, soon()).unwrap();
}

pub(crate) fn get(workers: &mut Workers, buffer: &DeviceBuffer) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(buffer.nbytes()).unwrap()];
    workers.copy_from(buffer.worker(), buffer.identity(), 0, &mut bytes, soon()).unwrap();
    bytes
}

/// Why the worker says that it did not do it.
pub(crate) fn reported(error: MemoryError) -> Code {
    let MemoryError::Failed(TaskFailure::Reported(failure)) = error else { panic!("{error:?}") };
    failure.code
}

/// All of a chip's memory is free.
pub(crate) fn is_free(workers: &mut Workers, chip: WorkerId) {
    let all = workers.malloc(chip, MIB, Access::Read, soon()).unwrap();
    workers.free(chip, all.identity(), soon()).unwrap();
}

pub(crate) fn copy_task<'a>(tensors: &'a [Tensor], tags: &'a [Tag]) -> TaskRequest<'a> {
    TaskRequest { task: 1, member: 0, kernel: number(Kernel::Copy), tensors, tags, scalars: &[] }
}

const TAGS: [Tag; 2] = [Tag::Input, Tag::Output];

fn computed_in_place() {
    let (endpoint, mut workers, [chip0, chip1, _]) = tree();
    let host = endpoint.create_buffer(16, Access::ReadWrite).unwrap();
    for (chip, hops) in [(chip0, 1), (chip1, 0)] {
        store(&host, &[1, 2, 3, 4]);
        let [from, to] = [(); 2].map(|()| workers.alloc_child(chip, &[4], DType::Int32, soon()).unwrap());
        assert_eq!((from.nbytes(), from.worker()), (16, chip));
        // From the host to the device, there, and back: in place all the way.
        let steps = [
            ([row(&host), numbers(&from)], [Resolution::MappedNow, Resolution::Own]),
            ([numbers(&from), numbers(&to)], [Resolution::Own, Resolution::Own]),
        ];
        for (tensors, resolutions) in steps {
            let reply = run(&mut workers, chip, Kernel::Copy, &tensors, &TAGS).result.unwrap();
            assert_eq!((reply.resolutions, reply.hops, reply.bytes_copied), (resolutions.to_vec(), hops, 0));
        }
        store(&host, &[0; 4]);
        run(&mut workers, chip, Kernel::Copy, &[numbers(&to), row(&host)], &TAGS).result.unwrap();
        assert_eq!(load(&host), [1, 2, 3, 4]);
        assert_eq!(get(&mut workers, &to)[..8], [1, 0, 0, 0, 2, 0, 0, 0]);
        for buffer in [from, to] {
            workers.free(chip, buffer.identity(), soon()).unwrap();
        }
        is_free(&mut workers, chip);
    }
    assert_eq!(workers.device_buffers(), 0);
}

fn other_chip() {
    let (endpoint, mut workers, [chip0, chip1, sub]) = tree();
    let (mine, theirs) = (malloc(&mut workers, chip0, 16), malloc(&mut workers, chip1, 16));
    let windows = [chip0, chip1].map(|chip| {
        let part = WindowPart { nbytes: 16, access: Access::ReadWrite };
        workers.create_domain(&[chip], &[part], soon()).unwrap().windows()[0][0]
    });
    for ([mine, theirs], target, owner) in [
        ([mine, theirs], chip0, chip1),
        ([theirs, mine], chip1, chip0),
        (windows, chip0, chip1),
        ([windows[1], windows[0]], chip1, chip0),
    ] {
        let tensors = [numbers(&mine), numbers(&theirs)];
        let error = DeviceNameError::OtherChip { owner: Some(owner), target, identity: theirs.identity() };
        let refused = workers.submit(target, &copy_task(&tensors, &TAGS)).unwrap_err();
        assert_eq!(refused, SubmitError::Device { argument: 1, error });
        assert_eq!(refused.code(), Code::DeviceOtherChip);
    }
    let refused = workers.submit(sub, &copy_task(&[numbers(&mine), numbers(&mine)], &[Tag::NoDep; 2]));
    let error = DeviceNameError::OtherChip { owner: Some(chip0), target: sub, identity: mine.identity() };
    assert_eq!(refused.unwrap_err(), SubmitError::Device { argument: 0, error });
    // A chip that none of these workers is.
    let stranger = Identity::new(bufabi_core::OwnerInstanceId([1; 8]), 1, core::num::NonZeroU32::MIN);
    let fields = DescriptorFields { identity: stranger, ..mine.descriptor().fields() };
    let view = numbers(&mine).view();
    let tensors = [Tensor::new(&Descriptor::new(&fields).unwrap(), &view).unwrap(), numbers(&mine)];
    let error = DeviceNameError::OtherChip { owner: None, target: chip0, identity: stranger };
    let refused = workers.submit(chip0, &copy_task(&tensors, &TAGS)).unwrap_err();
    assert_eq!(refused, SubmitError::Device { argument: 0, error });
    // The chip's own memory by its right address, which a host's endpoint has named.
    let Body::DeviceMalloc { base } = mine.descriptor().body() else { panic!("other memory") };
    let mut named = endpoint.wrap_device_malloc(base, 16, Access::ReadWrite).unwrap();
    let tensors = [named.tensor(&view).unwrap(), numbers(&mine)];
    let error = DeviceNameError::OfHost { identity: named.identity() };
    let refused = workers.submit(chip0, &copy_task(&tensors, &TAGS)).unwrap_err();
    assert_eq!(refused, SubmitError::Device { argument: 0, error });
    assert_eq!(refused.code(), Code::DeviceOtherChip);
    assert_eq!(named.release(), Ok(()));
    // Nothing of what was refused holds anything.
    workers.free(chip0, mine.identity(), soon()).unwrap();
    workers.free(chip1, theirs.identity(), soon()).unwrap();
}

fn freed_handle() {
    let (_endpoint, mut workers, [chip0, ..]) = tree();
    let to = malloc(&mut workers, chip0, 16);
    let old = malloc(&mut workers, chip0, 16);
    put(&mut workers, &old, &[7; 16]);
    workers.free(chip0, old.identity(), soon()).unwrap();
    let new = malloc(&mut workers, chip0, 16);
    assert_eq!(new.descriptor().body(), old.descriptor().body(), "the address is given out again");
    put(&mut workers, &new, &[9; 16]);
    // At the parent.
    let refused = workers.submit(chip0, &copy_task(&[numbers(&old), numbers(&to)], &TAGS)).unwrap_err();
    let error = DeviceNameError::NotLive { owner: chip0, identity: old.identity() };
    assert_eq!(refused, SubmitError::Device { argument: 0, error });
    // At the chip.
    let identity = old.identity();
    let stale = workers.copy_from(chip0, identity, 0, &mut [0; 16], soon()).unwrap_err();
    assert_eq!(reported(stale), Code::Stale);
    for bytes in [&[0; 16][..], &[]] {
        assert_eq!(reported(workers.copy_to(chip0, identity, 0, bytes, soon()).unwrap_err()), Code::Stale);
    }
    let stale = workers.copy_from(chip0, identity, 0, &mut [], soon()).unwrap_err();
    assert_eq!(reported(stale), Code::Stale);
    assert_eq!(reported(workers.free(chip0, identity, soon()).unwrap_err()), Code::Stale);
    // The new one under another claim.
    let fields = new.descriptor().fields();
    let Body::DeviceMalloc { base } = fields.body else { panic!("{fields:?}") };
    let forged = Descriptor::new(&DescriptorFields {
        body: Body::DeviceMalloc { base: base.checked_add(1).unwrap() },
        ..fields
    });
    let forged = Tensor::new(&forged.unwrap(), &numbers(&new).view()).unwrap();
    let refused = workers.submit(chip0, &copy_task(&[forged, numbers(&to)], &TAGS)).unwrap_err();
    assert_eq!(refused.code(), Code::ImportConflict);
    assert_eq!(get(&mut workers, &new), [9; 16]);
}

fn busy() {
    let (_endpoint, mut workers, [chip0, ..]) = tree();
    let buffer = malloc(&mut workers, chip0, 16);
    let part = WindowPart { nbytes: 16, access: Access::ReadWrite };
    let domain = workers.create_domain(&[chip0], &[part, part], soon()).unwrap();
    let tensors = [numbers(&buffer), numbers(&buffer), numbers(&domain.windows()[0][1])];
    let request = TaskRequest { kernel: SLEEP_50_MS, ..copy_task(&tensors, &[Tag::Input; 3]) };
    workers.submit(chip0, &request).unwrap();
    let identity = buffer.identity();
    assert_eq!(workers.free(chip0, identity, soon()).unwrap_err(), MemoryError::Busy { identity, holds: 2 });
    let held = domain.windows()[0][1].identity();
    let refused = workers.free_domain(&domain, soon()).unwrap_err();
    assert_eq!(refused, MemoryError::Busy { identity: held, holds: 1 }.into());
    assert_eq!(workers.device_buffers(), 3, "a refusal changes nothing");
    workers.wait(soon()).unwrap().result.unwrap();
    workers.free(chip0, identity, soon()).unwrap();
    workers.free_domain(&domain, soon()).unwrap();
    is_free(&mut workers, chip0);
}

fn frees_differ() {
    let (_endpoint, mut workers, [chip0, chip1, _]) = tree();
    let (mine, theirs) = (malloc(&mut workers, chip0, 16), malloc(&mut workers, chip1, 16));
    let mut code = |identity| reported(workers.free(chip0, identity, soon()).unwrap_err());
    assert_eq!(code(theirs.identity()), Code::OtherOwner);
    let owner = mine.identity().owner_instance_id();
    assert_eq!(code(Identity::new(owner, 99, core::num::NonZeroU32::MIN)), Code::NeverExisted);
    workers.free(chip0, mine.identity(), soon()).unwrap();
    let freed = workers.free(chip0, mine.identity(), soon()).unwrap_err();
    assert_eq!(reported(freed), Code::Stale);
    assert_eq!(get(&mut workers, &theirs).len(), 16, "what is another's lives on");
}

fn copies() {
    let (_endpoint, mut workers, [chip0, ..]) = tree();
    let buffer = malloc(&mut workers, chip0, 100_000);
    let pattern: Vec<u8> = (0..=250).cycle().take(100_000).collect();
    put(&mut workers, &buffer, &pattern);
    assert_eq!(get(&mut workers, &buffer), pattern);
    let identity = buffer.identity();
    workers.copy_to(chip0, identity, 99_990, &[1; 10], soon()).unwrap();
    let mut out = vec![0; 70_000];
    workers.copy_from(chip0, identity, 30_000, &mut out, soon()).unwrap();
    assert_eq!((&out[..69_990], &out[69_990..]), (&pattern[30_000..99_990], &[1; 10][..]));
    for (offset, length) in [(99_991, 10), (100_001, 0), (30_001, 70_000), (u64::MAX, 1)] {
        let refused = MemoryError::OutOfRange { offset, length, nbytes: 100_000 };
        let length = usize::try_from(length).unwrap();
        assert_eq!(workers.copy_to(chip0, identity, offset, &out[..length], soon()).unwrap_err(), refused);
        let read = workers.copy_from(chip0, identity, offset, &mut out[..length], soon()).unwrap_err();
        assert_eq!(read, refused);
    }
    let read = workers.malloc(chip0, 16, Access::Read, soon()).unwrap();
    let denied = workers.copy_to(chip0, read.identity(), 0, &[1], soon()).unwrap_err();
    assert_eq!(denied, MemoryError::Denied { granted: Access::Read, needed: Access::Write });
    let write = workers.malloc(chip0, 16, Access::Write, soon()).unwrap();
    let denied = workers.copy_from(chip0, write.identity(), 0, &mut [1], soon()).unwrap_err();
    assert_eq!(denied, MemoryError::Denied { granted: Access::Write, needed: Access::Read });
    assert_eq!(reported(workers.malloc(chip0, 0, Access::Read, soon()).unwrap_err()), Code::NbytesZero);
    assert_eq!(reported(workers.malloc(chip0, MIB, Access::Read, soon()).unwrap_err()), Code::SpaceFull);
}

fn shared_by_handle() {
    let (_endpoint, mut workers, [chip0, chip1, sub]) = tree();
    let shared = workers.create_shareable(chip0, 16, Access::ReadWrite, Admission::Listed, soon()).unwrap();
    put(&mut workers, &shared, &[5; 16]);
    let pid = workers.pid(chip0).unwrap();
    does_not_run(pid);
    let to = malloc(&mut workers, chip1, 16);
    let tensors = [numbers(&shared), numbers(&to)];
    let refused = run(&mut workers, chip1, Kernel::Copy, &tensors, &TAGS).result.unwrap_err();
    assert_eq!(refused.code(), Code::VmmNotPermitted);
    workers.permit(&shared, &[chip1, sub], soon()).unwrap();
    for resolution in [Resolution::MappedNow, Resolution::AlreadyMapped] {
        let reply = run(&mut workers, chip1, Kernel::Copy, &tensors, &TAGS).result.unwrap();
        assert_eq!(reply.resolutions, [resolution, Resolution::Own]);
    }
    assert_eq!(get(&mut workers, &to), [5; 16]);
    // A sub-worker adds to it, and the owner sees that without a copy.
    let add = run(&mut workers, sub, Kernel::Add, &[numbers(&shared); 3], &[Tag::NoDep; 3]).result.unwrap();
    assert_eq!(
        add.resolutions,
        [Resolution::MappedNow, Resolution::AlreadyMapped, Resolution::AlreadyMapped]
    );
    assert_eq!(get(&mut workers, &shared), [10; 16]);
    let own = malloc(&mut workers, chip0, 16);
    let tensors = [numbers(&shared), numbers(&own)];
    let reply = run(&mut workers, chip0, Kernel::Copy, &tensors, &TAGS).result.unwrap();
    assert_eq!(reply.resolutions, [Resolution::Own, Resolution::Own]);
    assert_eq!(get(&mut workers, &own), [10; 16]);
    // An importer need not wait for what the owner computes.
    let anyone = workers.create_shareable(chip0, 16, Access::Read, Admission::Anyone, soon()).unwrap();
    let request = TaskRequest { kernel: SLEEP_50_MS, ..copy_task(&[], &[]) };
    workers.submit(chip0, &request).unwrap();
    workers.submit(chip1, &copy_task(&[numbers(&anyone), numbers(&to)], &TAGS)).unwrap();
    assert_eq!(workers.wait(soon()).unwrap().worker, chip1);
    assert_eq!(workers.wait(soon()).unwrap().worker, chip0);
    assert_eq!(reported(workers.permit(&to, &[chip0], soon()).unwrap_err()), Code::VmmOrder);
    assert_eq!(workers.free(chip0, shared.identity(), soon()).unwrap(), []);
    let tensors = [numbers(&shared), numbers(&to)];
    let refused = workers.submit(chip1, &copy_task(&tensors, &TAGS)).unwrap_err();
    let error = DeviceNameError::NotLive { owner: chip0, identity: shared.identity() };
    assert_eq!(refused, SubmitError::Device { argument: 0, error });
}

fn staged() {
    let endpoint = Endpoint::new().unwrap();
    let specs = [chip("near", MIB, true), chip("apart", MIB, false)];
    let mut workers = spawn(&endpoint, &specs);
    let [near, apart] = ["near", "apart"].map(|path| workers.find(path).unwrap());
    let [a, b, c] = [(); 3].map(|()| endpoint.create_buffer(4000, Access::ReadWrite).unwrap());
    store(&a, &vec![2; 1000]);
    store(&b, &vec![3; 1000]);
    let tensors = [row(&a), row(&b), row(&c)];
    let tags = [Tag::Input, Tag::Input, Tag::Output];
    // Kernels that do not say what they do with their operands have all of them copied both ways.
    for (chip, copied) in [(near, 0), (apart, 24_000), (apart, 24_000)] {
        store(&c, &[0; 1000]);
        let reply = run(&mut workers, chip, Kernel::Add, &tensors, &tags).result.unwrap();
        assert_eq!(reply.bytes_copied, copied);
        assert_eq!(load::<1000>(&c), [5; 1000]);
    }
    // Memory of the chip itself is never copied.
    let on_chip = malloc(&mut workers, apart, 4000);
    let reply = run(&mut workers, apart, Kernel::Copy, &[row(&c), numbers(&on_chip)], &TAGS).result.unwrap();
    assert_eq!(reply.bytes_copied, 8000);
    assert_eq!(get(&mut workers, &on_chip)[..4], [5, 0, 0, 0]);
    workers.free(apart, on_chip.identity(), soon()).unwrap();
    // What another chip shares is copied as a buffer of the host is.
    let admission = Admission::Anyone;
    let shared = workers.create_shareable(near, 4000, Access::ReadWrite, admission, soon()).unwrap();
    put(&mut workers, &shared, &[7; 4000]);
    let reply = run(&mut workers, apart, Kernel::Copy, &[numbers(&shared), row(&c)], &TAGS).result.unwrap();
    assert_eq!(reply.bytes_copied, 16_000);
    assert_eq!(load::<1000>(&c), [0x0707_0707; 1000]);
    assert_eq!(workers.free(near, shared.identity(), soon()).unwrap(), []);
    // What stands in for host buffers goes with them, or for what is needed.
    is_free(&mut workers, apart);
    assert_eq!(workers.release_imports(a.identity(), soon()).unwrap(), []);
}

fn too_late() {
    let (_endpoint, mut workers, [chip0, chip1, _]) = tree();
    let now = Instant::now();
    // Not asked, since it has something to do.
    let request = TaskRequest { kernel: SLEEP_50_MS, ..copy_task(&[], &[]) };
    workers.submit(chip0, &request).unwrap();
    let late = workers.malloc(chip0, MIB, Access::Read, now).unwrap_err();
    assert_eq!(late, MemoryError::TimedOut { worker: chip0 });
    workers.wait(soon()).unwrap();
    is_free(&mut workers, chip0);
    // Asked, with no time to answer; if it answers in that time all the same, it is there.
    let part = WindowPart { nbytes: MIB, access: Access::Read };
    for _ in 0..50 {
        if let Ok(buffer) = workers.malloc(chip0, MIB, Access::Read, now) {
            workers.free(chip0, buffer.identity(), soon()).unwrap();
        }
        if let Ok(domain) = workers.create_domain(&[chip0, chip1], &[part], now) {
            workers.free_domain(&domain, soon()).unwrap();
        }
        let buffer = workers.malloc(chip1, 16, Access::Read, soon()).unwrap();
        if workers.free(chip1, buffer.identity(), now).is_err() {
            assert_eq!(workers.device_buffers(), 0, "nobody can name it, whether or not it is back");
        }
    }
    std::thread::sleep(Duration::from_millis(1));
    for chip in [chip0, chip1] {
        is_free(&mut workers, chip);
    }
}

fn freed_when_there_is_time() {
    let (endpoint, meeting) = (Endpoint::new().unwrap(), Meeting::new());
    let specs = [chip("chip0", MIB, true), chip("chip1", MIB, true)];
    let mut workers = Workers::spawn(&endpoint, &specs, &meeting, WaitPolicy::default()).unwrap();
    let [chip0, chip1] = [0, 1].map(WorkerId);
    let all = malloc(&mut workers, chip0, MIB);
    let meet = TaskRequest { kernel: MEET, scalars: &[2], ..copy_task(&[], &[]) };
    workers.submit(chip0, &meet).unwrap();
    let late = workers.free(chip0, all.identity(), Instant::now()).unwrap_err();
    assert_eq!(late, MemoryError::TimedOut { worker: chip0 });
    // The other chip is not kept waiting.
    comes_true("a call to another chip", || {
        is_free(&mut workers, chip1);
        true
    });
    workers.submit(chip1, &meet).unwrap();
    for _ in 0..2 {
        assert!(workers.wait(soon()).unwrap().result.is_ok());
    }
    is_free(&mut workers, chip0);
}

fn chip_killed() {
    let files = open_files();
    let (endpoint, mut workers, [chip0, chip1, _]) = tree();
    let buffer = malloc(&mut workers, chip1, 16);
    let shared = workers.create_shareable(chip1, 16, Access::ReadWrite, Admission::Anyone, soon()).unwrap();
    put(&mut workers, &shared, &[6; 16]);
    let to = malloc(&mut workers, chip0, 16);
    run(&mut workers, chip0, Kernel::Copy, &[numbers(&shared), numbers(&to)], &TAGS).result.unwrap();
    let pid = workers.pid(chip1).unwrap();
    Process::open(pid).unwrap().send(9).unwrap();
    let death = died("chip1", pid, Ending::Killed { signal: 9 });
    let copied = workers.copy_to(chip1, buffer.identity(), 0, &[1; 16], soon()).unwrap_err();
    assert_eq!(copied, MemoryError::Failed(death.clone()));
    assert_eq!(
        workers.malloc(chip1, 16, Access::Read, soon()).unwrap_err(),
        MemoryError::Failed(death.clone())
    );
    let refused = workers.submit(chip1, &copy_task(&[numbers(&buffer); 2], &[Tag::NoDep; 2])).unwrap_err();
    assert_eq!(refused.code(), Code::WorkerDied);
    // The one who has it mapped keeps it.
    let reply = run(&mut workers, chip0, Kernel::Copy, &[numbers(&shared), numbers(&to)], &TAGS);
    assert_eq!(reply.result.unwrap().resolutions, [Resolution::AlreadyMapped, Resolution::Own]);
    assert_eq!(workers.free(chip1, buffer.identity(), soon()).unwrap_err(), MemoryError::Failed(death));
    assert!(!is_running(pid));
    drop(workers);
    drop(endpoint);
    assert_eq!(open_files(), files);
}

fn only_chips() {
    let (_endpoint, mut workers, [chip0, _, sub]) = tree();
    let nobody = WorkerId(99);
    for (worker, expected) in [
        (sub, MemoryError::NotAChip { worker: sub }),
        (nobody, MemoryError::WorkerUnknown { worker: nobody }),
    ] {
        assert_eq!(workers.malloc(worker, 1, Access::Read, soon()).unwrap_err(), expected);
        assert_eq!(workers.create_domain(&[worker], &[], soon()).unwrap_err(), expected.into());
    }
    let empty = workers.create_domain(&[chip0], &[], soon()).unwrap_err();
    assert_eq!(reported(empty.error), Code::NbytesZero);
    let shape = workers.alloc_child(chip0, &[0], DType::Int8, soon()).unwrap_err();
    assert_eq!(shape.code(), Code::ShapeZero);
}

fn missing() {
    let files = open_files();
    let endpoint = Endpoint::new().unwrap();
    let none = WorkerKind::Device(DeviceKind::Qemu(QemuOptions::with_firmware("/nowhere/firmware".into())));
    let specs = [chip("chip0", MIB, true), spec("chip1", none)];
    let error = Workers::spawn(&endpoint, &specs, &TestKernels, WaitPolicy::default()).unwrap_err();
    let SpawnError::Leaf { worker, failure } = &error else { panic!("{error:?}") };
    assert_eq!((worker.as_str(), failure.code), ("chip1", Code::DeviceMissing));
    assert!(error.to_string().starts_with("worker chip1: firmware /nowhere/firmware: "), "{error}");
    assert_eq!(open_files(), files);
}

fn forked() {
    let options = SimulatedChipOptions { device_id: 0, nbytes: MIB, reaches_host_memory: false };
    let device = SimulatedChip::new(&StandardKernels, options).unwrap();
    let mut owner = Chip::new(&device, 0).unwrap();
    let buffer = owner.allocate(|memory| memory.malloc(5000, Access::ReadWrite)).unwrap();
    owner.memory().copy_to(buffer.identity(), 0, &[7; 5000]).unwrap();
    let part = WindowPart { nbytes: 16, access: Access::ReadWrite };
    let window = owner.allocate(|memory| memory.create_window(&[part])).unwrap();
    owner.memory().copy_to(window[0].identity(), 0, &[8; 16]).unwrap();
    let mut owner = Some(owner);
    let child = fork(|| {
        let mut copy = owner.take().unwrap();
        let refused = copy.free(buffer.identity()).unwrap_err();
        let made = copy.allocate(|memory| memory.malloc(16, Access::Read)).unwrap_err();
        drop(copy);
        i32::from((refused.code(), made.code()) != (Code::Forked, Code::Forked))
    });
    let child = child.unwrap();
    let mut ending = None;
    comes_true("the fork", || {
        ending = child.ended().unwrap();
        ending.is_some()
    });
    assert_eq!(ending, Some(Ending::Exited { status: 0 }));
    let owner = owner.unwrap();
    let mut found = [0; 5000];
    owner.memory().copy_from(buffer.identity(), 0, &mut found).unwrap();
    assert_eq!(found, [7; 5000]);
    owner.memory().copy_from(window[0].identity(), 0, &mut found[..16]).unwrap();
    assert_eq!(found[..16], [8; 16]);
}
