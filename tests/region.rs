//! A region's operations: every comparison, every border, and what a failing memory leaves behind.
#![expect(clippy::unwrap_used, reason = "what a test did not expect fails it")]

use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bufabi_core::region::{
    AccessError, Clock, Comparison, Notification, Place, Region, RegionError, Seen, Watch,
};
use bufabi_tests::clock::Counted;
use bufabi_tests::memory::{AtomicMemory, Step, Watched};

#[test]
fn every_comparison_of_values_around_zero_and_the_borders() {
    let memory = AtomicMemory::new(64, 64);
    let mut region = Region::new(&memory);
    let values = [i32::MIN, i32::MIN + 1, -1, 0, 1, i32::MAX - 1, i32::MAX];
    for observed in values {
        assert_eq!(region.notify(8, Notification::Set, observed), Ok(observed));
        for value in values {
            for (comparison, matched) in [
                (Comparison::Equal, observed == value),
                (Comparison::NotEqual, observed != value),
                (Comparison::Greater, observed > value),
                (Comparison::GreaterOrEqual, observed >= value),
                (Comparison::Less, observed < value),
                (Comparison::LessOrEqual, observed <= value),
            ] {
                assert_eq!(region.test(8, comparison, value), Ok(Seen { matched, observed }));
            }
        }
    }
    let numbers = Comparison::ALL.iter().map(|comparison| (comparison.to_wire(), comparison.name()));
    assert!(numbers.eq([(0, "EQ"), (1, "NE"), (2, "GT"), (3, "GE"), (4, "LT"), (5, "LE")]));
    let numbers = Notification::ALL.iter().map(|notification| (notification.to_wire(), notification.name()));
    assert!(numbers.eq([(0, "SET"), (1, "ADD")]));
}

#[test]
fn adding_wraps() {
    let memory = AtomicMemory::new(64, 64);
    let mut region = Region::new(&memory);
    assert_eq!(region.notify(0, Notification::Add, i32::MAX), Ok(i32::MAX));
    assert_eq!(region.notify(0, Notification::Add, 2), Ok(i32::MIN + 1));
    assert_eq!(region.notify(0, Notification::Add, i32::MIN), Ok(1));
    assert_eq!(memory.counter(0).load(Ordering::Relaxed), 1);
}

#[test]
fn what_lies_outside_is_refused_and_changes_nothing() {
    let memory = AtomicMemory::new(64, 128);
    let touched = RefCell::new(0);
    let watched = Watched::new(&memory, |_: &AtomicMemory, _: Step| {
        touched.replace_with(|count: &mut u32| count.saturating_add(1));
        Ok(())
    });
    let mut region = Region::new(&watched);
    for (offset, nbytes) in [(65, 0), (64, 1), (0, 65), (63, 2), (u64::MAX, 1), (u64::MAX, 0), (1, 64)] {
        let length = usize::try_from(nbytes).unwrap();
        let error = Err(RegionError::PayloadRange { offset, nbytes, part_bytes: 64 });
        assert_eq!(region.write(offset, &[1; 65][..length]), error);
        assert_eq!(region.read(offset, &mut [0; 65][..length]), error);
    }
    for offset in [1, 2, 3, 5, 125, 126, 127, 128, 132, u64::MAX, u64::MAX - 3] {
        let error = RegionError::CounterRange { offset, part_bytes: 128 };
        assert_eq!(region.notify(offset, Notification::Set, 1), Err(error));
        assert_eq!(region.test(offset, Comparison::Equal, 0), Err(error));
        let waited = region.wait(offset, Comparison::Equal, 0, Duration::MAX, &mut Counted::default());
        assert_eq!(waited, Err(error));
    }
    assert_eq!((touched.take(), region.poison()), (0, None));
    region.write(64, &[]).unwrap();
    region.write(63, &[9]).unwrap();
    region.notify(124, Notification::Set, 1).unwrap();
    let mut last = [0];
    region.read(63, &mut last).unwrap();
    assert_eq!(last, [9]);
}

/// The counter gets a value at each pause.
struct Notifying<'a>(&'a AtomicMemory, Vec<i32>, Vec<Watch>);

impl Clock for Notifying<'_> {
    fn now(&mut self) -> Duration {
        Duration::from_millis(u64::try_from(self.2.len()).unwrap())
    }

    fn pause(&mut self, watch: Watch, _: Duration) {
        if let Some(value) = self.1.pop() {
            self.0.counter(watch.counter).store(value.cast_unsigned(), Ordering::Release);
        }
        self.2.push(watch);
    }
}

