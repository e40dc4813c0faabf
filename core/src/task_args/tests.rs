//! The checks of a submit, one by one, and the clash check against sets of bytes.

use core::num::{NonZeroU32, NonZeroU64};
use std::boxed::Box;
use std::collections::BTreeSet;
use std::format;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::rights::{Access, RightsError};
use crate::view::View;
use crate::wire::body::Body;
use crate::wire::descriptor::{Descriptor, DescriptorFields};
use crate::wire::dtype::DType;
use crate::wire::identity::{Identity, OwnerInstanceId};

const NBYTES: u64 = 1 << 40;

fn identity(number: u64) -> Identity {
    Identity::new(OwnerInstanceId([9; 8]), number, NonZeroU32::MIN)
}

fn buffer(number: u64, access: Access) -> Descriptor {
    let body = Body::DeviceMalloc { base: NonZeroU64::MIN };
    let fields = DescriptorFields {
        identity: identity(number),
        access,
        nbytes: NBYTES,
        owner_worker_path_id: 0,
        body,
    };
    Descriptor::new(&fields).unwrap()
}

fn tensor(number: u64, offset: u64, shapes: &[u32], strides: &[u32]) -> Tensor {
    let view = View::new(offset, DType::Uint8, shapes, strides, NBYTES).unwrap();
    Tensor::new(&buffer(number, Access::ReadWrite), &view).unwrap()
}

fn submit(arguments: &[(Tensor, Tag)]) -> Result<(), SubmitError> {
    let mut scratch = Box::new(Scratch::<16>::new());
    let (tensors, tags): (Vec<Tensor>, Vec<Tag>) = arguments.iter().copied().unzip();
    Submission::check(&tensors, &tags, &[], &mut scratch).map(|_| ())
}

#[test]
fn a_tensor_after_a_scalar_is_refused_and_nothing_is_added() {
    let mut arguments = TaskArgs::<2, 2>::new();
    let range = tensor(1, 0, &[8], &[1]);
    assert_eq!(arguments.add_tensor(&range, Tag::Input), Ok(0));
    assert_eq!(arguments.add_scalar(7), Ok(0));
    let after = arguments.add_tensor(&range, Tag::Input);
    assert_eq!(after, Err(AddError::TensorAfterScalar { scalars: 1 }));
    assert_eq!(
        (arguments.tensors().len(), arguments.tags(), arguments.scalars()),
        (1, &[Tag::Input][..], &[7][..])
    );
    arguments.clear();
    assert_eq!(arguments.add_tensor(&range, Tag::Output), Ok(0));
}

#[test]
fn a_full_builder_says_its_capacity() {
    let mut arguments = TaskArgs::<1, 1>::new();
    let range = tensor(1, 0, &[8], &[1]);
    assert_eq!(arguments.add_tensor(&range, Tag::Input), Ok(0));
    assert_eq!(arguments.add_tensor(&range, Tag::Input), Err(AddError::TensorsFull { capacity: 1 }));
    assert_eq!(arguments.add_scalar(1), Ok(0));
    assert_eq!(arguments.add_scalar(2), Err(AddError::ScalarsFull { capacity: 1 }));
}

#[test]
fn rights_are_checked_when_added_and_again_on_the_final_tags() {
    let view = View::new(0, DType::Uint8, &[8], &[1], NBYTES).unwrap();
    let readable = Tensor::new(&buffer(1, Access::Read), &view).unwrap();
    let mut arguments = TaskArgs::<2, 2>::new();
    let denied = RightsError::Denied { granted: Access::Read, requested: Tag::Output };
    assert_eq!(arguments.add_tensor(&readable, Tag::Output), Err(AddError::Rights(denied)));
    assert_eq!(arguments.add_tensor(&readable, Tag::Input), Ok(0));
    assert_eq!(arguments.set_tag(0, Tag::Output), Ok(()));
    assert_eq!(arguments.set_tag(1, Tag::Input), Err(AddError::NoSuchTensor { index: 1, tensors: 1 }));
    let refused = arguments.submit(&mut Scratch::<2>::new()).unwrap_err();
    assert_eq!(refused, SubmitError::Rights { index: 0, error: denied });
    assert_eq!(arguments.set_tag(0, Tag::NoDep), Ok(()));
    assert!(arguments.submit(&mut Scratch::<2>::new()).is_ok());
}

