//! Several messages with one publication, in both directions, and batches that end in the middle.

use bufabi_core::queue::{Full, Handle, Kind, Opcode, Poison, ReceiveError, SendError};

use crate::memory::Order;
use crate::{LIMIT, Task, Turns, WRAPPING, explore};

/// Tries again until it is not refused for want of room or of messages.
fn until<T, E: Copy>(
    is_for_now: impl Fn(E) -> bool,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    loop {
        match attempt() {
            Err(error) if is_for_now(error) => loom::thread::yield_now(),
            outcome => return outcome,
        }
    }
}

/// Receives what is there, at least one and at most as many as the window holds: messages from `next` on, each whole.
fn receive_several(task: &mut Task<2>, next: &mut u64) -> Vec<Handle> {
    let mut held = vec![crate::receive(task, *next)];
    *next += 1;
    while let Ok(message) = task.try_receive() {
        let mut bytes = [0; 8];
        assert_eq!(task.read_into(message.handle(), &mut bytes), Ok(8));
        assert_eq!(u64::from_le_bytes(bytes), *next);
        held.push(message.handle());
        *next += 1;
    }
    held
}

/// Batches of two in a ring of two: slots are used again at once, and a batch finds room for both, for one, or for none.
fn send_in_batches(order: Order) {
    explore::<2>(
        order,
        2,
        WRAPPING,
        |mut host| {
            let mut sent = 0;
            while sent < 3 {
                let messages = (sent + 1..=3_u64).map(u64::to_le_bytes);
                let count = until(
                    |error| matches!(error, SendError::Full(Full::Ring)),
                    || host.try_enqueue_all(Kind::Data, messages.clone()),
                );
                sent += u64::try_from(count.unwrap()).unwrap();
            }
        },
        |mut task| {
            let mut next = 1;
            while next <= 3 {
                let mut held = receive_several(&mut task, &mut next);
                held.reverse();
                task.release_all(&held).unwrap();
            }
        },
    );
}

#[test]
fn what_is_published_at_once_is_read_whole_and_used_again_only_when_it_is_given_back() {
    send_in_batches(Order::Fences);
    send_in_batches(Order::Counters);
}

#[test]
#[should_panic(expected = "")]
fn a_batch_that_is_not_published_may_be_read_as_what_was_there_before() {
    send_in_batches(Order::NoPublish);
}

#[test]
#[should_panic(expected = "")]
fn a_batch_that_is_not_observed_may_be_read_as_what_was_there_before() {
    send_in_batches(Order::NoObserve);
}

#[test]
fn outputs_are_sent_and_taken_in_batches_while_others_follow() {
    for order in [Order::Fences, Order::Counters] {
        explore::<1>(
            order,
            2,
            WRAPPING,
            |mut host| {
                let mut taken = 0_u64;
                while taken < 3 {
                    let each = |opcode, bytes: &[u8]| {
                        taken += 1;
                        assert_eq!((opcode, bytes), (Opcode::Data, &taken.to_le_bytes()[..]));
                    };
                    let outcome = host.try_dequeue_each(&mut [0; 8], 2, each);
                    if outcome == Err(ReceiveError::Empty) {
                        loom::thread::yield_now();
                    } else {
                        assert!(matches!(outcome, Ok(1 | 2)));
                    }
                }
            },
            |mut task| {
                let mut sent = 0;
                while sent < 3 {
                    let messages = (sent + 1..=3_u64).map(u64::to_le_bytes);
                    let count = until(
                        |error| matches!(error, SendError::Full(Full::Ring)),
                        || task.try_send_all(Kind::Data, messages.clone()),
                    );
                    sent += u64::try_from(count.unwrap()).unwrap();
                }
            },
        );
    }
}

/// L2 gives a message back twice in one batch: what came before it in the batch is given back, and L3, wherever it is, may use that and
/// nothing else before it learns of the end.
#[test]
fn a_batch_that_ends_the_queue_in_the_middle_leaves_what_came_before_it() {
    for order in [Order::Fences, Order::Counters] {
        explore::<2>(
            order,
            2,
            WRAPPING,
            |mut host| {
                let messages = [1_u64, 2].map(u64::to_le_bytes);
                assert_eq!(host.try_enqueue_all(Kind::Data, messages), Ok(2));
                let third = host.enqueue(Kind::Data, &3_u64.to_le_bytes(), LIMIT, &mut Turns);
                assert!(matches!(third, Ok(()) | Err(SendError::PeerAborted)), "{third:?}");
                let fourth = host.enqueue(Kind::Data, &4_u64.to_le_bytes(), LIMIT, &mut Turns);
                assert_eq!(fourth, Err(SendError::PeerAborted));
                assert_eq!(host.poison(), None);
            },
            |mut task| {
                let held = [crate::receive(&mut task, 1), crate::receive(&mut task, 2)];
                let poison = Poison::Handle { found: held[0].number() };
                let outcome = task.release_all(&[held[0], held[0], held[1]]);
                assert_eq!(outcome, Err(ReceiveError::Poisoned(poison)));
            },
        );
    }
}
