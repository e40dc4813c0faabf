//! One chip at work: tasks come as blobs, each backing is resolved once, and the device runs what comes of it.

mod error;

use core::fmt;
use std::sync::Arc;

use bufabi_core::wire::backend::BackendKind;
use bufabi_core::{Blob, ChipStorageTaskArgs, Identity};

pub use error::{ReleaseError, ResolveError, RunError};

use super::memory::{AllocateError, FreeError};
use super::staging::{Staged, Staging, copy_back, copy_in};
use super::{Device, DeviceMemory, Launch, Resolved};
use crate::backend;
use crate::backend::vmm_shareable::VmmShareable;
use crate::consumer::{Consumer, DEFAULT_CAPACITY, Resolution};
use crate::sys::OsError;

/// A chip: its device, the memory that it owns, and the buffers of others that it has mapped.
#[derive(Debug)]
pub struct Chip<'d> {
    memory: DeviceMemory<'d>,
    consumer: Consumer,
    staging: Staging,
    task: Task,
}

/// A task on its way through. Its parts are kept for the next one.
struct Task {
    arguments: Box<ChipStorageTaskArgs>,
    backings: Vec<Resolved>,
    staged: Vec<Staged>,
    resolutions: Vec<Resolution>,
}

impl<'d> Chip<'d> {
    /// A new endpoint incarnation on a device, with that number.
    ///
    /// # Errors
    /// [`OsError`] when no random bytes can be had.
    pub fn new(device: &'d dyn Device, device_id: i32) -> Result<Self, OsError> {
        Self::of_memory(DeviceMemory::new(device, device_id)?)
    }

    /// A chip that owns that memory.
    ///
    /// # Errors
    /// [`OsError`] when no random bytes can be had.
    pub fn of_memory(memory: DeviceMemory<'d>) -> Result<Self, OsError> {
        let endpoint = Some(memory.endpoint().clone());
        let mut backends = backend::of_host();
        if let Some(driver) = memory.software() {
            backends.push(Box::new(VmmShareable::new(Arc::clone(driver))));
        }
        let consumer = Consumer::with_backends(endpoint, backends, DEFAULT_CAPACITY)?;
        let task = Task {
            arguments: Box::new(ChipStorageTaskArgs::EMPTY),
            backings: Vec::new(),
            staged: Vec::new(),
            resolutions: Vec::new(),
        };
        Ok(Self { memory, consumer, staging: Staging::default(), task })
    }

