//! The overlap rows of docs/figures.md: medians over many pairs, and the slowest single pair, which a mean would hide.
//!
//! Each figure is printed with the time of a plain copy of the same bytes in the same run. Pairs are drawn anew from a fixed seed, so
//! that the branch predictor learns no single one.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a benchmark makes its own input"
)]

use std::hint::black_box;
use std::time::Instant;

use std::num::{NonZeroU32, NonZeroU64};

use bufabi_core::overlap::{Relation, first_common, relate};
use bufabi_core::task_args::{MAX_TENSORS, Scratch};
use bufabi_core::wire::body::Body;
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{Access, DType, Descriptor, Identity, OwnerInstanceId, Submission, Tag, Tensor, View};

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
        (self.next() % u64::from(n)) as u32
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u32) as usize]
    }
}

type Pair = (View, View);

const NBYTES: u64 = 1 << 40;

/// A block of an array, every `step`th element of each dimension.
fn block(random: &mut Random, dtype: DType, array: &[u32], steps: &[u32]) -> View {
    let mut stride = 1_u32;
    let mut offset = 0_u64;
    let (mut shapes, mut strides) = (vec![0; array.len()], vec![0; array.len()]);
    for dim in (0..array.len()).rev() {
        let step = random.one_of(steps);
        let start = random.below(array[dim]);
        let room = (array[dim] - start).div_ceil(step);
        shapes[dim] = 1 + random.below(room);
        strides[dim] = stride * step;
        offset += u64::from(start) * u64::from(stride);
        stride *= array[dim];
    }
    View::new(offset * u64::from(dtype.size()), dtype, &shapes, &strides, NBYTES).unwrap()
}

fn shuffled(random: &mut Random, view: &View) -> View {
    let mut order: Vec<usize> = (0..view.shapes().len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i as u32 + 1) as usize);
    }
    let pick = |of: &[u32]| order.iter().map(|&i| of[i]).collect::<Vec<_>>();
    View::new(view.byte_offset(), view.dtype(), &pick(view.shapes()), &pick(view.strides()), NBYTES).unwrap()
}

fn ranges_apart(random: &mut Random) -> Pair {
    let range = |start: u64, n| View::new(start * 4, DType::Float32, &[n], &[1], NBYTES).unwrap();
    let start = u64::from(random.below(1 << 20));
    let (first, second) = (range(start, 1024), range(start + 1024 + u64::from(random.below(4096)), 512));
    if random.below(2) == 0 { (first, second) } else { (second, first) }
}

fn tiles_of(random: &mut Random, array: &[u32]) -> Pair {
    let one = |random: &mut Random| block(random, DType::Float32, array, &[1]);
    (one(random), one(random))
}

/// Tiles as a matrix is cut into them: a grid.
fn grid_tiles(random: &mut Random) -> Pair {
    let mut one = || {
        let (row, column) = (u64::from(random.below(8)) * 128, u64::from(random.below(8)) * 128);
        View::new((row * 1024 + column) * 4, DType::Float32, &[128, 128], &[1024, 1], NBYTES).unwrap()
    };
    (one(), one())
}

const MATRIX: &[u32] = &[1024, 1024];
const ARRAY: &[u32] = &[8, 16, 12, 64, 64];
const TYPES: &[DType] = &[DType::Uint8, DType::Float16, DType::Float32, DType::Int64];
const ARRAYS: &[&[u32]] = &[
    &[1_048_576],
    &[1024, 1024],
    &[1000, 1200],
    &[1797, 64],
    &[32, 197, 768],
    &[8, 56, 56, 64],
    &[8, 64, 56, 56],
    &[4, 12, 128, 128],
    &[2, 8, 16, 32, 64],
    &[16, 3, 7, 7, 30],
];

/// Stepped blocks of one array.
fn stepped(random: &mut Random) -> Pair {
    let array = random.one_of(ARRAYS);
    let mut one = || block(random, DType::Float32, array, &[1, 2, 3, 4, 7]);
    (one(), one())
}

/// Blocks of one array with their dimensions in any order.
fn transposed(random: &mut Random) -> Pair {
    let array = random.one_of(ARRAYS);
    let one = |random: &mut Random| {
        let view = block(random, DType::Float32, array, &[1, 1, 2]);
        shuffled(random, &view)
    };
    (one(random), one(random))
}

/// Blocks of different arrays over the same bytes, in elements of different types.
fn mixed(random: &mut Random) -> Pair {
    let one = |random: &mut Random| {
        let (array, dtype) = (random.one_of(ARRAYS), random.one_of(TYPES));
        block(random, dtype, array, &[1, 1, 2, 3])
    };
    (one(random), one(random))
}

