//! Curves over message sizes, as SVG: sizes by powers of two, values by powers of ten.

use std::io::{self, Write};

const WIDTH: f64 = 720.0;
/// The page is wider than the plot: labels end beyond it.
const PAGE: f64 = 780.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 100.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 56.0;
const COLOURS: [&str; 2] = ["#1f6fb2", "#c8501e"];

/// Points that belong together.
pub(super) struct Curve {
    pub(super) name: &'static str,
    /// Bytes and value.
    pub(super) points: Vec<(f64, f64)>,
}

/// What is drawn.
pub(super) struct Plot {
    pub(super) title: String,
    pub(super) x: &'static str,
    /// The unit of the values, behind each number.
    pub(super) y: &'static str,
    pub(super) curves: Vec<Curve>,
}

/// Whole steps on an axis, from the lowest to the highest.
struct Axis {
    base: f64,
    lowest: i32,
    highest: i32,
}

impl Axis {
    fn over(base: f64, values: impl Iterator<Item = f64>) -> Self {
        let steps: Vec<f64> = values.map(|value| value.max(1.0).log(base)).collect();
        let lowest = steps.iter().copied().fold(f64::INFINITY, f64::min).floor();
        let highest = steps.iter().copied().fold(0.0, f64::max).ceil();
        let lowest = if lowest.is_finite() { whole(lowest) } else { 0 };
        Self { base, lowest, highest: whole(highest).max(lowest.saturating_add(1)) }
    }

    /// Where a value stands, from 0 to 1.
    fn part(&self, value: f64) -> f64 {
        (value.max(1.0).log(self.base) - f64::from(self.lowest))
            / f64::from(self.highest.saturating_sub(self.lowest))
    }
}

/// A small whole number. No logarithm of what is measured has more than three digits.
#[expect(clippy::as_conversions, reason = "it saturates, and is whole")]
const fn whole(number: f64) -> i32 {
    number as i32
}

impl Plot {
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let points = || self.curves.iter().flat_map(|curve| curve.points.iter());
        let sizes = Axis::over(2.0, points().map(|point| point.0));
        let values = Axis::over(10.0, points().map(|point| point.1));
        let x = |size: f64| (WIDTH - LEFT - RIGHT).mul_add(sizes.part(size), LEFT);
        let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * values.part(value);
        let bottom = HEIGHT - BOTTOM;
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {PAGE} {HEIGHT}\" width=\"{PAGE}\" height=\"{HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"13\">\n<title>{title}</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"{LEFT}\" y=\"24\" font-size=\"15\" fill=\"#111827\">{title}</text>",
            title = self.title
        )?;
        for step in sizes.lowest..=sizes.highest {
            let (at, label) = (x(2_f64.powi(step)), 2_f64.powi(step));
            writeln!(
                out,
                "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\" stroke=\"#e5e7eb\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"11\" fill=\"#4b5563\">{label}</text>",
                bottom + 18.0
            )?;
        }
        for step in values.lowest..=values.highest {
            let (at, label) = (y(10_f64.powi(step)), 10_f64.powi(step));
            writeln!(
                out,
                "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"#e5e7eb\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#4b5563\">{label} {}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                at + 4.0,
                self.y
            )?;
        }
        writeln!(out, "<text x=\"{LEFT}\" y=\"{:.1}\" fill=\"#4b5563\">{}</text>", HEIGHT - 14.0, self.x)?;
        for ((curve, colour), row) in self.curves.iter().zip(COLOURS.iter().cycle()).zip(0_u32..) {
            let line: Vec<String> =
                curve.points.iter().map(|&(size, value)| format!("{:.1},{:.1}", x(size), y(value))).collect();
            writeln!(
                out,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
                line.join(" "),
                LEFT + 14.0,
                20.0_f64.mul_add(f64::from(row), TOP + 18.0),
                curve.name
            )?;
        }
        writeln!(out, "</svg>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_stands_within_the_axes() {
        let axis = Axis::over(10.0, [30.0, 700.0, 0.0].into_iter());
        assert_eq!((axis.lowest, axis.highest), (0, 3));
        assert!((axis.part(10.0) - 1.0 / 3.0).abs() < 1e-9);
        let none = Axis::over(2.0, std::iter::empty());
        assert_eq!((none.lowest, none.highest), (0, 1));
    }
}