    /// The memory that it owns.
    #[must_use]
    pub const fn memory(&self) -> &DeviceMemory<'d> {
        &self.memory
    }

    /// Frees memory that it owns: [`DeviceMemory::free`].
    ///
    /// # Errors
    /// As that.
    pub fn free(&mut self, identity: Identity) -> Result<(), FreeError> {
        self.task.forget();
        // What stands in for it on the device, if anything does, is counted where it is lost.
        let _ = self.staging.release(&mut self.memory, identity);
        self.memory.free(identity)
    }

    /// Frees a window with all of its buffers: [`DeviceMemory::free_window`].
    ///
    /// # Errors
    /// As that.
    pub fn free_window(&mut self, identity: Identity) -> Result<(), FreeError> {
        self.task.forget();
        self.memory.free_window(identity)
    }

    /// Allocates: what stands in for host buffers on the device makes room when it has nothing left.
    ///
    /// # Errors
    /// What `allocate` says, the second time if it was called twice.
    pub fn allocate<T>(
        &mut self,
        mut allocate: impl FnMut(&mut DeviceMemory<'d>) -> Result<T, AllocateError>,
    ) -> Result<T, AllocateError> {
        match allocate(&mut self.memory) {
            Err(AllocateError::Device(error)) => {
                self.task.forget();
                self.staging.begin();
                if self.staging.evict(&mut self.memory) {
                    allocate(&mut self.memory)
                } else {
                    Err(AllocateError::Device(error))
                }
            }
            other => other,
        }
    }

    /// The buffers of others that it has mapped.
    #[must_use]
    pub const fn consumer(&self) -> &Consumer {
        &self.consumer
    }

    /// Runs a task to its end.
    ///
    /// # Errors
    /// [`RunError`]. Bytes that are not the task's own are as they were.
    pub fn run(&mut self, kernel: u32, blob: &Blob<'_>) -> Result<(), RunError> {
        let Self { memory, consumer, staging, task } = self;
        let device = memory.device();
        task.forget();
        staging.begin();
        let Task { arguments, backings, staged, resolutions } = task;
        let count = blob.tensor_count();
        let materialized = arguments.materialize(blob, |index, tensor| {
            let descriptor = tensor.descriptor();
            let on_device = match descriptor.backend_kind() {
                BackendKind::DeviceMalloc | BackendKind::VmmWindow => {
                    memory.range(&descriptor).map(|range| Some((range, Resolution::Own)))
                }
                BackendKind::VmmShareable => memory.shared_range(&descriptor),
                BackendKind::ForkShm
                | BackendKind::PosixShm
                | BackendKind::RemoteSidecar
                | BackendKind::ForkCow => Ok(None),
            };
            let resolved = if let Some((range, resolution)) = on_device.map_err(ResolveError::Name)? {
                resolutions.push(resolution);
                Resolved::Device(range)
            } else {
                let import = consumer.import(&descriptor).map_err(ResolveError::Import)?;
                resolutions.push(import.resolution());
                if device.reaches_host_memory() {
                    Resolved::Host(import)
                } else {
                    let needs = device.needs(kernel, index, count);
                    let identity = descriptor.identity();
                    let range = staging.place(memory, identity, &import).map_err(ResolveError::Device)?;
                    let (address, view) = (range.address, tensor.view());
                    staged.push(Staged { index, identity, import, address, view, needs });
                    Resolved::Device(range)
                }
            };
            let base = resolved.address();
            backings.push(resolved);
            Ok(base)
        });
        materialized?;
        copy_in(device, staged).map_err(RunError::Staging)?;
        device.launch(&Launch { kernel, blob, arguments, backings }).map_err(RunError::Launch)?;
        copy_back(device, staged).map_err(RunError::Staging)
    }

    /// How each argument of the last task was come by, in order, up to the one that could not be had.
    #[must_use]
    pub fn resolutions(&self) -> &[Resolution] {
        &self.task.resolutions
    }

    /// The first argument of the last task whose object shrank under it.
    #[must_use]
    pub fn damaged_argument(&self) -> Option<usize> {
        let Task { backings, staged, .. } = &self.task;
        let in_place = backings.iter().position(|backing| match backing {
            Resolved::Host(import) => import.is_damaged(),
            Resolved::Device(_) => false,
        });
        let staged = staged.iter().find(|staged| staged.import.is_damaged()).map(|staged| staged.index);
        in_place.into_iter().chain(staged).min()
    }

    /// Lets go of the last task's arguments: what they map can be released from now on.
    pub fn forget_task(&mut self) {
        self.task.forget();
    }

    /// Drops what was mapped for an identity of somebody else, and what stands in for it on the device. That nothing was is no error.
    ///
    /// # Errors
    /// [`ReleaseError`].
    pub fn release(&mut self, identity: Identity) -> Result<(), ReleaseError> {
        self.task.forget();
        self.memory.release_import(identity);
        let staged = self.staging.release(&mut self.memory, identity).map_err(ReleaseError::Device);
        self.consumer.release(identity).map_err(ReleaseError::Import).and(staged)
    }
}

impl Drop for Chip<'_> {
    fn drop(&mut self) {
        self.task.forget();
        self.staging.begin();
        self.staging.evict(&mut self.memory);
    }
}

impl Task {
    fn forget(&mut self) {
        self.backings.clear();
        self.staged.clear();
        self.resolutions.clear();
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("backings", &self.backings).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
