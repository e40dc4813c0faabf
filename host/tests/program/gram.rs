//! The example with X in every kind of memory, on a flat tree and through host workers: the same bits out, one identity everywhere,
//! and copies only where a device needs them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::run::{left_by, npy_of, write};
use crate::{bufabi, folder, root};

/// Bytes of X.
const X_NBYTES: u64 = 1797 * 64 * 4;

/// A folder with the example's arrays.
pub(crate) fn arrays(test: &str) -> PathBuf {
    let folder = folder(test);
    for name in ["digits.npy", "digits-gram.npy", "digits-gram-rowsums.npy"] {
        fs::copy(root().join("examples").join(name), folder.join(name)).unwrap();
    }
    folder
}

/// The example.
pub(crate) fn gram() -> Value {
    serde_json::from_str(&fs::read_to_string(root().join("examples/gram.json")).unwrap()).unwrap()
}

/// The example with X, read-only, in memory of that kind; for memory of a device that only its chip can name, one X on each.
pub(crate) fn with_x(backend: &str) -> Value {
    let mut graph = gram();
    let of_chip = |name: &str, chip: &str| json!({"name": name, "npy": "digits.npy", "access": "read", "backend": backend, "worker": chip});
    match backend {
        "device_malloc" | "vmm_window" => {
            graph["buffers"][0] = of_chip("X", "chip0");
            graph["buffers"].as_array_mut().unwrap().push(of_chip("X1", "chip1"));
            for argument in [0, 1] {
                graph["tasks"][1]["args"][argument]["buffer"] = json!("X1");
            }
        }
        "vmm_shareable" => graph["buffers"][0] = of_chip("X", "chip0"),
        _ => graph["buffers"][0]["backend"] = json!(backend),
    }
    graph
}

/// The same graph, its workers below host workers: both chips in one, or in one each a level deeper; or all in one.
fn nested(mut graph: Value, tree: &Value, path_of: impl Fn(&str) -> String) -> Value {
    let moved = |place: &mut Value| {
        if let Some(name) = place.as_str() {
            *place = json!(path_of(name));
        }
    };
    for buffer in graph["buffers"].as_array_mut().unwrap() {
        buffer.get_mut("worker").map(moved);
    }
    for task in graph["tasks"].as_array_mut().unwrap() {
        moved(&mut task["worker"]);
    }
    graph["workers"] = tree.clone();
    graph
}

