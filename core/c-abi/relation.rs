//! What a tag needs and an owner grants, and how the bytes of two tensors lie to each other.

use bufabi_core::overlap::{self, FirstCommon, Relation};
use bufabi_core::{Code, RawTensor, rights};

use super::boundary::{answer, noted};
use super::number;
use super::parameter::{Out, apart_from, given, span_of};
use super::record::tensor;
use super::status::Status;

/// No byte belongs to both.
pub const RELATION_DISJOINT: i32 = 0;
/// Some byte belongs to both.
pub const RELATION_OVERLAPPING: i32 = 1;
/// Every byte of the second belongs to the first.
pub const RELATION_COVERING: i32 = 2;
/// Whether a byte belongs to both takes longer to tell than a fixed bound of work: they may overlap.
pub const RELATION_MAY_OVERLAP: i32 = 3;

/// Whether what a tag needs is granted: `access` is READ 0, WRITE 1 or READWRITE 2, `tag` INPUT 0, OUTPUT 1, INOUT 2, OUTPUT_EXISTING 3 or
/// NO_DEP 4.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_rights_check(access: i32, tag: i32) -> Status {
    answer("rights_check", || {
        let (access, tag) = (number::access(access)?, number::tag(tag)?);
        rights::check(access, tag).map_err(|error| noted(error.code(), &error))
    })
}

/// How the bytes of the second tensor lie to those of the first, exactly: `*relation` is one of `BUFABI_RELATION_...`. Tensors of
/// two backings are disjoint.
///
/// # Safety
/// `first` and `second` each point to a tensor that nobody writes during the call, `relation` to an int32_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_tensor_relate(
    first: *const RawTensor,
    second: *const RawTensor,
    relation: *mut i32,
) -> Status {
    answer("tensor_relate", || {
        // SAFETY: the caller's promise above.
        let first = unsafe { given(first) }?;
        // SAFETY: the caller's promise above.
        let second = unsafe { given(second) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(relation) }?;
        apart_from(&[out.span()], &[span_of(first), span_of(second)])?;
        let (first, second) = (tensor(first)?, tensor(second)?);
        let relation = if first.descriptor().identity() == second.descriptor().identity() {
            overlap::relate(&first.view(), &second.view())
        } else {
            Relation::Disjoint
        };
        out.set(match relation {
            Relation::Disjoint => RELATION_DISJOINT,
            Relation::Overlapping { covers: false } => RELATION_OVERLAPPING,
            Relation::Overlapping { covers: true } => RELATION_COVERING,
            Relation::MayOverlap => RELATION_MAY_OVERLAP,
        });
        Ok(())
    })
}

/// The lowest byte that belongs to both tensors, in bytes from the backing's start. `*relation` is `BUFABI_RELATION_DISJOINT` when there
/// is none, and `*byte` is then not written; `BUFABI_RELATION_OVERLAPPING` when `*byte` is it; `BUFABI_RELATION_MAY_OVERLAP` when
/// that takes longer to tell than a fixed bound of work: then no byte below `*byte` is, and perhaps none above.
///
/// # Safety
/// `first` and `second` each point to a tensor that nobody writes during the call, `relation` to an int32_t and `byte` to a
/// uint64_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_tensor_first_common(
    first: *const RawTensor,
    second: *const RawTensor,
    relation: *mut i32,
    byte: *mut u64,
) -> Status {
    answer("tensor_first_common", || {
        // SAFETY: the caller's promise above.
        let first = unsafe { given(first) }?;
        // SAFETY: the caller's promise above.
        let second = unsafe { given(second) }?;
        // SAFETY: the caller's promise above.
        let relation = unsafe { Out::new(relation) }?;
        // SAFETY: the caller's promise above.
        let byte = unsafe { Out::new(byte) }?;
        apart_from(&[relation.span(), byte.span()], &[span_of(first), span_of(second)])?;
        let (first, second) = (tensor(first)?, tensor(second)?);
        let common = if first.descriptor().identity() == second.descriptor().identity() {
            overlap::first_common(&first.view(), &second.view())
        } else {
            FirstCommon::Nowhere
        };
        match common {
            FirstCommon::Nowhere => relation.set(RELATION_DISJOINT),
            FirstCommon::At(at) => {
                relation.set(RELATION_OVERLAPPING);
                byte.set(at);
            }
            FirstCommon::NotBelow(bound) => {
                relation.set(RELATION_MAY_OVERLAP);
                byte.set(bound);
            }
        }
        Ok::<(), Code>(())
    })
}
