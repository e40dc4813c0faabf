//! Operands of one shape, cut into lines that are worked on one after the other.

use bufabi_core::view::MAX_NDIMS;

use super::operand::{Bits, Elements};

/// Elements that are worked on at a time, at most: a line of each operand fits in the first cache.
pub const LINE: usize = 1024;

/// A line of one operand.
#[derive(Clone, Copy, Debug)]
pub struct Line<'s, E> {
    operand: &'s E,
    start: usize,
    step: usize,
}

impl<E> Line<'_, E> {
    /// Reads it; as [`Elements::load`].
    pub fn load<T: Bits>(&self, line: &mut [T])
    where
        E: Elements<T>,
    {
        self.operand.load(self.start, self.step, line);
    }

    /// Writes it; as [`Elements::store`].
    pub fn store<T: Bits>(&self, line: &[T])
    where
        E: Elements<T>,
    {
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
pub fn for_each_line<'s, T: Bits, E: Elements<T>, const N: usize>(
    operands: [&'s E; N],
    any_order: bool,
    mut each: impl FnMut([Line<'s, E>; N], usize),
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

/// Puts the largest step of the last operand first; equal ones stay in their order. There are at most five, and the sort of `core`
/// has paths to a panic.
fn sort<const N: usize>(dimensions: &mut [Dimension<N>]) {
    for sorted in 1..dimensions.len() {
        for place in (0..sorted).rev() {
            let pair = dimensions.get_mut(place..).and_then(<[_]>::first_chunk_mut::<2>);
            match pair {
                Some([before, behind]) if before.steps.last() < behind.steps.last() => {
                    core::mem::swap(before, behind);
                }
                Some(_) | None => break,
            }
        }
    }
}

/// The dimensions of more than one element, those that follow one another in all operands joined into one.
fn dimensions<T: Bits, E: Elements<T>, const N: usize>(
    operands: [&E; N],
    any_order: bool,
) -> ([Dimension<N>; MAX_NDIMS], usize) {
    let mut dimensions = [Dimension { count: 0, steps: [0; N] }; MAX_NDIMS];
    let mut rank = 0_usize;
    let shape = operands.first().map_or(&[][..], |operand| operand.geometry().shape());
    for (dim, &count) in shape.iter().enumerate() {
        if count > 1
            && let Some(slot) = dimensions.get_mut(rank)
        {
            let steps = operands.map(|operand| operand.geometry().strides().get(dim).copied().unwrap_or(0));
            *slot = Dimension { count, steps };
            rank = rank.saturating_add(1);
        }
    }
    let found = dimensions.get_mut(..rank).unwrap_or_default();
    if any_order {
        // The largest step of the output outermost: its lines are written as they lie.
        sort(found);
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
