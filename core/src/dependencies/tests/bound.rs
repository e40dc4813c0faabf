//! Many views that overlap themselves, one over another: exact to the byte where the bit maps are small, and bounded where not.

use super::model::bytes_of;
use super::*;

/// Steps that lie within each other's reach, so that runs cannot be walked.
fn entangled(offset: u64, nbytes: u64) -> View {
    View::new(offset, DType::Uint8, &[20, 40, 30], &[700, 11, 13], nbytes).unwrap()
}

/// Submits writes of one view after another, each `apart` bytes from the one before. No edge is missing; gives those too many.
fn submit_all(tracker: &mut Tracker<Boxed>, nbytes: u64, apart: u64) -> usize {
    let mut writers: BTreeMap<u64, u64> = BTreeMap::new();
    let mut too_many = 0;
    for task in 0..VIEWS {
        let view = entangled(task * apart % 4096, nbytes);
        let submitted = tracker.submit(task, [argument(0, nbytes, view, Tag::Output)]).unwrap();
        let edges: BTreeMap<u64, u64> = submitted.edges.iter().map(|edge| (edge.task, edge.byte)).collect();
        let mut expected = BTreeMap::new();
        for byte in bytes_of(&view) {
            if let Some(before) = writers.insert(byte, task) {
                expected.entry(before).or_insert(byte);
            }
        }
        assert!(expected.iter().all(|(before, byte)| edges[before] <= *byte));
        too_many += edges.iter().filter(|&(before, byte)| expected.get(before) != Some(byte)).count();
    }
    check(&tracker.state);
    too_many
}

const VIEWS: u64 = if cfg!(miri) { 3 } else { 24 };

fn room(odd_nbytes: u64) -> Tracker<Boxed> {
    let capacities = Capacities { tasks: 64, odd_nbytes: usize::try_from(odd_nbytes).unwrap(), ..AMPLE };
    tracker(Policy::Full, &capacities)
}

#[test]
fn many_views_that_overlap_themselves_are_told_apart_to_the_byte_in_64_kib() {
    for apart in [1, 77, 700] {
        let mut tracker = room(1 << 16);
        assert_eq!(submit_all(&mut tracker, 1 << 16, apart), 0);
        assert_eq!(tracker.inexact(), 0);
    }
}

#[test]
fn without_maps_no_edge_is_missing_and_those_too_many_are_counted() {
    for apart in [1, 77, 700] {
        let mut tracker = room(0);
        let too_many = submit_all(&mut tracker, 1 << 16, apart);
        assert!(cfg!(miri) || too_many > 0, "{apart}");
        assert!(u64::try_from(too_many).unwrap() <= tracker.inexact());
    }
}

#[test]
fn maps_of_a_large_backing_are_painted_within_a_bound_and_what_lies_past_it_is_counted() {
    const LARGE: u64 = 1 << 24;
    let range = |offset, n: u32| View::new(offset, DType::Uint8, &[n], &[1], LARGE).unwrap();
    let mut tracker = room(LARGE);
    // From one end to the other, so that painting one takes half a million words, of four million; then half of each is written again.
    let views = 10;
    for task in 0..views {
        let view = View::new(task * 1000, DType::Uint8, &[4, 40, 30], &[5_500_000, 11, 13], LARGE).unwrap();
        tracker.submit(task, [argument(0, LARGE, view, Tag::Output)]).unwrap();
    }
    let half = argument(0, LARGE, range(0, 6_000_000), Tag::Output);
    assert_eq!(tracker.submit(views, [half]).unwrap().edges.len(), 10);
    // The lowest that is left of some lies in maps that are short enough.
    let some = argument(0, LARGE, range(5_990_000, 5_010_000 + 2000), Tag::Input);
    let edges: BTreeMap<u64, u64> =
        tracker.look_up([some]).unwrap().iter().map(|edge| (edge.task, edge.byte)).collect();
    assert_eq!(edges, BTreeMap::from([(0, 11_000_000), (1, 11_001_000), (views, 5_990_000)]));
    assert_eq!(tracker.inexact(), 0);
    let all = argument(0, LARGE, range(0, u32::try_from(LARGE).unwrap()), Tag::Input);
    let edges: BTreeMap<u64, u64> =
        tracker.look_up([all]).unwrap().iter().map(|edge| (edge.task, edge.byte)).collect();
    assert!(edges.keys().copied().eq(0..=views));
    // The newest were painted, and so are exact.
    assert_eq!((edges[&views], edges[&(views - 1)]), (0, 11_000_000 + 1000 * (views - 1)));
    assert!((1..views).contains(&tracker.inexact()), "{}", tracker.inexact());
}
