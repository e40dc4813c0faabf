//! `bufabi doctor` and `bufabi bench`: what they say of this machine is true, and has the form that scripts read.

use std::ffi::OsStr;
use std::fs;

use serde_json::Value;

use crate::hostile::shell;
use crate::{bufabi, folder};

/// The check of that name.
fn check<'a>(told: &'a Value, name: &str) -> &'a Value {
    told["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).unwrap()
}

#[test]
fn the_doctor_finds_what_is_there_and_says_what_a_lack_means() {
    let ran = bufabi(&["doctor", "--json"]);
    assert_eq!((ran.status, ran.complaint.as_str()), (0, ""));
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    for one in told["checks"].as_array().unwrap() {
        let (state, means) = (one["state"].as_str().unwrap(), one["means"].as_str());
        assert!(["there", "lacking"].contains(&state), "{one}");
        assert_eq!(means.is_none(), state == "there", "{one}");
        assert!(!one["found"].as_str().unwrap().is_empty(), "{one}");
    }
    assert!(check(&told, "shared memory")["found"].as_str().unwrap().contains("/dev/shm, tmpfs: "));
    let mappings = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    assert_eq!(check(&told, "mappings")["found"], format!("{} in a process", mappings.trim()));
    assert!(
        check(&told, "sealed memory")["found"]
            .as_str()
            .unwrap()
            .starts_with("memfd, sealed against shrinking")
    );

    let table = bufabi(&["doctor"]);
    assert_eq!((table.status, table.complaint.as_str()), (0, ""));
    assert!(table.out.lines().any(|line| line.starts_with("there    shared memory ")), "{}", table.out);
}

#[test]
fn a_limit_that_somebody_set_and_a_driver_that_does_not_load_are_told() {
    let folder = folder("doctor");
    fs::write(folder.join("libascendcl.so"), b"no library").unwrap();
    let line = "ulimit -n 100; ulimit -f 8192; LD_LIBRARY_PATH=$1 exec \"$0\" doctor --json";
    let ran = shell(line, folder.as_os_str());
    assert_eq!((ran.status, ran.complaint.as_str()), (0, ""));
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(check(&told, "open files")["found"], "100, which can be raised to 100");
    assert_eq!(check(&told, "open files")["state"], "lacking");
    assert_eq!(check(&told, "file size")["state"], "lacking");
    let driver = check(&told, "CANN driver");
    assert_eq!(driver["state"], "lacking");
    assert!(driver["found"].as_str().unwrap().contains("libascendcl.so: file too short"), "{driver}");

    // What nothing runs without: here, objects of any size.
    let ran = shell("ulimit -f 0; exec \"$0\" doctor", OsStr::new(""));
    assert_eq!(ran.status, 3);
    assert!(ran.out.starts_with("missing  shared memory "), "{}", ran.out);
    assert!(ran.complaint.ends_with(" missing without which no task runs\n"), "{}", ran.complaint);
}

#[test]
fn every_figure_has_a_goal_and_something_beside_it() {
    let ran = bufabi(&["bench", "--json"]);
    assert_eq!(ran.status, 0, "{}", ran.complaint);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    let figures = told["figures"].as_array().unwrap();
    for figure in figures {
        let number = |field: &str| figure[field].as_f64().unwrap();
        assert!(number("nanoseconds") > 0.0 && number("beside_nanoseconds") > 0.0, "{figure}");
        assert_eq!(figure["reached"], number("nanoseconds") <= number("goal"), "{figure}");
        assert!(figure["passes"].as_u64().unwrap() >= 5, "{figure}");
    }
    let mut names: Vec<&str> = figures.iter().map(|figure| figure["name"].as_str().unwrap()).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!((names.len(), count), (40, 40), "{names:?}");

    let some = bufabi(&["bench", "--only", "ChipTensor"]);
    assert_eq!((some.status, some.out.lines().count()), (0, 2), "{}", some.out);
    let none = bufabi(&["bench", "--only", "no such figure"]);
    assert_eq!((none.status, none.out.as_str()), (2, ""));
}
