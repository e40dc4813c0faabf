//! Overlap against sets of bytes, and against arithmetic where the sets would be too large.

use std::collections::BTreeSet;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::wire::dtype::DType;

mod extreme;

/// Every byte of every element.
fn bytes_of(view: &View) -> BTreeSet<u64> {
    let size = u64::from(view.dtype().size());
    let mut starts = BTreeSet::from([view.byte_offset()]);
    for (&shape, &stride) in view.shapes().iter().zip(view.strides()) {
        let steps = (0..u64::from(shape)).map(|index| index * u64::from(stride) * size);
        starts = steps.flat_map(|step| starts.iter().map(move |start| start + step)).collect();
    }
    starts.into_iter().flat_map(|start| start..start + size).collect()
}

/// All answers about a pair equal those of the sets.
fn agrees_with_sets(a: &View, b: &View) {
    let (in_a, in_b) = (bytes_of(a), bytes_of(b));
    let first = in_a.intersection(&in_b).next().copied();
    let expected = match first {
        None => Relation::Disjoint,
        Some(_) => Relation::Overlapping { covers: in_b.is_subset(&in_a) },
    };
    assert_eq!(relate(a, b), expected, "{a:?}\n{b:?}");
    assert_eq!(relate_footprints(&Footprint::of(a), &Footprint::of(b)), expected, "{a:?}\n{b:?}");
    let common = first.map_or(FirstCommon::Nowhere, FirstCommon::At);
    assert_eq!(first_common(a, b), common, "{a:?}\n{b:?}");
}

fn any_dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(&[DType::Uint8, DType::Int16, DType::Float32, DType::Int64][..])
}

/// Any view of some hundred elements in a small backing, self-overlapping ones included.
fn any_view() -> impl Strategy<Value = View> {
    let dimension = (1_u32..6, prop_oneof![1_u32..8, 1_u32..40, Just(16), Just(32)]);
    (any_dtype(), prop::collection::vec(dimension, 1..=5), 0_u64..60).prop_filter_map(
        "it lies within the backing",
        |(dtype, dimensions, offset)| {
            let (shapes, strides): (Vec<u32>, Vec<u32>) = dimensions.into_iter().unzip();
            View::new(offset * u64::from(dtype.size()), dtype, &shapes, &strides, 4096).ok()
        },
    )
}

/// Views like those of programs: tiles of one array, stepped or not, dimensions in any order.
fn tile() -> impl Strategy<Value = View> {
    let array = (any_dtype(), prop::collection::vec(2_u32..7, 1..=4));
    array.prop_flat_map(|(dtype, array)| {
        let cut = array.iter().map(|&n| {
            (0..n, 1_u32..3)
                .prop_flat_map(move |(start, step)| (Just(start), Just(step), 1..=(n - start).div_ceil(step)))
        });
        let order: Vec<usize> = (0..array.len()).collect();
        (Just(dtype), Just(array.clone()), cut.collect::<Vec<_>>(), Just(order).prop_shuffle()).prop_map(
            |(dtype, array, cut, order)| {
                let mut stride = 1;
                let mut parts = Vec::new();
                let mut offset = 0;
                for (&n, (start, step, count)) in array.iter().zip(cut).rev() {
                    parts.push((count, stride * step));
                    offset += start * stride;
                    stride *= n;
                }
                let (shapes, strides): (Vec<u32>, Vec<u32>) = order.iter().map(|&i| parts[i]).unzip();
                let offset = u64::from(offset * dtype.size());
                View::new(offset, dtype, &shapes, &strides, 1 << 16).unwrap()
            },
        )
    })
}

/// Two tiles of one array, in its own order of dimensions.
fn two_tiles() -> impl Strategy<Value = (View, View)> {
    prop::collection::vec(1_u32..8, 1..=5).prop_flat_map(|array| {
        let cut = || {
            array
                .iter()
                .map(|&n| (0..n).prop_flat_map(move |start| (Just(start), 1..=n - start)))
                .collect::<Vec<_>>()
        };
        (any_dtype(), Just(array.clone()), cut(), cut()).prop_map(|(dtype, array, first, second)| {
            let strides: Vec<u32> = (0..array.len()).map(|dim| array[dim + 1..].iter().product()).collect();
            let view = |cut: Vec<(u32, u32)>| {
                let offset: u32 = cut.iter().zip(&strides).map(|((start, _), stride)| start * stride).sum();
                let shapes: Vec<u32> = cut.iter().map(|&(_, count)| count).collect();
                View::new(u64::from(offset * dtype.size()), dtype, &shapes, &strides, 1 << 18).unwrap()
            };
            (view(first), view(second))
        })
    })
}

