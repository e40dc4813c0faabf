//! Views at the far end of what 32 and 64 bits can say, where the answers are arithmetic.

use super::*;

/// The largest backing.
const ALL: u64 = u64::MAX;
/// Bytes between two rows of 8-byte elements at the largest step.
const PITCH: u64 = 8 * 4_294_967_295;

fn view(offset: u64, dtype: DType, shapes: &[u32], strides: &[u32]) -> View {
    View::new(offset, dtype, shapes, strides, ALL).unwrap()
}

fn byte(at: u64) -> View {
    view(at, DType::Uint8, &[1], &[1])
}

struct Story {
    tracker: Tracker<Boxed>,
    next: u64,
}

impl Story {
    fn new() -> Self {
        Self { tracker: tracker(Policy::Full, &AMPLE), next: 0 }
    }

    /// The edges of a task that does that with a view: the number before, the hazard and the byte.
    fn does(&mut self, tag: Tag, view: View) -> Vec<(u64, &'static str, u64)> {
        let submitted = self.tracker.submit(self.next, [argument(0, ALL, view, tag)]).unwrap();
        let mut edges: Vec<_> = submitted.edges.iter().map(|e| (e.task, e.hazard.name(), e.byte)).collect();
        edges.sort_unstable();
        self.next += 1;
        check(&self.tracker.state);
        assert_eq!(self.tracker.inexact(), 0);
        edges
    }

    fn reads(&mut self, view: View) -> Vec<(u64, u64)> {
        let edges = self.does(Tag::Input, view);
        assert!(edges.iter().all(|&(_, hazard, _)| hazard == "raw"));
        edges.into_iter().map(|(task, _, byte)| (task, byte)).collect()
    }
}

#[test]
fn ranges_at_the_end_of_64_bits_meet_only_where_they_do() {
    let mut story = Story::new();
    // Up to the last byte that a view can have.
    let last = ALL - 1;
    assert!(story.does(Tag::Output, view(last - 99, DType::Uint8, &[100], &[1])).is_empty());
    assert!(story.does(Tag::Output, byte(0)).is_empty());
    assert_eq!(story.reads(byte(last)), [(0, last)]);
    assert!(story.reads(byte(last - 100)).is_empty());
    assert_eq!(story.reads(view(last - 199, DType::Uint8, &[200], &[1])), [(0, last - 99)]);
    // Written once more but for its first and last byte.
    assert_eq!(
        story.does(Tag::Output, view(last - 98, DType::Uint8, &[98], &[1])),
        [(0, "waw", last - 98), (4, "war", last - 98)]
    );
    assert_eq!(story.reads(view(last - 99, DType::Uint8, &[100], &[1])), [(0, last - 99), (5, last - 98)]);
}

#[test]
fn rows_of_the_largest_step_and_count_are_tiles_like_any() {
    let mut story = Story::new();
    let rows = u32::MAX / 8 - 1;
    let offset = ALL - 1 - PITCH * u64::from(rows - 1) - 16_000;
    let tile = |offset, elements| view(offset / 8 * 8, DType::Int64, &[rows, elements], &[u32::MAX, 1]);
    let whole = tile(offset, 2000);
    let first = whole.byte_offset();
    let in_last_row = first + PITCH * u64::from(rows - 1);
    assert!(story.does(Tag::Output, whole).is_empty());
    assert_eq!(story.reads(byte(in_last_row + 15_999)), [(0, in_last_row + 15_999)]);
    assert!(story.reads(byte(in_last_row - 1)).is_empty());
    assert!(story.reads(byte(first + 16_000)).is_empty());
    // The right half of the columns, then a range over the first two rows.
    assert_eq!(
        story.does(Tag::Output, tile(first + 8000, 1000)),
        [(0, "waw", first + 8000), (1, "war", in_last_row + 15_999)]
    );
    assert_eq!(story.reads(byte(in_last_row + 15_999)), [(4, in_last_row + 15_999)]);
    assert_eq!(story.reads(byte(in_last_row + 7_999)), [(0, in_last_row + 7_999)]);
    let two_rows = view(first / 8 * 8, DType::Int64, &[u32::MAX, 2], &[1, u32::MAX]);
    assert_eq!(
        story.does(Tag::Output, two_rows),
        [(0, "waw", first), (3, "war", first + 16_000), (4, "waw", first + 8000)]
    );
    assert_eq!(story.reads(whole), [(0, first + 2 * PITCH), (4, first + 2 * PITCH + 8000), (7, first)]);
}

