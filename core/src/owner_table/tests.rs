//! The owner's table against a plain model of it, and the answers that a model would only repeat.

use core::num::NonZeroU32;
use std::collections::{BTreeMap, BTreeSet};
use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;

use super::{InsertError, LookupError, Owned, OwnerError, OwnerSlot, OwnerTable, OwnerTableFull};
use crate::wire::identity::{Identity, OwnerInstanceId};

const OWNER: OwnerInstanceId = OwnerInstanceId(*b"an owner");
const OTHER: OwnerInstanceId = OwnerInstanceId(*b"another!");

fn table<const N: usize>(generation: u32) -> OwnerTable<u32, [OwnerSlot<u32>; N]> {
    OwnerTable::starting_after(OWNER, [const { OwnerSlot::EMPTY }; N], generation)
}

fn named(buffer_id: u64, generation: u32) -> Identity {
    Identity::new(OWNER, buffer_id, NonZeroU32::new(generation).unwrap())
}

fn release<const N: usize>(table: &mut OwnerTable<u32, [OwnerSlot<u32>; N]>, identity: Identity) -> u32 {
    table.begin_release(identity).unwrap();
    table.finish_release(identity).unwrap()
}

#[test]
fn never_existed_stale_and_live_are_told_apart() {
    let mut table = table::<4>(0);
    let first = table.insert(7).unwrap();
    assert_eq!(first, named(1, 1));
    assert_eq!(table.get(first), Ok(&Owned { value: 7, holds: 0, is_closing: false }));
    let never = |buffer_id, generation| {
        let generation = NonZeroU32::new(generation).unwrap();
        Err(LookupError::NeverExisted { buffer_id, generation })
    };
    for id in [0, 2, 4, 5, u64::from(u32::MAX), 1 << 32, u64::MAX] {
        assert_eq!(table.get(named(id, 1)), never(id, 1));
    }
    assert_eq!(table.get(named(1, 2)), never(1, 2), "a generation that is still to come");
    let others = Identity::new(OTHER, 1, NonZeroU32::MIN);
    assert_eq!(table.get(others), Err(LookupError::OtherOwner { found: OTHER, asked: OWNER }));

    assert_eq!(release(&mut table, first), 7);
    let stale = |generation, latest| {
        let [generation, latest] = [generation, latest].map(|g| NonZeroU32::new(g).unwrap());
        LookupError::Stale { buffer_id: 1, generation, latest }
    };
    assert_eq!(table.get(first), Err(stale(1, 1)));
    assert_eq!(stale(1, 1).to_string(), "buffer 1 in generation 1 has been released");
    let second = table.insert(8).unwrap();
    assert_eq!(second, named(1, 2), "a slot used again has one generation more");
    assert_eq!(table.get(first), Err(stale(1, 2)));
    assert_eq!(stale(1, 2).to_string(), "buffer 1 in generation 1 is stale: the latest is 2");
    assert_eq!(table.get(second).unwrap().value, 8);
}

#[test]
fn a_slot_whose_last_generation_is_spent_is_retired_for_ever() {
    let mut table = table::<2>(u32::MAX - 2);
    let [first, second] = table.insert_pair([1, 2]).unwrap();
    release(&mut table, first);
    let last = table.insert(3).unwrap();
    assert_eq!(last, named(1, u32::MAX));
    release(&mut table, last);
    assert_eq!(table.insert(4), Err(OwnerTableFull { value: 4, capacity: 2 }));
    assert!(matches!(table.get(last), Err(LookupError::Stale { latest: NonZeroU32::MAX, .. })));
    release(&mut table, second);
    assert_eq!(table.insert_pair([5, 6]), Err(OwnerTableFull { value: [5, 6], capacity: 2 }));
    assert_eq!(table.insert(5), Ok(named(2, u32::MAX)));
    assert_eq!((table.len(), table.capacity()), (1, 2));
}

#[test]
fn a_busy_refusal_changes_nothing_and_closing_lets_nothing_in() {
    let mut table = table::<1>(0);
    let identity = table.insert(7).unwrap();
    assert_eq!(table.unhold(identity), Err(OwnerError::NotHeld { identity }));
    assert_eq!((table.hold(identity), table.hold(identity)), (Ok(1), Ok(2)));
    let busy = |holds| OwnerError::Busy { identity, holds };
    assert_eq!(table.begin_release(identity), Err(busy(2)));
    assert_eq!(table.get(identity), Ok(&Owned { value: 7, holds: 2, is_closing: false }));
    assert_eq!(table.live(identity), Ok(&7));
    assert_eq!(table.finish_release(identity), Err(OwnerError::NotClosing { identity }));

    assert_eq!(table.begin_release_when_idle(identity), Ok(2));
    assert_eq!(table.hold(identity), Err(OwnerError::Closing { identity }));
    assert_eq!(table.live(identity), Err(OwnerError::Closing { identity }));
    assert_eq!(table.finish_release(identity), Err(busy(2)));
    assert_eq!((table.unhold(identity), table.unhold(identity)), (Ok(1), Ok(0)));
    assert_eq!(table.begin_release(identity), Ok(&mut 7));
    assert_eq!(table.begin_release(identity), Ok(&mut 7), "after a failure it goes on");
    assert_eq!(table.finish_release(identity), Ok(7));
    assert!(matches!(table.finish_release(identity), Err(OwnerError::Lookup(LookupError::Stale { .. }))));
}

