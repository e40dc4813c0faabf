//! Scalars: what 64 bits travel for a number of Python's, of numpy's, or of a named type, and back.

use bufabi_core::{Code, DType};
use bufabi_host::kernels::is_value;
use half::{bf16, f16};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat};

use crate::dtype::type_of;
use crate::error::with_rule;

/// The 64 bits of a number, and of a type if one is named.
///
/// Without: those of a whole number, two's complement of a negative one; a float's; and of a scalar of numpy that is no whole number
/// its own bits in the low end.
pub(crate) fn scalar_bits(scalar: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<u64> {
    match dtype {
        Some(dtype) => typed_bits(scalar, dtype),
        None => bits_as_given(scalar),
    }
}

fn bits_as_given(scalar: &Bound<'_, PyAny>) -> PyResult<u64> {
    match scalar.extract::<u64>() {
        Ok(bits) => return Ok(bits),
        Err(error) if error.is_instance_of::<PyOverflowError>(scalar.py()) => {
            let signed = scalar.extract::<i64>().map(i64::cast_unsigned);
            return signed
                .map_err(|_| PyValueError::new_err(format!("scalar: {scalar} does not fit 64 bits")));
        }
        Err(_) => {}
    }
    if let Ok(float) = scalar.cast::<PyFloat>() {
        return Ok(float.extract::<f64>()?.to_bits());
    }
    own_bits(scalar).map(|(_, bits)| bits).ok_or_else(|| {
        let found = scalar.get_type();
        PyTypeError::new_err(format!("scalar: an int, a float or a scalar of numpy is needed, not {found}"))
    })
}

/// The type and the bits of one element of numpy's or of ml_dtypes'.
fn own_bits(scalar: &Bound<'_, PyAny>) -> Option<(DType, u64)> {
    let shape = scalar.getattr("shape").ok()?;
    let dtype = type_of(&scalar.getattr("dtype").ok()?).filter(|_| shape.len().is_ok_and(|len| len == 0))?;
    let bytes = scalar.call_method0("tobytes").ok()?;
    let bytes = bytes.cast::<PyBytes>().ok()?.as_bytes();
    let mut bits = [0; 8];
    bits.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some((dtype, u64::from_le_bytes(bits)))
}

/// The bits of a value of that type, in the low end.
fn typed_bits(scalar: &Bound<'_, PyAny>, dtype: DType) -> PyResult<u64> {
    if let Some((found, bits)) = own_bits(scalar)
        && found == dtype
    {
        return Ok(bits);
    }
    match dtype {
        DType::Float32 => {
            let value = scalar.extract::<f64>()?;
            // The nearest of binary32: what a cast is.
            #[expect(
                clippy::as_conversions,
                clippy::cast_possible_truncation,
                reason = "rounds, and past the largest to infinity, which is refused"
            )]
            let rounded = value as f32;
            in_range(rounded.is_finite() || !value.is_finite(), scalar, dtype)?;
            Ok(rounded.to_bits().into())
        }
        DType::Float16 => {
            let value = scalar.extract::<f64>()?;
            let rounded = f16::from_f64(value);
            in_range(rounded.is_finite() || !value.is_finite(), scalar, dtype)?;
            Ok(rounded.to_bits().into())
        }
        DType::Bfloat16 => {
            let value = scalar.extract::<f64>()?;
            let rounded = bf16::from_f64(value);
            in_range(rounded.is_finite() || !value.is_finite(), scalar, dtype)?;
            Ok(rounded.to_bits().into())
        }
        DType::Bool => scalar.extract::<bool>().map(u64::from).or_else(|_| {
            let bits = bits_as_given(scalar)?;
            in_range(bits <= 1, scalar, dtype)?;
            Ok(bits)
        }),
        DType::Int8
        | DType::Int16
        | DType::Int32
        | DType::Int64
        | DType::Uint8
        | DType::Uint16
        | DType::Uint32
        | DType::Uint64 => {
            let unused = unused_bits(dtype);
            let is_signed = matches!(dtype, DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64);
            let bits = if is_signed {
                let value = whole::<i64>(scalar, dtype)?;
                in_range(value << unused >> unused == value, scalar, dtype)?;
                value.cast_unsigned()
            } else {
                whole::<u64>(scalar, dtype)?
            };
            let kept = bits << unused >> unused;
            in_range(is_signed || kept == bits, scalar, dtype)?;
            Ok(kept)
        }
        DType::Fp8E4M3Fn | DType::Fp8E8M0 | DType::Fp4E2M1 => Err(PyTypeError::new_err(format!(
            "scalar: one of {dtype} is given by its bits, as an int without a type, or as a scalar of ml_dtypes"
        ))),
    }
}

/// A whole number of that type, or the ValueError that it is none of it.
fn whole<'py, T>(scalar: &Bound<'py, PyAny>, dtype: DType) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    scalar.extract::<T>().map_err(|error| {
        if error.is_instance_of::<PyOverflowError>(scalar.py()) {
            return no_value(scalar, dtype);
        }
        PyTypeError::new_err(format!("scalar: {dtype} takes an int, not {}", scalar.get_type()))
    })
}

fn in_range(is: bool, scalar: &Bound<'_, PyAny>, dtype: DType) -> PyResult<()> {
    if is { Ok(()) } else { Err(no_value(scalar, dtype)) }
}

#[cold]
fn no_value(scalar: &Bound<'_, PyAny>, dtype: DType) -> PyErr {
    with_rule(Code::KernelScalar, &format_args!("{scalar} is no value of {dtype}"), PyValueError::new_err)
}

/// What 64 bits are in Python: themselves, or the value of a type, whose bits lie in the low end.
pub(crate) fn scalar_value(py: Python<'_>, bits: u64, dtype: Option<DType>) -> PyResult<Bound<'_, PyAny>> {
    let Some(dtype) = dtype else { return bits.into_bound_py_any(py) };
    if !is_value(dtype, bits) {
        let message = format_args!("the bits {bits:#x} are no {dtype}");
        return Err(with_rule(Code::KernelScalar, &message, PyValueError::new_err));
    }
    let [a, b, c, d, ..] = bits.to_le_bytes();
    match dtype {
        DType::Float32 => f64::from(f32::from_le_bytes([a, b, c, d])).into_bound_py_any(py),
        DType::Float16 => f16::from_le_bytes([a, b]).to_f64().into_bound_py_any(py),
        DType::Bfloat16 => bf16::from_le_bytes([a, b]).to_f64().into_bound_py_any(py),
        DType::Bool => Ok(PyBool::new(py, bits != 0).to_owned().into_any()),
        DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64 => {
            let unused = unused_bits(dtype);
            // The cast keeps the bits, and the shift back repeats the sign.
            ((bits << unused).cast_signed() >> unused).into_bound_py_any(py)
        }
        DType::Uint8
        | DType::Uint16
        | DType::Uint32
        | DType::Uint64
        | DType::Fp8E4M3Fn
        | DType::Fp8E8M0
        | DType::Fp4E2M1 => bits.into_bound_py_any(py),
    }
}

/// Bits of a scalar past those of the type: at most 56.
const fn unused_bits(dtype: DType) -> u32 {
    64_u32.saturating_sub(dtype.size().saturating_mul(8))
}
