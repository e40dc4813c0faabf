//! Ranges and tiles of one pitch as rectangles of rows and columns, and a sweep that finds two of them that clash.

use crate::overlap::Footprint;

/// Rectangles that one argument can become: a range has a first row that it begins within, whole rows, and a last one.
const PARTS: usize = 3;

/// Bytes of rows and columns: `first_row..end_row` by `first_column..end_column`.
#[derive(Clone, Copy, Debug)]
struct Rectangle {
    first_row: u64,
    end_row: u64,
    first_column: u64,
    end_column: u64,
    index: u16,
    writes: bool,
}

impl Rectangle {
    const NONE: Self =
        Self { first_row: 0, end_row: 0, first_column: 0, end_column: 0, index: 0, writes: false };
}

/// The rectangles of up to `N` arguments, and the lists that the sweep keeps.
#[derive(Debug)]
pub(super) struct Board<const N: usize> {
    rectangles: [[Rectangle; PARTS]; N],
    drawn: usize,
    /// Written rectangles that the sweep is in, by column; no two of them share one.
    written: [[Strip; PARTS]; N],
    /// Rectangles that are only read and that the sweep is in.
    read: [[Strip; PARTS]; N],
}

/// The columns of a rectangle that the sweep is in, and the row behind its last.
#[derive(Clone, Copy, Debug)]
struct Strip {
    first_column: u64,
    end_column: u64,
    end_row: u64,
    index: u16,
}

impl Strip {
    const NONE: Self = Self { first_column: 0, end_column: 0, end_row: 0, index: 0 };

    const fn of(rectangle: &Rectangle) -> Self {
        Self {
            first_column: rectangle.first_column,
            end_column: rectangle.end_column,
            end_row: rectangle.end_row,
            index: rectangle.index,
        }
    }
}

impl<const N: usize> Board<N> {
    pub(super) const fn new() -> Self {
        Self {
            rectangles: [[Rectangle::NONE; PARTS]; N],
            drawn: 0,
            written: [[Strip::NONE; PARTS]; N],
            read: [[Strip::NONE; PARTS]; N],
        }
    }

    pub(super) const fn clear(&mut self) {
        self.drawn = 0;
    }

    /// Draws a range, or a tile of that pitch, in rows of `pitch` bytes that begin at `base`, which is not behind it.
    pub(super) fn draw(&mut self, footprint: &Footprint, base: u64, pitch: u64, index: u16, writes: bool) {
        let from_base = footprint.origin().saturating_sub(base);
        let row = from_base.checked_div(pitch).unwrap_or(0);
        let column = from_base.checked_rem(pitch).unwrap_or(0);
        let mut add = |first_row: u64, rows: u64, first_column: u64, end_column: u64| {
            if let Some(slot) = self.rectangles.as_flattened_mut().get_mut(self.drawn)
                && rows > 0
            {
                let end_row = first_row.saturating_add(rows);
                *slot = Rectangle { first_row, end_row, first_column, end_column, index, writes };
                self.drawn = self.drawn.saturating_add(1);
            }
        };
        // The run's part in the row where it begins, and what is left of it for later ones.
        let end_column = column.saturating_add(footprint.run()).min(pitch);
        let left = footprint.run().saturating_sub(end_column.saturating_sub(column));
        let rows = footprint.dimensions().first().map_or(1, |tile| tile.count);
        add(row, rows, column, end_column);
        if left > 0 {
            // A tile's run is shorter than the pitch, so that only a range has whole rows here.
            let whole_rows = left.checked_div(pitch).unwrap_or(0);
            let next_row = row.saturating_add(1);
            add(next_row, whole_rows, 0, pitch);
            let rest = left.checked_rem(pitch).unwrap_or(0);
            if rest > 0 {
                add(next_row.saturating_add(whole_rows), rows, 0, rest);
            }
        }
    }

    /// Goes through the rows and finds two arguments that have a byte in common which one of them writes.
    pub(super) fn sweep(&mut self) -> Option<(u16, u16)> {
        let rectangles = self.rectangles.as_flattened_mut().get_mut(..self.drawn)?;
        rectangles.sort_unstable_by_key(|rectangle| (rectangle.first_row, rectangle.first_column));
        let mut written = List { strips: self.written.as_flattened_mut(), len: 0 };
        let mut read = List { strips: self.read.as_flattened_mut(), len: 0 };
        for rectangle in &*rectangles {
            let strip = Strip::of(rectangle);
            let place = written.make_room(&strip, rectangle.first_row).map_err(|met| (met, strip.index));
            let place = match place {
                Ok(place) => place,
                Err(clash) => return Some(clash),
            };
            if rectangle.writes {
                if let Some(met) = read.meeting(&strip, rectangle.first_row) {
                    return Some((met, strip.index));
                }
                written.insert(place, strip);
            } else {
                read.insert(read.len, strip);
            }
        }
        None
    }
}

/// Strips that the sweep is in, or was when it was last seen to.
struct List<'a> {
    strips: &'a mut [Strip],
    len: usize,
}

impl List<'_> {
    /// In a list sorted by column in which no two share one: removes those that the strip meets and that end before `row`, and
    /// says where the strip would stand. The error is the index of one that it meets and that does not.
    fn make_room(&mut self, strip: &Strip, row: u64) -> Result<usize, u16> {
        let listed = self.strips.get(..self.len).unwrap_or_default();
        // Rows come from left to right, so that the place is often the end.
        if listed.last().is_none_or(|last| last.end_column <= strip.first_column) {
            return Ok(self.len);
        }
        let first = listed.partition_point(|other| other.end_column <= strip.first_column);
        let mut end = first;
        while let Some(other) = listed.get(end).filter(|other| other.first_column < strip.end_column) {
            if other.end_row > row {
                return Err(other.index);
            }
            end = end.saturating_add(1);
        }
        if end > first {
            self.strips.copy_within(end..self.len, first);
            self.len = self.len.saturating_sub(end.saturating_sub(first));
        }
        Ok(first)
    }

    /// The index of one that the strip meets, in a list in no order. Those that ended are removed on the way.
    fn meeting(&mut self, strip: &Strip, row: u64) -> Option<u16> {
        let mut place = 0;
        while place < self.len {
            let other = self.strips.get(place)?;
            if other.end_row <= row {
                self.len = self.len.saturating_sub(1);
                self.strips.swap(place, self.len);
                continue;
            }
            if other.first_column < strip.end_column && strip.first_column < other.end_column {
                return Some(other.index);
            }
            place = place.saturating_add(1);
        }
        None
    }

    /// Inserts at a place within the list. There is room for as many strips as rectangles.
    fn insert(&mut self, place: usize, strip: Strip) {
        let end = self.len.saturating_add(1);
        if let Some(tail) = self.strips.get_mut(place..end) {
            tail.rotate_right(1);
            if let Some(first) = tail.first_mut() {
                *first = strip;
            }
            self.len = end;
        }
    }
}
