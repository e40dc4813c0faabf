//! A tree of areas: which of many pieces meet one area, in steps that grow with the logarithm of their number.
//!
//! Leaves are pieces. An inner node has two children and the hull of their areas. Leaves stand in the order of a curve that keeps
//! neighbours together (Morton's: by the corners' bits, columns and rows in turn), whatever the order in which they came, so that hulls of
//! siblings hardly meet. Nodes are rotated so that the heights of two siblings never differ by more than one: a tree of 2^32
//! leaves is at most 46 high, which bounds the stack of a search. The order is for speed alone: a leaf that shrinks keeps its place.

use super::area::Area;
use super::pool::{Memory, NONE, Pool, Slot};

/// Column and row.
type Corner = [u64; 2];

/// Storage for a piece of a group, or for an inner node of a tree of them: one line of a cache.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Node {
    pub(super) area: Area,
    /// Where on the curve the second child begins; of a leaf, its group and writer, and the next leaf of a collection.
    own: Corner,
    parent: u32,
    /// The two children; of a leaf, the pieces before and after it in its group.
    pub(super) links: [u32; 2],
    /// 0 for a leaf.
    height: u8,
    /// Bytes of this piece may have been written since.
    pub(super) shadowed: bool,
}

impl Node {
    /// A slot without a node.
    pub const EMPTY: Self = Self::leaf(Area::EMPTY, NONE, NONE);

    #[inline]
    pub(super) const fn leaf(area: Area, group: u32, writer: u32) -> Self {
        Self {
            area,
            own: [join(group, writer), join(NONE, 0)],
            parent: NONE,
            links: [NONE; 2],
            height: 0,
            shadowed: false,
        }
    }

    /// The group of a leaf.
    #[inline]
    pub(super) const fn group(&self) -> u32 {
        halves(self.own[0])[0]
    }

    /// The task that wrote a leaf, so that a lookup need not go through its group. [`NONE`] of a read, and of a write without a
    /// task.
    #[inline]
    pub(super) const fn writer(&self) -> u32 {
        halves(self.own[0])[1]
    }

    #[inline]
    pub(super) const fn set_writer(&mut self, task: u32) {
        self.own[0] = join(self.group(), task);
    }

    /// The next leaf of a collection.
    #[inline]
    pub(super) const fn chain(&self) -> u32 {
        halves(self.own[1])[0]
    }

    #[inline]
    pub(super) const fn set_chain(&mut self, leaf: u32) {
        self.own[1] = join(leaf, 0);
    }
}

/// Two slots in one word.
#[expect(clippy::as_conversions, reason = "widening, and From is not const")]
const fn join(low: u32, high: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

#[inline]
#[expect(clippy::as_conversions, reason = "each half is cut out on purpose")]
const fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

impl Slot for Node {
    const EMPTY: Self = Self::EMPTY;
    fn next_free(&self) -> u32 {
        self.chain()
    }
    fn set_next_free(&mut self, slot: u32) {
        self.set_chain(slot);
    }
}

/// More than the height of any tree.
const STACK: usize = 48;

type Nodes<M> = Pool<M, Node>;

/// Every leaf that meets an area, one by one.
#[derive(Debug)]
pub(super) struct Search<'a> {
    area: &'a Area,
    /// It meets the area, as do those that still wait.
    next: u32,
    waiting: [u32; STACK],
    depth: usize,
}

impl<'a> Search<'a> {
    #[inline]
    pub(super) fn new<M: Memory>(nodes: &Nodes<M>, root: u32, area: &'a Area) -> Self {
        // No tree reads as an empty area, which meets nothing.
        let next = if nodes.at(root).area.meets(area) { root } else { NONE };
        Self { area, next, waiting: [NONE; STACK], depth: 0 }
    }

    #[inline]
    pub(super) fn next<'n, M: Memory>(&mut self, nodes: &'n Nodes<M>) -> Option<&'n Node> {
        while self.next != NONE {
            let node = nodes.at(self.next);
            if node.height == 0 {
                self.next = self.pop();
                return Some(node);
            }
            let [first, second] = node.links;
            let (meets_first, meets_second) =
                (nodes.at(first).area.meets(self.area), nodes.at(second).area.meets(self.area));
            self.next = if meets_first & meets_second {
                self.push(second);
                first
            } else if meets_first | meets_second {
                if meets_first { first } else { second }
            } else {
                self.pop()
            };
        }
        None
    }

    #[inline]
    fn push(&mut self, node: u32) {
        if let Some(slot) = self.waiting.get_mut(self.depth) {
            *slot = node;
            self.depth = self.depth.wrapping_add(1);
        }
    }

    #[inline]
    fn pop(&mut self) -> u32 {
        // Below the first place there is none.
        self.depth = self.depth.wrapping_sub(1);
        self.waiting.get(self.depth).copied().unwrap_or(NONE)
    }
}

