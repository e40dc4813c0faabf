//! Tests of an importer whose owner's broker lies, is silent, or sends something else, and of a broker whose clients do.

use core::num::{NonZeroU32, NonZeroU64};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bufabi_core::{Access, Code, Descriptor, Identity, OwnerInstanceId};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

use super::protocol::{RawReply, RawRequest, Refusal, address};
use super::{Broker, BrokerError, GRANULARITY, MemfdDriver, MemfdOptions};
use crate::sys::memfd::{self, Pages, Seals};
use crate::sys::random::random_bytes;
use crate::sys::testing::{mappings, open_files};
use crate::sys::{OsError, socket};
use crate::vmm::{
    Admission, AllocationRequest, Claim, ImportedMapping, ReplyFault, Shareable, SharedAllocation, VmmDriver,
    VmmError,
};

const PATIENCE: Duration = Duration::from_millis(500);

fn owner() -> OwnerInstanceId {
    OwnerInstanceId(random_bytes().unwrap())
}

fn driver(owner: OwnerInstanceId) -> Arc<MemfdDriver> {
    let options = MemfdOptions { patience: PATIENCE, ..MemfdOptions::default() };
    Arc::new(MemfdDriver::new(owner, 0, options))
}

/// Another test's fork keeps what was open here for a moment, an address that was let go above all.
fn eventually(holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(10), "it never came true");
    }
}

/// A broker's address, in this test's hands.
fn listen(owner: OwnerInstanceId) -> OwnedFd {
    let begin = Instant::now();
    loop {
        match socket::listen(&address(owner), 4) {
            Ok(listener) => return listener,
            Err(error) => assert!(begin.elapsed() < Duration::from_secs(10), "{error}"),
        }
    }
}

fn shareable(owner: OwnerInstanceId) -> Shareable {
    Shareable {
        identity: Identity::new(owner, 4, NonZeroU32::new(2).unwrap()),
        access: Access::ReadWrite,
        nbytes: 5000,
        device_id: 0,
        handle: NonZeroU64::new(77 << 32).unwrap(),
        mapping_bytes: GRANULARITY.get(),
    }
}

fn import(shareable: &Shareable) -> Result<(), VmmError> {
    let descriptor = shareable.descriptor(0).unwrap();
    ImportedMapping::import(&driver(owner()), &descriptor).map(|_| ())
}

/// Memory with a name by which leaks of it can be counted.
fn memory(name: &str, nbytes: u64, seals: Option<Seals>) -> OwnedFd {
    let file = memfd::create(&CString::new(name).unwrap(), Pages::Ordinary).unwrap();
    memfd::reserve(file.as_fd(), nbytes).unwrap();
    if let Some(seals) = seals {
        memfd::seal(file.as_fd(), seals).unwrap();
    }
    file
}

/// What an import says to a broker that answers any request with those bytes, or closes when there are none.
fn import_from(answer: &[u8], file: Option<&OwnedFd>, claim: &Shareable) -> Result<(), VmmError> {
    let listener = listen(claim.identity.owner_instance_id());
    std::thread::scope(|scope| {
        let client = scope.spawn(|| import(claim));
        while !client.is_finished() {
            let soon = Instant::now().checked_add(Duration::from_millis(5)).unwrap();
            if !socket::wait(listener.as_fd(), None, soon).unwrap().socket {
                continue;
            }
            let connection = socket::accept(listener.as_fd()).unwrap().unwrap();
            let much_later = Instant::now().checked_add(PATIENCE).unwrap();
            socket::wait(connection.as_fd(), None, much_later).unwrap();
            let mut request = [0; RawRequest::SIZE];
            let received = socket::receive(connection.as_fd(), &mut request).unwrap().unwrap();
            assert_eq!(received.length, RawRequest::SIZE);
            assert_eq!(RawRequest::decode(&request), Some(claim.handle.get()));
            if !answer.is_empty() {
                socket::send(connection.as_fd(), answer, file.map(AsFd::as_fd)).unwrap();
            }
        }
        client.join().unwrap()
    })
}

