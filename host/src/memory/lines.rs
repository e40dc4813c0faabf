//! The bytes of an operand's elements, in the order of their index.

use bufabi_device::kernel::{Bits, LINE, for_each_line};
use zerocopy::IntoBytes;

use super::operand::Operand;
use super::strided::Strided;

/// Hands out the bytes of an operand's elements in the order of their index, some at a time, until that fails.
///
/// # Errors
/// What `each` said.
pub fn read_in_order<E>(
    operand: &Operand<'_>,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    match operand.view().dtype().size() {
        1 => read_elements::<u8, E>(operand, &mut each),
        2 => read_elements::<u16, E>(operand, &mut each),
        4 => read_elements::<u32, E>(operand, &mut each),
        _ => read_elements::<u64, E>(operand, &mut each),
    }
}

fn read_elements<T: Bits, E>(
    operand: &Operand<'_>,
    each: &mut impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let Some(operand) = Strided::<T>::new(operand) else { return Ok(()) };
    let mut line = [T::default(); LINE];
    let mut result = Ok(());
    for_each_line([&operand], false, |[place], length| {
        let line = line.get_mut(..length).unwrap_or_default();
        place.load(line);
        if result.is_ok() {
            result = each(line.as_bytes());
        }
    });
    result
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use bufabi_core::{Access, DType, View};

    use super::*;

    fn read(bytes: &mut [u8], view: View) -> Vec<u8> {
        let cells = Cell::from_mut(bytes).as_slice_of_cells();
        let operand = Operand::in_cells(cells, view, Access::Read).unwrap();
        let mut read = Vec::new();
        let done: Result<(), ()> = read_in_order(&operand, |bytes| {
            read.extend_from_slice(bytes);
            Ok(())
        });
        done.unwrap();
        read
    }

    #[test]
    fn elements_come_in_the_order_of_their_index() {
        let mut bytes: Vec<u8> = (0..24).collect();
        let transposed = View::new(0, DType::Uint16, &[3, 4], &[1, 3], 24).unwrap();
        let expected: Vec<u8> = [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]
            .iter()
            .flat_map(|&element: &u8| [element.wrapping_mul(2), element.wrapping_mul(2).wrapping_add(1)])
            .collect();
        assert_eq!(read(&mut bytes, transposed), expected);
        let dense = View::row_major(8, DType::Int64, &[2, 1, 1], 24).unwrap();
        assert_eq!(read(&mut bytes, dense), (8..24).collect::<Vec<u8>>());
        let same = View::new(5, DType::Bool, &[2, 3], &[1, 1], 24).unwrap();
        assert_eq!(read(&mut bytes, same), [5, 6, 7, 6, 7, 8]);
        let mut long = vec![7_u8; 5000];
        let view = View::new(0, DType::Uint8, &[2, 2500], &[2500, 1], 5000).unwrap();
        assert_eq!(read(&mut long, view), long);
    }

    #[test]
    fn nothing_is_asked_for_after_a_failure() {
        let mut bytes = vec![0_u8; 5000];
        let cells = Cell::from_mut(&mut bytes[..]).as_slice_of_cells();
        let view = View::row_major(0, DType::Uint8, &[5000], 5000).unwrap();
        let operand = Operand::in_cells(cells, view, Access::Read).unwrap();
        let mut calls = 0;
        let failed = read_in_order(&operand, |_| {
            calls += 1;
            Err("no more")
        });
        assert_eq!((failed, calls), (Err("no more"), 1));
    }
}
