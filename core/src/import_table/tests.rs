//! The import table against a plain model of it, and against somebody who chooses the identities.

use core::num::NonZeroU32;
use std::collections::{BTreeMap, VecDeque};
use std::string::ToString;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::{
    CloseError, ImportBucket, ImportKey, ImportSlot, ImportTable, Index, InsertRefusal, InsertRefused,
    Lookup, PinError, ViewsAlive,
};
use crate::keyed_hash::KeyedHash;
use crate::rights::Access;
use crate::wire::body::{Body, ShmName};
use crate::wire::descriptor::{Descriptor, DescriptorFields, FieldSet};
use crate::wire::identity::{Identity, OwnerInstanceId};

const OWNER: OwnerInstanceId = OwnerInstanceId(*b"an owner");

type BoxedTable<T> = ImportTable<T, Vec<ImportSlot<T>>, Vec<ImportBucket>>;

fn table<T>(seed: [u64; 2], capacity: usize) -> BoxedTable<T> {
    let slots = (0..capacity).map(|_| ImportSlot::EMPTY).collect();
    let buckets = vec![ImportBucket::EMPTY; ImportBucket::count_for(capacity)];
    ImportTable::new(KeyedHash::new(seed), slots, buckets)
}

fn identity(buffer_id: u64) -> Identity {
    Identity::new(OWNER, buffer_id, NonZeroU32::MIN)
}

fn descriptor(identity: Identity, nbytes: u64) -> Descriptor {
    let body = Body::PosixShm { name: ShmName::new("psm_0").unwrap() };
    let fields = DescriptorFields { identity, access: Access::Read, nbytes, owner_worker_path_id: 0, body };
    Descriptor::new(&fields).unwrap()
}

#[test]
fn what_comes_again_is_mapped_once_and_a_conflict_names_the_fields() {
    let mut table = table([1, 2], 4);
    let first = descriptor(identity(1), 64);
    assert_eq!(table.find(&first), Lookup::Vacant);
    let key = table.insert(&first, 'a').unwrap();
    assert_eq!(table.find(&first), Lookup::Hit(key, &'a'));
    let again = InsertRefusal::AlreadyImported { identity: identity(1) };
    assert_eq!(table.insert(&first, 'b'), Err(InsertRefused { value: 'b', refusal: again }));

    let path = DescriptorFields { owner_worker_path_id: 77, ..first.fields() };
    assert_eq!(table.find(&Descriptor::new(&path).unwrap()), Lookup::Hit(key, &'a'));
    let mut padded = first.encode();
    padded[5..8].fill(0xff);
    padded[28..40].fill(0xff);
    padded[54..56].fill(0xff);
    assert_eq!(table.find(&Descriptor::from_bytes(&padded).unwrap()), Lookup::Hit(key, &'a'));

    let other = DescriptorFields { access: Access::ReadWrite, nbytes: 65, ..first.fields() };
    let other = Descriptor::new(&other).unwrap();
    let Lookup::Conflict(fields) = table.find(&other) else { panic!("it differs") };
    assert_eq!(fields.to_string(), "access, nbytes");
    let conflict = InsertRefusal::Conflict { identity: identity(1), fields };
    assert_eq!(table.insert(&other, 'c'), Err(InsertRefused { value: 'c', refusal: conflict }));
    assert_eq!(table.find(&first), Lookup::Hit(key, &'a'), "the first stays");
    assert_eq!(table.descriptor(key).unwrap(), first);
    assert_eq!(table.find(&descriptor(identity(2), 64)), Lookup::Vacant);
}

#[test]
fn what_is_pinned_is_neither_removed_nor_evicted() {
    let mut table = table([1, 2], 2);
    let keys = [1, 2].map(|id| table.insert(&descriptor(identity(id), 64), id).unwrap());
    let full = InsertRefused { value: 3, refusal: InsertRefusal::Full { capacity: 2 } };
    assert_eq!(table.insert(&descriptor(identity(3), 64), 3), Err(full));
    assert_eq!((table.pin(keys[0]), table.pin(keys[0]), table.pin(keys[1])), (Ok(1), Ok(2), Ok(1)));
    assert_eq!((table.len(), table.unused()), (2, 0));
    assert_eq!(table.evict(), None);
    assert_eq!(table.remove(identity(1)), Err(ViewsAlive { identity: identity(1), pins: 2 }));
    assert_eq!((table.unpin(keys[0]), table.unpin(keys[0])), (Ok(1), Ok(0)));
    assert_eq!(table.unpin(keys[0]), Err(PinError::NotPinned { identity: identity(1) }));
    assert_eq!(table.evict(), Some((descriptor(identity(1), 64), 1)));
    assert_eq!(table.pin(keys[0]), Err(PinError::NotImported), "a key of what is gone");
    assert_eq!(table.remove(identity(1)), Ok(None), "never imported, or no longer, is no error");

    let third = table.insert(&descriptor(identity(3), 64), 3).unwrap();
    assert_ne!(third, keys[0], "the slot is the same, the key is not");
    assert_eq!((table.get(keys[0]), table.get(third)), (None, Some(&3)));
    table.slot_mut(third).unwrap().pins = u32::MAX;
    assert_eq!(table.pin(third), Err(PinError::TooManyPins { identity: identity(3) }));
}

