//! A graph's edges as a picture: tasks in layers, an arrow for each pair, its hazards by colour and in its tooltip.

use std::io::{self, Write};

use bufabi_core::dependencies::Hazard;

use super::layers::{Layers, Point};
use super::{Arrow, arrows, colour};
use crate::edges::Edges;
use crate::graph::{Graph, Task};
use crate::table::counted;

const MARGIN: f64 = 24.0;
/// Of a task's box.
const HEIGHT: f64 = 40.0;
/// From a box's top to that of the next layer.
const STEP: f64 = 110.0;
/// Of a character of a task's name, about.
const CHARACTER: f64 = 8.0;
/// Characters of a name that are shown.
const SHOWN: usize = 40;
/// For the legend, below the picture.
const LEGEND: f64 = 28.0;

pub(super) fn write(out: &mut impl Write, graph: &Graph, edges: &Edges) -> io::Result<()> {
    let arrows = arrows(edges);
    let widths: Vec<f64> = graph.tasks.iter().map(box_width).collect();
    let pairs: Vec<(usize, usize)> = arrows.iter().map(|arrow| (arrow.before, arrow.after)).collect();
    let layers = Layers::new(&widths, &pairs);
    let width = layers.width.max(300.0) + 2.0 * MARGIN;
    let height = y(layers.count) - STEP + HEIGHT + LEGEND + 2.0 * MARGIN;
    let height = height.max(LEGEND + 2.0 * MARGIN);
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"13\">"
    )?;
    let tasks = counted(graph.tasks.len(), "task", "tasks");
    writeln!(out, "<title>{tasks}, {}</title>", counted(edges.list.len(), "edge", "edges"))?;
    writeln!(out, "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>")?;
    for hazard in Hazard::ALL {
        let colour = colour(hazard);
        writeln!(
            out,
            "<marker id=\"{hazard}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
             orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"{colour}\"/></marker>"
        )?;
    }
    for (arrow, route) in arrows.iter().zip(&layers.routes) {
        write_arrow(out, graph, arrow, route, &layers.points)?;
    }
    for ((task, point), width) in graph.tasks.iter().zip(&layers.points).zip(widths) {
        write_task(out, task, point, width)?;
    }
    write_legend(out, height)?;
    writeln!(out, "</svg>")
}

fn box_width(task: &Task) -> f64 {
    let kernel = task.kernel.map_or(0, |kernel| kernel.name().len());
    let characters = task.name.chars().count().min(SHOWN.saturating_add(1)).max(kernel).max(3);
    f64::from(u16::try_from(characters).unwrap_or(u16::MAX)).mul_add(CHARACTER, 20.0)
}

/// The top of a layer.
fn y(layer: usize) -> f64 {
    f64::from(u32::try_from(layer).unwrap_or(u32::MAX)).mul_add(STEP, MARGIN)
}

/// A curve through the points of a route, from under the first to above the last.
fn write_arrow(
    out: &mut impl Write,
    graph: &Graph,
    arrow: &Arrow,
    route: &[usize],
    points: &[Point],
) -> io::Result<()> {
    let mut path = String::new();
    let mut from: Option<(f64, f64)> = None;
    let last = route.len().saturating_sub(1);
    for (place, point) in route.iter().filter_map(|&index| points.get(index)).enumerate() {
        let (x, top) = (point.x + MARGIN, y(point.layer));
        let to = (x, top);
        if let Some((before_x, before_y)) = from {
            let bend = (to.1 - before_y) / 2.0;
            path.push_str(&format!(
                "C{before_x:.1} {:.1} {x:.1} {:.1} {x:.1} {:.1}",
                before_y + bend,
                to.1 - bend,
                to.1
            ));
        }
        let below = top + HEIGHT;
        if place == 0 {
            path.push_str(&format!("M{x:.1} {below:.1}"));
        } else if place < last {
            // Past the boxes of a layer between, straight down.
            path.push_str(&format!("V{below:.1}"));
        }
        from = Some((x, below));
    }
    let (hazard, reasons) = (arrow.hazard(), arrow.reasons(graph).collect::<Vec<_>>().join("\n"));
    let colour = colour(hazard);
    let dashes = if hazard == Hazard::ReadAfterWrite { "" } else { " stroke-dasharray=\"6 3\"" };
    writeln!(
        out,
        "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"{dashes} \
         marker-end=\"url(#{hazard})\"><title>{}</title></path>",
        escaped(&reasons)
    )
}

fn write_task(out: &mut impl Write, task: &Task, point: &Point, width: f64) -> io::Result<()> {
    let (x, top) = (point.x + MARGIN, y(point.layer));
    let mut shown: String = task.name.chars().take(SHOWN).collect();
    if shown.len() < task.name.len() {
        shown.push('\u{2026}');
    }
    writeln!(
        out,
        "<g><title>{}</title><rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{HEIGHT}\" rx=\"6\" \
         fill=\"#f6f7f9\" stroke=\"#4b5563\"/>",
        escaped(&task.name),
        x - width / 2.0
    )?;
    let kernel = task.kernel.map(|kernel| kernel.name());
    let baseline = top + if kernel.is_some() { 17.0 } else { 25.0 };
    writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{baseline:.1}\" text-anchor=\"middle\" fill=\"#111827\">{}</text>",
        escaped(&shown)
    )?;
    if let Some(kernel) = kernel {
        writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"11\" fill=\"#4b5563\">{kernel}</text>",
            top + 32.0
        )?;
    }
    writeln!(out, "</g>")
}

fn write_legend(out: &mut impl Write, height: f64) -> io::Result<()> {
    let y = height - MARGIN;
    let mut x = MARGIN;
    for hazard in Hazard::ALL {
        let colour = colour(hazard);
        let dashes = if hazard == Hazard::ReadAfterWrite { "" } else { " stroke-dasharray=\"6 3\"" };
        writeln!(
            out,
            "<path d=\"M{x:.1} {:.1}h28\" stroke=\"{colour}\" stroke-width=\"1.5\"{dashes}/>\
             <text x=\"{:.1}\" y=\"{y:.1}\" fill=\"#4b5563\">{hazard}</text>",
            y - 4.0,
            x + 34.0
        )?;
        x += 84.0;
    }
    Ok(())
}

/// Text that cannot end its element. What XML does not allow at all becomes a blank.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push('\n'),
            '\u{fffe}' | '\u{ffff}' => escaped.push(' '),
            control if control.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_end_its_element() {
        assert_eq!(escaped("<a & \"b\">\u{0}\u{ffff}é"), "&lt;a &amp; &quot;b&quot;&gt;  é");
    }
}
