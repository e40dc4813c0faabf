//! Several messages with one publication: one store for all, and what is left when a batch ends in the middle.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use bufabi_core::queue::{Full, Kind, L2End, L3End, Opcode, Poison, ReceiveError, SendError, counters};
use bufabi_core::region::Place;
use bufabi_tests::memory::{AtomicMemory, Step, Watched};

use crate::script::{layout, new_memory};

/// However many go at once, each counter is stored once, after everything that it announces.
#[test]
fn several_messages_are_announced_with_one_store_and_given_back_with_one() {
    let memory = new_memory();
    let stores = RefCell::new(Vec::new());
    let watched = || {
        Watched::new(
            &memory,
            Box::new(|_: &AtomicMemory, step| {
                if matches!(step, Step::Store(..)) {
                    stores.borrow_mut().push(step);
                }
                Ok(())
            }),
        )
    };
    let (l3_memory, l2_memory) = (watched(), watched());
    let mut l3 = L3End::new(layout(), &l3_memory, [0; 2]).unwrap();
    let mut l2 = L2End::<_, _, 2>::new(layout(), &l2_memory, [0; 2]).unwrap();
    // The third does not fit, and what stopped it is told when it is tried alone.
    assert_eq!(l3.try_enqueue_all(Kind::Data, [[1; 8], [2; 8], [3; 8]]), Ok(2));
    assert_eq!(stores.take(), [Step::Store(counters::INPUT_TAIL, 2)]);
    let full = Err(SendError::Full(Full::Ring));
    assert_eq!(l3.try_enqueue_all(Kind::Data, [[3; 8]]), full);
    assert_eq!(l3.try_enqueue_all(Kind::Data, [[0; 8]; 0]), Ok(0));
    let handles = [(); 2].map(|()| l2.try_receive().unwrap().handle());
    assert_eq!(stores.take(), []);
    l2.release_all(&[handles[1], handles[0]]).unwrap();
    assert_eq!(stores.take(), [Step::Store(counters::INPUT_HEAD, 2)]);
    assert_eq!(l2.try_send_all(Kind::Error, [[4; 8], [5; 8]]), Ok(2));
    assert_eq!(stores.take(), [Step::Store(counters::OUTPUT_TAIL, 2)]);
    let (mut out, mut taken) = ([0; 8], Vec::new());
    let each = |opcode: Opcode, bytes: &[u8]| taken.push((opcode, bytes.to_vec()));
    assert_eq!(l3.try_dequeue_each(&mut out, 9, each), Ok(2));
    assert_eq!(taken, [(Opcode::Error, vec![4; 8]), (Opcode::Error, vec![5; 8])]);
    assert_eq!(stores.take(), [Step::Store(counters::OUTPUT_HEAD, 2)]);
    // One that was given back before is not current: those before it in the list are given back and told, then the queue ends.
    l3.try_enqueue_all(Kind::Data, [[6; 8], [7; 8]]).unwrap();
    let handles = [(); 2].map(|()| l2.try_receive().unwrap().handle());
    stores.take();
    let poison = Poison::Handle { found: handles[0].number() };
    let refused = Err(ReceiveError::Poisoned(poison));
    assert_eq!(l2.release_all(&[handles[0], handles[0], handles[1]]), refused);
    assert_eq!(stores.take(), [Step::Store(counters::INPUT_HEAD, 3), Step::Store(counters::L2_ABORT, 1)]);
}