#[test]
fn closing_tries_all_keeps_what_failed_and_reports_the_first() {
    let mut table = table([1, 2], 8);
    let keys = [1, 2, 3, 4, 5].map(|id| table.insert(&descriptor(identity(id), 64), id).unwrap());
    table.pin(keys[3]).unwrap();
    let mut tried = Vec::new();
    let closed = table.close(|descriptor, value| {
        assert_eq!(descriptor.identity(), identity(*value));
        tried.push(*value);
        if value.is_multiple_of(2) { Err("it is stuck") } else { Ok(()) }
    });
    assert_eq!(tried, [1, 2, 3, 5]);
    assert_eq!(closed, Err(CloseError::Failed { identity: identity(2), error: "it is stuck" }));
    let kept: Vec<_> = table.iter().map(|(_, value, pins)| (*value, pins)).collect();
    assert_eq!(kept, [(2, 0), (4, 1)]);
    let closed = table.close(|_, _| Ok::<(), ()>(()));
    assert_eq!(closed, Err(CloseError::ViewsAlive(ViewsAlive { identity: identity(4), pins: 1 })));
    table.unpin(keys[3]).unwrap();
    assert_eq!(table.close(|_, _| Ok::<(), ()>(())), Ok(()));
    assert!(table.is_empty());
}

#[test]
fn a_table_without_storage_refuses_and_finds_nothing() {
    let mut none = ImportTable::new(KeyedHash::new([1, 2]), [ImportSlot::EMPTY; 0], [ImportBucket::EMPTY; 0]);
    let first = descriptor(identity(1), 64);
    let refused = InsertRefused { value: 1, refusal: InsertRefusal::Full { capacity: 0 } };
    assert_eq!(none.find(&first), Lookup::Vacant);
    assert_eq!(none.insert(&first, 1), Err(refused));
    // Three slots, and one bucket for them: lent, and more buckets than a power of two.
    let (mut slots, mut buckets) = ([const { ImportSlot::EMPTY }; 3], [ImportBucket::EMPTY; 3]);
    let mut lent = ImportTable::new(KeyedHash::new([1, 2]), &mut slots[..], &mut buckets[..1]);
    assert_eq!(lent.capacity(), 3);
    for id in 0..3 {
        lent.insert(&descriptor(identity(id), 64), id).unwrap();
    }
    let few = ImportTable::new(KeyedHash::new([1, 2]), slots, buckets);
    assert_eq!((few.capacity(), few.len(), few.iter().count()), (3, 0, 0));
    assert_eq!([0, 1, 4, 5, 32, 65_536].map(ImportBucket::count_for), [1, 1, 2, 2, 16, 32_768]);
}

/// Owners number their buffers one after the other, and a hash that is only nearly random would show here.
#[test]
fn every_table_takes_as_many_as_its_capacity_whatever_the_seed() {
    let capacities: &[usize] =
        if cfg!(miri) { &[1, 9, 33] } else { &[1, 2, 3, 4, 5, 8, 9, 16, 31, 32, 33, 64, 100, 4_096, 30_000] };
    for &capacity in capacities {
        for seed in 0..if capacity < 1_000 && !cfg!(miri) { 32 } else { 2 } {
            let mut table = table([seed, 99], capacity);
            let count = u64::try_from(capacity).unwrap();
            // Twice over, so that the second half comes into a table in which others stood.
            for id in 0..count * 2 {
                if id >= count {
                    assert_eq!(table.remove(identity(id - count)), Ok(Some(id - count)));
                }
                table.insert(&descriptor(identity(id), 64), id).unwrap();
            }
            assert_eq!(usize::try_from(table.len()).unwrap(), capacity);
            for id in count..count * 2 {
                assert!(
                    matches!(table.find(&descriptor(identity(id), 64)), Lookup::Hit(_, value) if *value == id)
                );
            }
        }
    }
}

