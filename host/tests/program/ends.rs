//! How `bufabi run` ends before its tasks do: workers that die, signals, a parent that is killed; and how signals end `bufabi pingpong` and
//! `bufabi stream`.

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::run::{argument, graph, left_by, run, write};
use crate::{HANG, folder};

/// A graph whose tasks take far longer than any test waits.
fn endless(folder: &Path) -> PathBuf {
    let matrix = |tag: &str, buffer: &str| argument(buffer, tag, &json!([4096, 4096]));
    let task = |name: &str, worker: &str, out: &str| {
        json!({"name": name, "kernel": "matmul", "worker": worker,
               "args": [matrix("input", "a"), matrix("input", "a"), matrix("output", out)]})
    };
    let graph = json!({
        "buffers": [
            {"name": "a", "nbytes": 67_108_864},
            {"name": "b", "nbytes": 67_108_864},
            {"name": "c", "nbytes": 67_108_864}],
        "workers": [{"name": "chip0", "kind": "chip"}, {"name": "chip1", "kind": "chip"}],
        "tasks": [task("long", "chip0", "b"), task("other", "chip1", "c")],
    });
    write(folder, &graph)
}

/// A run that is ended with the test, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended, and been waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl std::ops::Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl std::ops::DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

fn start(graph: &Path) -> Running {
    start_with(&["run", graph.to_str().unwrap()], &[])
}

fn start_with(arguments: &[&str], environment: &[(&str, &Path)]) -> Running {
    // Whoever started the tests may have some of them ignored.
    let child = Command::new("env")
        .args(["--default-signal=HUP,INT,TERM", env!("CARGO_BIN_EXE_bufabi")])
        .args(arguments)
        .envs(environment.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    Running(child)
}

/// The processes whose parent is `pid`, oldest first, once there are `count` of them and each has worked for a while.
fn children(pid: u32, count: usize) -> Vec<u32> {
    // Each works for a tenth of a second, on a machine that may have many others to run.
    let deadline = Instant::now() + 6 * HANG;
    loop {
        let mut found: Vec<(u32, u64)> = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(|process: u32| {
                let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
                let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
                (fields[1] == pid.to_string()).then(|| (process, fields[11].parse().unwrap()))
            })
            .collect();
        found.sort_unstable();
        if found.len() == count && found.iter().all(|(_, ticks)| *ticks >= 10) {
            return found.into_iter().map(|(process, _)| process).collect();
        }
        assert!(Instant::now() < deadline, "{found:?}");
        sleep(Duration::from_millis(10));
    }
}

fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

/// Waits for a run to end, which it must soon, and leave nothing.
fn ended(mut child: Running) -> (i32, String) {
    let start = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(start.elapsed() < HANG, "it goes on"),
        }
        sleep(Duration::from_millis(5));
    };
    let mut complaint = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    assert_eq!(left_by(child.id()), [""; 0]);
    (status.code().unwrap(), complaint)
}

#[test]
fn a_killed_worker_ends_the_run_and_is_named_with_its_task() {
    let folder = folder("killed");
    let child = start(&endless(&folder));
    let workers = children(child.id(), 2);
    signal("-KILL", workers[0]);
    let (status, complaint) = ended(child);
    assert_eq!(status, 3);
    let pid = workers[0];
    let expected = format!("task \"long\" on worker chip0 (process {pid}): worker chip0 (process {pid}) ");
    assert!(complaint.contains(&expected), "{complaint}");
    assert!(!Path::new(&format!("/proc/{}", workers[1])).exists(), "the other worker goes on");
    // A later run works.
    let c = argument("c", "output", &json!([4]));
    assert_eq!(run(&folder, &graph("fill", &json!([c]), &json!([1]))).status, 0);
}

#[test]
fn a_signal_ends_the_run_and_leaves_nothing() {
    let folder = folder("interrupted");
    for name in ["-INT", "-TERM", "-HUP"] {
        let child = start(&endless(&folder));
        children(child.id(), 2);
        signal(name, child.id());
        assert_eq!(ended(child), (3, "bufabi: interrupted\n".to_owned()));
    }
}

/// What is told when a signal ends a measurement.
const INTERRUPTED: &str = if cfg!(debug_assertions) {
    "bufabi: built without optimisation: these figures say little\nbufabi: interrupted\n"
} else {
    "bufabi: interrupted\n"
};

