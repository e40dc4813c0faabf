//! Where in a table's slots an identity is: two buckets of eight words, each word a slot's number and a tag of the hash.
//!
//! An identity stands in one of the two buckets that its hash names, or nowhere. So a lookup looks at 16 words and compares
//! at most 16 identities, whatever was inserted and whoever chose it; nearly always it is one bucket and one identity. At
//! most half of the words are ever in use, and a full bucket can push one word to its other bucket, so that a random hash
//! fills a table to its capacity.

/// Words of a bucket.
pub(super) const WORDS: usize = 8;

/// No slot; its tag is one that a hash can have, its number is not one that a slot can have.
const VACANT: u32 = u32::MAX;

/// Storage for eight places of an import table's index, lent or given to an [`ImportTable`](super::ImportTable).
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub struct ImportBucket([u32; WORDS]);

impl ImportBucket {
    /// A bucket without an entry.
    pub const EMPTY: Self = Self([VACANT; WORDS]);

    /// Buckets that a table of that capacity needs: a power of two, with twice as many words as there are slots.
    #[must_use]
    pub const fn count_for(capacity: usize) -> usize {
        match capacity.div_ceil(WORDS / 2).checked_next_power_of_two() {
            Some(buckets) => buckets,
            None => usize::MAX,
        }
    }

    /// Replaces the first word that is `old`.
    fn replace(&mut self, old: u32, new: u32) -> bool {
        match self.0.iter_mut().find(|word| **word == old) {
            Some(word) => {
                *word = new;
                true
            }
            None => false,
        }
    }
}

impl Default for ImportBucket {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// How the words and buckets of one table are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Index {
    /// The part of a word that is a slot's number; the rest is its tag.
    slot_mask: u32,
    /// Buckets in use less one: a power of two less one.
    bucket_mask: u32,
    capacity: u32,
}

/// Where the hash of an identity lets it stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    primary: u32,
    alternate: u32,
    tag: u32,
}

impl Index {
    /// The index of a table with so many slots and buckets. Of the buckets, a power of two is used.
    pub(super) fn new(slots: usize, buckets: usize) -> Self {
        let limit = 1_u32 << 30;
        let buckets = u32::try_from(buckets).unwrap_or(limit).min(limit);
        let buckets = buckets.checked_ilog2().map_or(0, |log2| 1_u32 << log2);
        let slots = u32::try_from(slots).unwrap_or(limit).min(limit);
        let capacity = slots.min(buckets.saturating_mul(4));
        // One number more than there are slots: VACANT's.
        let slot_mask = capacity.saturating_add(1).next_power_of_two().saturating_sub(1);
        Self { slot_mask, bucket_mask: buckets.saturating_sub(1), capacity }
    }

    pub(super) const fn capacity(self) -> u32 {
        self.capacity
    }

    /// The bits of a hash serve one purpose each: the low half names the bucket; of the high half the low bits name the other
    /// bucket, and those above the slot's number, which has more bits than a bucket's, are the tag.
    #[inline]
    pub(super) fn place(self, hash: u64) -> Place {
        let [low, high] = halves(hash);
        let primary = low & self.bucket_mask;
        // An odd difference: never the same bucket, if there are two.
        let alternate = (primary ^ (high | 1)) & self.bucket_mask;
        Place { primary, alternate, tag: high & !self.slot_mask }
    }

    /// The slots that may have the identity of that place; `is_it` decides.
    #[inline]
    pub(super) fn find<R>(
        self,
        buckets: &[ImportBucket],
        place: Place,
        mut is_it: impl FnMut(u32) -> Option<R>,
    ) -> Option<R> {
        for bucket in [place.primary, place.alternate] {
            let bucket = at(buckets, bucket)?;
            let mut candidates = self.candidates(bucket, place.tag);
            while candidates != 0 {
                let word = usize::try_from(candidates.trailing_zeros()).unwrap_or(0);
                if let Some(word) = bucket.0.get(word) {
                    let found = is_it(word & self.slot_mask);
                    if found.is_some() {
                        return found;
                    }
                }
                candidates &= candidates.wrapping_sub(1);
            }
        }
        None
    }

    /// One bit for each word that has the tag. Without a branch: the compiler takes all eight at once.
    #[inline]
    fn candidates(self, bucket: &ImportBucket, tag: u32) -> u32 {
        let mut candidates = 0;
        let mut bit = 1_u32;
        for word in bucket.0 {
            let has_tag = (word ^ tag) & !self.slot_mask == 0;
            candidates |= if has_tag { bit } else { 0 };
            bit <<= 1;
        }
        candidates
    }

    /// Enters a slot at its place; when both buckets are full, after another word has gone to its other bucket.
    /// `place_of` is the place of a slot that is in the index.
    pub(super) fn insert(
        self,
        buckets: &mut [ImportBucket],
        place: Place,
        slot: u32,
        place_of: impl Fn(u32) -> Place,
    ) -> bool {
        let word = place.tag | slot;
        for bucket in [place.primary, place.alternate] {
            if at_mut(buckets, bucket).is_some_and(|bucket| bucket.replace(VACANT, word)) {
                return true;
            }
        }
        for bucket in [place.primary, place.alternate] {
            let words = at(buckets, bucket).map_or([VACANT; WORDS], |bucket| bucket.0);
            for pushed in words {
                let other = place_of(pushed & self.slot_mask).other(bucket);
                if at_mut(buckets, other).is_some_and(|bucket| bucket.replace(VACANT, pushed)) {
                    return at_mut(buckets, bucket).is_some_and(|bucket| bucket.replace(pushed, word));
                }
            }
        }
        false
    }

    /// Takes a slot out of its place.
    pub(super) fn remove(self, buckets: &mut [ImportBucket], place: Place, slot: u32) {
        let word = place.tag | slot;
        for bucket in [place.primary, place.alternate] {
            if at_mut(buckets, bucket).is_some_and(|bucket| bucket.replace(word, VACANT)) {
                return;
            }
        }
    }
}

impl Place {
    /// The bucket that is not `bucket`.
    const fn other(self, bucket: u32) -> u32 {
        self.primary ^ self.alternate ^ bucket
    }
}

#[inline]
fn at(buckets: &[ImportBucket], index: u32) -> Option<&ImportBucket> {
    buckets.get(usize::try_from(index).ok()?)
}

#[inline]
fn at_mut(buckets: &mut [ImportBucket], index: u32) -> Option<&mut ImportBucket> {
    buckets.get_mut(usize::try_from(index).ok()?)
}

/// The low and the high half.
#[inline]
fn halves(hash: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = hash.to_le_bytes();
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
}
