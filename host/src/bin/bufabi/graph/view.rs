//! Views out of a graph file: numbers into their ranges, and rules of a view to the field that breaks them.

use bufabi_core::{DType, View, ViewError};

use super::file::Integer;
use crate::failure::Failure;

/// The fields of an entry that is a view.
pub(super) struct ViewEntry<'a> {
    pub(super) dtype: &'a str,
    pub(super) byte_offset: Option<Integer>,
    pub(super) shape: &'a [Integer],
    pub(super) strides: Option<&'a [Integer]>,
}

impl ViewEntry<'_> {
    /// The view of a backing of `nbytes` bytes.
    pub(super) fn resolve(&self, nbytes: u64) -> Result<View, Failure> {
        let dtype = named("dtype", self.dtype, DType::from_name, DType::ALL)?;
        let shape = numbers("shape", self.shape)?;
        let byte_offset = match self.byte_offset {
            Some(Integer(given)) => u64::try_from(given)
                .map_err(|_| Failure::broken(format!("{given} is no byte offset")).at("byte_offset"))?,
            None => 0,
        };
        let view = match self.strides {
            Some(strides) => {
                let strides = numbers("strides", strides)?;
                if strides.len() != shape.len() {
                    let (found, expected) = (strides.len(), shape.len());
                    let message = format!("{found} strides, the shape has {expected} dimensions");
                    return Err(Failure::broken(message).at("strides"));
                }
                View::new(byte_offset, dtype, &shape, &strides, nbytes)
            }
            None => View::row_major(byte_offset, dtype, &shape, nbytes),
        };
        view.map_err(|error| {
            let failure = Failure::broken(error.to_string());
            match error {
                ViewError::Ndims { .. } | ViewError::RowMajorStride { .. } => failure.at("shape"),
                ViewError::ByteOffsetAlignment { .. } => failure.at("byte_offset"),
                ViewError::ShapeZero { dim } => failure.at(&format!("shape[{dim}]")),
                ViewError::StrideZero { dim } => failure.at(&format!("strides[{dim}]")),
                ViewError::InactiveDims { .. }
                | ViewError::ExtentOverflow { .. }
                | ViewError::OutOfBounds { .. } => failure,
            }
        })
    }
}

/// Numbers of 32 bits.
fn numbers(field: &str, given: &[Integer]) -> Result<Vec<u32>, Failure> {
    let number = |(index, &Integer(given))| {
        u32::try_from(given).map_err(|_| {
            Failure::broken(format!("{given} does not lie in 0 to {}", u32::MAX))
                .at(&format!("{field}[{index}]"))
        })
    };
    given.iter().enumerate().map(number).collect()
}

/// The value of that name; if there is none, the complaint lists those that there are.
pub(super) fn named<T: Copy + ToString>(
    field: &str,
    name: &str,
    from_name: impl Fn(&str) -> Option<T>,
    all: &[T],
) -> Result<T, Failure> {
    from_name(name).ok_or_else(|| {
        let names: Vec<String> = all.iter().map(|value| value.to_string().to_ascii_lowercase()).collect();
        Failure::usage(format!("{name:?} is unknown: {} are known", names.join(", "))).at(field)
    })
}