#[test]
fn rows_of_another_pitch_hide_what_lies_under_them_at_any_distance() {
    let mut story = Story::new();
    let base = ALL - 1 - (1 << 50);
    // Eight rows of the largest pitch; rows of half of it cover them and as many gaps.
    let wide = view(base / 8 * 8, DType::Int64, &[8, 1000], &[u32::MAX, 1]);
    let first = wide.byte_offset();
    let narrow = view(first, DType::Float32, &[15, 1500], &[u32::MAX, 1]);
    assert!(story.does(Tag::Output, wide).is_empty());
    assert_eq!(story.does(Tag::Output, narrow), [(0, "waw", first)]);
    assert_eq!(story.reads(wide), [(0, first + 6000), (1, first)]);
    assert_eq!(story.reads(view(first, DType::Int64, &[8, 750], &[u32::MAX, 1])), [(1, first)]);
    assert_eq!(story.reads(byte(first + 7 * PITCH + 5_999)), [(1, first + 7 * PITCH + 5_999)]);
    assert_eq!(story.reads(byte(first + 7 * PITCH + 6_000)), [(0, first + 7 * PITCH + 6_000)]);
    assert!(story.reads(byte(first + PITCH + PITCH / 2 + 6_000)).is_empty());
}

#[test]
fn a_step_of_one_byte_less_than_a_row_of_four_billion_is_no_range() {
    let mut story = Story::new();
    // Every second byte of 2^33 - 3 of them: rows of one byte, four billion.
    let even = view(1 << 40, DType::Uint8, &[u32::MAX], &[2]);
    let odd = view((1 << 40) + 1, DType::Uint8, &[u32::MAX], &[2]);
    assert!(story.does(Tag::Output, even).is_empty());
    assert!(story.does(Tag::Output, odd).is_empty());
    let last = even.end() - 1;
    assert_eq!(story.reads(byte(last)), [(0, last)]);
    assert_eq!(story.reads(byte(last - 1)), [(1, last - 1)]);
    assert_eq!(
        story.does(Tag::Output, view(1 << 40, DType::Uint8, &[4], &[1])),
        [(0, "waw", 1 << 40), (1, "waw", (1 << 40) + 1)]
    );
    assert_eq!(story.reads(even), [(0, (1 << 40) + 4), (4, 1 << 40)]);
}

#[test]
fn a_walk_past_its_bound_gives_the_safe_answer_and_is_counted() {
    let mut story = Story::new();
    let wide = view(0, DType::Int64, &[1 << 24, 4], &[64, 1]);
    story.does(Tag::Output, wide);
    // Two writes of half the pitch, each of half the rows' bytes: no single one hides it, both together do.
    for half in 0..2 {
        let rows = view(half * 16, DType::Int64, &[1 << 25, 2], &[32, 1]);
        assert_eq!(story.does(Tag::Output, rows), [(0, "waw", half * 16)]);
    }
    let before = story.tracker.inexact();
    let edges = story.tracker.look_up([argument(0, ALL, wide, Tag::Input)]).unwrap().to_vec();
    assert!((2..=3).contains(&edges.len()), "{edges:?}");
    assert_eq!(story.tracker.inexact() - before, u64::from(edges.len() == 3));
    // Of a part of it the walk is short, and exact.
    let part = view(0, DType::Int64, &[1 << 12, 4], &[64, 1]);
    let exact = story.tracker.look_up([argument(0, ALL, part, Tag::Input)]).unwrap().to_vec();
    assert_eq!(exact.iter().map(|edge| edge.task).collect::<BTreeSet<_>>(), BTreeSet::from([1, 2]));
}
