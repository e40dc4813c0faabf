//! Shared memory across forks, threads and full file systems.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use bufabi_core::queue::{Kind, L3End, QueueLayout};
use bufabi_core::wire::body::Body;
use bufabi_core::{Access, Code, Descriptor};
use bufabi_host::consumer::{Consumer, Resolution};
use bufabi_host::owner::{Buffer, CreateError, Endpoint};
use bufabi_host::region::{ProvidedRegion, SleepingClock};
use bufabi_host::shm::ShmError;
use bufabi_host::sys::fault::survive_shrinking_objects;
use bufabi_host::sys::process::{Ending, Process, fork};

use crate::Case;
use crate::support::{comes_true, is_running, load, own_objects, shared_mappings, store};

pub(crate) const CASES: &[Case] = &[
    ("a_forks_drop_neither_unlinks_nor_unmaps", forks_drop),
    ("a_fork_can_neither_make_nor_release_its_parents_buffers", fork_is_no_owner),
    ("a_bus_error_that_is_not_ours_ends_the_process_as_before", foreign_bus_error),
    ("an_object_that_shrinks_under_its_importer_reads_as_zeros_and_is_on_record", shrunk_here),
    ("a_queue_whose_memory_shrinks_says_so_instead_of_full_or_empty", shrunk_queue),
    ("eight_threads_that_import_at_once_map_once", map_once),
    ("a_full_file_system_is_its_own_error_and_leaves_nothing", full),
    ("an_object_that_this_process_may_not_open_is_its_own_error_and_stays", not_permitted),
    ("a_killed_owners_objects_are_swept_and_nobody_elses", swept),
];

fn path(descriptor: &Descriptor) -> String {
    let Body::PosixShm { name } = descriptor.body() else { panic!("{descriptor:?}") };
    format!("/dev/shm/{name}")
}

fn succeeds(child: impl FnOnce() -> i32) {
    let child = fork(child).unwrap();
    comes_true("the fork's end", || !is_running(child.pid()));
    assert_eq!(child.ended(), Ok(Some(Ending::Exited { status: 0 })));
}

fn forks_drop() {
    let endpoint = Endpoint::new().unwrap();
    let mut buffer = Some(endpoint.create_buffer(16, Access::ReadWrite).unwrap());
    let path = buffer.as_ref().map(|buffer| path(&buffer.descriptor().unwrap())).unwrap();
    store(buffer.as_ref().unwrap(), &[1, 2, 3, 4]);
    let mappings = shared_mappings();
    let taken = &mut buffer;
    succeeds(|| {
        drop(taken.take());
        assert_eq!(shared_mappings(), mappings);
        0
    });
    assert!(Path::new(&path).exists());
    assert_eq!(load(buffer.as_ref().unwrap()), [1, 2, 3, 4]);
    drop(buffer);
    assert!(!Path::new(&path).exists());
}

fn fork_is_no_owner() {
    let endpoint = Endpoint::new().unwrap();
    let mut buffer: Buffer = endpoint.create_buffer(16, Access::ReadWrite).unwrap();
    let (inner, owner) = (&mut buffer, &endpoint);
    succeeds(|| {
        assert_eq!(inner.release().unwrap_err().code(), Code::Forked);
        assert_eq!(owner.create_buffer(1, Access::Read).unwrap_err().code(), Code::Forked);
        0
    });
    assert_eq!(buffer.release(), Ok(()));
}

fn foreign_bus_error() {
    let child = fork(|| {
        survive_shrinking_objects().unwrap();
        // Before, Rust's own handler was there: it takes the first as a sign to stand aside.
        Process::current().unwrap().send(SIGBUS).unwrap();
        Process::current().unwrap().send(SIGBUS).unwrap();
        0
    })
    .unwrap();
    comes_true("its end", || !is_running(child.pid()));
    assert_eq!(child.ended(), Ok(Some(Ending::Killed { signal: SIGBUS })));
}

