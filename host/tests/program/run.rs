//! `bufabi run`: the example to the bit, graphs that are wrong, machines that are full.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bufabi_host::shm::ObjectName;
use serde_json::{Value, json};

use crate::gram::the_outputs_are_right;
use crate::{Ran, bufabi, folder, root};

/// Shared-memory objects that the process of that number left.
pub(crate) fn left_by(pid: u32) -> Vec<String> {
    fs::read_dir("/dev/shm")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| ObjectName::parse(name).is_some_and(|name| name.maker.pid == pid))
        .collect()
}

pub(crate) fn write(folder: &Path, graph: &Value) -> PathBuf {
    let path = folder.join("graph.json");
    fs::write(&path, graph.to_string()).unwrap();
    path
}

/// Runs a graph in a folder of its own. Whatever comes of it, nothing is left.
pub(crate) fn run(folder: &Path, graph: &Value) -> Ran {
    let ran = bufabi(&["run", write(folder, graph).to_str().unwrap()]);
    assert_eq!(left_by(ran.pid), [""; 0]);
    ran
}

/// An npy file, header and data.
fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{header}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&u16::try_from(header.len()).unwrap().to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(data);
    bytes
}

pub(crate) fn npy_of(descr: &str, count: usize, data: &[u8]) -> Vec<u8> {
    npy(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({count},), }}"), data)
}

#[test]
fn the_example_is_right_to_the_bit_with_one_mapping_for_each_process_and_nothing_copied() {
    let folder = folder("gram");
    for name in ["gram.json", "digits.npy", "digits-gram.npy", "digits-gram-rowsums.npy"] {
        fs::copy(root().join("examples").join(name), folder.join(name)).unwrap();
    }
    let path = folder.join("gram.json");
    let ran = bufabi(&["run", path.to_str().unwrap(), "--json"]);
    assert_eq!((ran.status, ran.complaint.as_str()), (0, ""));
    assert_eq!(left_by(ran.pid), [""; 0]);
    the_outputs_are_right(&folder);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(told["bytes_copied"], 0);
    for (index, name, workers) in [(0, "X", 2), (1, "G", 3), (2, "row sums", 1)] {
        let buffer = &told["buffers"][index];
        assert_eq!(buffer["name"], name);
        let mapped_by = buffer["mapped_by"].as_array().unwrap();
        assert_eq!(mapped_by.len(), workers, "{name}");
        assert!(mapped_by.iter().all(|worker| worker["times"] == 1), "{buffer}");
        let mut processes: Vec<_> = mapped_by.iter().map(|worker| worker["process"].as_u64()).collect();
        processes.push(buffer["owner"].as_u64());
        processes.sort_unstable();
        processes.dedup();
        assert_eq!(processes.len(), workers + 1, "each in a process of its own");
    }
    let mut arguments = 0;
    for task in told["tasks"].as_array().unwrap() {
        for argument in task["args"].as_array().unwrap() {
            let buffers = told["buffers"].as_array().unwrap();
            let owned = buffers.iter().find(|buffer| buffer["name"] == argument["buffer"]).unwrap();
            assert_eq!(argument["identity"], owned["identity"]);
            assert_eq!(argument["backend"], "POSIX_SHM");
            arguments += 1;
        }
    }
    assert_eq!(arguments, 8);
    assert!(told["outputs"].as_array().unwrap().iter().all(|output| output["equal"] == true));

    let table = bufabi(&["run", path.to_str().unwrap()]);
    assert_eq!(table.status, 0);
    assert!(table.out.contains("3 tasks on 3 workers: 0 bytes copied, "), "{}", table.out);
    assert_eq!(table.out.matches(" bit for bit\n").count(), 2);
}

