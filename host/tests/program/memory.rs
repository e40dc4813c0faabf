//! `bufabi ls` and `bufabi gc`: what lives stays, what a dead process left goes, and what is none of ours is left alone.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bufabi_host::shm::ObjectName;
use bufabi_host::sys::process_mark::ProcessMark;
use bufabi_host::sys::socket::current_user;
use serde_json::Value;

use crate::{Ran, bufabi};

/// Something under a name in /dev/shm, removed when the test ends, however it ends.
pub(crate) struct Placed(PathBuf);

impl Placed {
    /// Puts something under the name.
    fn put(name: &ObjectName, put: impl FnOnce(&Path)) -> Self {
        let placed = Self(Path::new("/dev/shm").join(name.to_string()));
        put(&placed.0);
        placed
    }

    /// An object of `nbytes` bytes.
    fn object(name: &ObjectName, nbytes: usize) -> Self {
        Self::put(name, |path| fs::write(path, vec![7; nbytes]).unwrap())
    }

    fn name(&self) -> String {
        self.0.file_name().unwrap().to_string_lossy().into_owned()
    }

    fn is_there(&self) -> bool {
        self.0.symlink_metadata().is_ok()
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0).or_else(|_| fs::remove_dir(&self.0));
    }
}

/// Keeps other tests that sweep, of whatever process, from what this one has placed, until it is dropped.
pub(crate) fn alone() -> File {
    let folder = File::open("/dev/shm").unwrap();
    folder.lock().unwrap();
    folder
}

/// A process that has ended and was waited for, so that nobody has its mark any more.
fn dead() -> ProcessMark {
    let here = ProcessMark::current().unwrap();
    let mut child = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    ProcessMark { pid, ..here }
}

fn named(maker: ProcessMark) -> ObjectName {
    ObjectName { maker, ..ObjectName::draw().unwrap() }
}

fn json(ran: &Ran) -> Value {
    assert_eq!(ran.complaint, "");
    serde_json::from_str(&ran.out).unwrap()
}

/// The owner of that mark among those listed.
fn owner<'a>(list: &'a Value, mark: &ProcessMark) -> Option<&'a Value> {
    list.as_array().unwrap().iter().find(|owner| {
        owner["process"] == mark.pid
            && owner["start_ticks"] == mark.start_ticks
            && owner["pid_namespace"] == mark.pid_namespace
    })
}

