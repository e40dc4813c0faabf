//! Errors as a Python programmer expects them: a type by their kind, and in the message the rule and the numbers.

use core::fmt::Display;

use bufabi_core::task_args::AddError;
use bufabi_core::wire::blob::EncodeError;
use bufabi_core::wire::chip_args::{MaterializeError, TooManyArguments};
use bufabi_core::{
    BlobError, ChipError, Code, DescriptorError, Fault, SubmitError, TensorError, ViewError, dependencies,
    rights,
};
use bufabi_host::consumer::{CloseError, ImportError};
use bufabi_host::owner::{CreateError, OwnError, ReleaseError, WrapError};
use bufabi_host::sys::OsError;
use bufabi_host::worker::MemoryError;
use bufabi_host::{orchestrator, remote, worker};
use pyo3::exceptions::{
    PyBufferError, PyFileExistsError, PyFileNotFoundError, PyIndexError, PyKeyError, PyMemoryError,
    PyOSError, PyPermissionError, PyRuntimeError, PySystemError, PyTimeoutError, PyValueError,
};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyType};

/// An error of ours, with its frozen number.
pub(crate) trait Coded: Display {
    /// The number, name and fault.
    fn frozen(&self) -> Code;
}

macro_rules! coded {
    ($($type:ty),* $(,)?) => {
        $(impl Coded for $type {
            fn frozen(&self) -> Code {
                (*self).code()
            }
        })*
    };
}

coded!(
    AddError,
    BlobError,
    ChipError,
    CreateError,
    DescriptorError,
    EncodeError,
    ImportError,
    OsError,
    OwnError,
    ReleaseError,
    SubmitError,
    TensorError,
    TooManyArguments,
    ViewError,
    WrapError,
    dependencies::NotTracked,
    dependencies::SubmitError,
    orchestrator::SubmitError,
    worker::SpawnError,
    worker::WaitError,
    remote::RemoteError,
    remote::SidecarError,
    rights::RightsError,
);

impl Coded for MemoryError {
    fn frozen(&self) -> Code {
        self.code()
    }
}

impl Coded for CloseError {
    fn frozen(&self) -> Code {
        self.first.code()
    }
}

impl<E: Coded> Coded for MaterializeError<E> {
    fn frozen(&self) -> Code {
        match self {
            Self::Resolve { error, .. } => error.frozen(),
            Self::Chip { error, .. } => error.code(),
            Self::TooMany(error) => error.code(),
        }
    }
}

/// Makes a result's error one of Python's.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception.
    fn or_raise(self) -> PyResult<T>;
}

impl<T, E: Coded> OrRaise<T> for Result<T, E> {
    #[inline]
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| failed(&error))
    }
}

/// The exception for an error.
#[cold]
pub(crate) fn failed(error: &impl Coded) -> PyErr {
    raise(error.frozen(), error)
}

/// What is not there: a table has no such name.
const KEY: &[Code] = &[
    Code::OtherOwner,
    Code::NeverExisted,
    Code::Stale,
    Code::NotInherited,
    Code::WorkerUnknown,
    Code::NotTracked,
];
/// What somebody still uses.
const IN_USE: &[Code] = &[Code::ViewsAlive, Code::Busy];
/// What cannot be done in this process as it is.
const STATE: &[Code] = &[Code::Forked, Code::SeveralThreads, Code::WorkerIdle, Code::WorkerBusy];

/// The exception for an error. It has the attributes `rule`, the error's name, and `code`, its number.
#[cold]
pub(crate) fn raise(code: Code, message: &dyn Display) -> PyErr {
    let message = format!("{}: {message}", code.name());
    let error = if KEY.contains(&code) {
        PyKeyError::new_err(message)
    } else if IN_USE.contains(&code) {
        PyBufferError::new_err(message)
    } else if STATE.contains(&code) {
        PyRuntimeError::new_err(message)
    } else {
        by_fault(code, message)
    };
    marked(code, error)
}

/// As [`raise`], of a type that is better known where it happens.
#[cold]
pub(crate) fn with_rule(code: Code, message: &dyn Display, new: impl FnOnce(String) -> PyErr) -> PyErr {
    marked(code, new(format!("{}: {message}", code.name())))
}

fn marked(code: Code, error: PyErr) -> PyErr {
    Python::attach(|py| {
        let value = error.value(py);
        // An exception of Python's own takes any attribute.
        let _ = value.setattr("rule", code.name());
        let _ = value.setattr("code", code.number());
        let _ = value.setattr(intern!(py, MARK), Mark(code));
    });
    error
}

/// The name under which an exception of ours has its mark.
const MARK: &str = "_bufabi";

/// What tells an exception of ours from one that only has a `code`, as SystemExit does: nobody makes one in Python.
#[pyclass(frozen, name = "_Mark", module = "bufabi")]
struct Mark(Code);

#[pymethods]
impl Mark {
    /// A copy in another process is a number, and marks nothing.
    fn __reduce__(&self, py: Python<'_>) -> (Py<PyType>, (i32,)) {
        (py.get_type::<PyInt>().unbind(), (self.0.number(),))
    }
}

/// The number of ours that an exception carries, if it was made here. Nothing that is not ours is asked for anything.
pub(crate) fn frozen_code(py: Python<'_>, error: &PyErr) -> Option<Code> {
    let made_here = [
        py.get_type::<PyBufferError>(),
        py.get_type::<PyFileExistsError>(),
        py.get_type::<PyFileNotFoundError>(),
        py.get_type::<PyIndexError>(),
        py.get_type::<PyKeyError>(),
        py.get_type::<PyMemoryError>(),
        py.get_type::<PyOSError>(),
        py.get_type::<PyPermissionError>(),
        py.get_type::<PyRuntimeError>(),
        py.get_type::<PySystemError>(),
        py.get_type::<PyTimeoutError>(),
        py.get_type::<PyValueError>(),
    ];
    let of_type = error.get_type(py);
    if !made_here.iter().any(|known| known.is(&of_type)) {
        return None;
    }
    let mark = error.value(py).getattr(intern!(py, MARK)).ok()?;
    mark.cast::<Mark>().ok().map(|mark| mark.get().0)
}

/// The rest: single kinds, then by whose fault it is.
fn by_fault(code: Code, message: String) -> PyErr {
    if code == Code::NoSuchTensor {
        return PyIndexError::new_err(message);
    }
    if code == Code::ShmNotFound {
        return PyFileNotFoundError::new_err(message);
    }
    if code == Code::ShmNameTaken {
        return PyFileExistsError::new_err(message);
    }
    if code == Code::NotPermitted || code == Code::VmmNotPermitted {
        return PyPermissionError::new_err(message);
    }
    if code == Code::TimedOut {
        return PyTimeoutError::new_err(message);
    }
    match code.fault() {
        Fault::Nobody | Fault::Sender | Fault::Caller => PyValueError::new_err(message),
        Fault::Capacity => PyMemoryError::new_err(message),
        Fault::Machine => PyOSError::new_err(message),
        Fault::Library => PySystemError::new_err(message),
    }
}
