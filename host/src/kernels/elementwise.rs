//! Kernels that take one element of each operand at a time: fill, copy, add, mul, scale.

use super::number::{Element, Number};
use crate::memory::Strided;
use crate::memory::lines::{LINE, for_each_line};

/// C is `value` everywhere.
pub(super) fn fill<T: Element>(c: &Strided<'_, T>, value: T) {
    let line = [value; LINE];
    for_each_line([c], true, |[c], length| {
        c.store(line.get(..length).unwrap_or(&line));
    });
}

/// C is A. Where C overlaps itself the last index wins.
pub(super) fn copy<T: Element>(a: &Strided<'_, T>, c: &Strided<'_, T>) {
    let mut line = [T::default(); LINE];
    for_each_line([a, c], false, |[a, c], length| {
        let line = line.get_mut(..length).unwrap_or_default();
        a.load(line);
        c.store(line);
    });
}

/// C is `operation` of each element of A.
pub(super) fn map<T: Number>(a: &Strided<'_, T>, c: &Strided<'_, T>, operation: impl Fn(T::Wide) -> T::Wide) {
    let mut line = [T::default(); LINE];
    for_each_line([a, c], true, |[a, c], length| {
        let line = line.get_mut(..length).unwrap_or_default();
        a.load(line);
        line.iter_mut().for_each(|value| *value = T::round(operation(value.widen())));
        c.store(line);
    });
}

/// C is `operation` of each element of A and its counterpart in B.
pub(super) fn zip<T: Number>(
    a: &Strided<'_, T>,
    b: &Strided<'_, T>,
    c: &Strided<'_, T>,
    operation: impl Fn(T::Wide, T::Wide) -> T::Wide,
) {
    let mut lines = [[T::default(); LINE]; 2];
    for_each_line([a, b, c], true, |[a, b, c], length| {
        let [left, right] = &mut lines;
        let left = left.get_mut(..length).unwrap_or_default();
        let right = right.get_mut(..length).unwrap_or_default();
        a.load(left);
        b.load(right);
        for (left, right) in left.iter_mut().zip(right) {
            *left = T::round(operation(left.widen(), right.widen()));
        }
        c.store(left);
    });
}