#[test]
fn what_lives_or_cannot_be_seen_is_listed_and_stays_and_what_is_orphaned_goes() {
    let _alone = alone();
    let here = ProcessMark::current().unwrap();
    let gone = dead();
    // The number of a process that lives, given out a second time; and one from before this boot.
    let earlier = ProcessMark { start_ticks: here.start_ticks / 2, ..here };
    let last_boot = ProcessMark { boot: here.boot ^ 1, start_ticks: here.start_ticks + 1, ..here };
    let elsewhere = ProcessMark { pid_namespace: here.pid_namespace ^ 1, ..here };
    let live = Placed::object(&named(here), 10);
    let orphans = [gone, gone, earlier, last_boot].map(|mark| Placed::object(&named(mark), 1000));
    let unknown = Placed::object(&named(elsewhere), 30);
    let link = Placed::put(&named(gone), |path| symlink(&live.0, path).unwrap());
    let folder = Placed::put(&named(gone), |path| fs::create_dir(path).unwrap());
    let other = Placed(Path::new("/dev/shm").join(format!("bufabi-of-nobody-{}", here.pid)));
    fs::write(&other.0, b"not ours").unwrap();

    let all_there = || orphans.iter().all(Placed::is_there);
    let ran = bufabi(&["ls", "--json"]);
    assert_eq!(ran.status, 0);
    let listed = json(&ran);
    let told = |mark: &ProcessMark| {
        let owner = owner(&listed["owners"], mark).unwrap();
        (
            owner["state"].as_str().unwrap(),
            owner["objects"].as_u64().unwrap(),
            owner["nbytes"].as_u64().unwrap(),
        )
    };
    assert_eq!(told(&here), ("live", 1, 10));
    // Whoever else sweeps on this machine may take them at any moment.
    if all_there() {
        assert_eq!(told(&gone), ("orphaned", 2, 2000));
        assert_eq!(told(&earlier), ("orphaned", 1, 1000));
        assert_eq!(told(&last_boot), ("orphaned", 1, 1000));
        assert!(owner(&listed["owners"], &gone).unwrap()["command"].is_null());
    }
    assert_eq!(told(&elsewhere), ("unknown", 1, 30));
    let command = fs::read_to_string("/proc/self/comm").unwrap();
    assert_eq!(owner(&listed["owners"], &here).unwrap()["command"], command.trim_end());
    let strangers: Vec<&str> =
        listed["no_objects"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(strangers.contains(&link.name().as_str()) && strangers.contains(&folder.name().as_str()));

    let table = bufabi(&["ls"]);
    assert_eq!((table.status, table.complaint.as_str()), (0, ""));
    assert!(
        table.out.lines().any(|line| line.contains(&here.pid.to_string()) && line.ends_with("10  live")),
        "{}",
        table.out
    );
    if all_there() {
        assert!(table.out.contains("bytes orphaned: bufabi gc removes them"), "{}", table.out);
    }

    let ran = bufabi(&["gc", "--json"]);
    assert_eq!(ran.status, 0);
    let swept = json(&ran);
    for mark in [&gone, &earlier, &last_boot] {
        assert!(owner(&swept["kept"], mark).is_none());
    }
    let removed = &swept["removed"];
    for what in ["objects", "nbytes"] {
        let of_owners =
            removed["owners"].as_array().unwrap().iter().map(|owner| owner[what].as_u64().unwrap());
        assert_eq!(removed[what], of_owners.sum::<u64>());
    }
    assert_eq!(owner(&swept["kept"], &here).unwrap()["state"], "live");
    assert_eq!(owner(&swept["kept"], &elsewhere).unwrap()["state"], "unknown");
    assert_eq!(swept["failed"], Value::Array(Vec::new()));
    assert_eq!(orphans.each_ref().map(Placed::is_there), [false; 4]);
    assert_eq!([&live, &unknown, &link, &folder, &other].map(Placed::is_there), [true; 5]);

    let again = bufabi(&["gc"]);
    assert_eq!((again.status, again.complaint.as_str()), (0, ""));
    assert!(again.out.contains("bytes removed\n"), "{}", again.out);
    assert!(again.out.contains("with a name of ours are no objects, and left alone: "), "{}", again.out);
}

/// Runs the program as another user, who can neither read what is there nor remove it.
#[test]
fn another_users_objects_are_told_apart_and_stay() {
    if current_user() != 0 {
        println!("NOT RUN: only root can become another user");
        return;
    }
    let _alone = alone();
    let gone = dead();
    let orphan = Placed::object(&named(gone), 50);
    let as_nobody = |arguments: &[&str]| {
        let program = crate::folder("other-user").join("bufabi");
        fs::copy(env!("CARGO_BIN_EXE_bufabi"), &program).unwrap();
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&program)
            .args(arguments)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (status, out, complaint) = as_nobody(&["gc", "--json"]);
    assert_eq!((status, complaint.as_str()), (Some(0), ""));
    let swept: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(owner(&swept["kept"], &gone).unwrap()["state"], "other_user");
    assert!(orphan.is_there());
    assert!(bufabi(&["gc"]).status == 0 && !orphan.is_there());
}

#[test]
fn a_great_many_objects_go_at_once() {
    const OBJECTS: usize = 20_000;
    let _alone = alone();
    let gone = dead();
    let first = named(gone);
    let placed: Vec<Placed> = (0..OBJECTS)
        .map(|index| {
            let random = first.random.wrapping_add(u64::try_from(index).unwrap()) & ((1 << 48) - 1);
            Placed::object(&ObjectName { random, ..first }, 0)
        })
        .collect();
    let ran = bufabi(&["gc", "--json"]);
    assert_eq!(ran.status, 0);
    assert!(owner(&json(&ran)["kept"], &gone).is_none());
    assert!(!placed.iter().any(Placed::is_there));
}