/// Whoever knew the seed could choose identities of one hash. They are refused from the thirteenth on: no lookup ever compares
/// more than twelve, others are not slowed down, and under another seed all of them fit.
#[test]
fn identities_of_one_hash_make_no_list() {
    let hash = KeyedHash::new([7, 8]);
    let owner = OwnerInstanceId(hash.word_of_collisions().to_le_bytes());
    let chosen = |id| Identity::new(owner, id, NonZeroU32::MIN);
    let mut known = table([7, 8], 64);
    let mut secret = table([8, 7], 64);
    for id in 0..64 {
        assert_eq!(hash.identity(chosen(id)), hash.identity(chosen(0)));
        let inserted = known.insert(&descriptor(chosen(id), 64), id);
        let crowded = InsertRefusal::Crowded { identity: chosen(id) };
        if id < 12 {
            assert!(inserted.is_ok());
        } else {
            assert_eq!(inserted, Err(InsertRefused { value: id, refusal: crowded }));
        }
        assert!(secret.insert(&descriptor(chosen(id), 64), id).is_ok());
    }
    for id in 0..64 {
        let mut compared = 0;
        let place = known.place(chosen(id));
        let found = Index::find(&known.buckets, place, |slot| {
            compared += 1;
            (known.slots[usize::try_from(slot).unwrap()].value == Some(id)).then_some(())
        });
        assert_eq!((found.is_some(), compared), (id < 12, id.min(11) + 1));
    }
    // Other identities find room beside them, and one that goes makes room for one that was refused.
    for id in 0..32 {
        known.insert(&descriptor(identity(id), 64), id).unwrap();
    }
    assert_eq!(known.remove(chosen(3)), Ok(Some(3)));
    assert!(known.insert(&descriptor(chosen(63), 64), 63).is_ok());
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Insert(u64, u64),
    Find(u64, u64),
    Pin(usize),
    Unpin(usize),
    Touch(usize),
    Remove(u64),
    Evict,
    Close(u64),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let id = || 0..24_u64;
    let nbytes = || prop_oneof![9 => Just(64_u64), 1 => Just(65)];
    let call = prop_oneof![
        6 => (id(), nbytes()).prop_map(|(id, nbytes)| Call::Insert(id, nbytes)),
        4 => (id(), nbytes()).prop_map(|(id, nbytes)| Call::Find(id, nbytes)),
        4 => any::<usize>().prop_map(Call::Pin),
        4 => any::<usize>().prop_map(Call::Unpin),
        1 => any::<usize>().prop_map(Call::Touch),
        2 => id().prop_map(Call::Remove),
        2 => Just(Call::Evict),
        1 => (2..5_u64).prop_map(Call::Close),
    ];
    proptest::collection::vec(call, 1..if cfg!(miri) { 25 } else { 400 })
}

