//! Where a tracker's slots lie on a host: on the heap.

use core::fmt;

use bufabi_core::dependencies::{
    Allocate, ArgumentSlot, BackingSlot, Capacities, Edge, EntrySlot, GroupSlot, LinkSlot, Memory, PieceSlot,
    Storage, TaskSlot,
};

use crate::sys::OsError;
use crate::sys::memory::check_room;

/// Boxed slices.
#[derive(Clone, Copy, Debug)]
pub struct TrackerMemory;

impl Memory for TrackerMemory {
    type Of<T: Clone + fmt::Debug + 'static> = Box<[T]>;
}

impl Allocate for TrackerMemory {
    fn filled<T: Clone + fmt::Debug + 'static>(value: T, len: usize) -> Box<[T]> {
        vec![value; len].into()
    }
}

impl TrackerMemory {
    /// Storage for that much, which may be numbers from outside: an allocation that fails would end the process.
    ///
    /// # Errors
    /// [`OsError`]: ENOMEM when the machine has no such memory.
    pub fn storage(capacities: &Capacities) -> Result<Storage<Self>, OsError> {
        check_room(nbytes(capacities))?;
        Ok(Storage::allocate(capacities))
    }
}

/// Bytes that a tracker takes, but for its bit maps.
pub(super) fn nbytes(capacities: &Capacities) -> usize {
    let &Capacities { tasks, links, entries, pieces, backings, arguments, edges, .. } = capacities;
    // A bucket for each group of entries and for each backing, rounded up to a power of two: at most two.
    let bucket = size_of::<u32>().saturating_mul(2);
    let of_entry = size_of::<EntrySlot>().saturating_add(size_of::<GroupSlot>()).saturating_add(bucket);
    let parts = [
        (tasks, size_of::<TaskSlot>()),
        (links, size_of::<LinkSlot>()),
        (entries, of_entry),
        (pieces, size_of::<PieceSlot>().saturating_mul(2)),
        (backings, size_of::<BackingSlot>().saturating_add(bucket)),
        (arguments, size_of::<ArgumentSlot>()),
        (edges, size_of::<Edge>()),
    ];
    parts.iter().fold(0, |sum, &(count, size)| count.saturating_mul(size).saturating_add(sum))
}
