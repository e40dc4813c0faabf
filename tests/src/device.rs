//! How firmware is built and run: compilers, emulators, and what a linked image says about itself.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use object::read::File;
use object::{Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};

use crate::root;

/// The small controller: Cortex-M4 with FPU.
pub const CORTEX_M: &str = "thumbv7em-none-eabihf";
/// Bare firmware beside an AICPU.
pub const BARE_AARCH64: &str = "aarch64-unknown-none";
/// An AICPU's Linux.
pub const LINUX_AARCH64: &str = "aarch64-unknown-linux-gnu";
/// This machine.
pub const HERE: &str = "x86_64-unknown-linux-gnu";

/// How long anything may take before it counts as hanging: a compiler's first build on a busy machine takes minutes.
const LIMIT_SECONDS: &str = "1200";

/// Runs a command to its end.
///
/// # Errors
/// What it printed, when it did not start or did not end well.
pub fn run(command: &mut Command) -> Result<String, String> {
    let what = format!("{command:?}");
    let mut bounded = Command::new("timeout");
    bounded.args(["--kill-after=5", LIMIT_SECONDS]).arg(command.get_program()).args(command.get_args());
    bounded.stdin(Stdio::null());
    if let Some(folder) = command.get_current_dir() {
        bounded.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bounded.env(name, value),
            None => bounded.env_remove(name),
        };
    }
    let output = bounded.output().map_err(|error| format!("timeout: {error}"))?;
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        Ok(said)
    } else {
        Err(format!(
            "{what}: {}\n{said}\nA tool that is not found: `tests/all setup` installs it.",
            output.status
        ))
    }
}

/// The pinned toolchain where it has the target, else Debian's with `core` built from source: the beginning of a command.
fn cargo(target: &str, folder: &Path) -> Result<Command, String> {
    let sysroot = run(Command::new("rustc").args(["--print", "sysroot"]))?;
    let there = Path::new(sysroot.trim()).join("lib/rustlib").join(target).join("lib").is_dir();
    let pretended = std::env::var_os("BUFABI_NO_RUST_TARGETS").is_some_and(|value| value == "1");
    if target == HERE || (there && !pretended) {
        let mut command = Command::new("cargo");
        command.arg("rustc").arg("--target-dir").arg(folder.join("device"));
        return Ok(command);
    }
    let mut command = Command::new("/usr/bin/cargo");
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTC", "/usr/bin/rustc");
    command.arg("rustc").arg("-Zbuild-std=core").arg("--target-dir").arg(folder.join("device-from-source"));
    Ok(command)
}

/// Where a build for `target` puts what it made.
fn built(command: &Command, target: &str, profile: &str) -> Result<PathBuf, String> {
    let mut arguments = command.get_args().skip_while(|argument| *argument != "--target-dir").skip(1);
    let folder = arguments.next().ok_or("no target directory")?;
    Ok(Path::new(folder).join(target).join(profile))
}

/// Builds the firmware library with its panic handler and these features more; `folder` keeps what is built.
///
/// # Errors
/// What the compiler said.
pub fn firmware_library(target: &str, features: &[&str], folder: &Path) -> Result<PathBuf, String> {
    let _building = building();
    let enabled = [&["panic-handler"], features].concat().join(",");
    let mut command = cargo(target, folder)?;
    command.current_dir(root()).args(["-p", "bufabi-firmware", "--locked", "--quiet"]);
    command.args(["--profile", "firmware", "--crate-type", "staticlib", "--target", target]);
    // defmt leaves out what is below the level that it is built for.
    command.args(["--features", &enabled]).env("DEFMT_LOG", "debug");
    run(&mut command)?;
    // The next set of features would take its place.
    let library = folder.join(format!("libbufabi_firmware-{}.a", [&[target], features].concat().join("-")));
    let made = built(&command, target, "firmware")?.join("libbufabi_firmware.a");
    // By a rename: another test may be linking what lies there.
    let copy = library.with_extension("new");
    let copied = fs::copy(&made, &copy).and_then(|_| fs::rename(&copy, &library));
    copied.map_err(|error| format!("{}: {error}", made.display()))?;
    Ok(library)
}

/// Held while cargo builds a library, until it is out of the way of the next.
fn building() -> MutexGuard<'static, ()> {
    static BUILDING: Mutex<()> = Mutex::new(());
    BUILDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Builds the Rust firmware that answers requests, for the bare `virt` machine.
///
/// # Errors
/// What the compiler said.
pub fn rust_firmware(folder: &Path) -> Result<PathBuf, String> {
    bare_firmware("virt", "firmware", folder)
}

/// Builds the firmware that runs tasks, for the bare `virt` machine.
///
/// # Errors
/// What the compiler said.
pub fn device_firmware(folder: &Path) -> Result<PathBuf, String> {
    bare_firmware("device", "device", folder)
}

fn bare_firmware(name: &str, profile: &str, folder: &Path) -> Result<PathBuf, String> {
    let _building = building();
    let script = root().join(format!("firmware-shim/examples/{name}/{name}.ld"));
    let mut command = cargo(BARE_AARCH64, folder)?;
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_NONE_LINKER", "ld.lld");
    command.current_dir(root()).args(["-p", "bufabi-firmware", "--example", name, "--locked", "--quiet"]);
    command.args(["--profile", profile, "--target", BARE_AARCH64, "--features", "panic-handler", "--"]);
    command.arg(format!("-Clink-arg=-T{}", script.display()));
    run(&mut command)?;
    Ok(built(&command, BARE_AARCH64, profile)?.join("examples").join(name))
}

