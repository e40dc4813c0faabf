//! Tables as C uses them, rightly and in every wrong way.

use core::ptr::{null, null_mut};

use bufabi_core::wire::body::Body;
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::wire::identity::RawIdentity;
use bufabi_core::{Access, Code, Descriptor, Identity, OwnerInstanceId, RawDescriptor};
use core::num::{NonZeroU32, NonZeroU64};
use zerocopy::FromZeros;

use super::import::*;
use super::owner::*;

#[repr(C, align(64))]
struct Storage([u8; 4096]);

static OWNER: [u8; 8] = [7; 8];

fn owner_table(storage: &mut Storage, slots: usize) -> *mut OwnerTable {
    let mut table = null_mut();
    let nbytes = OWNER_TABLE_BASE + OWNER_TABLE_PER_SLOT * slots;
    let storage = (&raw mut *storage).cast();
    // SAFETY: the storage is as large as said, for every test of this file, and the rest are locals.
    let status = unsafe { bufabi_owner_table_create(storage, nbytes, &raw const OWNER, &raw mut table) };
    assert_eq!(status, 0);
    table
}

fn import_table(storage: &mut Storage, slots: usize) -> *mut ImportTable {
    let mut table = null_mut();
    let nbytes = IMPORT_TABLE_BASE + IMPORT_TABLE_PER_SLOT * slots;
    let storage = (&raw mut *storage).cast();
    // SAFETY: as above.
    let status = unsafe { bufabi_import_table_create(storage, nbytes, &[1, 2], &raw mut table) };
    assert_eq!(status, 0);
    table
}

fn descriptor(buffer_id: u64, nbytes: u64) -> RawDescriptor {
    let identity = Identity::new(OwnerInstanceId(OWNER), buffer_id, NonZeroU32::MIN);
    let body = Body::DeviceMalloc { base: NonZeroU64::MIN };
    let fields = DescriptorFields { identity, access: Access::Read, nbytes, owner_worker_path_id: 0, body };
    *Descriptor::new(&fields).unwrap().raw()
}

fn identity(buffer_id: u64) -> RawIdentity {
    Identity::new(OwnerInstanceId(OWNER), buffer_id, NonZeroU32::MIN).encode()
}

#[test]
fn identities_are_given_out_held_released_and_never_come_back() {
    let mut storage = Storage([0xa5; 4096]);
    let table = owner_table(&mut storage, 2);
    let (mut first, mut second) = (RawIdentity::new_zeroed(), RawIdentity::new_zeroed());
    let (mut value, mut holds) = (0, 0);
    // SAFETY: the table is live where the status says so, and all else are locals.
    unsafe {
        assert_eq!(bufabi_owner_table_insert(table, 11, &raw mut first), 0);
        assert_eq!(bufabi_owner_table_insert(table, 12, &raw mut second), 0);
        let full = bufabi_owner_table_insert(table, 13, &raw mut second);
        assert_eq!(full, Code::OwnerTableFull.number());
        assert_eq!(bufabi_owner_table_get(table, &raw const first, &raw mut value), 0);
        assert_eq!(value, 11);
        assert_eq!(bufabi_owner_table_hold(table, &raw const first, &raw mut holds), 0);
        assert_eq!(holds, 1);
        let busy = bufabi_owner_table_begin_release(table, &raw const first, &raw mut value);
        assert_eq!(busy, Code::Busy.number());
        assert_eq!(bufabi_owner_table_unhold(table, &raw const first, &raw mut holds), 0);
        let idle = bufabi_owner_table_unhold(table, &raw const first, &raw mut holds);
        assert_eq!((holds, idle), (0, Code::NotHeld.number()));
        let early = bufabi_owner_table_finish_release(table, &raw const first, &raw mut value);
        assert_eq!(early, Code::NotClosing.number());
        assert_eq!(bufabi_owner_table_begin_release(table, &raw const first, &raw mut value), 0);
        let closing = bufabi_owner_table_get(table, &raw const first, &raw mut value);
        assert_eq!(closing, Code::Closing.number());
        assert_eq!(bufabi_owner_table_finish_release(table, &raw const first, &raw mut value), 0);
        let stale = bufabi_owner_table_get(table, &raw const first, &raw mut value);
        assert_eq!((value, stale), (11, Code::Stale.number()));
        let zero = RawIdentity::new_zeroed();
        let none = bufabi_owner_table_get(table, &raw const zero, &raw mut value);
        assert_eq!(none, Code::Generation.number());
        let (mut live, mut capacity) = (0, 0);
        assert_eq!(bufabi_owner_table_count(table, &raw mut live, &raw mut capacity), 0);
        assert_eq!((live, capacity), (1, 2));
        let mut pair = [first, first];
        let crowded = bufabi_owner_table_insert_pair(table, &[1, 2], &raw mut pair);
        assert_eq!(crowded, Code::OwnerTableFull.number());
    }
}

