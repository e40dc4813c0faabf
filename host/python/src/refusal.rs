//! Why something was refused, before it is an exception: those are made where nothing is locked.

use bufabi_core::Code;
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::error::{Coded, raise};

/// A plain error: its kind, and what is told of it.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// A rule with a frozen number.
    Rule(Code, String),
    /// A ValueError.
    Value(&'static str),
    /// A RuntimeError.
    Runtime(&'static str),
    /// A BufferError.
    InUse(String),
}

impl<E: Coded> From<E> for Refusal {
    #[cold]
    fn from(error: E) -> Self {
        Self::Rule(error.frozen(), error.to_string())
    }
}

impl From<Refusal> for PyErr {
    #[cold]
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Rule(code, message) => raise(code, &message),
            Refusal::Value(message) => PyValueError::new_err(message),
            Refusal::Runtime(message) => PyRuntimeError::new_err(message),
            Refusal::InUse(message) => PyBufferError::new_err(message),
        }
    }
}
