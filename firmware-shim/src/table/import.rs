//! What a device has imported, for C: each identity once, with the descriptor that it first came with and a number.

use core::ffi::c_void;

use bufabi_core::import_table::{ImportBucket, ImportSlot, InsertRefusal, Lookup};
use bufabi_core::wire::identity::RawIdentity;
use bufabi_core::{Code, Descriptor, KeyedHash, RawDescriptor};
use static_assertions::const_assert;

use super::{Kind, Lent, State, Table, count, of_identity, release, with};
use crate::argument::{Span, apart};
use crate::boundary::{answer, noted};
use crate::parameter::{Out, given};
use crate::status::Status;

/// A table of imports, in storage that was lent for it.
pub struct ImportTable(Imports);

type Imports = bufabi_core::ImportTable<u64, &'static mut [ImportSlot<u64>], &'static mut [ImportBucket]>;

impl Table for ImportTable {
    const KIND: Kind = Kind::Import;

    fn count(&self) -> (u32, u32) {
        (self.0.len(), self.0.capacity())
    }
}

/// Bytes of storage that a table of imports takes by itself.
pub const IMPORT_TABLE_BASE: usize = 320;
/// Bytes of storage that it takes for each import.
pub const IMPORT_TABLE_PER_SLOT: usize = 152;

/// Where the slots start.
const SLOTS: usize = 256;
const_assert!(size_of::<State<ImportTable>>() <= SLOTS);
const_assert!(SLOTS.is_multiple_of(align_of::<ImportSlot<u64>>()));
const_assert!(size_of::<ImportSlot<u64>>() == 128);
// There are fewer buckets than two for three slots, and one more: 32 bytes each, which is less than 22 for a slot, and 64.
const_assert!(
    size_of::<ImportBucket>() == 32 && IMPORT_TABLE_PER_SLOT >= 128 + 22 && IMPORT_TABLE_BASE >= SLOTS + 64
);

/// Makes a table in the `nbytes` bytes at `storage`, aligned to `BUFABI_TABLE_ALIGNMENT`: it holds as many imports as there is room for,
/// `BUFABI_IMPORT_TABLE_BASE` bytes and `BUFABI_IMPORT_TABLE_PER_SLOT` for each. `seed` are two numbers drawn at random, which
/// nobody outside knows: then nobody who chooses identities can choose where they stand. `*table` names it from now on.
///
/// The storage is the library's until `bufabi_import_table_release`, or for ever; it does not move.
///
/// # Safety
/// `storage` points to `nbytes` bytes that may be written and are used for nothing else; `seed` to two numbers; `table` to a
/// pointer that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_import_table_create(
    storage: *mut c_void,
    nbytes: usize,
    seed: *const [u64; 2],
    table: *mut *mut ImportTable,
) -> Status {
    answer("import_table_create", || {
        let lent = Lent::check(storage.cast(), nbytes, IMPORT_TABLE_BASE, IMPORT_TABLE_PER_SLOT)?;
        // SAFETY: the caller's promise above.
        let hash = KeyedHash::new(*unsafe { given(seed) }?);
        apart(&[lent.span, Span::of(seed)?, Span::of(table)?])?;
        // As many fit as were counted, so nothing wraps.
        let buckets_at = SLOTS.wrapping_add(lent.slots.wrapping_mul(size_of::<ImportSlot<u64>>()));
        // SAFETY: the storage is lent: the caller's promise. The slots start there, aligned, and were counted to fit.
        let slots = unsafe { lent.fill(SLOTS, lent.slots, || ImportSlot::EMPTY) };
        let count = ImportBucket::count_for(lent.slots);
        // SAFETY: as above: so many buckets fit behind the slots, as was asserted, whose end is a multiple of 128.
        let buckets = unsafe { lent.fill(buckets_at, count, || ImportBucket::EMPTY) };
        let made = ImportTable(Imports::new(hash, slots, buckets));
        // SAFETY: lent by the caller; `table` is not NULL and aligned: checked by Span. Writable: the caller's promise above.
        unsafe { lent.put(made, table) };
        Ok(())
    })
}

/// The value that was imported under a descriptor's identity: `not_imported` when none was, `import_conflict` when it was imported
/// with a descriptor that says something else; padding takes no part.
///
/// # Safety
/// `table` is what `bufabi_import_table_create` gave; `descriptor` points to a descriptor that nobody writes, `value` to a uint64_t that
/// may be written. Without the library's feature `lock`, no other call on the table is under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_import_table_find(
    table: *mut ImportTable,
    descriptor: *const RawDescriptor,
    value: *mut u64,
) -> Status {
    answer("import_table_find", || {
        // SAFETY: the caller's promise above.
        let raw = unsafe { given(descriptor) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(value) }?;
        let others = [Span::of(descriptor)?, Span::of(value)?];
        apart(&others)?;
        let descriptor = Descriptor::from_raw(raw).map_err(|error| noted(error.code(), &error))?;
        let find = |table: &mut ImportTable| match table.0.find(&descriptor) {
            Lookup::Hit(_, value) => Ok(*value),
            Lookup::Conflict(_) => Err(Code::ImportConflict),
            Lookup::Vacant => Err(Code::NotImported),
        };
        // SAFETY: the caller's promise above.
        out.set(unsafe { with(table, &others, find) }?);
        Ok(())
    })
}

