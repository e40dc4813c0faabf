//! Kernels against loops over indices, on random views of every type.

use core::cell::Cell;

use bufabi_core::{Access, DType, View};
use bufabi_device::kernel::number::{Element, Number};
use bufabi_device::kernel::{is_number, is_value};
use half::{bf16, f16};
use proptest::prelude::*;

use super::*;

/// A backing and a view of it.
#[derive(Clone, Debug)]
struct Buffer {
    bytes: Vec<u8>,
    view: View,
}

impl Buffer {
    /// The view of `shape` whose dimensions are laid out in the order of `order`, with gaps of `gap` elements.
    fn new(dtype: DType, shape: &[u32], order: &[usize], gap: u32, seed: u64) -> Self {
        let mut strides = vec![1; shape.len()];
        let mut step = 1;
        let mut places: Vec<usize> = (0..shape.len()).collect();
        places.sort_by_key(|&dim| order.get(dim).copied().unwrap_or(dim));
        for dim in places {
            strides[dim] = step;
            step = step * shape[dim] + gap;
        }
        let offset = u64::from(gap) * u64::from(dtype.size());
        let view = View::new(offset, dtype, shape, &strides, 1 << 30).unwrap();
        let mut state = seed | 1;
        let bytes = (0..view.end() + 8)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Small exponents, so that floats neither overflow nor are NaN.
                (state >> 56) as u8 & 0x3f
            })
            .collect();
        Self { bytes, view }
    }

    fn operand(&mut self, access: Access) -> Operand<'_> {
        let cells = Cell::from_mut(&mut self.bytes[..]).as_slice_of_cells();
        Operand::in_cells(cells, self.view, access).unwrap()
    }

    fn place<T>(&self, index: &[u32]) -> usize {
        let elements: u64 = index
            .iter()
            .zip(self.view.strides())
            .map(|(&index, &step)| u64::from(index) * u64::from(step))
            .sum();
        self.view.byte_offset() as usize + elements as usize * size_of::<T>()
    }

    fn get<T: Element>(&self, index: &[u32]) -> T {
        let place = self.place::<T>(index);
        T::read_from_bytes(&self.bytes[place..place + size_of::<T>()]).unwrap()
    }

    fn set<T: Element>(&mut self, index: &[u32], value: T) {
        let place = self.place::<T>(index);
        value.write_to(&mut self.bytes[place..place + size_of::<T>()]).unwrap();
    }

    fn indices(&self) -> Vec<Vec<u32>> {
        let mut indices = vec![vec![]];
        for &count in self.view.shapes() {
            indices = indices
                .into_iter()
                .flat_map(|index: Vec<u32>| {
                    (0..count).map(move |next| {
                        let mut index = index.clone();
                        index.push(next);
                        index
                    })
                })
                .collect();
        }
        indices
    }
}

fn run(call: Call, buffers: &mut [Buffer], scalars: &[u64]) -> Result<(), KernelError> {
    let last = buffers.len() - 1;
    let operands: Vec<Operand<'_>> = buffers
        .iter_mut()
        .enumerate()
        .map(|(i, buffer)| buffer.operand(if i == last { Access::ReadWrite } else { Access::Read }))
        .collect();
    StandardKernels.run(call.number(), &operands, scalars)
}

/// What the call leaves in the last buffer, one index after the other.
fn naive<T: Number>(call: Call, buffers: &[Buffer], scalar: u64) -> Buffer {
    let mut result = buffers.last().unwrap().clone();
    let wide = |buffer: usize, index: &[u32]| buffers[buffer].get::<T>(index).widen();
    for index in result.indices() {
        let start = if call.accumulate { result.get::<T>(&index).widen() } else { T::Wide::default() };
        let value = match call.kernel {
            Kernel::None => continue,
            Kernel::Fill => T::from_scalar(scalar),
            Kernel::Copy => buffers[0].get(&index),
            Kernel::Add => T::round(T::add(wide(0, &index), wide(1, &index))),
            Kernel::Mul => T::round(T::mul(wide(0, &index), wide(1, &index))),
            Kernel::Scale => T::round(T::mul(wide(0, &index), T::from_scalar(scalar).widen())),
            Kernel::MatMul => T::round((0..buffers[0].view.shapes()[1]).fold(start, |sum, term| {
                T::add(sum, T::mul(wide(0, &[index[0], term]), wide(1, &[term, index[1]])))
            })),
            Kernel::SumRows => T::round(
                (0..buffers[0].view.shapes()[1])
                    .fold(start, |sum, term| T::add(sum, wide(0, &[index[0], term]))),
            ),
        };
        result.set(&index, value);
    }
    result
}

