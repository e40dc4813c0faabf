//! The rows of docs/figures.md on tables: an import that is there already, and an owner's lookup.
//!
//! Keys come in a random order, each as 88 bytes of its own as if it had just been received, so that what a lookup costs in caches
//! is in the figure. The plain copy beside each is that of the same bytes, read in the same order in the same run.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::unwrap_used,
    reason = "a benchmark makes its own input"
)]

use std::hint::black_box;
use std::num::{NonZeroU32, NonZeroU64};

use bufabi_core::import_table::Lookup;
use bufabi_core::owner_table::LookupError;
use bufabi_core::wire::body::Body;
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{
    Access, Descriptor, Identity, ImportBucket, ImportSlot, ImportTable, KeyedHash, OwnerInstanceId,
    OwnerSlot, OwnerTable,
};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};

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

/// What one question costs, as a pass over all keys.
fn ask<K, R>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    keys: &[K],
    mut question: impl FnMut(&K) -> R,
) {
    group.throughput(Throughput::Elements(keys.len() as u64));
    group.bench_function(name, |b| {
        b.iter(|| {
            for key in keys {
                black_box(question(key));
            }
        });
    });
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

fn imports(c: &mut Criterion, live: usize) {
    let mut random = Random(7);
    let slots: Vec<ImportSlot<u64>> = (0..live).map(|_| ImportSlot::EMPTY).collect();
    let buckets = vec![ImportBucket::EMPTY; ImportBucket::count_for(live)];
    let mut table = ImportTable::new(KeyedHash::new([random.next(), random.next()]), slots, buckets);
    let descriptors: Vec<Descriptor> = (0..live).map(|_| random_descriptor(&mut random)).collect();
    for descriptor in &descriptors {
        table.insert(descriptor, 0x7f00_0000_0000).unwrap();
    }
    let keys = keys_of(&descriptors, &mut random);
    let absent: Vec<Descriptor> = keys.iter().map(|_| random_descriptor(&mut random)).collect();

    let mut group = c.benchmark_group(format!("import table, {live} live"));
    ask(&mut group, "there already", &keys, |key| match table.find(key) {
        Lookup::Hit(_, address) => *address,
        Lookup::Conflict(_) | Lookup::Vacant => 0,
    });
    ask(&mut group, "absent", &absent, |key| matches!(table.find(key), Lookup::Vacant));
    ask(&mut group, "found, pinned and unpinned", &keys, |key| {
        let Lookup::Hit(key, _) = table.find(key) else { return 0 };
        table.pin(key).unwrap() + table.unpin(key).unwrap()
    });
    ask(&mut group, "plain copy", &keys, |key| *key.raw());
}

fn lookups(c: &mut Criterion, live: usize) {
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
        .map(|one| Identity::new(one.owner_instance_id(), one.buffer_id() + live as u64, one.generation()))
        .collect();
    let [first, second, never] = [first, second, never].map(|keys| keys_of(&keys, &mut random));

    let mut group = c.benchmark_group(format!("owner table, {live} live"));
    ask(&mut group, "live", &second, |key| table.get(*key).unwrap().value);
    ask(&mut group, "stale", &first, |key| matches!(table.get(*key), Err(LookupError::Stale { .. })));
    ask(&mut group, "unknown", &never, |key| {
        matches!(table.get(*key), Err(LookupError::NeverExisted { .. }))
    });
    ask(&mut group, "plain copy", &second, |key| *key);
}

fn tables(c: &mut Criterion) {
    for live in [16, 4_096, 65_536] {
        imports(c, live);
        lookups(c, live);
    }
}

criterion_group!(benches, tables);
criterion_main!(benches);
