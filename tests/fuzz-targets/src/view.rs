//! A view in 19 bytes of which nearly all are legal, so that a fuzzer spends its time on geometry and not on magic numbers.

use bufabi_core::{DType, View};

/// Bytes of a view: element type, rank, offset in elements (two, little-endian), then for each of five dimensions elements (one)
/// and stride (two).
pub const VIEW_BYTES: usize = 19;

/// Bytes of the backing that a decoded view lies in.
pub const BACKING_BYTES: u64 = 1 << 16;

/// Elements of a decoded view, at most.
const MOST_ELEMENTS: u64 = 4_096;

/// The view that 19 bytes say, if it lies within 64 KiB and has at most 4,096 elements.
pub fn decode_view(bytes: &[u8]) -> Option<View> {
    decode_view_within(bytes, BACKING_BYTES, MOST_ELEMENTS)
}

/// The view that 19 bytes say, if it lies within so many bytes and has at most so many elements.
pub fn decode_view_within(bytes: &[u8], nbytes: u64, most_elements: u64) -> Option<View> {
    let bytes: &[u8; VIEW_BYTES] = bytes.try_into().ok()?;
    let dtype = DType::ALL[usize::from(bytes[0]) % DType::ALL.len()];
    let ndims = 1 + usize::from(bytes[1]) % 5;
    let offset = u64::from(u16::from_le_bytes([bytes[2], bytes[3]])) * u64::from(dtype.size());
    let (mut shapes, mut strides) = ([0; 5], [0; 5]);
    for (dim, bytes) in bytes[4..].chunks_exact(3).enumerate().take(ndims) {
        shapes[dim] = 1 + u32::from(bytes[0]);
        strides[dim] = 1 + u32::from(u16::from_le_bytes([bytes[1], bytes[2]]));
    }
    let view = View::new(offset, dtype, &shapes[..ndims], &strides[..ndims], nbytes).ok()?;
    (view.elements() <= most_elements).then_some(view)
}

/// The bytes that say a view, if there are any.
pub fn encode_view(view: &View) -> Option<[u8; VIEW_BYTES]> {
    let mut bytes = [0; VIEW_BYTES];
    bytes[0] = view.dtype().to_wire();
    bytes[1] = view.ndims() - 1;
    let offset = u16::try_from(view.byte_offset() / u64::from(view.dtype().size())).ok()?;
    bytes[2..4].copy_from_slice(&offset.to_le_bytes());
    for (bytes, (shape, stride)) in
        bytes[4..].chunks_exact_mut(3).zip(view.shapes().iter().zip(view.strides()))
    {
        bytes[0] = u8::try_from(shape - 1).ok()?;
        bytes[1..].copy_from_slice(&u16::try_from(stride - 1).ok()?.to_le_bytes());
    }
    (decode_view(&bytes) == Some(*view)).then_some(bytes)
}

/// The first byte of each element, once for each index that names it.
pub fn elements(view: &View) -> Vec<u64> {
    let size = u64::from(view.dtype().size());
    let mut starts = vec![view.byte_offset()];
    for (&shape, &stride) in view.shapes().iter().zip(view.strides()) {
        let steps = 0..u64::from(shape);
        starts = steps
            .flat_map(|i| starts.iter().map(move |start| start + i * u64::from(stride) * size))
            .collect();
    }
    starts
}