/// Imports a value under a descriptor's identity, which was not imported before. When the table is full,
/// `bufabi_import_table_evict` may make room.
///
/// # Safety
/// As for `bufabi_import_table_find`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_import_table_insert(
    table: *mut ImportTable,
    descriptor: *const RawDescriptor,
    value: u64,
) -> Status {
    answer("import_table_insert", || {
        // SAFETY: the caller's promise above.
        let raw = unsafe { given(descriptor) }?;
        let descriptor_span = [Span::of(descriptor)?];
        let descriptor = Descriptor::from_raw(raw).map_err(|error| noted(error.code(), &error))?;
        let insert = |table: &mut ImportTable| match table.0.insert(&descriptor, value) {
            Ok(_) => Ok(()),
            Err(refused) => Err(refusal_code(refused.refusal)),
        };
        // SAFETY: the caller's promise above.
        unsafe { with(table, &descriptor_span, insert) }
    })
}

const fn refusal_code(refusal: InsertRefusal) -> Code {
    match refusal {
        InsertRefusal::Conflict { .. } => Code::ImportConflict,
        InsertRefusal::AlreadyImported { .. } => Code::AlreadyImported,
        InsertRefusal::Full { .. } => Code::ImportTableFull,
        InsertRefusal::Crowded { .. } => Code::ImportTableCrowded,
    }
}

/// One more view of an import is alive, which is then neither removed nor evicted. `*pins` is how many are.
///
/// # Safety
/// As for `bufabi_import_table_find`; `identity` points to an identity that nobody writes, `pins` to a uint32_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_import_table_pin(
    table: *mut ImportTable,
    identity: *const RawIdentity,
    pins: *mut u32,
) -> Status {
    answer("import_table_pin", || {
        // SAFETY: the caller's promise above.
        unsafe {
            of_identity(table, identity, pins, |table, identity| {
                let key = table.0.find_identity(identity).ok_or(Code::NotImported)?;
                table.0.pin(key).map_err(|error| noted(error.code(), &error))
            })
        }
    })
}

/// A view of an import is gone. `*pins` is how many are left.
///
/// # Safety
/// As for `bufabi_import_table_pin`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_import_table_unpin(
    table: *mut ImportTable,
    identity: *const RawIdentity,
    pins: *mut u32,
) -> Status {
    answer("import_table_unpin", || {
        // SAFETY: the caller's promise above.
        unsafe {
            of_identity(table, identity, pins, |table, identity| {
                let key = table.0.find_identity(identity).ok_or(Code::NotImported)?;
                table.0.unpin(key).map_err(|error| noted(error.code(), &error))
            })
        }
    })
}

/// Takes an import out: `not_imported` when there is none, `views_alive` while it is pinned. `*value` is what was imported.
///
/// # Safety
/// As for `bufabi_import_table_pin`; `value` points to a uint64_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_import_table_remove(
    table: *mut ImportTable,
    identity: *const RawIdentity,
    value: *mut u64,
) -> Status {
    answer("import_table_remove", || {
        // SAFETY: the caller's promise above.
        unsafe {
            of_identity(table, identity, value, |table, identity| match table.0.remove(identity) {
                Ok(value) => value.ok_or(Code::NotImported),
                Err(_) => Err(Code::ViewsAlive),
            })
        }
    })
}

/// Takes out what was unused the longest: its identity and its value; `not_imported` when all is pinned, or nothing is there.
///
/// # Safety
/// As for `bufabi_import_table_find`; `identity` points to an identity that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_import_table_evict(
    table: *mut ImportTable,
    identity: *mut RawIdentity,
    value: *mut u64,
) -> Status {
    answer("import_table_evict", || {
        // SAFETY: the caller's promise above.
        let identity_out = unsafe { Out::new(identity) }?;
        // SAFETY: the caller's promise above.
        let value_out = unsafe { Out::new(value) }?;
        let others = [Span::of(identity)?, Span::of(value)?];
        apart(&others)?;
        let evict = |table: &mut ImportTable| table.0.evict().ok_or(Code::NotImported);
        // SAFETY: the caller's promise above.
        let (descriptor, value) = unsafe { with(table, &others, evict) }?;
        identity_out.set(descriptor.identity().encode());
        value_out.set(value);
        Ok(())
    })
}

/// How many imports there are, and how many there can be.
///
/// # Safety
/// As for `bufabi_import_table_find`; `imports` and `capacity` each point to a uint32_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_import_table_count(
    table: *mut ImportTable,
    imports: *mut u32,
    capacity: *mut u32,
) -> Status {
    answer("import_table_count", || {
        // SAFETY: the caller's promise above.
        unsafe { count(table, imports, capacity) }
    })
}

/// Releases the table: its storage is the caller's again, and what was imported is forgotten.
///
/// # Safety
/// As for `bufabi_import_table_find`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_import_table_release(table: *mut ImportTable) -> Status {
    answer("import_table_release", || {
        // SAFETY: the caller's promise above.
        unsafe { release(table) }
    })
}