#[test]
fn every_lie_is_its_own_error_and_nothing_stays_open() {
    let claim = shareable(owner());
    let name = format!("lie-{}", claim.identity.owner_instance_id());
    let large = GRANULARITY.get();
    let good = memory(&name, large, Some(Seals::SIZE));
    let small = memory(&name, large - 4096, Some(Seals::SIZE));
    let unsealed = memory(&name, large, None);
    let path = std::env::temp_dir().join(&name);
    let on_disk = File::create(&path).unwrap();
    on_disk.set_len(large).unwrap();
    std::fs::remove_file(&path).unwrap();
    let on_disk = OwnedFd::from(on_disk);
    let (pipe, _other_end) = std::io::pipe().unwrap();
    let pipe = OwnedFd::from(pipe);
    let folder = OwnedFd::from(File::open("/").unwrap());

    let reply = RawReply::consent(&claim);
    let stale = Shareable {
        identity: Identity::new(claim.identity.owner_instance_id(), 4, NonZeroU32::new(3).unwrap()),
        ..claim
    };
    let mismatch = |field, claimed, found| Err(VmmError::Mismatch { field, claimed, found });
    let broken = |fault| Err(VmmError::ReplyBroken(fault));
    let consent = reply.as_bytes();
    let mut long = consent.to_vec();
    long.push(0);
    let mut no_status = consent.to_vec();
    no_status[8..12].copy_from_slice(U32::new(9).as_bytes());
    let mut no_magic = consent.to_vec();
    no_magic[0] = b'B';
    let refusal = |refusal| RawReply::refusal(refusal).as_bytes().to_vec();
    let handle = claim.handle;
    let memory_bytes = |found| mismatch(Claim::MemoryBytes, large, found);
    type Row<'a> = (&'a str, Vec<u8>, Option<&'a OwnedFd>, Result<(), VmmError>);
    let rows: Vec<Row<'_>> = vec![
        ("all is well", consent.to_vec(), Some(&good), Ok(())),
        ("closed", Vec::new(), None, broken(ReplyFault::Closed)),
        ("short", consent[..71].to_vec(), Some(&good), broken(ReplyFault::Length { found: 71 })),
        ("long", long, Some(&good), broken(ReplyFault::Length { found: 73 })),
        ("no answer at all", no_magic, Some(&good), broken(ReplyFault::Magic)),
        ("no such status", no_status, Some(&good), broken(ReplyFault::Status { found: 9 })),
        ("no file", consent.to_vec(), None, Err(VmmError::FileMissing)),
        ("unknown", refusal(Refusal::HandleUnknown), None, Err(VmmError::HandleUnknown { handle })),
        ("not permitted", refusal(Refusal::NotPermitted), None, Err(VmmError::NotPermitted { handle })),
        ("calls it broken", refusal(Refusal::RequestBroken), None, broken(ReplyFault::CallsRequestBroken)),
        (
            "a refusal with a file",
            refusal(Refusal::NotPermitted),
            Some(&good),
            broken(ReplyFault::TooManyFiles),
        ),
        (
            "another generation",
            RawReply::consent(&stale).as_bytes().to_vec(),
            Some(&good),
            mismatch(Claim::Generation, 2, 3),
        ),
        (
            "less access",
            RawReply::consent(&Shareable { access: Access::Read, ..claim }).as_bytes().to_vec(),
            Some(&good),
            mismatch(Claim::Access, 2, 0),
        ),
        ("a smaller file", consent.to_vec(), Some(&small), memory_bytes(large - 4096)),
        ("a pipe", consent.to_vec(), Some(&pipe), Err(VmmError::NotSealed)),
        ("a folder", consent.to_vec(), Some(&folder), Err(VmmError::NotSealed)),
        ("a file that can shrink", consent.to_vec(), Some(&unsealed), Err(VmmError::NotSealed)),
        ("a file on a disk", consent.to_vec(), Some(&on_disk), Err(VmmError::NotSealed)),
    ];
    for (what, answer, file, expected) in &rows {
        assert_eq!(&import_from(answer, *file, &claim), expected, "{what}");
        assert_eq!(open_files(&name), 4, "{what}: only the test's own files are open");
        assert_eq!(mappings(&name), 0, "{what}");
    }
}

