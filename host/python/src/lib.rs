//! The Python package `bufabi`: names, numbers and exceptions of Python around core's rules and the host's memory.
//!
//! Nothing is decided here. Every rule is core's, every mapping, process and task the host's; what is here turns Python's objects
//! into theirs and back. See docs/python.md.

mod arrays;
mod buffer;
mod chip;
mod descriptor;
mod device;
mod device_buffer;
mod domain;
mod dtype;
mod endpoint;
mod error;
mod ffi;
mod forward;
mod functions;
mod guarded;
mod identity;
mod mapped_arg;
mod number;
mod on_chip;
mod orchestrator;
mod overlap;
mod refusal;
mod registered;
mod registry;
mod remote;
mod report;
mod scalar;
mod sidecar;
mod started;
mod task_args;
mod tensor;
mod told;
mod tracked_task;
mod tracker;
mod tree;
mod worker;
mod worker_state;

use bufabi_core::dependencies::{Hazard, Policy};
use bufabi_core::overlap::Relation;
use bufabi_core::wire::backend::{AddressSpace, BackendKind};
use bufabi_core::{Access, DType, Tag};
use bufabi_host::memory::mapping;
use pyo3::PyClass;
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

use crate::number::Value;

/// Bytes that this process has copied so far into or out of backings: views of them copy nothing.
#[pyfunction]
fn bytes_copied() -> u64 {
    mapping::bytes_copied()
}

/// Adds a class, whose objects lie where Python's allocator puts them.
fn add_class<T: PyClass>(module: &Bound<'_, PyModule>) -> PyResult<()> {
    const { assert!(align_of::<T>() <= 16, "Python's allocator aligns to 16 bytes") };
    module.add_class::<T>()
}

/// The module. It keeps the interpreter's lock: an interpreter without one turns it on when it imports this.
#[pymodule(gil_used = true)]
fn _bufabi(module: &Bound<'_, PyModule>) -> PyResult<()> {
    if !ffi::is_first_interpreter(module.py()) {
        let message = "bufabi does not serve subinterpreters: objects of one would reach another through this process's tables";
        return Err(PyImportError::new_err(message));
    }
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    endpoint::withdraw_at_exit(module.py())?;
    Value::<AddressSpace>::add(module)?;
    Value::<Access>::add(module)?;
    Value::<BackendKind>::add(module)?;
    Value::<DType>::add(module)?;
    Value::<Tag>::add(module)?;
    Value::<Relation>::add(module)?;
    Value::<Hazard>::add(module)?;
    Value::<Policy>::add(module)?;
    add_class::<identity::PyIdentity>(module)?;
    add_class::<descriptor::PyDescriptor>(module)?;
    add_class::<tensor::PyTensor>(module)?;
    add_class::<buffer::PyBuffer>(module)?;
    add_class::<task_args::PyTaskArgs>(module)?;
    add_class::<tracker::PyTracker>(module)?;
    add_class::<tracked_task::PyTrackedTask>(module)?;
    add_class::<tracked_task::PyEdge>(module)?;
    add_class::<chip::PyChipTensor>(module)?;
    add_class::<chip::PyChipStorageTaskArgs>(module)?;
    add_class::<mapped_arg::PyMappedArg>(module)?;
    add_class::<mapped_arg::PyMappedArgs>(module)?;
    add_class::<registry::PyImportContext>(module)?;
    add_class::<registry::PyImportRegistry>(module)?;
    add_class::<sidecar::PyRegistration>(module)?;
    add_class::<sidecar::PySidecar>(module)?;
    add_class::<remote::PyRemoteArgs>(module)?;
    add_class::<remote::PyRemoteTask>(module)?;
    add_class::<remote::PyFetched>(module)?;
    add_class::<device_buffer::PyDeviceBuffer>(module)?;
    add_class::<domain::PyDomain>(module)?;
    add_class::<device::PyDevice>(module)?;
    add_class::<worker::PyWorker>(module)?;
    add_class::<orchestrator::PyOrchestrator>(module)?;
    add_class::<orchestrator::PyScope>(module)?;
    add_class::<report::PyTaskReport>(module)?;
    module.add_function(wrap_pyfunction!(bytes_copied, module)?)?;
    module.add_function(wrap_pyfunction!(endpoint::mint_owner_instance_id, module)?)?;
    module.add_function(wrap_pyfunction!(endpoint::owner_instance_id, module)?)?;
    module.add_function(wrap_pyfunction!(buffer::create_host_shared_buffer, module)?)?;
    module.add_function(wrap_pyfunction!(buffer::wrap_fork_inherited, module)?)?;
    module.add_function(wrap_pyfunction!(buffer::wrap_device_malloc, module)?)?;
    module.add_function(wrap_pyfunction!(buffer::wrap_vmm_window, module)?)?;
    module.add_function(wrap_pyfunction!(buffer::wrap_vmm_shareable, module)?)?;
    module.add_function(wrap_pyfunction!(forward::re_export, module)?)?;
    module.add_function(wrap_pyfunction!(forward::remote_sidecar_tensor, module)?)?;
    module.add_function(wrap_pyfunction!(forward::remote_backing_identity, module)?)?;
    module.add_function(wrap_pyfunction!(forward::intern_worker_path, module)?)?;
    module.add_function(wrap_pyfunction!(forward::worker_path_for_id, module)?)?;
    module.add_function(wrap_pyfunction!(overlap::relate, module)?)?;
    module.add_function(wrap_pyfunction!(overlap::overlaps, module)?)?;
    module.add_function(wrap_pyfunction!(overlap::covers, module)?)?;
    module.add_function(wrap_pyfunction!(overlap::first_common_byte, module)?)?;
    module.add_function(wrap_pyfunction!(task_args::write_blob, module)?)?;
    module.add_function(wrap_pyfunction!(task_args::read_args_from_blob, module)?)?;
    module.add_function(wrap_pyfunction!(registry::materialize_task_args, module)?)?;
    Ok(())
}
