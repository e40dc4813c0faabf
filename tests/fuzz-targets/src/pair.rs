//! Two views of one backing against the sets of their bytes.

use bufabi_core::overlap::{FirstCommon, Footprint, first_common, relate, relate_footprints};
use bufabi_core::{Relation, View};

use crate::view::{BACKING_BYTES, VIEW_BYTES, decode_view, elements};

/// One bit for each byte of a backing.
struct Bytes(Vec<u64>);

impl Bytes {
    fn of(view: &View) -> Self {
        let mut words = vec![0; usize::try_from(BACKING_BYTES / 64).unwrap()];
        for start in elements(view) {
            for byte in start..start + u64::from(view.dtype().size()) {
                words[usize::try_from(byte / 64).unwrap()] |= 1 << (byte % 64);
            }
        }
        Self(words)
    }

    fn first_common(&self, other: &Self) -> Option<u64> {
        let (index, word) = (0..).zip(self.0.iter().zip(&other.0)).find(|(_, (a, b))| *a & *b != 0)?;
        Some(index * 64 + u64::from((word.0 & word.1).trailing_zeros()))
    }

    fn covers(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| b & !a == 0)
    }
}

/// The answer is that of the sets; past the work bound it may be the safe one.
fn is_right(answer: Relation, a: &Bytes, b: &Bytes) {
    match answer {
        Relation::Disjoint => assert_eq!(a.first_common(b), None, "a wrong disjoint"),
        Relation::Overlapping { covers } => {
            assert!(a.first_common(b).is_some(), "a needless overlap");
            assert_eq!(a.covers(b), covers);
        }
        Relation::MayOverlap => {}
    }
}

/// The same view so many bytes further on in a backing without an end.
fn moved(view: &View, by: u64) -> View {
    View::new(view.byte_offset() + by, view.dtype(), view.shapes(), view.strides(), u64::MAX).unwrap()
}

/// Any two views.
pub fn overlap(bytes: &[u8]) {
    let Some((a, b)) = bytes.split_at_checked(VIEW_BYTES) else { return };
    let (Some(a), Some(b)) = (decode_view(a), b.get(..VIEW_BYTES).and_then(decode_view)) else { return };
    let (in_a, in_b) = (Bytes::of(&a), Bytes::of(&b));
    is_right(relate(&a, &b), &in_a, &in_b);
    is_right(relate(&b, &a), &in_b, &in_a);
    assert_eq!(relate_footprints(&Footprint::of(&a), &Footprint::of(&b)), relate(&a, &b));

    let meeting = in_a.first_common(&in_b);
    match first_common(&a, &b) {
        FirstCommon::Nowhere => assert_eq!(meeting, None),
        FirstCommon::At(byte) => assert_eq!(meeting, Some(byte)),
        FirstCommon::NotBelow(byte) => assert!(meeting.is_none_or(|first| byte <= first)),
    }

    // The answers do not depend on where in a backing the two lie, up to the last byte of 2^64.
    let far = (u64::MAX - BACKING_BYTES) & !7;
    let (a_far, b_far) = (moved(&a, far), moved(&b, far));
    assert_eq!(relate(&a_far, &b_far), relate(&a, &b));
    let by_far = match first_common(&a, &b) {
        FirstCommon::Nowhere => FirstCommon::Nowhere,
        FirstCommon::At(byte) => FirstCommon::At(byte + far),
        FirstCommon::NotBelow(byte) => FirstCommon::NotBelow(byte + far),
    };
    assert_eq!(first_common(&a_far, &b_far), by_far);
}