/// Puts every leaf that meets the area before those of a chain, and gives the first of them.
pub(super) fn collect<M: Memory>(nodes: &mut Nodes<M>, root: u32, area: &Area, mut chain: u32) -> u32 {
    let mut stack = [NONE; STACK];
    let mut depth = 0_usize;
    let mut next = root;
    while next != NONE {
        let node = nodes.at_mut(next);
        let mut following = NONE;
        if node.area.meets(area) {
            if node.height == 0 {
                node.set_chain(chain);
                chain = next;
            } else {
                following = node.links[0];
                if let Some(slot) = stack.get_mut(depth) {
                    *slot = node.links[1];
                    depth = depth.wrapping_add(1);
                }
            }
        }
        if following == NONE && depth > 0 {
            depth = depth.wrapping_sub(1);
            following = stack.get(depth).copied().unwrap_or(NONE);
        }
        next = following;
    }
    chain
}

/// Sorts a chain by a key, and gives the first of it.
pub(super) fn sort_chain<M: Memory, K: Ord>(
    nodes: &mut Nodes<M>,
    chain: u32,
    key: impl Fn(&Node) -> K,
) -> u32 {
    // Sorted chains of 1, 2, 4 ... leaves, as the digits of the number of leaves so far.
    let mut sorted = [NONE; STACK];
    let mut next = chain;
    while next != NONE {
        let mut one = next;
        next = nodes.at(one).chain();
        nodes.at_mut(one).set_chain(NONE);
        for other in &mut sorted {
            if *other == NONE {
                *other = one;
                break;
            }
            one = merge_chains(nodes, core::mem::replace(other, NONE), one, &key);
        }
    }
    sorted.into_iter().fold(NONE, |all, other| merge_chains(nodes, other, all, &key))
}

fn merge_chains<M: Memory, K: Ord>(
    nodes: &mut Nodes<M>,
    mut a: u32,
    mut b: u32,
    key: impl Fn(&Node) -> K,
) -> u32 {
    let (mut first, mut last) = (NONE, NONE);
    loop {
        let next = if a == NONE {
            core::mem::replace(&mut b, NONE)
        } else if b == NONE {
            core::mem::replace(&mut a, NONE)
        } else {
            let smaller = if key(nodes.at(a)) <= key(nodes.at(b)) { &mut a } else { &mut b };
            let following = nodes.at(*smaller).chain();
            core::mem::replace(smaller, following)
        };
        if last == NONE {
            first = next;
        } else {
            nodes.at_mut(last).set_chain(next);
        }
        if a == NONE && b == NONE {
            return first;
        }
        last = next;
    }
}

/// Some leaf of a tree that has one.
pub(super) fn any_leaf<M: Memory>(nodes: &Nodes<M>, root: u32) -> u32 {
    let mut next = root;
    while next != NONE && nodes.at(next).height > 0 {
        next = nodes.at(next).links[0];
    }
    next
}

/// How many leaves a tree has.
pub(super) fn count_leaves<M: Memory>(nodes: &Nodes<M>, root: u32) -> u32 {
    let everywhere = Area { left: 0, right: u64::MAX, top: 0, bottom: u64::MAX };
    let (mut search, mut count) = (Search::new(nodes, root, &everywhere), 0_u32);
    while search.next(nodes).is_some() {
        count = count.saturating_add(1);
    }
    count
}

/// Puts a leaf into the tree. The pool has one slot for every leaf besides the leaves' own.
#[inline]
pub(super) fn insert<M: Memory>(nodes: &mut Nodes<M>, root: &mut u32, leaf: u32) {
    if *root == NONE {
        *root = leaf;
        nodes.at_mut(leaf).parent = NONE;
    } else {
        insert_beside(nodes, root, leaf);
    }
}

