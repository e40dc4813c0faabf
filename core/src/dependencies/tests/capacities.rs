//! Every capacity: it is named when a task would pass it, nothing has changed then, and the next task that fits is taken.

use std::string::ToString;

use super::*;
use crate::code::Code;

const SMALL: Capacities = Capacities {
    tasks: 4,
    links: 3,
    entries: 4,
    pieces: 5,
    backings: 2,
    arguments: 3,
    edges: 2,
    odd_nbytes: 0,
};

/// A range of ten bytes.
fn range(buffer: u32, place: u64, tag: Tag) -> Argument {
    argument(buffer, NBYTES, View::new(place * 10, DType::Uint8, &[10], &[1], NBYTES).unwrap(), tag)
}

fn submit(tracker: &mut Tracker<Boxed>, task: u64, arguments: &[Argument]) -> Result<Handle, SubmitError> {
    let before = counts(tracker);
    let result = tracker.submit(task, arguments.iter().copied()).map(|submitted| submitted.handle);
    if result.is_err() {
        assert_eq!(counts(tracker), before);
    }
    check(&tracker.state);
    result
}

#[test]
fn more_arguments_than_one_submit_takes_are_refused_and_those_without_dependencies_do_not_count() {
    let mut tracker = tracker(Policy::Full, &SMALL);
    let [a, b, c, d] = [0, 1, 2, 3].map(|place| range(0, place, Tag::Input));
    assert_eq!(submit(&mut tracker, 0, &[a, b, c, d]), Err(SubmitError::Arguments { capacity: 3 }));
    let free = [0, 1, 2, 3].map(|place| range(7, place, Tag::NoDep));
    let all: Vec<Argument> = [a, b, c].into_iter().chain(free).collect();
    submit(&mut tracker, 1, &all).unwrap();
    assert_eq!(counts(&tracker), [1, 3, 3, 3, 1, 0]);
}

#[test]
fn edges_and_links_have_capacities_of_their_own() {
    let mut tracker = tracker(Policy::Full, &SMALL);
    for task in 0..3 {
        submit(&mut tracker, task, &[range(0, task, Tag::Output)]).unwrap();
    }
    let all = View::new(0, DType::Uint8, &[30], &[1], NBYTES).unwrap();
    let reader = argument(0, NBYTES, all, Tag::Input);
    assert_eq!(submit(&mut tracker, 3, &[reader]), Err(SubmitError::FanIn { capacity: 2 }));
    let [first, second] = [0, 1].map(|place| range(0, place, Tag::Input));
    let waits = submit(&mut tracker, 4, &[first, second]);
    assert_eq!(waits, Err(SubmitError::Entries { needed: 2, left: 1 }));

    let mut tracker = super::tracker(Policy::Full, &Capacities { links: 1, entries: 9, pieces: 9, ..SMALL });
    for task in 0..2 {
        submit(&mut tracker, task, &[range(0, task, Tag::Output)]).unwrap();
    }
    assert_eq!(submit(&mut tracker, 2, &[first, second]), Err(SubmitError::Links { needed: 2, left: 1 }));
    submit(&mut tracker, 3, &[first]).unwrap();
    assert_eq!(submit(&mut tracker, 4, &[first]), Err(SubmitError::Links { needed: 1, left: 0 }));
}

#[test]
fn tasks_entries_and_pieces_run_out_one_by_one_and_come_back() {
    let mut tracker = tracker(Policy::Full, &SMALL);
    let rows = |offset| {
        let view = View::new(offset, DType::Uint8, &[3, 4], &[20, 1], NBYTES).unwrap();
        argument(0, NBYTES, view, Tag::Output)
    };
    // Over the end of the plane's rows: two pieces each.
    let first = submit(&mut tracker, 0, &[rows(18)]).unwrap();
    submit(&mut tracker, 1, &[rows(98)]).unwrap();
    assert_eq!(tracker.pieces(), 4);
    assert_eq!(submit(&mut tracker, 2, &[rows(178)]), Err(SubmitError::Pieces { needed: 2, left: 1 }));
    submit(&mut tracker, 2, &[]).unwrap();
    submit(&mut tracker, 3, &[]).unwrap();
    assert_eq!(submit(&mut tracker, 4, &[]), Err(SubmitError::Tasks { capacity: 4 }));
    tracker.finish(first, |_| panic!("nobody waits")).unwrap();
    submit(&mut tracker, 4, &[rows(178)]).unwrap();
    assert_eq!(counts(&tracker), [4, 2, 2, 4, 1, 0]);
}

#[test]
fn backings_with_live_views_fill_their_table_and_those_without_make_room() {
    let mut tracker = tracker(Policy::Full, &SMALL);
    let first = submit(&mut tracker, 0, &[range(1, 0, Tag::Input)]).unwrap();
    let three = [2, 3, 1].map(|buffer| range(buffer, 0, Tag::Input));
    assert_eq!(submit(&mut tracker, 1, &three), Err(SubmitError::Backings { capacity: 2 }));
    submit(&mut tracker, 1, &three[1..]).unwrap();
    assert_eq!(submit(&mut tracker, 2, &three[..1]), Err(SubmitError::Backings { capacity: 2 }));
    tracker.finish(first, |_| ()).unwrap();
    assert_eq!(
        submit(&mut tracker, 2, &three[..1]),
        Err(SubmitError::Backings { capacity: 2 }),
        "1 is read still"
    );
    tracker.release(identity(1));
    submit(&mut tracker, 2, &three[..1]).unwrap();
    assert_eq!(counts(&tracker), [2, 2, 2, 2, 2, 0]);
}