#[test]
fn holds_are_never_counted_past_what_they_can_count() {
    let mut table = table::<1>(0);
    let identity = table.insert(7).unwrap();
    table.owned_mut(identity).unwrap().holds = u32::MAX;
    assert_eq!(table.hold(identity), Err(OwnerError::TooManyHolds { identity }));
    assert_eq!(table.get(identity).unwrap().holds, u32::MAX);
}

#[test]
fn what_could_not_be_made_spends_no_identity() {
    let mut table = table::<2>(0);
    let failed: Result<_, _> = table.insert_with(|_| Err("no space"));
    assert_eq!(failed, Err(InsertError::Make("no space")));
    let failed: Result<_, _> = table.insert_pair_with(|_| Err("no space"));
    assert_eq!(failed, Err(InsertError::Make("no space")));
    let mut seen = None;
    let made = table.insert_pair_with(|identities| {
        seen = Some(identities);
        Ok::<_, ()>([1, 2])
    });
    assert_eq!(made, Ok([named(1, 1), named(2, 1)]));
    assert_eq!(made.ok(), seen);
    let full = table.insert_with(|_| -> Result<u32, ()> { panic!("nothing is made for a full table") });
    assert_eq!(full, Err(InsertError::Full { capacity: 2 }));
}

#[test]
fn slots_may_be_lent_or_boxed_and_used_again_for_another_incarnation() {
    let mut slots: Vec<OwnerSlot<u32>> = (0..3).map(|_| OwnerSlot::EMPTY).collect();
    let mut first = OwnerTable::new(OWNER, slots.as_mut_slice());
    let identity = first.insert(1).unwrap();
    assert_eq!(first.iter().collect::<Vec<_>>(), [(identity, first.get(identity).unwrap())]);
    let second = OwnerTable::<u32, _>::new(OTHER, slots.into_boxed_slice());
    assert_eq!(second.iter().count(), 0);
    assert_eq!((second.len(), second.capacity(), second.is_empty()), (0, 3, true));
    let same_bytes = Identity::new(OTHER, identity.buffer_id(), identity.generation());
    assert!(matches!(second.get(same_bytes), Err(LookupError::NeverExisted { .. })));
}

/// One call; numbers choose among the identities known so far.
#[derive(Clone, Copy, Debug)]
enum Call {
    Insert,
    InsertPair,
    Hold(usize),
    Unhold(usize),
    BeginRelease(usize),
    BeginReleaseWhenIdle(usize),
    FinishRelease(usize),
    Forge { buffer_id: u64, generation: u32 },
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        4 => Just(Call::Insert),
        2 => Just(Call::InsertPair),
        2 => any::<usize>().prop_map(Call::Hold),
        2 => any::<usize>().prop_map(Call::Unhold),
        4 => any::<usize>().prop_map(Call::BeginRelease),
        1 => any::<usize>().prop_map(Call::BeginReleaseWhenIdle),
        4 => any::<usize>().prop_map(Call::FinishRelease),
        1 => (0..9_u64, prop_oneof![1..5_u32, u32::MAX - 3..=u32::MAX])
            .prop_map(|(buffer_id, generation)| Call::Forge { buffer_id, generation }),
    ];
    proptest::collection::vec(call, 1..if cfg!(miri) { 25 } else { 250 })
}

const SLOTS: usize = 7;

/// What the table must know, kept without any of its means.
struct Model {
    start: u32,
    given_out: BTreeSet<Identity>,
    live: BTreeMap<u64, (Identity, Owned<u32>)>,
}

impl Model {
    fn latest(&self, buffer_id: u64) -> u32 {
        let of_that_id = self.given_out.iter().filter(|identity| identity.buffer_id() == buffer_id);
        of_that_id.map(|identity| identity.generation().get()).max().unwrap_or(self.start)
    }

    fn is_free(&self, buffer_id: u64) -> bool {
        !self.live.contains_key(&buffer_id) && self.latest(buffer_id) != u32::MAX
    }

    fn get(&self, identity: Identity) -> Option<Owned<u32>> {
        let (live, owned) = self.live.get(&identity.buffer_id())?;
        (*live == identity).then_some(*owned)
    }

    /// The identity keeps every promise of the allocator; from now on it is live.
    fn insert(&mut self, identity: Identity, value: u32) {
        assert_eq!(identity.owner_instance_id(), OWNER);
        let id = identity.buffer_id();
        assert!((1..=7).contains(&id) && self.is_free(id));
        assert_eq!(identity.generation().get(), self.latest(id) + 1);
        assert!(self.given_out.insert(identity));
        self.live.insert(id, (identity, Owned { value, holds: 0, is_closing: false }));
    }

