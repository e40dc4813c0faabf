//! A task's arguments, collected for C: tensors with tags, then scalars, and the checks of a submit.

use core::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bufabi_core::task_args::{Scratch, SubmitError};
use bufabi_core::wire::identity::RawIdentity;
use bufabi_core::{Code, RawTensor, TaskArgs};
use zerocopy::{FromBytes, FromZeros, Immutable};

use super::boundary::{answer, noted};
use super::handle::{Kind, Table};
use super::number;
use super::parameter::{Out, OutSlice, apart_from, given, span_of};
use super::record::tensor;
use super::status::Status;

/// A task's arguments. 0 is none.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct TaskArgsHandle {
    /// Nothing to be read into.
    pub token: u64,
}

/// Which arguments a task was refused for.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct ArgumentFault {
    /// The tensor, from 0; of two the first one.
    pub first: u32,
    /// The other one; where there is one alone, the same.
    pub second: u32,
    /// The backing that both share, else zero.
    pub identity: RawIdentity,
    /// The lowest byte that both name, from the backing's start; else 0.
    pub byte: u64,
}

/// The arguments, and room to check them in.
pub(super) struct Collected {
    pub(super) arguments: TaskArgs,
    pub(super) scratch: Scratch,
}

static TABLE: Table<Mutex<Collected>> = Table::new(Kind::TaskArgs);

/// Works on the arguments of a handle, alone.
pub(super) fn with<R>(
    handle: TaskArgsHandle,
    work: impl FnOnce(&mut Collected) -> Result<R, Code>,
) -> Result<R, Code> {
    let collected = TABLE.get(handle.token)?;
    work(&mut lock(&collected))
}

fn lock(collected: &Mutex<Collected>) -> MutexGuard<'_, Collected> {
    // Every step on the arguments is whole, so a panic elsewhere leaves them as they should be.
    collected.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes an empty list of arguments, with room for 256 tensors and 128 scalars.
///
/// # Safety
/// `arguments` points to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_task_args_create(arguments: *mut TaskArgsHandle) -> Status {
    answer("task_args_create", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(arguments) }?;
        let collected = Collected { arguments: TaskArgs::new(), scratch: Scratch::default() };
        out.set(TaskArgsHandle { token: TABLE.insert(Mutex::new(collected))? });
        Ok(())
    })
}

/// Adds a tensor behind those that are there, and its index to `*index`: the tensor is checked, and that its owner grants what the
/// tag needs. INPUT 0, OUTPUT 1, INOUT 2, OUTPUT_EXISTING 3, NO_DEP 4.
///
/// # Safety
/// `tensor_144` points to a tensor that nobody writes during the call, `index` to a uint32_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_task_args_add_tensor(
    arguments: TaskArgsHandle,
    tensor_144: *const RawTensor,
    tag: i32,
    index: *mut u32,
) -> Status {
    answer("task_args_add_tensor", || {
        // SAFETY: the caller's promise above.
        let raw = unsafe { given(tensor_144) }?;
        // SAFETY: the caller's promise above.
        let index = unsafe { Out::new(index) }?;
        apart_from(&[index.span()], &[span_of(raw)])?;
        let (tensor, tag) = (tensor(raw)?, number::tag(tag)?);
        let added = with(arguments, |collected| {
            collected.arguments.add_tensor(&tensor, tag).map_err(|error| noted(error.code(), &error))
        })?;
        index.set(u32::try_from(added).unwrap_or(u32::MAX));
        Ok(())
    })
}

/// Adds a scalar behind those that are there, and its index among them to `*index`.
///
/// # Safety
/// `index` points to a uint32_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_task_args_add_scalar(
    arguments: TaskArgsHandle,
    scalar: u64,
    index: *mut u32,
) -> Status {
    answer("task_args_add_scalar", || {
        // SAFETY: the caller's promise above.
        let index = unsafe { Out::new(index) }?;
        let added = with(arguments, |collected| {
            collected.arguments.add_scalar(scalar).map_err(|error| noted(error.code(), &error))
        })?;
        index.set(u32::try_from(added).unwrap_or(u32::MAX));
        Ok(())
    })
}

/// Changes a tensor's tag. Whether its owner grants what that needs is seen when the arguments are checked.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_task_args_set_tag(arguments: TaskArgsHandle, index: u32, tag: i32) -> Status {
    answer("task_args_set_tag", || {
        let (index, tag) = (usize::try_from(index).unwrap_or(usize::MAX), number::tag(tag)?);
        with(arguments, |collected| {
            collected.arguments.set_tag(index, tag).map_err(|error| noted(error.code(), &error))
        })
    })
}

