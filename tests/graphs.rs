//! The task graphs of `tests/vectors/graphs.jsonl`: the tracker's edges are the listed ones, on every graph.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "what a test cannot read fails it")]

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use bufabi_core::dependencies::{Allocate, Argument, Capacities, Hazard, Memory, Policy, Storage, Tracker};
use bufabi_core::{DType, Identity, KeyedHash, OwnerInstanceId, Tag, View};
use bufabi_tests::vectors;
use serde_json::Value;

#[derive(Debug)]
struct Boxed;

impl Memory for Boxed {
    type Of<T: Clone + std::fmt::Debug + 'static> = Box<[T]>;
}

impl Allocate for Boxed {
    fn filled<T: Clone + std::fmt::Debug + 'static>(value: T, len: usize) -> Box<[T]> {
        vec![value; len].into()
    }
}

fn numbers(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|n| u32::try_from(n.as_u64().unwrap()).unwrap()).collect()
}

/// The arguments of a task, those of all members if it is a group.
fn arguments(task: &Value, buffers: &BTreeMap<&str, (u32, u64)>) -> Vec<Argument> {
    let members = task["members"].as_array().map_or_else(|| vec![task], |members| members.iter().collect());
    let all = members.into_iter().flat_map(|member| member["args"].as_array().unwrap());
    all.map(|argument| {
        let (rank, nbytes) = buffers[argument["buffer"].as_str().unwrap()];
        let dtype = argument["dtype"].as_str().unwrap();
        let dtype = *DType::ALL.iter().find(|known| known.name().eq_ignore_ascii_case(dtype)).unwrap();
        let tag = argument["tag"].as_str().unwrap();
        let tag = *Tag::ALL.iter().find(|known| known.name().eq_ignore_ascii_case(tag)).unwrap();
        let (shape, strides) = (numbers(&argument["shape"]), numbers(&argument["strides"]));
        let view =
            View::new(argument["byte_offset"].as_u64().unwrap(), dtype, &shape, &strides, nbytes).unwrap();
        let identity = Identity::new(OwnerInstanceId([7; 8]), u64::from(rank), NonZeroU32::MIN);
        Argument { identity, nbytes, view, tag, rank }
    })
    .collect()
}

type Pairs = Vec<(String, String)>;

fn listed(edges: &Value) -> Pairs {
    let name = |value: &Value| value.as_str().unwrap().to_owned();
    let mut pairs: Pairs =
        edges.as_array().unwrap().iter().map(|pair| (name(&pair[0]), name(&pair[1]))).collect();
    pairs.sort();
    pairs
}

fn tracked(graph: &Value, policy: Policy) -> BTreeMap<Hazard, Pairs> {
    let buffers: BTreeMap<&str, (u32, u64)> = (0..)
        .zip(graph["buffers"].as_array().unwrap())
        .map(|(rank, buffer)| (buffer["name"].as_str().unwrap(), (rank, buffer["nbytes"].as_u64().unwrap())))
        .collect();
    let tasks = graph["tasks"].as_array().unwrap();
    let storage = Storage::<Boxed>::allocate(&Capacities::for_tasks(64, 16));
    let mut tracker = Tracker::new(policy, KeyedHash::new([1, 2]), storage);
    let mut pairs: BTreeMap<Hazard, Pairs> = Hazard::ALL.map(|hazard| (hazard, Vec::new())).into();
    let name = |number: usize| tasks[number]["name"].as_str().unwrap().to_owned();
    for (number, task) in tasks.iter().enumerate() {
        let arguments = arguments(task, &buffers);
        for edge in tracker.submit(u64::try_from(number).unwrap(), arguments).unwrap().edges {
            let before = name(usize::try_from(edge.task).unwrap());
            pairs.get_mut(&edge.hazard).unwrap().push((before, name(number)));
        }
    }
    assert_eq!(tracker.inexact(), 0);
    pairs.values_mut().for_each(|pairs| pairs.sort());
    pairs
}

#[test]
fn the_edges_equal_the_listed_ones_on_every_graph() {
    let text = vectors("graphs.jsonl").unwrap();
    let (mut graphs, mut edges) = (0_usize, 0_usize);
    for (number, line) in (1_usize..).zip(text.lines()) {
        let line: Value = serde_json::from_str(line).unwrap();
        let full = tracked(&line["graph"], Policy::Full);
        for (hazard, pairs) in &full {
            let expected = listed(&line["edges"][hazard.name()]);
            assert_eq!(pairs, &expected, "graph {number}, {hazard}");
            edges = edges.saturating_add(expected.len());
        }
        let producers = tracked(&line["graph"], Policy::Producers);
        assert_eq!(producers[&Hazard::ReadAfterWrite], full[&Hazard::ReadAfterWrite], "graph {number}");
        assert!(
            producers[&Hazard::WriteAfterWrite].is_empty() && producers[&Hazard::WriteAfterRead].is_empty()
        );
        graphs = graphs.saturating_add(1);
    }
    assert_eq!(graphs, 400, "the file is not whole");
    assert!(edges > 4_000, "{edges} edges are too few to mean anything");
}
