//! Operands of one shape, cut into lines that are worked on one after the other.

use core::cmp::Reverse;

use bufabi_core::view::MAX_NDIMS;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::operand::Operand;
use super::strided::Strided;

/// Elements that are worked on at a time, at most: a line of each operand fits in the first cache.
pub(crate) const LINE: usize = 1024;

/// An element that moves by its bits.
pub(crate) trait Bits: Copy + Default + FromBytes + IntoBytes + Immutable {}
impl<T: Copy + Default + FromBytes + IntoBytes + Immutable> Bits for T {}

/// Hands out the bytes of an operand's elements in the order of their index, some at a time, until that fails.
///
/// # Errors
/// What `each` said.
pub fn read_in_order<E>(
    operand: &Operand<'_>,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    match operand.view().dtype().size() {
        1 => read_elements::<u8, E>(operand, &mut each),
        2 => read_elements::<u16, E>(operand, &mut each),
        4 => read_elements::<u32, E>(operand, &mut each),
        _ => read_elements::<u64, E>(operand, &mut each),
    }
}

fn read_elements<T: Bits, E>(
    operand: &Operand<'_>,
    each: &mut impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let Some(operand) = Strided::<T>::new(operand) else { return Ok(()) };
    let mut line = [T::default(); LINE];
    let mut result = Ok(());
    for_each_line([&operand], false, |[place], length| {
        let line = line.get_mut(..length).unwrap_or_default();
        place.load(line);
        if result.is_ok() {
            result = each(line.as_bytes());
        }
    });
    result
}

/// A line of one operand.
pub(crate) struct Line<'s, 'a, T> {
    operand: &'s Strided<'a, T>,
    start: usize,
    step: usize,
}

impl<T: Bits> Line<'_, '_, T> {
    pub(crate) fn load(&self, line: &mut [T]) {
        self.operand.load(self.start, self.step, line);
    }

    pub(crate) fn store(&self, line: &[T]) {
        self.operand.store(self.start, self.step, line);
    }
}

/// A dimension of operands of one shape: its elements, and each operand's step.
#[derive(Clone, Copy)]
struct Dimension<const N: usize> {
    count: usize,
    steps: [usize; N],
}

/// Cuts operands of one shape into lines of up to [`LINE`] elements, the same of each. In the order of the index, unless
/// `any_order` leaves it to where the last operand's elements lie.
pub(crate) fn for_each_line<'s, 'a, T: Bits, const N: usize>(
    operands: [&'s Strided<'a, T>; N],
    any_order: bool,
    mut each: impl FnMut([Line<'s, 'a, T>; N], usize),
) {
    let (dimensions, rank) = dimensions(operands, any_order);
    let (outer, inner) = match dimensions.get(..rank).and_then(<[_]>::split_last) {
        Some((inner, outer)) => (outer, *inner),
        None => (&[][..], Dimension { count: 1, steps: [1; N] }),
    };
    let mut index = [0_usize; MAX_NDIMS];
    loop {
        // The places of elements of the views: they wrap nowhere.
        let mut starts = [0_usize; N];
        for (index, dimension) in index.iter().zip(outer) {
            for (start, step) in starts.iter_mut().zip(dimension.steps) {
                *start = start.wrapping_add(index.wrapping_mul(step));
            }
        }
        for done in (0..inner.count).step_by(LINE) {
            let mut places = starts.iter().zip(inner.steps);
            let lines = operands.map(|operand| {
                let (start, step) = places.next().unwrap_or((&0, 1));
                Line { operand, start: start.wrapping_add(done.wrapping_mul(step)), step }
            });
            each(lines, inner.count.saturating_sub(done).min(LINE));
        }
        if !advance(&mut index, outer) {
            return;
        }
    }
}

/// Moves to the next index, the last dimension fastest. Says whether there is one.
fn advance<const N: usize>(index: &mut [usize; MAX_NDIMS], dimensions: &[Dimension<N>]) -> bool {
    for (index, dimension) in index.iter_mut().zip(dimensions).rev() {
        *index = index.wrapping_add(1);
        if *index < dimension.count {
            return true;
        }
        *index = 0;
    }
    false
}

