//! A hash table whose entries are slots of a pool, chained bucket by bucket.

use super::pool::{Memory, NONE, Pool, Slot};

/// A slot that a table can chain.
pub(super) trait Chained: Slot {
    fn next_in_bucket(&self) -> u32;
    fn set_next_in_bucket(&mut self, slot: u32);
}

/// The first slot of every bucket.
#[derive(Debug)]
pub(super) struct Table<M: Memory> {
    heads: M::Of<u32>,
    /// Buckets in use less one: a power of two less one.
    mask: u64,
    /// For a table without a bucket.
    nowhere: u32,
}

impl<M: Memory> Table<M> {
    /// Of the buckets, a power of two is used.
    pub(super) fn new(mut heads: M::Of<u32>) -> Self {
        let heads_slice = heads.as_mut();
        heads_slice.fill(NONE);
        let log2 = heads_slice.len().checked_ilog2().unwrap_or(0);
        let mask = 1_u64.checked_shl(log2).unwrap_or(1).saturating_sub(1);
        Self { heads, mask, nowhere: NONE }
    }

    #[inline]
    fn head(&self, hash: u64) -> u32 {
        let bucket = usize::try_from(hash & self.mask).unwrap_or(0);
        self.heads.as_ref().get(bucket).copied().unwrap_or(self.nowhere)
    }

    #[inline]
    fn head_mut(&mut self, hash: u64) -> &mut u32 {
        let bucket = usize::try_from(hash & self.mask).unwrap_or(0);
        self.heads.as_mut().get_mut(bucket).unwrap_or(&mut self.nowhere)
    }

    /// The first slot of the hash's bucket of which `is_it` is true; [`NONE`] when there is none.
    #[inline]
    pub(super) fn find<T: Chained>(
        &self,
        pool: &Pool<M, T>,
        hash: u64,
        mut is_it: impl FnMut(&T) -> bool,
    ) -> u32 {
        let mut next = self.head(hash);
        while next != NONE {
            let slot = pool.at(next);
            if is_it(slot) {
                return next;
            }
            next = slot.next_in_bucket();
        }
        NONE
    }

    pub(super) fn insert<T: Chained>(&mut self, pool: &mut Pool<M, T>, hash: u64, slot: u32) {
        let head = self.head_mut(hash);
        pool.at_mut(slot).set_next_in_bucket(*head);
        *head = slot;
    }

    pub(super) fn remove<T: Chained>(&mut self, pool: &mut Pool<M, T>, hash: u64, slot: u32) {
        let after = pool.at(slot).next_in_bucket();
        let head = self.head_mut(hash);
        if *head == slot {
            *head = after;
            return;
        }
        let mut before = *head;
        while before != NONE {
            let next = pool.at(before).next_in_bucket();
            if next == slot {
                pool.at_mut(before).set_next_in_bucket(after);
                return;
            }
            before = next;
        }
    }
}
