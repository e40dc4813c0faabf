//! Views written again and again: nothing grows beyond an entry for each live pair of task and view. And views at the far end
//! of what 32 and 64 bits can say.

use super::*;

const ROUNDS: u64 = if cfg!(miri) { 8 } else { 120 };

fn dense(offset: u64, nbytes: u32) -> View {
    View::new(offset, DType::Uint8, &[nbytes], &[1], NBYTES).unwrap()
}

fn rows(offset: u64, rows: u32, run: u32, pitch: u32) -> View {
    View::new(offset, DType::Uint8, &[rows, run], &[pitch, 1], NBYTES).unwrap()
}

/// Every second byte of rows, which is no range and no tile.
fn odd(offset: u64) -> View {
    View::new(offset, DType::Uint8, &[3, 5, 4], &[70, 12, 2], NBYTES).unwrap()
}

/// What is written round after round: name, views of a round, and the most pieces that they can be cut into.
fn rounds() -> Vec<(&'static str, Vec<View>)> {
    let tiles = |pitch: u32, wide: u32| -> Vec<View> {
        let columns = pitch / wide;
        (0..2 * columns)
            .map(|i| rows(u64::from(i % columns * wide + i / columns * 4 * pitch), 4, wide, pitch))
            .collect()
    };
    let transposed = View::new(0, DType::Int16, &[10, 10], &[1, 10], NBYTES).unwrap();
    vec![
        ("the same range", vec![dense(10, 100)]),
        (
            "nested ranges, outermost first",
            (0..20).map(|i| dense(i, 200 - 2 * u32::try_from(i).unwrap())).collect(),
        ),
        (
            "nested ranges, innermost first",
            (0..20).rev().map(|i| dense(i, 200 - 2 * u32::try_from(i).unwrap())).collect(),
        ),
        ("ranges that move", (0..30).map(|i| dense(3 * i, 40)).collect()),
        ("tiles", tiles(20, 4)),
        ("tiles, then all of it", tiles(20, 5).into_iter().chain([dense(0, 200)]).collect()),
        ("all of it, then nested tiles", vec![dense(0, 200), rows(0, 10, 16, 20), rows(42, 4, 8, 20)]),
        ("tiles of three pitches", [tiles(20, 5), tiles(24, 8), tiles(16, 4)].concat()),
        ("tiles of six pitches", [20, 24, 16, 18, 12, 30].map(|pitch| tiles(pitch, pitch / 2)).concat()),
        ("a transposed view and its rows", vec![transposed, dense(0, 20), transposed]),
        ("odd views", vec![odd(0), odd(1), odd(7), dense(0, 40)]),
        ("odd views and tiles", [tiles(20, 10), vec![odd(3)], tiles(24, 12), vec![odd(4)]].concat()),
    ]
}

/// Counts after every tenth of the rounds are no larger than after the first tenth.
fn does_not_grow(name: &str, history: &[[u32; 6]]) {
    let tenth = history.len() / 10 + 1;
    let most = |counts: &[[u32; 6]]| {
        counts.iter().fold([0; 6], |most, counts| {
            let mut most: [u32; 6] = most;
            most.iter_mut().zip(counts).for_each(|(most, &count)| *most = (*most).max(count));
            most
        })
    };
    let (first, all) = (most(&history[..2 * tenth]), most(history));
    assert_eq!(first, all, "{name}: tasks, entries, groups, pieces, backings, links");
}

const LONG: Capacities = Capacities { tasks: 32_768, links: 1 << 20, entries: 4096, pieces: 8192, ..AMPLE };

#[test]
fn views_written_again_and_again_do_not_grow_while_a_few_tasks_are_live() {
    for (name, views) in rounds() {
        let mut tracker = tracker(Policy::Full, &LONG);
        let (mut live, mut history) = (std::collections::VecDeque::new(), Vec::new());
        for round in 0..ROUNDS {
            for (view, tag) in views.iter().flat_map(|&view| [(view, Tag::Output), (view, Tag::Input)]) {
                let submitted = tracker.submit(round, [argument(0, NBYTES, view, tag)]).unwrap();
                live.push_back(submitted.handle);
                if live.len() > 100 {
                    tracker.finish(live.pop_front().unwrap(), |_| ()).unwrap();
                }
            }
            history.push(counts(&tracker));
        }
        check(&tracker.state);
        assert_eq!(tracker.inexact(), 0, "{name}");
        // A hundred tasks fill up over the first rounds.
        does_not_grow(name, &history[(ROUNDS / 4).try_into().unwrap()..]);
    }
}

#[test]
fn what_is_overwritten_needs_no_entry_though_no_task_is_ever_retired() {
    for (name, views) in rounds() {
        let mut tracker = tracker(Policy::Full, &LONG);
        let mut history = Vec::new();
        let rounds = ROUNDS / 4;
        for round in 0..rounds {
            for &view in &views {
                tracker.submit(round, [argument(0, NBYTES, view, Tag::Output)]).unwrap();
            }
            let [_, entries, groups, pieces, backings, _] = counts(&tracker);
            history.push([0, entries, groups, pieces, backings, 0]);
        }
        check(&tracker.state);
        does_not_grow(name, &history);
        let [_, entries, ..] = counts(&tracker);
        assert!(usize::try_from(entries).unwrap() <= 2 * views.len(), "{name}: {entries} entries");
    }
}

#[test]
fn writes_retired_before_what_they_hide_do_not_pile_up() {
    for (name, views) in rounds() {
        let mut tracker = tracker(Policy::Producers, &LONG);
        // It stays for ever, and everything is written over it.
        tracker.submit(0, [argument(0, NBYTES, odd(2), Tag::Output)]).unwrap();
        let mut history = Vec::new();
        for round in 0..ROUNDS {
            for &view in &views {
                let submitted = tracker.submit(round, [argument(0, NBYTES, view, Tag::Output)]).unwrap();
                let handle = submitted.handle;
                tracker.finish(handle, |_| ()).unwrap();
            }
            history.push(counts(&tracker));
        }
        check(&tracker.state);
        does_not_grow(name, &history);
    }
}

#[test]
fn the_same_view_over_and_over_is_one_group_with_one_piece() {
    let mut tracker = tracker(Policy::Full, &AMPLE);
    for task in 0..50 {
        tracker.submit(task, [argument(0, NBYTES, rows(3, 4, 5, 20), Tag::Inout)]).unwrap();
        assert_eq!(counts(&tracker)[1..4], [1, 1, 1]);
    }
    for task in 50..60 {
        // Transposed, and of other elements, the same bytes.
        let view = View::new(3, DType::Int8, &[5, 1, 4], &[1, 9, 20], NBYTES).unwrap();
        tracker.submit(task, [argument(0, NBYTES, view, Tag::Input)]).unwrap();
    }
    assert_eq!(counts(&tracker)[1..4], [11, 2, 2]);
}
