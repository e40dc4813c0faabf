//! The tracker against its definition: random sequences of everything that can happen to one.

mod bound;
mod capacities;
mod extremes;
mod growth;
mod model;
mod whole;

use core::fmt::Debug;
use core::num::NonZeroU32;
use std::boxed::Box;
use std::collections::{BTreeMap, BTreeSet};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::backing::Kind;
use super::pool::NONE;
use super::*;
use crate::rights::Tag;
use crate::view::View;
use crate::wire::dtype::DType;
use crate::wire::identity::OwnerInstanceId;
use model::{Edges, Model};

/// Memory of the heap.
#[derive(Debug)]
struct Boxed;

impl Memory for Boxed {
    type Of<T: Clone + Debug + 'static> = Box<[T]>;
}

impl Allocate for Boxed {
    fn filled<T: Clone + Debug + 'static>(value: T, len: usize) -> Box<[T]> {
        vec![value; len].into()
    }
}

fn tracker(policy: Policy, capacities: &Capacities) -> Tracker<Boxed> {
    Tracker::new(policy, KeyedHash::new([3, 4]), Storage::allocate(capacities))
}

fn identity(number: u32) -> Identity {
    Identity::new(OwnerInstanceId([9; 8]), u64::from(number), NonZeroU32::MIN)
}

fn argument(buffer: u32, nbytes: u64, view: View, tag: Tag) -> Argument {
    Argument { identity: identity(buffer), nbytes, view, tag, rank: buffer }
}

/// Bytes of every backing in these tests.
const NBYTES: u64 = 240;

fn ranges() -> impl Strategy<Value = View> {
    (0..NBYTES, 1..90_u32).prop_map(|(offset, n)| {
        let n = u64::from(n).min(NBYTES - offset);
        View::new(offset, DType::Uint8, &[u32::try_from(n).unwrap()], &[1], NBYTES).unwrap()
    })
}

/// Rows of one of six pitches, at times over the end of a row.
fn tiles() -> impl Strategy<Value = View> {
    (prop::sample::select(vec![12_u32, 16, 20, 24, 30, 9]), 0..60_u64, 1..9_u32, 2..9_u32).prop_map(
        |(pitch, offset, run, rows)| {
            let rows = rows.min(u32::try_from(NBYTES - offset - u64::from(run)).unwrap() / pitch + 1);
            View::new(offset, DType::Uint8, &[rows, run], &[pitch, 1], NBYTES).unwrap()
        },
    )
}

/// Tiles that lie on a grid, so that they meet again and again.
fn grid_tiles() -> impl Strategy<Value = View> {
    (0..4_u64, 0..3_u64, 1..3_u32, 1..3_u32).prop_map(|(column, row, wide, high)| {
        let (wide, high) =
            (wide.min(4 - u32::try_from(column).unwrap()), high.min(3 - u32::try_from(row).unwrap()));
        View::new(column * 5 + row * 80, DType::Uint8, &[4 * high, 5 * wide], &[20, 1], NBYTES).unwrap()
    })
}

/// Anything, in any order of dimensions.
fn odd_views() -> impl Strategy<Value = View> {
    let dimensions = prop::collection::vec((1..5_u32, 1..25_u32), 1..6);
    (prop::sample::select(DType::ALL.to_vec()), 0..40_u64, dimensions).prop_map(
        |(dtype, offset, dimensions)| {
            let size = u64::from(dtype.size());
            let offset = offset * size % 64;
            let (mut shapes, strides): (Vec<u32>, Vec<u32>) = dimensions.into_iter().unzip();
            loop {
                match View::new(offset, dtype, &shapes, &strides, NBYTES) {
                    Ok(view) => return view,
                    Err(_) => {
                        let largest =
                            (0..shapes.len()).max_by_key(|&i| (shapes[i] - 1) * strides[i]).unwrap();
                        shapes[largest] -= 1;
                    }
                }
            }
        },
    )
}

fn views() -> impl Strategy<Value = View> {
    prop_oneof![3 => ranges(), 3 => tiles(), 2 => grid_tiles(), 2 => odd_views()]
}

/// Ranges as rows of one pitch cut them: the end of a row, whole rows, the start of a row, and any two or three of them that
/// lie side by side.
fn cut_ranges(pitch: u32) -> impl Strategy<Value = View> {
    let parts = prop::sample::select(vec![
        [1, 0, 0],
        [0, 1, 0],
        [0, 0, 1],
        [1, 1, 0],
        [0, 1, 1],
        [1, 0, 1],
        [1, 1, 1],
    ]);
    // Few columns, so that one range's rows end where another's do.
    let columns =
        (prop::sample::select(vec![1, pitch / 2, pitch - 1]), prop::sample::select(vec![1, pitch / 2]));
    (1..6_u32, 1..3_u32, columns, parts).prop_map(move |(top, rows, (end, start), [first, whole, last])| {
        let offset = top * pitch - first * end;
        let n = first * end + whole * rows * pitch + last * start;
        View::new(u64::from(offset), DType::Uint8, &[n], &[1], NBYTES).unwrap()
    })
}

