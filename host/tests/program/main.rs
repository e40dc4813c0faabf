//! The `bufabi` program as its users meet it: arguments and bytes in; output, complaints and exit status out.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::string_slice,
    reason = "a test that fails here says so well enough"
)]

mod check;
mod ends;
mod gram;
mod hostile;
mod inspect;
mod killed;
mod layout;
mod machine;
mod memory;
mod plan;
mod run;
mod talk;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What takes longer hangs: ten times the second in which a run or its processes end, for machines that have other things to do.
const HANG: Duration = Duration::from_secs(10);

/// What a run of the program gave.
#[derive(Debug)]
struct Ran {
    pid: u32,
    status: i32,
    out: String,
    complaint: String,
}

/// Runs the program with `input` on standard input.
fn bufabi_with(arguments: &[&str], input: &[u8]) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_bufabi"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        // The program may end before it has read everything.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().unwrap()
    });
    Ran {
        pid,
        status: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        complaint: String::from_utf8(output.stderr).unwrap(),
    }
}

fn bufabi(arguments: &[&str]) -> Ran {
    bufabi_with(arguments, b"")
}

/// The workspace's folder.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The file of that name in `tests/vectors`.
fn vectors(name: &str) -> String {
    std::fs::read_to_string(root().join("tests/vectors").join(name)).unwrap()
}

/// A folder of a test's own, emptied.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn wrong_usage_is_exit_status_2_and_help_has_examples() {
    assert_eq!(bufabi(&[]).status, 2);
    assert_eq!(bufabi(&["nothing"]).status, 2);
    assert_eq!(bufabi(&["check", "nothing"]).status, 2);
    assert!(bufabi(&["--help"]).out.contains("Examples:\n  "));
    for command in ["run", "plan", "inspect", "check", "layout", "ls", "gc", "doctor", "bench"] {
        let help = bufabi(&[command, "--help"]);
        assert_eq!(help.status, 0);
        assert!(help.out.contains("Examples:\n  "), "{command}: {}", help.out);
    }
}