/// One import of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Import {
    nbytes: u64,
    value: usize,
    pins: u32,
    key: ImportKey,
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 128 }, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn the_table_agrees_with_its_model(calls in calls(), seed in any::<[u64; 2]>(), capacity in 1..20_usize) {
        let mut table = table(seed, capacity);
        let mut imports: BTreeMap<u64, Import> = BTreeMap::new();
        let mut unused: VecDeque<u64> = VecDeque::new();
        let mut keys: Vec<(u64, ImportKey)> = Vec::new();
        for (value, call) in calls.into_iter().enumerate() {
            // A key that was given out at any time, and what it stands for if that is still there.
            let pick = |choice: usize, imports: &BTreeMap<u64, Import>| {
                let (id, key) = *keys.get(choice % keys.len().max(1))?;
                Some((id, key, imports.get(&id).is_some_and(|import| import.key == key)))
            };
            match call {
                Call::Insert(id, nbytes) => match table.insert(&descriptor(identity(id), nbytes), value) {
                    Ok(key) => {
                        prop_assert!(imports.len() < capacity);
                        prop_assert!(keys.iter().all(|(_, known)| *known != key));
                        prop_assert_eq!(imports.insert(id, Import { nbytes, value, pins: 0, key }), None);
                        unused.push_back(id);
                        keys.push((id, key));
                    }
                    Err(InsertRefused { value: back, refusal }) => {
                        prop_assert_eq!(back, value);
                        match refusal {
                            InsertRefusal::Conflict { fields, .. } => {
                                prop_assert_eq!(fields, FieldSet::NBYTES);
                                prop_assert!(imports[&id].nbytes != nbytes);
                            }
                            InsertRefusal::AlreadyImported { .. } => {
                                prop_assert_eq!(imports[&id].nbytes, nbytes);
                            }
                            InsertRefusal::Full { .. } => {
                                prop_assert!(imports.len() == capacity && !imports.contains_key(&id));
                            }
                            InsertRefusal::Crowded { .. } => prop_assert!(false, "the seed is not known"),
                        }
                    }
                },
                Call::Find(id, nbytes) => {
                    let expected = match imports.get(&id) {
                        Some(import) if import.nbytes == nbytes => Lookup::Hit(import.key, &import.value),
                        Some(_) => Lookup::Conflict(FieldSet::NBYTES),
                        None => Lookup::Vacant,
                    };
                    prop_assert_eq!(table.find(&descriptor(identity(id), nbytes)), expected);
                }
                Call::Pin(choice) => {
                    let Some((id, key, is_there)) = pick(choice, &imports) else { continue };
                    if is_there {
                        let import = imports.get_mut(&id).unwrap();
                        import.pins += 1;
                        unused.retain(|other| *other != id);
                        prop_assert_eq!(table.pin(key), Ok(import.pins));
                    } else {
                        prop_assert_eq!(table.pin(key), Err(PinError::NotImported));
                    }
                }
                Call::Unpin(choice) => {
                    let Some((id, key, is_there)) = pick(choice, &imports) else { continue };
                    if !is_there {
                        prop_assert_eq!(table.unpin(key), Err(PinError::NotImported));
                        continue;
                    }
                    let import = imports.get_mut(&id).unwrap();
                    let expected = match import.pins {
                        0 => Err(PinError::NotPinned { identity: identity(id) }),
                        pins => Ok(pins - 1),
                    };
                    if let Ok(pins) = expected {
                        import.pins = pins;
                        if pins == 0 {
                            unused.push_back(id);
                        }
                    }
                    prop_assert_eq!(table.unpin(key), expected);
                }
                Call::Touch(choice) => {
                    let Some((id, key, is_there)) = pick(choice, &imports) else { continue };
                    if is_there && imports[&id].pins == 0 {
                        unused.retain(|other| *other != id);
                        unused.push_back(id);
                    }
                    table.touch(key);
                }
                Call::Remove(id) => {
                    let pins = imports.get(&id).map_or(0, |import| import.pins);
                    if pins != 0 {
                        prop_assert_eq!(table.remove(identity(id)), Err(ViewsAlive { identity: identity(id), pins }));
                        continue;
                    }
                    let gone = imports.remove(&id);
                    unused.retain(|other| *other != id);
                    prop_assert_eq!(table.remove(identity(id)), Ok(gone.map(|import| import.value)));
                }
                Call::Evict => {
                    let gone = unused.pop_front().and_then(|id| Some((id, imports.remove(&id)?)));
                    let expected = gone.map(|(id, import)| (descriptor(identity(id), import.nbytes), import.value));
                    prop_assert_eq!(table.evict(), expected);
                }
                Call::Close(divisor) => {
                    let closed = table.close(|descriptor, _| {
                        let id = descriptor.identity().buffer_id();
                        if id.is_multiple_of(divisor) { Err(id) } else { Ok(()) }
                    });
                    imports.retain(|id, import| import.pins != 0 || id.is_multiple_of(divisor));
                    unused.retain(|id| imports.contains_key(id));
                    prop_assert_eq!(closed.is_ok(), imports.is_empty());
                }
            }
            let mut listed: Vec<_> = table
                .iter()
                .map(|(descriptor, value, pins)| (descriptor.identity().buffer_id(), *value, pins))
                .collect();
            listed.sort_unstable();
            let expected: Vec<_> = imports.iter().map(|(id, import)| (*id, import.value, import.pins)).collect();
            prop_assert_eq!(listed, expected);
            prop_assert_eq!(usize::try_from(table.len()).unwrap(), imports.len());
            prop_assert_eq!(usize::try_from(table.unused()).unwrap(), unused.len());
            for id in 0..24 {
                prop_assert_eq!(table.find_identity(identity(id)), imports.get(&id).map(|import| import.key));
            }
        }
    }
}