#[test]
fn imports_are_found_by_all_that_their_descriptor_says() {
    let mut storage = Storage([0xa5; 4096]);
    let table = import_table(&mut storage, 2);
    let (mut value, mut pins, mut found) = (0, 0, RawIdentity::new_zeroed());
    let [first, second, third] = [1, 2, 3].map(|id| descriptor(id, 64));
    let other = descriptor(1, 65);
    // SAFETY: as above.
    unsafe {
        let missing = bufabi_import_table_find(table, &raw const first, &raw mut value);
        assert_eq!(missing, Code::NotImported.number());
        assert_eq!(bufabi_import_table_insert(table, &raw const first, 21), 0);
        let again = bufabi_import_table_insert(table, &raw const first, 22);
        assert_eq!(again, Code::AlreadyImported.number());
        let conflict = bufabi_import_table_find(table, &raw const other, &raw mut value);
        assert_eq!((value, conflict), (0, Code::ImportConflict.number()));
        assert_eq!(bufabi_import_table_find(table, &raw const first, &raw mut value), 0);
        assert_eq!(value, 21);
        assert_eq!(bufabi_import_table_insert(table, &raw const second, 22), 0);
        let full = bufabi_import_table_insert(table, &raw const third, 23);
        assert_eq!(full, Code::ImportTableFull.number());
        assert_eq!(bufabi_import_table_pin(table, &identity(1), &raw mut pins), 0);
        assert_eq!(pins, 1);
        let alive = bufabi_import_table_remove(table, &identity(1), &raw mut value);
        assert_eq!(alive, Code::ViewsAlive.number());
        assert_eq!(bufabi_import_table_evict(table, &raw mut found, &raw mut value), 0);
        assert_eq!((value, found.decode()), (22, identity(2).decode()));
        let pinned = bufabi_import_table_evict(table, &raw mut found, &raw mut value);
        assert_eq!(pinned, Code::NotImported.number());
        assert_eq!(bufabi_import_table_unpin(table, &identity(1), &raw mut pins), 0);
        let unpinned = bufabi_import_table_unpin(table, &identity(1), &raw mut pins);
        assert_eq!((pins, unpinned), (0, Code::NotPinned.number()));
        assert_eq!(bufabi_import_table_remove(table, &identity(1), &raw mut value), 0);
        let (mut imports, mut capacity) = (9, 0);
        assert_eq!(bufabi_import_table_count(table, &raw mut imports, &raw mut capacity), 0);
        assert_eq!((value, imports, capacity), (21, 0, 2));
    }
}

#[test]
fn storage_of_every_size_holds_what_it_says() {
    let mut storage = Storage([0xa5; 4096]);
    for slots in 1..=24 {
        let table = import_table(&mut storage, slots);
        let (mut imports, mut capacity) = (0, 0);
        for id in 1..=slots {
            let descriptor = descriptor(u64::try_from(id).unwrap(), 8);
            // SAFETY: as above.
            let status = unsafe { bufabi_import_table_insert(table, &raw const descriptor, 0) };
            assert_eq!(status, 0, "{id} of {slots}");
        }
        // SAFETY: as above.
        let status = unsafe { bufabi_import_table_count(table, &raw mut imports, &raw mut capacity) };
        assert_eq!((status, imports, capacity), (0, capacity, u32::try_from(slots).unwrap()));
    }
}