/// Views of any strides, self-overlapping ones included.
fn any(random: &mut Random) -> Pair {
    let one = |random: &mut Random| {
        let rank = 1 + random.below(5) as usize;
        let shapes: Vec<u32> = (0..rank).map(|_| 1 + random.below(20)).collect();
        let strides: Vec<u32> = (0..rank).map(|_| 1 + random.below(2000)).collect();
        let dtype = random.one_of(TYPES);
        View::new(8 * u64::from(random.below(5000)), dtype, &shapes, &strides, NBYTES).unwrap()
    };
    (one(random), one(random))
}

/// Many large strides without a common divisor, single bytes: made to be hard.
fn hard(random: &mut Random) -> Pair {
    let one = |random: &mut Random| {
        let rank = 3 + random.below(3) as usize;
        let shapes: Vec<u32> = (0..rank).map(|_| 2 + random.below(60)).collect();
        let strides: Vec<u32> = (0..rank).map(|_| (100_000 + random.below(3_000_000)) | 1).collect();
        View::new(u64::from(random.below(50_000_000)), DType::Uint8, &shapes, &strides, NBYTES).unwrap()
    };
    (one(random), one(random))
}

/// Pairs whose bounds meet.
fn pairs(count: usize, meeting: bool, mut draw: impl FnMut(&mut Random) -> Pair) -> Vec<Pair> {
    let mut random = Random(7);
    let mut pairs = Vec::new();
    while pairs.len() < count {
        let (a, b) = draw(&mut random);
        if !meeting || (a.end() > b.byte_offset() && b.end() > a.byte_offset()) {
            pairs.push((a, b));
        }
    }
    pairs
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Nanoseconds per pair: the median of many passes over all of them.
fn per_pair<T>(pairs: &[Pair], mut question: impl FnMut(&View, &View) -> T) -> f64 {
    let mut passes: Vec<f64> = (0..200)
        .map(|_| {
            let start = Instant::now();
            for (a, b) in pairs {
                black_box(question(black_box(a), black_box(b)));
            }
            start.elapsed().as_nanos() as f64 / pairs.len() as f64
        })
        .collect();
    median(&mut passes)
}

/// Nanoseconds of each pair, the best of a few tries, in ascending order.
fn each_pair<T>(pairs: &[Pair], mut question: impl FnMut(&View, &View) -> T) -> Vec<f64> {
    let mut times: Vec<f64> = pairs
        .iter()
        .map(|(a, b)| {
            (0..5)
                .map(|_| {
                    let start = Instant::now();
                    black_box(question(black_box(a), black_box(b)));
                    start.elapsed().as_nanos() as f64
                })
                .fold(f64::INFINITY, f64::min)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times
}

fn copy_of_pair(pairs: &[Pair]) -> f64 {
    per_pair(pairs, |a, b| black_box((*a, *b)))
}

fn kinds(pairs: &[Pair]) -> String {
    let mut counts = [0_usize; 4];
    for (a, b) in pairs {
        let kind = match relate(a, b) {
            Relation::Disjoint => 0,
            Relation::Overlapping { covers: false } => 1,
            Relation::Overlapping { covers: true } => 2,
            Relation::MayOverlap => 3,
        };
        counts[kind] += 1;
    }
    let percent = counts.map(|count| 100.0 * count as f64 / pairs.len() as f64);
    format!(
        "{:.1}% disjoint {:.1}% overlap {:.1}% cover {:.2}% may",
        percent[0], percent[1], percent[2], percent[3]
    )
}

fn fast(name: &str, to_reach: u32, pairs: &[Pair]) {
    let (took, copy) = (per_pair(pairs, relate), copy_of_pair(pairs));
    println!("{name:<34} {took:>8.1} ns  (to reach {to_reach}, plain copy {copy:.1})  {}", kinds(pairs));
}

fn general(name: &str, pairs: &[Pair]) {
    let times = each_pair(pairs, relate);
    let common = each_pair(pairs, first_common);
    let at = |times: &[f64], part: f64| times[((times.len() - 1) as f64 * part) as usize];
    println!(
        "{name:<34} median {:>6.0}  99% {:>6.0}  worst {:>6.0} ns  (to reach 1000 / 50000, plain copy {:.1})  {}",
        at(&times, 0.5),
        at(&times, 0.99),
        at(&times, 1.0),
        copy_of_pair(pairs),
        kinds(pairs)
    );
    println!(
        "{:<34} median {:>6.0}  99% {:>6.0}  worst {:>6.0} ns",
        "  its lowest common byte",
        at(&common, 0.5),
        at(&common, 0.99),
        at(&common, 1.0)
    );
}

/// A task's arguments, and how long the whole submit check takes, in nanoseconds.
fn submit_check(name: &str, to_reach: u32, arguments: &[(Tensor, Tag)]) {
    let (tensors, tags): (Vec<Tensor>, Vec<Tag>) = arguments.iter().copied().unzip();
    let mut scratch = Box::new(Scratch::<MAX_TENSORS>::new());
    let mut copy = tensors.clone();
    let (mut checks, mut copies) = (vec![], vec![]);
    let mut result = Ok(());
    for _ in 0..1000 {
        let start = Instant::now();
        result = Submission::check(black_box(&tensors), black_box(&tags), &[], &mut scratch).map(|_| ());
        checks.push(start.elapsed().as_nanos() as f64);
        let start = Instant::now();
        black_box(&mut copy).copy_from_slice(black_box(&tensors));
        copies.push(start.elapsed().as_nanos() as f64);
    }
    let (check, copy) = (median(&mut checks), median(&mut copies));
    println!("{name:<44} {check:>9.0} ns  (to reach {to_reach}, plain copy {copy:.0})  {result:?}");
}

fn buffer(number: u64) -> Descriptor {
    let fields = DescriptorFields {
        identity: Identity::new(OwnerInstanceId([0xa5; 8]), number, NonZeroU32::MIN),
        access: Access::ReadWrite,
        nbytes: NBYTES,
        owner_worker_path_id: 3,
        body: Body::DeviceMalloc { base: NonZeroU64::MIN },
    };
    Descriptor::new(&fields).unwrap()
}

fn argument(number: u64, tag: Tag, offset: u64, shapes: &[u32], strides: &[u32]) -> (Tensor, Tag) {
    let view = View::new(offset, DType::Float32, shapes, strides, NBYTES).unwrap();
    (Tensor::new(&buffer(number), &view).unwrap(), tag)
}

fn submit_checks() {
    let mut random = Random(3);
    let mut shuffle = |arguments: &[(Tensor, Tag)]| {
        let mut arguments = arguments.to_vec();
        for i in (1..arguments.len()).rev() {
            arguments.swap(i, random.below(i as u32 + 1) as usize);
        }
        arguments
    };
    let rows: Vec<_> =
        (0..256).map(|i| argument(1, Tag::Output, i * 16 * 4096, &[16, 1024], &[1024, 1])).collect();
    submit_check("256 written row slices", 10_000, &rows);
    submit_check("  in any order", 10_000, &shuffle(&rows));
    let columns: Vec<_> =
        (0..256).map(|i| argument(1, Tag::Output, i * 16, &[1024, 4], &[1024, 1])).collect();
    submit_check("256 written column tiles", 30_000, &columns);
    submit_check("  in any order", 30_000, &shuffle(&columns));
    let half: Vec<_> = columns
        .iter()
        .enumerate()
        .map(|(i, &(tensor, tag))| (tensor, if i % 2 == 0 { Tag::Input } else { tag }))
        .collect();
    submit_check("  every other one only read", 30_000, &shuffle(&half));
    let grid: Vec<_> = (0..256)
        .map(|i| argument(1, Tag::Inout, (i / 16 * 64 * 1024 + i % 16 * 64) * 4, &[64, 64], &[1024, 1]))
        .collect();
    submit_check("256 written tiles in a grid", 30_000, &shuffle(&grid));
    let blocks: Vec<_> = (0..256)
        .map(|i| {
            argument(1, Tag::Inout, (i / 16 * 64 * 64 * 4 + i % 16 * 4) * 4, &[4, 64, 4], &[65_536, 256, 1])
        })
        .collect();
    submit_check("256 written blocks of rank 3 (one by one)", 0, &shuffle(&blocks));
    let buffers: Vec<_> = (0..256)
        .map(|i| {
            argument(i / 2, if i % 2 == 0 { Tag::Input } else { Tag::Output }, i % 2 * 4096, &[1024], &[1])
        })
        .collect();
    submit_check("256 ranges of 128 buffers", 0, &buffers);
    submit_check("  in any order", 0, &shuffle(&buffers));
    let reads: Vec<_> = (0..256).map(|i| argument(i, Tag::Input, 0, &[1024], &[1])).collect();
    submit_check("256 read ranges of 256 buffers", 0, &reads);
}

fn main() {
    submit_checks();
    fast("ranges apart", 3, &pairs(1024, false, ranges_apart));
    fast("grid of tiles, rank 2", 10, &pairs(1024, false, grid_tiles));
    fast("any tiles of a matrix, rank 2", 10, &pairs(1024, false, |random| tiles_of(random, MATRIX)));
    fast("any tiles of an array, rank 5", 25, &pairs(1024, false, |random| tiles_of(random, ARRAY)));
    fast("the same, bounds meeting", 25, &pairs(1024, true, |random| tiles_of(random, ARRAY)));
    general("stepped", &pairs(20_000, true, stepped));
    general("transposed", &pairs(20_000, true, transposed));
    general("mixed rank and type", &pairs(20_000, true, mixed));
    general("any strides", &pairs(20_000, true, any));
    general("made to be hard", &pairs(2_000, true, hard));
}