#[test]
fn the_example_is_the_same_through_host_workers_which_map_nothing() {
    let folder = folder("gram-tree");
    for name in ["digits.npy", "digits-gram.npy", "digits-gram-rowsums.npy"] {
        fs::copy(root().join("examples").join(name), folder.join(name)).unwrap();
    }
    let mut graph: Value =
        serde_json::from_slice(&fs::read(root().join("examples/gram.json")).unwrap()).unwrap();
    // The chips are one host worker away, the sub-worker two.
    let chips = json!([{"name": "chip0", "kind": "chip"}, {"name": "chip1", "kind": "chip"}]);
    let inner = json!({"name": "l3", "kind": "host", "workers": [{"name": "sub0", "kind": "sub"}]});
    graph["workers"] = json!([
        {"name": "l3", "kind": "host", "workers": chips},
        {"name": "l4", "kind": "host", "workers": [inner]}]);
    let forwarders = [vec!["l3"], vec!["l3"], vec!["l4", "l4/l3"]];
    for (index, worker) in ["l3/chip0", "l3/chip1", "l4/l3/sub0"].iter().enumerate() {
        graph["tasks"][index]["worker"] = json!(worker);
    }
    let path = write(&folder, &graph);
    let ran = bufabi(&["run", path.to_str().unwrap(), "--json"]);
    assert_eq!((ran.status, ran.complaint.as_str()), (0, ""));
    assert_eq!(left_by(ran.pid), [""; 0]);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(told["bytes_copied"], 0);
    assert!(told["outputs"].as_array().unwrap().iter().all(|output| output["equal"] == true));
    for (task, forwarders) in told["tasks"].as_array().unwrap().iter().zip(forwarders) {
        assert_eq!(task["forwarded_by"], json!(forwarders));
        for argument in task["args"].as_array().unwrap() {
            let buffers = told["buffers"].as_array().unwrap();
            let owned = buffers.iter().find(|buffer| buffer["name"] == argument["buffer"]).unwrap();
            assert_eq!(argument["identity"], owned["identity"]);
        }
    }
    let table = bufabi(&["run", path.to_str().unwrap()]);
    assert_eq!(table.status, 0);
    assert!(table.out.contains("forwarded by l4, l4/l3, mapped now"), "{}", table.out);
    assert!(table.out.contains("3 tasks on 6 workers: 0 bytes copied, "), "{}", table.out);
}

/// A graph of one task on a chip, `c` being its output.
pub(crate) fn graph(kernel: &str, args: &Value, scalars: &Value) -> Value {
    json!({
        "buffers": [
            {"name": "a", "nbytes": 64},
            {"name": "r", "nbytes": 64, "access": "read"},
            {"name": "c", "nbytes": 64}],
        "workers": [{"name": "chip0", "kind": "chip"}, {"name": "sub0", "kind": "sub"}],
        "tasks": [{"name": "t", "kernel": kernel, "worker": "chip0", "args": args, "scalars": scalars}],
    })
}

pub(crate) fn argument(buffer: &str, tag: &str, shape: &Value) -> Value {
    json!({"buffer": buffer, "tag": tag, "dtype": "float32", "shape": shape})
}

