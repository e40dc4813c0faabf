//! Curves over message sizes, as SVG: sizes by powers of two, values by 1, 2 and 5 of every power of ten.

use std::io::{self, Write};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 84.0;
/// The last size's label ends beyond the plot.
const RIGHT: f64 = 36.0;
/// Title and names of the curves stand above the plot, where no curve goes.
const TOP: f64 = 68.0;
const BOTTOM: f64 = 56.0;
const COLOURS: [&str; 2] = ["#1f6fb2", "#c8501e"];

/// Labels that an axis has room for.
const SIZES: usize = 14;
const VALUES: usize = 10;

/// Points that belong together.
pub(super) struct Curve {
    pub(super) name: &'static str,
    /// Bytes and value.
    pub(super) points: Vec<(f64, f64)>,
}

/// What the values are.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    Nanoseconds,
    PerSecond,
}

/// What is drawn.
pub(super) struct Plot {
    pub(super) title: String,
    pub(super) unit: Unit,
    pub(super) curves: Vec<Curve>,
}

impl Unit {
    /// A value with at most three digits before its unit.
    fn label(self, value: f64) -> String {
        let [small, thousands, millions, milliards] = match self {
            Self::Nanoseconds => ["ns", "µs", "ms", "s"],
            Self::PerSecond => ["/s", "k/s", "M/s", "G/s"],
        };
        let (shown, unit) = match value {
            value if value < 999.5 => (value, small),
            value if value < 999.5e3 => (value / 1e3, thousands),
            value if value < 999.5e6 => (value / 1e6, millions),
            value => (value / 1e9, milliards),
        };
        let digits = if shown < 9.95 && shown.fract() != 0.0 { 1 } else { 0 };
        format!("{shown:.digits$} {unit}")
    }
}

/// A message's size. What has no bytes stands where one byte does: no logarithm has a place for it.
fn size_label(tick: f64) -> String {
    match tick {
        tick if tick < 2.0 => "0, 1 B".to_owned(),
        tick if tick < 1024.0 => format!("{tick} B"),
        tick => format!("{} KiB", tick / 1024.0),
    }
}

/// A logarithmic axis from its first tick to its last.
struct Axis {
    ticks: Vec<f64>,
}

impl Axis {
    /// The ticks of a ladder, all above 0, that have all values between them: at least two.
    fn over(ladder: &[f64], values: impl Iterator<Item = f64> + Clone) -> Self {
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let greatest = values.fold(0.0, f64::max);
        let first = ladder.iter().rposition(|&tick| tick <= least).unwrap_or(0);
        let first = first.min(ladder.len().saturating_sub(2));
        let (below, above) = ladder.split_at_checked(first.saturating_add(1)).unwrap_or((ladder, &[]));
        let behind = above.iter().position(|&tick| tick >= greatest).unwrap_or(above.len());
        let ticks = below.last().into_iter().chain(above.iter().take(behind.saturating_add(1)));
        Self { ticks: ticks.copied().collect() }
    }

    fn of_sizes(sizes: impl Iterator<Item = f64> + Clone) -> Self {
        let ladder: Vec<f64> = (0..=16).map(|power| 2_f64.powi(power)).collect();
        Self::over(&ladder, sizes)
    }

    fn of_values(values: impl Iterator<Item = f64> + Clone) -> Self {
        let decades = (0..=12).map(|power| 10_f64.powi(power));
        let ladder: Vec<f64> = decades.flat_map(|one| [one, 2.0 * one, 5.0 * one]).collect();
        Self::over(&ladder, values)
    }

    /// Where a value stands, from 0 to 1.
    fn part(&self, value: f64) -> f64 {
        let (first, last) = (self.ticks.first().unwrap_or(&1.0), self.ticks.last().unwrap_or(&10.0));
        (value.clamp(*first, *last) / first).ln() / (last / first).ln()
    }

    /// Every tick, and whether it has a label when there is room for so many.
    fn labelled(&self, room: usize, is_kept: fn(f64) -> bool) -> impl Iterator<Item = (f64, bool)> {
        let is_roomy = self.ticks.len() <= room;
        self.ticks.iter().map(move |&tick| (tick, is_roomy || is_kept(tick)))
    }
}

