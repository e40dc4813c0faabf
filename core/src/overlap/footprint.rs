//! Where a view's bytes lie, in normal form: runs of bytes at a few independent steps, and nothing about elements.

use crate::view::{MAX_NDIMS, View};

/// A sum of steps: `count` positions, `step` bytes from one to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dimension {
    /// Bytes from one position to the next.
    pub step: u64,
    /// Positions; 2 or more in a footprint.
    pub count: u64,
}

/// What a slot past the last dimension holds.
const EMPTY: Dimension = Dimension { step: 0, count: 0 };

impl Dimension {
    /// Bytes from the first position to the last. It saturates, which no dimension of a view does.
    #[inline]
    pub(crate) const fn reach(self) -> u64 {
        self.step.saturating_mul(self.count.saturating_sub(1))
    }
}

/// The set of bytes that a view's elements occupy: `run` bytes at `origin` plus any sum of one position of each dimension.
///
/// It is the normal form of a view: element type, order of dimensions and dimensions of one element are gone; what lies
/// side by side is one run; a step that is a multiple of a smaller one within its reach has been merged into it. The
/// dimensions are ordered by their steps, the smallest first, and every step is larger than the run. Equal footprints are
/// equal sets of bytes; equal sets nearly always are equal footprints, but not when a view overlaps itself in odd ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Footprint {
    origin: u64,
    run: u64,
    extent: u64,
    rank: u8,
    dimensions: [Dimension; MAX_NDIMS],
}

impl Footprint {
    /// The bytes of a view.
    #[must_use]
    pub fn of(view: &View) -> Self {
        let mut footprint = Self::of_one_element(view);
        let mut largest = 0;
        // Most views have their largest stride first, so that the steps go up from the last.
        for dimension in dimensions(view) {
            if dimension.step < largest {
                return Self::of_unordered(view);
            }
            largest = dimension.step;
            footprint.add(dimension);
        }
        footprint
    }

    /// The same for any order of strides.
    fn of_unordered(view: &View) -> Self {
        let mut sorted = [Dimension::default(); MAX_NDIMS];
        let mut rank = 0_usize;
        for dimension in dimensions(view) {
            insert_sorted(&mut sorted, rank, dimension);
            rank = rank.wrapping_add(1);
        }
        let mut footprint = Self::of_one_element(view);
        for &dimension in sorted.iter().take(rank) {
            footprint.add(dimension);
        }
        footprint
    }

    /// What all footprints of a view begin with; its extent is that of the whole.
    #[inline]
    fn of_one_element(view: &View) -> Self {
        let mut footprint = Self::single_run(view.byte_offset(), u64::from(view.dtype().size()));
        footprint.extent = view.extent();
        footprint
    }

    /// `nbytes` bytes from `origin` on, which together do not pass 2^64 - 1.
    #[inline]
    pub(crate) const fn single_run(origin: u64, nbytes: u64) -> Self {
        Self { origin, run: nbytes, extent: nbytes, rank: 0, dimensions: [EMPTY; MAX_NDIMS] }
    }

    /// `rows` runs of `run` bytes each, `pitch` bytes from one to the next, which is more than a run.
    #[inline]
    pub(crate) fn of_rows(origin: u64, run: u64, pitch: u64, rows: u64) -> Self {
        let mut footprint = Self::single_run(origin, run);
        if rows > 1 {
            let dimension = Dimension { step: pitch, count: rows };
            footprint.extent = run.saturating_add(dimension.reach());
            footprint.rank = 1;
            footprint.dimensions = [dimension, EMPTY, EMPTY, EMPTY, EMPTY];
        }
        footprint
    }

