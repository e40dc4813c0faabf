//! Any bytes as a record: by reference and by copy, the same answer as the rules read once more, and the same bytes back.

use bufabi_core::wire::blob as wire_blob;
use bufabi_core::wire::blob::ByteSource;
use bufabi_core::{Blob, BlobError, ChipError, ChipTensor, Descriptor, RawTensor, Tensor, View};

use crate::rules;

/// An error points at bytes of the record, or just past them, and has something to say.
fn is_well_formed(span: core::ops::Range<usize>, len: usize, message: &str) {
    assert!(span.start <= span.end && span.end <= len.max(144), "{span:?} of {len}");
    assert!(!message.is_empty());
}

/// Any bytes as a descriptor.
pub fn descriptor(bytes: &[u8]) {
    match (Descriptor::from_bytes(bytes), Descriptor::decode(bytes)) {
        (Ok(reference), Ok(copy)) => {
            assert_eq!(rules::descriptor(bytes), None);
            assert_eq!(reference, copy);
            assert!(reference.differences(&copy).is_empty());
            let clean = rules::without_padding(bytes);
            assert_eq!(reference.encode().as_slice(), clean);
            assert_eq!(copy.encode().as_slice(), clean);
            let built = Descriptor::new(&copy.fields()).expect("what it says can be built");
            assert_eq!(built.encode().as_slice(), clean);
        }
        (Err(error), Err(same)) => {
            assert_eq!(error, same);
            assert_eq!(rules::descriptor(bytes), Some(error.code().name()));
            is_well_formed(error.span(), bytes.len(), &error.to_string());
        }
        (reference, copy) => panic!("by reference {reference:?}, by copy {copy:?}"),
    }
}

/// Any bytes as a tensor. Those behind the first 144 choose a base address, for the chip's.
pub fn tensor(bytes: &[u8]) {
    let (bytes, rest) = bytes.split_at_checked(144).unwrap_or((bytes, &[]));
    match (Tensor::from_bytes(bytes), Tensor::decode(bytes)) {
        (Ok(reference), Ok(copy)) => {
            assert_eq!(rules::tensor(bytes), None);
            assert_eq!(reference, copy);
            let clean = rules::without_padding(bytes);
            assert_eq!(reference.encode().as_slice(), clean);
            assert_eq!(copy.encode().as_slice(), clean);
            let (descriptor, view) = (copy.descriptor(), copy.view());
            let built = Tensor::new(&descriptor, &view).expect("what it says can be built");
            assert_eq!(built.encode().as_slice(), clean);
            let again = View::new(
                view.byte_offset(),
                view.dtype(),
                view.shapes(),
                view.strides(),
                descriptor.nbytes(),
            );
            assert_eq!(again, Ok(view));
            let base = rest.iter().rev().take(8).fold(0, |base, &byte| base << 8 | u64::from(byte));
            chip_tensor(bytes, &reference, base);
        }
        (Err(error), Err(same)) => {
            assert_eq!(error, same);
            assert_eq!(rules::tensor(bytes), Some(error.code().name()));
            assert_eq!(ChipTensor::from_wire(bytes, 0).err(), Some(ChipError::Tensor(error)));
            is_well_formed(error.span(), bytes.len(), &error.to_string());
        }
        (reference, copy) => panic!("by reference {reference:?}, by copy {copy:?}"),
    }
}

fn chip_tensor(bytes: &[u8], tensor: &Tensor<&RawTensor>, base: u64) {
    let expected = rules::view(bytes);
    let end = u128::from(base) + expected.byte_offset + expected.extent;
    match ChipTensor::materialize(tensor, base) {
        Ok(chip) => {
            assert!(end <= 1 << 64);
            assert_eq!(u128::from(chip.addr.get()), u128::from(base) + expected.byte_offset);
            assert_eq!(u128::from(chip.size.get()), expected.extent);
            assert_eq!(u128::from(chip.extent_elem.get()), expected.extent_elements);
            assert_eq!(chip.is_contiguous, u8::from(expected.is_contiguous));
            assert_eq!((chip.dtype, chip.address_space), (bytes[140], bytes[2]));
        }
        Err(error) => {
            assert!(end > 1 << 64);
            assert_eq!(error.code().name(), "address_overflow");
        }
    }
}

/// Memory that is copied out and never lent.
struct Copied<'a>(&'a [u8]);

impl ByteSource for Copied<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn copy_out(&self, offset: usize, out: &mut [u8]) {
        out.copy_from_slice(&self.0[offset..offset + out.len()]);
    }
}

/// Any bytes as a task's arguments.
pub fn blob(bytes: &[u8]) {
    let mut scratch = vec![0xa5; bytes.len()];
    let by_copy = Blob::copy_from(&Copied(bytes), &mut scratch);
    let expected = rules::blob(bytes);
    match (Blob::from_bytes(bytes), by_copy) {
        (Ok(blob), Ok(copy)) => {
            assert_eq!(expected, Ok((blob.tensor_count(), blob.scalar_count())));
            assert!(blob.tensors().eq(copy.tensors()) && blob.scalars().eq(copy.scalars()));
            let tensors: Vec<Tensor> = blob.tensors().map(|tensor| tensor.to_owned()).collect();
            let scalars: Vec<u64> = blob.scalars().collect();
            let mut again = vec![0xa5; blob.size()];
            assert_eq!(wire_blob::encode(&tensors, &scalars, &mut again), Ok(blob.size()));
            let (head, tail) = bytes[..blob.size()].split_at(8 + 144 * tensors.len());
            let records = head[8..].chunks_exact(144).flat_map(rules::without_padding);
            let clean: Vec<u8> =
                head[..8].iter().copied().chain(records).chain(tail.iter().copied()).collect();
            assert_eq!(again, clean);
            let mut short = vec![0xa5; blob.size() - 1];
            assert!(wire_blob::encode(&tensors, &scalars, &mut short).is_err());
            assert!(short.iter().all(|&byte| byte == 0xa5), "nothing is written when it does not fit");
        }
        (Err(error), Err(same)) => {
            assert_eq!(error, same);
            let index = match error {
                BlobError::Tensor { index, .. } => usize::try_from(index).ok(),
                _ => None,
            };
            assert_eq!(expected, Err((error.code().name(), index)));
            assert!(!error.to_string().is_empty());
        }
        (reference, copy) => panic!("by reference {reference:?}, by copy {copy:?}"),
    }
}