/// Two views of any but the same strides.
fn two_of_the_same_strides() -> impl Strategy<Value = (View, View)> {
    prop::collection::vec(prop_oneof![1_u32..8, 1_u32..40, Just(16)], 1..=5).prop_flat_map(|strides| {
        let shapes = prop::collection::vec(prop_oneof![Just(1), 1_u32..5], strides.len());
        let part = (shapes, 0_u64..60);
        (any_dtype(), Just(strides), part.clone(), part).prop_map(|(dtype, strides, first, second)| {
            let view = |(shapes, offset): (Vec<u32>, u64)| {
                View::new(offset * u64::from(dtype.size()), dtype, &shapes, &strides, 1 << 16).unwrap()
            };
            (view(first), view(second))
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 2_000 }))]

    #[test]
    fn any_two_views_agree_with_sets(a in any_view(), b in any_view()) {
        agrees_with_sets(&a, &b);
    }

    #[test]
    fn views_of_programs_agree_with_sets(a in tile(), b in tile()) {
        agrees_with_sets(&a, &b);
    }

    #[test]
    fn tiles_of_one_array_agree_with_sets((a, b) in two_tiles()) {
        agrees_with_sets(&a, &b);
    }

    #[test]
    fn views_of_the_same_strides_agree_with_sets((a, b) in two_of_the_same_strides()) {
        agrees_with_sets(&a, &b);
    }

    #[test]
    fn a_footprint_has_the_bytes_of_its_view(view in any_view()) {
        let footprint = Footprint::of(&view);
        let mut starts = BTreeSet::from([footprint.origin()]);
        for dimension in footprint.dimensions() {
            let steps = (0..dimension.count).map(|place| place * dimension.step);
            starts = steps.flat_map(|step| starts.iter().map(move |start| start + step)).collect();
        }
        let bytes: BTreeSet<u64> = starts.into_iter().flat_map(|at| at..at + footprint.run()).collect();
        prop_assert_eq!(bytes, bytes_of(&view));
        prop_assert_eq!(footprint.extent(), view.extent());
    }
}

/// Pairs that were once answered wrongly.
#[test]
fn pairs_that_went_wrong_before_agree_with_sets() {
    let view = |offset, dtype, shapes: &[u32], strides: &[u32]| {
        View::new(offset, dtype, shapes, strides, 4096).unwrap()
    };
    // A dimension of one element, whose stride stands out of order, took part in finding the indices.
    agrees_with_sets(
        &view(432, DType::Int64, &[6, 6, 1, 1], &[6, 1, 4, 1]),
        &view(544, DType::Int64, &[1, 3, 2, 4], &[6, 1, 4, 1]),
    );
    // A block was looked for in a run shorter than its own.
    agrees_with_sets(&view(0, DType::Uint8, &[3, 3], &[2, 3]), &view(0, DType::Int16, &[1, 3], &[1, 2]));
    // Covered by a view that overlaps itself in many dimensions: once past the work bound.
    agrees_with_sets(
        &view(0, DType::Int16, &[5, 2, 3, 4, 4], &[16, 4, 7, 3, 7]),
        &view(52, DType::Float32, &[3, 2, 5], &[2, 6, 6]),
    );
}

#[test]
fn every_small_pair_of_rank_two_agrees_with_sets() {
    let mut views = Vec::new();
    for shapes in [[1, 3], [2, 2], [3, 3], [2, 3]] {
        for outer in 1..6 {
            for inner in 1..4 {
                for (dtype, offsets) in [(DType::Uint8, 0..3), (DType::Int16, 0..2)] {
                    for offset in offsets {
                        let offset = offset * u64::from(dtype.size());
                        views.push(View::new(offset, dtype, &shapes, &[outer, inner], 64).unwrap());
                    }
                }
            }
        }
    }
    // Under Miri, which takes a thousand times as long, every seventeenth.
    let step = if cfg!(miri) { 17 } else { 1 };
    for a in views.iter().step_by(step) {
        for b in views.iter().step_by(step) {
            agrees_with_sets(a, b);
        }
    }
}
