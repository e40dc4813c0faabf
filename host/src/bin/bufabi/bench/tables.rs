//! What lookups cost: an import that is there already, an owner's identity that lives, is stale, or never was.

use std::hint::black_box;
use std::num::NonZeroU64;

use bufabi_core::import_table::Lookup;
use bufabi_core::wire::body::Body;
use bufabi_core::{
    Descriptor, Identity, ImportBucket, ImportSlot, ImportTable, KeyedHash, OwnerInstanceId, OwnerSlot,
    OwnerTable,
};
use bufabi_host::sys::random::random_bytes;

use super::session::{Goal, Session};
use super::wire::descriptor;
use crate::failure::Failure;

/// Questions of one pass: enough that a branch predictor learns none by heart.
const QUESTIONS: u32 = 4096;

/// The order of questions is one without a pattern: a multiplier that is odd passes every one of a power of two once.
fn scattered<T: Clone>(live: &[T]) -> Vec<T> {
    let all = live.iter().cycle().take(live.len().max(4096)).cloned().collect::<Vec<_>>();
    let place = |index: usize| index.wrapping_mul(2_654_435_761) & all.len().wrapping_sub(1);
    (0..all.len()).filter_map(|index| all.get(place(index)).cloned()).collect()
}

pub(super) fn imports(session: &mut Session) -> Result<(), Failure> {
    let seed = [random_bytes().map_err(Failure::machine)?, random_bytes().map_err(Failure::machine)?]
        .map(u64::from_le_bytes);
    for (name, live, goal) in [
        ("import table, 16 live, there already", 16, 5.0),
        ("import table, 4,096 live, there already", 4096, 7.0),
        ("import table, 65,536 live, there already", 65_536, 15.0),
    ] {
        if !session.wants(&[name]) {
            continue;
        }
        let slots: Vec<ImportSlot<u64>> = std::iter::repeat_with(|| ImportSlot::EMPTY).take(live).collect();
        let buckets = vec![ImportBucket::EMPTY; ImportBucket::count_for(live)];
        let mut table = ImportTable::new(KeyedHash::new(seed), slots, buckets);
        let mut descriptors = Vec::new();
        for number in 1..=u64::try_from(live).unwrap_or(0) {
            let owner = OwnerInstanceId(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
            let identity = Identity::new(owner, number, std::num::NonZeroU32::MIN);
            let of = descriptor(identity, Body::ForkShm { base: NonZeroU64::MIN })?;
            table.insert(&of, number).map_err(|refused| Failure::machine(refused.refusal))?;
            descriptors.push(of);
        }
        let questions: Vec<Descriptor> = scattered(&descriptors);
        let mut next = questions.iter().cycle();
        session.copy(name, Goal::AtMost(goal), 88, QUESTIONS, || {
            let mut found = 0_u64;
            for question in next.by_ref().take(4096) {
                if let Lookup::Hit(_, value) = table.find(black_box(question)) {
                    found = found.wrapping_add(*value);
                }
            }
            found
        });
    }
    Ok(())
}

pub(super) fn owners(session: &mut Session) -> Result<(), Failure> {
    let names = [
        "owner lookup, 4,096 live, live",
        "owner lookup, 4,096 live, stale",
        "owner lookup, 4,096 live, unknown",
    ];
    if !session.wants(&names) {
        return Ok(());
    }
    let slots: Vec<OwnerSlot<u64>> = std::iter::repeat_with(|| OwnerSlot::EMPTY).take(4096).collect();
    let mut table = OwnerTable::new(OwnerInstanceId(*b"an owner"), slots);
    let mut stale = Vec::new();
    for number in 0..4096 {
        stale.push(table.insert(number).map_err(Failure::machine)?);
    }
    for &identity in &stale {
        table.begin_release(identity).map_err(Failure::machine)?;
        table.finish_release(identity).map_err(Failure::machine)?;
    }
    let mut live = Vec::new();
    for number in 0..4096 {
        live.push(table.insert(number).map_err(Failure::machine)?);
    }
    let never: Vec<Identity> = live
        .iter()
        .map(|one| {
            Identity::new(one.owner_instance_id(), one.buffer_id().saturating_add(4096), one.generation())
        })
        .collect();
    for (name, keys) in names.into_iter().zip([live, stale, never]) {
        let keys = scattered(&keys);
        session.copy(name, Goal::AtMost(5.0), size_of::<Identity>(), QUESTIONS, || {
            keys.iter().filter(|key| table.get(**black_box(key)).is_ok()).count()
        });
    }
    Ok(())
}