/// A few views that come again and again: ranges as rows of a pitch cut them, rows of that pitch, and perhaps others. What is
/// written first are ranges, so that rows give their home its pitch when it has pieces.
fn repeated_steps() -> impl Strategy<Value = Vec<Step>> {
    let views = prop::sample::select(vec![12_u32, 16, 24]).prop_flat_map(|pitch| {
        let rows = (1..3_u64, 0..4_u64, 1..9_u32, 2..6_u32).prop_map(move |(top, column, run, rows)| {
            let offset = top * u64::from(pitch) + column;
            View::new(offset, DType::Uint8, &[rows, run], &[pitch, 1], NBYTES).unwrap()
        });
        let others = prop_oneof![4 => cut_ranges(pitch), 2 => rows, 1 => views()];
        (prop::collection::vec(cut_ranges(pitch), 2..6), prop::collection::vec(others, 1..5))
    });
    let step =
        (0..10_u32, any::<usize>(), prop::collection::vec(prop::sample::select(Tag::ALL.to_vec()), 1..3));
    (views, prop::collection::vec(step, 1..60), 0..12_usize).prop_map(|((ranges, others), steps, late)| {
        let all = [ranges.as_slice(), &others].concat();
        let mut place = 0;
        let mut step = |(action, chosen, tags): (u32, usize, Vec<Tag>)| {
            let views = if place < late { &ranges } else { &all };
            place += 1;
            match action {
                0 => Step::Finish(chosen),
                _ => Step::Submit(
                    tags.into_iter()
                        .zip(0..)
                        .map(|(tag, nth)| {
                            argument(0, NBYTES, views[chosen.wrapping_add(nth) % views.len()], tag)
                        })
                        .collect(),
                ),
            }
        };
        steps.into_iter().map(&mut step).collect()
    })
}

/// Something that happens to a tracker.
#[derive(Clone, Debug)]
enum Step {
    Submit(Vec<Argument>),
    Finish(usize),
    Fail(usize),
    Release(u32),
}

fn steps(views: impl Strategy<Value = View> + 'static, buffers: u32) -> impl Strategy<Value = Vec<Step>> {
    let arguments = (views, 0..buffers, prop::sample::select(Tag::ALL.to_vec()))
        .prop_map(|(view, buffer, tag)| argument(buffer, NBYTES, view, tag));
    let step = prop_oneof![
        10 => prop::collection::vec(arguments, 1..5).prop_map(Step::Submit),
        4 => any::<usize>().prop_map(Step::Finish),
        1 => any::<usize>().prop_map(Step::Fail),
        1 => (0..4 * buffers).prop_map(Step::Release),
    ];
    prop::collection::vec(step, 1..60)
}

/// A tracker and its model, step by step.
struct Pair {
    tracker: Tracker<Boxed>,
    model: Model,
    handles: BTreeMap<u64, Handle>,
    submitted: u64,
    refused: BTreeMap<i32, u32>,
}

fn edges_of(edges: &[Edge]) -> Edges {
    let mut all = Edges::new();
    for edge in edges {
        assert_eq!(edge.identity, identity(edge.rank));
        assert!(all.insert((edge.task, edge.hazard), (edge.rank, edge.byte)).is_none(), "twice: {edge:?}");
    }
    all
}

