//! What a device owns, for C: the one allocator of its identities, and a number for each that is live.

use core::ffi::c_void;

use bufabi_core::owner_table::OwnerSlot;
use bufabi_core::wire::identity::RawIdentity;
use bufabi_core::{Code, Identity, OwnerInstanceId};
use static_assertions::const_assert;

use super::{Kind, Lent, State, Table, count, of_identity, release, with};
use crate::argument::{Span, apart};
use crate::boundary::{answer, noted};
use crate::parameter::{Out, given};
use crate::status::Status;

/// A table of what one incarnation of an owner has given out, in storage that was lent for it.
pub struct OwnerTable(bufabi_core::OwnerTable<u64, &'static mut [OwnerSlot<u64>]>);

impl Table for OwnerTable {
    const KIND: Kind = Kind::Owner;

    fn count(&self) -> (u32, u32) {
        (self.0.len(), self.0.capacity())
    }
}

/// Bytes of storage that a table of an owner takes by itself.
pub const OWNER_TABLE_BASE: usize = 128;
/// Bytes of storage that it takes for each identity which can be live at a time.
pub const OWNER_TABLE_PER_SLOT: usize = 32;

const_assert!(size_of::<State<OwnerTable>>() <= OWNER_TABLE_BASE);
const_assert!(size_of::<OwnerSlot<u64>>() <= OWNER_TABLE_PER_SLOT);
const_assert!(OWNER_TABLE_BASE.is_multiple_of(align_of::<OwnerSlot<u64>>()));

/// Makes a table in the `nbytes` bytes at `storage`, aligned to `BUFABI_TABLE_ALIGNMENT`: as many identities can be live as there is
/// room for, `BUFABI_OWNER_TABLE_BASE` bytes and `BUFABI_OWNER_TABLE_PER_SLOT` for each. `owner_instance_id` are the 8 bytes that name
/// this incarnation: drawn at random at each start, and never used twice. `*table` names it from now on.
///
/// The storage is the library's until `bufabi_owner_table_release`, or for ever; it does not move.
///
/// # Safety
/// `storage` points to `nbytes` bytes that may be written and are used for nothing else; `owner_instance_id` to 8 readable bytes;
/// `table` to a pointer that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_owner_table_create(
    storage: *mut c_void,
    nbytes: usize,
    owner_instance_id: *const [u8; 8],
    table: *mut *mut OwnerTable,
) -> Status {
    answer("owner_table_create", || {
        let lent = Lent::check(storage.cast(), nbytes, OWNER_TABLE_BASE, OWNER_TABLE_PER_SLOT)?;
        // SAFETY: the caller's promise above.
        let id = *unsafe { given(owner_instance_id) }?;
        apart(&[lent.span, Span::of(owner_instance_id)?, Span::of(table)?])?;
        // SAFETY: the storage is lent: the caller's promise. The slots follow the base, aligned, and were counted to fit.
        let slots = unsafe { lent.fill(OWNER_TABLE_BASE, lent.slots, || OwnerSlot::EMPTY) };
        let made = OwnerTable(bufabi_core::OwnerTable::new(OwnerInstanceId(id), slots));
        // SAFETY: lent by the caller; `table` is not NULL and aligned: checked by Span. Writable: the caller's promise above.
        unsafe { lent.put(made, table) };
        Ok(())
    })
}

/// Gives out an identity for a value: an address, an index, whatever the firmware finds it by.
///
/// # Safety
/// `table` is what `bufabi_owner_table_create` gave; `identity` points to an identity that may be written. Without the library's
/// feature `lock`, no other call on the table is under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_owner_table_insert(
    table: *mut OwnerTable,
    value: u64,
    identity: *mut RawIdentity,
) -> Status {
    answer("owner_table_insert", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(identity) }?;
        let insert = |table: &mut OwnerTable| table.0.insert(value).map_err(|_| Code::OwnerTableFull);
        // SAFETY: the caller's promise above.
        let found = unsafe { with(table, &[Span::of(identity)?], insert) }?;
        out.set(found.encode());
        Ok(())
    })
}

