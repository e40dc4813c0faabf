//! Kernels that sum: matrix products and row sums.
//!
//! Operands are cut into blocks that fit in the caches, packed as wide numbers whatever their strides, and worked on
//! there. Each element of a result is one sum in the order of its index, across all blocks, and is rounded once.

use zerocopy::{FromBytes, IntoBytes};

use super::number::Number;
use super::operand::{Bits, Elements};

/// Rows of a block of the result.
const ROWS: usize = 64;
/// Columns of a block of the result.
const COLUMNS: usize = 128;
/// Terms of a sum that are packed at a time.
const TERMS: usize = 128;
/// Rows of a result that are kept in registers, and divide [`ROWS`].
const TILE_ROWS: usize = 4;
/// Columns of a result that are kept in registers, and divide [`COLUMNS`].
const TILE_COLUMNS: usize = 8;

/// Words of memory that the kernels take which take the most: room for its three blocks, whatever it computes in.
pub const SCRATCH_WORDS: usize = TERMS * ROWS + TERMS * COLUMNS + ROWS * COLUMNS;

/// A rectangle of an operand: where it starts, and its two directions.
#[derive(Clone, Copy)]
struct Block {
    start: usize,
    /// Lines, and elements from one to the next.
    outer: (usize, usize),
    /// Elements of a line, and elements from one to the next.
    inner: (usize, usize),
}

/// C is A times B; with `accumulate`, C and A times B.
pub(super) fn matmul<T: Number>(
    a: &impl Elements<T>,
    b: &impl Elements<T>,
    c: &impl Elements<T>,
    accumulate: bool,
    scratch: &mut [u64],
) {
    let (Some((m, a_row)), Some((k, a_column))) = (dimension(a, 0), dimension(a, 1)) else { return };
    let (Some((n, b_column)), Some((_, b_row))) = (dimension(b, 1), dimension(b, 0)) else { return };
    let (Some((_, c_row)), Some((_, c_column))) = (dimension(c, 0), dimension(c, 1)) else { return };
    let zero = T::Wide::default();
    let Some((a_pack, scratch)) = cut(scratch, TERMS * ROWS) else { return };
    let Some((b_pack, scratch)) = cut(scratch, TERMS * COLUMNS) else { return };
    let Some((sums, _)) = cut(scratch, ROWS * COLUMNS) else { return };
    let mut line = [T::default(); COLUMNS];
    for (row, rows) in blocks(m, ROWS) {
        for (column, columns) in blocks(n, COLUMNS) {
            let c_block = Block {
                start: place(row, c_row, column, c_column),
                outer: (rows, c_row),
                inner: (columns, c_column),
            };
            sums.fill(zero);
            if accumulate {
                pack(c, c_block, sums, COLUMNS, &mut line);
            }
            for (term, terms) in blocks(k, TERMS) {
                let a_block = Block {
                    start: place(row, a_row, term, a_column),
                    outer: (terms, a_column),
                    inner: (rows, a_row),
                };
                let b_block = Block {
                    start: place(term, b_row, column, b_column),
                    outer: (terms, b_row),
                    inner: (columns, b_column),
                };
                pack(a, a_block, a_pack, ROWS, &mut line);
                pack(b, b_block, b_pack, COLUMNS, &mut line);
                multiply::<T>(a_pack, b_pack, sums, (rows, columns, terms));
            }
            unpack(c, c_block, sums, &mut line);
        }
    }
}

/// Adds to `sums` the products of packed blocks: `terms` rows of [`ROWS`] of A, transposed, and of [`COLUMNS`] of B. What lies
/// past `rows` and `columns` is of no meaning, before and after.
fn multiply<T: Number>(
    a: &[T::Wide],
    b: &[T::Wide],
    sums: &mut [T::Wide],
    (rows, columns, terms): (usize, usize, usize),
) {
    let (a, _) = a.as_chunks::<TILE_ROWS>();
    let (b, _) = b.as_chunks::<TILE_COLUMNS>();
    let (sums, _) = sums.as_chunks_mut::<TILE_COLUMNS>();
    for (row_tile, sums) in
        sums.chunks_mut(TILE_ROWS * COLUMNS / TILE_COLUMNS).enumerate().take(rows.div_ceil(TILE_ROWS))
    {
        for column_tile in 0..columns.div_ceil(TILE_COLUMNS) {
            let mut tile = [[T::Wide::default(); TILE_COLUMNS]; TILE_ROWS];
            let places = (column_tile..).step_by(COLUMNS / TILE_COLUMNS);
            for (tile, place) in tile.iter_mut().zip(places.clone()) {
                *tile = sums.get(place).copied().unwrap_or_default();
            }
            let a_terms = a.iter().skip(row_tile).step_by(ROWS / TILE_ROWS);
            let b_terms = b.iter().skip(column_tile).step_by(COLUMNS / TILE_COLUMNS);
            for (a, b) in a_terms.zip(b_terms).take(terms) {
                for (tile, &a) in tile.iter_mut().zip(a) {
                    for (sum, &b) in tile.iter_mut().zip(b) {
                        *sum = T::add(*sum, T::mul(a, b));
                    }
                }
            }
            for (tile, place) in tile.into_iter().zip(places) {
                if let Some(sums) = sums.get_mut(place) {
                    *sums = tile;
                }
            }
        }
    }
}

