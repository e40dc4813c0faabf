//! Where Python and this library hand each other bare memory: the buffer protocol and DLPack. The one file with unsafe code.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::{self, NonNull};
use std::ffi::CStr;
use std::sync::Arc;

use bufabi_core::view::MAX_NDIMS;
use bufabi_core::{Access, DType};
use bufabi_host::memory::Mapping;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::guarded::DroppedBehind;
use crate::mapped_arg::{Layout, Reach};

/// The memory of anything that has the buffer protocol and is C-contiguous, and whether it is read-only. The object is kept.
pub(crate) fn memory_of(memory: &Bound<'_, PyAny>) -> PyResult<(Mapping, bool)> {
    let buffer = PyUntypedBuffer::get(memory)?;
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("the memory is not C-contiguous: it has no one range of bytes"));
    }
    let (nbytes, is_read_only) = (buffer.len_bytes(), buffer.readonly());
    let base = NonNull::new(buffer.buf_ptr().cast::<u8>()).filter(|_| nbytes > 0);
    let base = base.ok_or_else(|| PyValueError::new_err("nbytes_zero: the memory has no bytes"))?;
    let access = if is_read_only { Access::Read } else { Access::ReadWrite };
    // SAFETY: the exporter keeps the `nbytes` bytes from `base` on in place as long as `buffer` holds them, for stores unless it
    // says that they are read-only. A fork has the same memory, and never drops what a region of its parent keeps. No Rust
    // reference to them exists: they are an object's of Python.
    Ok((
        unsafe { Mapping::of_memory(base, nbytes, access, Box::new(DroppedBehind::new(buffer))) },
        is_read_only,
    ))
}

/// Fills a request for the buffer of `exporter`, whose elements lie as `layout` says at `reach`'s address.
///
/// # Safety
/// `view` is null or a `Py_buffer` that may be written. `layout` and `reach` are parts of `exporter`, in place as long as it lives.
pub(crate) unsafe fn fill_buffer(
    exporter: Bound<'_, PyAny>,
    view: *mut ffi::Py_buffer,
    flags: c_int,
    reach: &Reach,
    layout: &Layout,
) -> PyResult<()> {
    let asked = |flag: c_int| flags & flag == flag;
    if view.is_null() {
        return Err(PyBufferError::new_err("a buffer is asked for, and there is no place for it"));
    }
    // SAFETY: it is not null, and the caller says that it may be written.
    let obj = unsafe { &raw mut (*view).obj };
    // SAFETY: as above. A request that is refused has no owner, which is how the protocol tells.
    unsafe { obj.write(ptr::null_mut()) };
    let is_writable = reach.access().writes();
    if asked(ffi::PyBUF_WRITABLE) && !is_writable {
        return Err(PyBufferError::new_err("the owner grants READ: the buffer is read-only"));
    }
    let dtype = reach.view().dtype();
    let format = buffer_format(dtype);
    if asked(ffi::PyBUF_FORMAT) && format.is_none() {
        let message = format!("{dtype} has no format among buffers: numpy() and __dlpack__ know it");
        return Err(PyBufferError::new_err(message));
    }
    let (is_c, is_fortran) = (layout.is_c_contiguous(), layout.is_fortran_contiguous());
    let is_contiguous_enough = (!asked(ffi::PyBUF_C_CONTIGUOUS) || is_c)
        && (!asked(ffi::PyBUF_F_CONTIGUOUS) || is_fortran)
        && (!asked(ffi::PyBUF_ANY_CONTIGUOUS) || is_c || is_fortran)
        && (asked(ffi::PyBUF_STRIDES) || is_c);
    if !is_contiguous_enough {
        return Err(PyBufferError::new_err("the view is not contiguous as it is asked for"));
    }
    let too_large = || PyBufferError::new_err("the view has more bytes than a buffer counts");
    let len = layout.nbytes().ok_or_else(too_large)?;
    let itemsize = isize::try_from(dtype.size()).map_err(|_| too_large())?;
    let has_shape = asked(ffi::PyBUF_ND);
    let filled = ffi::Py_buffer {
        buf: ptr::with_exposed_provenance_mut(reach.address()),
        len,
        itemsize,
        readonly: c_int::from(!is_writable),
        ndim: if has_shape { layout.ndims() } else { 1 },
        format: match format {
            Some(format) if asked(ffi::PyBUF_FORMAT) => format.as_ptr().cast_mut(),
            Some(_) | None => ptr::null_mut(),
        },
        // Nobody writes through these: the protocol says so.
        shape: if has_shape { layout.shape().as_ptr().cast_mut() } else { ptr::null_mut() },
        strides: if asked(ffi::PyBUF_STRIDES) {
            layout.byte_strides().as_ptr().cast_mut()
        } else {
            ptr::null_mut()
        },
        suboffsets: ptr::null_mut(),
        internal: ptr::null_mut(),
        obj: exporter.into_ptr(),
    };
    // SAFETY: it is not null, and the caller says that it may be written.
    unsafe { view.write(filled) };
    Ok(())
}