#[test]
fn a_silent_broker_costs_no_more_than_the_patience() {
    let claim = shareable(owner());
    let claimed_owner = claim.identity.owner_instance_id();
    let timed_out = Err(VmmError::TimedOut { owner: claimed_owner, milliseconds: 500 });
    // The kernel lets the first two in, and makes the third one wait.
    let listener = socket::listen(&address(claimed_owner), 1).unwrap();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let begin = Instant::now();
                    (import(&claim), begin.elapsed())
                })
            })
            .collect();
        for client in clients {
            let (result, elapsed) = client.join().unwrap();
            assert_eq!(result, timed_out);
            assert!(elapsed >= PATIENCE && elapsed < PATIENCE * 4, "{elapsed:?}");
        }
    });
    drop(listener);
    eventually(|| import(&claim) == Err(VmmError::OwnerGone { owner: claimed_owner }));
}

#[test]
fn another_user_at_the_owners_address_is_refused() {
    let claim = shareable(owner());
    let _listener = socket::listen(&address(claim.identity.owner_instance_id()), 4).unwrap();
    let here = socket::current_user();
    let options = MemfdOptions { owner_user: here ^ 1, ..MemfdOptions::default() };
    let driver = Arc::new(MemfdDriver::new(owner(), 0, options));
    let refused = ImportedMapping::import(&driver, &claim.descriptor(0).unwrap()).unwrap_err();
    assert_eq!(refused, VmmError::BrokerForeign { expected: here ^ 1, found: here });
    assert_eq!(refused.code(), Code::VmmBrokerForeign);
}

#[test]
fn what_can_be_refused_without_asking_is() {
    let own = owner();
    let driver = driver(own);
    let identity = shareable(own).identity;
    let refused = |shareable: Shareable| {
        let descriptor = shareable.descriptor(0).unwrap();
        ImportedMapping::import(&driver, &descriptor).map(|_| ()).unwrap_err()
    };
    assert_eq!(refused(shareable(own)), VmmError::OwnHandle { identity });
    let other = shareable(owner());
    assert_eq!(
        refused(Shareable { mapping_bytes: 5000, ..other }),
        VmmError::NotGranular { mapping_bytes: 5000, granularity: GRANULARITY }
    );
    let huge = Shareable { mapping_bytes: u64::MAX, ..other };
    assert_eq!(refused(huge), VmmError::NbytesTooLarge { nbytes: u64::MAX });
    assert_eq!(refused(Shareable { device_id: -1, ..other }), VmmError::DeviceUnknown { device_id: -1 });
    let name = bufabi_core::wire::body::ShmName::new("x").unwrap();
    let fields = bufabi_core::wire::descriptor::DescriptorFields {
        body: bufabi_core::wire::body::Body::PosixShm { name },
        ..other.descriptor(0).unwrap().fields()
    };
    let refused = ImportedMapping::import(&driver, &Descriptor::new(&fields).unwrap()).unwrap_err();
    assert_eq!(refused.code(), Code::VmmNotShareable);
}

/// A broker in this test's hands, and a handle that anyone may import.
fn served() -> (Broker, SharedAllocation<MemfdDriver>) {
    let driver = driver(owner());
    let identity = Identity::new(driver.owner_instance_id(), 1, NonZeroU32::MIN);
    let (access, admission) = (Access::ReadWrite, Admission::Anyone);
    let request = AllocationRequest { identity, nbytes: 5000, access, admission };
    (Broker::new(&driver).unwrap(), SharedAllocation::new(&driver, &request).unwrap())
}

fn connect(allocation: &SharedAllocation<MemfdDriver>) -> OwnedFd {
    let soon = Instant::now().checked_add(Duration::from_secs(5)).unwrap();
    socket::connect(&address(allocation.shareable().identity.owner_instance_id()), soon).unwrap()
}

