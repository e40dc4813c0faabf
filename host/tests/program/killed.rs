//! A run that is killed at any moment: its processes end by themselves, and after `bufabi gc` no object of theirs is left.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bufabi;
use crate::gram::{arrays, trees, with_x};
use crate::memory::alone;
use crate::run::{left_by, write};

/// The variable that marks a run and all that it forks.
const MARK: &str = "BUFABI_KILLED";
/// How long processes whose parent was killed may take to end: far less than a second, if the machine has time for them.
const LIMIT: Duration = Duration::from_secs(5);

/// A small generator of numbers (splitmix64): the same moments for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A number from the environment, or what the plain suite takes.
fn number(name: &str, plain: u64) -> u64 {
    std::env::var(name).ok().map_or(plain, |text| text.parse().unwrap())
}

/// The processes that carry that mark.
fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let has_mark = |pid: &u32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    let entries = fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(has_mark).collect()
}

/// Starts a run, kills its first process after that long, and looks at what is left.
fn kill_after(graph: &Path, mark: &str, moment: Duration) {
    let mut run = Command::new(env!("CARGO_BIN_EXE_bufabi"))
        .arg("run")
        .arg(graph)
        .env(MARK, mark)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(moment);
    let mut processes = marked(mark);
    processes.push(run.id());
    run.kill().unwrap();
    run.wait().unwrap();
    let begin = Instant::now();
    loop {
        let alive = marked(mark);
        if alive.is_empty() {
            break;
        }
        assert!(begin.elapsed() < LIMIT, "killed after {moment:?}: still there: {alive:?}");
        processes.extend(alive);
        std::thread::yield_now();
    }
    let swept = bufabi(&["gc", "--json"]);
    assert_eq!((swept.status, swept.complaint.as_str()), (0, ""));
    for pid in processes {
        assert_eq!(left_by(pid), [""; 0], "killed after {moment:?}");
    }
}

/// The example in all kinds of memory, on all trees.
fn graphs() -> Vec<Value> {
    let kinds = ["posix_shm", "device_malloc", "fork_shm", "vmm_shareable", "fork_cow", "vmm_window"];
    kinds.map(|backend| trees(&with_x(backend)).map(|(_, graph)| graph)).into_iter().flatten().collect()
}

/// `BUFABI_SEED` chooses other moments, `BUFABI_LONG` more of them.
#[test]
fn a_run_that_is_killed_at_any_moment_leaves_nothing_that_gc_does_not_remove() {
    let _alone = alone();
    let folder = arrays("killed-at-any-moment");
    let long = std::env::var("BUFABI_LONG").is_ok_and(|value| value == "1");
    let (seed, kills) = (number("BUFABI_SEED", 7), if long { 360 } else { 18 });
    let mut random = Random(seed);
    let graphs = graphs();
    // Moments lie within what a run takes here and now.
    let path = write(&folder, &graphs[0]);
    let begin = Instant::now();
    assert_eq!(bufabi(&["run", path.to_str().unwrap()]).status, 0);
    let whole = begin.elapsed();
    for kill in 0..kills {
        let graph = &graphs[kill % graphs.len()];
        let permille = u32::try_from(random.next() % 1000).unwrap();
        println!("seed {seed}, kill {kill}: after {permille} thousandths of {whole:?}");
        let mark = format!("{}-{kill}", std::process::id());
        kill_after(&write(&folder, graph), &mark, whole * permille / 1000);
    }
}
