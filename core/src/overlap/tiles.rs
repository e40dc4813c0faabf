//! The shortest way for the most frequent pair: two tiles of one matrix, or of one array of any rank.
//!
//! Both views then have the same strides, largest first, and elements of one size. The general method would come to the
//! same equation; here it needs no sorting, no bytes and no search.

use crate::view::{MAX_NDIMS, View};

/// Both views have the same strides and elements of one size.
#[inline]
pub(super) fn are_alike(a: &View, b: &View) -> bool {
    a.stride_slots() == b.stride_slots() && a.dtype().size_log2() == b.dtype().size_log2()
}

/// Whether two views that are alike and whose bounds meet share a byte; `None` when this way does not tell.
#[inline]
pub(super) fn share_a_byte(a: &View, b: &View) -> Option<bool> {
    // Elements from the first's first to the second's last, which is not before it: whole elements, as both offsets and
    // the extent are multiples of the element size.
    let bytes = b.end().wrapping_sub(a.byte_offset());
    let mut left = (bytes >> a.dtype().size_log2()).wrapping_sub(1);

    // From the innermost dimension out: what lies side by side is slack, what does not is a digit.
    let mut slack = 0_u64;
    let mut reach = 0_u64;
    let mut digits = [(0_u64, 0_u64); MAX_NDIMS];
    let mut len = 0_usize;
    for ((&first, &second), &stride) in a.shapes().iter().zip(b.shapes()).zip(a.strides()).rev() {
        // Shapes are 1 or more.
        let most = u64::from(first).wrapping_add(u64::from(second)).wrapping_sub(2);
        let stride = u64::from(stride);
        if most == 0 {
            continue;
        }
        if len == 0 && stride <= slack.wrapping_add(1) {
            slack = slack.checked_add(stride.checked_mul(most)?)?;
            reach = slack;
        } else if stride > reach {
            *digits.get_mut(len)? = (stride, most);
            len = len.wrapping_add(1);
            reach = reach.checked_add(stride.checked_mul(most)?)?;
        } else {
            // Larger tiles than half of what they are cut from, or dimensions in another order.
            let (earlier, earlier_most) = digits.get_mut(len.wrapping_sub(1))?;
            let multiple = stride.checked_div(*earlier)?;
            if multiple > earlier_most.wrapping_add(1) || multiple.wrapping_mul(*earlier) != stride {
                return None;
            }
            *earlier_most = earlier_most.checked_add(multiple.checked_mul(most)?)?;
            reach = reach.checked_add(stride.checked_mul(most)?)?;
        }
    }

    // Each digit is forced, because the smaller ones do not reach up to its stride.
    for &(stride, most) in digits.get(..len)?.iter().rev() {
        let value = left.checked_div(stride)?.min(most);
        left = left.wrapping_sub(value.wrapping_mul(stride));
    }
    Some(left <= slack)
}

/// Whether `a` covers a `b` that is alike and within its bounds; `None` when this way does not tell.
///
/// Every element of a nested view has one index in each dimension, found from the largest stride down. When `b` starts at an
/// element of `a` and has room from there in each dimension, it is covered. When it starts at none, or passes the last
/// index of a dimension without reaching the next larger stride, some element of it is none of `a`'s.
#[inline]
pub(super) fn covers(a: &View, b: &View) -> Option<bool> {
    let mut left = b.byte_offset().wrapping_sub(a.byte_offset()) >> a.dtype().size_log2();
    let (mut starts_inside, mut passes_last, mut carries) = (true, false, false);
    let mut larger = u64::MAX;
    // What smaller dimensions may still reach below the strides so far, so that the view is nested.
    let mut room = u64::MAX;
    for ((&own, &other), &stride) in a.shapes().iter().zip(b.shapes()).zip(a.strides()) {
        let (own, other, stride) = (u64::from(own), u64::from(other), u64::from(stride));
        if own == 1 && other == 1 {
            continue;
        }
        if stride > larger {
            return None;
        }
        room = room.checked_sub(stride.wrapping_mul(own.wrapping_sub(1)))?.min(stride);
        let index = left.checked_div(stride)?;
        left = left.wrapping_sub(index.wrapping_mul(stride));
        starts_inside &= index < own;
        if index.wrapping_add(other) > own {
            // The first element past the last index, and where the smaller dimensions start.
            let passes_next = own.wrapping_mul(stride).wrapping_add(left) >= larger;
            carries |= passes_next;
            passes_last |= !passes_next;
        }
        larger = stride;
    }
    if room == 0 {
        return None;
    }
    if !starts_inside || left != 0 || passes_last {
        return Some(false);
    }
    (!carries).then_some(true)
}
