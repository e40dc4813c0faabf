//! How the bytes of two tensors lie to each other, as core answers it.

use bufabi_core::overlap::{self, Relation};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::number::{Enumeration, Kept, Value};
use crate::tensor::PyTensor;

impl Enumeration for Relation {
    const NAME: &'static str = "Relation";
    const MEANING: &'static str = "How the bytes of one tensor lie to those of another.";

    fn kept() -> &'static PyOnceLock<Kept> {
        static KEPT: PyOnceLock<Kept> = PyOnceLock::new();
        &KEPT
    }

    /// The numbers are those of the C ABI.
    fn all() -> Vec<(&'static str, u8)> {
        vec![("DISJOINT", 0), ("OVERLAPPING", 1), ("COVERING", 2), ("MAY_OVERLAP", 3)]
    }

    fn number(self) -> u8 {
        match self {
            Self::Disjoint => 0,
            Self::Overlapping { covers: false } => 1,
            Self::Overlapping { covers: true } => 2,
            Self::MayOverlap => 3,
        }
    }
}

/// Bytes of two backings are never the same.
fn share_a_backing(first: &PyTensor, second: &PyTensor) -> bool {
    first.0.descriptor().identity() == second.0.descriptor().identity()
}

fn relation(first: &PyTensor, second: &PyTensor) -> Relation {
    if share_a_backing(first, second) {
        overlap::relate(&first.0.view(), &second.0.view())
    } else {
        Relation::Disjoint
    }
}

/// How the bytes of the second tensor lie to those of the first. A byte belongs to a tensor when an element of it lies there: gaps
/// between strided elements belong to nobody, and bytes of two backings are never the same.
///
/// It never fails. The answer is exact but for MAY_OVERLAP: telling would have taken more than a fixed bound of work, as it does for pairs that were
/// made to be hard.
#[pyfunction]
pub(crate) fn relate(first: PyRef<'_, PyTensor>, second: PyRef<'_, PyTensor>) -> Value<Relation> {
    Value(relation(&first, &second))
}

/// Some byte belongs to both tensors. Where `relate` says MAY_OVERLAP this says so too: False is certain. It never fails.
#[pyfunction]
pub(crate) fn overlaps(first: PyRef<'_, PyTensor>, second: PyRef<'_, PyTensor>) -> bool {
    relation(&first, &second).may_overlap()
}

/// Every byte of the second tensor belongs to the first. Where `relate` says MAY_OVERLAP this does not: True is certain. It
/// never fails.
#[pyfunction]
pub(crate) fn covers(first: PyRef<'_, PyTensor>, second: PyRef<'_, PyTensor>) -> bool {
    relation(&first, &second).covers()
}

/// The lowest byte that belongs to both tensors, counted from the backing's start, and None when there is none. Past the bound of
/// work it is one below which there is none. It never fails.
#[pyfunction]
pub(crate) fn first_common_byte(first: PyRef<'_, PyTensor>, second: PyRef<'_, PyTensor>) -> Option<u64> {
    if !share_a_backing(&first, &second) {
        return None;
    }
    overlap::first_common_byte(&first.0.view(), &second.0.view())
}