    /// Adds a dimension whose step is at least that of those before it. The extent is the caller's.
    #[inline]
    fn add(&mut self, dimension: Dimension) {
        // Nothing saturates here for a view, since all of it lies below 2^64.
        if dimension.step <= self.run {
            self.run = self.run.saturating_add(dimension.reach());
            return;
        }
        let rank = usize::from(self.rank);
        for earlier in self.dimensions.iter_mut().take(rank) {
            let behind_last = earlier.step.saturating_mul(earlier.count);
            if dimension.step <= behind_last && dimension.step.checked_rem(earlier.step) == Some(0) {
                let steps = dimension.reach().checked_div(earlier.step).unwrap_or(0);
                earlier.count = earlier.count.saturating_add(steps);
                return;
            }
        }
        if let Some(slot) = self.dimensions.get_mut(rank) {
            *slot = dimension;
            self.rank = self.rank.wrapping_add(1);
        }
    }

    /// The first byte.
    #[must_use]
    #[inline]
    pub const fn origin(&self) -> u64 {
        self.origin
    }

    /// Bytes that lie side by side at each position.
    #[must_use]
    #[inline]
    pub const fn run(&self) -> u64 {
        self.run
    }

    /// Bytes from the first to the last.
    #[must_use]
    #[inline]
    pub const fn extent(&self) -> u64 {
        self.extent
    }

    /// The byte behind the last.
    #[must_use]
    #[inline]
    pub const fn end(&self) -> u64 {
        self.origin.saturating_add(self.extent)
    }

    /// The dimensions, smallest step first.
    #[must_use]
    #[inline]
    pub fn dimensions(&self) -> &[Dimension] {
        self.dimensions.get(..usize::from(self.rank)).unwrap_or(&self.dimensions)
    }

    /// How many dimensions there are, 0 to 5.
    #[inline]
    pub(super) fn rank(&self) -> u32 {
        u32::from(self.rank)
    }

    /// It is one range of bytes without a gap.
    #[must_use]
    #[inline]
    pub const fn is_range(&self) -> bool {
        self.rank == 0
    }

    /// No part of it lies within the reach of another: each step passes all that the smaller ones reach. So every byte of it
    /// has one place in every dimension.
    #[must_use]
    pub fn is_nested(&self) -> bool {
        self.first_entangled().is_none()
    }

    /// The lowest dimension whose step lies within what the smaller ones reach.
    pub(super) fn first_entangled(&self) -> Option<usize> {
        let mut inner = self.run;
        self.dimensions().iter().position(|dimension| {
            let entangled = dimension.step < inner;
            inner = inner.saturating_add(dimension.reach());
            entangled
        })
    }

    /// Every byte of the two lies in ranges that do not meet.
    #[must_use]
    #[inline]
    pub const fn is_apart_from(&self, other: &Self) -> bool {
        self.end() <= other.origin || other.end() <= self.origin
    }

    /// All of `other` lies between the first byte and the last.
    #[must_use]
    #[inline]
    pub const fn spans(&self, other: &Self) -> bool {
        self.origin <= other.origin && other.end() <= self.end()
    }

    /// The part whose place in dimension `index` is one of `count` from `first` on, all of them there.
    pub(super) fn slice(&self, index: usize, first: u64, count: u64) -> Self {
        let mut part = *self;
        let Some(slot) = part.dimensions.get_mut(index) else { return part };
        let whole = *slot;
        slot.count = count;
        let removed = whole.step.saturating_mul(whole.count.saturating_sub(count));
        part.origin = part.origin.saturating_add(whole.step.saturating_mul(first));
        part.extent = part.extent.saturating_sub(removed);
        if count <= 1 {
            part.remove(index);
        }
        part
    }

    /// The part of the run that has `nbytes` bytes from byte number `first` of it on, at every position.
    pub(super) const fn slice_run(&self, first: u64, nbytes: u64) -> Self {
        let mut part = *self;
        part.origin = part.origin.saturating_add(first);
        part.extent = part.extent.saturating_sub(part.run.saturating_sub(nbytes));
        part.run = nbytes;
        part
    }

    /// Without the places in each dimension from which nothing can reach between the bounds of `other`. The bounds meet.
    pub(super) fn trimmed_to(&self, other: &Self) -> Self {
        let mut part = *self;
        for index in (0..usize::from(self.rank)).rev() {
            let Some(&dimension) = part.dimensions.get(index) else { continue };
            let (first, last) = part.places_meeting(dimension, other.origin, other.end());
            if first > last {
                return part;
            }
            part = part.slice(index, first, last.saturating_sub(first).saturating_add(1));
        }
        part
    }