/// Puts a leaf beside one that there is.
fn insert_beside<M: Memory>(nodes: &mut Nodes<M>, root: &mut u32, leaf: u32) {
    let area = nodes.at(leaf).area;
    let corner = corner(&area);
    let mut sibling = *root;
    while nodes.at(sibling).height > 0 {
        let node = nodes.at(sibling);
        let [first, second] = node.links;
        sibling = if is_before(corner, node.own) { first } else { second };
    }
    let Node { area: beside, parent, .. } = *nodes.at(sibling);
    let other = self::corner(&beside);
    let (links, own) =
        if is_before(corner, other) { ([leaf, sibling], other) } else { ([sibling, leaf], corner) };
    let inner =
        nodes.take(|_| Node { area: beside.hull(&area), own, parent, links, height: 1, ..Node::EMPTY });
    replace_child(nodes, root, parent, sibling, inner);
    nodes.at_mut(sibling).parent = inner;
    nodes.at_mut(leaf).parent = inner;
    mend(nodes, root, parent);
}

/// Takes a leaf out of the tree; its slot stays the caller's.
pub(super) fn remove<M: Memory>(nodes: &mut Nodes<M>, root: &mut u32, leaf: u32) {
    let parent = nodes.at(leaf).parent;
    if parent == NONE {
        *root = NONE;
        return;
    }
    let [first, second] = nodes.at(parent).links;
    let sibling = if first == leaf { second } else { first };
    let above = nodes.at(parent).parent;
    replace_child(nodes, root, above, parent, sibling);
    nodes.at_mut(sibling).parent = above;
    nodes.give_back(parent);
    mend(nodes, root, above);
}

/// Makes a leaf's area a part of what it was.
pub(super) fn shrink<M: Memory>(nodes: &mut Nodes<M>, leaf: u32, area: Area) {
    nodes.at_mut(leaf).area = area;
    let mut next = nodes.at(leaf).parent;
    while next != NONE {
        let [first, second] = nodes.at(next).links;
        let hull = nodes.at(first).area.hull(&nodes.at(second).area);
        let node = nodes.at_mut(next);
        if node.area == hull {
            return;
        }
        node.area = hull;
        next = node.parent;
    }
}

const fn corner(area: &Area) -> Corner {
    [area.left, area.top]
}

/// One corner comes before another on the curve: the highest bit in which they differ decides, be it of the column or the row.
#[inline]
const fn is_before(a: Corner, b: Corner) -> bool {
    let ([column, row], [other_column, other_row]) = (a, b);
    let (columns, rows) = (column ^ other_column, row ^ other_row);
    // The highest bit of `columns` is below that of `rows`.
    if columns < rows && columns < columns ^ rows { row < other_row } else { column < other_column }
}

fn replace_child<M: Memory>(nodes: &mut Nodes<M>, root: &mut u32, parent: u32, old: u32, new: u32) {
    if parent == NONE {
        *root = new;
    } else {
        let [first, second] = &mut nodes.at_mut(parent).links;
        *(if *first == old { first } else { second }) = new;
    }
}

/// Corrects heights and areas from a node upwards, and rotates where the children's heights differ by two.
fn mend<M: Memory>(nodes: &mut Nodes<M>, root: &mut u32, from: u32) {
    let mut next = from;
    while next != NONE {
        let [first, second] = nodes.at(next).links;
        let (low, high) = (nodes.at(first).height, nodes.at(second).height);
        let top = if low > high.saturating_add(1) {
            if side_height(nodes, first, 1) > side_height(nodes, first, 0) {
                rotate(nodes, root, first, 1);
            }
            rotate(nodes, root, next, 0)
        } else if high > low.saturating_add(1) {
            if side_height(nodes, second, 0) > side_height(nodes, second, 1) {
                rotate(nodes, root, second, 0);
            }
            rotate(nodes, root, next, 1)
        } else {
            refit(nodes, next);
            next
        };
        next = nodes.at(top).parent;
    }
}

fn side_height<M: Memory>(nodes: &Nodes<M>, inner: u32, side: usize) -> u8 {
    nodes.at(nodes.at(inner).links.get(side).copied().unwrap_or(NONE)).height
}

