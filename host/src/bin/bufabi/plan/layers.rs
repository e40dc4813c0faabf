//! Where the tasks of a graph stand in a picture: in layers, so that every arrow points down and few of them cross.
//!
//! A task stands one layer below the lowest that it waits for. An arrow over several layers passes through a point in each
//! between. Layers are put in order by the mean places of what their points hang on, downwards and upwards in turn, and then points
//! are drawn to above and below what they hang on as far as their neighbours allow.

/// Rounds of putting in order, and of drawing together.
const ROUNDS: usize = 12;
/// Room between two points of a layer.
const GAP: f64 = 24.0;
/// Points in arrows, at most. Past it arrows cross whatever they cross.
const BENDS: usize = 20_000;

/// A task, or a bend of an arrow.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) layer: usize,
    /// Its middle, from the left.
    pub(super) x: f64,
    width: f64,
    above: Vec<usize>,
    below: Vec<usize>,
}

/// The picture's points: tasks first, by their numbers, then bends.
#[derive(Debug)]
pub(super) struct Layers {
    pub(super) points: Vec<Point>,
    /// For each arrow, the points that it goes through, from above to below.
    pub(super) routes: Vec<Vec<usize>>,
    pub(super) count: usize,
    pub(super) width: f64,
}

impl Layers {
    /// The picture of tasks of those widths, in an order in which every arrow `(before, after)` points forwards.
    pub(super) fn new(widths: &[f64], arrows: &[(usize, usize)]) -> Self {
        let mut depths = vec![0_usize; widths.len()];
        for &(before, after) in arrows {
            // Arrows come by the task that waits, so the depth of the one before is final.
            let below = depths.get(before).copied().unwrap_or(0).saturating_add(1);
            if let Some(depth) = depths.get_mut(after) {
                *depth = below.max(*depth);
            }
        }
        let point = |(&width, &layer): (&f64, &usize)| Point {
            layer,
            x: 0.0,
            width,
            above: Vec::new(),
            below: Vec::new(),
        };
        let points: Vec<Point> = widths.iter().zip(&depths).map(point).collect();
        let count = depths.iter().max().map_or(0, |deepest| deepest.saturating_add(1));
        let mut layers = Self { points, routes: Vec::new(), count, width: 0.0 };
        for &(before, after) in arrows {
            layers.add_route(before, after);
        }
        layers.place();
        layers
    }

    fn layer_of(&self, point: usize) -> usize {
        self.points.get(point).map_or(0, |point| point.layer)
    }

    fn add_route(&mut self, before: usize, after: usize) {
        let mut route = vec![before];
        let between = self.layer_of(before).saturating_add(1)..self.layer_of(after);
        for layer in between {
            if self.points.len() < BENDS {
                route.push(self.points.len());
                self.points.push(Point { layer, x: 0.0, width: 0.0, above: Vec::new(), below: Vec::new() });
            }
        }
        route.push(after);
        for pair in route.windows(2) {
            if let &[above, below] = pair {
                if let Some(point) = self.points.get_mut(above) {
                    point.below.push(below);
                }
                if let Some(point) = self.points.get_mut(below) {
                    point.above.push(above);
                }
            }
        }
        self.routes.push(route);
    }

    fn place(&mut self) {
        let mut rows: Vec<Vec<usize>> = vec![Vec::new(); self.count];
        for (index, point) in self.points.iter().enumerate() {
            if let Some(row) = rows.get_mut(point.layer) {
                row.push(index);
            }
        }
        rows.iter().for_each(|row| self.pack(row));
        for round in 0..ROUNDS {
            let downwards = round % 2 == 0;
            self.in_turn(&mut rows, downwards, |layers, row| {
                let mut wanted: Vec<(f64, usize)> =
                    row.iter().map(|&point| (layers.wanted(point, downwards), point)).collect();
                wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
                row.clear();
                row.extend(wanted.into_iter().map(|(_, point)| point));
                layers.pack(row);
            });
        }
        for round in 0..ROUNDS {
            let downwards = round % 2 == 0;
            self.in_turn(&mut rows, downwards, |layers, row| layers.draw_together(row, downwards));
        }
        let left = self.points.iter().map(|point| point.x - point.width / 2.0).fold(0.0, f64::min);
        self.points.iter_mut().for_each(|point| point.x -= left);
        self.width = self.points.iter().map(|point| point.x + point.width / 2.0).fold(0.0, f64::max);
    }

