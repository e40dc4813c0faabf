//! Rectangles in a plane, and what is left of one when another is cut out of it.

/// Columns `left..right` of rows `top..bottom`; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) left: u64,
    pub(super) right: u64,
    pub(super) top: u64,
    pub(super) bottom: u64,
}

impl Area {
    pub(super) const EMPTY: Self = Self { left: 0, right: 0, top: 0, bottom: 0 };

    /// The two have a point in common.
    #[inline]
    pub(super) const fn meets(&self, other: &Self) -> bool {
        // Without branches: which of the four decides cannot be predicted.
        (self.left < other.right)
            & (other.left < self.right)
            & (self.top < other.bottom)
            & (other.top < self.bottom)
    }

    /// All of `other` lies in it.
    #[inline]
    pub(super) const fn contains(&self, other: &Self) -> bool {
        (self.left <= other.left)
            & (other.right <= self.right)
            & (self.top <= other.top)
            & (other.bottom <= self.bottom)
    }

    /// The smallest that contains both.
    #[inline]
    pub(super) fn hull(&self, other: &Self) -> Self {
        Self {
            left: self.left.min(other.left),
            right: self.right.max(other.right),
            top: self.top.min(other.top),
            bottom: self.bottom.max(other.bottom),
        }
    }

    /// What is left of it without `other`, which it meets: whole rows above and below, and the sides between. `None` are
    /// empty.
    pub(super) fn without(&self, other: &Self) -> [Option<Self>; 4] {
        let (top, bottom) = (self.top.max(other.top), self.bottom.min(other.bottom));
        [
            Self { bottom: top, ..*self },
            Self { right: other.left.max(self.left), top, bottom, ..*self },
            Self { left: other.right.min(self.right), top, bottom, ..*self },
            Self { top: bottom, ..*self },
        ]
        .map(|rest| (rest.left < rest.right && rest.top < rest.bottom).then_some(rest))
    }
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]
mod tests {
    use super::*;

    fn intervals() -> impl Iterator<Item = (u64, u64)> + Clone {
        (0..5_u64).flat_map(|from| (from + 1..6).map(move |to| (from, to)))
    }

    #[test]
    fn what_is_left_is_disjoint_and_is_all_that_the_other_does_not_have() {
        let whole = Area { left: 1, right: 4, top: 1, bottom: 5 };
        for (left, right) in intervals() {
            for (top, bottom) in intervals() {
                let other = Area { left, right, top, bottom };
                let has = |area: &Area, x: u64, y: u64| {
                    area.meets(&Area { left: x, right: x + 1, top: y, bottom: y + 1 })
                };
                if !whole.meets(&other) {
                    continue;
                }
                let rest = whole.without(&other);
                assert_eq!(rest.iter().flatten().count() == 0, other.contains(&whole));
                for x in 0..6 {
                    for y in 0..6 {
                        let times = rest.iter().flatten().filter(|area| has(area, x, y)).count();
                        let expected = has(&whole, x, y) && !has(&other, x, y);
                        assert_eq!(times, usize::from(expected), "{whole:?} without {other:?} at {x}, {y}");
                    }
                }
            }
        }
    }
}