    /// The first and the last place in a dimension from which something may lie in `start..end`; when the first is larger, there is
    /// none.
    pub(super) fn places_meeting(&self, dimension: Dimension, start: u64, end: u64) -> (u64, u64) {
        let places = |bytes: u64| bytes.checked_div(dimension.step).unwrap_or(0);
        let inner = self.extent.saturating_sub(dimension.reach());
        // The first that ends behind the start, and the last that starts before the end.
        let missing = start.saturating_add(1).saturating_sub(self.origin.saturating_add(inner));
        let first = places(missing.saturating_add(dimension.step.saturating_sub(1)));
        match end.checked_sub(self.origin).and_then(|bytes| bytes.checked_sub(1)) {
            Some(bytes) => (first, places(bytes).min(dimension.count.saturating_sub(1))),
            None => (1, 0),
        }
    }

    /// The slices of one position each along dimension `index` whose bounds contain those of `other`.
    pub(super) fn slices_spanning(&self, index: usize, other: &Self) -> impl Iterator<Item = Self> + use<> {
        let whole = *self;
        let dimension = self.dimensions().get(index).copied().unwrap_or_default();
        let extent = self.extent.saturating_sub(dimension.reach());
        let places = |bytes: u64| bytes.checked_div(dimension.step).unwrap_or(0);
        // The last that does not start too late, and the first that does not end too early.
        let last = places(other.origin.saturating_sub(self.origin)).min(dimension.count.saturating_sub(1));
        let missing = other.end().saturating_sub(self.origin.saturating_add(extent));
        let first = places(missing.saturating_add(dimension.step.saturating_sub(1)));
        (first..=last).map(move |place| whole.slice(index, place, 1))
    }

    /// Where the first byte of `other` may lie so that all of it is a block of this one: a smaller box of the same steps, or
    /// of multiples of them. `None` when it fits nowhere in that way.
    pub(super) fn places_of(&self, other: &Self) -> Option<Self> {
        let mut places = *self;
        let narrower = other.run.checked_sub(1)?;
        places.run = places.run.checked_sub(narrower).filter(|&run| run > 0)?;
        places.extent = places.extent.saturating_sub(narrower);
        for dimension in other.dimensions() {
            let reach = dimension.reach();
            let room = places
                .dimensions
                .iter_mut()
                .take(usize::from(self.rank))
                .rev()
                .find(|own| own.reach() >= reach && dimension.step.checked_rem(own.step) == Some(0));
            match room {
                Some(own) => {
                    let steps = reach.checked_div(own.step).unwrap_or(0);
                    own.count = own.count.saturating_sub(steps);
                }
                None => places.run = places.run.checked_sub(reach).filter(|&run| run > 0)?,
            }
            places.extent = places.extent.saturating_sub(reach);
        }
        for index in (0..usize::from(self.rank)).rev() {
            if places.dimensions.get(index)?.count <= 1 {
                places.remove(index);
            }
        }
        Some(places)
    }

    fn remove(&mut self, index: usize) {
        let rank = usize::from(self.rank);
        if let Some(rest) = self.dimensions.get_mut(index..rank) {
            // Each takes the place before its own, from the last on.
            let mut moved = Dimension::default();
            for slot in rest.iter_mut().rev() {
                core::mem::swap(slot, &mut moved);
            }
            self.rank = self.rank.wrapping_sub(1);
        }
    }

    /// The gaps between the positions of dimension `index`, for a nested footprint: what lies behind all that the smaller
    /// dimensions reach and before the next position. `None` when there is no such byte.
    pub(super) fn gaps(&self, index: usize) -> Option<Self> {
        let (smaller, rest) = self.dimensions().split_at_checked(index)?;
        let (own, larger) = rest.split_first()?;
        let inner = smaller.iter().fold(self.run, |reach, dimension| reach.saturating_add(dimension.reach()));
        let nbytes = own.step.checked_sub(inner).filter(|&nbytes| nbytes > 0)?;
        let mut gaps = Self::single_run(self.origin.saturating_add(inner), nbytes);
        let own = Dimension { step: own.step, count: own.count.saturating_sub(1) };
        for &dimension in core::iter::once(&own).chain(larger) {
            gaps.extent = gaps.extent.saturating_add(dimension.reach());
            if dimension.count > 1 {
                gaps.add(dimension);
            }
        }
        Some(gaps)
    }
}