#[test]
fn limits_are_those_of_the_wire_and_are_refused_at_submit() {
    let mut scratch = Box::new(Scratch::<{ MAX_TENSORS + 1 }>::new());
    let mut arguments = Box::new(TaskArgs::<{ MAX_TENSORS + 1 }, { MAX_SCALARS + 1 }>::new());
    for index in 0..MAX_TENSORS {
        arguments.add_tensor(&tensor(1, u64::try_from(index).unwrap(), &[1], &[1]), Tag::Output).unwrap();
    }
    assert!(arguments.submit(&mut scratch).is_ok());
    arguments.add_tensor(&tensor(2, 0, &[1], &[1]), Tag::Input).unwrap();
    let refused = arguments.submit(&mut scratch).unwrap_err();
    assert_eq!(refused, SubmitError::TooManyTensors { found: 257, limit: 256 });

    arguments.clear();
    for scalar in 0..129 {
        arguments.add_scalar(scalar).unwrap();
    }
    let refused = arguments.submit(&mut scratch).unwrap_err();
    assert_eq!(refused, SubmitError::TooManyScalars { found: 129, limit: 128 });

    let range = tensor(1, 0, &[1], &[1]);
    let refused =
        Submission::check(&[range; 3], &[Tag::Input; 3], &[], &mut Scratch::<2>::new()).unwrap_err();
    assert_eq!(refused, SubmitError::TooManyTensors { found: 3, limit: 2 });
    let refused = Submission::check(&[range], &[], &[], &mut Scratch::<2>::new()).unwrap_err();
    assert_eq!(refused, SubmitError::TagCount { tensors: 1, tags: 0 });
}

#[test]
fn what_goes_into_a_blob_comes_out_of_it() {
    let mut arguments = TaskArgs::<4, 4>::new();
    arguments.add_tensor(&tensor(1, 0, &[4, 4], &[8, 1]), Tag::Input).unwrap();
    arguments.add_tensor(&tensor(2, 5, &[3], &[2]), Tag::Inout).unwrap();
    arguments.add_scalar(u64::MAX).unwrap();
    let mut scratch = Scratch::<4>::new();
    let submission = arguments.submit(&mut scratch).unwrap();
    let mut bytes = [0; 8 + 2 * 144 + 8];
    assert_eq!(submission.encode(&mut bytes), Ok(bytes.len()));
    assert!(submission.encode(&mut [0; 8]).is_err());
    let pairs: Vec<(u64, Tag)> =
        submission.arguments().map(|(tensor, tag)| (tensor.view().byte_offset(), tag)).collect();
    assert_eq!(pairs, [(0, Tag::Input), (5, Tag::Inout)]);

    let blob = Blob::from_bytes(&bytes).unwrap();
    let again = TaskArgs::<4, 4>::from_blob(&blob, |index| arguments.tags()[index]).unwrap();
    assert_eq!(again.tensors(), arguments.tensors());
    assert_eq!((again.tags(), again.scalars()), (arguments.tags(), arguments.scalars()));
    let untagged = TaskArgs::<4, 4>::from_blob(&blob, |_| Tag::NoDep).unwrap();
    assert_eq!(untagged.tags(), [Tag::NoDep; 2]);
    let small = TaskArgs::<1, 4>::from_blob(&blob, |_| Tag::NoDep).unwrap_err();
    assert_eq!(small, AddError::TensorsFull { capacity: 1 });
}