/// The trees: flat, L4 to L3 to L2, and a level more for one chip.
pub(crate) fn trees(graph: &Value) -> [(&'static str, Value); 3] {
    let leaf = |name: &str, kind: &str| json!({"name": name, "kind": kind});
    let host = |name: &str, workers: Value| json!({"name": name, "kind": "host", "workers": workers});
    let (chip0, chip1, sub0) = (leaf("chip0", "chip"), leaf("chip1", "chip"), leaf("sub0", "sub"));
    let through_l3 = json!([host("l3", json!([chip0, chip1])), sub0]);
    let deeper =
        json!([host("l4", json!([host("l3", json!([chip0])), chip1])), host("other", json!([sub0]))]);
    [
        ("flat", graph.clone()),
        (
            "l3",
            nested(graph.clone(), &through_l3, |name| {
                if name == "sub0" { name.to_owned() } else { format!("l3/{name}") }
            }),
        ),
        (
            "l4",
            nested(graph.clone(), &deeper, |name| match name {
                "chip0" => "l4/l3/chip0".to_owned(),
                "chip1" => "l4/chip1".to_owned(),
                other => format!("other/{other}"),
            }),
        ),
    ]
}

/// The example's outputs in that folder are what they should be, to the bit.
pub(crate) fn the_outputs_are_right(folder: &Path) {
    for (made, expected, nbytes) in [
        ("gram.out.npy", "digits-gram.npy", 64 * 64 * 4),
        ("gram-rowsums.out.npy", "digits-gram-rowsums.npy", 64 * 4),
    ] {
        // The headers may be padded differently; the data may not.
        let data = |name: &str| {
            let bytes = fs::read(folder.join(name)).unwrap();
            bytes[bytes.len() - nbytes..].to_vec()
        };
        assert_eq!(data(made), data(expected), "{made}");
    }
}

/// Runs a graph whose outputs are the example's.
pub(crate) fn run_to_the_bit(folder: &Path, graph: &Value) -> Value {
    for name in ["gram.out.npy", "gram-rowsums.out.npy"] {
        let _ = fs::remove_file(folder.join(name));
    }
    let ran = bufabi(&["run", write(folder, graph).to_str().unwrap(), "--json"]);
    assert_eq!((ran.status, ran.complaint.as_str()), (0, ""), "{graph}");
    assert_eq!(left_by(ran.pid), [""; 0]);
    the_outputs_are_right(folder);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(told["outputs"].as_array().unwrap().iter().all(|output| output["equal"] == true));
    told
}

/// Each argument names the identity that its buffer has where it is owned, and came by way of the workers above its leaf.
fn check_arguments(told: &Value) {
    let buffers = told["buffers"].as_array().unwrap();
    for task in told["tasks"].as_array().unwrap() {
        let worker = task["worker"].as_str().unwrap();
        let forwarders: Vec<&str> = worker.match_indices('/').map(|(end, _)| &worker[..end]).collect();
        assert_eq!(task["forwarded_by"], json!(forwarders));
        for argument in task["args"].as_array().unwrap() {
            let buffer = buffers.iter().find(|buffer| buffer["name"] == argument["buffer"]).unwrap();
            assert_eq!(
                (&argument["identity"], &argument["backend"]),
                (&buffer["identity"], &buffer["backend"])
            );
        }
    }
}

/// How the tasks on that chip came by X.
fn resolved(told: &Value, chip: &str) -> Vec<String> {
    let tasks = told["tasks"].as_array().unwrap().iter();
    let of_chip = tasks.filter(|task| task["worker"].as_str().unwrap().ends_with(chip));
    let arguments = of_chip.flat_map(|task| task["args"].as_array().unwrap());
    arguments
        .filter(|argument| argument["buffer"].as_str().unwrap().starts_with('X'))
        .map(|argument| argument["resolved"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn x_in_memory_of_the_host_gives_the_same_bits_with_nothing_copied_however_many_hops_away() {
    let folder = arrays("gram-host");
    for (backend, first) in
        [("posix_shm", "mapped now"), ("fork_shm", "inherited"), ("fork_cow", "inherited")]
    {
        for (tree, graph) in trees(&with_x(backend)) {
            let told = run_to_the_bit(&folder, &graph);
            check_arguments(&told);
            assert_eq!(told["bytes_copied"], 0, "{backend}, {tree}");
            for chip in ["chip0", "chip1"] {
                assert_eq!(resolved(&told, chip), [first, "already mapped"], "{backend}, {tree}, {chip}");
            }
            assert_eq!(told["buffers"][0]["backend"].as_str().unwrap().to_ascii_lowercase(), backend);
        }
    }
}

#[test]
fn one_chip_named_with_the_memory_of_another_one_is_refused_by_the_names_of_all() {
    let folder = arrays("gram-other-chip");
    for backend in ["device_malloc", "vmm_window"] {
        let mut graph = with_x(backend);
        graph["tasks"][1]["args"][1]["buffer"] = json!("X");
        let ran = bufabi(&["run", write(&folder, &graph).to_str().unwrap()]);
        assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{}", ran.complaint);
        let why = "tasks[1].args[1].buffer: task \"right half\" on chip1 names \"X\", memory of chip0: chip1 is another chip\n";
        assert!(ran.complaint.ends_with(why), "{}", ran.complaint);
        assert!(!folder.join("gram.out.npy").exists());
    }
    let mut graph = with_x("vmm_shareable");
    graph["tasks"][2]["args"][0]["buffer"] = json!("X");
    let ran = bufabi(&["run", write(&folder, &graph).to_str().unwrap()]);
    assert_eq!(ran.status, 1);
    let why = "task \"row sums\" on sub0 names \"X\", memory of chip0: sub0 is no device\n";
    assert!(ran.complaint.ends_with(why), "{}", ran.complaint);
}

#[test]
fn x_in_memory_of_chips_gives_the_same_bits_copied_once_to_each_that_owns_it() {
    let folder = arrays("gram-chips");
    for (backend, copies) in [("device_malloc", 2), ("vmm_window", 2), ("vmm_shareable", 1)] {
        for (tree, graph) in trees(&with_x(backend)) {
            let told = run_to_the_bit(&folder, &graph);
            check_arguments(&told);
            let what = format!("{backend}, {tree}");
            // Nothing on the way of a task, and X once to each chip that owns one.
            assert_eq!(told["bytes_copied"], copies * X_NBYTES, "{what}");
            assert!(told["tasks"].as_array().unwrap().iter().all(|task| task["bytes_copied"] == 0), "{what}");
            let owned: Vec<&Value> = told["buffers"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|buffer| !buffer["chip"].is_null())
                .collect();
            assert_eq!(owned.len(), usize::try_from(copies).unwrap(), "{what}");
            for buffer in owned {
                assert_eq!(buffer["bytes_copied"], X_NBYTES, "{what}");
                let (chip, process) = (&buffer["chip"], &buffer["owner"]);
                let tasks = told["tasks"].as_array().unwrap();
                let task = tasks.iter().find(|task| task["worker"] == *chip).unwrap();
                assert_eq!(task["process"], *process, "{what}");
            }
            assert_eq!(resolved(&told, "chip0"), ["device", "device"], "{what}");
            let second: [&str; 2] = if backend == "vmm_shareable" {
                ["mapped now", "already mapped"]
            } else {
                ["device", "device"]
            };
            assert_eq!(resolved(&told, "chip1"), second, "{what}");
        }
    }
}

#[test]
fn the_table_says_who_owns_and_who_reached_what_and_by_way_of_whom() {
    let folder = arrays("gram-table");
    let [_, _, (_, graph)] = trees(&with_x("vmm_shareable"));
    let ran = bufabi(&["run", write(&folder, &graph).to_str().unwrap()]);
    assert_eq!((ran.status, ran.complaint.as_str()), (0, ""));
    let line = |start: &str| ran.out.lines().find(|line| line.starts_with(start)).unwrap();
    let x = line("X ");
    assert!(x.contains("  VMM_SHAREABLE  460032  460032  owner l4/l3/chip0 ("), "{x}");
    assert!(x.contains("), l4/chip1 (") && x.ends_with(") once"), "{x}");
    assert!(line("left half ").contains("forwarded by l4, l4/l3, device  "), "{}", ran.out);
    assert!(line("right half ").contains("forwarded by l4, mapped now  "), "{}", ran.out);
    assert!(ran.out.contains("\n3 tasks on 6 workers: 460032 bytes copied, "), "{}", ran.out);
    // What workers inherit is not mapped by them.
    let ran = bufabi(&["run", write(&folder, &with_x("fork_cow")).to_str().unwrap()]);
    let x = ran.out.lines().find(|line| line.starts_with("X ")).unwrap();
    assert!(x.contains(" once, chip0 (") && x.ends_with(") inherited"), "{x}");
}

#[test]
fn a_chip_that_does_not_reach_the_host_copies_what_it_reads_once_and_what_it_wrote_back() {
    let folder = arrays("gram-staged");
    for backend in ["posix_shm", "fork_shm", "fork_cow"] {
        let mut graph = with_x(backend);
        graph["workers"][0]["device"] = json!("staged");
        let told = run_to_the_bit(&folder, &graph);
        check_arguments(&told);
        // X, which two arguments name, and the half of G that the task wrote.
        let copied: Vec<u64> = told["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|task| task["bytes_copied"].as_u64().unwrap())
            .collect();
        assert_eq!(copied, [X_NBYTES + 64 * 32 * 4, 0, 0], "{backend}");
    }
}

#[test]
fn every_example_gives_what_it_expects() {
    let folder = arrays("examples");
    let mut graphs = 0;
    for entry in fs::read_dir(root().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        // That one needs firmware: see tests/suite/firmware.sh.
        let is_in_qemu = path.file_name().is_some_and(|name| name == "gram-qemu.json");
        if path.extension().is_some_and(|extension| extension == "json") && !is_in_qemu {
            let graph: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            check_arguments(&run_to_the_bit(&folder, &graph));
            graphs += 1;
        }
    }
    assert_eq!(graphs, 4);
}

#[test]
fn what_a_chip_computed_in_its_own_memory_is_brought_back_and_counted() {
    let folder = folder("chip-output");
    let view = |buffer: &str, tag: &str, offset: u32| json!({"buffer": buffer, "tag": tag, "dtype": "int16", "byte_offset": offset, "shape": [4], "strides": [2]});
    for backend in ["device_malloc", "vmm_window", "vmm_shareable"] {
        let mut graph = json!({
            "buffers": [
                {"name": "a", "npy": "a.npy", "backend": backend, "worker": "l3/chip0"},
                {"name": "b", "nbytes": 100, "backend": backend, "worker": "l3/chip0"}],
            "workers": [{"name": "l3", "kind": "host", "workers": [{"name": "chip0", "kind": "chip"}]}],
            "tasks": [{"name": "t", "kernel": "add", "worker": "l3/chip0",
                       "args": [view("a", "input", 0), view("a", "input", 2), view("b", "output", 16)]}],
            "outputs": [{"buffer": "b", "dtype": "int16", "byte_offset": 16, "shape": [4], "strides": [2], "npy": "b.npy"}],
        });
        let numbers: Vec<u8> = (1..=8_i16).flat_map(i16::to_le_bytes).collect();
        fs::write(folder.join("a.npy"), npy_of("<i2", 8, &numbers)).unwrap();
        let ran = bufabi(&["run", write(&folder, &graph).to_str().unwrap(), "--json"]);
        assert_eq!((ran.status, ran.complaint.as_str()), (0, ""), "{backend}");
        let told: Value = serde_json::from_str(&ran.out).unwrap();
        // a's 16 bytes there, b's 14 from the first element to the last one back.
        assert_eq!(
            (&told["bytes_copied"], &told["buffers"][1]["bytes_copied"]),
            (&json!(30), &json!(14)),
            "{backend}"
        );
        let bytes = fs::read(folder.join("b.npy")).unwrap();
        let sums: Vec<u8> = [3_i16, 7, 11, 15].into_iter().flat_map(i16::to_le_bytes).collect();
        assert_eq!(bytes[bytes.len() - 8..], sums, "{backend}");

        // What the owner does not grant cannot be copied back.
        graph["buffers"][1]["access"] = json!("write");
        let ran = bufabi(&["run", write(&folder, &graph).to_str().unwrap()]);
        assert_eq!(ran.status, 1);
        let why = "outputs[0].buffer: \"b\" is copied from a device, and grants no reading";
        assert!(ran.complaint.contains(why), "{}", ran.complaint);
    }
}

#[test]
fn a_chip_without_that_much_memory_or_a_device_that_is_not_there_is_told() {
    let folder = arrays("no-device");
    let mut graph = with_x("device_malloc");
    graph["buffers"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "huge", "nbytes": 1_u64 << 50, "backend": "device_malloc", "worker": "chip0"}));
    let ran = bufabi(&["run", write(&folder, &graph).to_str().unwrap()]);
    assert_eq!(ran.status, 3, "{}", ran.complaint);
    assert!(ran.complaint.contains("graph.json: buffers[4]: "), "{}", ran.complaint);
    assert_eq!(left_by(ran.pid), [""; 0]);
    for (worker, device, status, why) in [
        (0, "qemu", 2, "workers[0].device: "),
        (0, "gpu", 2, "workers[0].device: \"gpu\" is unknown: simulated, staged, qemu are known"),
        (2, "staged", 2, "workers[2].device: only a chip is a device"),
    ] {
        let mut graph = gram();
        graph["workers"][worker]["device"] = json!(device);
        let path = write(&folder, &graph);
        let (found, complaint) = run_with_firmware(&path, "", "");
        assert_eq!(found, Some(status), "{complaint}");
        assert!(complaint.contains(why), "{complaint}");
    }
    let mut graph = gram();
    graph["workers"][0]["device"] = json!("qemu");
    let path = write(&folder, &graph);
    // What the head of an image for aarch64 says.
    let image = folder.join("image");
    fs::write(&image, [b"\x7fELF\x02\x01".as_slice(), &[0; 12], &[183, 0]].concat()).unwrap();
    for (firmware, emulator, why) in [
        ("/no/such/image", "", "workers[0].device: firmware /no/such/image: open: ENOENT"),
        (path.to_str().unwrap(), "", "graph.json: it is no ELF image for aarch64"),
        (image.to_str().unwrap(), "no-such-emulator", "emulator no-such-emulator is not there"),
    ] {
        let (status, complaint) = run_with_firmware(&path, firmware, emulator);
        assert_eq!(status, Some(2), "{complaint}");
        assert!(complaint.contains(why), "{complaint}");
    }
}

/// Runs a graph where the environment names that firmware and that emulator.
fn run_with_firmware(path: &Path, firmware: &str, emulator: &str) -> (Option<i32>, String) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_bufabi"))
        .arg("run")
        .arg(path)
        .envs([("BUFABI_FIRMWARE", firmware), ("BUFABI_QEMU", emulator)])
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}