/// Its number on Linux.
const SIGBUS: i32 = 7;

fn shrunk_here() {
    succeeds(|| {
        survive_shrinking_objects().unwrap();
        let owner = Endpoint::new().unwrap();
        let buffer = owner.create_buffer(8192, Access::ReadWrite).unwrap();
        let descriptor = buffer.descriptor().unwrap();
        store(&buffer, &[7; 2048]);
        let consumer = Consumer::new(None).unwrap();
        let import = consumer.import(&descriptor).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(path(&descriptor)).unwrap();
        file.set_len(4096).unwrap();
        let mut bytes = [0xff; 8192];
        import.read(0, &mut bytes).unwrap();
        assert_eq!((bytes[4095] | bytes[4092], &bytes[4096..]), (7, &[0; 4096][..]));
        assert!(import.is_damaged());
        assert_eq!(consumer.import(&descriptor).unwrap_err().code(), Code::BackingShrank);
        0
    });
}

fn shrunk_queue() {
    succeeds(|| {
        survive_shrinking_objects().unwrap();
        let owner = Endpoint::new().unwrap();
        let layout = QueueLayout::new(4, 128, 128).unwrap();
        let region = ProvidedRegion::create(&owner, layout.payload_bytes(), layout.counter_bytes()).unwrap();
        let memory = region.memory().unwrap();
        let mut clock = SleepingClock::new(&memory).unwrap();
        let mut end = L3End::new(layout, memory, [0; 4]).unwrap();
        for descriptor in region.descriptors().unwrap() {
            let file = std::fs::OpenOptions::new().write(true).open(path(&descriptor)).unwrap();
            file.set_len(0).unwrap();
        }
        let limit = Duration::from_secs(20);
        let shrank = Code::BackingShrank;
        assert_eq!(end.peek(limit, &mut clock).unwrap_err().code(), shrank);
        assert_eq!(end.try_peek().unwrap_err().code(), shrank);
        assert_eq!(end.enqueue(Kind::Data, &[], limit, &mut clock).unwrap_err().code(), shrank);
        assert_eq!(end.try_enqueue(Kind::Data, &[]).unwrap_err().code(), shrank);
        assert_eq!(end.poison(), None);
        0
    });
}

fn map_once() {
    const THREADS: usize = 8;
    let owner = Endpoint::new().unwrap();
    let buffers: Vec<_> = (0..64).map(|_| owner.create_buffer(4096, Access::Read).unwrap()).collect();
    let descriptors: Vec<_> = buffers.iter().map(|buffer| buffer.descriptor().unwrap()).collect();
    let consumer = Consumer::new(None).unwrap();
    let barrier = Barrier::new(THREADS);
    let first = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    let mut first = 0;
                    for descriptor in &descriptors {
                        barrier.wait();
                        let import = consumer.import(descriptor).unwrap();
                        first += usize::from(import.resolution() == Resolution::MappedNow);
                        assert_eq!(consumer.import(descriptor).unwrap().address(), import.address());
                    }
                    first
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
    });
    let counters = consumer.counters();
    assert_eq!((first, counters.live, counters.imports), (64, 64, 64));
    assert_eq!(counters.hits, 64 * 15);
    assert_eq!(consumer.close(), Ok(()));
    // The owner's own are left.
    assert_eq!(shared_mappings(), 64);
}

