//! What a kernel works on: a strided view in memory of some kind, and its elements, a line at a time.

use bufabi_core::view::MAX_NDIMS;
use bufabi_core::{Access, View};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// An element that moves by its bits.
pub trait Bits: Copy + Default + FromBytes + IntoBytes + Immutable + KnownLayout {}
impl<T: Copy + Default + FromBytes + IntoBytes + Immutable + KnownLayout> Bits for T {}

/// One argument of a kernel: a view of memory, and what may be done with it.
pub trait Operand {
    /// Its elements, as elements of `T`.
    type Elements<T: Bits>: Elements<T>;

    /// Where the elements lie.
    fn view(&self) -> &View;

    /// What may be done with them.
    fn access(&self) -> Access;

    /// The elements; `None` when they have another size than `T`.
    fn elements<T: Bits>(&self) -> Option<Self::Elements<T>>;
}

/// The elements of an operand. They are numbered by their distance from the first one; a line is a number of them at a step.
pub trait Elements<T> {
    /// Where they lie.
    fn geometry(&self) -> &Geometry;

    /// Reads the line that starts at element `start`. Elements that are not there, or that may not be read, leave their
    /// slots as they are.
    fn load(&self, start: usize, step: usize, line: &mut [T]);

    /// Writes the line that starts at element `start`. What would lie outside of the view, or may not be written, is
    /// dropped.
    fn store(&self, start: usize, step: usize, line: &[T]);
}

/// Where the elements of a view lie, counted from its first one, and what may be done with them.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// Elements from the first to the last, both counted.
    reach: usize,
    shape: [usize; MAX_NDIMS],
    strides: [usize; MAX_NDIMS],
    ndims: usize,
    loads: bool,
    stores: bool,
}

impl Geometry {
    /// The geometry of a view whose elements take `size` bytes; `None` when they take another number.
    #[must_use]
    pub fn new(view: &View, access: Access, size: usize) -> Option<Self> {
        if usize::try_from(view.dtype().size()).ok()? != size {
            return None;
        }
        // An extent is a whole number of elements, at least one.
        let reach = usize::try_from(view.extent()).ok()?.checked_div(size)?;
        let wide = |slots: &[u32; MAX_NDIMS]| slots.map(|slot| usize::try_from(slot).unwrap_or(usize::MAX));
        Some(Self {
            reach,
            shape: wide(view.shape_slots()),
            strides: wide(view.stride_slots()),
            ndims: usize::from(view.ndims()),
            loads: access.reads(),
            stores: access.writes(),
        })
    }

    /// Elements of each dimension.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.shape.get(..self.ndims).unwrap_or(&self.shape)
    }

    /// Elements from one index to the next, of each dimension.
    #[must_use]
    pub fn strides(&self) -> &[usize] {
        self.strides.get(..self.ndims).unwrap_or(&self.strides)
    }

    /// How many of a line's elements, `length` from `start` on, are there and may be read.
    #[must_use]
    #[inline]
    pub fn readable(&self, start: usize, step: usize, length: usize) -> usize {
        if self.loads { self.there(start, step).min(length) } else { 0 }
    }

    /// How many of a line's elements, `length` from `start` on, are there and may be written.
    #[must_use]
    #[inline]
    pub fn writable(&self, start: usize, step: usize, length: usize) -> usize {
        if self.stores { self.there(start, step).min(length) } else { 0 }
    }

    /// Elements within reach of a line from `start` on; at least `usize::MAX` of them when it never moves.
    #[inline]
    fn there(&self, start: usize, step: usize) -> usize {
        match self.reach.checked_sub(start) {
            None | Some(0) => 0,
            Some(left) => {
                left.wrapping_sub(1).checked_div(step).map_or(usize::MAX, |steps| steps.saturating_add(1))
            }
        }
    }
}
