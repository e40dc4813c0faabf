//! How footprints lie in a plane: a backing cut into rows of one pitch and laid out below one another.
//!
//! A range is at most three areas of any plane: the rest of its first row, whole rows, the start of its last. Rows that are one
//! pitch of the plane apart are one area, or two when they run over the end of the plane's rows. Nothing else has areas.

use super::area::Area;
use crate::overlap::Footprint;

/// The pitch of a plane of one row: no view ends behind it.
pub(super) const ONE_ROW: u64 = u64::MAX;

/// The areas of a footprint, or of its bounds, in one plane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    areas: [Area; 3],
    len: usize,
    /// The areas are the footprint; else they are the range from its first byte to its last.
    pub(super) exact: bool,
}

impl Layout {
    /// In a plane of that pitch, which is not 0.
    #[inline]
    pub(super) fn of(footprint: &Footprint, pitch: u64) -> Self {
        // Most are ranges, and most planes of ranges have one row.
        if footprint.is_range() && footprint.end() <= pitch {
            let only = Area { left: footprint.origin(), right: footprint.end(), top: 0, bottom: 1 };
            return Self { areas: [only, Area::EMPTY, Area::EMPTY], len: 1, exact: true };
        }
        Self::of_any(footprint, pitch)
    }

    fn of_any(footprint: &Footprint, pitch: u64) -> Self {
        match footprint.dimensions() {
            [] => Self::of_range(footprint.origin(), footprint.end(), pitch, true),
            [rows] if rows.step == pitch => {
                Self::of_rows(footprint.origin(), footprint.run(), rows.count, pitch)
            }
            _ => Self::of_range(footprint.origin(), footprint.end(), pitch, false),
        }
    }

    #[inline]
    pub(super) fn areas(&self) -> &[Area] {
        self.areas.get(..self.len).unwrap_or(&self.areas)
    }

    /// One area that contains them all.
    pub(super) fn hull(&self) -> Area {
        let [first, ..] = self.areas;
        self.areas().iter().fold(first, |hull, area| hull.hull(area))
    }

    #[inline]
    fn of_range(start: u64, end: u64, pitch: u64, exact: bool) -> Self {
        if end <= pitch {
            let first = Area { left: start, right: end, top: 0, bottom: 1 };
            return Self { areas: [first, Area::EMPTY, Area::EMPTY], len: 1, exact };
        }
        let (mut top, left) = divide(start, pitch);
        let (bottom, right) = divide(end, pitch);
        let mut layout = Self { areas: [Area::EMPTY; 3], len: 0, exact };
        if top == bottom {
            layout.push(Area { left, right, top, bottom: top.saturating_add(1) });
            return layout;
        }
        if left > 0 {
            layout.push(Area { left, right: pitch, top, bottom: top.saturating_add(1) });
            top = top.saturating_add(1);
        }
        if top < bottom {
            layout.push(Area { left: 0, right: pitch, top, bottom });
        }
        if right > 0 {
            layout.push(Area { left: 0, right, top: bottom, bottom: bottom.saturating_add(1) });
        }
        layout
    }

    fn of_rows(origin: u64, run: u64, rows: u64, pitch: u64) -> Self {
        let (top, left) = divide(origin, pitch);
        // The view ends below 2^64, so nothing saturates.
        let (bottom, right) = (top.saturating_add(rows), left.saturating_add(run));
        let mut layout = Self { areas: [Area::EMPTY; 3], len: 0, exact: true };
        layout.push(Area { left, right: right.min(pitch), top, bottom });
        if let Some(rest) = right.checked_sub(pitch).filter(|&rest| rest > 0) {
            let (top, bottom) = (top.saturating_add(1), bottom.saturating_add(1));
            layout.push(Area { left: 0, right: rest, top, bottom });
        }
        layout
    }

    fn push(&mut self, area: Area) {
        if let Some(slot) = self.areas.get_mut(self.len) {
            *slot = area;
            self.len = self.len.saturating_add(1);
        }
    }
}

/// Row and column of a byte.
#[inline]
fn divide(byte: u64, pitch: u64) -> (u64, u64) {
    (byte.checked_div(pitch).unwrap_or(0), byte.checked_rem(pitch).unwrap_or(0))
}

/// The area of one byte.
pub(super) fn cell(byte: u64, pitch: u64) -> Area {
    let (top, left) = divide(byte, pitch);
    Area { left, right: left.saturating_add(1), top, bottom: top.saturating_add(1) }
}

/// The first byte of an area.
#[inline]
pub(super) const fn first_byte(area: &Area, pitch: u64) -> u64 {
    // Of a byte of some view, so nothing saturates.
    area.top.saturating_mul(pitch).saturating_add(area.left)
}

