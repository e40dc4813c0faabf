//! `bufabi plan`: which tasks of a graph must wait for which, and why. It runs nothing.

mod dot;
mod layers;
mod svg;

use std::collections::BTreeMap;
use std::io::{self, Write, stdout};
use std::path::PathBuf;

use bufabi_core::dependencies::Hazard;
use clap::Args;

use crate::edges::{Edge, Edges};
use crate::failure::Failure;
use crate::graph::{Graph, Purpose};
use crate::table::{counted, write_table};

/// The dependencies of a task graph: each edge with its hazard, and the first buffer and byte that cause it.
///
/// Nothing is run. Workers, kernels, scalars and outputs may be missing from the file.
#[derive(Args)]
#[command(
    after_help = "Hazards: raw, it reads what the other wrote; waw, it writes what the other wrote; war, it writes what the other read.

Examples:
  bufabi plan examples/gram.json
  bufabi plan examples/gram.json --json | jq -c '.raw[]'
  bufabi plan examples/gram.json --svg > gram.svg
  bufabi plan examples/gram.json --dot | dot -Tpdf -o gram.pdf"
)]
pub(crate) struct Plan {
    /// The graph file; docs/graph-files.md says what is in it.
    graph: PathBuf,
    #[command(flatten)]
    form: Form,
}

/// How edges are written; as a table if nothing else is asked for.
#[derive(Args)]
#[group(multiple = false)]
struct Form {
    /// Pairs of task names for each hazard: {"raw": [["before", "after"], ...], "waw": ..., "war": ...}.
    #[arg(long)]
    json: bool,
    /// A graph for Graphviz.
    #[arg(long)]
    dot: bool,
    /// A picture.
    #[arg(long)]
    svg: bool,
}

impl Plan {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let graph = Graph::load(&self.graph, Purpose::Plan)?;
        let edges = Edges::of(&graph)?;
        let mut out = io::BufWriter::new(stdout().lock());
        let Form { json, dot, svg } = self.form;
        let written = match (json, dot, svg) {
            (true, ..) => write_json(&mut out, &graph, &edges),
            (_, true, _) => dot::write(&mut out, &graph, &edges),
            (.., true) => svg::write(&mut out, &graph, &edges),
            _ => write_text(&mut out, &graph, &edges),
        };
        written.and_then(|()| out.flush()).map_err(Failure::output)
    }
}

fn write_text(out: &mut impl Write, graph: &Graph, edges: &Edges) -> io::Result<()> {
    if !edges.list.is_empty() {
        let mut rows = vec![["before", "after", "hazard", "buffer", "byte"].map(str::to_owned)];
        for edge in &edges.list {
            let (before, after, buffer) = names(graph, edge);
            let (hazard, byte) = (edge.hazard.name(), edge.byte.to_string());
            rows.push([before, after, hazard, buffer, &byte].map(str::to_owned));
        }
        write_table(out, &rows, [false, false, false, false, true])?;
        out.write_all(b"\n")?;
    }
    let tasks = counted(graph.tasks.len(), "task", "tasks");
    write!(out, "{tasks}, {}", counted(edges.list.len(), "edge", "edges"))?;
    if edges.inexact > 0 {
        write!(out, "; {} lookups passed their work bound, so that some may be needless", edges.inexact)?;
    }
    out.write_all(b"\n")
}

fn write_json(out: &mut impl Write, graph: &Graph, edges: &Edges) -> io::Result<()> {
    let pairs = |hazard: Hazard| -> Vec<[&str; 2]> {
        let of_hazard = edges.list.iter().filter(|edge| edge.hazard == hazard);
        of_hazard
            .map(|edge| {
                let (before, after, _) = names(graph, edge);
                [before, after]
            })
            .collect()
    };
    let [raw, waw, war] = Hazard::ALL.map(pairs);
    serde_json::to_writer(&mut *out, &serde_json::json!({ "raw": raw, "waw": waw, "war": war }))?;
    out.write_all(b"\n")
}

/// The names that an edge is about: the task before, the task after, the buffer.
fn names<'a>(graph: &'a Graph, edge: &Edge) -> (&'a str, &'a str, &'a str) {
    let task = |index: usize| graph.tasks.get(index).map_or("", |task| task.name.as_str());
    let buffer = graph.buffers.get(edge.buffer).map_or("", |buffer| buffer.name.as_str());
    (task(edge.before), task(edge.after), buffer)
}

/// All hazards between two tasks, drawn as one arrow.
struct Arrow {
    before: usize,
    after: usize,
    /// The hazards, each with its buffer and byte.
    reasons: Vec<Edge>,
}

impl Arrow {
    /// The first of its hazards, in the order raw, waw, war: it gives the colour.
    fn hazard(&self) -> Hazard {
        self.reasons.first().map_or(Hazard::ReadAfterWrite, |edge| edge.hazard)
    }

    /// Each hazard with its cause, as `raw G @ 128`.
    fn reasons<'a>(&'a self, graph: &'a Graph) -> impl Iterator<Item = String> {
        self.reasons.iter().map(|edge| {
            let (_, _, buffer) = names(graph, edge);
            format!("{} {buffer} @ {}", edge.hazard, edge.byte)
        })
    }
}

fn arrows(edges: &Edges) -> Vec<Arrow> {
    let mut arrows: BTreeMap<(usize, usize), Vec<Edge>> = BTreeMap::new();
    for &edge in &edges.list {
        arrows.entry((edge.after, edge.before)).or_default().push(edge);
    }
    arrows.into_iter().map(|((after, before), reasons)| Arrow { before, after, reasons }).collect()
}

/// The colour of a hazard, readable on white and on black.
const fn colour(hazard: Hazard) -> &'static str {
    match hazard {
        Hazard::ReadAfterWrite => "#2a78d6",
        Hazard::WriteAfterWrite => "#c2410c",
        Hazard::WriteAfterRead => "#7c6f19",
    }
}
