//! What workers of a Python program run: functions of Python in sub-workers, and the kernels that everybody has.

use bufabi_core::{Access, Code};
use bufabi_host::kernels::StandardKernels;
use bufabi_host::memory::Operand;
use bufabi_host::sys::process::{current_pid, exit_now};
use bufabi_host::worker::{Failure, HostArgument, KernelError, Kernels};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::error::frozen_code;
use crate::ffi::{detached_here, fork_attached, settle_fork};
use crate::mapped_arg::{PyMappedArgs, Reach};

/// The number of the first function; those of kernels are smaller.
pub(crate) const FIRST_FUNCTION: u32 = 1 << 16;

/// The status of a fork that came back from a function: sysexits calls it an error in the software.
const CAME_BACK: i32 = 70;

/// Functions, by their numbers.
pub(crate) struct Functions(pub(crate) Vec<Py<PyAny>>);

impl Functions {
    fn call(
        &self,
        function: &Py<PyAny>,
        arguments: &[HostArgument<'_>],
        scalars: &[u64],
    ) -> Result<(), Failure> {
        let mut reaches = Vec::with_capacity(arguments.len());
        for (index, &HostArgument { import, view }) in arguments.iter().enumerate() {
            let reach = Reach::new(import.clone().into_mapping(), view, import.access());
            reaches.push(reach.map_err(|error| Failure::new(error.code(), Some(index), &error))?);
        }
        let arguments = PyMappedArgs::new(reaches, scalars.to_vec());
        let here = current_pid();
        Python::attach(|py| {
            let called = function.call1(py, (arguments,));
            let failure = called.err().map(|error| told(py, function, &error));
            // This process ends without another chance: what a function printed would be lost.
            flush(py);
            if current_pid() != here {
                // It would go on as the sub-worker that it is a copy of, and answer in its place.
                eprintln!(
                    "bufabi: a fork that {} made has come back from it, and ends",
                    name_of(py, function)
                );
                exit_now(CAME_BACK);
            }
            failure.map_or(Ok(()), Err)
        })
    }
}

/// What a function raised, and where, in few words; all of it goes to this process's stderr.
fn told(py: Python<'_>, function: &Py<PyAny>, error: &PyErr) -> Failure {
    let code = frozen_code(py, error).unwrap_or(Code::KernelFailed);
    let kind = error.get_type(py);
    let kind = kind.name().map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
    let (name, place) = (name_of(py, function), place_of(py, error));
    let place = place.map_or_else(|_| String::new(), |(file, line)| format!(" ({file}:{line})"));
    let failure = Failure::new(code, None, &format_args!("{name}{place}: {kind}: {}", error.value(py)));
    error.display(py);
    failure
}

/// A function's own name, or that of its type.
pub(crate) fn name_of(py: Python<'_>, function: &Py<PyAny>) -> String {
    let function = function.bind(py);
    let name = function.getattr("__name__").or_else(|_| function.get_type().getattr("__name__"));
    name.map_or_else(|_| "a function".to_owned(), |name| name.to_string())
}

/// The file, without its folders, and the line of the statement that raised.
fn place_of(py: Python<'_>, error: &PyErr) -> PyResult<(String, u32)> {
    let no_place = || PyRuntimeError::new_err("it was raised where there are no lines");
    let mut last = error.traceback(py).ok_or_else(no_place)?.into_any();
    loop {
        let next = last.getattr("tb_next")?;
        if next.is_none() {
            break;
        }
        last = next;
    }
    let file: String = last.getattr("tb_frame")?.getattr("f_code")?.getattr("co_filename")?.extract()?;
    let file = file.rsplit('/').next().unwrap_or(&file).to_owned();
    Ok((file, last.getattr("tb_lineno")?.extract()?))
}

/// Writes out what Python has buffered.
pub(crate) fn flush(py: Python<'_>) {
    let Ok(sys) = py.import("sys") else { return };
    for name in ["stdout", "stderr"] {
        if let Ok(stream) = sys.getattr(name)
            && !stream.is_none()
        {
            // A stream that is closed has nothing left.
            let _ = stream.call_method0("flush");
        }
    }
}

impl Kernels for Functions {
    fn run(&self, kernel: u32, operands: &[Operand<'_>], scalars: &[u64]) -> Result<(), KernelError> {
        StandardKernels.run(kernel, operands, scalars)
    }

    fn needs(&self, kernel: u32, operand: usize, count: usize) -> Option<Access> {
        StandardKernels.needs(kernel, operand, count)
    }

    fn run_on_host(
        &self,
        kernel: u32,
        arguments: &[HostArgument<'_>],
        scalars: &[u64],
    ) -> Result<(), Failure> {
        let index = kernel.checked_sub(FIRST_FUNCTION).and_then(|index| usize::try_from(index).ok());
        match index.map(|index| self.0.get(index)) {
            None => StandardKernels.run_on_host(kernel, arguments, scalars),
            Some(Some(function)) => self.call(function, arguments, scalars),
            Some(None) => Err(KernelError::Unknown { kernel }.into()),
        }
    }

    fn around_fork(&self, fork: &mut dyn FnMut()) {
        Python::attach(|py| fork_attached(py, fork));
    }

    fn in_fork(&self, life: &mut dyn FnMut() -> i32) -> i32 {
        Python::attach(|py| {
            settle_fork(py);
            // Threads that a function starts go on while this one waits for the next task.
            detached_here(py, life)
        })
    }
}
