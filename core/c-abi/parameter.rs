//! Parameters that are pointers: checked once, and then used without further ado.

use core::marker::PhantomData;
use core::ptr::NonNull;
use core::slice;

use bufabi_core::Code;
use zerocopy::{FromBytes, Immutable};

use super::argument::{Span, apart};

/// Where a result goes: one value, that nobody else reads or writes during the call.
pub(super) struct Out<'a, T> {
    at: NonNull<T>,
    span: Span,
    call: PhantomData<&'a mut T>,
}

impl<T: Copy> Out<'_, T> {
    /// NULL and misaligned ones are refused.
    ///
    /// # Safety
    /// If `pointer` is neither, a `T` may be written there until the call ends.
    pub(super) unsafe fn new(pointer: *mut T) -> Result<Self, Code> {
        let span = Span::of(pointer)?;
        let at = NonNull::new(pointer).ok_or(Code::NullPointer)?;
        Ok(Self { at, span, call: PhantomData })
    }

    /// The bytes of it.
    pub(super) const fn span(&self) -> Option<Span> {
        Some(self.span)
    }

    /// Writes the result.
    pub(super) fn set(&self, value: T) {
        // SAFETY: aligned and writable until the call ends: checked, and promised, when it was made.
        unsafe { self.at.write(value) };
    }
}

/// Where results go: an array, of no elements perhaps.
pub(super) struct OutSlice<'a, T> {
    at: NonNull<T>,
    len: usize,
    span: Option<Span>,
    call: PhantomData<&'a mut [T]>,
}

impl<T: Copy> OutSlice<'_, T> {
    /// NULL, misaligned and impossible ones are refused, but NULL is as good as any where there are no elements.
    ///
    /// # Safety
    /// If `pointer` is none of these, `len` values may be written there until the call ends.
    pub(super) unsafe fn new(pointer: *mut T, len: usize) -> Result<Self, Code> {
        let span = span(pointer, len)?;
        let at = NonNull::new(pointer).unwrap_or(NonNull::dangling());
        Ok(Self { at, len, span, call: PhantomData })
    }

    /// The bytes of it, if it has elements.
    pub(super) const fn span(&self) -> Option<Span> {
        self.span
    }

    /// Elements that there is room for.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Writes what fits of the values to the beginning.
    pub(super) fn set(&self, values: &[T]) {
        self.set_from(0, values);
    }

    /// Writes what fits of the values from element `start` on.
    pub(super) fn set_from(&self, start: usize, values: &[T]) {
        let Some(room) = self.len.checked_sub(start) else { return };
        let count = values.len().min(room);
        // SAFETY: it lies within the array, or behind its last element.
        let at = unsafe { self.at.add(start) };
        // SAFETY: the values are of this library or were seen to lie apart. So many may be written until the call ends, aligned: checked,
        // and promised, when the array was made.
        unsafe { at.as_ptr().copy_from_nonoverlapping(values.as_ptr(), count) };
    }

    /// Writes what fits of the values to the beginning.
    pub(super) fn fill(&self, values: impl IntoIterator<Item = T>) {
        let mut written = 0_usize;
        for value in values.into_iter().take(self.len) {
            // SAFETY: it lies within the array, since no more are taken than it has.
            let at = unsafe { self.at.add(written) };
            // SAFETY: aligned and writable until the call ends: checked, and promised, when the array was made.
            unsafe { at.write(value) };
            written = written.saturating_add(1);
        }
    }
}

/// A value that C gives. Of `T` any bytes are a value.
///
/// # Safety
/// If `pointer` is neither NULL nor misaligned, there is a `T`, which nobody writes until the call ends.
pub(super) unsafe fn given<'a, T: FromBytes + Immutable>(pointer: *const T) -> Result<&'a T, Code> {
    Span::of(pointer)?;
    // SAFETY: neither NULL nor misaligned: checked. There, and unwritten until the call ends: the caller's promise. Any bytes are a
    // value: zerocopy has proved it.
    Ok(unsafe { &*pointer })
}

/// An array that C gives, of no elements perhaps, which may be NULL then.
///
/// # Safety
/// If `pointer` is neither NULL nor misaligned, there are `len` values, which nobody writes until the call ends.
pub(super) unsafe fn given_slice<'a, T: FromBytes + Immutable>(
    pointer: *const T,
    len: usize,
) -> Result<&'a [T], Code> {
    if span(pointer, len)?.is_none() {
        return Ok(&[]);
    }
    // SAFETY: neither NULL nor misaligned, and no longer than an array can be: checked. There, and unwritten until the call ends: the
    // caller's promise. Any bytes are a value: zerocopy has proved it.
    Ok(unsafe { slice::from_raw_parts(pointer, len) })
}

/// The bytes of an array; `None` when it has none.
fn span<T>(pointer: *const T, len: usize) -> Result<Option<Span>, Code> {
    if len == 0 {
        return Ok(None);
    }
    let nbytes = len.checked_mul(size_of::<T>()).ok_or(Code::Length)?;
    Span::check(pointer, nbytes, align_of::<T>()).map(Some)
}

/// The bytes of a value that C gives.
pub(super) fn span_of<T>(value: &T) -> Option<Span> {
    // A reference is neither NULL nor misaligned.
    Span::of(value).ok()
}

/// The bytes of an array that C gives.
pub(super) fn span_of_slice<T>(values: &[T]) -> Option<Span> {
    span(values.as_ptr(), values.len()).ok().flatten()
}

/// What is written shares no byte with anything else; what is only read may share some.
pub(super) fn apart_from(written: &[Option<Span>], read: &[Option<Span>]) -> Result<(), Code> {
    let mut rest = written;
    while let [first, others @ ..] = rest {
        for other in others.iter().chain(read) {
            if let (&Some(first), &Some(other)) = (first, other) {
                apart(&[first, other])?;
            }
        }
        rest = others;
    }
    Ok(())
}
