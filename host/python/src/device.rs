//! `Device`: what a chip below a Python program is, said before its process is forked.

use std::path::PathBuf;
use std::time::Duration;

use bufabi_host::device::{DeviceKind, QemuError, QemuOptions};
use bufabi_host::sys::OsError;
use pyo3::exceptions::{PyFileNotFoundError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::error::{raise, with_rule};
use crate::identity::hash_of_text;
use crate::number;
use crate::tree::{MOST, too_many};

/// What a chip is: a simulation in software, or a machine in QEMU.
///
/// `Worker(3, chips=[Device.simulated(), Device.qemu("firmware.elf")])` has one of each.
#[pyclass(frozen, eq, name = "Device", module = "bufabi")]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PyDevice(DeviceKind);

/// A chip in software, of the usual size unless one is given.
fn in_software(nbytes: Option<&Bound<'_, PyAny>>, reaches_host_memory: bool) -> PyResult<PyDevice> {
    let given = nbytes.map(number::nbytes).transpose()?;
    if given == Some(0) {
        return Err(PyValueError::new_err("nbytes: a chip has at least 1 byte of memory, found 0"));
    }
    let kind = match DeviceKind::default() {
        DeviceKind::Simulated { nbytes, .. } => {
            DeviceKind::Simulated { nbytes: given.unwrap_or(nbytes), reaches_host_memory }
        }
        machine @ DeviceKind::Qemu(_) => machine,
    };
    Ok(PyDevice(kind))
}

#[pymethods]
impl PyDevice {
    /// A chip in software whose kernels reach host memory where it lies. It has `nbytes` bytes of its own, 4 GiB unless told otherwise,
    /// which are taken as they are touched. None at all are a ValueError.
    #[staticmethod]
    #[pyo3(signature = (*, nbytes = None))]
    fn simulated(nbytes: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        in_software(nbytes, true)
    }

    /// A chip in software that reaches its own memory alone: what tasks name of the host is copied there and back, and counted.
    /// It has `nbytes` bytes, as `simulated` says; none at all are a ValueError.
    #[staticmethod]
    #[pyo3(signature = (*, nbytes = None))]
    fn staged(nbytes: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        in_software(nbytes, false)
    }

    /// A machine in QEMU that runs a firmware image, an ELF file for aarch64. What is not given is what the environment names by
    /// BUFABI_FIRMWARE and BUFABI_QEMU, else qemu-system-aarch64; `nbytes` bytes of memory, 256 MiB; and a `patience` of 20 seconds in
    /// which it may make no progress.
    ///
    /// That both files are there is seen here, and not only when workers are started: a FileNotFoundError, and a ValueError for what is
    /// no firmware.
    #[staticmethod]
    #[pyo3(signature = (firmware = None, *, emulator = None, nbytes = None, patience = None))]
    fn qemu(
        firmware: Option<PathBuf>,
        emulator: Option<PathBuf>,
        nbytes: Option<&Bound<'_, PyAny>>,
        patience: Option<f64>,
    ) -> PyResult<Self> {
        let options =
            firmware.map_or_else(QemuOptions::from_environment, |path| Ok(QemuOptions::with_firmware(path)));
        let mut options = options.map_err(|error| refused(&error))?;
        if let Some(emulator) = emulator {
            options.emulator = emulator;
        }
        if let Some(nbytes) = nbytes {
            options.nbytes = number::nbytes(nbytes)?;
        }
        if let Some(seconds) = patience {
            let patience = Duration::try_from_secs_f64(seconds);
            options.patience = patience
                .map_err(|_| PyValueError::new_err(format!("patience: {seconds} s is no time to wait")))?;
        }
        options.check().map_err(|error| refused(&error))?;
        Ok(Self(DeviceKind::Qemu(options)))
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        hash_of_text(py, &self.__repr__())
    }

    fn __repr__(&self) -> String {
        match &self.0 {
            DeviceKind::Simulated { nbytes, reaches_host_memory: true } => {
                format!("Device.simulated(nbytes={nbytes})")
            }
            DeviceKind::Simulated { nbytes, reaches_host_memory: false } => {
                format!("Device.staged(nbytes={nbytes})")
            }
            DeviceKind::Qemu(QemuOptions { emulator, firmware, nbytes, patience }) => format!(
                "Device.qemu({firmware:?}, emulator={emulator:?}, nbytes={nbytes}, patience={})",
                patience.as_secs_f64()
            ),
        }
    }
}

/// A file that is not there is what Python calls it.
fn refused(error: &QemuError) -> PyErr {
    let code = error.code();
    match error {
        QemuError::EmulatorMissing { .. } => with_rule(code, error, PyFileNotFoundError::new_err),
        QemuError::FirmwareUnreadable { error: inner, .. } if is_not_found(*inner) => {
            with_rule(code, error, PyFileNotFoundError::new_err)
        }
        QemuError::NoFirmware | QemuError::NotFirmware { .. } => {
            with_rule(code, error, PyValueError::new_err)
        }
        QemuError::FirmwareUnreadable { .. }
        | QemuError::Memory { .. }
        | QemuError::Os(_)
        | QemuError::Device(_) => raise(code, error),
    }
}

fn is_not_found(error: OsError) -> bool {
    std::io::Error::from_raw_os_error(error.errno).kind() == std::io::ErrorKind::NotFound
}

/// A worker's chips: so many in software, or the device of each.
pub(crate) fn chips_of(given: &Bound<'_, PyAny>) -> PyResult<Vec<DeviceKind>> {
    match given.extract::<usize>() {
        Ok(count) if count <= MOST => return Ok(vec![DeviceKind::default(); count]),
        Ok(_) => return Err(too_many()),
        Err(error) if error.is_instance_of::<PyOverflowError>(given.py()) => {
            return Err(PyValueError::new_err(format!("chips: {given} is not 0 to {MOST}")));
        }
        Err(_) => {}
    }
    let needed = |found: &Bound<'_, PyAny>| {
        let found = found.get_type();
        PyTypeError::new_err(format!("chips: a number or several of bufabi.Device are needed, not {found}"))
    };
    let mut devices = Vec::new();
    for device in given.try_iter().map_err(|_| needed(given))? {
        let device = device?;
        if devices.len() >= MOST {
            return Err(too_many());
        }
        devices.push(device.cast::<PyDevice>().map_err(|_| needed(&device))?.get().0.clone());
    }
    Ok(devices)
}