/// C is the sum of each row of A; with `accumulate`, C and that sum.
pub(super) fn sum_rows<T: Number>(
    a: &impl Elements<T>,
    c: &impl Elements<T>,
    accumulate: bool,
    scratch: &mut [u64],
) {
    let (Some((m, a_row)), Some((n, a_column))) = (dimension(a, 0), dimension(a, 1)) else { return };
    let Some((_, c_step)) = dimension(c, 0) else { return };
    let Some((pack_of_a, _)) = cut(scratch, TERMS * ROWS) else { return };
    let mut line = [T::default(); COLUMNS];
    for (row, rows) in blocks(m, ROWS) {
        let c_block = Block { start: place(row, c_step, 0, 0), outer: (1, 0), inner: (rows, c_step) };
        let mut sums = [T::Wide::default(); ROWS];
        if accumulate {
            pack(c, c_block, &mut sums, ROWS, &mut line);
        }
        for (term, terms) in blocks(n, TERMS) {
            let block = Block {
                start: place(row, a_row, term, a_column),
                outer: (terms, a_column),
                inner: (rows, a_row),
            };
            pack(a, block, pack_of_a, ROWS, &mut line);
            for column in pack_of_a.as_chunks::<ROWS>().0.iter().take(terms) {
                for (sum, &value) in sums.iter_mut().zip(column) {
                    *sum = T::add(*sum, value);
                }
            }
        }
        unpack(c, c_block, &sums, &mut line);
    }
}

/// Elements of a dimension, and elements from one to the next.
fn dimension<T: Number>(operand: &impl Elements<T>, dim: usize) -> Option<(usize, usize)> {
    Some((*operand.geometry().shape().get(dim)?, *operand.geometry().strides().get(dim)?))
}

/// The first `count` words as as many wide numbers, which are never larger, and the words behind. There are enough, since
/// [`SCRATCH_WORDS`] were asked for.
fn cut<W: Bits>(scratch: &mut [u64], count: usize) -> Option<(&mut [W], &mut [u64])> {
    let (words, rest) = scratch.split_at_mut_checked(count)?;
    let (numbers, _) = <[W]>::mut_from_prefix_with_elems(words.as_mut_bytes(), count).ok()?;
    Some((numbers, rest))
}

/// Cuts `count` into pieces of at most `size`: where each starts, and how long it is.
fn blocks(count: usize, size: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).step_by(size).map(move |start| (start, count.saturating_sub(start).min(size)))
}

/// The element at an index. It lies within the operand, where nothing wraps.
fn place(row: usize, row_step: usize, column: usize, column_step: usize) -> usize {
    row.wrapping_mul(row_step).wrapping_add(column.wrapping_mul(column_step))
}

/// Packs a block: its line number `i` from `i * width` of `out` on, widened. It is read along the smaller step.
fn pack<T: Number>(
    operand: &impl Elements<T>,
    block: Block,
    out: &mut [T::Wide],
    width: usize,
    line: &mut [T; COLUMNS],
) {
    let Block { start, outer, inner } = block;
    if inner.1 <= outer.1 || outer.0 == 1 {
        for (out, at) in out.chunks_mut(width).zip(starts(start, outer)) {
            let line = line.get_mut(..inner.0).unwrap_or_default();
            operand.load(at, inner.1, line);
            out.iter_mut().zip(line).for_each(|(out, value)| *out = value.widen());
        }
    } else {
        for (column, at) in starts(start, inner).enumerate() {
            let line = line.get_mut(..outer.0).unwrap_or_default();
            operand.load(at, outer.1, line);
            let out = out.iter_mut().skip(column).step_by(width);
            out.zip(line).for_each(|(out, value)| *out = value.widen());
        }
    }
}

/// Rounds and stores a block of sums, [`COLUMNS`] of them to a line. It is written along the smaller step.
fn unpack<T: Number>(operand: &impl Elements<T>, block: Block, sums: &[T::Wide], line: &mut [T; COLUMNS]) {
    let Block { start, outer, inner } = block;
    if inner.1 <= outer.1 || outer.0 == 1 {
        for (sums, at) in sums.chunks(COLUMNS).zip(starts(start, outer)) {
            let line = line.get_mut(..inner.0).unwrap_or_default();
            line.iter_mut().zip(sums).for_each(|(slot, &sum)| *slot = T::round(sum));
            operand.store(at, inner.1, line);
        }
    } else {
        for (column, at) in starts(start, inner).enumerate() {
            let line = line.get_mut(..outer.0).unwrap_or_default();
            let sums = sums.iter().skip(column).step_by(COLUMNS);
            line.iter_mut().zip(sums).for_each(|(slot, &sum)| *slot = T::round(sum));
            operand.store(at, outer.1, line);
        }
    }
}

/// Where each of `count` lines starts.
fn starts(start: usize, (count, step): (usize, usize)) -> impl Iterator<Item = usize> {
    (0..count).map(move |index| start.wrapping_add(index.wrapping_mul(step)))
}
