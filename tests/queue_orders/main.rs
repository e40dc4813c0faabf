//! The message queue under every interleaving of two threads and every order that their memory may show: small depths, counts that
//! wrap, windows given back in every order, STOP, and a side that gives up.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "what a test did not expect fails it"
)]

mod batches;
mod memory;

use std::time::Duration;

use bufabi_core::queue::{Counts, Kind, L2End, L3End, Opcode, QueueLayout, ReceiveError, SendError};
use bufabi_core::region::{Clock, Watch};
use memory::{Memory, Order, Shared};

/// Time does not pass: a waiting call looks until the other thread has come far enough.
struct Turns;

impl Clock for Turns {
    fn now(&mut self) -> Duration {
        Duration::ZERO
    }

    fn pause(&mut self, _: Watch, _: Duration) {
        loom::thread::yield_now();
    }
}

const LIMIT: Duration = Duration::from_secs(1);

type Host = L3End<Shared, [u64; 2]>;
type Task<const N: usize> = L2End<Shared, [u64; 2], N>;

/// Runs both ends in every interleaving in which a thread is interrupted at most twice where it could have gone on, four times
/// in a long run.
fn explore<const N: usize>(
    order: Order,
    depth: u64,
    counts: Counts,
    host: impl Fn(Host) + Copy + Send + Sync + 'static,
    task: impl Fn(Task<N>) + Copy + Send + Sync + 'static,
) {
    let layout = QueueLayout::new(depth, 64, 64).unwrap();
    let mut model = loom::model::Builder::new();
    let long = std::env::var("BUFABI_LONG").is_ok_and(|value| value == "1");
    model.preemption_bound = Some(if long { 4 } else { 2 });
    model.check(move || {
        let memory = Memory::new(order, layout, counts);
        let l3 = Host::starting_at(layout, Shared(memory.clone()), [0; 2], counts).unwrap();
        let l2 = Task::starting_at(layout, Shared(memory), [0; 2], counts).unwrap();
        let thread = loom::thread::spawn(move || task(l2));
        host(l3);
        thread.join().unwrap();
    });
}

/// Counts that wrap at the second message: the halves in memory of one direction, the whole count of the other.
const WRAPPING: Counts = Counts { input: (1 << 32) - 1, output: u64::MAX };

fn receive<const N: usize>(task: &mut Task<N>, expected: u64) -> bufabi_core::queue::Handle {
    let message = task.receive(LIMIT, &mut Turns).unwrap();
    let mut bytes = [0; 8];
    assert_eq!(task.read_into(message.handle(), &mut bytes), Ok(8));
    assert_eq!(u64::from_le_bytes(bytes), expected);
    message.handle()
}

/// In a ring of one slot and an arena that one message fills, slot and bytes are used again for each message.
fn send_through_one_slot(order: Order) {
    explore::<1>(
        order,
        1,
        WRAPPING,
        |mut host| {
            for number in 1..=3_u64 {
                let bytes = [number.to_le_bytes(); 8].concat();
                host.enqueue(Kind::Data, &bytes, LIMIT, &mut Turns).unwrap();
            }
        },
        |mut task| {
            for number in 1..=3_u64 {
                let message = task.receive(LIMIT, &mut Turns).unwrap();
                let mut bytes = [0; 64];
                assert_eq!(task.read_into(message.handle(), &mut bytes), Ok(64));
                assert_eq!(bytes[..], [number.to_le_bytes(); 8].concat());
                task.release(message.handle()).unwrap();
            }
        },
    );
}

#[test]
fn a_slot_and_its_bytes_are_used_again_only_when_the_other_side_is_done() {
    send_through_one_slot(Order::Fences);
    send_through_one_slot(Order::Counters);
}

#[test]
#[should_panic(expected = "")]
fn without_publishing_the_other_side_may_read_what_was_there_before() {
    send_through_one_slot(Order::NoPublish);
}

#[test]
#[should_panic(expected = "")]
fn without_observing_a_side_may_read_what_was_there_before() {
    send_through_one_slot(Order::NoObserve);
}

#[test]
fn a_window_is_given_back_in_either_order_while_more_is_sent() {
    for reversed in [false, true] {
        for order in [Order::Fences, Order::Counters] {
            explore::<2>(
                order,
                2,
                WRAPPING,
                |mut host| {
                    for number in 1..=3_u64 {
                        host.enqueue(Kind::Data, &number.to_le_bytes(), LIMIT, &mut Turns).unwrap();
                    }
                    host.request_stop(LIMIT, &mut Turns).unwrap();
                    assert_eq!(host.try_enqueue(Kind::Data, &[]), Err(SendError::Stopped));
                },
                move |mut task| {
                    let mut held = [receive(&mut task, 1), receive(&mut task, 2)];
                    if reversed {
                        held.reverse();
                    }
                    task.release(held[0]).unwrap();
                    task.release(held[1]).unwrap();
                    let third = receive(&mut task, 3);
                    let stop = task.receive(LIMIT, &mut Turns).unwrap();
                    assert_eq!(stop.opcode(), Opcode::Stop);
                    let (first, second) =
                        if reversed { (stop.handle(), third) } else { (third, stop.handle()) };
                    task.release(first).unwrap();
                    assert!(!task.is_drained());
                    task.release(second).unwrap();
                    assert!(task.is_drained());
                    assert_eq!(task.try_receive(), Err(ReceiveError::Stopped));
                },
            );
        }
    }
}

#[test]
fn both_directions_at_once() {
    for order in [Order::Fences, Order::Counters] {
        explore::<1>(
            order,
            1,
            WRAPPING,
            |mut host| {
                for number in 1..=2_u64 {
                    host.enqueue(Kind::Data, &number.to_le_bytes(), LIMIT, &mut Turns).unwrap();
                    let mut bytes = [0; 8];
                    let answer = host.dequeue_into(&mut bytes, LIMIT, &mut Turns);
                    assert_eq!(answer, Ok((Opcode::Data, 8)));
                    assert_eq!(u64::from_le_bytes(bytes), number + 100);
                }
            },
            |mut task| {
                for number in 1..=2_u64 {
                    let handle = receive(&mut task, number);
                    let reservation = task.reserve(8, LIMIT, &mut Turns).unwrap();
                    task.write(&reservation, 0, &(number + 100).to_le_bytes()).unwrap();
                    task.commit(&reservation, Kind::Data, 8).unwrap();
                    task.release(handle).unwrap();
                }
            },
        );
    }
}

/// L3 gives up after `sends` messages, while L2 is anywhere: L2 gets messages that were sent, each whole, and then learns of it.
#[test]
fn a_side_that_gives_up_is_seen_wherever_the_other_one_is() {
    for sends in 0..=2_u64 {
        explore::<1>(
            Order::Fences,
            2,
            WRAPPING,
            move |mut host| {
                for number in 1..=sends {
                    host.try_enqueue(Kind::Data, &number.to_le_bytes()).unwrap();
                }
                host.abort().unwrap();
            },
            move |mut task| {
                let mut received = 0;
                let end = loop {
                    match task.receive(LIMIT, &mut Turns) {
                        Ok(message) => {
                            let mut bytes = [0; 8];
                            task.read_into(message.handle(), &mut bytes).unwrap();
                            received += 1;
                            assert_eq!(u64::from_le_bytes(bytes), received);
                            task.release(message.handle()).unwrap();
                        }
                        Err(error) => break error,
                    }
                };
                assert_eq!(end, ReceiveError::PeerAborted);
                assert!(received <= sends);
                assert_eq!(task.poison(), None);
            },
        );
    }
}
