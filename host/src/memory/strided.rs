//! Lines of elements, copied out of an operand and into it: the one place where a task's data is read and written.
//!
//! Task data lies in memory that other threads and processes may write at any moment, so nothing here hands out a reference to it, and
//! what crosses is carried by the copies of `shared`, which are defined whatever others do. An element is read once, into memory of this
//! thread alone, and whatever its bits are they are a value of its type; kernels compute there, on whole lines. That no task writes
//! meanwhile is what the edges between tasks are for: without them numbers are wrong, and nothing worse.
//! Elements may lie at any address.

use core::marker::PhantomData;

use bufabi_device::kernel::{Bits, Elements, Geometry};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::operand::Operand;
use super::shared;

/// An operand whose elements are of type `T`, or of another type of the same size.
///
/// Elements are numbered by their distance from the first one. A line is a number of elements at a step.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a, T> {
    /// The first element, at any alignment. All within the geometry's reach are mapped for `'a`.
    first: *mut T,
    geometry: Geometry,
    memory: PhantomData<&'a [u8]>,
}

impl<'a, T: Copy + FromBytes + IntoBytes + Immutable> Strided<'a, T> {
    /// The operand as elements of `T`; `None` when its elements have another size.
    #[must_use]
    pub fn new(operand: &Operand<'a>) -> Option<Self> {
        let view = operand.view();
        let geometry = Geometry::new(view, operand.access(), size_of::<T>())?;
        let offset = usize::try_from(view.byte_offset()).ok()?;
        // The operand keeps all up to the view's end mapped.
        let first = operand.base().as_ptr().wrapping_add(offset).cast();
        Some(Self { first, geometry, memory: PhantomData })
    }

    /// Elements of each dimension.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.geometry.shape()
    }

    /// Elements from one index to the next, of each dimension.
    #[must_use]
    pub fn strides(&self) -> &[usize] {
        self.geometry.strides()
    }

    /// Reads the line that starts at element `start`. Elements that are not there, or that may not be read, leave their
    /// slots as they are.
    #[inline]
    pub fn load(&self, start: usize, step: usize, line: &mut [T]) {
        let there = self.geometry.readable(start, step, line.len());
        let line = line.get_mut(..there).unwrap_or_default();
        let from = self.first.wrapping_add(start);
        if step == 1 {
            // SAFETY: elements `start` to `start + there` lie within the reach, which the operand keeps mapped and readable, and nobody's.
            unsafe { shared::read(from.cast(), line.as_mut_bytes()) };
            return;
        }
        let mut from = from;
        for slot in line {
            // SAFETY: the element is one of the `there` that lie within the reach, which the operand keeps mapped and readable, and nobody's.
            unsafe { shared::read_element(from, slot) };
            from = from.wrapping_add(step);
        }
    }

    /// Writes the line that starts at element `start`. What would lie outside of the view, or may not be written, is
    /// dropped.
    #[inline]
    pub fn store(&self, start: usize, step: usize, line: &[T]) {
        let there = self.geometry.writable(start, step, line.len());
        let line = line.get(..there).unwrap_or_default();
        let to = self.first.wrapping_add(start);
        if step == 1 {
            // SAFETY: elements `start` to `start + there` lie within the reach, which the operand keeps mapped and writable, and nobody's.
            unsafe { shared::write(to.cast(), line.as_bytes()) };
            return;
        }
        let mut to = to;
        for value in line {
            // SAFETY: the element is one of the `there` that lie within the reach, which the operand keeps mapped and writable, and nobody's.
            unsafe { shared::write_element(to, value) };
            to = to.wrapping_add(step);
        }
    }
}

