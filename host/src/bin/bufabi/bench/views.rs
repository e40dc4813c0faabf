//! What views cost: whether two overlap, by their kinds, and the check of 256 arguments at a submit.

use std::hint::black_box;
use std::time::Instant;

use bufabi_core::overlap::relate;
use bufabi_core::task_args::{MAX_TENSORS, Scratch};
use bufabi_core::{DType, Submission, Tag, Tensor, View};

use super::session::{Goal, Session};
use super::wire::{tensor, view};
use crate::failure::Failure;

/// Pairs of one pass.
const PAIRS: u32 = 256;
/// Pairs of which the median one and the slowest are looked for.
const DRAWN: usize = 512;

type Pair = (View, View);

/// A small generator of numbers (splitmix64): the same pairs in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of 0 to `n - 1`.
    fn below(&mut self, n: u32) -> u32 {
        u32::try_from(self.next().checked_rem(u64::from(n)).unwrap_or(0)).unwrap_or(0)
    }

    fn one_of<T: Copy>(&mut self, first: T, others: &[T]) -> T {
        let count = u32::try_from(others.len()).unwrap_or(0).saturating_add(1);
        let index = usize::try_from(self.below(count)).unwrap_or(0);
        index.checked_sub(1).and_then(|index| others.get(index).copied()).unwrap_or(first)
    }
}

/// A block of an array in row-major order, every `step`th element of each dimension; transposed, its dimensions the other way round.
fn block(
    random: &mut Random,
    dtype: DType,
    array: &[u32],
    steps: &[u32],
    is_transposed: bool,
) -> Result<View, Failure> {
    let (mut stride, mut offset) = (1_u32, 0_u64);
    let (mut shapes, mut strides) = (Vec::new(), Vec::new());
    for &count in array.iter().rev() {
        let step = random.one_of(1, steps);
        let start = random.below(count);
        let room = count.saturating_sub(start).div_ceil(step);
        shapes.push(random.below(room).saturating_add(1));
        strides.push(stride.saturating_mul(step));
        offset = offset.saturating_add(u64::from(start).saturating_mul(stride.into()));
        stride = stride.saturating_mul(count);
    }
    if !is_transposed {
        shapes.reverse();
        strides.reverse();
    }
    view(offset.saturating_mul(dtype.size().into()), dtype, &shapes, &strides)
}

fn range(start: u64, count: u32) -> Result<View, Failure> {
    view(start.saturating_mul(4), DType::Float32, &[count], &[1])
}

fn ranges_apart(random: &mut Random) -> Result<Pair, Failure> {
    let start = u64::from(random.below(1 << 20));
    let behind = start.saturating_add(1024).saturating_add(random.below(4096).into());
    let (first, second) = (range(start, 1024)?, range(behind, 512)?);
    Ok(if random.below(2) == 0 { (first, second) } else { (second, first) })
}

const MATRIX: &[u32] = &[1024, 1024];
const ARRAY: &[u32] = &[8, 16, 12, 64, 64];
const TYPES: &[DType] = &[DType::Uint8, DType::Float16, DType::Int64];
const ARRAYS: &[&[u32]] =
    &[&[1_048_576], &[1000, 1200], &[1797, 64], &[32, 197, 768], &[8, 56, 56, 64], &[2, 8, 16, 32, 64]];

fn tiles(random: &mut Random, array: &[u32]) -> Result<Pair, Failure> {
    let mut one = || block(random, DType::Float32, array, &[], false);
    Ok((one()?, one()?))
}

fn stepped(random: &mut Random) -> Result<Pair, Failure> {
    let array = random.one_of(MATRIX, ARRAYS);
    let mut one = || block(random, DType::Float32, array, &[2, 3, 4, 7], false);
    Ok((one()?, one()?))
}

fn transposed(random: &mut Random) -> Result<Pair, Failure> {
    let array = random.one_of(MATRIX, ARRAYS);
    let first = block(random, DType::Float32, array, &[1, 2], false)?;
    Ok((first, block(random, DType::Float32, array, &[1, 2], true)?))
}

