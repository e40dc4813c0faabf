//! Overlap where no set of bytes fits a memory: strides and shapes near 2^32, offsets near 2^64. What is true is known from
//! how the pairs are made.

use std::vec::Vec;

use proptest::prelude::*;

use super::*;

/// The last byte that a view can have, and one more.
const END: u64 = u64::MAX - 1;

/// Numbers of every size up to 2^32.
fn any_stride() -> impl Strategy<Value = u32> {
    prop_oneof![
        (0_u32..32).prop_map(|bits| u32::MAX >> bits),
        (1_u32..32).prop_map(|bits| 1 << bits),
        1_u32..=u32::MAX,
        1_u32..5_000,
    ]
}

/// Shapes and strides whose extent is legal somewhere.
fn geometry() -> impl Strategy<Value = (DType, Vec<u32>, Vec<u32>)> {
    let dimensions = prop::collection::vec((prop_oneof![any_stride(), 1_u32..20], any_stride()), 1..=5);
    (any_dtype(), dimensions).prop_filter_map("its extent fits", |(dtype, dimensions)| {
        let (shapes, strides): (Vec<u32>, Vec<u32>) = dimensions.into_iter().unzip();
        View::new(0, dtype, &shapes, &strides, END).ok().map(|_| (dtype, shapes, strides))
    })
}

/// A view together with the first byte of one of its elements.
fn view_and_element() -> impl Strategy<Value = (View, u64)> {
    (geometry(), any::<[u32; 5]>(), any::<u64>()).prop_map(|((dtype, shapes, strides), picks, offset)| {
        let size = u64::from(dtype.size());
        let extent = View::new(0, dtype, &shapes, &strides, END).unwrap().extent();
        let offset = offset % (END - extent + 1) / size * size;
        let view = View::new(offset, dtype, &shapes, &strides, END).unwrap();
        (view, offset + element(&shapes, &strides, &picks) * size)
    })
}

/// The element that an index picks, in elements from the first.
fn element(shapes: &[u32], strides: &[u32], picks: &[u32; 5]) -> u64 {
    let index = shapes.iter().zip(picks).map(|(&shape, &pick)| u64::from(pick % shape));
    index.zip(strides).map(|(index, &stride)| index * u64::from(stride)).sum()
}

fn byte(at: u64) -> View {
    View::new(at, DType::Uint8, &[1], &[1], END).unwrap()
}

/// A box of an array: the first index and the number of them, for each dimension.
type Cut = Vec<(u32, u32)>;