    fn in_turn(
        &mut self,
        rows: &mut [Vec<usize>],
        downwards: bool,
        mut each: impl FnMut(&mut Self, &mut Vec<usize>),
    ) {
        if downwards {
            rows.iter_mut().for_each(|row| each(self, row));
        } else {
            rows.iter_mut().rev().for_each(|row| each(self, row));
        }
    }

    /// Puts the points of a row side by side, the row's middle at 0.
    fn pack(&mut self, row: &[usize]) {
        let mut x = 0.0;
        for &index in row {
            if let Some(point) = self.points.get_mut(index) {
                point.x = x + point.width / 2.0;
                x += point.width + GAP;
            }
        }
        let middle = (x - GAP) / 2.0;
        for &index in row {
            if let Some(point) = self.points.get_mut(index) {
                point.x -= middle;
            }
        }
    }

    /// The mean place of what a point hangs on, above it or below it; its own when that is nothing.
    fn wanted(&self, index: usize, above: bool) -> f64 {
        let Some(point) = self.points.get(index) else { return 0.0 };
        let hangs_on = if above { &point.above } else { &point.below };
        let places = hangs_on.iter().filter_map(|&other| self.points.get(other)).map(|other| other.x);
        let (sum, count) = places.fold((0.0, 0.0), |(sum, count), x| (sum + x, count + 1.0));
        if count > 0.0 { sum / count } else { point.x }
    }

    /// Draws the points of a row to where they want to be, keeping order and gaps: half way between what pushing to the right and
    /// pushing to the left gives.
    fn draw_together(&mut self, row: &[usize], above: bool) {
        let wanted: Vec<f64> = row.iter().map(|&point| self.wanted(point, above)).collect();
        let widths: Vec<f64> =
            row.iter().map(|&point| self.points.get(point).map_or(0.0, |point| point.width)).collect();
        let mut rightwards = wanted.clone();
        let mut edge = f64::NEG_INFINITY;
        for (x, width) in rightwards.iter_mut().zip(&widths) {
            *x = x.max(edge + GAP + width / 2.0);
            edge = *x + width / 2.0;
        }
        let mut leftwards = wanted;
        let mut edge = f64::INFINITY;
        for (x, width) in leftwards.iter_mut().zip(&widths).rev() {
            *x = x.min(edge - GAP - width / 2.0);
            edge = *x - width / 2.0;
        }
        for ((&index, right), left) in row.iter().zip(rightwards).zip(leftwards) {
            if let Some(point) = self.points.get_mut(index) {
                point.x = f64::midpoint(right, left);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_point_down_and_no_two_tasks_meet() {
        let widths = [60.0, 100.0, 40.0, 80.0, 50.0, 70.0, 90.0];
        let arrows = [(0, 2), (1, 2), (0, 3), (2, 4), (3, 4), (0, 5), (4, 5), (1, 6), (5, 6)];
        let layers = Layers::new(&widths, &arrows);
        assert_eq!(layers.count, 5);
        for (route, (before, after)) in layers.routes.iter().zip(arrows) {
            assert_eq!((route.first(), route.last()), (Some(&before), Some(&after)));
            assert!(route.windows(2).all(|pair| layers.layer_of(pair[0]) + 1 == layers.layer_of(pair[1])));
        }
        for (i, a) in layers.points.iter().enumerate() {
            assert!(a.x - a.width / 2.0 >= 0.0 && a.x + a.width / 2.0 <= layers.width);
            for b in layers.points.iter().skip(i + 1).filter(|b| b.layer == a.layer) {
                assert!((a.x - b.x).abs() + 1e-6 >= f64::midpoint(a.width, b.width) + GAP, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn no_task_is_a_picture_too() {
        let layers = Layers::new(&[], &[]);
        assert_eq!((layers.count, layers.points.len()), (0, 0));
        assert_eq!(Layers::new(&[10.0, 20.0], &[]).count, 1);
    }
}
