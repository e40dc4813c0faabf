//! Names, paths and limits that are meant to break the program: it says what is wrong, ends as it should and leaves nothing.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::run::{left_by, npy_of, write};
use crate::{Ran, bufabi, folder};

/// Runs a line of the shell, in which `$0` is the program and `$1` is `argument`.
pub(crate) fn shell(line: &str, argument: &OsStr) -> Ran {
    let child = Command::new("sh")
        .args(["-c", line, env!("CARGO_BIN_EXE_bufabi")])
        .arg(argument)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    Ran {
        pid,
        status: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        complaint: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A graph of one task, which fills `c` with `filling`, and of those outputs of `c`.
fn graph(filling: u8, outputs: &[Value]) -> Value {
    let whole = |more: &Value| {
        let mut view = json!({"buffer": "c", "dtype": "uint8", "shape": [4]});
        view.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        view
    };
    json!({
        "buffers": [{"name": "c", "nbytes": 4}],
        "workers": [{"name": "chip0", "kind": "chip"}],
        "tasks": [{"name": "t", "kernel": "fill", "worker": "chip0", "scalars": [filling],
                   "args": [whole(&json!({"tag": "output"}))]}],
        "outputs": outputs.iter().map(whole).collect::<Vec<_>>(),
    })
}

fn run(folder: &Path, graph: &Value) -> Ran {
    let ran = bufabi(&["run", write(folder, graph).to_str().unwrap()]);
    assert_eq!(left_by(ran.pid), [""; 0]);
    let hidden: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with('.'))
        .collect();
    assert_eq!(hidden, [""; 0]);
    ran
}

#[test]
fn a_complaint_that_nobody_can_be_told_changes_no_exit_status() {
    for (line, status) in [
        ("\"$0\" inspect /nothing", 2),
        ("\"$0\" inspect --hex 00 > /dev/null", 1),
        ("echo no hex | \"$0\" check tensors > /dev/null", 2),
        ("\"$0\" nothing", 2),
        ("\"$0\" layout > /dev/full", 3),
    ] {
        for end in ["2> /dev/full", "2>&-"] {
            assert_eq!(shell(&format!("{line} {end}"), OsStr::new("")).status, status, "{line} {end}");
        }
    }
}

#[test]
fn help_that_cannot_be_written_is_no_success() {
    for line in ["--help", "--version", "run --help"] {
        let ran = shell(&format!("\"$0\" {line} > /dev/full"), OsStr::new(""));
        assert_eq!(ran.status, 3, "{line}");
        assert!(ran.complaint.starts_with("bufabi: standard output: "), "{}", ran.complaint);
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let path = write(&folder("reader"), &graph(1, &[]));
    for line in [
        "layout",
        "--help",
        "check --help",
        "ls",
        "gc",
        "plan \"$1\"",
        "plan \"$1\" --json",
        "inspect --hex 4253",
        "run \"$1\"",
    ] {
        // The reader is gone before the first byte comes.
        let ran = shell(&format!("( \"$0\" {line}; echo $? >&2 ) | :"), path.as_os_str());
        let status = if line.starts_with("inspect") { "1" } else { "0" };
        assert!(ran.complaint.ends_with(&format!("{status}\n")), "{line}: {}", ran.complaint);
    }
    let ran = shell("yes 4253 | ( \"$0\" check tensors; echo $? >&2 ) | head -n 1", OsStr::new(""));
    assert_eq!((ran.out.as_str(), ran.complaint.as_str()), ("size\n", "0\n"));
    // What is wrong with an output is told all the same.
    let folder = folder("reader-differs");
    fs::write(folder.join("want.npy"), npy_of("|u1", 4, &[1, 1, 1, 2])).unwrap();
    let path = write(&folder, &graph(1, &[json!({"expect": "want.npy"})]));
    let ran = shell("( \"$0\" run \"$1\"; echo $? >&2 ) | :", path.as_os_str());
    assert!(ran.complaint.contains("1 of 4 elements differs from "), "{}", ran.complaint);
    assert!(ran.complaint.ends_with("[3] first: 1 (0x1), expected 2 (0x2)\n1\n"), "{}", ran.complaint);
}

#[test]
fn no_time_out_is_too_long() {
    let path = write(&folder("time-out"), &graph(1, &[]));
    for seconds in ["18446744073709551615", "9223372036854775807", "4294967296"] {
        let ran = bufabi(&["run", path.to_str().unwrap(), "--timeout", seconds]);
        assert_eq!((ran.status, ran.complaint.as_str()), (0, ""), "{seconds}");
    }
}

#[test]
fn a_folder_that_is_not_unicode_is_one_in_json_too() {
    let folder = folder("not-unicode").join(OsStr::from_bytes(b"\xff"));
    fs::create_dir(&folder).unwrap();
    let path = write(&folder, &graph(1, &[json!({"npy": "c.npy"}), json!({"expect": "c.npy"})]));
    fs::write(folder.join("c.npy"), npy_of("|u1", 4, &[1; 4])).unwrap();
    let ran = shell("exec \"$0\" run --json \"$1\"", path.as_os_str());
    assert_eq!((ran.status, ran.complaint.as_str()), (0, ""));
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(told["outputs"][1]["expect"].as_str().unwrap().ends_with("\u{fffd}/c.npy"), "{told}");
}

#[test]
fn names_command_no_terminal() {
    let folder = folder("commands");
    let evil = "n\u{1b}[31m\n\r\u{7}\u{9b}2J\u{202e}";
    let mut named = graph(1, &[json!({"npy": evil})]);
    for pointer in ["/buffers/0/name", "/tasks/0/args/0/buffer", "/outputs/0/buffer", "/tasks/0/name"] {
        *named.pointer_mut(pointer).unwrap() = json!(evil);
    }
    for pointer in ["/workers/0/name", "/tasks/0/worker"] {
        *named.pointer_mut(pointer).unwrap() = json!(evil);
    }
    let mut graphs = vec![(named.clone(), 0), (graph(1, &[json!({"npy": evil, "expect": evil})]), 1)];
    let other = format!("no {evil}");
    for (field, value) in [(evil, json!(1)), ("kernel", json!(other)), ("worker", json!(other))] {
        let mut wrong = named.clone();
        wrong["tasks"][0][field] = value;
        graphs.push((wrong, 2));
    }
    let mut missing = named.clone();
    missing["buffers"][0]["npy"] = json!(format!("missing {evil}"));
    graphs.push((missing, 2));
    for (graph, status) in graphs {
        if status == 1 {
            fs::write(folder.join(evil), npy_of("|u1", 4, &[2; 4])).unwrap();
        }
        let ran = run(&folder, &graph);
        assert_eq!(ran.status, status, "{}", ran.complaint);
        let plan = bufabi(&["plan", folder.join("graph.json").to_str().unwrap()]);
        for text in [&ran.out, &ran.complaint, &plan.out, &plan.complaint] {
            let commands = |&character: &char| character != '\n' && character.is_control();
            assert_eq!(text.chars().find(commands), None, "{text:?}");
            assert!(!text.contains('\u{202e}'), "{text:?}");
        }
        assert!(status == 0 || ran.complaint.lines().count() == 1, "{}", ran.complaint);
        assert!(
            format!("{}{}", ran.out, ran.complaint).contains("n\\u{1b}[31m\\n\\r\\u{7}\\u{9b}2J\\u{202e}")
        );
    }
    let inspected = shell("cp /dev/null \"$1\"; exec \"$0\" inspect \"$1\"", folder.join(evil).as_os_str());
    assert!(!inspected.out.contains('\u{1b}') && !inspected.complaint.contains('\u{1b}'));
}

#[test]
fn outputs_are_told_apart_by_where_they_are_and_compared_before_any_is_written() {
    let folder = folder("outputs");
    std::os::unix::fs::symlink(&folder, folder.join("here")).unwrap();
    for other in ["./c.npy", "here/c.npy", "../outputs/c.npy", "here/here/../outputs/c.npy"] {
        let ran = run(&folder, &graph(1, &[json!({"npy": "c.npy"}), json!({"npy": other})]));
        assert_eq!(ran.status, 2, "{other}");
        assert!(ran.complaint.contains("outputs[1].npy: "), "{}", ran.complaint);
    }
    fs::write(folder.join("c.npy"), npy_of("|u1", 4, &[2; 4])).unwrap();
    let ran = run(&folder, &graph(1, &[json!({"npy": "c.npy"}), json!({"expect": "c.npy"})]));
    assert_eq!(ran.status, 1);
    assert!(ran.complaint.contains("outputs[1]: 4 of 4 elements differ"), "{}", ran.complaint);
}

#[test]
fn a_path_that_can_be_no_file_is_wrong_usage_and_a_long_name_is_a_name() {
    let folder = folder("paths");
    std::os::unix::fs::symlink("loop", folder.join("loop")).unwrap();
    let too_long = "x".repeat(256);
    for path in
        ["", ".", "..", "nothing/c.npy", "graph.json/c.npy", "c.npy/", "loop/c.npy", "a\0b", &too_long]
    {
        let ran = run(&folder, &graph(1, &[json!({"npy": path})]));
        assert_eq!(ran.status, 2, "{path:?}: {}", ran.complaint);
        assert!(ran.complaint.contains("outputs[0].npy: "), "{}", ran.complaint);
    }
    let long = "x".repeat(255);
    assert_eq!(run(&folder, &graph(7, &[json!({"npy": long})])).status, 0);
    assert!(fs::read(folder.join(long)).unwrap().ends_with(&[7; 4]));
}

#[test]
fn a_limit_on_files_is_a_failure_of_the_machine_that_leaves_nothing() {
    let path = write(&folder("file-limit"), &graph(1, &[]));
    let ran = shell("ulimit -f 0; exec \"$0\" run \"$1\"", path.as_os_str());
    assert_eq!(left_by(ran.pid), [""; 0]);
    assert_eq!(ran.status, 3, "{}", ran.complaint);
    assert!(ran.complaint.contains("buffers[0]: 4 bytes are more than"), "{}", ran.complaint);
}

/// However few files a process may have open, in whichever process and at whichever step they run out: the reason is told.
#[test]
fn whatever_a_worker_that_cannot_start_was_refused_is_told() {
    let leaves = json!([{"name": "chip", "kind": "chip"}, {"name": "sub", "kind": "sub"}]);
    let host = |name: &str, workers: &Value| json!({"name": name, "kind": "host", "workers": workers});
    let workers = [host("l4", &json!([host("l3", &leaves)])), host("other", &leaves)];
    let graph = json!({"buffers": [], "tasks": [], "workers": workers});
    let path = write(&folder("few-files"), &graph);
    let mut of_workers = 0;
    for files in 4..100 {
        let ran = shell(&format!("ulimit -n {files}; exec \"$0\" run \"$1\""), path.as_os_str());
        if ran.status == 0 {
            assert!(of_workers > 1, "no worker was refused anything before {files} files");
            return;
        }
        let complaint = ran.complaint;
        assert_eq!(ran.status, 3, "{files} files: {complaint}");
        assert!(complaint.contains("EMFILE, too many open files"), "{files} files: {complaint}");
        of_workers += i32::from(complaint.starts_with("bufabi: worker "));
    }
    panic!("100 files are not enough");
}

/// Wherever in an import files run out, in the owner's process or in the importer's, it is the machine's fault, and told.
#[test]
fn too_few_files_for_sharing_by_handle_are_a_failure_of_the_machine() {
    let chips: Vec<_> = (0..4).map(|chip| json!({"name": format!("chip{chip}"), "kind": "chip"})).collect();
    let shared = |chip: usize| json!({"name": format!("b{chip}"), "backend": "vmm_shareable", "worker": format!("chip{chip}"), "nbytes": 4});
    let task = |chip: usize, of: usize| {
        json!({"name": format!("t{chip}{of}"), "kernel": "none", "worker": format!("chip{chip}"), "args": [
            {"buffer": format!("b{of}"), "tag": "input", "dtype": "uint8", "shape": [4]}]})
    };
    // Each chip is asked by three others at once.
    let tasks: Vec<_> = (0..16).filter(|i| i % 4 != i / 4).map(|i| task(i % 4, i / 4)).collect();
    let buffers: Vec<_> = (0..4).map(shared).collect();
    let graph = json!({"buffers": buffers, "tasks": tasks, "workers": chips});
    let path = write(&folder("few-files-to-share"), &graph);
    for files in 12..100 {
        let ran = shell(&format!("ulimit -n {files}; exec \"$0\" run \"$1\""), path.as_os_str());
        if ran.status == 0 {
            return;
        }
        let complaint = ran.complaint;
        assert_eq!(ran.status, 3, "{files} files: {complaint}");
        let is_clear = ["EMFILE, too many open files", "no file descriptor left"];
        assert!(is_clear.iter().any(|clear| complaint.contains(clear)), "{files} files: {complaint}");
    }
    panic!("100 files are not enough");
}

#[test]
fn a_buffer_larger_than_anything_is_a_failure_of_the_machine_whatever_its_kind() {
    let folder = folder("too-large");
    let kinds = ["posix_shm", "fork_shm", "fork_cow", "device_malloc", "vmm_window", "vmm_shareable"];
    for (kind, nbytes) in kinds.iter().flat_map(|kind| [1 << 50, 1 << 63, u64::MAX].map(|n| (kind, n))) {
        let mut buffer = json!({"name": "b", "backend": kind, "nbytes": nbytes});
        match *kind {
            "fork_cow" => buffer["access"] = json!("read"),
            "device_malloc" | "vmm_window" | "vmm_shareable" => buffer["worker"] = json!("chip0"),
            _ => {}
        }
        let workers = [json!({"name": "chip0", "kind": "chip"})];
        let ran = run(&folder, &json!({"buffers": [buffer], "tasks": [], "workers": workers}));
        assert_eq!(ran.status, 3, "{kind} of {nbytes}: {}", ran.complaint);
        assert!(ran.complaint.contains(&nbytes.to_string()), "{kind} of {nbytes}: {}", ran.complaint);
    }
}