#[test]
fn a_clash_names_both_arguments_the_buffer_and_the_lowest_byte() {
    let columns = |offset| tensor(5, offset, &[16, 8], &[64, 1]);
    let clash = |first, second, byte| Err(SubmitError::Clash { first, second, identity: identity(5), byte });
    assert_eq!(submit(&[(columns(0), Tag::Output), (columns(8), Tag::Output)]), Ok(()));
    assert_eq!(submit(&[(columns(8), Tag::Input), (columns(4), Tag::Output)]), clash(0, 1, 8));
    assert_eq!(submit(&[(columns(0), Tag::Inout), (columns(0), Tag::NoDep)]), Ok(()));
    assert_eq!(submit(&[(columns(0), Tag::Input), (columns(0), Tag::Input)]), Ok(()));
    assert_eq!(submit(&[(columns(0), Tag::OutputExisting), (columns(0), Tag::Input)]), clash(0, 1, 0));
    // A range within one row, one over several, and one that no tile reaches.
    let range = |offset, n| tensor(5, offset, &[n], &[1]);
    assert_eq!(submit(&[(columns(8), Tag::Output), (range(16, 56), Tag::Output)]), Ok(()));
    assert_eq!(submit(&[(columns(8), Tag::Output), (range(16, 57), Tag::Input)]), clash(0, 1, 72));
    assert_eq!(submit(&[(range(0, 1024), Tag::Input), (columns(8), Tag::Output)]), clash(0, 1, 8));
    // Other buffers are other bytes, and so are other generations.
    assert_eq!(submit(&[(columns(0), Tag::Output), (tensor(6, 0, &[64], &[1]), Tag::Output)]), Ok(()));
    // A view may overlap itself.
    assert_eq!(submit(&[(tensor(5, 0, &[3, 3], &[1, 1]), Tag::Output)]), Ok(()));
}

#[test]
fn one_clash_among_many_tiles_is_found_wherever_it_is() {
    let mut scratch = Box::new(Scratch::<256>::new());
    for bad in if cfg!(miri) { vec![100] } else { vec![0, 1, 100, 254] } {
        for (tag, of_bad) in
            [(Tag::Output, Tag::Output), (Tag::Output, Tag::Input), (Tag::Input, Tag::Output)]
        {
            // Column tiles from right to left, one of them a column too wide.
            let (tensors, tags): (Vec<Tensor>, Vec<Tag>) = (0..256_u64)
                .rev()
                .map(|i| {
                    let (width, tag) = if i == bad { (5, of_bad) } else { (4, tag) };
                    (tensor(5, i * 4, &[64, width], &[1024, 1]), tag)
                })
                .unzip();
            let refused = Submission::check(&tensors, &tags, &[], &mut scratch).unwrap_err();
            let place = usize::try_from(254 - bad).unwrap();
            let byte = (bad + 1) * 4;
            let expected =
                SubmitError::Clash { first: place, second: place + 1, identity: identity(5), byte };
            assert_eq!(refused, expected);
        }
    }
}

#[test]
fn what_takes_too_long_to_tell_is_refused_by_its_own_name() {
    let first = tensor(5, 0, &[40, 53, 47, 31], &[1_234_567, 987_653, 2_345_679, 1_876_543]);
    let second = tensor(5, 1, &[37, 59, 43, 41], &[1_456_789, 876_551, 2_555_557, 1_333_331]);
    let refused = submit(&[(first, Tag::Output), (second, Tag::Input)]);
    assert_eq!(refused, Err(SubmitError::TooComplex { first: 0, second: 1, identity: identity(5) }));
    assert_eq!(submit(&[(first, Tag::Input), (second, Tag::Input)]), Ok(()));
}

#[test]
fn messages_say_what_was_found_and_what_was_expected() {
    let clash = SubmitError::Clash { first: 1, second: 4, identity: identity(5), byte: 72 };
    assert_eq!(
        format!("{clash}"),
        "tensors 1 and 4 both name byte 72 of buffer 0909090909090909:5.1, and one writes it"
    );
    let full = AddError::TensorsFull { capacity: 1 };
    assert_eq!(format!("{full}"), "there is room for 1 tensors, all taken");
}