#[test]
fn every_refusal_has_its_code_and_says_its_numbers() {
    let all = [
        (SubmitError::Arguments { capacity: 3 }, Code::TrackerArguments, "at most 3 arguments"),
        (SubmitError::FanIn { capacity: 4 }, Code::TrackerFanIn, "at most 4 edges"),
        (SubmitError::Tasks { capacity: 5 }, Code::TrackerTasks, "holds 5 tasks"),
        (SubmitError::Backings { capacity: 6 }, Code::TrackerBackings, "holds 6 backings"),
        (SubmitError::Entries { needed: 7, left: 1 }, Code::TrackerEntries, "needs 7 entries"),
        (SubmitError::Pieces { needed: 8, left: 2 }, Code::TrackerPieces, "needs 8 pieces"),
        (SubmitError::Links { needed: 9, left: 3 }, Code::TrackerLinks, "3 links left"),
    ];
    for (error, code, says) in all {
        assert_eq!(error.code(), code);
        assert!(error.to_string().contains(says), "{error}");
    }
    assert_eq!(NotTracked.code(), Code::NotTracked);
    assert!(NotTracked.to_string().contains("retired"));
}

#[test]
fn storage_without_a_slot_refuses_and_never_fails() {
    let none = Capacities {
        tasks: 0,
        links: 0,
        entries: 0,
        pieces: 0,
        backings: 0,
        arguments: 0,
        edges: 0,
        odd_nbytes: 0,
    };
    let mut tracker = tracker(Policy::Full, &none);
    let read = range(0, 0, Tag::Input);
    assert_eq!(submit(&mut tracker, 0, &[read]), Err(SubmitError::Tasks { capacity: 0 }));
    assert_eq!(tracker.look_up([read]), Err(SubmitError::Backings { capacity: 0 }));
    assert_eq!(tracker.look_up([]), Ok(&[][..]));
    tracker.release(identity(0));
}

#[test]
fn a_handle_of_a_retired_task_is_refused_though_its_slot_lives_on() {
    let mut tracker = tracker(Policy::Full, &SMALL);
    let old = submit(&mut tracker, 0, &[]).unwrap();
    tracker.finish(old, |_| ()).unwrap();
    let new = submit(&mut tracker, 1, &[]).unwrap();
    assert_eq!(old.slot, new.slot);
    assert_eq!(tracker.finish(old, |_| ()), Err(NotTracked));
    assert_eq!(tracker.fail(old, 1, |_, _| ()), Err(NotTracked));
    assert_eq!(tracker.waiting(old), Err(NotTracked));
    assert_eq!(tracker.poisoned(old), Err(NotTracked));
    assert_eq!(tracker.waiting(new), Ok(0));
    assert_eq!(tracker.waiting(Edge::NONE.before), Err(NotTracked));
}

/// As firmware has it: arrays, and nothing from a heap.
#[test]
fn lent_slices_hold_a_tracker_of_32_entries() {
    let (mut tasks, mut links) = ([TaskSlot::EMPTY; 16], [LinkSlot::EMPTY; 32]);
    let (mut entries, mut groups) = ([EntrySlot::EMPTY; 32], [GroupSlot::EMPTY; 32]);
    let (mut group_buckets, mut pieces) = ([0; 32], [PieceSlot::EMPTY; 96]);
    let (mut backings, mut backing_buckets) = ([BackingSlot::EMPTY; 4], [0; 4]);
    let (mut arguments, mut edges) = ([ArgumentSlot::EMPTY; 8], [Edge::NONE; 16]);
    let mut tracker = Tracker::new(
        Policy::Full,
        KeyedHash::new([5, 6]),
        Storage::<Lent<'_>> {
            tasks: &mut tasks,
            links: &mut links,
            entries: &mut entries,
            groups: &mut groups,
            group_buckets: &mut group_buckets,
            pieces: &mut pieces,
            backings: &mut backings,
            backing_buckets: &mut backing_buckets,
            arguments: &mut arguments,
            edges: &mut edges,
            words: &mut [],
        },
    );
    let mut handles = Vec::new();
    for task in 0..16 {
        let written = range(0, task, Tag::Output);
        let read = range(0, task.saturating_sub(1), Tag::Input);
        let submitted = tracker.submit(task, [read, written]).unwrap();
        assert_eq!(submitted.edges.len(), usize::from(task > 0), "each waits for the one before");
        handles.push(submitted.handle);
    }
    // The first task's read vanished in its own write, each other's stays.
    assert_eq!((tracker.entries(), tracker.pieces(), tracker.links()), (31, 31, 15));
    for (task, &handle) in handles.iter().enumerate() {
        let mut ready = Vec::new();
        tracker.finish(handle, |next| ready.push(next.task)).unwrap();
        assert_eq!(ready, if task < 15 { vec![u64::try_from(task).unwrap() + 1] } else { vec![] });
    }
    assert_eq!((tracker.tasks(), tracker.entries(), tracker.pieces(), tracker.links()), (0, 0, 0, 0));
}