/// Lifts the child on that side (0 or 1) into the place of its parent, without a change of the leaves' order. Gives the child.
fn rotate<M: Memory>(nodes: &mut Nodes<M>, root: &mut u32, parent: u32, side: usize) -> u32 {
    let Node { parent: above, links: [first, second], .. } = *nodes.at(parent);
    let lifted = if side == 0 { first } else { second };
    let [inner_first, inner_second] = nodes.at(lifted).links;
    let (moved, lowered, raised) = if side == 0 {
        (inner_second, [inner_second, second], [inner_first, parent])
    } else {
        (inner_first, [first, inner_first], [parent, inner_second])
    };
    replace_child(nodes, root, above, parent, lifted);
    let node = nodes.at_mut(lifted);
    (node.parent, node.links) = (above, raised);
    let node = nodes.at_mut(parent);
    (node.parent, node.links) = (lifted, lowered);
    nodes.at_mut(moved).parent = parent;
    refit(nodes, parent);
    refit(nodes, lifted);
    lifted
}

fn refit<M: Memory>(nodes: &mut Nodes<M>, inner: u32) {
    let [first, second] = nodes.at(inner).links;
    let (first, second) = (nodes.at(first), nodes.at(second));
    let area = first.area.hull(&second.area);
    let height = first.height.max(second.height).saturating_add(1);
    let node = nodes.at_mut(inner);
    node.area = area;
    node.height = height;
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]
mod tests {
    use super::super::pool::Lent;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::vec;
    use std::vec::Vec;

    /// Every hull is the children's, every height is right, siblings differ by at most one, parents are those of the links.
    fn check(nodes: &Nodes<Lent<'_>>, node: u32, parent: u32) -> u8 {
        let here = nodes.at(node);
        assert_eq!(here.parent, parent);
        if here.height == 0 {
            return 0;
        }
        let [first, second] = here.links;
        let heights = [check(nodes, first, node), check(nodes, second, node)];
        assert!(heights[0].abs_diff(heights[1]) <= 1, "{heights:?}");
        assert_eq!(here.height, heights[0].max(heights[1]) + 1);
        assert_eq!(here.area, nodes.at(first).area.hull(&nodes.at(second).area));
        here.height
    }

    fn areas() -> impl Strategy<Value = Area> {
        (0..40_u64, 1..9_u64, 0..40_u64, 1..9_u64).prop_map(|(left, width, top, height)| Area {
            left,
            right: left + width,
            top,
            bottom: top + height,
        })
    }

    proptest! {
        #[test]
        fn a_search_finds_what_a_list_would_while_leaves_come_and_go(
            steps in prop::collection::vec((areas(), areas(), 0..4_u32), 1..120)
        ) {
            let mut slots = vec![Node::EMPTY; 2 * steps.len()];
            let mut nodes: Nodes<Lent<'_>> = Pool::new(slots.as_mut_slice());
            let mut root = NONE;
            let mut model: BTreeMap<u32, Area> = BTreeMap::new();
            for (number, (area, asked, action)) in (0..).zip(&steps) {
                match (action, model.keys().nth(number * 7 % model.len().max(1)).copied()) {
                    (0, Some(leaf)) => {
                        remove(&mut nodes, &mut root, leaf);
                        nodes.give_back(leaf);
                        model.remove(&leaf);
                    }
                    (1, Some(leaf)) => {
                        let part = Area { right: model[&leaf].left + 1, ..model[&leaf] };
                        shrink(&mut nodes, leaf, part);
                        model.insert(leaf, part);
                    }
                    _ => {
                        // Its group is its own number, so that it is known by it.
                        let leaf = nodes.take(|leaf| Node::leaf(*area, leaf, NONE));
                        prop_assert_ne!(leaf, NONE);
                        insert(&mut nodes, &mut root, leaf);
                        model.insert(leaf, *area);
                    }
                }
                if root != NONE {
                    check(&nodes, root, NONE);
                }
                let expected: Vec<u32> =
                    model.iter().filter(|(_, area)| area.meets(asked)).map(|(&leaf, _)| leaf).collect();
                let (mut search, mut found) = (Search::new(&nodes, root, asked), Vec::new());
                while let Some(leaf) = search.next(&nodes) {
                    found.push(leaf.group());
                }
                found.sort_unstable();
                prop_assert_eq!(&found, &expected);
                let mut collected = Vec::new();
                let mut next = collect(&mut nodes, root, asked, NONE);
                while next != NONE {
                    collected.push(next);
                    next = nodes.at(next).chain();
                }
                collected.sort_unstable();
                prop_assert_eq!(collected, expected);
                prop_assert_eq!(any_leaf(&nodes, root) == NONE, model.is_empty());
            }
        }
    }
}