impl<T: Bits> Elements<T> for Strided<'_, T> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline]
    fn load(&self, start: usize, step: usize, line: &mut [T]) {
        Strided::load(self, start, step, line);
    }

    #[inline]
    fn store(&self, start: usize, step: usize, line: &[T]) {
        Strided::store(self, start, step, line);
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use bufabi_core::{Access, DType, View};

    use super::*;

    fn cells(values: &mut [u8]) -> &[Cell<u8>] {
        Cell::from_mut(values).as_slice_of_cells()
    }

    #[test]
    fn a_line_holds_the_elements_of_its_step_and_no_others() {
        let mut bytes: Vec<u8> = (0..40).collect();
        let view = View::new(2, DType::Uint16, &[3, 4], &[6, 1], 34).unwrap();
        let operand = Operand::in_cells(cells(&mut bytes), view, Access::ReadWrite).unwrap();
        let strided = Strided::<u16>::new(&operand).unwrap();
        assert_eq!((strided.shape(), strided.strides()), (&[3, 4][..], &[6, 1][..]));
        let element = |index: u8| u16::from_le_bytes([2 * index, 2 * index + 1]);
        let mut line = [0; 4];
        strided.load(6, 1, &mut line);
        assert_eq!(line, [7, 8, 9, 10].map(element));
        strided.load(1, 6, &mut line[..3]);
        assert_eq!(line[..3], [2, 8, 14].map(element));
        // The view reaches over 2 * 6 + 3 + 1 = 16 elements.
        let mut past = [9; 4];
        strided.load(13, 2, &mut past);
        assert_eq!(past, [element(14), element(16), 9, 9]);
        strided.load(16, 1, &mut past);
        strided.load(usize::MAX, usize::MAX, &mut past);
        assert_eq!(past, [element(14), element(16), 9, 9]);
        strided.load(3, 0, &mut past);
        assert_eq!(past, [element(4); 4]);

        strided.store(14, 1, &[0xaaaa; 4]);
        strided.store(1, 7, &[0xbbbb; 9]);
        let expected: Vec<u8> = (0..40)
            .map(|byte| match byte {
                30..=33 => 0xaa,
                4 | 5 | 18 | 19 => 0xbb,
                byte => byte,
            })
            .collect();
        // Elements 1, 8 and 15 are written; 15 is the last one.
        let expected: Vec<u8> =
            expected.iter().enumerate().map(|(at, &byte)| if at / 2 == 16 { 0xbb } else { byte }).collect();
        assert_eq!(bytes, expected);
    }

    #[test]
    fn elements_at_odd_addresses_and_of_every_size_are_read_and_written() {
        let mut bytes = [0_u8; 33];
        for (dtype, size) in [(DType::Bool, 1), (DType::Bfloat16, 2), (DType::Float32, 4), (DType::Int64, 8)]
        {
            let view = View::new(0, dtype, &[2], &[2], 32).unwrap();
            let operand = Operand::in_cells(&cells(&mut bytes)[1..], view, Access::ReadWrite).unwrap();
            assert_eq!(Strided::<u8>::new(&operand).is_some(), size == 1);
            assert_eq!(Strided::<u16>::new(&operand).is_some(), size == 2);
            assert_eq!(Strided::<u32>::new(&operand).is_some(), size == 4);
            if let Some(strided) = Strided::<u64>::new(&operand) {
                strided.store(0, 2, &[0x0102_0304_0506_0708, u64::MAX]);
                let mut line = [0; 2];
                strided.load(0, 2, &mut line);
                assert_eq!(line, [0x0102_0304_0506_0708, u64::MAX]);
            }
        }
        assert_eq!(bytes[1..9], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(bytes[17..25], [255; 8]);
    }

    #[test]
    fn what_the_owner_does_not_grant_does_not_happen() {
        let mut bytes = [1_u8; 4];
        let view = View::row_major(0, DType::Uint8, &[4], 4).unwrap();
        let operand = Operand::in_cells(cells(&mut bytes), view, Access::Read).unwrap();
        Strided::<u8>::new(&operand).unwrap().store(0, 1, &[2; 4]);
        assert_eq!(bytes, [1; 4]);
        let operand = Operand::in_cells(cells(&mut bytes), view, Access::Write).unwrap();
        let mut line = [3; 4];
        Strided::<u8>::new(&operand).unwrap().load(0, 1, &mut line);
        assert_eq!(line, [3; 4]);
    }
}