/// The dimensions of more than one element, those that follow one another in all operands joined into one.
fn dimensions<T: Bits, const N: usize>(
    operands: [&Strided<'_, T>; N],
    any_order: bool,
) -> ([Dimension<N>; MAX_NDIMS], usize) {
    let mut dimensions = [Dimension { count: 0, steps: [0; N] }; MAX_NDIMS];
    let mut rank = 0_usize;
    let shape = operands.first().map_or(&[][..], |operand| operand.shape());
    for (dim, &count) in shape.iter().enumerate() {
        if count > 1
            && let Some(slot) = dimensions.get_mut(rank)
        {
            let steps = operands.map(|operand| operand.strides().get(dim).copied().unwrap_or(0));
            *slot = Dimension { count, steps };
            rank = rank.saturating_add(1);
        }
    }
    let found = dimensions.get_mut(..rank).unwrap_or_default();
    if any_order {
        // The largest step of the output outermost: its lines are written as they lie.
        found.sort_by_key(|dimension| Reverse(dimension.steps.last().copied()));
    }
    let mut joined = 0_usize;
    for place in 1..rank {
        let (Some(&outer), Some(&inner)) = (dimensions.get(joined), dimensions.get(place)) else { break };
        let follows = outer
            .steps
            .iter()
            .zip(inner.steps)
            .all(|(&outer, step)| step.checked_mul(inner.count) == Some(outer));
        let target = if follows { joined } else { joined.saturating_add(1) };
        if let Some(slot) = dimensions.get_mut(target) {
            let count = if follows { outer.count.saturating_mul(inner.count) } else { inner.count };
            *slot = Dimension { count, steps: inner.steps };
        }
        joined = target;
    }
    (dimensions, if rank == 0 { 0 } else { joined.saturating_add(1) })
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use bufabi_core::{Access, DType, View};

    use super::*;

    fn read(bytes: &mut [u8], view: View) -> Vec<u8> {
        let cells = Cell::from_mut(bytes).as_slice_of_cells();
        let operand = Operand::in_cells(cells, view, Access::Read).unwrap();
        let mut read = Vec::new();
        let done: Result<(), ()> = read_in_order(&operand, |bytes| {
            read.extend_from_slice(bytes);
            Ok(())
        });
        done.unwrap();
        read
    }

    #[test]
    fn elements_come_in_the_order_of_their_index() {
        let mut bytes: Vec<u8> = (0..24).collect();
        let transposed = View::new(0, DType::Uint16, &[3, 4], &[1, 3], 24).unwrap();
        let expected: Vec<u8> = [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]
            .iter()
            .flat_map(|&element: &u8| [element.wrapping_mul(2), element.wrapping_mul(2).wrapping_add(1)])
            .collect();
        assert_eq!(read(&mut bytes, transposed), expected);
        let dense = View::row_major(8, DType::Int64, &[2, 1, 1], 24).unwrap();
        assert_eq!(read(&mut bytes, dense), (8..24).collect::<Vec<u8>>());
        let same = View::new(5, DType::Bool, &[2, 3], &[1, 1], 24).unwrap();
        assert_eq!(read(&mut bytes, same), [5, 6, 7, 6, 7, 8]);
        let mut long = vec![7_u8; 5000];
        let view = View::new(0, DType::Uint8, &[2, 2500], &[2500, 1], 5000).unwrap();
        assert_eq!(read(&mut long, view), long);
    }

    #[test]
    fn nothing_is_asked_for_after_a_failure() {
        let mut bytes = vec![0_u8; 5000];
        let cells = Cell::from_mut(&mut bytes[..]).as_slice_of_cells();
        let view = View::row_major(0, DType::Uint8, &[5000], 5000).unwrap();
        let operand = Operand::in_cells(cells, view, Access::Read).unwrap();
        let mut calls = 0;
        let failed = read_in_order(&operand, |_| {
            calls += 1;
            Err("no more")
        });
        assert_eq!((failed, calls), (Err("no more"), 1));
    }
}