    fn agree(&self, table: &OwnerTable<u32, [OwnerSlot<u32>; SLOTS]>, forged: &[Identity]) {
        let listed: Vec<_> = table.iter().map(|(identity, owned)| (identity, *owned)).collect();
        assert_eq!(listed, self.live.values().copied().collect::<Vec<_>>());
        assert_eq!(usize::try_from(table.len()).unwrap(), self.live.len());
        for &identity in self.given_out.iter().chain(forged) {
            let (id, generation) = (identity.buffer_id(), identity.generation());
            let existed = self.given_out.contains(&identity)
                || ((1..=7).contains(&id) && generation.get() <= self.start);
            match table.get(identity) {
                Ok(owned) => assert_eq!(Some(*owned), self.get(identity)),
                Err(LookupError::NeverExisted { .. }) => assert!(!existed),
                Err(LookupError::Stale { latest, .. }) => {
                    assert!(existed && self.get(identity).is_none());
                    assert_eq!(latest.get(), self.latest(id));
                }
                Err(LookupError::OtherOwner { .. }) => panic!("{identity} is this owner's"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 128 }, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn the_table_agrees_with_its_model(calls in calls(), near_the_end in any::<bool>()) {
        let start = if near_the_end { u32::MAX - 4 } else { 0 };
        let mut table = table::<SLOTS>(start);
        let mut model = Model { start, given_out: BTreeSet::new(), live: BTreeMap::new() };
        let mut known = Vec::new();
        let mut forged = Vec::new();
        for (value, call) in (0..).zip(calls) {
            let pick = |choice: usize| known.get(choice % known.len().max(1)).copied();
            match call {
                Call::Insert => match table.insert(value) {
                    Ok(identity) => {
                        model.insert(identity, value);
                        known.push(identity);
                    }
                    Err(full) => {
                        prop_assert_eq!(full, OwnerTableFull { value, capacity: 7 });
                        prop_assert!((1..=7).all(|id| !model.is_free(id)));
                    }
                },
                Call::InsertPair => match table.insert_pair([value, !value]) {
                    Ok([payload, counter]) => {
                        prop_assert_eq!(counter.buffer_id(), payload.buffer_id() + 1);
                        model.insert(payload, value);
                        model.insert(counter, !value);
                        known.extend([payload, counter]);
                    }
                    Err(full) => {
                        prop_assert_eq!(full.value, [value, !value]);
                        prop_assert!([1, 3, 5].iter().all(|&id| !model.is_free(id) || !model.is_free(id + 1)));
                    }
                },
                Call::Forge { buffer_id, generation } => forged.push(named(buffer_id, generation)),
                Call::Hold(choice) => {
                    let Some(identity) = pick(choice) else { continue };
                    let expected = match model.live.get_mut(&identity.buffer_id()) {
                        Some((live, owned)) if *live == identity && !owned.is_closing => {
                            owned.holds += 1;
                            Some(owned.holds)
                        }
                        Some(_) | None => None,
                    };
                    prop_assert_eq!(table.hold(identity).ok(), expected);
                }
                Call::Unhold(choice) => {
                    let Some(identity) = pick(choice) else { continue };
                    let expected = match model.live.get_mut(&identity.buffer_id()) {
                        Some((live, owned)) if *live == identity && owned.holds != 0 => {
                            owned.holds -= 1;
                            Some(owned.holds)
                        }
                        Some(_) | None => None,
                    };
                    prop_assert_eq!(table.unhold(identity).ok(), expected);
                }
                Call::BeginRelease(choice) => {
                    let Some(identity) = pick(choice) else { continue };
                    let expected = match model.live.get_mut(&identity.buffer_id()) {
                        Some((live, owned)) if *live == identity && owned.holds == 0 => {
                            owned.is_closing = true;
                            Some(owned.value)
                        }
                        Some(_) | None => None,
                    };
                    prop_assert_eq!(table.begin_release(identity).ok().copied(), expected);
                }
                Call::BeginReleaseWhenIdle(choice) => {
                    let Some(identity) = pick(choice) else { continue };
                    let expected = match model.live.get_mut(&identity.buffer_id()) {
                        Some((live, owned)) if *live == identity => {
                            owned.is_closing = true;
                            Some(owned.holds)
                        }
                        Some(_) | None => None,
                    };
                    prop_assert_eq!(table.begin_release_when_idle(identity).ok(), expected);
                }
                Call::FinishRelease(choice) => {
                    let Some(identity) = pick(choice) else { continue };
                    let expected = model.get(identity).filter(|owned| owned.is_closing && owned.holds == 0);
                    if expected.is_some() {
                        model.live.remove(&identity.buffer_id());
                    }
                    prop_assert_eq!(table.finish_release(identity).ok(), expected.map(|owned| owned.value));
                }
            }
            model.agree(&table, &forged);
        }
    }
}