impl Pair {
    fn new(policy: Policy, capacities: &Capacities) -> Self {
        Self {
            tracker: tracker(policy, capacities),
            model: Model::new(policy),
            handles: BTreeMap::new(),
            submitted: 0,
            refused: BTreeMap::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        let chosen =
            |nth: &usize| self.handles.iter().nth(nth % self.handles.len().max(1)).map(|(&t, &h)| (t, h));
        match step {
            Step::Submit(arguments) => self.submit(arguments),
            Step::Finish(nth) => {
                if let Some((task, handle)) = chosen(nth) {
                    self.finish(task, handle);
                }
            }
            Step::Fail(nth) => {
                if let Some((task, handle)) = chosen(nth) {
                    let mut poisoned = BTreeSet::new();
                    self.tracker
                        .fail(handle, 77, |handle, number| {
                            assert_eq!(self.handles[&number], handle);
                            assert!(poisoned.insert(number));
                        })
                        .unwrap();
                    assert_eq!(poisoned, self.model.fail(task));
                }
            }
            Step::Release(number) => {
                self.tracker.release(identity(*number));
                self.model.release(identity(*number));
            }
        }
        self.check();
    }

    fn submit(&mut self, arguments: &[Argument]) {
        let before = counts(&self.tracker);
        let task = self.submitted;
        match self.tracker.submit(task, arguments.iter().copied()) {
            Ok(Submitted { handle, edges, poisoned }) => {
                let expected = self.model.edges(arguments);
                assert_eq!(edges_of(edges), expected);
                self.model.submit(task, arguments);
                assert_eq!(
                    poisoned.map(|cause| cause.task),
                    self.model.tasks[&task].poisoned.map(|(_, task)| task)
                );
                assert!(poisoned.is_none_or(|cause| cause.reason == 77));
                self.handles.insert(task, handle);
                self.submitted += 1;
            }
            Err(error) => {
                assert_eq!(counts(&self.tracker), before);
                *self.refused.entry(error.code().number()).or_default() += 1;
            }
        }
    }

    fn finish(&mut self, task: u64, handle: Handle) {
        let mut ready = Vec::new();
        self.tracker.finish(handle, |task| ready.push(task)).unwrap();
        assert_eq!(self.tracker.finish(handle, |_| ()), Err(NotTracked));
        self.handles.remove(&task);
        let expected = self.model.finish(task);
        for task in &ready {
            assert_eq!(self.handles[&task.task], task.handle);
            let poisoned = self.model.tasks[&task.task].poisoned;
            assert_eq!(task.poisoned.map(|cause| cause.task), poisoned.map(|(_, task)| task));
        }
        ready.sort_by_key(|task| task.task);
        assert_eq!(ready.iter().map(|task| task.task).collect::<Vec<_>>(), expected);
    }

    fn check(&self) {
        check(&self.tracker.state);
        for (task, &handle) in &self.handles {
            let waits_for = self.model.tasks[task].waits_for.len();
            assert_eq!(self.tracker.waiting(handle), Ok(u32::try_from(waits_for).unwrap()));
        }
        assert_eq!(self.tracker.inexact(), 0);
    }

    /// Everything goes, and nothing stays behind.
    fn end(&mut self, backwards: bool) {
        let mut order: Vec<(u64, Handle)> =
            self.handles.iter().map(|(&task, &handle)| (task, handle)).collect();
        if backwards {
            order.reverse();
        }
        for (task, handle) in order {
            self.finish(task, handle);
            self.check();
        }
        assert_eq!(counts(&self.tracker), [0; 6]);
        assert_eq!(self.tracker.state.nodes.in_use(), 0);
    }
}

fn counts(tracker: &Tracker<Boxed>) -> [u32; 6] {
    [
        tracker.tasks(),
        tracker.entries(),
        tracker.groups(),
        tracker.pieces(),
        tracker.backings(),
        tracker.links(),
    ]
}

/// How many bytes the pieces of a group have together; no two of them have one in common.
fn bytes_of_pieces(state: &State<Boxed>, group: u32) -> u128 {
    let (mut bytes, mut before, mut piece) = (0, NONE, state.groups.slots.at(group).first_piece);
    while piece != NONE {
        let node = state.nodes.at(piece);
        assert_eq!((node.group(), node.links[0]), (group, before));
        let area = &node.area;
        bytes += u128::from(area.right - area.left) * u128::from(area.bottom - area.top);
        (before, piece) = (piece, node.links[1]);
    }
    bytes
}

/// What must be true between any two calls: counters count, lists agree, and pieces of writes that nothing shadows are disjoint.
fn check(state: &State<Boxed>) {
    let (mut pieces, mut groups, mut entries) = (0, BTreeSet::new(), 0);
    for number in 0..state.backings.slots.capacity() {
        let backing = state.backings.slots.at(number);
        let mut of_backing = BTreeSet::new();
        let (mut shadowed, mut tombstones) = (0, 0);
        for plane in &backing.planes {
            for kind in [Kind::Write, Kind::Read] {
                let everywhere = area::Area { left: 0, right: u64::MAX, top: 0, bottom: u64::MAX };
                let mut search = tree::Search::new(&state.nodes, plane.root(kind), &everywhere);
                while let Some(piece) = search.next(&state.nodes) {
                    let group = state.groups.slots.at(piece.group());
                    assert_eq!((group.kind, group.backing), (kind, number));
                    let newest = state.entries.at(group.first_entry).task;
                    assert_eq!(piece.writer(), if kind == Kind::Write { newest } else { NONE });
                    assert!(!(group.whole && piece.shadowed));
                    pieces += 1;
                    shadowed += u32::from(piece.shadowed);
                    of_backing.insert(piece.group());
                }
            }
        }
        for &group in &of_backing {
            let slot = state.groups.slots.at(group);
            tombstones += u32::from(slot.first_entry == NONE);
            let bytes = slot
                .footprint
                .dimensions()
                .iter()
                .fold(u128::from(slot.footprint.run()), |bytes, d| bytes * u128::from(d.count));
            let all_there =
                usize::from(slot.plane) == backing::OTHER || bytes_of_pieces(state, group) == bytes;
            assert!(all_there || !slot.whole, "bytes of a group that equal views find are missing");
            let found = state.groups.find(slot.hash, slot.backing, slot.kind, &slot.footprint) == group;
            assert_eq!(found, slot.whole);
            let mut entry = slot.first_entry;
            let mut readers = BTreeSet::new();
            while entry != NONE {
                let found = state.entries.at(entry);
                assert_eq!(found.group, group);
                assert!(state.tasks.slots.at(found.task).stamp != 0);
                assert!(readers.insert(found.task));
                entry = found.in_group[1];
                entries += 1;
            }
            assert!(slot.kind == Kind::Read || readers.len() <= 1);
        }
        assert_eq!((backing.shadowed, backing.tombstones), (shadowed, tombstones));
        assert!(backing.groups == 0 || backing.groups == u32::try_from(of_backing.len()).unwrap());
        assert!(tombstones == 0 || shadowed > 0, "nothing is shadowed, and tombstones stay");
        groups.extend(of_backing);
    }
    assert_eq!(state.pieces, pieces);
    assert_eq!(state.entries.in_use(), entries);
    assert_eq!(state.groups.slots.in_use(), u32::try_from(groups.len()).unwrap());
    assert_eq!(state.reserved, 0);
}

const AMPLE: Capacities = Capacities {
    tasks: 64,
    links: 4096,
    entries: 512,
    pieces: 4096,
    backings: 4,
    arguments: 8,
    edges: 256,
    odd_nbytes: 240,
};

fn run(policy: Policy, capacities: &Capacities, steps: &[Step], backwards: bool) -> BTreeMap<i32, u32> {
    let mut pair = Pair::new(policy, capacities);
    for step in steps {
        pair.step(step);
    }
    pair.end(backwards);
    pair.refused
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { ProptestConfig::default().cases }, ..ProptestConfig::default() })]

    #[test]
    fn edges_are_those_of_the_definition_for_views_of_all_kinds(steps in steps(views(), 2), backwards: bool) {
        prop_assert!(run(Policy::Full, &AMPLE, &steps, backwards).is_empty());
    }

    #[test]
    fn edges_are_those_of_the_definition_for_odd_views_alone(steps in steps(odd_views(), 1), backwards: bool) {
        prop_assert!(run(Policy::Full, &AMPLE, &steps, backwards).is_empty());
    }

    #[test]
    fn edges_are_those_of_the_definition_for_ranges_and_tiles_of_six_pitches(
        steps in steps(prop_oneof![ranges(), tiles()], 1),
        backwards: bool,
    ) {
        prop_assert!(run(Policy::Full, &AMPLE, &steps, backwards).is_empty());
    }

    #[test]
    fn edges_are_those_of_the_definition_when_views_come_again_that_lost_a_piece(
        steps in repeated_steps(),
        backwards: bool,
    ) {
        prop_assert!(run(Policy::Full, &AMPLE, &steps, backwards).is_empty());
        prop_assert!(run(Policy::Producers, &AMPLE, &steps, backwards).is_empty());
    }

    #[test]
    fn views_that_come_again_are_exact_without_spare_pieces_too(
        steps in repeated_steps(),
        backwards: bool,
        pieces in 12..40_usize,
    ) {
        let scarce = Capacities { pieces, ..AMPLE };
        for (code, _) in run(Policy::Full, &scarce, &steps, backwards) {
            prop_assert_eq!(code, 133);
        }
    }

    #[test]
    fn producers_are_those_of_the_definition(steps in steps(views(), 2), backwards: bool) {
        prop_assert!(run(Policy::Producers, &AMPLE, &steps, backwards).is_empty());
    }

    #[test]
    fn edges_are_exact_without_spare_pieces_too(
        steps in steps(prop_oneof![3 => ranges(), 3 => tiles(), 1 => odd_views()], 1),
        backwards: bool,
        pieces in 12..40_usize,
    ) {
        let scarce = Capacities { pieces, ..AMPLE };
        for (code, _) in run(Policy::Full, &scarce, &steps, backwards) {
            prop_assert_eq!(code, 133);
        }
    }

    #[test]
    fn a_full_table_refuses_a_task_and_changes_nothing(
        steps in steps(views(), 4),
        tasks in 4..12_usize,
        links in 4..20_usize,
        entries in 4..24_usize,
        backings in 1..4_usize,
        edges in 2..12_usize,
    ) {
        let small =
            Capacities { tasks, links, entries, pieces: 3 * entries, backings, arguments: 3, edges, odd_nbytes: 240 };
        run(Policy::Full, &small, &steps, false);
    }
}