#[test]
fn a_wrong_graph_names_the_place_and_the_kind_of_fault() {
    let folder = folder("wrong");
    fs::write(folder.join("eight.npy"), npy_of("<f4", 2, &[0; 8])).unwrap();
    fs::write(folder.join("big.npy"), npy_of(">f4", 2, &[0; 8])).unwrap();
    fs::write(folder.join("cut.npy"), npy_of("<f4", 3, &[0; 8])).unwrap();
    let a = argument("a", "input", &json!([4]));
    let c = argument("c", "output_existing", &json!([4]));
    let with = |base: &Value, field: &str, value: Value| {
        let mut changed = base.clone();
        changed[field] = value;
        changed
    };
    let good = graph("copy", &json!([a, c]), &json!([]));
    let ran = run(&folder, &good);
    assert_eq!((ran.status, ran.complaint.as_str()), (0, ""));

    let task = |args: Value| graph("copy", &args, &json!([]));
    let edited = |pointer: &str, value: Value| {
        let mut changed = good.clone();
        match changed.pointer_mut(pointer) {
            Some(place) => *place = value,
            None => {
                let (parent, field) = pointer.rsplit_once('/').unwrap();
                changed.pointer_mut(parent).unwrap()[field] = value;
            }
        }
        changed
    };
    let cases: Vec<(Value, i32, &str)> = vec![
        // Names and fields that are unknown.
        (task(json!([with(&a, "buffer", json!("nobody")), c])), 2, "tasks[0].args[0].buffer: no buffer"),
        (task(json!([with(&a, "tag", json!("inpt")), c])), 2, "tasks[0].args[0].tag: \"inpt\" is unknown"),
        (task(json!([with(&a, "dtype", json!("float64")), c])), 2, "tasks[0].args[0].dtype: \"float64\""),
        (task(json!([with(&a, "stride", json!([1])), c])), 2, "tasks[0].args[0].stride: unknown field"),
        (edited("/tasks/0/worker", json!("chip9")), 2, "tasks[0].worker: no worker"),
        (edited("/tasks/0/kernel", json!("conv")), 2, "tasks[0].kernel: \"conv\" is unknown"),
        (edited("/buffers/0/backend", json!("remote_sidecar")), 2, "buffers[0].backend: \"remote_sidecar\""),
        (edited("/buffers/0/name", json!("c")), 2, "buffers[2].name: \"c\" is there already"),
        (edited("/workers/0/kind", json!("gpu")), 2, "workers[0].kind: \"gpu\" is unknown"),
        (edited("/workers/1/name", json!("chip0")), 2, "workers[1].name: \"chip0\" is there already"),
        (edited("/buffers/0/worker", json!("chip0")), 2, "buffers[0].worker: a buffer of the host"),
        // Types and values.
        (task(json!([with(&a, "shape", json!([1.5])), c])), 2, "tasks[0].args[0].shape[0]: invalid type"),
        (task(json!([with(&a, "shape", json!([-1])), c])), 1, "tasks[0].args[0].shape[0]: -1 does not lie"),
        (task(json!([with(&a, "shape", json!([4_294_967_296_u64])), c])), 1, "tasks[0].args[0].shape[0]"),
        (task(json!([with(&a, "shape", json!([0])), c])), 1, "tasks[0].args[0].shape[0]: dimension 0"),
        (task(json!([with(&a, "shape", json!([])), c])), 1, "tasks[0].args[0].shape: a view has 1 to 5"),
        (task(json!([with(&a, "strides", json!([0])), c])), 1, "tasks[0].args[0].strides[0]: the stride"),
        (task(json!([with(&a, "strides", json!([1, 1])), c])), 1, "tasks[0].args[0].strides: 2 strides"),
        (task(json!([with(&a, "byte_offset", json!(2))])), 1, "tasks[0].args[0].byte_offset: byte offset 2"),
        (
            task(json!([with(&a, "byte_offset", json!(52)), c])),
            1,
            "tasks[0].args[0]: 16 bytes from byte offset 52",
        ),
        // Rights and clashes.
        (
            task(json!([a, argument("r", "output", &json!([4]))])),
            1,
            "tasks[0].args[1].tag: OUTPUT needs WRITE",
        ),
        (task(json!([argument("c", "input", &json!([4])), c])), 1, "tasks[0].args[1]: names byte 0"),
        // What a kernel does not take.
        (
            task(json!([a, with(&c, "shape", json!([5]))])),
            1,
            "tasks[0].args[1].shape[0]: copy: operand 1: it has 5",
        ),
        (task(json!([a, with(&c, "dtype", json!("int32"))])), 1, "tasks[0].args[1].dtype: copy"),
        (task(json!([a])), 1, "tasks[0].args: copy: the kernel takes 2 operands"),
        (task(json!([a, argument("a", "input", &json!([4]))])), 1, "tasks[0].args[1].tag: copy writes this"),
        (task(json!([argument("a", "output", &json!([4])), c])), 1, "tasks[0].args[0].tag: copy reads this"),
        (graph("fill", &json!([c]), &json!([])), 1, "tasks[0].scalars: fill"),
        (graph("fill", &json!([c]), &json!([4_294_967_296_u64])), 1, "tasks[0].scalars[0]: fill"),
        (graph("fill", &json!([c]), &json!([1.5])), 1, "tasks[0].scalars[0]: 1.5 is no whole number"),
        (graph("fill", &json!([c]), &json!([{"int32": 1}])), 1, "tasks[0].scalars[0]: INT32, but"),
        // Files.
        (edited("/buffers/0", json!({"name": "a", "npy": "missing.npy"})), 2, "buffers[0].npy: "),
        (edited("/buffers/0", json!({"name": "a", "npy": "big.npy"})), 2, "big-endian"),
        (edited("/buffers/0", json!({"name": "a", "npy": "cut.npy"})), 2, "12 bytes, 8 follow"),
        (edited("/buffers/0", json!({"name": "a", "npy": "graph.json"})), 2, "is no npy file"),
        (edited("/buffers/0", json!({"name": "a", "npy": "."})), 2, "is not a file"),
        (
            edited("/buffers/0", json!({"name": "a", "npy": "eight.npy", "nbytes": 9})),
            1,
            "buffers[0].nbytes: 9",
        ),
        (edited("/buffers/0", json!({"name": "a"})), 2, "buffers[0]: a buffer has npy, nbytes or both"),
        (edited("/buffers/0", json!({"name": "a", "nbytes": 0})), 1, "buffers[0]: a buffer has at least"),
        (edited("/buffers/0", json!({"name": "a", "nbytes": -1})), 1, "buffers[0].nbytes: -1"),
        (
            edited("/outputs", json!([{"buffer": "c", "dtype": "int8", "shape": [4]}])),
            2,
            "outputs[0]: an output",
        ),
        (
            edited("/outputs", json!([{"buffer": "c", "dtype": "int8", "shape": [65], "npy": "o.npy"}])),
            1,
            "outputs[0]: 65 bytes",
        ),
    ];
    for (graph, status, why) in cases {
        let ran = run(&folder, &graph);
        assert!(ran.complaint.contains(why), "{why}: {}", ran.complaint);
        assert!(ran.complaint.starts_with(&format!("bufabi: {}/graph.json: ", folder.display())));
        assert_eq!((ran.status, ran.out.as_str()), (status, ""), "{why}");
        assert_eq!(ran.complaint.lines().count(), 1, "{}", ran.complaint);
    }
    for (text, why) in [("{", "EOF"), ("", "EOF"), ("{} {}", "missing field"), ("[]", "")] {
        fs::write(folder.join("graph.json"), text).unwrap();
        let ran = bufabi(&["run", folder.join("graph.json").to_str().unwrap()]);
        assert_eq!(ran.status, 2, "{text}");
        assert!(ran.complaint.contains(why), "{}", ran.complaint);
    }
    assert_eq!(bufabi(&["run", folder.join("nothing.json").to_str().unwrap()]).status, 2);
    assert_eq!(bufabi(&["run", folder.to_str().unwrap()]).status, 2);
}