fn reply_of(connection: &OwnedFd) -> Option<(Vec<u8>, bool)> {
    let mut bytes = [0; 100];
    let received = socket::receive(connection.as_fd(), &mut bytes).ok()??;
    Some((bytes[..received.length].to_vec(), received.fd.is_some()))
}

#[test]
fn silent_clients_only_take_places_and_the_oldest_goes_first() {
    let (mut broker, allocation) = served();
    let mut silent: Vec<_> = Vec::new();
    for _ in 0..200 {
        silent.push(connect(&allocation));
        if silent.len().is_multiple_of(50) {
            while socket::wait(broker.fd(), None, Instant::now()).unwrap().socket {
                broker.serve_ready().unwrap();
            }
        }
    }
    let asking = connect(&allocation);
    let request = RawRequest::new(allocation.shareable().handle);
    socket::send(asking.as_fd(), request.as_bytes(), None).unwrap();
    let served = broker.serve_ready().unwrap();
    assert_eq!((served.consents, served.refusals), (1, 0));
    assert!(matches!(reply_of(&asking), Some((bytes, true)) if bytes.len() == RawReply::SIZE));
    // 64 places, and 200 that wanted one: those that came first were closed.
    let closed: Vec<_> =
        silent.iter().map(|connection| reply_of(connection) == Some((Vec::new(), false))).collect();
    assert_eq!(closed.iter().filter(|closed| **closed).count(), 200 - 64);
    assert!(closed.is_sorted_by(|before, after| before >= after), "the oldest ones");
    // Those that kept their places are answered as soon as they ask.
    for connection in &silent[136..] {
        socket::send(connection.as_fd(), request.as_bytes(), None).unwrap();
    }
    let mut consents = 0;
    while socket::wait(broker.fd(), None, Instant::now()).unwrap().socket {
        consents += broker.serve_ready().unwrap().consents;
    }
    assert_eq!(consents, 64);
}

#[test]
fn a_broken_request_is_refused_and_its_files_are_closed() {
    let (mut broker, allocation) = served();
    let name = format!("gift-{}", allocation.shareable().identity.owner_instance_id());
    let gift = memory(&name, 4096, None);
    let request = RawRequest::new(allocation.shareable().handle);
    let mut long = request.as_bytes().to_vec();
    long.push(0);
    let expected = RawReply::refusal(Refusal::RequestBroken).as_bytes().to_vec();
    for (bytes, file) in [
        (b"?".to_vec(), None),
        (request.as_bytes()[..15].to_vec(), None),
        (long, None),
        (vec![0; 5000], None),
        (request.as_bytes().to_vec(), Some(gift.as_fd())),
    ] {
        let connection = connect(&allocation);
        socket::send(connection.as_fd(), &bytes, file).unwrap();
        let served = broker.serve_ready().unwrap();
        assert_eq!((served.consents, served.refusals, served.dropped), (0, 1, 0));
        assert_eq!(reply_of(&connection), Some((expected.clone(), false)));
    }
    assert_eq!(open_files(&name), 1);
    // One that asks and is gone before it is answered costs nothing either.
    let connection = connect(&allocation);
    socket::send(connection.as_fd(), request.as_bytes(), None).unwrap();
    drop(connection);
    broker.serve_ready().unwrap();
    assert!(!socket::wait(broker.fd(), None, Instant::now()).unwrap().socket, "nothing is left to do");
}

#[test]
fn an_address_is_taken_once() {
    let driver = driver(owner());
    let broker = Broker::new(&driver).unwrap();
    let error = Broker::new(&driver).unwrap_err();
    assert_eq!((error, error.code()), (BrokerError::AddressTaken, Code::VmmAddressTaken));
    drop(broker);
    eventually(|| Broker::new(&driver).is_ok());
    let long = socket::listen(&[b'x'; socket::NAME_CAPACITY + 1], 1).unwrap_err();
    assert_eq!(long, OsError { call: "bind", errno: libc::ENAMETOOLONG });
    drop(socket::listen(&[b'x'; socket::NAME_CAPACITY], 1).unwrap());
}
