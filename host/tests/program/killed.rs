//! A run of which any process is killed at any moment: the others say so and end by themselves, and after `bufabi gc` no object of
//! theirs is left.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bufabi_host::sys::process::Process;
use serde_json::Value;

use crate::gram::{arrays, trees, with_x};
use crate::memory::alone;
use crate::run::{left_by, write};
use crate::{HANG, bufabi};

/// The variable that marks a run and all that it forks.
const MARK: &str = "BUFABI_KILLED";

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

/// What the tree's processes are called: who owns the host's buffers, a chip that owns others and whose broker hands them out, one
/// that imports them, a host process that computes, and a worker that hands on.
const ROLES: [&str; 5] = ["bufabi", "chip0", "chip1", "sub0", "l3"];

/// One kill.
struct Kill<'a> {
    graph: &'a Path,
    mark: String,
    role: &'a str,
    /// How far into the run.
    moment: Duration,
    /// How long the others may take from then on.
    limit: Duration,
}

fn name_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

impl Kill<'_> {
    /// Starts a run, kills one of its processes, the first one if there is none of that role, and looks at what the others say and
    /// at what is left.
    fn check(&self, what: &str) {
        let Self { graph, mark, role, moment, limit } = self;
        let mut run = Command::new(env!("CARGO_BIN_EXE_bufabi"))
            .arg("run")
            .arg(graph)
            .env(MARK, mark)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(*moment);
        let mut processes = marked(mark);
        let victim = processes.iter().copied().find(|&pid| name_of(pid) == *role).unwrap_or(run.id());
        processes.push(run.id());
        // It may just have ended.
        let is_killed = Process::open(victim.cast_signed()).and_then(|process| process.send(9)).is_ok();
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = run.try_wait().unwrap() {
                break status;
            }
            processes.extend(marked(mark));
            assert!(begin.elapsed() < *limit, "{what}: it hangs");
            std::thread::yield_now();
        };
        let mut complaint = String::new();
        run.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
        // One that had done its part was not missed.
        match status.code() {
            None => assert!(is_killed && victim == run.id(), "{what}: {status}: {complaint}"),
            Some(0) => assert_eq!(complaint, "", "{what}"),
            code => {
                assert_eq!(code, Some(3), "{what}: {complaint}");
                // Its killing, what it owned, or that it was to be permitted something.
                let clear = ["was killed by SIGKILL", "the owner", "permitted, has ended"];
                let is_clear = clear.iter().any(|clear| complaint.contains(clear));
                assert!(is_killed && is_clear, "{what}: {complaint}");
            }
        }
        loop {
            let alive = marked(mark);
            if alive.is_empty() {
                break;
            }
            assert!(begin.elapsed() < *limit, "{what}: still there: {alive:?}");
            processes.extend(alive);
            std::thread::yield_now();
        }
        let swept = bufabi(&["gc", "--json"]);
        assert_eq!((swept.status, swept.complaint.as_str()), (0, ""));
        for pid in processes {
            assert_eq!(left_by(pid), [""; 0], "{what}");
        }
    }
}

/// The example in all kinds of memory, on all trees.
fn graphs() -> Vec<Value> {
    let kinds = ["posix_shm", "device_malloc", "fork_shm", "vmm_shareable", "fork_cow", "vmm_window"];
    kinds.map(|backend| trees(&with_x(backend)).map(|(_, graph)| graph)).into_iter().flatten().collect()
}

/// `BUFABI_SEED` chooses other moments, `BUFABI_LONG` more of them.
#[test]
fn a_run_of_which_any_process_is_killed_at_any_moment_says_so_and_leaves_nothing_that_gc_does_not_remove() {
    let _alone = alone();
    let folder = arrays("killed-at-any-moment");
    let long = std::env::var("BUFABI_LONG").is_ok_and(|value| value == "1");
    let (seed, kills) = (number("BUFABI_SEED", 7), if long { 500 } else { 50 });
    let mut random = Random(seed);
    let graphs = graphs();
    // Moments lie within what a run takes here and now.
    let path = write(&folder, &graphs[0]);
    let begin = Instant::now();
    assert_eq!(bufabi(&["run", path.to_str().unwrap()]).status, 0);
    let whole = begin.elapsed();
    for kill in 0..kills {
        let permille = u32::try_from(random.next() % 1000).unwrap();
        // Each role in each graph in turn: their numbers have no factor in common.
        let (graph, role) = (&graphs[kill % graphs.len()], ROLES[kill % ROLES.len()]);
        let what = format!("seed {seed}, kill {kill}: {role} after {permille} thousandths of {whole:?}");
        println!("{what}");
        let graph = &write(&folder, graph);
        let mark = format!("{}-{kill}", std::process::id());
        let moment = whole * permille / 1000;
        // Those that are not concerned finish what they were to do.
        Kill { graph, mark, role, moment, limit: 2 * whole + HANG }.check(&what);
    }
}
