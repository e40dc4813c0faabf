//! Tests of sharing within one process, of interruptions, and of forks; what takes several programs is tested with them.

use core::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bufabi_core::wire::descriptor::FieldSet;
use bufabi_core::{Access, Code, Identity, OwnerInstanceId};

use super::{Broker, BrokerError, GRANULARITY, MemfdDriver, MemfdOptions, has_huge_pages};
use crate::sys::memfd::Pages;
use crate::sys::process::{Ending, current_pid};
use crate::sys::random::random_bytes;
use crate::sys::testing::{Interruptions, in_fork, start_fork};
use crate::vmm::{
    Admission, AllocationRequest, Claim, ImportedMapping, Imports, OrderFault, Shareable, SharedAllocation,
    VmmDriver, VmmError,
};

fn driver() -> Arc<MemfdDriver> {
    let options = MemfdOptions { patience: Duration::from_secs(5), ..MemfdOptions::default() };
    Arc::new(MemfdDriver::new(OwnerInstanceId(random_bytes().unwrap()), 0, options))
}

fn request(driver: &MemfdDriver, buffer_id: u64, nbytes: u64) -> AllocationRequest {
    let identity = Identity::new(driver.owner_instance_id(), buffer_id, NonZeroU32::MIN);
    AllocationRequest { identity, nbytes, access: Access::ReadWrite, admission: Admission::Anyone }
}

#[test]
fn eight_threads_import_once_and_the_last_one_unmaps() {
    let owner = driver();
    let _broker = Broker::new(&owner).unwrap().spawn().unwrap();
    let allocations: Vec<_> =
        (1..=4).map(|id| SharedAllocation::new(&owner, &request(&owner, id, 5000)).unwrap()).collect();
    let descriptors: Vec<_> = allocations.iter().map(|one| one.descriptor(0).unwrap()).collect();
    let imports = Imports::new(driver());
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            let (imports, descriptors) = (&imports, &descriptors);
            scope.spawn(move || {
                for round in 0..50_u8 {
                    let index = usize::from(thread.wrapping_add(round) % 4);
                    let import = imports.import(&descriptors[index]).unwrap();
                    assert!(import.users() >= 1);
                    import.copy_to(u64::from(thread), &[round]).unwrap();
                    let mut found = [0];
                    import.copy_from(u64::from(thread), &mut found).unwrap();
                    assert_eq!(found, [round]);
                }
            });
        }
    });
    assert_eq!(imports.count(), 0);
    let first = imports.import(&descriptors[0]).unwrap();
    let second = imports.import(&descriptors[0]).unwrap();
    assert_eq!((first.address(), first.users(), imports.count()), (second.address(), 2, 1));
    let other = Shareable { access: Access::Read, ..*allocations[0].shareable() };
    let differs = imports.import(&other.descriptor(0).unwrap()).unwrap_err();
    assert_eq!(differs, VmmError::DescriptorDiffers { fields: FieldSet::ACCESS });
    let renamed = allocations[0].descriptor(7).unwrap();
    assert!(imports.import(&renamed).is_ok(), "what is for logs gates nothing");
    drop((first, second));
    assert_eq!(imports.count(), 0);
}

#[test]
fn memory_outlives_its_owner_and_a_revoked_handle_only_ends_imports() {
    let owner = driver();
    let broker = Broker::new(&owner).unwrap().spawn().unwrap();
    let importer = driver();
    let mut allocation = SharedAllocation::new(&owner, &request(&owner, 1, 5000)).unwrap();
    let descriptor = allocation.descriptor(0).unwrap();
    let import = ImportedMapping::import(&importer, &descriptor).unwrap();
    allocation.copy_to(4990, b"0123456789").unwrap();
    allocation.revoke().unwrap();
    allocation.revoke().unwrap();
    let handle = allocation.shareable().handle;
    let refused = ImportedMapping::import(&importer, &descriptor).unwrap_err();
    assert_eq!(refused, VmmError::HandleUnknown { handle });
    assert_eq!(allocation.permit(&[1]), Err(VmmError::Order(OrderFault::Revoked)));
    let mut found = [0; 10];
    allocation.copy_from(4990, &mut found).unwrap();
    assert_eq!(&found, b"0123456789", "the owner's mapping stays");
    allocation.release().unwrap();
    allocation.release().unwrap();
    assert_eq!(allocation.address(), Err(VmmError::Order(OrderFault::NotMapped)));
    let mut other = SharedAllocation::new(&owner, &request(&owner, 2, 5000)).unwrap();
    owner.revoke(other.shareable().handle).unwrap();
    other.release().unwrap();
    drop(allocation);
    drop(other);
    drop(broker);
    drop(owner);
    found = [0; 10];
    import.copy_from(4990, &mut found).unwrap();
    assert_eq!(&found, b"0123456789", "the importer's mapping keeps the memory");
    let past = import.copy_from(4991, &mut found);
    assert_eq!(past, Err(VmmError::OutOfRange { offset: 4991, length: 10, nbytes: 5000 }));
}

