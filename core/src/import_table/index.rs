//! Where in a table's slots an identity is: two buckets of six places, each place a slot's number and a tag of the hash.
//!
//! An identity stands in one of the two buckets that its hash names, or nowhere. So a lookup compares at most 12 identities,
//! whatever was inserted and whoever chose it; nearly always it is one bucket and one identity. At most half of the places are
//! ever in use, and a full bucket can push one entry to its other bucket, so that a random hash fills a table to its capacity.

use super::slot::NONE;

/// Places of a bucket.
pub(super) const PLACES: usize = 6;

/// The lowest bit of each byte of a word.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Storage for six places of an import table's index, lent or given to an [`ImportTable`](super::ImportTable).
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub struct ImportBucket {
    /// One of seven bits for each place, and two of no place: together a word.
    tags: [u8; 8],
    /// [`NONE`] where nothing stands.
    slots: [u32; PLACES],
}

impl ImportBucket {
    /// A bucket where nothing stands.
    pub const EMPTY: Self = Self { tags: [0; 8], slots: [NONE; PLACES] };

    /// Buckets that a table of that capacity needs: a power of two, with at least twice as many places as there are slots.
    #[must_use]
    pub const fn count_for(capacity: usize) -> usize {
        match capacity.div_ceil(PLACES / 2).checked_next_power_of_two() {
            Some(buckets) => buckets,
            None => usize::MAX,
        }
    }

    /// The highest bit in the byte of each place that has the tag. Above the first there may be a place too many, but none is missing.
    #[inline]
    const fn candidates(&self, tag: u8) -> u64 {
        let difference = u64::from_le_bytes(self.tags) ^ u64::from_le_bytes([tag; 8]);
        // The highest bit of a byte is free, and set where 0 borrows one.
        difference.wrapping_sub(ONES) & (ONES << 7)
    }

    /// The slot of the first candidate, if that is a place.
    #[inline]
    fn slot(&self, candidates: u64) -> Option<u32> {
        self.slots.get(usize::try_from(candidates.trailing_zeros() / 8).ok()?).copied()
    }

    /// Puts a tag and a slot where `old` holds.
    fn replace(&mut self, old: impl Fn(u8, u32) -> bool, new_tag: u8, new_slot: u32) -> bool {
        for (tag, slot) in self.tags.iter_mut().zip(&mut self.slots) {
            if old(*tag, *slot) {
                (*tag, *slot) = (new_tag, new_slot);
                return true;
            }
        }
        false
    }
}

impl Default for ImportBucket {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Which buckets of one table are in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Index {
    /// Buckets in use less one: a power of two less one.
    bucket_mask: u32,
    capacity: u32,
}

/// Where the hash of an identity lets it stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    primary: u32,
    alternate: u32,
    tag: u8,
}

impl Index {
    /// The index of a table with so many slots and buckets. Of the buckets, a power of two is used.
    pub(super) fn new(slots: usize, buckets: usize) -> Self {
        let limit = 1_u32 << 30;
        let buckets = u32::try_from(buckets).unwrap_or(limit).min(limit);
        let buckets = buckets.checked_ilog2().map_or(0, |log2| 1_u32 << log2);
        let slots = u32::try_from(slots).unwrap_or(limit).min(limit);
        Self { bucket_mask: buckets.saturating_sub(1), capacity: slots.min(buckets.saturating_mul(3)) }
    }

    pub(super) const fn capacity(self) -> u32 {
        self.capacity
    }

    /// The low half of a hash names the primary bucket, with the low bits of its high half the alternate one; its highest seven
    /// bits are the tag.
    pub(super) const fn place(self, hash: u64) -> Place {
        let [_, _, _, _, e, f, g, h] = hash.to_le_bytes();
        let primary = self.primary(hash);
        // An odd difference: never the same bucket, if there are two.
        let alternate = (primary ^ (u32::from_le_bytes([e, f, g, h]) | 1)) & self.bucket_mask;
        Place { primary, alternate, tag: tag(hash) }
    }

    #[inline]
    const fn primary(self, hash: u64) -> u32 {
        let [a, b, c, d, ..] = hash.to_le_bytes();
        u32::from_le_bytes([a, b, c, d]) & self.bucket_mask
    }

    /// The first slot of the primary bucket that has the tag: nearly always the one that is looked for, if it is there.
    #[inline]
    pub(super) fn first(self, buckets: &[ImportBucket], hash: u64) -> Option<u32> {
        let bucket = at(buckets, self.primary(hash))?;
        bucket.slot(bucket.candidates(tag(hash)))
    }

    /// All slots that may have the identity of that place, in turn, until `is_it` has decided.
    pub(super) fn find<R>(
        buckets: &[ImportBucket],
        place: Place,
        mut is_it: impl FnMut(u32) -> Option<R>,
    ) -> Option<R> {
        for bucket in [place.primary, place.alternate] {
            let bucket = at(buckets, bucket)?;
            let mut candidates = bucket.candidates(place.tag);
            while let Some(slot) = bucket.slot(candidates) {
                let found = is_it(slot);
                if found.is_some() {
                    return found;
                }
                candidates &= candidates.wrapping_sub(1);
            }
        }
        None
    }

    /// Enters a slot at its place; when both buckets are full, after another has gone to its other bucket. `place_of` is the
    /// place of a slot that is in the index.
    pub(super) fn insert(
        buckets: &mut [ImportBucket],
        place: Place,
        slot: u32,
        place_of: impl Fn(u32) -> Place,
    ) -> bool {
        let is_vacant = |_, slot| slot == NONE;
        for bucket in [place.primary, place.alternate] {
            if at_mut(buckets, bucket).is_some_and(|bucket| bucket.replace(is_vacant, place.tag, slot)) {
                return true;
            }
        }
        for bucket in [place.primary, place.alternate] {
            for pushed in at(buckets, bucket).map_or([slot; PLACES], |bucket| bucket.slots) {
                let pushed_place = place_of(pushed);
                let other = pushed_place.primary ^ pushed_place.alternate ^ bucket;
                let found_room = at_mut(buckets, other)
                    .is_some_and(|bucket| bucket.replace(is_vacant, pushed_place.tag, pushed));
                if found_room {
                    let is_pushed = |_, slot| slot == pushed;
                    return at_mut(buckets, bucket)
                        .is_some_and(|bucket| bucket.replace(is_pushed, place.tag, slot));
                }
            }
        }
        false
    }

    /// Takes a slot out of its place.
    pub(super) fn remove(buckets: &mut [ImportBucket], place: Place, slot: u32) {
        let is_it = |tag, other| tag == place.tag && other == slot;
        for bucket in [place.primary, place.alternate] {
            if at_mut(buckets, bucket).is_some_and(|bucket| bucket.replace(is_it, 0, NONE)) {
                return;
            }
        }
    }
}

/// The tag of a hash.
#[inline]
const fn tag(hash: u64) -> u8 {
    let [.., highest] = hash.to_le_bytes();
    highest >> 1
}

#[inline]
fn at(buckets: &[ImportBucket], index: u32) -> Option<&ImportBucket> {
    buckets.get(usize::try_from(index).ok()?)
}

#[inline]
fn at_mut(buckets: &mut [ImportBucket], index: u32) -> Option<&mut ImportBucket> {
    buckets.get_mut(usize::try_from(index).ok()?)
}