/// Removes all arguments.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_task_args_clear(arguments: TaskArgsHandle) -> Status {
    answer("task_args_clear", || {
        with(arguments, |collected| {
            collected.arguments.clear();
            Ok(())
        })
    })
}

/// How many tensors and scalars there are.
///
/// # Safety
/// `tensors` and `scalars` each point to a size_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_task_args_count(
    arguments: TaskArgsHandle,
    tensors: *mut usize,
    scalars: *mut usize,
) -> Status {
    answer("task_args_count", || {
        // SAFETY: the caller's promise above.
        let tensors = unsafe { Out::new(tensors) }?;
        // SAFETY: the caller's promise above.
        let scalars = unsafe { Out::new(scalars) }?;
        apart_from(&[tensors.span(), scalars.span()], &[])?;
        with(arguments, |collected| {
            tensors.set(collected.arguments.tensors().len());
            scalars.set(collected.arguments.scalars().len());
            Ok(())
        })
    })
}

/// Checks the arguments as a submit does: their number, the rights that their tags need, and that none writes a byte that another
/// names. When a tensor is at fault, `*fault` says which; else it is not written.
///
/// # Safety
/// `fault` points to an argument fault that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_task_args_check(
    arguments: TaskArgsHandle,
    fault: *mut ArgumentFault,
) -> Status {
    answer("task_args_check", || {
        // SAFETY: the caller's promise above.
        let fault = unsafe { Out::new(fault) }?;
        with(arguments, |Collected { arguments, scratch }| match arguments.submit(scratch) {
            Ok(_) => Ok(()),
            Err(error) => {
                if let Some(found) = ArgumentFault::of(&error) {
                    fault.set(found);
                }
                Err(noted(error.code(), &error))
            }
        })
    })
}

impl ArgumentFault {
    fn of(error: &SubmitError) -> Option<Self> {
        let mut fault = Self::new_zeroed();
        let (first, second) = match *error {
            SubmitError::TagCount { .. }
            | SubmitError::TooManyTensors { .. }
            | SubmitError::TooManyScalars { .. } => return None,
            SubmitError::Rights { index, .. } => (index, index),
            SubmitError::Clash { first, second, identity, byte } => {
                (fault.identity, fault.byte) = (identity.encode(), byte);
                (first, second)
            }
            SubmitError::TooComplex { first, second, identity } => {
                fault.identity = identity.encode();
                (first, second)
            }
        };
        fault.first = u32::try_from(first).unwrap_or(u32::MAX);
        fault.second = u32::try_from(second).unwrap_or(u32::MAX);
        Some(fault)
    }
}

/// Checks the arguments as `bufabi_task_args_check` does, and writes their blob to the `capacity` bytes at `blob`, any alignment, and its
/// size to `*nbytes`. Tags do not travel. On a status other than 0 nothing was written.
///
/// # Safety
/// `blob` points to `capacity` bytes, and `nbytes` to a size_t, that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_task_args_encode(
    arguments: TaskArgsHandle,
    blob: *mut c_void,
    capacity: usize,
    nbytes: *mut usize,
) -> Status {
    answer("task_args_encode", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { OutSlice::new(blob.cast::<u8>(), capacity) }?;
        // SAFETY: the caller's promise above.
        let nbytes = unsafe { Out::new(nbytes) }?;
        apart_from(&[out.span(), nbytes.span()], &[])?;
        with(arguments, |Collected { arguments, scratch }| {
            let submission = arguments.submit(scratch).map_err(|error| noted(error.code(), &error))?;
            let (tensors, scalars) = (submission.tensors().len(), submission.scalars().len());
            let size = bufabi_core::wire::blob::encoded_size(tensors, scalars);
            let size = size.filter(|&size| size <= out.len()).ok_or(Code::BufferTooSmall)?;
            let mut bytes = vec![0; size];
            let written = submission.encode(&mut bytes);
            nbytes.set(written.map_err(|error| noted(error.code(), &error))?);
            out.set(&bytes);
            Ok(())
        })
    })
}

/// Releases the arguments: the handle is none from now on.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_task_args_release(arguments: TaskArgsHandle) -> Status {
    answer("task_args_release", || TABLE.remove(arguments.token).map(drop))
}
