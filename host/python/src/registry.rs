//! `ImportRegistry`: what an endpoint of this process was handed, each identity mapped once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bufabi_core::wire::backend::{AddressSpace, BackendKind};
use bufabi_core::wire::chip_args::MaterializeError;
use bufabi_core::wire::record::Holds;
use bufabi_core::{
    Blob, ChipStorageTaskArgs, ChipTensor, Descriptor, OwnerInstanceId, RawDescriptor, RawTensor, Tensor,
};
use bufabi_host::backend::fork_cow::ForkCow;
use bufabi_host::backend::fork_shm::ForkShm;
use bufabi_host::backend::posix_shm::PosixShm;
use bufabi_host::backend::vmm_shareable::VmmShareable;
use bufabi_host::backend::{Backend, ResolveError};
use bufabi_host::consumer::{Consumer, DEFAULT_CAPACITY, ImportError};
use bufabi_host::memory::Mapping;
use bufabi_host::vmm::MemfdDriver;
use bufabi_host::vmm::memfd::MemfdOptions;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::chip::{PyChipStorageTaskArgs, PyChipTensor};
use crate::descriptor::PyDescriptor;
use crate::endpoint::here;
use crate::error::{Coded, OrRaise, failed, raise};
use crate::identity::{PyIdentity, hash_of_text};
use crate::mapped_arg::{PyMappedArgs, Reach};
use crate::number::{self, owner_instance_id};
use crate::on_chip::OnChip;
use crate::task_args::{PyTaskArgs, with_blob};
use crate::tensor::PyTensor;

/// Which endpoint resolves: the host CPU of this process, or a chip, whose own device memory it reaches as well. The chip's name is
/// 8 bytes; a chip without one, or a host with one, is a ValueError.
#[pyclass(frozen, eq, name = "ImportContext", module = "bufabi")]
#[derive(PartialEq, Eq)]
pub(crate) struct PyImportContext {
    /// `None` for a host's.
    chip: Option<OwnerInstanceId>,
}

#[pymethods]
impl PyImportContext {
    #[new]
    #[pyo3(signature = (is_host_endpoint, owning_chip_instance_id = None))]
    fn new(is_host_endpoint: bool, owning_chip_instance_id: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let chip = owning_chip_instance_id.map(owner_instance_id).transpose()?;
        match (is_host_endpoint, chip) {
            (true, None) | (false, Some(_)) => Ok(Self { chip }),
            (true, Some(_)) => Err(PyValueError::new_err(
                "a host endpoint owns no chip: owning_chip_instance_id is not for it",
            )),
            (false, None) => Err(PyValueError::new_err("a chip endpoint needs its owning_chip_instance_id")),
        }
    }

    /// It is the host CPU of this process.
    #[getter]
    fn is_host_endpoint(&self) -> bool {
        self.chip.is_none()
    }

    /// The name of the chip's endpoint incarnation.
    #[getter]
    fn owning_chip_instance_id<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.chip.map(|chip| PyBytes::new(py, &chip.0))
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        hash_of_text(py, &self.__repr__())
    }

    fn __repr__(&self) -> String {
        match self.chip {
            None => "ImportContext(host)".to_owned(),
            Some(chip) => format!("ImportContext(chip {chip})"),
        }
    }
}

/// Resolves descriptors and tensors, each identity once: it is mapped on first sight, and the same mapping serves ever after.
///
/// An identity that comes again with another descriptor is refused. What nobody uses can make room for something new once 4,096
/// are mapped. Threads may share it. It is made for an `ImportContext`: anything else is a TypeError.
#[pyclass(frozen, name = "ImportRegistry", module = "bufabi")]
pub(crate) struct PyImportRegistry {
    consumer: Consumer,
    chip: Option<OwnerInstanceId>,
    /// What is known of the chip's own memory, which nobody maps.
    on_chip: Mutex<OnChip>,
}

/// What a backing was resolved to.
enum Found {
    /// Memory of this process.
    Here(Arc<Mapping>),
    /// An address of the chip.
    OnChip(u64),
}

impl Found {
    fn base(&self) -> u64 {
        match self {
            Self::Here(mapping) => mapping.address(),
            Self::OnChip(base) => *base,
        }
    }

    fn into_mapping(self) -> Option<Arc<Mapping>> {
        match self {
            Self::Here(mapping) => Some(mapping),
            Self::OnChip(_) => None,
        }
    }
}

impl PyImportRegistry {
    pub(crate) fn host() -> PyResult<Self> {
        let consumer = Consumer::new(Some(here()?)).or_raise()?;
        Ok(Self { consumer, chip: None, on_chip: Mutex::default() })
    }

