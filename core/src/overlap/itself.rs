//! Whether a view has two indices for one element.

use super::relate;
use crate::view::{MAX_NDIMS, View, ViewError};

/// Two indices of the view name one element, or the work bound was passed before that could be ruled out.
#[must_use]
pub fn may_overlap_itself(view: &View) -> bool {
    // More indices than places between the first element and the last.
    let places = view.extent() >> view.dtype().size_log2();
    view.elements() > places || (!is_nested(view) && is_entangled(view).unwrap_or(true))
}

/// Each step passes all that the smaller ones reach, so that an element has one place in every dimension.
fn is_nested(view: &View) -> bool {
    let mut dimensions = [(0, 0); MAX_NDIMS];
    for (dimension, (&count, &stride)) in dimensions.iter_mut().zip(view.shapes().iter().zip(view.strides()))
    {
        if count > 1 {
            *dimension = (u64::from(stride), u64::from(count));
        }
    }
    dimensions.sort_unstable();
    let mut reach = 0_u64;
    dimensions.iter().all(|&(stride, count)| {
        let passes = stride > reach || count == 0;
        // Nothing saturates for a view, since all of it lies below 2^64.
        reach = reach.saturating_add(stride.saturating_mul(count.saturating_sub(1)));
        passes
    })
}

/// Two indices that name one element differ in some first dimension. Seen from there, what lies behind the lower index meets what
/// lies at it or further: two views, and one question for each dimension.
fn is_entangled(view: &View) -> Result<bool, ViewError> {
    let (offset, dtype, end) = (view.byte_offset(), view.dtype(), view.end());
    let (mut shapes, strides) = (*view.shape_slots(), view.stride_slots());
    let rank = usize::from(view.ndims());
    for dim in 0..rank {
        let (Some(slot), Some(&stride)) = (shapes.get_mut(dim), strides.get(dim)) else { continue };
        let count = *slot;
        // The dimensions before this one are 1 by now: their indices agree.
        *slot = 1;
        if count > 1 {
            let step = u64::from(stride) << dtype.size_log2();
            let at = View::from_slots(offset, u32::from(view.ndims()), dtype, shapes, *strides, end)?;
            if let Some(slot) = shapes.get_mut(dim) {
                *slot = count.wrapping_sub(1);
            }
            let behind = offset.saturating_add(step);
            let further = View::from_slots(behind, u32::from(view.ndims()), dtype, shapes, *strides, end)?;
            if relate(&at, &further).may_overlap() {
                return Ok(true);
            }
            if let Some(slot) = shapes.get_mut(dim) {
                *slot = 1;
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]
mod tests {
    extern crate std;
    use std::collections::HashSet;
    use std::vec;
    use std::vec::Vec;

    use super::*;
    use crate::wire::dtype::DType;

    /// Every index, one by one.
    fn naive(shapes: &[u32], strides: &[u32]) -> bool {
        let mut places = vec![0_u64];
        for (&count, &stride) in shapes.iter().zip(strides) {
            let step = |at: u64| (0..count).map(move |index| at + u64::from(index) * u64::from(stride));
            places = places.into_iter().flat_map(step).collect();
        }
        let mut seen = HashSet::new();
        !places.into_iter().all(|place| seen.insert(place))
    }

    fn agree(shapes: &[u32], strides: &[u32]) {
        for dtype in [DType::Uint8, DType::Int64] {
            let view = View::new(16, dtype, shapes, strides, 1 << 40).unwrap();
            let expected = naive(shapes, strides);
            assert_eq!(may_overlap_itself(&view), expected, "{shapes:?} {strides:?} {dtype}");
        }
    }

    #[test]
    fn every_small_view_of_three_dimensions_agrees_with_its_indices() {
        let digits = |mut number: u32| -> Vec<u32> {
            let mut digits = Vec::new();
            for _ in 0..3 {
                digits.push(number % 5 + 1);
                number /= 5;
            }
            digits
        };
        for shapes in (0..64_u32).step_by(if cfg!(miri) { 7 } else { 1 }) {
            let shapes = [shapes % 4 + 1, shapes / 4 % 4 + 1, shapes / 16 + 1];
            for strides in (0..125).step_by(if cfg!(miri) { 57 } else { 1 }) {
                agree(&shapes, &digits(strides));
            }
        }
    }

    #[test]
    fn interleaved_steps_that_never_meet_are_told_from_those_that_do() {
        agree(&[2, 3], &[3, 2]);
        agree(&[3, 4], &[3, 2]);
        agree(&[5, 7, 3], &[7, 5, 36]);
        agree(&[2, 2, 2, 2, 2], &[1, 2, 4, 8, 16]);
        agree(&[2, 2, 2, 2, 2], &[16, 3, 5, 7, 11]);
        agree(&[6, 10, 15], &[15, 10, 6]);
        agree(&[1, 4, 1], &[1, 1, 1]);
    }

    #[test]
    fn extreme_views_get_an_answer() {
        let view = View::new(0, DType::Uint8, &[u32::MAX], &[u32::MAX], u64::MAX).unwrap();
        assert!(!may_overlap_itself(&view));
        let view = View::new(0, DType::Uint8, &[u32::MAX, u32::MAX], &[1, 1], u64::MAX).unwrap();
        assert!(may_overlap_itself(&view));
        // Coprime steps just too short to meet, and just long enough.
        let (a, b) = (u32::MAX, u32::MAX - 1);
        let view = View::new(0, DType::Uint8, &[1 << 16, 1 << 16], &[a, b], u64::MAX).unwrap();
        assert!(!may_overlap_itself(&view));
        let view = View::new(0, DType::Uint8, &[3, 3], &[6, 4], u64::MAX).unwrap();
        assert!(!may_overlap_itself(&view));
        let view = View::new(0, DType::Uint8, &[3, 4], &[6, 4], u64::MAX).unwrap();
        assert!(may_overlap_itself(&view));
    }
}