#[test]
fn a_table_that_is_none_any_more_or_of_the_other_kind_gets_a_status() {
    let mut storage = Storage([0; 4096]);
    let (mut value, id) = (0, identity(1));
    let none = (&raw mut storage).cast::<OwnerTable>();
    // SAFETY: storage of all zeros has no mark; what was made and released keeps one.
    unsafe {
        let get = |table| bufabi_owner_table_get(table, &raw const id, &raw mut value);
        let mut get = get;
        assert_eq!(get(none), Code::HandleUnknown.number());
        assert_eq!(get(null_mut()), Code::NullPointer.number());
        assert_eq!(get(none.cast::<u8>().wrapping_add(8).cast()), Code::Misaligned.number());
        let table = owner_table(&mut storage, 1);
        let other = table.cast::<ImportTable>();
        assert_eq!(bufabi_import_table_release(other), Code::HandleKind.number());
        assert_eq!(bufabi_owner_table_release(table), 0);
        assert_eq!(bufabi_owner_table_release(table), Code::HandleReleased.number());
        assert_eq!(get(table), Code::HandleReleased.number());
        let table = import_table(&mut storage, 1);
        assert_eq!(get(table.cast()), Code::HandleKind.number());
    }
}

#[test]
fn each_impossible_argument_has_its_status() {
    let mut storage = Storage([0; 4096]);
    let at = (&raw mut storage).cast::<core::ffi::c_void>();
    let (mut table, mut value, id) = (null_mut(), 0_u64, identity(1));
    // SAFETY: what is not refused are locals and storage of that size.
    unsafe {
        let create = |at, nbytes, id, table| bufabi_owner_table_create(at, nbytes, id, table);
        let own = &raw const OWNER;
        assert_eq!(create(null_mut(), 256, own, &raw mut table), Code::NullPointer.number());
        assert_eq!(create(at.wrapping_byte_add(32), 256, own, &raw mut table), Code::Misaligned.number());
        assert_eq!(create(at, 0, own, &raw mut table), Code::BufferTooSmall.number());
        assert_eq!(create(at, OWNER_TABLE_BASE + 31, own, &raw mut table), Code::BufferTooSmall.number());
        assert_eq!(create(at, usize::MAX, own, &raw mut table), Code::Length.number());
        assert_eq!(create(at, 256, null(), &raw mut table), Code::NullPointer.number());
        assert_eq!(create(at, 256, own, null_mut()), Code::NullPointer.number());
        assert_eq!(create(at, 256, at.cast(), &raw mut table), Code::Overlapping.number());
        assert_eq!(create(at, 256, own, at.cast()), Code::Overlapping.number());
        assert!(table.is_null());
        let table = owner_table(&mut storage, 1);
        let get = |id, value| bufabi_owner_table_get(table, id, value);
        assert_eq!(get(null(), &raw mut value), Code::NullPointer.number());
        assert_eq!(get(&raw const id, null_mut()), Code::NullPointer.number());
        assert_eq!(get(&raw const id, (&raw const id).cast_mut().cast()), Code::Overlapping.number());
        assert_eq!(get(&raw const id, table.cast()), Code::Overlapping.number());
        let mut imports = null_mut();
        let small = bufabi_import_table_create(at, IMPORT_TABLE_BASE, &[0; 2], &raw mut imports);
        assert_eq!(small, Code::BufferTooSmall.number());
        let bad = [0_u8; 88];
        let table = import_table(&mut storage, 1);
        let magic = bufabi_import_table_find(table, bad.as_ptr().cast(), &raw mut value);
        assert_eq!(magic, Code::Magic.number());
    }
}

#[cfg(feature = "lock")]
#[test]
fn several_threads_share_a_table() {
    extern crate std;
    struct Shared(*mut OwnerTable);
    // SAFETY: the feature's locks are what is tried here.
    unsafe impl Sync for Shared {}
    let mut storage = Storage([0; 4096]);
    let table = Shared(owner_table(&mut storage, 64));
    let shared = &table;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for round in 0..500 {
                    let (mut id, mut value) = (RawIdentity::new_zeroed(), 0);
                    let expected = thread * 1000 + round;
                    // SAFETY: the table is live until all threads have ended.
                    unsafe {
                        assert_eq!(bufabi_owner_table_insert(shared.0, expected, &raw mut id), 0);
                        let begun = bufabi_owner_table_begin_release(shared.0, &raw const id, &raw mut value);
                        assert_eq!((begun, value), (0, expected));
                        let done = bufabi_owner_table_finish_release(shared.0, &raw const id, &raw mut value);
                        assert_eq!((done, value), (0, expected));
                    }
                }
            });
        }
    });
}
