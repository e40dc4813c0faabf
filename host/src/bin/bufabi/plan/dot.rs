//! A graph's edges for Graphviz.

use std::io::{self, Write};

use super::{arrows, colour};
use crate::edges::Edges;
use crate::graph::Graph;

pub(super) fn write(out: &mut impl Write, graph: &Graph, edges: &Edges) -> io::Result<()> {
    writeln!(out, "digraph plan {{")?;
    writeln!(out, "  node [shape=box, style=rounded, fontname=\"sans-serif\"];")?;
    writeln!(out, "  edge [fontname=\"sans-serif\", fontsize=10];")?;
    for (index, task) in graph.tasks.iter().enumerate() {
        let kernel = task.kernel.map_or("", |kernel| kernel.name());
        let label = if kernel.is_empty() { task.name.clone() } else { format!("{}\n{kernel}", task.name) };
        writeln!(out, "  t{index} [label={}];", quoted(&label))?;
    }
    for arrow in arrows(edges) {
        let label: Vec<String> = arrow.reasons(graph).collect();
        let (before, after, colour) = (arrow.before, arrow.after, colour(arrow.hazard()));
        let label = quoted(&label.join("\n"));
        writeln!(
            out,
            "  t{before} -> t{after} [label={label}, color=\"{colour}\", fontcolor=\"{colour}\"];"
        )?;
    }
    writeln!(out, "}}")
}

/// Text as a quoted string, in which a backslash begins an escape.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            control if control.is_control() => quoted.push(' '),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_end_its_quotes() {
        assert_eq!(quoted("a \"b\"\\\nc\0"), "\"a \\\"b\\\"\\\\\\nc \"");
    }
}