fn expected(call: Call, buffers: &[Buffer], scalar: u64) -> Buffer {
    match buffers[0].view.dtype() {
        DType::Float32 => naive::<f32>(call, buffers, scalar),
        DType::Float16 => naive::<f16>(call, buffers, scalar),
        DType::Bfloat16 => naive::<bf16>(call, buffers, scalar),
        DType::Int32 => naive::<i32>(call, buffers, scalar),
        DType::Int16 => naive::<i16>(call, buffers, scalar),
        DType::Int8 => naive::<i8>(call, buffers, scalar),
        DType::Int64 => naive::<i64>(call, buffers, scalar),
        DType::Uint64 => naive::<u64>(call, buffers, scalar),
        DType::Uint32 => naive::<u32>(call, buffers, scalar),
        DType::Uint16 => naive::<u16>(call, buffers, scalar),
        // The others have one byte, and are only carried.
        _ => naive::<u8>(call, buffers, scalar),
    }
}

/// Runs the call and compares every byte of the output's backing, gaps included.
fn agree(call: Call, mut buffers: Vec<Buffer>, scalar: u64) -> Result<(), TestCaseError> {
    let expected = expected(call, &buffers, scalar);
    let inputs: Vec<Vec<u8>> = buffers.iter().map(|buffer| buffer.bytes.clone()).collect();
    prop_assert_eq!(run(call, &mut buffers, &[scalar]), Ok(()));
    let (output, others) = buffers.split_last().unwrap();
    prop_assert!(output.bytes == expected.bytes, "{call:?} of {:?}", output.view);
    for (input, before) in others.iter().zip(inputs) {
        prop_assert_eq!(&input.bytes, &before);
    }
    Ok(())
}

fn order(ndims: usize) -> impl Strategy<Value = Vec<usize>> {
    Just((0..ndims).collect::<Vec<_>>()).prop_shuffle()
}

proptest! {
    #[test]
    fn elementwise_kernels_agree_with_loops_over_indices(
        dtype in 0_u8..15,
        kernel in 1_usize..6,
        shape in prop::collection::vec(1_u32..5, 1..6),
        orders in prop::collection::vec(order(5), 3),
        gaps in prop::collection::vec(0_u32..3, 3),
        long in 1_u32..1500,
        seed: u64,
    ) {
        let dtype = DType::from_wire(dtype).unwrap();
        let kernel = Kernel::ALL[kernel];
        prop_assume!(is_number(dtype) || matches!(kernel, Kernel::Fill | Kernel::Copy));
        let mut shape = shape;
        if long % 3 == 0 {
            let last = shape.len() - 1;
            shape[last] = long;
        }
        let buffers = (0..kernel.operands().unwrap())
            .map(|i| Buffer::new(dtype, &shape, &orders[i], gaps[i], seed.wrapping_add(i as u64)))
            .collect();
        let scalar = seed & if dtype.size() == 1 { 0x3f } else { 0x3f3f };
        agree(Call { kernel, accumulate: false }, buffers, scalar)?;
    }

    #[test]
    fn matrix_kernels_agree_with_loops_over_indices(
        dtype in 0_u8..11,
        m in 1_u32..80,
        k in 1_u32..300,
        n in 1_u32..150,
        orders in prop::collection::vec(order(2), 3),
        gaps in prop::collection::vec(0_u32..3, 3),
        accumulate: bool,
        sum_rows: bool,
        seed: u64,
    ) {
        let dtype = DType::from_wire(dtype).unwrap();
        // One dimension at a time is large enough to be cut into blocks.
        let (m, k, n) = match seed % 3 {
            0 => (m, k % 9 + 1, n % 9 + 1),
            1 => (m % 9 + 1, k, n % 9 + 1),
            _ => (m % 9 + 1, k % 9 + 1, n),
        };
        let buffer = |i: usize, shape: &[u32]| Buffer::new(dtype, shape, &orders[i], gaps[i], seed ^ i as u64);
        let (kernel, buffers) = if sum_rows {
            (Kernel::SumRows, vec![buffer(0, &[m, k]), buffer(1, &[m])])
        } else {
            (Kernel::MatMul, vec![buffer(0, &[m, k]), buffer(1, &[k, n]), buffer(2, &[m, n])])
        };
        agree(Call { kernel, accumulate }, buffers, 0)?;
    }
}

