//! C's pointers, checked as far as a program can: not NULL, aligned, no wrap, no byte shared with another argument.

use bufabi_core::Code;

/// The addresses of an argument's bytes, all of which exist: the last one is no higher than the highest address, and they
/// are no more than a slice may have.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    start: usize,
    last: usize,
}

impl Span {
    /// The `len` bytes from `pointer` on, aligned to `align`, a power of two. No byte at all counts as one.
    pub(crate) fn check<T>(pointer: *const T, len: usize, align: usize) -> Result<Self, Code> {
        let start = pointer.addr();
        if start == 0 {
            return Err(Code::NullPointer);
        }
        if start & align.wrapping_sub(1) != 0 {
            return Err(Code::Misaligned);
        }
        if isize::try_from(len).is_err() {
            return Err(Code::Length);
        }
        let last = start.checked_add(len.saturating_sub(1)).ok_or(Code::Length)?;
        Ok(Self { start, last })
    }

    /// The value that `pointer` points to.
    pub(crate) fn of<T>(pointer: *const T) -> Result<Self, Code> {
        Self::check(pointer, size_of::<T>(), align_of::<T>())
    }

    /// Some byte belongs to both.
    const fn overlaps(self, other: Self) -> bool {
        self.start <= other.last && other.start <= self.last
    }
}

/// No two of `spans` share a byte.
pub(crate) fn apart(spans: &[Span]) -> Result<(), Code> {
    let mut rest = spans;
    while let [first, others @ ..] = rest {
        if others.iter().any(|other| first.overlaps(*other)) {
            return Err(Code::Overlapping);
        }
        rest = others;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use core::ptr::without_provenance;

    use super::*;

    fn span(start: usize, len: usize) -> Span {
        Span::check(without_provenance::<u8>(start), len, 1).unwrap()
    }

    #[test]
    fn each_impossible_pointer_has_its_code() {
        let check = |start, len, align| Span::check(without_provenance::<u8>(start), len, align).err();
        assert_eq!(check(0, 0, 1), Some(Code::NullPointer));
        assert_eq!(check(0, 88, 64), Some(Code::NullPointer));
        assert_eq!(check(32, 88, 64), Some(Code::Misaligned));
        assert_eq!(check(64, 88, 64), None);
        assert_eq!(check(1, isize::MAX.unsigned_abs(), 1), None);
        assert_eq!(check(1, isize::MAX.unsigned_abs().wrapping_add(1), 1), Some(Code::Length));
        assert_eq!(check(usize::MAX, 1, 1), None, "the highest address has a byte");
        assert_eq!(check(usize::MAX, 2, 1), Some(Code::Length));
        assert_eq!(check(usize::MAX, 0, 1), None);
    }

    #[test]
    fn spans_that_touch_are_apart_and_those_that_share_a_byte_are_not() {
        assert_eq!(apart(&[span(100, 10), span(110, 4), span(90, 10)]), Ok(()));
        assert_eq!(apart(&[span(100, 10), span(109, 4)]), Err(Code::Overlapping));
        assert_eq!(apart(&[span(109, 4), span(100, 10)]), Err(Code::Overlapping));
        assert_eq!(apart(&[span(100, 10), span(104, 1)]), Err(Code::Overlapping));
        assert_eq!(apart(&[span(1, 1), span(200, 8), span(200, 8)]), Err(Code::Overlapping));
    }
}
