//! Ranges and tiles of one pitch as rectangles of rows and columns, and a sweep that finds two of them that clash.

use core::ops::Range;

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

    const fn has_columns_of(&self, other: &Self) -> bool {
        self.first_column == other.first_column && self.end_column == other.end_column
    }
}

/// The rectangles of up to `N` arguments, and the lists that the sweep keeps.
#[derive(Debug)]
pub(super) struct Board<const N: usize> {
    rectangles: [[Rectangle; PARTS]; N],
    drawn: usize,
    written: [[u16; PARTS]; N],
    read: [[u16; PARTS]; N],
    read_again: [[u16; PARTS]; N],
}

impl<const N: usize> Board<N> {
    pub(super) const fn new() -> Self {
        Self {
            rectangles: [[Rectangle::NONE; PARTS]; N],
            drawn: 0,
            written: [[0; PARTS]; N],
            read: [[0; PARTS]; N],
            read_again: [[0; PARTS]; N],
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
    ///
    /// It knows the rectangles that it is in: those that are written, of which no two share a column; of those that are only read
    /// as many as share none; and the rest of the read ones.
    pub(super) fn sweep(&mut self) -> Option<(u16, u16)> {
        let rectangles = self.rectangles.as_flattened_mut().get_mut(..self.drawn)?;
        rectangles.sort_unstable_by_key(|rectangle| (rectangle.first_row, rectangle.first_column));
        let rectangles = &*rectangles;
        let list = |places| List { rectangles, places, len: 0 };
        let mut written = list(self.written.as_flattened_mut());
        let mut read = list(self.read.as_flattened_mut());
        let mut read_again = list(self.read_again.as_flattened_mut());
        for (number, rectangle) in (0_u16..).zip(rectangles) {
            let place = match written.room_for(rectangle) {
                Ok(place) => place,
                Err((_, met)) => return Some((met.index, rectangle.index)),
            };
            if rectangle.writes {
                if let Err((_, met)) = read.room_for(rectangle) {
                    return Some((met.index, rectangle.index));
                }
                if let Some(met) = read_again.meeting(rectangle) {
                    return Some((met.index, rectangle.index));
                }
                written.put(place, number);
                continue;
            }
            match read.room_for(rectangle) {
                Ok(place) => read.put(place, number),
                // The same columns, read by several: what counts is where the last of them ends.
                Err((place, met)) if met.has_columns_of(rectangle) => {
                    if met.end_row < rectangle.end_row {
                        read.set(place, number);
                    }
                }
                Err(_) => read_again.put(read_again.len..read_again.len, number),
            }
        }
        None
    }
}

/// Rectangles that the sweep is in, or was when it last looked, by their numbers.
struct List<'a> {
    rectangles: &'a [Rectangle],
    places: &'a mut [u16],
    len: usize,
}

impl<'a> List<'a> {
    fn at(&self, place: usize) -> Option<&'a Rectangle> {
        self.places.get(..self.len)?.get(place).and_then(|&number| self.rectangles.get(usize::from(number)))
    }

    /// In a list sorted by column in which no two share one: the places of those that share one with the rectangle and end above
    /// it, which it may take. The error is one that does not end above it, and its place.
    fn room_for(&self, rectangle: &Rectangle) -> Result<Range<usize>, (usize, &'a Rectangle)> {
        let is_left = |other: &Rectangle| other.end_column <= rectangle.first_column;
        // Rows come from left to right, so that the place is often the end.
        if self.len.checked_sub(1).and_then(|last| self.at(last)).is_none_or(is_left) {
            return Ok(self.len..self.len);
        }
        let listed = self.places.get(..self.len).unwrap_or_default();
        let first =
            listed.partition_point(|&number| self.rectangles.get(usize::from(number)).is_some_and(is_left));
        let mut end = first;
        while let Some(other) = self.at(end).filter(|other| other.first_column < rectangle.end_column) {
            if other.end_row > rectangle.first_row {
                return Err((end, other));
            }
            end = end.saturating_add(1);
        }
        Ok(first..end)
    }

    /// One that shares a byte with the rectangle, in a list in no order. Those that end above it are removed on the way.
    fn meeting(&mut self, rectangle: &Rectangle) -> Option<&'a Rectangle> {
        let mut place = 0;
        while let Some(other) = self.at(place) {
            if other.end_row <= rectangle.first_row {
                self.len = self.len.saturating_sub(1);
                let last = self.places.get(self.len).copied()?;
                self.set(place, last);
                continue;
            }
            if other.first_column < rectangle.end_column && rectangle.first_column < other.end_column {
                return Some(other);
            }
            place = place.saturating_add(1);
        }
        None
    }

    /// Puts one in the place of those that it has room for. There are places for as many as there are rectangles.
    fn put(&mut self, room: Range<usize>, number: u16) {
        let len = self.len;
        match room.end.saturating_sub(room.start) {
            0 => {
                let mut moved = number;
                for place in self.places.iter_mut().skip(room.start).take(len.saturating_sub(room.start)) {
                    core::mem::swap(place, &mut moved);
                }
                self.set(len, moved);
                self.len = len.saturating_add(1);
            }
            1 => self.set(room.start, number),
            taken => {
                self.set(room.start, number);
                let surplus = taken.saturating_sub(1);
                for to in room.start.saturating_add(1)..len.saturating_sub(surplus) {
                    if let Some(&moved) = self.places.get(to.saturating_add(surplus)) {
                        self.set(to, moved);
                    }
                }
                self.len = len.saturating_sub(surplus);
            }
        }
    }

    fn set(&mut self, place: usize, number: u16) {
        if let Some(slot) = self.places.get_mut(place) {
            *slot = number;
        }
    }
}
