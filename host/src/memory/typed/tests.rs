//! Every view that is handed out shows exactly the elements of a naive walk, and what cannot be shown is refused.

use core::cell::Cell;

use bufabi_core::{View, ViewError};

use super::*;

/// Bytes at an address that every type likes.
#[repr(align(64))]
struct Aligned([u8; 4096]);

fn bytes() -> Box<Aligned> {
    let mut bytes = Box::new(Aligned([0; 4096]));
    for (index, byte) in bytes.0.iter_mut().enumerate() {
        *byte = u8::try_from(index * 7 % 251).unwrap();
    }
    bytes
}

fn argument(bytes: &mut [u8], view: View, access: Access) -> Argument<'_> {
    let cells = Cell::from_mut(bytes).as_slice_of_cells();
    let operand = Operand::in_cells(cells, view, access).unwrap();
    // SAFETY: the bytes are this function's caller's alone, and lent as long as the answer lives.
    unsafe { Argument::new(operand) }
}

fn view(offset: u64, dtype: DType, shapes: &[u32], strides: &[u32]) -> Result<View, ViewError> {
    View::new(offset, dtype, shapes, strides, 4096)
}

#[test]
fn a_dense_view_is_a_slice_of_its_elements_and_no_byte_more() {
    let mut memory = bytes();
    let dense = View::row_major(8, DType::Int32, &[2, 3], 4096).unwrap();
    let mut argument = argument(&mut memory.0, dense, Access::ReadWrite);
    let expected: Vec<i32> = (0..6)
        .map(|index| {
            let at = 8 + 4 * index;
            i32::from_le_bytes(bytes().0[at..at + 4].try_into().unwrap())
        })
        .collect();
    assert_eq!(argument.slice::<i32>().unwrap(), expected);
    argument.slice_mut::<i32>().unwrap().fill(-1);
    let before = bytes();
    for (index, (&found, &was)) in memory.0.iter().zip(&before.0).enumerate() {
        let expected = if (8..32).contains(&index) { 0xff } else { was };
        assert_eq!(found, expected, "{index}");
    }
}

#[test]
fn every_element_type_has_one_type_here_and_the_others_are_refused() {
    fn is<T: Element>(dtype: DType) -> bool {
        let mut memory = bytes();
        let one = View::row_major(0, dtype, &[1], 4096).unwrap();
        match argument(&mut memory.0, one, Access::Read).slice::<T>() {
            Ok(found) => found.len() == 1,
            Err(error) => {
                let asked = core::any::type_name::<T>();
                assert_eq!(error, TypedError::Dtype { found: dtype, asked });
                assert_eq!(error.code(), Code::ElementType);
                false
            }
        }
    }
    for dtype in DType::ALL.iter().copied() {
        let found = [
            is::<f32>(dtype),
            is::<i8>(dtype),
            is::<u8>(dtype),
            is::<i16>(dtype),
            is::<u16>(dtype),
            is::<i32>(dtype),
            is::<u32>(dtype),
            is::<i64>(dtype),
            is::<u64>(dtype),
            #[cfg(feature = "ndarray")]
            is::<half::f16>(dtype),
            #[cfg(feature = "ndarray")]
            is::<half::bf16>(dtype),
        ];
        let is_half = matches!(dtype, DType::Float16 | DType::Bfloat16);
        let expected = usize::from(!is_half || cfg!(feature = "ndarray"));
        assert_eq!(found.iter().filter(|&&is| is).count(), expected, "{dtype}");
    }
}

#[test]
fn what_is_not_granted_not_aligned_or_not_dense_is_refused() {
    let mut memory = bytes();
    let dense = View::row_major(0, DType::Float32, &[4], 4096).unwrap();
    let mut read = argument(&mut memory.0, dense, Access::Read);
    let denied = |granted, needed| TypedError::Denied { granted, needed };
    assert_eq!(read.slice_mut::<f32>(), Err(denied(Access::Read, Access::Write)));
    let mut write = argument(&mut memory.0, dense, Access::Write);
    assert_eq!(write.slice::<f32>(), Err(denied(Access::Write, Access::Read)));
    write.slice_mut::<f32>().unwrap().fill(1.0);
    // A backing can start anywhere, and a view only keeps to its element's size from there.
    let address = memory.0.as_ptr().addr() + 1;
    let odd = argument(&mut memory.0[1..], dense, Access::Read);
    assert_eq!(odd.slice::<f32>(), Err(TypedError::Misaligned { address, alignment: 4 }));
    let gaps = view(0, DType::Float32, &[4], &[2]).unwrap();
    let gaps = argument(&mut memory.0, gaps, Access::Read);
    assert_eq!(gaps.slice::<f32>(), Err(TypedError::NotContiguous));
}