/// How the elements are called in the buffer protocol, which is how `struct` calls them, in this machine's byte order.
const fn buffer_format(dtype: DType) -> Option<&'static CStr> {
    match dtype {
        DType::Float32 => Some(c"f"),
        DType::Float16 => Some(c"e"),
        DType::Int32 => Some(c"i"),
        DType::Int16 => Some(c"h"),
        DType::Int8 => Some(c"b"),
        DType::Uint8 => Some(c"B"),
        DType::Int64 => Some(c"q"),
        DType::Uint64 => Some(c"Q"),
        DType::Uint16 => Some(c"H"),
        DType::Uint32 => Some(c"I"),
        DType::Bool => Some(c"?"),
        DType::Bfloat16 | DType::Fp8E4M3Fn | DType::Fp8E8M0 | DType::Fp4E2M1 => None,
    }
}

/// DLPack's device type of a CPU.
pub(crate) const DLPACK_CPU: i32 = 1;
/// The version of DLPack that is spoken with those who know versions at all.
const DLPACK_VERSION: DlPackVersion = DlPackVersion { major: 1, minor: 0 };
const DLPACK_READ_ONLY: u64 = 1;

/// The names that a capsule has until it is taken.
const UNVERSIONED: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

#[repr(C)]
struct DlPackVersion {
    major: u32,
    minor: u32,
}

#[repr(C)]
struct DlDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    dtype: DlDataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// What `dltensor` capsules hold, as DLPack lays it out.
#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// What `dltensor_versioned` capsules hold, as DLPack lays it out.
#[repr(C)]
struct ManagedVersioned {
    version: DlPackVersion,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: DlTensor,
}

/// A managed tensor, first, and all that it points to.
#[repr(C)]
struct Export<M> {
    managed: M,
    shape: [i64; MAX_NDIMS],
    strides: [i64; MAX_NDIMS],
    _mapping: Arc<Mapping>,
}

/// A capsule for DLPack, versioned or not, that keeps the memory.
pub(crate) fn dlpack_capsule<'py>(
    py: Python<'py>,
    reach: &Reach,
    layout: &Layout,
    is_versioned: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let (code, bits) = dlpack_dtype(reach.view().dtype());
    let tensor = DlTensor {
        data: ptr::with_exposed_provenance_mut(reach.address()),
        device_type: DLPACK_CPU,
        device_id: 0,
        ndim: layout.ndims(),
        dtype: DlDataType { code, bits, lanes: 1 },
        // Set where it comes to lie.
        shape: ptr::null_mut(),
        strides: ptr::null_mut(),
        byte_offset: 0,
    };
    let context = ptr::null_mut();
    if is_versioned {
        let flags = if reach.access().writes() { 0 } else { DLPACK_READ_ONLY };
        let deleter: unsafe extern "C" fn(*mut ManagedVersioned) = delete::<ManagedVersioned>;
        let managed =
            ManagedVersioned { version: DLPACK_VERSION, context, deleter: Some(deleter), flags, tensor };
        let mut export = export(reach, managed);
        export.managed.tensor.shape = export.shape.as_mut_ptr();
        export.managed.tensor.strides = export.strides.as_mut_ptr();
        capsule(py, export, VERSIONED, end_versioned)
    } else {
        let deleter: unsafe extern "C" fn(*mut Managed) = delete::<Managed>;
        let managed = Managed { tensor, context, deleter: Some(deleter) };
        let mut export = export(reach, managed);
        export.managed.tensor.shape = export.shape.as_mut_ptr();
        export.managed.tensor.strides = export.strides.as_mut_ptr();
        capsule(py, export, UNVERSIONED, end_unversioned)
    }
}

fn export<M>(reach: &Reach, managed: M) -> Box<Export<M>> {
    let view = reach.view();
    Box::new(Export {
        managed,
        shape: view.shape_slots().map(i64::from),
        strides: view.stride_slots().map(i64::from),
        _mapping: reach.mapping(),
    })
}

fn capsule<'py, M>(
    py: Python<'py>,
    export: Box<Export<M>>,
    name: &'static CStr,
    end: unsafe extern "C" fn(*mut ffi::PyObject),
) -> PyResult<Bound<'py, PyAny>> {
    let export = Box::into_raw(export);
    // SAFETY: the pointer is not null, the name is static, and `end` takes capsules of that name.
    let made = unsafe { ffi::PyCapsule_New(export.cast(), name.as_ptr(), Some(end)) };
    // SAFETY: it is a new reference, or null with an exception set.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, made) };
    if made.is_err() {
        // SAFETY: it was boxed above, and no capsule has it.
        drop(unsafe { Box::from_raw(export) });
    }
    made
}

