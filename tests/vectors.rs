//! The records of `tests/vectors`, line for line, rule for rule.
#![expect(clippy::unwrap_used, reason = "what a test cannot read fails it")]

use bufabi_core::overlap::{self, Relation};
use bufabi_core::wire::tensor::RawTensor;
use bufabi_core::{Blob, BlobError, ChipTensor, Descriptor, Tensor};
use bufabi_tests::{unhex, vectors};
use zerocopy::IntoBytes;

/// Every line's answer is the expected one, by whichever function makes it from the line's other words.
fn agree(file: &str, lines: usize, answer: impl Fn(&[&str]) -> String) {
    let text = vectors(file).unwrap();
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<&str> = line.split(' ').collect();
        let two = ["blobs", "chip", "overlaps"].iter().any(|name| file.starts_with(name));
        let arguments = if two { 2 } else { 1 };
        let (given, expected) = words.split_at(arguments);
        assert_eq!(answer(given), expected.join(" "), "{file}:{number}: {line}");
    }
    assert_eq!(text.lines().count(), lines, "{file} is not whole");
}

#[test]
fn descriptors_agree_by_reference_and_by_copy() {
    agree("descriptors.txt", 4004, |words| {
        let bytes = unhex(words[0]).unwrap();
        let by_reference = Descriptor::from_bytes(&bytes);
        let by_copy = Descriptor::decode(&bytes);
        match (by_reference, by_copy) {
            (Ok(reference), Ok(copy)) => {
                assert_eq!(reference, copy);
                let built = Descriptor::new(&reference.fields()).unwrap();
                assert_eq!(built.encode(), copy.encode(), "what was read builds the same bytes");
                "ok".to_owned()
            }
            (Err(error), Err(same)) => {
                assert_eq!(error, same);
                error.code().name().to_owned()
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn tensors_agree_by_reference_and_by_copy() {
    agree("tensors.txt", 4004, |words| {
        let bytes = unhex(words[0]).unwrap();
        let by_reference = Tensor::from_bytes(&bytes);
        let by_copy = Tensor::decode(&bytes);
        match (by_reference, by_copy) {
            (Ok(reference), Ok(copy)) => {
                assert_eq!(reference, copy);
                let built = Tensor::new(&reference.descriptor(), &reference.view()).unwrap();
                assert_eq!(built.encode(), copy.encode(), "what was read builds the same bytes");
                "ok".to_owned()
            }
            (Err(error), Err(same)) => {
                assert_eq!(error, same);
                error.code().name().to_owned()
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn blobs_agree() {
    agree("blobs.txt", 400, |words| {
        let capacity: usize = words[0].parse().unwrap();
        let bytes = unhex(words[1]).unwrap();
        match Blob::from_bytes(&bytes[..bytes.len().min(capacity)]) {
            Ok(blob) => format!("ok {} {}", blob.tensor_count(), blob.scalar_count()),
            Err(BlobError::Tensor { index, error }) => format!("tensor {index} {}", error.code().name()),
            Err(error) => error.code().name().to_owned(),
        }
    });
}

#[test]
fn chip_tensors_agree_to_the_byte() {
    agree("chip.txt", 1500, |words| {
        let bytes = unhex(words[0]).unwrap();
        let base = u64::from_str_radix(words[1], 16).unwrap();
        assert_eq!(bytes.len(), RawTensor::SIZE);
        match ChipTensor::from_wire(&bytes, base) {
            Ok(chip) => chip.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect(),
            Err(error) => error.code().name().to_owned(),
        }
    });
}

#[test]
fn overlaps_agree_and_every_answer_is_exact() {
    agree("overlaps.txt", 3000, |words| {
        let views = [0, 1].map(|i| Tensor::decode(&unhex(words[i]).unwrap()).unwrap().view());
        match overlap::relate(&views[0], &views[1]) {
            Relation::Disjoint => {
                assert_eq!(overlap::first_common(&views[0], &views[1]), overlap::FirstCommon::Nowhere);
                "0 0".to_owned()
            }
            Relation::Overlapping { covers } => {
                let first = overlap::first_common(&views[0], &views[1]);
                assert!(matches!(first, overlap::FirstCommon::At(_)), "{first:?}");
                format!("1 {}", u8::from(covers))
            }
            Relation::MayOverlap => "unknown".to_owned(),
        }
    });
}
