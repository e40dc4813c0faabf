//! Element types as they come from Python: bufabi's own, and those of numpy, of ml_dtypes and of torch by their names.

use bufabi_core::DType;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// The names of numpy, of ml_dtypes and of torch, which agree.
const NAMES: &[(&str, DType)] = &[
    ("float32", DType::Float32),
    ("float16", DType::Float16),
    ("int32", DType::Int32),
    ("int16", DType::Int16),
    ("int8", DType::Int8),
    ("uint8", DType::Uint8),
    ("bfloat16", DType::Bfloat16),
    ("int64", DType::Int64),
    ("uint64", DType::Uint64),
    ("uint16", DType::Uint16),
    ("uint32", DType::Uint32),
    ("bool", DType::Bool),
    ("bool_", DType::Bool),
    ("float8_e4m3fn", DType::Fp8E4M3Fn),
    ("float8_e8m0fnu", DType::Fp8E8M0),
];

/// The name by which numpy, ml_dtypes or torch knows an element type: that of a dtype, or of the class of its scalars.
pub(crate) fn name_of(given: &Bound<'_, PyAny>) -> PyResult<String> {
    // numpy.dtype has `name`, and numpy.float32 and its like, which are classes, `__name__`; torch.float32 has its text alone.
    let name = match given.getattr("name").or_else(|_| given.getattr("__name__")) {
        Ok(name) => name.str()?.to_string(),
        Err(_) => given.str()?.to_string(),
    };
    Ok(name.strip_prefix("torch.").unwrap_or(&name).to_owned())
}

/// The element type that a dtype or a class of scalars names, if there is one here.
pub(crate) fn type_of(given: &Bound<'_, PyAny>) -> Option<DType> {
    // An order of bytes that is not this machine's has the same name, and other bits.
    let is_native = given.getattr("isnative").map_or(Ok(true), |is| is.is_truthy());
    let name = name_of(given).ok().filter(|_| is_native.is_ok_and(|is| is))?;
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype)
}

/// The element type that an object of numpy, ml_dtypes or torch names; nothing for an object that is none of theirs.
#[cold]
pub(crate) fn of_others(given: &Bound<'_, PyAny>) -> PyResult<Option<DType>> {
    let is_theirs = |object: &Bound<'_, PyAny>| {
        let module = object.getattr("__module__").and_then(|module| module.extract::<String>());
        module.is_ok_and(|module| {
            ["numpy", "ml_dtypes", "torch"].contains(&module.split('.').next().unwrap_or(""))
        })
    };
    // A str and the enumerations of others have names as well: they are no element types.
    if !is_theirs(given) && !is_theirs(given.get_type().as_any()) {
        return Ok(None);
    }
    let known = type_of(given);
    let name = name_of(given)?;
    known
        .map(Some)
        .ok_or_else(|| PyTypeError::new_err(format!("dtype: no tensor has elements of type {name}")))
}