fn bytes_of(view: &View) -> BTreeSet<u64> {
    let mut starts = BTreeSet::from([view.byte_offset()]);
    for (&shape, &stride) in view.shapes().iter().zip(view.strides()) {
        let steps = (0..u64::from(shape)).map(|index| index * u64::from(stride));
        starts = steps.flat_map(|step| starts.iter().map(move |start| start + step)).collect();
    }
    starts
}

/// What the check must say of one-byte elements: no clash, or one of these pairs with its lowest byte.
fn clashes(arguments: &[(Tensor, Tag)]) -> Vec<(usize, usize, u64)> {
    let mut clashes = vec![];
    for (second, (b, b_tag)) in arguments.iter().enumerate() {
        for (first, (a, a_tag)) in arguments.iter().enumerate().take(second) {
            let takes_part = a_tag.needs().is_some() && b_tag.needs().is_some();
            let same = a.descriptor().identity() == b.descriptor().identity();
            if takes_part && same && (a_tag.writes() || b_tag.writes()) {
                let common = bytes_of(&a.view()).intersection(&bytes_of(&b.view())).next().copied();
                clashes.extend(common.map(|byte| (first, second, byte)));
            }
        }
    }
    clashes
}

fn argument() -> impl Strategy<Value = (Tensor, Tag)> {
    let range = (0_u64..600, 1_u32..40).prop_map(|(offset, n)| (offset, vec![n], vec![1]));
    let tile = (0_u64..600, 1_u32..6, 1_u32..20, prop::sample::select(&[32_u32, 32, 32, 48][..]))
        .prop_map(|(offset, rows, columns, pitch)| (offset, vec![rows, columns], vec![pitch, 1]));
    let tile_of_wide_rows = (0_u64..8, 1_u32..5, 0_u64..10)
        .prop_map(|(column, rows, row)| (row * 64 + column * 8, vec![rows, 8], vec![64, 1]));
    let any =
        (0_u64..600, prop::collection::vec((1_u32..4, 1_u32..90), 1..4)).prop_map(|(offset, dimensions)| {
            let (shapes, strides) = dimensions.into_iter().unzip();
            (offset, shapes, strides)
        });
    let view = prop_oneof![4 => range, 4 => tile, 4 => tile_of_wide_rows, 1 => any];
    let number = prop::sample::select(&[1_u64, 1, 1, 2][..]);
    let tag = prop::sample::select(&[Tag::Input, Tag::Input, Tag::Output, Tag::Inout, Tag::NoDep][..]);
    (view, number, tag)
        .prop_map(|((offset, shapes, strides), number, tag)| (tensor(number, offset, &shapes, &strides), tag))
}

fn agrees_with_sets(arguments: &[(Tensor, Tag)]) {
    let expected = clashes(arguments);
    match submit(arguments) {
        Ok(()) => assert_eq!(expected, []),
        Err(SubmitError::Clash { first, second, identity, byte }) => {
            assert!(expected.contains(&(first, second, byte)), "{first} {second} {byte}: {expected:?}");
            assert_eq!(identity, arguments[first].0.descriptor().identity());
        }
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 2_000 }))]

    #[test]
    fn a_few_arguments_clash_as_their_sets_do(arguments in prop::collection::vec(argument(), 1..5)) {
        agrees_with_sets(&arguments);
    }

    #[test]
    fn many_arguments_clash_as_their_sets_do(arguments in prop::collection::vec(argument(), 5..16)) {
        agrees_with_sets(&arguments);
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 200 }))]

    /// Those that do not clash with earlier ones are kept, so that most of what is submitted must pass.
    #[test]
    fn arguments_that_are_disjoint_pass(candidates in prop::collection::vec(argument(), 16..60)) {
        let mut kept: Vec<(Tensor, Tag)> = vec![];
        for candidate in candidates {
            kept.push(candidate);
            if kept.len() > 16 || !clashes(&kept).is_empty() {
                kept.pop();
            }
        }
        agrees_with_sets(&kept);
    }
}
