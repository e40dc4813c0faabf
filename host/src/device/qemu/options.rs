//! What a machine in QEMU is started with, and why one is not.

use core::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bufabi_core::Code;

use crate::device::DeviceError;
use crate::sys::OsError;

/// What a machine in QEMU is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QemuOptions {
    /// The emulator: a path, or a name that is looked for where programs are.
    pub emulator: PathBuf,
    /// The firmware's image: an ELF file for aarch64.
    pub firmware: PathBuf,
    /// Bytes of its memory: whole MiB, of which the first 4 are its own.
    pub nbytes: u64,
    /// How long it may make no progress before it counts as hanging.
    pub patience: Duration,
}

impl QemuOptions {
    /// The environment variable that names the emulator.
    pub const EMULATOR: &str = "BUFABI_QEMU";
    /// The environment variable that names the firmware.
    pub const FIRMWARE: &str = "BUFABI_FIRMWARE";
    /// The emulator where nothing names one.
    pub const DEFAULT_EMULATOR: &str = "qemu-system-aarch64";
    /// Bytes of memory unless told otherwise. The machine's own stands behind what is used, and nothing else.
    pub const DEFAULT_NBYTES: u64 = 256 << 20;
    /// How long a machine may make no progress unless told otherwise.
    pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(20);

    /// A machine with that firmware, and the emulator that the environment names.
    #[must_use]
    pub fn with_firmware(firmware: PathBuf) -> Self {
        let (nbytes, patience) = (Self::DEFAULT_NBYTES, Self::DEFAULT_PATIENCE);
        Self { emulator: Self::emulator_from_environment(), firmware, nbytes, patience }
    }

    /// The emulator that the environment names, else the usual one: a path, or a name that is looked for where programs are.
    #[must_use]
    pub fn emulator_from_environment() -> PathBuf {
        let named = std::env::var_os(Self::EMULATOR).filter(|name| !name.is_empty());
        named.map_or_else(|| PathBuf::from(Self::DEFAULT_EMULATOR), PathBuf::from)
    }

    /// The emulator and the firmware that the environment names.
    ///
    /// # Errors
    /// [`QemuError::NoFirmware`] when it names none.
    pub fn from_environment() -> Result<Self, QemuError> {
        let firmware = std::env::var_os(Self::FIRMWARE).filter(|name| !name.is_empty());
        firmware.map(|path| Self::with_firmware(path.into())).ok_or(QemuError::NoFirmware)
    }

    /// Looks whether the emulator and the firmware are there, so that who is about to start a process for a machine can say beforehand why
    /// there will be none.
    ///
    /// # Errors
    /// [`QemuError::EmulatorMissing`], [`QemuError::FirmwareUnreadable`], [`QemuError::NotFirmware`].
    pub fn check(&self) -> Result<(), QemuError> {
        check_firmware(&self.firmware)?;
        let found = find_program(&self.emulator);
        found.map(drop).ok_or_else(|| QemuError::EmulatorMissing { path: self.emulator.clone() })
    }
}

/// Why there is no machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QemuError {
    /// Nothing names the firmware.
    NoFirmware,
    /// The firmware could not be read.
    FirmwareUnreadable {
        /// Where it was looked for.
        path: PathBuf,
        /// Why.
        error: OsError,
    },
    /// The file is no image for this machine.
    NotFirmware {
        /// Which file.
        path: PathBuf,
    },
    /// There is no emulator of that name.
    EmulatorMissing {
        /// What was looked for.
        path: PathBuf,
    },
    /// Another size than a machine can have: whole MiB, 5 to 4,096 of them.
    Memory {
        /// Bytes that were asked for.
        nbytes: u64,
    },
    /// The operating system refused.
    Os(OsError),
    /// The machine was started, and did not say so.
    Device(DeviceError),
}

impl QemuError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::NoFirmware
            | Self::FirmwareUnreadable { .. }
            | Self::NotFirmware { .. }
            | Self::EmulatorMissing { .. } => Code::DeviceMissing,
            Self::Memory { .. } => Code::Length,
            Self::Os(error) => error.code(),
            Self::Device(error) => error.code(),
        }
    }
}

impl fmt::Display for QemuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFirmware => {
                write!(f, "a device in QEMU needs firmware: name it by {}", QemuOptions::FIRMWARE)
            }
            Self::FirmwareUnreadable { path, error } => write!(f, "firmware {}: {error}", path.display()),
            Self::NotFirmware { path } => {
                write!(f, "firmware {}: it is no ELF image for aarch64", path.display())
            }
            Self::EmulatorMissing { path } => write!(
                f,
                "emulator {} is not there: install it (Debian: qemu-system-arm) or name it by {}",
                path.display(),
                QemuOptions::EMULATOR
            ),
            Self::Memory { nbytes } => {
                write!(f, "a device in QEMU has 5 to 4096 whole MiB of memory, found {nbytes} bytes")
            }
            Self::Os(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for QemuError {}

impl From<OsError> for QemuError {
    fn from(error: OsError) -> Self {
        Self::Os(error)
    }
}

impl From<DeviceError> for QemuError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

/// The file of a program: a name without a folder is looked for where programs are.
#[must_use]
pub fn find_program(name: &Path) -> Option<PathBuf> {
    // As a shell does, it passes over what cannot be run.
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if name.components().count() > 1 {
        return is_program(name).then(|| name.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| is_program(program))
}

/// Looks at an image's head: the emulator would run anything else as it is.
///
/// # Errors
/// [`QemuError::FirmwareUnreadable`], [`QemuError::NotFirmware`].
pub fn check_firmware(path: &Path) -> Result<(), QemuError> {
    /// 64 bits, little-endian, and the number of aarch64.
    const IDENTITY: &[u8] = b"\x7fELF\x02\x01";
    const MACHINE: &[u8] = &[183, 0];
    let mut head = [0; 20];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    match read {
        Ok(()) if head.starts_with(IDENTITY) && head.ends_with(MACHINE) => Ok(()),
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
            let error = OsError::from_io("open", &error);
            Err(QemuError::FirmwareUnreadable { path: path.to_owned(), error })
        }
        Ok(()) | Err(_) => Err(QemuError::NotFirmware { path: path.to_owned() }),
    }
}