impl Plot {
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let points = || self.curves.iter().flat_map(|curve| curve.points.iter());
        let sizes = Axis::of_sizes(points().map(|point| point.0));
        let values = Axis::of_values(points().map(|point| point.1));
        let x = |size: f64| (WIDTH - LEFT - RIGHT).mul_add(sizes.part(size), LEFT);
        let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * values.part(value);
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<title>{title}</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"{LEFT}\" y=\"24\" font-size=\"15\" fill=\"#111827\">{title}</text>",
            title = self.title
        )?;
        // Every second power of two, and the powers of ten, where there is no room for all.
        for (tick, has_label) in sizes.labelled(SIZES, |tick| tick.log2() % 2.0 == 0.0) {
            let at = x(tick);
            writeln!(out, "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#e5e7eb\"/>")?;
            if has_label {
                let (below, label) = (bottom + 18.0, size_label(tick));
                writeln!(
                    out,
                    "<text x=\"{at:.1}\" y=\"{below}\" text-anchor=\"middle\" fill=\"#4b5563\">{label}</text>"
                )?;
            }
        }
        for (tick, has_label) in values.labelled(VALUES, |tick| tick.log10() % 1.0 == 0.0) {
            let at = y(tick);
            writeln!(out, "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#e5e7eb\"/>")?;
            if has_label {
                let (before, at, label) = (LEFT - 8.0, at + 4.0, self.unit.label(tick));
                writeln!(
                    out,
                    "<text x=\"{before}\" y=\"{at:.1}\" text-anchor=\"end\" fill=\"#4b5563\">{label}</text>"
                )?;
            }
        }
        let (middle, last) = (f64::midpoint(LEFT, right), HEIGHT - 14.0);
        writeln!(
            out,
            "<text x=\"{middle}\" y=\"{last}\" text-anchor=\"middle\" fill=\"#4b5563\">size of a message</text>"
        )?;
        for ((curve, colour), column) in self.curves.iter().zip(COLOURS.iter().cycle()).zip(0_u32..) {
            let at = 220.0_f64.mul_add(f64::from(column), LEFT);
            writeln!(
                out,
                "<path d=\"M{at} 46h18\" stroke=\"{colour}\" stroke-width=\"2\"/>\
                 <text x=\"{:.1}\" y=\"50\" fill=\"{colour}\">{}</text>",
                at + 26.0,
                curve.name
            )?;
            // In the order in which they stand there, which need not be that of their measurement.
            let mut points = curve.points.clone();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            let line: Vec<String> =
                points.iter().map(|&(size, value)| format!("{:.1},{:.1}", x(size), y(value))).collect();
            let line = line.join(" ");
            writeln!(
                out,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{line}\"/>"
            )?;
            for (size, value) in points {
                writeln!(
                    out,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"><title>{size} bytes: {}</title></circle>",
                    x(size),
                    y(value),
                    self.unit.label(value)
                )?;
            }
        }
        writeln!(out, "</svg>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_stands_within_the_axes() {
        let ticks = |axis: Axis| axis.ticks;
        assert_eq!(
            ticks(Axis::of_values([30.0, 700.0].into_iter())),
            [20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]
        );
        assert_eq!(ticks(Axis::of_values([0.0, 1.5].into_iter())), [1.0, 2.0]);
        assert_eq!(ticks(Axis::of_values([5.0, 5.0].into_iter())), [5.0, 10.0]);
        assert_eq!(ticks(Axis::of_sizes([0.0, 3.0].into_iter())), [1.0, 2.0, 4.0]);
        assert_eq!(ticks(Axis::of_sizes([65_536.0].into_iter())), [32_768.0, 65_536.0]);
        assert_eq!(ticks(Axis::of_sizes(std::iter::empty())).len(), 2);
        let axis = Axis::of_values([1.0, 1000.0].into_iter());
        assert!((axis.part(10.0) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!([axis.part(0.0), axis.part(1e9)], [0.0, 1.0]);
    }

    #[test]
    fn labels_have_few_digits_and_a_unit() {
        let times = [5.0, 20_000.0, 3_840_000.0, 999_900.0, 2e9].map(|value| Unit::Nanoseconds.label(value));
        assert_eq!(times, ["5 ns", "20 µs", "3.8 ms", "1.0 ms", "2 s"]);
        assert_eq!(Unit::PerSecond.label(12_345_678.0), "12 M/s");
        assert_eq!([1.0, 512.0, 65_536.0].map(size_label), ["0, 1 B", "512 B", "64 KiB"]);
    }
}