/// Runs this very case again, in a mount namespace of its own with a small file system of shared memory.
fn full() {
    const INSIDE: &str = "BUFABI_TEST_SMALL_SHM";
    if std::env::var_os(INSIDE).is_none() {
        let program = std::env::current_exe().unwrap();
        let script = "mount -t tmpfs -o size=256k tmpfs /dev/shm && exec \"$0\"";
        let unshare = ["--mount", "--map-root-user", "sh", "-c", script];
        let status =
            Command::new("unshare").args(unshare).arg(program).env(INSIDE, "1").stdin(Stdio::null()).status();
        assert!(status.unwrap().success());
        return;
    }
    let endpoint = Endpoint::new().unwrap();
    let refused = endpoint.create_buffer(1 << 20, Access::ReadWrite).unwrap_err();
    assert_eq!(refused, CreateError::Shm(ShmError::NoSpace { nbytes: 1 << 20, available: Some(1 << 18) }));
    assert_eq!(refused.code(), Code::NoSpace);
    assert!(own_objects().is_empty());
    let half = endpoint.create_buffer(1 << 17, Access::ReadWrite).unwrap();
    assert_eq!(endpoint.create_buffer(1 << 18, Access::ReadWrite).unwrap_err().code(), Code::NoSpace);
    assert_eq!(own_objects().len(), 1);
    store(&half, &[1; 1 << 15]);
}

/// Runs this very case again without the right to open whatever it likes, if it has that: an object that its owner closes to
/// everybody is then as somebody else's.
fn not_permitted() {
    const INSIDE: &str = "BUFABI_TEST_NO_OVERRIDE";
    let is_root = std::fs::read_to_string("/proc/self/status").unwrap().contains("\nUid:\t0\t0");
    if is_root && std::env::var_os(INSIDE).is_none() {
        let program = std::env::current_exe().unwrap();
        let without = "--bounding-set=-dac_override,-dac_read_search";
        let status =
            Command::new("setpriv").arg(without).arg(program).env(INSIDE, "1").stdin(Stdio::null()).status();
        assert!(status.unwrap().success());
        return;
    }
    let endpoint = Endpoint::new().unwrap();
    let mut buffer = endpoint.create_buffer(16, Access::ReadWrite).unwrap();
    let descriptor = buffer.descriptor().unwrap();
    let closed = std::os::unix::fs::PermissionsExt::from_mode(0o0);
    std::fs::set_permissions(path(&descriptor), closed).unwrap();
    let consumer = Consumer::new(None).unwrap();
    let refused = consumer.import(&descriptor).unwrap_err();
    assert_eq!(refused.code(), Code::NotPermitted, "{refused}");
    assert_eq!(consumer.counters().live, 0);
    // Its owner has it mapped, and is not kept from letting go of it.
    store(&buffer, &[1, 2, 3, 4]);
    assert_eq!(load(&buffer), [1, 2, 3, 4]);
    assert_eq!(buffer.release(), Ok(()));
    assert!(own_objects().is_empty());
}

fn swept() {
    let endpoint = Endpoint::new().unwrap();
    let kept = endpoint.create_buffer(16, Access::ReadWrite).unwrap();
    let owner = fork(|| {
        let endpoint = Endpoint::new().unwrap();
        let buffer = endpoint.create_buffer(16, Access::ReadWrite).unwrap();
        store(&kept, &[1]);
        loop {
            thread::sleep(Duration::from_secs(3600));
            assert!(buffer.mapping().is_some());
        }
    })
    .unwrap();
    comes_true("the owner's start", || load::<1>(&kept) == [1]);
    let of = |pid: i32| {
        let entries = bufabi_host::shm::sweep::list().unwrap().objects;
        entries
            .into_iter()
            .filter(move |entry| entry.name.maker.pid == pid.unsigned_abs())
            .collect::<Vec<_>>()
    };
    let [alive] = of(owner.pid())[..] else { panic!("one object was expected") };
    assert_eq!(alive.sweep(), Ok(false));
    owner.send(9).unwrap();
    comes_true("the owner's end", || !is_running(owner.pid()));
    let [orphan] = of(owner.pid())[..] else { panic!("one object was expected") };
    assert_eq!(orphan.sweep(), Ok(true));
    assert!(of(owner.pid()).is_empty());
    assert_eq!(own_objects().len(), 1);
    assert_eq!(owner.ended(), Ok(Some(Ending::Killed { signal: 9 })));
}