/// Compiles C or C++ against the library's headers, warnings denied; sources are named from `tests/firmware`.
///
/// # Errors
/// What the compiler said.
pub fn compile(
    compiler: &str,
    flags: &[&str],
    sources: &[&str],
    library: Option<&Path>,
    out: &Path,
) -> Result<(), String> {
    let here = root().join("tests/firmware");
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-O2", "-g"]).args(flags);
    command.arg("-I").arg(root().join("firmware-shim/include"));
    command.args(sources.iter().map(|source| here.join(source)));
    command.args(library).arg("-o").arg(out);
    run(&mut command).map(drop)
}

/// Compiles the C firmware that is a task's end of a message queue, for the bare `virt` machine.
///
/// # Errors
/// What the compiler said.
pub fn queue_firmware(library: &Path, folder: &Path) -> Result<PathBuf, String> {
    let image = folder.join("queue.elf");
    let script = format!("-Wl,-T,{}", root().join("firmware-shim/examples/virt/virt.ld").display());
    let flags = [
        "-std=c11",
        "-Wno-unknown-pragmas",
        "-ffreestanding",
        "-nostdlib",
        "-static",
        "-mstrict-align",
        "-Wl,--gc-sections",
        "-Wl,-z,noexecstack",
        "-Wl,--build-id=none",
        &script,
    ];
    let sources = ["../../firmware-shim/examples/virt/start.S", "c/queue.c", "c/semihosting.c"];
    compile("aarch64-linux-gnu-gcc", &flags, &sources, Some(library), &image)?;
    Ok(image)
}

/// Links what one function needs and nothing else. What the firmware has to bring, a transport for defmt, is left open.
///
/// # Errors
/// What the linker said.
pub fn link_alone(linker: &str, function: &str, library: &Path, out: &Path) -> Result<(), String> {
    let mut command = Command::new(linker);
    command.args(["--gc-sections", "-e", function, "-u", function]);
    for symbol in ["acquire", "release", "write", "flush", "timestamp"] {
        command.arg(format!("--defsym=_defmt_{symbol}=0"));
    }
    command.arg("-o").arg(out).arg(library);
    run(&mut command).map(drop)
}

/// Runs a bare image in QEMU, in `folder`, where it finds `requests` and leaves `answers`.
///
/// # Errors
/// What QEMU said.
pub fn emulate(target: &str, image: &Path, folder: &Path) -> Result<(), String> {
    let mut command = if target == CORTEX_M {
        let mut command = Command::new("qemu-system-arm");
        command.args(["-machine", "mps2-an386", "-cpu", "cortex-m4"]);
        command
    } else {
        let mut command = Command::new("qemu-system-aarch64");
        command.args(["-machine", "virt", "-cpu", "cortex-a72", "-nic", "none"]);
        command
    };
    command.args(["-nographic", "-monitor", "none", "-serial", "none"]);
    command.args(["-semihosting-config", "enable=on,target=native"]);
    command.arg("-kernel").arg(image).current_dir(folder);
    run(&mut command).map(drop)
}

/// Bytes of a linked image, as they lie in a device's memories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Code and constants.
    pub text: u64,
    /// Variables, whether zero at the start or not.
    pub data: u64,
}

/// What an image takes.
///
/// # Errors
/// That it is no image.
pub fn sizes(image: &Path) -> Result<Sizes, String> {
    with_image(image, |image| {
        let mut sizes = Sizes::default();
        for section in image.sections() {
            let (kind, size) = (section.kind(), section.size());
            // The texts of defmt stay on the host.
            if section.name().is_ok_and(|name| name.starts_with(".defmt")) {
                continue;
            }
            if matches!(kind, SectionKind::Text | SectionKind::ReadOnlyData) {
                sizes.text = sizes.text.saturating_add(size);
            } else if matches!(kind, SectionKind::Data | SectionKind::UninitializedData) {
                sizes.data = sizes.data.saturating_add(size);
            }
        }
        sizes
    })
}

/// The functions of a linked image that belong to a panic: none, when no path of it can panic.
///
/// # Errors
/// That it is no image, or has no symbols to look at.
pub fn panics(image: &Path) -> Result<Vec<String>, String> {
    let functions = with_image(image, |image| {
        let functions = image.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
        functions.filter_map(|symbol| symbol.name().ok().map(str::to_owned)).collect::<Vec<_>>()
    })?;
    if functions.is_empty() {
        return Err(format!("{} has no symbols", image.display()));
    }
    Ok(functions
        .into_iter()
        .filter(|name| name.contains("panicking") || name.contains("rust_begin_unwind"))
        .collect())
}

fn with_image<T>(path: &Path, look: impl FnOnce(&File<'_>) -> T) -> Result<T, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let image = File::parse(&*bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(look(&image))
}

/// A folder of this name, made anew.
///
/// # Errors
/// What the system said.
pub fn fresh_folder(folder: &Path, name: impl AsRef<OsStr>) -> Result<PathBuf, String> {
    let folder = folder.join(name.as_ref());
    let result = match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => fs::create_dir_all(&folder),
    };
    result.map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}
