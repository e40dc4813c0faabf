//! Groups that lose a piece, and equal views that come afterwards: they must not find what is left for the whole.

use super::*;

/// What happens: a tag and a view, and the edges that are expected by task, hazard and byte.
type Row<'a> = (Tag, View, &'a [(u64, Hazard, u64)]);

fn dense(offset: u64, end: u64) -> View {
    View::new(offset, DType::Uint8, &[u32::try_from(end - offset).unwrap()], &[1], 4096).unwrap()
}

/// Four rows, 64 bytes from one to the next, that meet none of the ranges: the home gets its pitch of them.
fn rows() -> View {
    View::new(1024, DType::Uint8, &[4, 8], &[64, 1], 4096).unwrap()
}

fn tell(story: &[Row<'_>]) {
    let mut tracker = tracker(Policy::Full, &AMPLE);
    for (task, (tag, view, expected)) in (0..).zip(story) {
        let submitted = tracker.submit(task, [argument(0, 4096, *view, *tag)]).unwrap();
        let mut edges: Vec<_> = submitted.edges.iter().map(|e| (e.task, e.hazard, e.byte)).collect();
        edges.sort_unstable();
        assert_eq!(edges, *expected, "task {task}");
        check(&tracker.state);
    }
}

#[test]
fn a_range_that_lost_one_of_its_pieces_is_written_again_with_all_its_bytes() {
    use Hazard::{ReadAfterWrite as Raw, WriteAfterWrite as Waw};
    // The end of the first row, whole rows, the start of the last: each exactly a piece of 32..224.
    for (from, to) in [(32, 64), (64, 192), (192, 224)] {
        let others: [(u64, Hazard, u64); 2] = [(1, Waw, if from == 32 { 64 } else { 32 }), (2, Waw, from)];
        tell(&[
            (Tag::Output, rows(), &[]),
            (Tag::Output, dense(32, 224), &[]),
            (Tag::Output, dense(from, to), &[(1, Waw, from)]),
            (Tag::Output, dense(32, 224), &others),
            (Tag::Input, dense(from + 8, from + 9), &[(3, Raw, from + 8)]),
        ]);
    }
}

#[test]
fn a_range_that_lost_one_of_its_pieces_is_read_again_with_all_its_bytes() {
    use Hazard::{ReadAfterWrite as Raw, WriteAfterRead as War, WriteAfterWrite as Waw};
    for (from, to) in [(32, 64), (64, 192), (192, 224)] {
        tell(&[
            (Tag::Output, rows(), &[]),
            (Tag::Input, dense(32, 224), &[]),
            (Tag::Output, dense(from, to), &[(1, War, from)]),
            (Tag::Input, dense(32, 224), &[(2, Raw, from)]),
            (Tag::Output, dense(from + 8, from + 9), &[(2, Waw, from + 8), (3, War, from + 8)]),
        ]);
    }
}

#[test]
fn a_range_whose_pieces_the_rows_gave_it_late_loses_them_like_any() {
    use Hazard::{ReadAfterWrite as Raw, WriteAfterWrite as Waw};
    tell(&[
        (Tag::Output, dense(32, 224), &[]),
        (Tag::Output, rows(), &[]),
        (Tag::Output, dense(64, 192), &[(0, Waw, 64)]),
        (Tag::Output, dense(32, 224), &[(0, Waw, 32), (2, Waw, 64)]),
        (Tag::Input, dense(100, 101), &[(3, Raw, 100)]),
    ]);
}

#[test]
fn a_range_of_which_rows_of_another_pitch_cover_a_piece_is_written_again_with_all_its_bytes() {
    use Hazard::{ReadAfterWrite as Raw, WriteAfterWrite as Waw};
    // Rows of 300 bytes cover 32..64, which is a piece, and nothing else of the range.
    let other = View::new(0, DType::Uint8, &[2, 64], &[300, 1], 4096).unwrap();
    tell(&[
        (Tag::Output, rows(), &[]),
        (Tag::Output, dense(32, 224), &[]),
        (Tag::Output, other, &[(1, Waw, 32)]),
        (Tag::Output, dense(32, 224), &[(1, Waw, 64), (2, Waw, 32)]),
        (Tag::Input, dense(40, 41), &[(3, Raw, 40)]),
    ]);
}