/// Frees what a consumer of DLPack is done with, on whatever thread.
///
/// # Safety
/// `managed` is null or the start of an `Export<M>` that was boxed here, and nobody uses it any more.
unsafe extern "C" fn delete<M>(managed: *mut M) {
    if !managed.is_null() {
        // SAFETY: the managed tensor is the first field of the export, which was boxed here and is freed this once.
        drop(unsafe { Box::from_raw(managed.cast::<Export<M>>()) });
    }
}

/// Frees a capsule that nobody took: whoever takes it gives it another name.
///
/// # Safety
/// `capsule` is one of those of `capsule`, at its end.
unsafe extern "C" fn end_unversioned(capsule: *mut ffi::PyObject) {
    let managed = untaken(capsule, UNVERSIONED).cast::<Managed>();
    // SAFETY: a capsule that still has its name has its export, and nobody else does.
    unsafe { delete(managed) };
}

/// As [`end_unversioned`].
///
/// # Safety
/// As for [`end_unversioned`].
unsafe extern "C" fn end_versioned(capsule: *mut ffi::PyObject) {
    let managed = untaken(capsule, VERSIONED).cast::<ManagedVersioned>();
    // SAFETY: a capsule that still has its name has its export, and nobody else does.
    unsafe { delete(managed) };
}

/// What a capsule holds while it has that name, else null.
fn untaken(capsule: *mut ffi::PyObject, name: &CStr) -> *mut c_void {
    let name: *const c_char = name.as_ptr();
    // SAFETY: it is a capsule at its end, attached to the interpreter, and the name is a C string.
    if unsafe { ffi::PyCapsule_IsValid(capsule, name) } == 0 {
        return ptr::null_mut();
    }
    // SAFETY: it is valid under that name.
    unsafe { ffi::PyCapsule_GetPointer(capsule, name) }
}

/// DLPack's code of a type, and its bits.
const fn dlpack_dtype(dtype: DType) -> (u8, u8) {
    const INT: u8 = 0;
    const UINT: u8 = 1;
    const FLOAT: u8 = 2;
    const BFLOAT: u8 = 4;
    const BOOL: u8 = 6;
    const FLOAT8_E4M3FN: u8 = 10;
    const FLOAT8_E8M0FNU: u8 = 14;
    match dtype {
        DType::Float32 => (FLOAT, 32),
        DType::Float16 => (FLOAT, 16),
        DType::Int32 => (INT, 32),
        DType::Int16 => (INT, 16),
        DType::Int8 => (INT, 8),
        DType::Uint8 => (UINT, 8),
        DType::Bfloat16 => (BFLOAT, 16),
        DType::Int64 => (INT, 64),
        DType::Uint64 => (UINT, 64),
        DType::Uint16 => (UINT, 16),
        DType::Uint32 => (UINT, 32),
        DType::Bool => (BOOL, 8),
        DType::Fp8E4M3Fn => (FLOAT8_E4M3FN, 8),
        DType::Fp8E8M0 => (FLOAT8_E8M0FNU, 8),
        // Two values in a byte, which is one element here: DLPack would count them apart.
        DType::Fp4E2M1 => (UINT, 8),
    }
}

/// Calls `fork`, which starts a process, the interpreter being told before and, in this process, behind it.
pub(crate) fn fork_attached(_py: Python<'_>, fork: &mut dyn FnMut()) {
    // SAFETY: this thread is attached, and tells what comes next.
    unsafe { ffi::PyOS_BeforeFork() };
    fork();
    // SAFETY: it was told before, and this is the process that went on.
    unsafe { ffi::PyOS_AfterFork_Parent() };
}

/// Tells the interpreter that this process was just forked: it puts its locks in order, and knows of one thread.
pub(crate) fn settle_fork(_py: Python<'_>) {
    // SAFETY: the process that forked this one had told the interpreter, and this thread was attached there.
    unsafe { ffi::PyOS_AfterFork_Child() };
}

/// Runs something while this thread is detached from the interpreter.
pub(crate) fn detached_here<R: Send>(py: Python<'_>, work: &mut dyn FnMut() -> R) -> R {
    /// What stays on its thread.
    struct Here<'a, R>(&'a mut dyn FnMut() -> R);
    // SAFETY: detaching runs its closure at once and on the very thread that asks, so nothing is sent anywhere. The closures that
    // come here hold no reference to objects of Python but through attaching again.
    unsafe impl<R> Send for Here<'_, R> {}
    let here = Here(work);
    py.detach(move || {
        let here = here;
        (here.0)()
    })
}

/// This thread is attached to the first interpreter of its process.
pub(crate) fn is_first_interpreter(_py: Python<'_>) -> bool {
    // SAFETY: this thread is attached to an interpreter.
    let interpreter = unsafe { ffi::PyInterpreterState_Get() };
    // SAFETY: it is that interpreter, which lives as long as this thread is attached.
    unsafe { ffi::PyInterpreterState_GetID(interpreter) == 0 }
}