/// Runs an elementwise kernel on one element of each.
fn one<T: Number>(kernel: Kernel, dtype: DType, a: T, b: T) -> T {
    let mut buffers = vec![Buffer::new(dtype, &[1], &[0], 0, 1); 3];
    buffers[0].set(&[0], a);
    buffers[1].set(&[0], b);
    run(Call { kernel, accumulate: false }, &mut buffers, &[]).unwrap();
    buffers[2].get(&[0])
}

#[test]
fn integers_wrap() {
    assert_eq!(one::<i8>(Kernel::Add, DType::Int8, 127, 1), -128);
    assert_eq!(one::<u16>(Kernel::Mul, DType::Uint16, 256, 257), 256);
    assert_eq!(one::<i64>(Kernel::Mul, DType::Int64, i64::MIN, -1), i64::MIN);
    assert_eq!(one::<u32>(Kernel::Add, DType::Uint32, u32::MAX, 2), 1);
}

#[test]
fn floats_of_16_bits_are_rounded_once_and_to_even() {
    let half = |value| f16::from_f32(value);
    // 2048 and 2050 are neighbours: 2049 lies between, and so does 2051 with 2052.
    assert_eq!(one(Kernel::Add, DType::Float16, half(2048.0), half(1.0)), half(2048.0));
    assert_eq!(one(Kernel::Add, DType::Float16, half(2050.0), half(1.0)), half(2052.0));
    let brain = |value| bf16::from_f32(value);
    assert_eq!(one(Kernel::Add, DType::Bfloat16, brain(256.0), brain(1.0)), brain(256.0));
    assert_eq!(one(Kernel::Add, DType::Bfloat16, brain(258.0), brain(1.0)), brain(260.0));
    // Each single addition would be lost; their sum is not.
    let mut buffers = vec![
        Buffer::new(DType::Float16, &[1, 5], &[1, 0], 0, 1),
        Buffer::new(DType::Float16, &[1], &[0], 0, 1),
    ];
    for (index, value) in (0..).zip([2048.0, 1.0, 1.0, 1.0, 1.0]) {
        buffers[0].set(&[0, index], half(value));
    }
    run(Call { kernel: Kernel::SumRows, accumulate: false }, &mut buffers, &[]).unwrap();
    assert_eq!(buffers[1].get::<f16>(&[0]), half(2052.0));
}