    fn on_chip(&self) -> MutexGuard<'_, OnChip> {
        // Every step on it is whole, so a panic elsewhere leaves it as it should be.
        self.on_chip.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn find<H: Holds<RawDescriptor>>(&self, descriptor: &Descriptor<H>) -> Result<Found, ImportError> {
        match (self.chip, descriptor.address_space(), descriptor.backend_kind()) {
            (Some(chip), AddressSpace::Device, BackendKind::DeviceMalloc | BackendKind::VmmWindow) => {
                self.find_on_chip(chip, &descriptor.to_owned()).map(Found::OnChip)
            }
            _ => Ok(Found::Here(self.consumer.import(descriptor)?.into_mapping())),
        }
    }

    fn find_on_chip(&self, chip: OwnerInstanceId, descriptor: &Descriptor) -> Result<u64, ImportError> {
        use bufabi_core::wire::body::Body;
        let identity = descriptor.identity();
        let not_ours =
            ImportError::Resolve(ResolveError::NotResolvable { backend_kind: descriptor.backend_kind() });
        let (Body::DeviceMalloc { base } | Body::VmmWindow { base }) = descriptor.body() else {
            return Err(not_ours);
        };
        if identity.owner_instance_id() != chip {
            return Err(not_ours);
        }
        self.on_chip().meet(descriptor)?;
        Ok(base.get())
    }

    /// The blob's tensors as memory of this process.
    pub(crate) fn map_blob(&self, blob: &Blob<'_>) -> PyResult<PyMappedArgs> {
        if let Some(chip) = self.chip {
            let message = format!("chip {chip} computes on its own memory: materialize_args is for it");
            return Err(PyValueError::new_err(message));
        }
        let mut arguments = Vec::with_capacity(blob.tensor_count());
        for (index, tensor) in blob.tensors().enumerate() {
            arguments.push(self.map_argument(index, &tensor)?);
        }
        Ok(PyMappedArgs::new(arguments, blob.scalars().collect()))
    }

    #[inline]
    fn map_argument(&self, index: usize, tensor: &Tensor<&RawTensor>) -> PyResult<Reach> {
        let import =
            self.consumer.import(&tensor.descriptor()).map_err(|error| of_argument(index, &error))?;
        let access = import.access();
        Reach::new(import.into_mapping(), tensor.view(), access).map_err(|error| of_argument(index, &error))
    }

    fn chip_arguments(&self, blob: &Blob<'_>) -> PyResult<PyChipStorageTaskArgs> {
        let mut mappings = Vec::with_capacity(blob.tensor_count());
        let mut arguments = Box::new(ChipStorageTaskArgs::EMPTY);
        let resolve = |_, tensor: &Tensor<&RawTensor>| {
            let found = self.find(&tensor.descriptor())?;
            let base = found.base();
            mappings.push(found.into_mapping());
            Ok::<_, ImportError>(base)
        };
        arguments.materialize(blob, resolve).or_raise()?;
        Ok(PyChipStorageTaskArgs::new(arguments, mappings))
    }
}

/// What is wrong with one argument.
#[cold]
fn of_argument(index: usize, error: &impl Coded) -> PyErr {
    raise(error.frozen(), &format_args!("argument {index}: {error}"))
}

#[pymethods]
impl PyImportRegistry {
    #[new]
    fn new(context: PyRef<'_, PyImportContext>) -> PyResult<Self> {
        let Some(chip) = context.chip else { return Self::host() };
        let driver = Arc::new(MemfdDriver::new(chip, 0, MemfdOptions::default()));
        let backends: Vec<Box<dyn Backend>> = vec![
            Box::new(PosixShm),
            Box::new(ForkShm),
            Box::new(ForkCow),
            Box::new(VmmShareable::new(driver)),
        ];
        let consumer = Consumer::with_backends(Some(here()?), backends, DEFAULT_CAPACITY).or_raise()?;
        Ok(Self { consumer, chip: Some(chip), on_chip: Mutex::default() })
    }

    /// The address of a backing's first byte, by its descriptor or a tensor of it. It is good until `unregister` or `close`, or
    /// until what nobody uses makes room.
    ///
    /// A ValueError for a backing that this endpoint does not reach, or an identity that came with another descriptor; a FileNotFoundError
    /// where its name is gone; a KeyError for one of this process that is not there; a MemoryError when all that is mapped is in use.
    #[pyo3(signature = (backing))]
    fn resolve(&self, backing: &Bound<'_, PyAny>) -> PyResult<u64> {
        let found = if let Ok(descriptor) = backing.cast_exact::<PyDescriptor>() {
            self.find(&descriptor.get().0)
        } else if let Ok(tensor) = backing.cast_exact::<PyTensor>() {
            self.find(&tensor.get().0.descriptor())
        } else {
            let found = backing.get_type();
            let message = format!("a BufferDescriptor or a Tensor is needed, not {found}");
            return Err(PyTypeError::new_err(message));
        };
        found.or_raise().map(|found| found.base())
    }