#[test]
fn the_steps_keep_their_order() {
    let driver = driver();
    let size = GRANULARITY.get();
    let order = |fault| VmmError::Order(fault);
    assert_eq!(
        driver.create_physical(size - 1).unwrap_err(),
        VmmError::NotGranular { mapping_bytes: size - 1, granularity: GRANULARITY }
    );
    let physical = driver.create_physical(size).unwrap();
    let mut range = driver.reserve(size).unwrap();
    assert_eq!(driver.unmap(&mut range), Err(order(OrderFault::NotMapped)));
    assert_eq!(driver.set_access(&mut range, Access::Read), Err(order(OrderFault::NotMapped)));
    assert_eq!(driver.zero(&mut range), Err(order(OrderFault::NotMapped)));
    assert_eq!(driver.copy_to(&range, 0, b"x"), Err(order(OrderFault::NotMapped)));
    driver.map(&mut range, &physical).unwrap();
    assert_eq!(driver.map(&mut range, &physical), Err(order(OrderFault::MappedAlready)));
    assert_eq!(driver.copy_to(&range, 0, b"x"), Err(order(OrderFault::NotMapped)), "nobody may touch it yet");
    driver.set_access(&mut range, Access::ReadWrite).unwrap();
    driver.copy_to(&range, 0, b"x").unwrap();
    let (range, error) = driver.release(range).unwrap_err();
    assert_eq!(error, order(OrderFault::ReleasedWhileMapped));
    let mut larger = driver.reserve(2 * size).unwrap();
    let refused = VmmError::OutOfRange { offset: 0, length: 2 * size, nbytes: size };
    assert_eq!(driver.map(&mut larger, &physical), Err(refused));
    drop(range);
    let exported = driver.export(&physical, &request(&driver, 1, 5000), size).unwrap();
    let again = driver.export(&physical, &request(&driver, 1, 5000), size);
    assert_eq!(again, Err(VmmError::ExportedAlready));
    driver.revoke(exported).unwrap();
    assert_eq!(driver.revoke(exported), Err(VmmError::HandleUnknown { handle: exported }));
}

#[test]
fn what_the_machine_cannot_give_is_refused_at_once() {
    let driver = driver();
    let refused = SharedAllocation::new(&driver, &request(&driver, 1, 1 << 50)).unwrap_err();
    assert!(
        matches!(refused, VmmError::NoMemory { requested, available } if requested == 1 << 50 && available < requested),
        "{refused:?}"
    );
    assert_eq!(refused.code(), Code::NoSpace);
    assert_eq!(SharedAllocation::new(&driver, &request(&driver, 1, 0)).unwrap_err(), VmmError::NbytesZero);
    let foreign = AllocationRequest {
        identity: Identity::new(OwnerInstanceId([0; 8]), 1, NonZeroU32::MIN),
        ..request(&driver, 1, 5000)
    };
    let refused = SharedAllocation::new(&driver, &foreign).unwrap_err();
    assert!(matches!(refused, VmmError::Mismatch { field: Claim::Owner, claimed: 0, .. }), "{refused:?}");
}

#[test]
fn huge_pages_are_used_where_there_are_any() {
    let field = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("HugePages_Free:"))?;
        line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let free = std::fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(field);
    assert_eq!(has_huge_pages(), free.is_some_and(|free| free > 0));
    // Without any, ordinary ones do.
    let options = MemfdOptions { pages: Pages::Huge, ..MemfdOptions::default() };
    let driver = Arc::new(MemfdDriver::new(OwnerInstanceId(random_bytes().unwrap()), 0, options));
    let allocation = SharedAllocation::new(&driver, &request(&driver, 1, 5000)).unwrap();
    allocation.copy_to(0, b"x").unwrap();
}

#[test]
fn interruptions_change_nothing() {
    let owner = driver();
    let _broker = Broker::new(&owner).unwrap().spawn().unwrap();
    let importer = driver();
    let interruptions = Interruptions::begin();
    let mut id = 0;
    while id < 40 || interruptions.count() <= 100 {
        id += 1;
        let allocation = SharedAllocation::new(&owner, &request(&owner, id, 6 << 20)).unwrap();
        let import = ImportedMapping::import(&importer, &allocation.descriptor(0).unwrap()).unwrap();
        allocation.copy_to(id, b"!").unwrap();
        let mut found = [0];
        import.copy_from(id, &mut found).unwrap();
        assert_eq!(&found, b"!");
        assert!(id < 10_000, "only {} came", interruptions.count());
    }
}