#[test]
fn a_signal_ends_both_sides_of_a_queue_and_leaves_nothing() {
    for command in ["pingpong", "stream"] {
        for name in ["-INT", "-TERM", "-HUP"] {
            let child = start_with(&[command, "--milliseconds", "600000"], &[]);
            let other = children(child.id(), 1)[0];
            signal(name, child.id());
            assert_eq!(ended(child), (3, INTERRUPTED.to_owned()));
            assert!(!Path::new(&format!("/proc/{other}")).exists(), "the other side goes on");
        }
    }
}

/// An emulator that is none: it says that it has begun, and never answers.
#[test]
fn a_signal_ends_a_machine_that_never_answers_and_its_folder_goes_with_it() {
    let folder = folder("machine");
    let (image, temporary) = (folder.join("image"), folder.join("temporary"));
    let emulator = folder.join("qemu-system-aarch64");
    // What tells an ELF image for aarch64.
    fs::write(&image, *b"\x7fELF\x02\x01\0\0\0\0\0\0\0\0\0\0\0\0\xb7\0").unwrap();
    fs::write(&emulator, "#!/bin/sh\n: > answers\nexec sleep 1000\n").unwrap();
    fs::set_permissions(&emulator, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(&temporary).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let environment = [("PATH", Path::new(&path)), ("TMPDIR", &temporary)];
    let entries = || fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().path());
    for command in ["pingpong", "stream"] {
        let child = start_with(&[command, "--firmware", image.to_str().unwrap()], &environment);
        let deadline = Instant::now() + HANG;
        while !entries().any(|folder| folder.join("answers").exists()) {
            assert!(Instant::now() < deadline, "the machine has not begun");
            sleep(Duration::from_millis(5));
        }
        signal("-TERM", child.id());
        assert_eq!(ended(child), (3, INTERRUPTED.to_owned()));
        assert_eq!(entries().count(), 0, "its folder is left");
    }
}

/// How often a process has gone to sleep.
fn sleeps(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn a_run_that_waits_sleeps_until_something_happens() {
    let folder = folder("asleep");
    let child = start(&endless(&folder));
    children(child.id(), 2);
    let before = sleeps(child.id());
    sleep(Duration::from_millis(500));
    assert_eq!(sleeps(child.id()), before, "it looked whether something had happened");
    signal("-INT", child.id());
    assert_eq!(ended(child), (3, "bufabi: interrupted\n".to_owned()));
}

#[test]
fn a_signal_that_is_ignored_from_the_start_stays_so() {
    let graph = endless(&folder("ignored"));
    let child = Command::new("sh")
        .args(["-c", "trap '' HUP INT; exec \"$0\" run \"$1\"", env!("CARGO_BIN_EXE_bufabi")])
        .arg(graph)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Running(child);
    children(child.id(), 2);
    signal("-HUP", child.id());
    signal("-INT", child.id());
    sleep(Duration::from_millis(300));
    assert_eq!(child.try_wait().unwrap(), None, "it has ended");
    signal("-TERM", child.id());
    assert_eq!(ended(child), (3, "bufabi: interrupted\n".to_owned()));
}

#[test]
fn workers_end_with_a_parent_that_was_killed_whatever_signals_were_blocked() {
    let graph = endless(&folder("blocked"));
    let child = Command::new("env")
        .args(["--block-signal=HUP", env!("CARGO_BIN_EXE_bufabi"), "run"])
        .arg(graph)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut child = Running(child);
    let workers = children(child.id(), 2);
    signal("-KILL", child.id());
    child.wait().unwrap();
    // Nobody is left to do so, but a sweep of somebody else's.
    for name in left_by(child.id()) {
        match fs::remove_file(Path::new("/dev/shm").join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => panic!("{error}"),
            Ok(()) | Err(_) => {}
        }
    }
    let deadline = Instant::now() + HANG;
    let is_running = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    };
    while workers.iter().any(is_running) {
        if Instant::now() > deadline {
            workers.iter().for_each(|&worker| signal("-KILL", worker));
            panic!("a worker goes on");
        }
        sleep(Duration::from_millis(5));
    }
}