/// An array with rows of up to 4 GiB, and two boxes of it.
fn two_boxes() -> impl Strategy<Value = (Vec<u32>, Cut, Cut)> {
    let inner = prop::collection::vec(1_u32..=200, 0..=4);
    let outer = prop_oneof![1_u32..50, 1_u32 << 29..1 << 31];
    (inner, outer).prop_flat_map(|(mut array, outer)| {
        array.insert(0, outer);
        let cut = || {
            let dimension = |&n: &u32| {
                (0..n).prop_flat_map(move |start| {
                    let rest = n - start;
                    (Just(start), prop_oneof![1..=rest, Just(rest), Just(1)])
                })
            };
            array.iter().map(dimension).collect::<Vec<_>>()
        };
        (Just(array.clone()), cut(), cut())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 2_000 }))]

    /// The second view is moved so that one of its elements lies on one of the first's.
    #[test]
    fn a_known_common_byte_is_never_missed(
        (a, common) in view_and_element(),
        (dtype, shapes, strides) in geometry(),
        picks in any::<[u32; 5]>(),
    ) {
        let size = u64::from(dtype.size());
        let own = element(&shapes, &strides, &picks) * size;
        prop_assume!(common >= own);
        let offset = (common - own) / size * size;
        let Ok(b) = View::new(offset, dtype, &shapes, &strides, END) else { return Ok(()) };
        let lowest = a.byte_offset().max(b.byte_offset());
        for (a, b) in [(&a, &b), (&b, &a)] {
            prop_assert!(relate(a, b).may_overlap());
            match first_common(a, b) {
                FirstCommon::Nowhere => prop_assert!(false, "a common byte is missed"),
                FirstCommon::NotBelow(bound) => prop_assert_eq!(bound, lowest),
                FirstCommon::At(found) => {
                    prop_assert!(lowest <= found && found <= common);
                    prop_assert!(relate(a, &byte(found)).may_overlap());
                    prop_assert!(relate(b, &byte(found)).may_overlap());
                }
            }
        }
    }

    /// All strides are multiples of a number within which the elements of the two lie side by side.
    #[test]
    fn views_in_different_residues_are_disjoint(
        first in geometry(),
        second in geometry(),
        modulus in 8_u32..40,
        place in 0_u64..40,
    ) {
        let spread = |(_, shapes, strides): (DType, Vec<u32>, Vec<u32>), offset: u64| {
            let strides: Vec<u32> = strides.iter().map(|&stride| (stride / modulus).max(1) * modulus).collect();
            View::new(offset, DType::Uint8, &shapes, &strides, END).ok()
        };
        let far = u64::from(modulus) * 1_000_003;
        let place = 1 + place % (u64::from(modulus) - 1);
        let (Some(a), Some(b)) = (spread(first, far), spread(second, far * 3 + place)) else { return Ok(()) };
        prop_assert_eq!(relate(&a, &b), Relation::Disjoint);
        prop_assert_eq!(relate(&b, &a), Relation::Disjoint);
        prop_assert_eq!(first_common(&a, &b), FirstCommon::Nowhere);
    }

    /// A small pair of single bytes, blown up and moved to the end of what is addressable, answers as the small one does.
    #[test]
    fn a_pair_scaled_and_moved_answers_as_before(
        first in prop::collection::vec((1_u32..6, 1_u32..30), 1..=4),
        second in prop::collection::vec((1_u32..6, 1_u32..30), 1..=4),
        offsets in (0_u64..60, 0_u64..60),
        scale in prop_oneof![1_u32..100, 100_000_000_u32..143_000_000],
        back in 0_u64..1_000,
    ) {
        let view = |dimensions: &[(u32, u32)], offset: u64, scale: u32, moved: u64| {
            let (shapes, strides): (Vec<u32>, Vec<u32>) =
                dimensions.iter().map(|&(shape, stride)| (shape, stride * scale)).unzip();
            View::new(moved + offset * u64::from(scale), DType::Uint8, &shapes, &strides, u64::MAX).unwrap()
        };
        let (a, b) = (view(&first, offsets.0, 1, 0), view(&second, offsets.1, 1, 0));
        let (in_a, in_b) = (bytes_of(&a), bytes_of(&b));
        let moved = u64::MAX - back - a.end().max(b.end()) * u64::from(scale);
        let (far_a, far_b) = (view(&first, offsets.0, scale, moved), view(&second, offsets.1, scale, moved));
        let common = in_a.intersection(&in_b).next().map(|&byte| moved + byte * u64::from(scale));
        prop_assert_eq!(first_common(&far_a, &far_b), common.map_or(FirstCommon::Nowhere, FirstCommon::At));
        match relate(&far_a, &far_b) {
            Relation::Disjoint => prop_assert_eq!(common, None),
            Relation::Overlapping { covers } => {
                prop_assert!(common.is_some());
                prop_assert_eq!(covers, in_b.is_subset(&in_a));
            }
            // Whether one that overlaps itself covers another cannot always be told for large ones.
            Relation::MayOverlap => {
                prop_assert!(common.is_some() && !Footprint::of(&far_a).is_nested());
            }
        }
    }

    /// Boxes of one array share what their indices share, in whatever order the dimensions stand.
    #[test]
    fn boxes_of_a_huge_array_meet_as_their_indices_do(
        (array, first, second) in two_boxes(),
        dtype in any_dtype(),
        orders in (Just([0, 1, 2, 3, 4]).prop_shuffle(), Just([0, 1, 2, 3, 4]).prop_shuffle()),
    ) {
        let steps: Vec<u64> =
            (0..array.len()).map(|dim| array[dim + 1..].iter().map(|&n| u64::from(n)).product()).collect();
        let size = u64::from(dtype.size());
        let nbytes = array.iter().map(|&n| u128::from(n)).product::<u128>() * u128::from(size);
        let Some(base) = u64::try_from(nbytes).ok().and_then(|nbytes| END.checked_sub(nbytes)) else {
            return Ok(());
        };
        let base = base / size * size;
        let at = |index: &dyn Fn(usize) -> u32| -> u64 {
            base + size * steps.iter().enumerate().map(|(dim, step)| step * u64::from(index(dim))).sum::<u64>()
        };
        let view = |cut: &Cut, order: &[usize]| {
            let order = order.iter().copied().filter(|&dim| dim < array.len());
            let (shapes, strides): (Vec<u32>, Vec<u32>) =
                order.map(|dim| (cut[dim].1, u32::try_from(steps[dim]).unwrap())).unzip();
            View::new(at(&|dim| cut[dim].0), dtype, &shapes, &strides, END)
        };
        let straight = [0, 1, 2, 3, 4];
        let (Ok(a), Ok(b)) = (view(&first, &straight), view(&second, &straight)) else { return Ok(()) };
        let meet = first.iter().zip(&second).all(|(a, b)| a.0 < b.0 + b.1 && b.0 < a.0 + a.1);
        let covers = first.iter().zip(&second).all(|(a, b)| a.0 <= b.0 && b.0 + b.1 <= a.0 + a.1);
        let relation = if meet { Relation::Overlapping { covers } } else { Relation::Disjoint };
        let common = at(&|dim| first[dim].0.max(second[dim].0));
        let common = if meet { FirstCommon::At(common) } else { FirstCommon::Nowhere };
        let (turned_a, turned_b) = (view(&first, &orders.0).unwrap(), view(&second, &orders.1).unwrap());
        for (a, b) in [(&a, &b), (&turned_a, &turned_b), (&a, &turned_b)] {
            prop_assert_eq!(relate(a, b), relation);
            prop_assert_eq!(relate_footprints(&Footprint::of(a), &Footprint::of(b)), relation);
            prop_assert_eq!(first_common(a, b), common);
        }
    }

    #[test]
    fn every_view_covers_itself_and_its_elements((view, element) in view_and_element()) {
        prop_assert_eq!(relate(&view, &view), Relation::Overlapping { covers: true });
        let element = View::new(element, view.dtype(), &[1], &[1], END).unwrap();
        prop_assert!(relate(&view, &element).may_overlap());
    }

    /// Many large strides without a common divisor: the bound is reached, and the answer stays a safe one.
    #[test]
    fn a_hard_pair_takes_no_more_than_the_bound(
        first in prop::collection::vec((2_u32..60, 50_000_u32..3_000_000), 3..=5),
        second in prop::collection::vec((2_u32..60, 50_000_u32..3_000_000), 3..=5),
        offset in 0_u64..50_000_000,
    ) {
        let view = |dimensions: Vec<(u32, u32)>, offset| {
            let (shapes, strides): (Vec<u32>, Vec<u32>) =
                dimensions.into_iter().map(|(shape, stride)| (shape, stride | 1)).unzip();
            Footprint::of(&View::new(offset, DType::Uint8, &shapes, &strides, END).unwrap())
        };
        let (a, b) = (view(first, 0), view(second, offset));
        let mut work = Work::new();
        let answer = share_a_byte(&a, &b, &mut work);
        prop_assert!(work.steps_taken() <= work::STEPS);
        prop_assert_eq!(answer == Answer::Unknown, relate_footprints(&a, &b) == Relation::MayOverlap
            && answer != Answer::Yes);
    }
}
