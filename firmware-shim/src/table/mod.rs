//! Tables in storage that the firmware lends: what stands in it, and how a pointer from C becomes a table again.
//!
//! A table is named by the address of its storage. A mark in front says of which kind it is, so one that was released, that is
//! of the other kind, or that never was one gets a status.

pub(super) mod import;
mod lock;
pub(super) mod owner;
#[cfg(test)]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    clippy::arithmetic_side_effects,
    reason = "a test calls as C does"
)]
mod tests;

use core::sync::atomic::{AtomicU32, Ordering};

use bufabi_core::wire::identity::RawIdentity;
use bufabi_core::{Code, Identity};

use super::argument::{Span, apart};
use super::parameter::{Out, given};
use lock::Lock;

/// What the storage of every table is aligned to.
pub const TABLE_ALIGNMENT: usize = 64;

/// Which kind of table stands in storage.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Owner,
    Import,
}

impl Kind {
    const fn mark(self) -> u32 {
        match self {
            Self::Owner => 0x6f77_6e01,
            Self::Import => 0x696d_7001,
        }
    }
}

/// A table that C sees.
trait Table {
    /// The kind that its storage is marked with.
    const KIND: Kind;

    /// How many entries it has, and how many it can have.
    fn count(&self) -> (u32, u32);
}

/// What storage says in which a table was released.
const RELEASED: u32 = 0x7265_6c01;

/// What stands at the start of a table's storage.
#[repr(C, align(64))]
struct State<T> {
    mark: AtomicU32,
    table: Lock<T>,
}

impl<T: Table> State<T> {
    const fn new(table: T) -> Self {
        Self { mark: AtomicU32::new(T::KIND.mark()), table: Lock::new(table) }
    }
}

/// Storage with that mark has a table of this kind.
fn check(mark: &AtomicU32, kind: Kind) -> Result<(), Code> {
    match mark.load(Ordering::Acquire) {
        mark if mark == kind.mark() => Ok(()),
        RELEASED => Err(Code::HandleReleased),
        mark if mark == Kind::Owner.mark() || mark == Kind::Import.mark() => Err(Code::HandleKind),
        _ => Err(Code::HandleUnknown),
    }
}

/// Does something with the table in `storage`, which shares no byte with the `others`.
///
/// # Safety
/// If `storage` is neither NULL nor misaligned, what is there was made by this kind's `create`, or released, or is of the other
/// kind, or its first four bytes are none of their marks. Without the feature `lock`, nobody else uses the table during the call.
unsafe fn with<T: Table, R>(
    storage: *mut T,
    others: &[Span],
    work: impl FnOnce(&mut T) -> Result<R, Code>,
) -> Result<R, Code> {
    let state = storage.cast::<State<T>>();
    let span = Span::of(state)?;
    for other in others {
        apart(&[span, *other])?;
    }
    // SAFETY: neither NULL nor misaligned: checked by Span. The first four bytes are there, and are a mark or none: the caller's
    // promise.
    let mark = unsafe { AtomicU32::from_ptr(state.cast::<u32>()) };
    check(mark, T::KIND)?;
    // SAFETY: the mark says that this kind's state is there, whose parts are reached through locks and atomics alone.
    let state = unsafe { &*state };
    let work = |table: &mut T| {
        // Another core may have released it meanwhile.
        check(&state.mark, T::KIND)?;
        work(table)
    };
    // SAFETY: the caller's promise, where there is no lock.
    unsafe { state.table.with(work) }
}