#[test]
fn a_wait_ends_with_a_match_or_its_limit_and_tells_the_last_value() {
    let memory = AtomicMemory::new(64, 64);
    let region = Region::new(&memory);
    let mut clock = Notifying(&memory, vec![-5, 7, 3], Vec::new());
    let seen = region.wait(4, Comparison::Less, 0, Duration::from_secs(1), &mut clock);
    assert_eq!(seen, Ok(Seen { matched: true, observed: -5 }));
    let watch = |seen| Watch { counter: 4, seen, sleep_flag: None };
    assert_eq!(clock.2, [watch(0), watch(3), watch(7)]);

    let mut clock = Notifying(&memory, vec![2, 1], Vec::new());
    let seen = region.wait(4, Comparison::Equal, 9, Duration::from_millis(4), &mut clock);
    assert_eq!((seen, clock.2.len()), (Ok(Seen { matched: false, observed: 2 }), 4));

    let mut clock = Notifying(&memory, vec![9], Vec::new());
    let seen = region.wait(4, Comparison::Equal, 9, Duration::ZERO, &mut clock);
    assert_eq!((seen, clock.2.len()), (Ok(Seen { matched: false, observed: 2 }), 0), "time 0 is one look");
    assert_eq!(region.poison(), None);
}

#[test]
fn bytes_are_published_before_a_notify_and_observed_after_a_match() {
    let memory = AtomicMemory::new(64, 64);
    let steps = RefCell::new(Vec::new());
    let watched = Watched::new(&memory, |_: &AtomicMemory, step: Step| {
        steps.borrow_mut().push(step);
        Ok(())
    });
    let mut region = Region::new(&watched);
    let everything = Place { offset: 0, nbytes: 64 };
    region.write(8, &[1, 2]).unwrap();
    region.notify(0, Notification::Add, 5).unwrap();
    let written = Step::Write(Place { offset: 8, nbytes: 2 });
    assert_eq!(steps.take(), [written, Step::Load(0), Step::Publish(everything), Step::Store(0, 5)]);
    region.test(0, Comparison::Equal, 4).unwrap();
    assert_eq!(steps.take(), [Step::Load(0)]);
    region.test(0, Comparison::Equal, 5).unwrap();
    assert_eq!(steps.take(), [Step::Load(0), Step::Observe(everything)]);
}

#[test]
fn only_what_failed_half_done_poisons_and_the_first_cause_is_kept() {
    let memory = AtomicMemory::new(64, 64);
    let error = AccessError::driver(507_899);
    let fail = RefCell::new(None::<fn(Step) -> bool>);
    let watched = Watched::new(&memory, |_: &AtomicMemory, step: Step| match *fail.borrow() {
        Some(fails) if fails(step) => Err(error),
        _ => Ok(()),
    });
    let mut region = Region::new(&watched);
    fail.replace(Some(|step| !matches!(step, Step::Write(_) | Step::Store(..))));
    assert_eq!(region.read(0, &mut [0; 4]), Err(RegionError::Access(error)));
    assert_eq!(region.notify(0, Notification::Add, 1), Err(RegionError::Access(error)));
    assert_eq!(region.notify(0, Notification::Set, 1), Err(RegionError::Access(error)));
    assert_eq!(region.test(0, Comparison::Equal, 0), Err(RegionError::Access(error)));
    assert_eq!((region.poison(), memory.counter(0).load(Ordering::Relaxed)), (None, 0));

    let half_done: [fn(Step) -> bool; 2] =
        [|step| matches!(step, Step::Write(_)), |step| matches!(step, Step::Store(..))];
    for fails in half_done {
        let mut region = Region::new(&watched);
        fail.replace(Some(fails));
        let written = region.write(0, &[1]).and_then(|()| region.notify(0, Notification::Set, 1));
        assert_eq!(written, Err(RegionError::Poisoned(error)));
        fail.replace(None);
        assert_eq!(region.poison(), Some(error));
        assert_eq!(region.write(0, &[1]), Err(RegionError::Poisoned(error)));
        assert_eq!(region.read(0, &mut [0]), Err(RegionError::Poisoned(error)));
        assert_eq!(region.test(0, Comparison::Equal, 0), Err(RegionError::Poisoned(error)));
        assert_eq!(region.into_access().steps(), watched.steps(), "cleanup works");
    }
}
