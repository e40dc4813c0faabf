//! A plot of times over live views, both axes by powers of ten, as SVG.

use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
/// The page is wider than the plot: the last label and the title end beyond it.
const PAGE: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 55.0;
const COLOURS: [&str; 2] = ["#1f6fb2", "#c8501e"];

/// Live views from 1 to 10^5.
const DECADES: i32 = 5;
/// Nanoseconds from 10^1 to 10^4.
const LOWEST: i32 = 1;
const HIGHEST: i32 = 4;

fn x(count: f64) -> f64 {
    LEFT + (WIDTH - LEFT - RIGHT) * count.log10() / f64::from(DECADES)
}

fn y(nanoseconds: f64) -> f64 {
    let part = (nanoseconds.log10() - f64::from(LOWEST)) / f64::from(HIGHEST - LOWEST);
    HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part
}

/// The curves, each with its name.
pub(crate) fn svg(curves: &[(&str, Vec<(f64, f64)>)]) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {PAGE} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"{PAGE}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">Dependency lookup, at most 4 edges found: \
         nanoseconds by live views on the backing</text>\n"
    );
    for decade in 0..=DECADES {
        let (at, bottom) = (x(10_f64.powi(decade)), HEIGHT - BOTTOM);
        let label = 10_u32.pow(decade.unsigned_abs());
        let _ = writeln!(
            out,
            "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\" stroke=\"#ddd\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            bottom + 18.0
        );
    }
    for decade in LOWEST..=HIGHEST {
        let (at, right) = (y(10_f64.powi(decade)), WIDTH - RIGHT);
        let label = 10_u32.pow(decade.unsigned_abs());
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label} ns</text>",
            LEFT - 8.0,
            at + 4.0
        );
    }
    let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"{:.1}\">live views</text>", HEIGHT - 14.0);
    for ((name, points), (colour, row)) in curves.iter().zip(COLOURS.iter().zip(0_u32..)) {
        let line: Vec<String> = points.iter().map(|&(n, ns)| format!("{:.1},{:.1}", x(n), y(ns))).collect();
        let legend = TOP + 20.0 + 20.0 * f64::from(row);
        let _ = writeln!(
            out,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{legend:.1}\" fill=\"{colour}\">{name}</text>",
            line.join(" "),
            LEFT + 14.0
        );
    }
    out.push_str("</svg>\n");
    out
}