#[cfg(feature = "ndarray")]
mod arrays {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_written_view_that_overlaps_itself_is_refused_and_a_read_one_is_shown() {
        let mut memory = bytes();
        let windows = view(0, DType::Uint8, &[3, 4], &[1, 1]).unwrap();
        let mut argument = argument(&mut memory.0, windows, Access::ReadWrite);
        assert_eq!(argument.array_mut::<u8>().unwrap_err(), TypedError::SelfOverlap);
        let found = argument.array::<u8>().unwrap();
        for ((row, column), &byte) in found.into_dimensionality::<ndarray::Ix2>().unwrap().indexed_iter() {
            assert_eq!(byte, bytes().0[row + column]);
        }
    }

    #[test]
    fn more_elements_than_addresses_are_refused() {
        let mut memory = vec![0_u8; 1 << 20];
        let nbytes = 1 << 20;
        let many = View::new(0, DType::Uint8, &[1 << 17; 5], &[1; 5], nbytes).unwrap();
        let argument = argument(&mut memory, many, Access::Read);
        let error = argument.array::<u8>().unwrap_err();
        assert_eq!(error, TypedError::TooManyElements { elements: u64::MAX });
        assert_eq!(error.code(), Code::TooManyElements);
    }

    #[test]
    fn a_step_that_is_never_taken_may_lead_anywhere() {
        let mut memory = bytes();
        let single = view(0, DType::Float32, &[1, 2, 1], &[u32::MAX, 3, 7]).unwrap();
        let mut argument = argument(&mut memory.0, single, Access::ReadWrite);
        let mut found = argument.array_mut::<f32>().unwrap();
        assert_eq!(found.shape(), [1, 2, 1]);
        found.fill(2.0);
        assert_eq!(memory.0[12..16], 2_f32.to_le_bytes());
    }

    proptest! {
        #[test]
        fn every_view_shows_the_elements_of_a_naive_walk(
            rank in 1_usize..=5,
            shapes in proptest::array::uniform5(1_u32..5),
            strides in proptest::array::uniform5(1_u32..40),
            offset in 0_u64..20,
        ) {
            let (shapes, strides) = (&shapes[..rank], &strides[..rank]);
            let Ok(view) = view(offset * 2, DType::Uint16, shapes, strides) else { return Ok(()) };
            let mut memory = bytes();
            let reference = bytes();
            let at = |index: &[usize]| {
                let steps: usize = index.iter().zip(strides).map(|(&i, &s)| i * usize::try_from(s).unwrap()).sum();
                usize::try_from(offset).unwrap() * 2 + 2 * steps
            };
            let overlaps = may_overlap_itself(&view);
            let mut argument = argument(&mut memory.0, view, Access::ReadWrite);
            let found = argument.array::<u16>().unwrap();
            prop_assert_eq!(found.ndim(), rank);
            for (index, &value) in found.indexed_iter() {
                let place = at(ndarray::Dimension::slice(&index));
                prop_assert_eq!(value.to_le_bytes(), [reference.0[place], reference.0[place + 1]]);
            }
            let mut touched = vec![false; 4096];
            match argument.array_mut::<u16>() {
                Ok(mut found) => {
                    prop_assert!(!overlaps);
                    for (index, value) in found.indexed_iter_mut() {
                        let place = at(ndarray::Dimension::slice(&index));
                        *value = !*value;
                        prop_assert!(!touched[place]);
                        touched[place..place + 2].fill(true);
                    }
                }
                Err(error) => {
                    let expected = if overlaps { TypedError::SelfOverlap } else { TypedError::Interleaved };
                    prop_assert_eq!(error, expected);
                    prop_assert!(!is_nested(&view));
                }
            }
            for (index, (&found, &was)) in memory.0.iter().zip(&reference.0).enumerate() {
                prop_assert_eq!(found, if touched[index] { !was } else { was });
            }
        }
    }
}
