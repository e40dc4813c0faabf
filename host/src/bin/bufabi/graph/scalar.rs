//! A task's scalars: whole numbers by their 64 bits, or a typed value by its bits in the low end.

use bufabi_core::DType;
use half::{bf16, f16};
use serde_json::{Number, Value};

use crate::failure::Failure;

/// A scalar, and the type that the file gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scalar {
    pub(crate) bits: u64,
    pub(crate) dtype: Option<DType>,
}

impl Scalar {
    /// The scalar of a JSON value.
    pub(super) fn from_json(value: &Value) -> Result<Self, Failure> {
        match value {
            Value::Number(number) => {
                let bits = whole(number).and_then(|whole| {
                    u64::try_from(whole).or_else(|_| i64::try_from(whole).map(i64::cast_unsigned)).ok()
                });
                let bits = bits.ok_or_else(|| {
                    Failure::broken(format!(
                        "{number} is no whole number of 64 bits; {{\"float32\": {number}}} gives it a type"
                    ))
                })?;
                Ok(Self { bits, dtype: None })
            }
            Value::Object(fields) => {
                let mut fields = fields.iter();
                let (Some((name, value)), None) = (fields.next(), fields.next()) else {
                    return Err(Failure::usage("a typed scalar has one field: {\"float32\": 1.5}"));
                };
                let dtype = DType::from_name(name)
                    .ok_or_else(|| Failure::usage(format!("{name:?} is no element type")))?;
                Ok(Self { bits: typed(dtype, value)?, dtype: Some(dtype) })
            }
            Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) => {
                Err(Failure::usage("a scalar is a whole number, or a typed value like {\"float32\": 1.5}"))
            }
        }
    }
}

/// A JSON number as a whole one.
fn whole(number: &Number) -> Option<i128> {
    number.as_u64().map(i128::from).or_else(|| number.as_i64().map(i128::from))
}

/// The bits of a value of that type.
fn typed(dtype: DType, value: &Value) -> Result<u64, Failure> {
    let out_of_range = || Failure::broken(format!("{value} is no value of {dtype}"));
    let whole_of = || {
        let number = if let Value::Number(number) = value { whole(number) } else { None };
        number.ok_or_else(out_of_range)
    };
    let float = || {
        let number = if let Value::Number(number) = value { number.as_f64() } else { None };
        number.ok_or_else(out_of_range)
    };
    let (low, high) = match dtype {
        DType::Float32 => {
            // The nearest of binary32: what a cast is.
            #[expect(
                clippy::as_conversions,
                clippy::cast_possible_truncation,
                reason = "rounds, and past the largest to infinity"
            )]
            let rounded = float()? as f32;
            return finite(rounded.is_finite(), rounded.to_bits().into()).ok_or_else(out_of_range);
        }
        DType::Float16 => {
            let rounded = f16::from_f64(float()?);
            return finite(rounded.is_finite(), rounded.to_bits().into()).ok_or_else(out_of_range);
        }
        DType::Bfloat16 => {
            let rounded = bf16::from_f64(float()?);
            return finite(rounded.is_finite(), rounded.to_bits().into()).ok_or_else(out_of_range);
        }
        DType::Bool => {
            let value = if let Value::Bool(value) = value { Some(*value) } else { None };
            return value.map(u64::from).ok_or_else(out_of_range);
        }
        DType::Fp8E4M3Fn | DType::Fp8E8M0 | DType::Fp4E2M1 => {
            return Err(Failure::usage(format!(
                "a scalar of {dtype} is given by its bits, as a whole number"
            )));
        }
        DType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DType::Uint8 => (0, u8::MAX.into()),
        DType::Uint16 => (0, u16::MAX.into()),
        DType::Uint32 => (0, u32::MAX.into()),
        DType::Uint64 => (0_i128, u64::MAX.into()),
    };
    let number = whole_of()?;
    if !(low..=high).contains(&number) {
        return Err(out_of_range());
    }
    // The low 64 bits of a number that 64 bits hold, signed or not.
    let [bytes, _] = split(number.to_le_bytes());
    let unused = 64_u32.saturating_sub(dtype.size().saturating_mul(8));
    Ok(u64::from_le_bytes(bytes) << unused >> unused)
}

fn finite(is: bool, bits: u64) -> Option<u64> {
    is.then_some(bits)
}

fn split(bytes: [u8; 16]) -> [[u8; 8]; 2] {
    zerocopy::transmute!(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(json: &str) -> Result<u64, Failure> {
        Scalar::from_json(&serde_json::from_str(json).unwrap()).map(|scalar| scalar.bits)
    }

    #[test]
    fn whole_numbers_are_their_64_bits_and_typed_ones_theirs() {
        for (json, expected) in [
            ("3", 3),
            ("-1", u64::MAX),
            ("18446744073709551615", u64::MAX),
            ("-9223372036854775808", 1 << 63),
            (r#"{"float32": 1.5}"#, 0x3fc0_0000),
            (r#"{"float32": 1}"#, 0x3f80_0000),
            (r#"{"float32": 0.1}"#, 0x3dcc_cccd),
            (r#"{"float16": 1.5}"#, 0x3e00),
            (r#"{"bfloat16": -2}"#, 0xc000),
            (r#"{"int8": -1}"#, 0xff),
            (r#"{"int64": -1}"#, u64::MAX),
            (r#"{"uint64": 18446744073709551615}"#, u64::MAX),
            (r#"{"bool": true}"#, 1),
        ] {
            assert_eq!(bits(json), Ok(expected), "{json}");
        }
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for json in [
            "1.5",
            "18446744073709551616",
            "true",
            "\"3\"",
            "{}",
            r#"{"float32": 1, "int8": 1}"#,
            r#"{"float64": 1}"#,
            r#"{"float32": 1e39}"#,
            r#"{"float32": "1"}"#,
            r#"{"float16": 65520}"#,
            r#"{"int8": 128}"#,
            r#"{"uint8": -1}"#,
            r#"{"int8": 1.5}"#,
            r#"{"bool": 1}"#,
            r#"{"fp8e8m0": 1}"#,
        ] {
            assert!(bits(json).is_err(), "{json}");
        }
    }
}