#[test]
fn interruptions_do_not_lengthen_a_wait() {
    let claim = Shareable {
        handle: core::num::NonZeroU64::MIN,
        device_id: 0,
        mapping_bytes: GRANULARITY.get(),
        identity: request(&driver(), 1, 1).identity,
        access: Access::Read,
        nbytes: 1,
    };
    let name = super::protocol::address(claim.identity.owner_instance_id());
    let _silent = crate::sys::socket::listen(&name, 4).unwrap();
    let options = MemfdOptions { patience: Duration::from_millis(100), ..MemfdOptions::default() };
    let importer = Arc::new(MemfdDriver::new(OwnerInstanceId(random_bytes().unwrap()), 0, options));
    let _interruptions = Interruptions::begin();
    let begin = std::time::Instant::now();
    let refused = ImportedMapping::import(&importer, &claim.descriptor(0).unwrap()).unwrap_err();
    assert_eq!(refused.code(), Code::TimedOut);
    assert!(begin.elapsed() < Duration::from_millis(400), "{:?}", begin.elapsed());
}

#[test]
fn a_fork_has_neither_the_memory_nor_the_right_to_it() {
    let owner = driver();
    let mut broker = Broker::new(&owner).unwrap();
    let mut slot = Some(SharedAllocation::new(&owner, &request(&owner, 1, 5000)).unwrap());
    let address = slot.as_ref().unwrap().address().unwrap();
    let start = format!("{address:x}-");
    let is_mapped = || std::fs::read_to_string("/proc/self/maps").unwrap().contains(&start);
    assert!(is_mapped());
    let creator = current_pid();
    let ending = in_fork(|| {
        let forked = |error: VmmError| {
            let current = current_pid();
            assert_eq!((error, error.code()), (VmmError::Forked { creator, current }, Code::Forked));
        };
        assert!(!is_mapped());
        let allocation = slot.as_mut().unwrap();
        forked(allocation.address().unwrap_err());
        forked(allocation.copy_to(0, b"lost").unwrap_err());
        forked(allocation.revoke().unwrap_err());
        forked(allocation.release().unwrap_err());
        forked(allocation.permit(&[1]).unwrap_err());
        forked(SharedAllocation::new(&owner, &request(&owner, 2, 5000)).unwrap_err());
        forked(owner.create_physical(GRANULARITY.get()).unwrap_err());
        let current = current_pid();
        let refused = BrokerError::Vmm(VmmError::Forked { creator, current });
        assert_eq!(broker.serve_ready().unwrap_err(), refused);
        // Something else may lie there by now, which dropping must leave alone.
        let taken = vec![1_u8; 1 << 23];
        drop(slot.take());
        assert!(taken.iter().all(|byte| *byte == 1));
        0
    });
    assert_eq!(ending, Ending::Exited { status: 0 });
    // The parent's are as they were.
    let allocation = SharedAllocation::new(&owner, &request(&owner, 3, 5000)).unwrap();
    let descriptor = allocation.descriptor(0).unwrap();
    let broker = broker.spawn().unwrap();
    let import = ImportedMapping::import(&driver(), &descriptor).unwrap();
    drop((import, allocation, broker));
    assert!(is_mapped() && slot.is_some(), "the fork unmapped nothing here");
}

#[test]
fn a_fork_that_outlives_its_owner_keeps_the_name_and_nobody_waits_for_it() {
    let owner = OwnerInstanceId(random_bytes().unwrap());
    let (mut until_done, done) = std::io::pipe().unwrap();
    let mut done = Some(done);
    let ending = in_fork(|| {
        let driver = MemfdDriver::new(owner, 0, MemfdOptions::default());
        let broker = Broker::new(&driver).unwrap();
        start_fork(|| {
            // The test lets go of the other end when it is done.
            drop(done.take());
            let _ = std::io::Read::read(&mut until_done, &mut [0]);
            drop(broker);
            0
        });
        0
    });
    assert_eq!(ending, Ending::Exited { status: 0 });
    let claim = Shareable {
        handle: core::num::NonZeroU64::MIN,
        device_id: 0,
        mapping_bytes: GRANULARITY.get(),
        identity: Identity::new(owner, 1, NonZeroU32::MIN),
        access: Access::Read,
        nbytes: 1,
    };
    let name = super::protocol::address(owner);
    let taken = crate::sys::socket::listen(&name, 1).unwrap_err();
    assert_eq!(taken.errno, libc::EADDRINUSE, "the fork has it");
    let begin = std::time::Instant::now();
    let refused = ImportedMapping::import(&driver(), &claim.descriptor(0).unwrap()).unwrap_err();
    assert_eq!(refused, VmmError::OwnerGone { owner });
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    drop(done);
}