#[test]
fn groups_scalars_and_accumulation_give_the_numbers_that_they_should() {
    let folder = folder("group");
    let halves = |tag: &str, chip: usize| {
        let view = |buffer: &str, tag: &str| json!({"buffer": buffer, "tag": tag, "dtype": "int16", "byte_offset": 8 * chip, "shape": [4]});
        json!({"worker": format!("chip{chip}"), "args": [view("a", "input"), view("b", tag)]})
    };
    let whole = |buffer: &str, tag: &str, shape: Value| json!({"buffer": buffer, "tag": tag, "dtype": "int16", "shape": shape});
    let numbers: Vec<u8> = (1..=8_i16).flat_map(i16::to_le_bytes).collect();
    fs::write(folder.join("a.npy"), npy_of("<i2", 8, &numbers)).unwrap();
    let graph = json!({
        "buffers": [
            {"name": "a", "npy": "a.npy", "access": "read"},
            {"name": "b", "nbytes": 16},
            {"name": "sums", "nbytes": 4}],
        "workers": [
            {"name": "chip0", "kind": "chip"}, {"name": "chip1", "kind": "chip"}, {"name": "sub", "kind": "sub"}],
        "tasks": [
            {"name": "g", "kernel": "scale", "members": [halves("output", 0), halves("output", 1)], "scalars": [-3]},
            {"name": "fill", "kernel": "fill", "worker": "sub", "args": [whole("sums", "output", json!([2]))],
             "scalars": [{"int16": 1000}]},
            {"name": "sum", "kernel": "sum_rows", "worker": "sub",
             "args": [whole("b", "input", json!([2, 4])), whole("sums", "inout", json!([2]))]},
            {"name": "nothing", "kernel": "none", "worker": "sub", "args": []}],
        "outputs": [
            {"buffer": "sums", "dtype": "int16", "shape": [2], "npy": "sums.npy"},
            {"buffer": "b", "dtype": "int16", "shape": [4, 2], "strides": [1, 4], "npy": "b.npy"}],
    });
    let ran = run(&folder, &graph);
    assert_eq!((ran.status, ran.complaint.as_str()), (0, ""));
    assert!(ran.out.contains("g[1]"), "{}", ran.out);
    let data = |name: &str, count: usize| {
        let bytes = fs::read(folder.join(name)).unwrap();
        let data = bytes[bytes.len() - 2 * count..].as_chunks::<2>().0;
        data.iter().map(|element| i16::from_le_bytes(*element)).collect::<Vec<_>>()
    };
    assert_eq!(data("sums.npy", 2), [1000 - 3 * 10, 1000 - 3 * 26]);
    assert_eq!(data("b.npy", 8), [-3, -15, -6, -18, -9, -21, -12, -24]);

    fs::write(folder.join("want.npy"), npy_of("<i2", 2, &[202, 3, 0, 0])).unwrap();
    let mut expecting = graph.clone();
    expecting["outputs"][0]["expect"] = json!("want.npy");
    let ran = run(&folder, &expecting);
    assert_eq!(ran.status, 1);
    assert!(ran.complaint.contains("outputs[0]: 1 of 2 elements differs"), "{}", ran.complaint);
    assert!(ran.complaint.contains("[1] first: 922 (0x39a), expected 0 (0x0)"), "{}", ran.complaint);
    fs::write(folder.join("want.npy"), npy_of("<u2", 2, &[202, 3, 154, 3])).unwrap();
    let ran = run(&folder, &expecting);
    assert_eq!(ran.status, 1);
    assert!(ran.complaint.contains("is <u2 [2], the output is INT16 [2]"), "{}", ran.complaint);
    fs::write(folder.join("want.npy"), npy_of("<i2", 2, &[202, 3, 154, 3])).unwrap();
    assert_eq!(run(&folder, &expecting).status, 0);
}

#[test]
fn a_full_shared_memory_is_told_and_nothing_is_left() {
    let folder = folder("full");
    let graph = json!({
        "buffers": [{"name": "a", "nbytes": 65536}, {"name": "b", "nbytes": 1_048_576}],
        "tasks": [],
        "workers": [],
    });
    let script = "mount -t tmpfs -o size=512k tmpfs /dev/shm && { \"$0\" run \"$1\"; echo $?; ls /dev/shm; }";
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script, env!("CARGO_BIN_EXE_bufabi")])
        .arg(write(&folder, &graph))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "3\n");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(complaint.contains("graph.json: buffers[1]: "), "{complaint}");
    let told = "1048576 bytes were asked for, and the file system of shared memory has 458752 left";
    assert!(complaint.contains(told), "{complaint}");
}