/// Nothing of such a batch is told but the end: what it handed on before was good.
#[test]
fn a_batch_in_whose_middle_the_other_side_breaks_a_rule_ends_the_queue() {
    let memory = new_memory();
    let counter = |counter| memory.counter(counter).load(Ordering::Relaxed);
    let mut l3 = L3End::new(layout(), &memory, [0; 2]).unwrap();
    let mut l2 = L2End::<_, _, 1>::new(layout(), &memory, [0; 2]).unwrap();
    l2.try_send_all(Kind::Data, [[4; 8], [5; 8]]).unwrap();
    memory.word(layout().output_ring() + 32).store(7, Ordering::Relaxed);
    let mut taken = Vec::new();
    let outcome = l3.try_dequeue_each(&mut [0; 8], 2, |_, bytes| taken.push(bytes.to_vec()));
    assert_eq!(outcome, Err(ReceiveError::Poisoned(Poison::Sequence { index: 1, found: 7 })));
    assert_eq!(taken, [[4; 8]]);
    assert_eq!((counter(counters::OUTPUT_HEAD), counter(counters::L3_ABORT)), (0, 1));

    let memory = new_memory();
    let counter = |counter| memory.counter(counter).load(Ordering::Relaxed);
    let mut l3 = L3End::new(layout(), &memory, [0; 2]).unwrap();
    memory.counter(counters::INPUT_HEAD).store(3, Ordering::Relaxed);
    let poison = Poison::Count { counter: counters::INPUT_HEAD, found: 3, before: 0, at_most: 2 };
    let outcome = l3.try_enqueue_all(Kind::Data, [[1; 8], [2; 8], [3; 8]]);
    assert_eq!(outcome, Err(SendError::Poisoned(poison)));
    assert_eq!((counter(counters::INPUT_TAIL), counter(counters::L3_ABORT)), (0, 1));
}

/// Whoever gives the messages, or takes them, panics at the second: the first is told, and the queue goes on.
#[test]
fn what_is_done_of_a_batch_is_told_when_its_callers_code_panics() {
    let memory = new_memory();
    let count = |counter| memory.counter(counter).load(Ordering::Relaxed);
    let mut l3 = L3End::new(layout(), &memory, [0; 2]).unwrap();
    let mut l2 = L2End::<_, _, 2>::new(layout(), &memory, [0; 2]).unwrap();
    let messages = || {
        [1_u8, 2].into_iter().map(|number| {
            assert_eq!(number, 1, "the caller's own panic");
            [number; 8]
        })
    };
    let sent = catch_unwind(AssertUnwindSafe(|| l3.try_enqueue_all(Kind::Data, messages())));
    assert!(sent.is_err());
    assert_eq!(count(counters::INPUT_TAIL), 1);
    let sent = catch_unwind(AssertUnwindSafe(|| l2.try_send_all(Kind::Data, messages())));
    assert!(sent.is_err());
    assert_eq!(count(counters::OUTPUT_TAIL), 1);
    l2.try_send(Kind::Data, &[2; 8]).unwrap();
    let each = |_: Opcode, bytes: &[u8]| assert_eq!(bytes, [0; 8], "the caller's own panic");
    let taken = catch_unwind(AssertUnwindSafe(|| l3.try_dequeue_each(&mut [0; 8], 2, each)));
    assert!(taken.is_err());
    assert_eq!(count(counters::OUTPUT_HEAD), 1);
    let mut out = [0; 8];
    assert_eq!(l3.try_dequeue_each(&mut out, 2, |_, bytes| assert_eq!(bytes, [2; 8])), Ok(1));
    l3.try_enqueue(Kind::Data, &[2; 8]).unwrap();
    for number in [1, 2] {
        let message = l2.try_receive().unwrap();
        assert_eq!(l2.read_into(message.handle(), &mut out), Ok(8));
        assert_eq!(out, [number; 8]);
    }
    assert_eq!((l3.poison(), l2.poison()), (None, None));
}

/// What was read of any of them was read before the other side can write there again.
#[test]
fn what_is_given_back_at_once_is_published_first() {
    let memory = new_memory();
    let steps = RefCell::new(Vec::new());
    let watched = Watched::new(&memory, |_: &AtomicMemory, step| {
        steps.borrow_mut().push(step);
        Ok(())
    });
    let mut l3 = L3End::new(layout(), &memory, [0; 2]).unwrap();
    let mut l2 = L2End::<_, _, 2>::new(layout(), &watched, [0; 2]).unwrap();
    l3.try_enqueue_all(Kind::Data, [[1; 8], [2; 8]]).unwrap();
    let handles = [(); 2].map(|()| l2.try_receive().unwrap().handle());
    steps.take();
    l2.release_all(&handles).unwrap();
    assert_eq!(steps.take(), [Step::Publish(Place::NOTHING), Step::Store(counters::INPUT_HEAD, 2)]);
    l2.release_all(&[]).unwrap();
    assert_eq!(steps.take(), []);
}