#[test]
fn what_a_kernel_does_not_take_is_named() {
    let f32s = |shape: &[u32]| Buffer::new(DType::Float32, shape, &[1, 0], 0, 1);
    let refused = |kernel, buffers: &[Buffer], scalars: &[u64]| {
        run(Call { kernel, accumulate: false }, &mut buffers.to_vec(), scalars).unwrap_err()
    };
    let a = f32s(&[2, 3]);
    assert_eq!(
        refused(Kernel::Add, &[a.clone(), a.clone()], &[]),
        KernelError::Counts { operands: 3, found_operands: 2, scalars: 0, found_scalars: 0 }
    );
    assert_eq!(
        refused(Kernel::Scale, &[a.clone(), a.clone()], &[]),
        KernelError::Counts { operands: 2, found_operands: 2, scalars: 1, found_scalars: 0 }
    );
    assert_eq!(
        refused(Kernel::Copy, &[a.clone(), Buffer::new(DType::Int32, &[2, 3], &[1, 0], 0, 1)], &[]),
        KernelError::DtypeDiffers { operand: 1, expected: DType::Float32, found: DType::Int32 }
    );
    let bools = Buffer::new(DType::Bool, &[2], &[0], 0, 1);
    assert_eq!(
        refused(Kernel::Scale, &[bools.clone(), bools], &[0]),
        KernelError::DtypeUnsupported { operand: 0, found: DType::Bool }
    );
    assert_eq!(
        refused(Kernel::Copy, &[a.clone(), f32s(&[2])], &[]),
        KernelError::Ndims { operand: 1, expected: 2, found: 1 }
    );
    assert_eq!(
        refused(Kernel::MatMul, &[a.clone(), f32s(&[4, 5]), f32s(&[2, 5])], &[]),
        KernelError::Shape { operand: 1, dim: 0, expected: 3, found: 4 }
    );
    assert_eq!(
        refused(Kernel::MatMul, &[a.clone(), f32s(&[3, 5]), f32s(&[2, 6])], &[]),
        KernelError::Shape { operand: 2, dim: 1, expected: 5, found: 6 }
    );
    assert_eq!(
        refused(Kernel::SumRows, &[a.clone(), f32s(&[3])], &[]),
        KernelError::Shape { operand: 1, dim: 0, expected: 2, found: 3 }
    );
    let mut overlapping = a.clone();
    overlapping.view = View::new(0, DType::Float32, &[2, 3], &[1, 1], 24).unwrap();
    assert_eq!(
        refused(Kernel::Add, &[a.clone(), a.clone(), overlapping.clone()], &[]),
        KernelError::SelfOverlap { operand: 2 }
    );
    // Carrying bits is no computing.
    let mut copied = vec![a.clone(), overlapping];
    run(Call { kernel: Kernel::Copy, accumulate: false }, &mut copied, &[]).unwrap();
    assert_eq!(copied[1].get::<u32>(&[1, 2]), a.get::<u32>(&[1, 2]));
    assert_eq!(StandardKernels.run(8, &[], &[]), Err(KernelError::Unknown { kernel: 8 }));
    let mut buffer = f32s(&[2]);
    assert_eq!(
        StandardKernels.run(1, &[buffer.operand(Access::Read)], &[0]),
        Err(KernelError::Denied { operand: 0, granted: Access::Read, needed: Access::Write })
    );
}

#[test]
fn a_scalar_is_a_value_of_the_element_type() {
    for (dtype, bits, fits) in [
        (DType::Uint8, 255, true),
        (DType::Uint8, 256, false),
        (DType::Uint8, u64::MAX, false),
        (DType::Int8, 255, true),
        (DType::Int8, u64::MAX, true),
        (DType::Int8, u64::MAX - 128, false),
        (DType::Float32, 0x3fc0_0000, true),
        (DType::Float32, 1 << 32, false),
        (DType::Int64, u64::MAX, true),
        (DType::Uint64, u64::MAX, true),
    ] {
        assert_eq!(is_value(dtype, bits), fits, "{dtype} {bits:#x}");
        let mut buffers = [Buffer::new(dtype, &[1], &[0], 0, 1)];
        let filled = run(Call { kernel: Kernel::Fill, accumulate: false }, &mut buffers, &[bits]);
        assert_eq!(filled.is_ok(), fits);
    }
}

#[test]
fn numbers_of_calls_come_back_and_no_other_is_one() {
    let mut known = 0;
    for number in 0..1024 {
        if let Some(call) = Call::from_number(number) {
            assert_eq!(call.number(), number);
            known += 1;
        }
    }
    assert_eq!(known, 10, "eight kernels, two of which accumulate");
    for kernel in Kernel::ALL {
        assert_eq!(Kernel::from_name(kernel.name()), Some(kernel));
    }
    assert_eq!(Kernel::from_name("nothing"), None);
}