/// A view's dimensions of more than one element, the last first.
#[inline]
fn dimensions(view: &View) -> impl Iterator<Item = Dimension> {
    let size_log2 = view.dtype().size_log2();
    view.shapes().iter().zip(view.strides()).rev().filter(|&(&count, _)| count > 1).map(
        move |(&count, &stride)| {
            // At most (2^32 - 1) * 8.
            Dimension { step: u64::from(stride) << size_log2, count: u64::from(count) }
        },
    )
}

/// Inserts into the first `len` slots, which are sorted by step, keeping them so.
fn insert_sorted(slots: &mut [Dimension; MAX_NDIMS], len: usize, dimension: Dimension) {
    let mut moved = dimension;
    for slot in slots.iter_mut().take(len) {
        if moved.step < slot.step {
            core::mem::swap(slot, &mut moved);
        }
    }
    if let Some(slot) = slots.get_mut(len) {
        *slot = moved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::dtype::DType;

    fn footprint(dtype: DType, shapes: &[u32], strides: &[u32]) -> (u64, std::vec::Vec<(u64, u64)>) {
        let footprint = Footprint::of(&View::new(8, dtype, shapes, strides, 1 << 20).unwrap());
        assert_eq!(footprint.origin(), 8);
        (footprint.run(), footprint.dimensions().iter().map(|d| (d.step, d.count)).collect())
    }

    #[test]
    fn what_lies_side_by_side_is_one_run_in_any_order_of_dimensions() {
        assert_eq!(footprint(DType::Float32, &[3, 4, 5], &[20, 5, 1]), (240, [].into()));
        assert_eq!(footprint(DType::Float32, &[5, 3, 4], &[1, 20, 5]), (240, [].into()));
        assert_eq!(footprint(DType::Uint8, &[3, 3], &[1, 1]), (5, [].into()));
        assert_eq!(footprint(DType::Uint8, &[1, 7, 1], &[9, 1, 3]), (7, [].into()));
    }

    #[test]
    fn a_multiple_within_reach_is_merged_and_one_past_it_is_not() {
        assert_eq!(footprint(DType::Uint8, &[4, 3], &[8, 2]), (1, [(2, 3), (8, 4)].into()));
        assert_eq!(footprint(DType::Uint8, &[4, 4], &[8, 2]), (1, [(2, 16)].into()));
        assert_eq!(footprint(DType::Uint8, &[4, 6], &[8, 2]), (1, [(2, 18)].into()));
        assert_eq!(footprint(DType::Uint8, &[4, 6], &[5, 2]), (1, [(2, 6), (5, 4)].into()));
        assert_eq!(footprint(DType::Int64, &[2, 6], &[64, 1]), (48, [(512, 2)].into()));
    }

    #[test]
    fn gaps_and_slices_are_where_they_should_be() {
        let view = View::new(100, DType::Uint8, &[3, 4, 5], &[100, 10, 1], 4096).unwrap();
        let whole = Footprint::of(&view);
        assert!(whole.is_nested());
        let inner = whole.gaps(0).unwrap();
        assert_eq!((inner.origin(), inner.run(), inner.extent()), (105, 5, 225));
        let outer = whole.gaps(1).unwrap();
        assert_eq!((outer.origin(), outer.run(), outer.extent()), (135, 65, 165));
        let row = whole.slice(1, 2, 1);
        assert_eq!((row.origin(), row.extent(), row.dimensions().len()), (300, 35, 1));
        let column = whole.slice_run(1, 2);
        assert_eq!((column.origin(), column.end(), column.run()), (101, 333, 2));
    }
}
