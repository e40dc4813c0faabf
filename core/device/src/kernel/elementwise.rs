//! Kernels that take one element of each operand at a time: fill, copy, add, mul, scale.

use super::lines::{LINE, for_each_line};
use super::number::{Element, Number};
use super::operand::Elements;

/// C is `value` everywhere.
pub(super) fn fill<T: Element>(c: &impl Elements<T>, value: T) {
    let line = [value; LINE];
    for_each_line([c], true, |[c], length| {
        c.store(line.get(..length).unwrap_or(&line));
    });
}

/// C is A. Where C overlaps itself the last index wins.
pub(super) fn copy<T: Element, E: Elements<T>>(a: &E, c: &E) {
    let mut line = [T::default(); LINE];
    for_each_line([a, c], false, |[a, c], length| {
        let line = line.get_mut(..length).unwrap_or_default();
        a.load(line);
        c.store(line);
    });
}

/// C is `operation` of each element of A.
pub(super) fn map<T: Number, E: Elements<T>>(a: &E, c: &E, operation: impl Fn(T::Wide) -> T::Wide) {
    let mut line = [T::default(); LINE];
    for_each_line([a, c], true, |[a, c], length| {
        let line = line.get_mut(..length).unwrap_or_default();
        a.load(line);
        line.iter_mut().for_each(|value| *value = T::round(operation(value.widen())));
        c.store(line);
    });
}

/// C is `operation` of each element of A and its counterpart in B.
pub(super) fn zip<T: Number, E: Elements<T>>(
    a: &E,
    b: &E,
    c: &E,
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
