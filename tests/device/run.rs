//! `bufabi run` with chips in QEMU: the example to the bit, and a run whose machine is killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use bufabi_host::sys::process::Process;
use bufabi_tests::device::{device_firmware, fresh_folder, run};
use bufabi_tests::root;
use serde_json::{Value, json};

use crate::{KILL, builds};

/// The program, built beside this test.
fn program() -> PathBuf {
    let this_test = std::env::current_exe().unwrap();
    let profile = this_test.parent().and_then(Path::parent).unwrap();
    let mut build = Command::new("cargo");
    build.current_dir(root()).args(["build", "-p", "bufabi-host", "--bin", "bufabi", "--locked", "--quiet"]);
    build.arg("--target-dir").arg(profile.parent().unwrap());
    if profile.ends_with("release") {
        build.arg("--release");
    }
    run(&mut build).unwrap();
    profile.join("bufabi")
}

/// Starts a run of a graph, which is written to the folder.
fn start(folder: &Path, graph: &Value) -> Child {
    fs::write(folder.join("graph.json"), graph.to_string()).unwrap();
    let mut command = Command::new(program());
    command.env("BUFABI_FIRMWARE", device_firmware(&builds()).unwrap());
    command.args(["run", "--json", "graph.json"]).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs an example with each of its chips a machine in QEMU, and says how many bytes were copied for each of its first two tasks.
fn bytes_copied(example: &str) -> Vec<u64> {
    let folder = fresh_folder(&builds(), format!("{example}-in-qemu")).unwrap();
    let examples = root().join("examples");
    for file in ["digits.npy", "digits-gram.npy", "digits-gram-rowsums.npy"] {
        fs::copy(examples.join(file), folder.join(file)).unwrap();
    }
    let mut graph: Value =
        serde_json::from_str(&fs::read_to_string(examples.join(example)).unwrap()).unwrap();
    let workers = graph["workers"].as_array_mut().unwrap();
    for worker in workers.iter_mut().filter(|worker| worker["kind"] == "chip") {
        worker["device"] = json!("qemu");
    }
    let output = start(&folder, &graph).wait_with_output().unwrap();
    // The graph says what to expect, bit for bit.
    assert!(output.status.success(), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tasks = report["tasks"].as_array().unwrap().iter().take(2);
    tasks.map(|task| task["bytes_copied"].as_u64().unwrap()).collect()
}

const X: u64 = 1797 * 64 * 4;
const HALF_OF_G: u64 = 64 * 32 * 4;

#[test]
fn the_example_gives_the_same_bits_on_chips_in_qemu_and_x_goes_to_each_once() {
    // X once, although two arguments name it, and the result back.
    assert_eq!(bytes_copied("gram.json"), [X + HALF_OF_G; 2]);
}

#[test]
fn memory_of_a_chip_in_qemu_is_named_by_its_own_addresses() {
    // X lies on the chips already: allocated on one, in a window of the other.
    assert_eq!(bytes_copied("gram-devices.json"), [HALF_OF_G; 2]);
}

/// The machine below a process, as soon as there is one.
fn machine_below(ancestor: u32) -> Option<i32> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let stat = fs::read_to_string(entry.ok()?.path().join("stat")).ok()?;
            let (head, tail) = stat.rsplit_once(") ")?;
            let (pid, name) = head.split_once(" (")?;
            let parent = tail.split(' ').nth(1)?;
            Some((pid.parse::<u32>().ok()?, name.to_owned(), parent.parse::<u32>().ok()?))
        });
        let processes: Vec<_> = processes.collect();
        let parent_of = |pid: u32| processes.iter().find(|process| process.0 == pid).map(|process| process.2);
        let is_below = |pid: u32| {
            let mut above = parent_of(pid);
            while let Some(pid) = above.filter(|&pid| pid > 1 && pid != ancestor) {
                above = parent_of(pid);
            }
            above == Some(ancestor)
        };
        let machine =
            processes.iter().find(|(pid, name, _)| name.starts_with("qemu-system") && is_below(*pid));
        if let Some((pid, ..)) = machine {
            return i32::try_from(*pid).ok();
        }
        std::thread::yield_now();
    }
    None
}

#[test]
fn a_run_whose_machine_is_killed_says_so_and_ends() {
    let folder = fresh_folder(&builds(), "killed-in-qemu").unwrap();
    let square = |tag| {
        json!({"buffer": if tag == "input" { "a" } else { "c" }, "tag": tag, "dtype": "float32",
        "shape": [1024, 1024]})
    };
    let graph = json!({
        "buffers": [{"name": "a", "nbytes": 1 << 22}, {"name": "c", "nbytes": 1 << 22}],
        "workers": [{"name": "chip0", "kind": "chip", "device": "qemu"}],
        // It takes an emulated machine tens of seconds.
        "tasks": [{"name": "long", "kernel": "matmul", "worker": "chip0",
            "args": [square("input"), square("input"), square("output_existing")]}]
    });
    let child = start(&folder, &graph);
    let machine = machine_below(child.id()).unwrap();
    Process::open(machine).unwrap().send(KILL).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("chip0"), "{}", said(&output));
    assert!(said(&output).contains("device"), "{}", said(&output));
}
