//! `bufabi plan`: the edges of every graph of the vectors, and names that cannot break the forms they are written in.

use std::fs;

use serde_json::{Value, json};

use crate::{bufabi, folder, root, vectors};

#[test]
fn the_edges_of_every_graph_are_the_listed_ones() {
    let path = folder("plan").join("graph.json");
    let mut graphs = 0;
    for line in vectors("graphs.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        fs::write(&path, line["graph"].to_string()).unwrap();
        let ran = bufabi(&["plan", path.to_str().unwrap(), "--json"]);
        assert_eq!((ran.status, ran.complaint.as_str()), (0, ""));
        let planned: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(planned, line["edges"], "graph {}", graphs + 1);
        graphs += 1;
    }
    assert_eq!(graphs, 400);
}

#[test]
fn the_example_says_why_its_sums_wait() {
    let gram = root().join("examples/gram.json");
    let ran = bufabi(&["plan", gram.to_str().unwrap()]);
    assert_eq!(ran.status, 0);
    let rows: Vec<Vec<&str>> =
        ran.out.lines().map(|line| line.split("  ").filter(|cell| !cell.is_empty()).collect()).collect();
    let cells = |row: usize| rows[row].iter().map(|cell| cell.trim()).collect::<Vec<_>>();
    assert_eq!(cells(0), ["before", "after", "hazard", "buffer", "byte"]);
    assert_eq!(cells(1), ["left half", "row sums", "raw", "G", "0"]);
    assert_eq!(cells(2), ["right half", "row sums", "raw", "G", "128"]);
    assert!(ran.out.ends_with("\n3 tasks, 2 edges\n"), "{}", ran.out);
}

#[test]
fn a_plan_needs_no_workers_and_no_kernels_and_its_names_break_nothing() {
    let name = "<b a=\"\\\">&\u{1f600}]]>";
    let view = |tag: &str, offset: u32| json!({"buffer": "x", "tag": tag, "dtype": "uint8", "byte_offset": offset, "shape": [4]});
    let graph = json!({
        "buffers": [{"name": "x", "nbytes": 8, "backend": "device_malloc"}],
        "tasks": [
            {"name": name, "args": [view("output", 0)]},
            {"name": "reads", "args": [view("input", 2)]},
            {"name": "both", "members": [{"args": [view("inout", 4)]}, {"args": [view("output", 0)]}]}],
    });
    let path = folder("plan-names").join("graph.json");
    fs::write(&path, graph.to_string()).unwrap();
    let plan = |form: &[&str]| {
        let mut arguments = vec!["plan", path.to_str().unwrap()];
        arguments.extend_from_slice(form);
        let ran = bufabi(&arguments);
        assert_eq!((ran.status, ran.complaint.as_str()), (0, ""));
        ran.out
    };
    let edges: Value = serde_json::from_str(&plan(&["--json"])).unwrap();
    assert_eq!(edges, json!({"raw": [[name, "reads"]], "waw": [[name, "both"]], "war": [["reads", "both"]]}));
    let dot = plan(&["--dot"]);
    assert!(dot.contains("t0 [label=\"<b a=\\\"\\\\\\\">&\u{1f600}]]>\"];"), "{dot}");
    assert!(dot.contains("t1 -> t2 [label=\"war x @ 2\","), "{dot}");
    let svg = plan(&["--svg"]);
    assert!(svg.contains(">&lt;b a=&quot;\\&quot;&gt;&amp;\u{1f600}]]&gt;</text>"), "{svg}");
    assert_eq!(svg.matches("marker-end").count(), 3);
    // Each element that opens is closed, and no name adds one.
    for element in ["svg", "g", "title", "text", "marker"] {
        let opened =
            svg.matches(&format!("<{element} ")).count() + svg.matches(&format!("<{element}>")).count();
        assert_eq!(opened, svg.matches(&format!("</{element}>")).count(), "{element}");
    }
    assert_eq!(bufabi(&["plan", path.to_str().unwrap(), "--svg", "--dot"]).status, 2);
    assert_eq!(bufabi(&["run", path.to_str().unwrap()]).status, 2);
}

#[test]
fn a_plan_of_nothing_is_one() {
    let path = folder("plan-nothing").join("graph.json");
    fs::write(&path, r#"{"buffers": [], "tasks": []}"#).unwrap();
    let path = path.to_str().unwrap();
    assert_eq!(bufabi(&["plan", path]).out, "0 tasks, 0 edges\n");
    for form in ["--json", "--dot", "--svg"] {
        assert_eq!(bufabi(&["plan", path, form]).status, 0);
    }
}