    /// A tensor as a chip reads it, its backing resolved. The errors are those of `resolve`.
    fn materialize(&self, tensor: PyRef<'_, PyTensor>) -> PyResult<PyChipTensor> {
        let found = self.find(&tensor.0.descriptor()).or_raise()?;
        let chip_tensor = ChipTensor::materialize(&tensor.0, found.base()).or_raise()?;
        Ok(PyChipTensor::new(chip_tensor, found.into_mapping()))
    }

    /// A task's arguments as a chip reads them, all resolved or none: at most 256 tensors and 128 scalars. The errors are those of
    /// `resolve`, and name the argument.
    fn materialize_args(&self, args: PyRef<'_, PyTaskArgs>) -> PyResult<PyChipStorageTaskArgs> {
        let (tensors, scalars) = (args.0.tensors(), args.0.scalars());
        let size = bufabi_core::wire::blob::encoded_size(tensors.len(), scalars.len()).unwrap_or(0);
        let mut bytes = vec![0; size];
        bufabi_core::wire::blob::encode(tensors, scalars, &mut bytes).or_raise()?;
        self.chip_arguments(&Blob::from_bytes(&bytes).or_raise()?)
    }

    /// A blob's tensors as memory of this process, and its scalars. A blob that breaks a rule, and a tensor that this CPU does not reach,
    /// are a ValueError that names the argument; the other errors are those of `resolve`.
    fn mapped_args_from_blob(&self, blob: &Bound<'_, PyAny>) -> PyResult<PyMappedArgs> {
        with_blob(blob, |bytes| self.map_blob(&Blob::from_bytes(bytes).or_raise()?))
    }

    /// Drops what was mapped for an identity. That nothing was is no error; while views of it are alive it is a BufferError, and
    /// the mapping stays.
    fn unregister(&self, identity: PyRef<'_, PyIdentity>) -> PyResult<()> {
        self.consumer.release(identity.0).or_raise()?;
        self.on_chip().forget(identity.0);
        Ok(())
    }

    /// Drops every mapping, trying all. While views are alive it is a BufferError, and those that it names stay for another try.
    /// Nothing new is resolved from now on.
    fn close(&self) -> PyResult<()> {
        self.on_chip().close();
        self.consumer.close().or_raise()
    }

    /// Drops every mapping that nobody uses, and says how many. It never fails.
    fn evict_unused(&self) -> u32 {
        self.consumer.evict_unused()
    }

    /// Mappings that are there now.
    #[getter]
    fn live(&self) -> u32 {
        self.consumer.counters().live
    }

    /// Mappings that were made.
    #[getter]
    fn imports(&self) -> u64 {
        self.consumer.counters().imports
    }

    /// Times that one was there already.
    #[getter]
    fn hits(&self) -> u64 {
        self.consumer.counters().hits
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close()
    }

    fn __repr__(&self) -> String {
        let counters = self.consumer.counters();
        format!("ImportRegistry({} mapped, {} hits)", counters.live, counters.hits)
    }
}

/// A blob's arguments as a chip reads them, resolved through a registry; or by a function that is called with each tensor, and says the
/// address of its backing's first byte. What that function maps is its own affair.
///
/// A blob that breaks a rule is a ValueError; the other errors are the registry's, or what the function raised.
#[pyfunction]
pub(crate) fn materialize_task_args(
    blob: &Bound<'_, PyAny>,
    registry: &Bound<'_, PyAny>,
) -> PyResult<PyChipStorageTaskArgs> {
    with_blob(blob, |bytes| {
        let blob = Blob::from_bytes(bytes).or_raise()?;
        if let Ok(registry) = registry.cast::<PyImportRegistry>() {
            return registry.get().chip_arguments(&blob);
        }
        if !registry.is_callable() {
            let found = registry.get_type();
            return Err(PyTypeError::new_err(format!(
                "registry: an ImportRegistry or a function is needed, not {found}"
            )));
        }
        let mut arguments = Box::new(ChipStorageTaskArgs::EMPTY);
        let resolve = |_, tensor: &Tensor<&RawTensor>| {
            let found = registry.call1((PyTensor(tensor.to_owned()),))?;
            number::base(&found)
        };
        match arguments.materialize(&blob, resolve) {
            Ok(()) => Ok(PyChipStorageTaskArgs::new(arguments, vec![None; blob.tensor_count()])),
            Err(MaterializeError::Resolve { error, .. }) => Err(error),
            Err(MaterializeError::Chip { index, error }) => Err(of_argument(index, &error)),
            Err(MaterializeError::TooMany(error)) => Err(failed(&error)),
        }
    })
}