/// The first byte that two areas which meet have in common.
#[inline]
pub(super) fn first_common_byte(a: &Area, b: &Area, pitch: u64) -> u64 {
    a.top.max(b.top).saturating_mul(pitch).saturating_add(a.left.max(b.left))
}

/// The bytes of an area.
pub(super) fn footprint(area: &Area, pitch: u64) -> Footprint {
    let rows = area.bottom.saturating_sub(area.top);
    let run = area.right.saturating_sub(area.left);
    let (run, rows) = if run == pitch { (run.saturating_mul(rows), 1) } else { (run, rows) };
    Footprint::of_rows(first_byte(area, pitch), run, pitch, rows)
}

/// The first byte of a nested footprint that is not below `from`, and the byte behind the run that it lies in.
pub(super) fn next_run(footprint: &Footprint, from: u64) -> Option<(u64, u64)> {
    let mut base = footprint.origin();
    let mut inner = footprint.extent();
    let from = from.max(base);
    for dimension in footprint.dimensions().iter().rev() {
        // What one position of this dimension reaches; all of it lies below the next position.
        inner = inner.saturating_sub(dimension.reach());
        let last = dimension.count.saturating_sub(1);
        let mut position = from.saturating_sub(base).checked_div(dimension.step).unwrap_or(0).min(last);
        let behind = base.saturating_add(dimension.step.saturating_mul(position)).saturating_add(inner);
        if from >= behind {
            if position == last {
                return None;
            }
            position = position.saturating_add(1);
        }
        base = base.saturating_add(dimension.step.saturating_mul(position));
    }
    let end = base.saturating_add(footprint.run());
    let start = from.max(base);
    (start < end).then_some((start, end))
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]
mod tests {
    use super::*;
    use crate::view::View;
    use crate::wire::dtype::DType;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    fn footprint_of(offset: u64, shapes: &[u32], strides: &[u32]) -> Footprint {
        Footprint::of(&View::new(offset, DType::Uint8, shapes, strides, 1 << 20).unwrap())
    }

    fn bytes(footprint: &Footprint) -> BTreeSet<u64> {
        let mut all: Vec<u64> = (footprint.origin()..footprint.origin() + footprint.run()).collect();
        for dimension in footprint.dimensions() {
            all =
                (0..dimension.count).flat_map(|i| all.iter().map(move |b| b + i * dimension.step)).collect();
        }
        all.into_iter().collect()
    }

    #[test]
    fn areas_of_ranges_and_of_rows_have_exactly_their_bytes() {
        let mut seen = [0; 4];
        for pitch in [7, 10, ONE_ROW] {
            for offset in 0..24 {
                for n in 1..40 {
                    let range = footprint_of(offset, &[n], &[1]);
                    let rows = footprint_of(offset, &[4, n.min(9)], &[10, 1]);
                    for view in [range, rows] {
                        let layout = Layout::of(&view, pitch);
                        assert_eq!(layout.exact, view.is_range() || pitch == 10);
                        let mut laid = BTreeSet::new();
                        for area in layout.areas() {
                            for byte in bytes(&footprint(area, pitch)) {
                                assert!(laid.insert(byte), "byte {byte} lies in two areas");
                                assert!(cell(byte, pitch).meets(area));
                            }
                        }
                        seen[layout.areas().len()] += 1;
                        let bounds = footprint_of(offset, &[u32::try_from(view.extent()).unwrap()], &[1]);
                        assert_eq!(laid, bytes(if layout.exact { &view } else { &bounds }));
                    }
                }
            }
        }
        assert!(seen[0] == 0 && seen[1..].iter().all(|&times| times > 100), "{seen:?}");
    }

    #[test]
    fn the_next_run_is_the_one_that_the_bytes_say() {
        for (shapes, strides) in [
            (&[5_u32, 3, 2][..], &[40_u32, 9, 1][..]),
            (&[3, 4], &[20, 3]),
            (&[2, 2, 2, 2, 3], &[100, 50, 20, 8, 1]),
            (&[9], &[1]),
        ] {
            let view = footprint_of(3, shapes, strides);
            assert!(view.is_nested());
            let bytes = bytes(&view);
            for from in 0..view.end() + 3 {
                let expected = bytes.range(from..).next().map(|&start| {
                    let mut end = start;
                    while bytes.contains(&end) {
                        end += 1;
                    }
                    (start, end)
                });
                assert_eq!(next_run(&view, from), expected, "from {from}");
            }
        }
    }
}
