//! The overlap and submit rows of docs/figures.md, each beside a plain copy of the same bytes in the same run.
//!
//! Pairs are drawn from a fixed seed. Fast answers are timed over many pairs in turn, so that the branch predictor learns no single
//! one; of the others the median and the slowest pair are picked and timed.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a benchmark makes its own input"
)]

use std::hint::black_box;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::{Duration, Instant};

use bufabi_core::overlap::{Relation, first_common, relate};
use bufabi_core::task_args::{MAX_TENSORS, Scratch};
use bufabi_core::wire::body::Body;
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{Access, DType, Descriptor, Identity, OwnerInstanceId, Submission, Tag, Tensor, View};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

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

/// Nanoseconds of each pair, the best of a few tries, in ascending order, with the pair.
fn each_pair<T>(pairs: &[Pair], mut question: impl FnMut(&View, &View) -> T) -> Vec<(f64, Pair)> {
    let mut times: Vec<(f64, Pair)> = pairs
        .iter()
        .map(|&(a, b)| {
            let tries = (0..5).map(|_| {
                let start = Instant::now();
                black_box(question(black_box(&a), black_box(&b)));
                start.elapsed().as_nanos() as f64
            });
            (tries.fold(f64::INFINITY, f64::min), (a, b))
        })
        .collect();
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    times
}

/// What the answers were, so that nobody takes pairs that are all apart for a result.
fn kinds(name: &str, pairs: &[Pair]) {
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
    let [disjoint, overlapping, covering, unknown] =
        counts.map(|count| 100.0 * count as f64 / pairs.len() as f64);
    println!(
        "{name}: {disjoint:.1} % disjoint, {overlapping:.1} % overlapping, {covering:.1} % covering, {unknown:.2} % unknown"
    );
}

/// All pairs in one go: what one of them takes is a 1,024th.
fn all_pairs(c: &mut Criterion) {
    let mut group = c.benchmark_group("overlap of 1024 pairs");
    group.throughput(Throughput::Elements(1024));
    let array = |random: &mut Random| tiles_of(random, ARRAY);
    for (name, pairs) in [
        ("ranges apart", pairs(1024, false, ranges_apart)),
        ("grid of tiles", pairs(1024, false, grid_tiles)),
        ("tiles of a matrix", pairs(1024, false, |random| tiles_of(random, MATRIX))),
        ("tiles of an array of rank 5", pairs(1024, false, array)),
        ("tiles of an array of rank 5, bounds meeting", pairs(1024, true, array)),
    ] {
        kinds(name, &pairs);
        group.bench_function(name, |b| {
            b.iter(|| {
                for (a, b) in &pairs {
                    black_box(relate(black_box(a), black_box(b)));
                }
            });
        });
    }
    let pairs = pairs(1024, false, ranges_apart);
    group.bench_function("plain copy", |b| {
        b.iter(|| {
            for pair in &pairs {
                black_box(*black_box(pair));
            }
        });
    });
}

/// The median pair and the slowest one of many: a mean would hide both.
fn single_pairs(c: &mut Criterion) {
    let mut group = c.benchmark_group("overlap of a pair");
    for (name, pairs) in [
        ("stepped", pairs(5_000, true, stepped)),
        ("transposed", pairs(5_000, true, transposed)),
        ("mixed rank and type", pairs(5_000, true, mixed)),
        ("any strides", pairs(5_000, true, any)),
        ("made to be hard", pairs(1_000, true, hard)),
    ] {
        kinds(name, &pairs);
        let (relations, commons) = (each_pair(&pairs, relate), each_pair(&pairs, first_common));
        let of = |pairs: &[(f64, Pair)]| {
            [("median", pairs.len() / 2), ("slowest", pairs.len() - 1)]
                .map(|(which, at)| (which, pairs[at].1))
        };
        for (which, (first, second)) in of(&relations) {
            group.bench_function(format!("{name}, {which}"), |b| {
                b.iter(|| relate(black_box(&first), black_box(&second)));
            });
        }
        for (which, (first, second)) in of(&commons) {
            group.bench_function(format!("{name}, lowest common byte, {which}"), |b| {
                b.iter(|| first_common(black_box(&first), black_box(&second)));
            });
        }
    }
    let pair = pairs(1, true, mixed)[0];
    group.bench_function("plain copy", |b| b.iter(|| *black_box(&pair)));
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

/// 256 arguments of one task, with the submit check of them all.
fn submit_checks(c: &mut Criterion) {
    let all = |one: &dyn Fn(u64) -> (Tensor, Tag)| (0..256).map(one).collect::<Vec<_>>();
    let tag_of = |i: u64| if i.is_multiple_of(2) { Tag::Input } else { Tag::Output };
    let rows = all(&|i| argument(1, Tag::Output, i * 16 * 4096, &[16, 1024], &[1024, 1]));
    let columns = all(&|i| argument(1, Tag::Output, i * 16, &[1024, 4], &[1024, 1]));
    let half = all(&|i| argument(1, tag_of(i), i * 16, &[1024, 4], &[1024, 1]));
    let grid = all(&|i| {
        let element = i / 16 * 64 * 1024 + i % 16 * 64;
        argument(1, Tag::Inout, element * 4, &[64, 64], &[1024, 1])
    });
    let blocks = all(&|i| {
        let element = i / 64 * 4 * 65_536 + i % 64 * 4;
        argument(1, Tag::Inout, element * 4, &[4, 64, 4], &[65_536, 256, 1])
    });
    let pairs = all(&|i| argument(i / 2, tag_of(i), i % 2 * 4096, &[1024], &[1]));
    let reads = all(&|i| argument(i, Tag::Input, 0, &[1024], &[1]));

    let mut random = Random(3);
    let mut group = c.benchmark_group("submit check of 256 arguments");
    let mut scratch = Box::new(Scratch::<MAX_TENSORS>::new());
    for (name, arguments) in [
        ("row slices", rows),
        ("column tiles", columns),
        ("column tiles, every other one read", half),
        ("tiles in a grid", grid),
        ("blocks of rank 3", blocks),
        ("write-read pairs on 128 buffers", pairs),
        ("reads of 256 buffers", reads),
    ] {
        for order in ["in order", "shuffled"] {
            let mut arguments = arguments.clone();
            if order == "shuffled" {
                for i in (1..arguments.len()).rev() {
                    arguments.swap(i, random.below(i as u32 + 1) as usize);
                }
            }
            let (tensors, tags): (Vec<Tensor>, Vec<Tag>) = arguments.into_iter().unzip();
            Submission::check(&tensors, &tags, &[], &mut scratch).unwrap();
            group.bench_function(format!("{name}, {order}"), |b| {
                b.iter(|| {
                    Submission::check(black_box(&tensors), black_box(&tags), &[], &mut scratch).is_ok()
                });
            });
        }
    }
    let tensors: Vec<Tensor> =
        all(&|i| argument(i, Tag::Input, 0, &[1024], &[1])).iter().map(|a| a.0).collect();
    let mut copy = tensors.clone();
    group.bench_function("plain copy", |b| {
        b.iter(|| black_box(&mut copy).copy_from_slice(black_box(&tensors)));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(1));
    targets = all_pairs, single_pairs, submit_checks
}
criterion_main!(benches);
