//! The stand-in for the Ascend driver: built once, and a folder for each test in which its processes share memory.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use bufabi_tests::root;

use crate::peer::{Peer, new_owner};

/// What it says at its end when everything was given back.
pub(crate) const NOTHING_LEFT: &str = "at exit: 0 physical, 0 ranges, 0 mapped, 0 blocks";

/// What creating and exporting 5000 bytes calls, without the settings of the device.
pub(crate) const SHARE: [&str; 9] = [
    "aclInit(NULL) = 0",
    "aclrtMemGetAllocationGranularity(device 0, 0) = 0",
    "aclrtMallocPhysical(2097152, device 0, attribute 4, 0) = 0",
    "aclrtReserveMemAddress(2097152, 0, NULL, 0) = 0",
    "aclrtMapMem(range 1, 2097152, 0, physical 1, 0) = 0",
    "aclrtMemSetAccess(range 1, 2097152, flags 3, visible device 4, 1) = 0",
    "aclrtMemcpy(1048576, 1048576, 1) = 0",
    "aclrtMemcpy(1048576, 1048576, 1) = 0",
    "aclrtMemExportToShareableHandle(physical 1, 0, 0, handle 1) = 0",
];

/// What giving it up calls, and what giving up an import calls.
pub(crate) const DOWN: [&str; 3] = [
    "aclrtUnmapMem(range 1) = 0",
    "aclrtReleaseMemAddress(range 1) = 0",
    "aclrtFreePhysical(physical 1) = 0",
];

/// Builds the stand-in under that name in a folder of its own, and gives the folder.
fn build(folder: &str, name: &str, flags: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    fs::create_dir_all(&folder).unwrap();
    // Another run may have it loaded: it is put in its place whole.
    let fresh = folder.join(format!("{name}.{}", std::process::id()));
    let status = Command::new("cc")
        .args(["-std=gnu2x", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared"])
        .args(flags)
        .arg("-o")
        .arg(&fresh)
        .arg(root().join("tests/acl-stand-in/ascendcl.c"))
        .status()
        .unwrap();
    assert!(status.success());
    fs::rename(&fresh, folder.join(name)).unwrap();
    folder
}

/// The folder of the whole library.
fn library() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| build("stand-in", "libascendcl.so", &[]))
}

/// The folder of one that has only the other name.
pub(crate) fn library_with_version() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| build("stand-in-1", "libascendcl.so.1", &[]))
}

/// The folder of one that lacks a function.
pub(crate) fn library_without(function: &str) -> PathBuf {
    let renamed = format!("-D{function}=renamed");
    build(&format!("stand-in-without-{function}"), "libascendcl.so", &[&renamed])
}

/// What the processes of one test share.
pub(crate) struct World {
    folder: PathBuf,
    processes: AtomicU32,
}

impl World {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("world-{}-{number}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).unwrap();
        Self { folder, processes: AtomicU32::new(0) }
    }

    /// A peer of that device, and where its calls are logged.
    pub(crate) fn start(&self, device: u32, environment: &[(&str, &str)]) -> (Peer, Log) {
        let (environment, log) = self.environment(library(), environment);
        // What the driver calls the device is another number than what the process does.
        let (logical, visible) = (device.to_string(), device.saturating_add(4).to_string());
        (Peer::start(&["acl", &new_owner(), &logical, &visible], &environment), log)
    }

    /// A chip on that device, and where its calls are logged.
    pub(crate) fn start_chip(&self, device: u32, environment: &[(&str, &str)]) -> (Peer, Log) {
        let (environment, log) = self.environment(library(), environment);
        let (logical, visible) = (device.to_string(), device.saturating_add(4).to_string());
        (Peer::start(&["chip", &logical, &visible], &environment), log)
    }

    /// A peer of that device at one end of a region, and where its calls are logged.
    pub(crate) fn start_region(&self, device: u32, environment: &[(&str, &str)]) -> (Peer, Log) {
        let (environment, log) = self.environment(library(), environment);
        let (logical, visible) = (device.to_string(), device.saturating_add(4).to_string());
        (Peer::start_region(&[&logical, &visible], &environment), log)
    }

    /// A peer that finds its library in that folder, and its first word.
    pub(crate) fn start_with(&self, library: &Path, environment: &[(&str, &str)]) -> (Peer, String) {
        let (environment, _) = self.environment(library, environment);
        Peer::start_any(&["acl", &new_owner(), "0", "4"], &environment)
    }

    fn environment<'a>(
        &self,
        library: &Path,
        environment: &[(&'a str, &str)],
    ) -> (Vec<(&'a str, OsString)>, Log) {
        let number = self.processes.fetch_add(1, Ordering::Relaxed);
        let log = self.folder.join(format!("log-{number}"));
        let mut all: Vec<(&str, OsString)> = vec![
            ("LD_LIBRARY_PATH", library.into()),
            ("STAND_IN_DIR", (&self.folder).into()),
            ("STAND_IN_LOG", (&log).into()),
        ];
        all.extend(environment.iter().map(|(name, value)| (*name, OsString::from(value))));
        (all, Log(log))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// The calls that one process made.
pub(crate) struct Log(PathBuf);

impl Log {
    /// All lines so far, settings of the device aside: there is one before each call.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.lines().into_iter().filter(|line| !line.starts_with("aclrtSetDevice")).collect()
    }

    /// All lines so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        fs::read_to_string(&self.0).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}