fn mixed(random: &mut Random) -> Result<Pair, Failure> {
    let mut one = || {
        let (array, dtype) = (random.one_of(MATRIX, ARRAYS), random.one_of(DType::Float32, TYPES));
        block(random, dtype, array, &[1, 2, 3], false)
    };
    Ok((one()?, one()?))
}

/// Pairs, those alone whose bounds meet if it is about these.
fn pairs(
    count: usize,
    meeting: bool,
    draw: impl Fn(&mut Random) -> Result<Pair, Failure>,
) -> Result<Vec<Pair>, Failure> {
    let mut random = Random(7);
    let mut pairs = Vec::with_capacity(count);
    while pairs.len() < count {
        let (a, b) = draw(&mut random)?;
        if !meeting || (a.end() > b.byte_offset() && b.end() > a.byte_offset()) {
            pairs.push((a, b));
        }
    }
    Ok(pairs)
}

/// The pair that takes the median time, and the slowest one.
fn median_and_slowest(pairs: &[Pair]) -> [Option<Pair>; 2] {
    let time = |(a, b): &Pair| {
        let tries = (0..5).map(|_| {
            let start = Instant::now();
            black_box(relate(black_box(a), black_box(b)));
            start.elapsed()
        });
        tries.min()
    };
    let mut times: Vec<_> = pairs.iter().map(|pair| (time(pair), pair)).collect();
    times.sort_by_key(|&(time, _)| time);
    let pair = |&(_, pair): &(_, &Pair)| *pair;
    [times.get(times.len() / 2).map(pair), times.last().map(pair)]
}

pub(super) fn relations(session: &mut Session) -> Result<(), Failure> {
    let many = usize::try_from(PAIRS).unwrap_or(0);
    for (name, goal, pairs) in [
        ("overlap, ranges apart", 3.0, pairs(many, false, ranges_apart)?),
        ("overlap, tiles of a matrix", 10.0, pairs(many, false, |random| tiles(random, MATRIX))?),
        ("overlap, tiles of an array of rank 5", 25.0, pairs(many, false, |random| tiles(random, ARRAY))?),
    ] {
        session.copy(name, Goal::AtMost(goal), size_of::<Pair>(), PAIRS, || {
            for (a, b) in &pairs {
                black_box(relate(black_box(a), black_box(b)));
            }
        });
    }
    for (names, pairs) in [
        (["overlap, stepped, median", "overlap, stepped, slowest"], pairs(DRAWN, true, stepped)?),
        (["overlap, transposed, median", "overlap, transposed, slowest"], pairs(DRAWN, true, transposed)?),
        (
            ["overlap, mixed rank and type, median", "overlap, mixed rank and type, slowest"],
            pairs(DRAWN, true, mixed)?,
        ),
    ] {
        if !session.wants(&names) {
            continue;
        }
        for ((name, goal), pair) in names.into_iter().zip([1000.0, 50_000.0]).zip(median_and_slowest(&pairs))
        {
            let Some((a, b)) = pair else { continue };
            session.copy(name, Goal::AtMost(goal), size_of::<Pair>(), 1, || {
                relate(black_box(&a), black_box(&b))
            });
        }
    }
    Ok(())
}

/// Tensors of one task, each written, as many as a task may have.
fn written(shapes: &[u32], strides: &[u32], step: u64) -> Result<Vec<Tensor>, Failure> {
    let count = u64::try_from(MAX_TENSORS).unwrap_or(0);
    let one = |index: u64| tensor(1, &view(index.saturating_mul(step), DType::Float32, shapes, strides)?);
    (0..count).map(one).collect()
}

pub(super) fn submit_checks(session: &mut Session) -> Result<(), Failure> {
    let mut scratch = Box::new(Scratch::<MAX_TENSORS>::new());
    for (name, goal, tensors) in [
        ("submit check, 256 row slices", 10_000.0, written(&[16, 1024], &[1024, 1], 16 * 4096)?),
        ("submit check, 256 column tiles", 30_000.0, written(&[1024, 4], &[1024, 1], 16)?),
    ] {
        let tags = vec![Tag::Output; tensors.len()];
        session.copy(name, Goal::AtMost(goal), size_of_val(tensors.as_slice()), 1, || {
            Submission::check(black_box(&tensors), black_box(&tags), &[], &mut scratch).is_ok()
        });
    }
    Ok(())
}