/// Gives out two identities in one step, the second's `buffer_id` one more than the first's: PAYLOAD and COUNTER of a region. Slots
/// pair up, 1 and 2, 3 and 4 and so on, so that the table can be full for two while one slot is free.
///
/// # Safety
/// As for `bufabi_owner_table_insert`; `values` points to two numbers that nobody writes, `identities` to two identities.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_owner_table_insert_pair(
    table: *mut OwnerTable,
    values: *const [u64; 2],
    identities: *mut [RawIdentity; 2],
) -> Status {
    answer("owner_table_insert_pair", || {
        // SAFETY: the caller's promise above.
        let pair = *unsafe { given(values) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(identities) }?;
        let others = [Span::of(values)?, Span::of(identities)?];
        apart(&others)?;
        let insert = |table: &mut OwnerTable| table.0.insert_pair(pair).map_err(|_| Code::OwnerTableFull);
        // SAFETY: the caller's promise above.
        let found = unsafe { with(table, &others, insert) }?;
        out.set(found.map(Identity::encode));
        Ok(())
    })
}

/// The value of an identity that is live. `other_owner`, `never_existed`, `stale` and `closing` tell why there is none.
///
/// # Safety
/// As for `bufabi_owner_table_insert`; `identity` points to an identity that nobody writes, `value` to a uint64_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_owner_table_get(
    table: *mut OwnerTable,
    identity: *const RawIdentity,
    value: *mut u64,
) -> Status {
    answer("owner_table_get", || {
        // SAFETY: the caller's promise above.
        unsafe {
            of_identity(table, identity, value, |table, identity| {
                table.0.live(identity).copied().map_err(|error| noted(error.code(), &error))
            })
        }
    })
}

/// A submitted task names it once more. `*holds` is how often it is named now.
///
/// # Safety
/// As for `bufabi_owner_table_get`; `holds` points to a uint32_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_owner_table_hold(
    table: *mut OwnerTable,
    identity: *const RawIdentity,
    holds: *mut u32,
) -> Status {
    answer("owner_table_hold", || {
        // SAFETY: the caller's promise above.
        unsafe {
            of_identity(table, identity, holds, |table, identity| {
                table.0.hold(identity).map_err(|error| noted(error.code(), &error))
            })
        }
    })
}

/// A task that named it has finished. `*holds` is how often it is named still.
///
/// # Safety
/// As for `bufabi_owner_table_hold`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_owner_table_unhold(
    table: *mut OwnerTable,
    identity: *const RawIdentity,
    holds: *mut u32,
) -> Status {
    answer("owner_table_unhold", || {
        // SAFETY: the caller's promise above.
        unsafe {
            of_identity(table, identity, holds, |table, identity| {
                table.0.unhold(identity).map_err(|error| noted(error.code(), &error))
            })
        }
    })
}

/// Begins the release of an identity, or goes on with one that has begun: from now on no task can hold it. `busy` while one
/// does, and then nothing has changed. `*value` is what it stands for, to be taken down.
///
/// # Safety
/// As for `bufabi_owner_table_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_owner_table_begin_release(
    table: *mut OwnerTable,
    identity: *const RawIdentity,
    value: *mut u64,
) -> Status {
    answer("owner_table_begin_release", || {
        // SAFETY: the caller's promise above.
        unsafe {
            of_identity(table, identity, value, |table, identity| {
                let value = table.0.begin_release(identity);
                value.map(|value| *value).map_err(|error| noted(error.code(), &error))
            })
        }
    })
}

/// Finishes a release: the identity is stale from now on, and its slot free for the next generation.
///
/// # Safety
/// As for `bufabi_owner_table_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_owner_table_finish_release(
    table: *mut OwnerTable,
    identity: *const RawIdentity,
    value: *mut u64,
) -> Status {
    answer("owner_table_finish_release", || {
        // SAFETY: the caller's promise above.
        unsafe {
            of_identity(table, identity, value, |table, identity| {
                table.0.finish_release(identity).map_err(|error| noted(error.code(), &error))
            })
        }
    })
}

/// How many identities are live or closing, and how many can be.
///
/// # Safety
/// As for `bufabi_owner_table_insert`; `live` and `capacity` each point to a uint32_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_owner_table_count(
    table: *mut OwnerTable,
    live: *mut u32,
    capacity: *mut u32,
) -> Status {
    answer("owner_table_count", || {
        // SAFETY: the caller's promise above.
        unsafe { count(table, live, capacity) }
    })
}

/// Releases the table: its storage is the caller's again. Identities that were live are forgotten, and what they stood for stays.
///
/// # Safety
/// As for `bufabi_owner_table_insert`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_owner_table_release(table: *mut OwnerTable) -> Status {
    answer("owner_table_release", || {
        // SAFETY: the caller's promise above.
        unsafe { release(table) }
    })
}
