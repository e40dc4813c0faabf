//! The rows of docs/figures.md on tables: an import that is there already, and an owner's lookup.
//!
//! Keys come in a random order, each as 88 bytes of its own as if it had just been received, so that what a lookup costs in caches
//! is in the figure. The plain copy beside each is that of the same bytes, read in the same order in the same run.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a benchmark makes its own input"
)]

use std::fmt;
use std::hint::black_box;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Instant;

use bufabi_core::import_table::Lookup;
use bufabi_core::owner_table::LookupError;
use bufabi_core::wire::body::Body;
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{
    Access, Descriptor, Identity, ImportBucket, ImportSlot, ImportTable, KeyedHash, OwnerInstanceId,
    OwnerSlot, OwnerTable,
};

/// A small generator of numbers (splitmix64): the same keys in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, (self.next() % (i as u64 + 1)) as usize);
        }
    }
}

/// At least 4,096 keys, so that a branch predictor learns none by heart.
fn keys_of<T: Clone>(live: &[T], random: &mut Random) -> Vec<T> {
    let mut keys: Vec<T> = live.iter().cycle().take(live.len().max(4_096)).cloned().collect();
    random.shuffle(&mut keys);
    keys
}

/// Nanoseconds per key of many passes over all keys.
struct Figure {
    median: f64,
    /// The least of all passes: what is left when nobody else uses the machine.
    least: f64,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} (least {:.1})", self.median, self.least)
    }
}

fn per_key<K, R>(keys: &[K], mut question: impl FnMut(&K) -> R) -> Figure {
    let passes = (4_000_000 / keys.len()).clamp(21, 1_001);
    let mut times: Vec<f64> = (0..passes)
        .map(|_| {
            let start = Instant::now();
            for key in keys {
                black_box(question(key));
            }
            start.elapsed().as_nanos() as f64 / keys.len() as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    Figure { median: times[times.len() / 2], least: times[0] }
}

fn descriptor(identity: Identity) -> Descriptor {
    let body = Body::ForkShm { base: NonZeroU64::new(0x7f00_0000_0000).unwrap() };
    let fields = DescriptorFields {
        identity,
        access: Access::ReadWrite,
        nbytes: 1 << 20,
        owner_worker_path_id: 3,
        body,
    };
    Descriptor::new(&fields).unwrap()
}

fn random_descriptor(random: &mut Random) -> Descriptor {
    let owner = OwnerInstanceId(random.next().to_le_bytes());
    descriptor(Identity::new(owner, 1 + random.next() % 1_000_000, NonZeroU32::MIN))
}

fn imports(live: usize, to_reach: u32) {
    let mut random = Random(7);
    let slots: Vec<ImportSlot<u64>> = (0..live).map(|_| ImportSlot::EMPTY).collect();
    let buckets = vec![ImportBucket::EMPTY; ImportBucket::count_for(live)];
    let mut table = ImportTable::new(KeyedHash::new([random.next(), random.next()]), slots, buckets);
    let descriptors: Vec<Descriptor> = (0..live).map(|_| random_descriptor(&mut random)).collect();
    for descriptor in &descriptors {
        table.insert(descriptor, 0x7f00_0000_0000).unwrap();
    }
    let keys = keys_of(&descriptors, &mut random);
    let hit = per_key(&keys, |key| match table.find(key) {
        Lookup::Hit(_, address) => *address,
        Lookup::Conflict(_) | Lookup::Vacant => 0,
    });
    let absent: Vec<Descriptor> = keys.iter().map(|_| random_descriptor(&mut random)).collect();
    let miss = per_key(&absent, |key| matches!(table.find(key), Lookup::Vacant));
    let copy = per_key(&keys, |key| *key.raw());
    let pinned = per_key(&keys, |key| {
        let Lookup::Hit(key, _) = table.find(key) else { return 0 };
        table.pin(key).unwrap() + table.unpin(key).unwrap()
    });
    println!("import, {live:>6} live: there already {hit} ns  (to reach {to_reach}, plain copy {copy})");
    println!("                     absent {miss} ns; found, pinned and unpinned {pinned} ns");
}

fn lookups(live: usize, to_reach: u32) {
    let mut random = Random(7);
    let slots: Vec<OwnerSlot<u64>> = (0..live).map(|_| OwnerSlot::EMPTY).collect();
    let mut table = OwnerTable::new(OwnerInstanceId(*b"an owner"), slots);
    let first: Vec<Identity> = (0..live).map(|_| table.insert(7).unwrap()).collect();
    for &identity in &first {
        table.begin_release(identity).unwrap();
        table.finish_release(identity).unwrap();
    }
    let second: Vec<Identity> = (0..live).map(|_| table.insert(8).unwrap()).collect();
    let never: Vec<Identity> = second
        .iter()
        .map(|live| {
            Identity::new(live.owner_instance_id(), live.buffer_id() + first.len() as u64, live.generation())
        })
        .collect();
    let keys = keys_of(&second, &mut random);
    let copy = per_key(&keys, |key| *key);
    let hit = per_key(&keys, |key| table.get(*key).unwrap().value);
    let keys = keys_of(&first, &mut random);
    let stale = per_key(&keys, |key| matches!(table.get(*key), Err(LookupError::Stale { .. })));
    let keys = keys_of(&never, &mut random);
    let unknown = per_key(&keys, |key| matches!(table.get(*key), Err(LookupError::NeverExisted { .. })));
    println!(
        "owner,  {live:>6} live: live {hit}, stale {stale}, unknown {unknown} ns  (to reach {to_reach}, plain copy {copy})"
    );
}

fn main() {
    for (live, to_reach) in [(16, 5), (4_096, 7), (65_536, 15)] {
        imports(live, to_reach);
    }
    for live in [16, 4_096, 65_536] {
        lookups(live, 5);
    }
}
