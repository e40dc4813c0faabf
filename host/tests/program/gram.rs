//! The example, with X in any kind of memory.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::run::write;
use crate::{bufabi, folder, root};

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

/// The example with X in memory of that kind; for memory of a device that only its chip can name, one X on each.
pub(crate) fn with_x(backend: &str) -> Value {
    let mut graph = gram();
    let of_chip = |name: &str, chip: &str| json!({"name": name, "npy": "digits.npy", "backend": backend, "worker": chip});
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