/// Asks something of an identity's entry, and writes the answer.
///
/// # Safety
/// As for [`with`]; `identity` points to an identity that nobody writes, `out` to an `R` that may be written.
unsafe fn of_identity<T: Table, R: Copy>(
    storage: *mut T,
    identity: *const RawIdentity,
    out: *mut R,
    ask: impl FnOnce(&mut T, Identity) -> Result<R, Code>,
) -> Result<(), Code> {
    // SAFETY: the caller's promise.
    let raw = *unsafe { given(identity) }?;
    let others = [Span::of(identity)?, Span::of(out)?];
    apart(&others)?;
    // SAFETY: the caller's promise.
    let out = unsafe { Out::new(out) }?;
    let identity = raw.decode().ok_or(Code::Generation)?;
    // SAFETY: the caller's promise.
    out.set(unsafe { with(storage, &others, |table| ask(table, identity)) }?);
    Ok(())
}

/// Writes how many entries there are, and how many there can be.
///
/// # Safety
/// As for [`with`]; `count` and `capacity` point to numbers that may be written.
unsafe fn count<T: Table>(storage: *mut T, count: *mut u32, capacity: *mut u32) -> Result<(), Code> {
    // SAFETY: the caller's promise.
    let count_out = unsafe { Out::new(count) }?;
    // SAFETY: the caller's promise.
    let capacity_out = unsafe { Out::new(capacity) }?;
    let others = [Span::of(count)?, Span::of(capacity)?];
    apart(&others)?;
    // SAFETY: the caller's promise.
    let (found, most) = unsafe { with(storage, &others, |table: &mut T| Ok(table.count())) }?;
    count_out.set(found);
    capacity_out.set(most);
    Ok(())
}

/// Releases the table in `storage`: the storage is the caller's again.
///
/// # Safety
/// As for [`with`].
unsafe fn release<T: Table>(storage: *mut T) -> Result<(), Code> {
    let release = |_: &mut T| {
        // SAFETY: it is called on a state, whose first four bytes are its mark.
        unsafe { AtomicU32::from_ptr(storage.cast::<u32>()) }.store(RELEASED, Ordering::Release);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { with(storage, &[], release) }
}

/// Bytes of storage that is lent for a table.
struct Lent {
    start: *mut u8,
    span: Span,
    slots: usize,
}

impl Lent {
    /// Storage of `nbytes` bytes, with room for a state of `base` bytes and one slot at least of `per_slot` bytes.
    fn check(storage: *mut u8, nbytes: usize, base: usize, per_slot: usize) -> Result<Self, Code> {
        let span = Span::check(storage, nbytes, TABLE_ALIGNMENT)?;
        let slots = nbytes.checked_sub(base).and_then(|room| room.checked_div(per_slot)).unwrap_or(0);
        if slots == 0 {
            return Err(Code::BufferTooSmall);
        }
        Ok(Self { start: storage, span, slots })
    }

    /// Puts the table there, and names it.
    ///
    /// # Safety
    /// The storage is lent for as long as the table is there, and holds its state; `name` points to a pointer that may be written.
    unsafe fn put<T: Table>(&self, table: T, name: *mut *mut T) {
        // SAFETY: aligned and large enough: checked when it was lent. Lent: the caller's promise.
        unsafe { self.start.cast::<State<T>>().write(State::new(table)) };
        // SAFETY: the caller's promise.
        unsafe { name.write(self.start.cast()) };
    }

    /// Where the values of an array of the state lie, `offset` bytes from the start: every one is written with `value`.
    ///
    /// # Safety
    /// The storage is lent for as long as the table is there, and `count` values from there on lie in it, aligned.
    unsafe fn fill<T>(&self, offset: usize, count: usize, mut value: impl FnMut() -> T) -> &'static mut [T] {
        // SAFETY: the offset lies in the storage: the caller's promise.
        let first = unsafe { self.start.add(offset) }.cast::<T>();
        for index in 0..count {
            // SAFETY: so many lie in the storage: the caller's promise.
            let at = unsafe { first.add(index) };
            // SAFETY: as above, aligned and lent.
            unsafe { at.write(value()) };
        }
        // SAFETY: all of them were just written; nobody else uses the storage while the table is there: the caller's promise.
        unsafe { core::slice::from_raw_parts_mut(first, count) }
    }
}
