//! A peer that is hostile, a memory that fails, a side that gives up: at every single access of a script that both ends play.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unreachable,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "what a test did not expect fails it"
)]

mod attach;
mod batches;
mod counts;
mod handles;
mod last;
mod script;
mod wakes;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bufabi_core::queue::{Kind, L2End, L3End, Opcode, Poison, ReceiveError, SendError, counters};
use bufabi_core::region::{AccessError, Place};
use bufabi_tests::clock::Counted;
use bufabi_tests::memory::{AtomicMemory, Step, Watched};

use script::{
    Answer, Before, Call, DEPTH, Memory, Side, clean_answers, layout, new_memory, pattern, play, steps,
};

const fn flags(side: Side) -> (u64, u64) {
    match side {
        Side::L3 => (counters::L3_ABORT, counters::L2_ABORT),
        Side::L2 => (counters::L2_ABORT, counters::L3_ABORT),
    }
}

#[test]
fn the_script_reaches_every_kind_of_answer() {
    use bufabi_core::queue::Full;
    let answers = clean_answers();
    for expected in [
        Answer::NotSent(SendError::Full(Full::Ring)),
        Answer::NotSent(SendError::TimedOut(Full::Ring)),
        Answer::NotSent(SendError::TimedOut(Full::Arena)),
        Answer::NotSent(SendError::TooLarge { nbytes: 255, arena_bytes: 128 }),
        Answer::NotSent(SendError::Reserved),
        Answer::NotSent(SendError::Stopped),
        Answer::NotReceived(ReceiveError::Empty),
        Answer::NotReceived(ReceiveError::TimedOut),
        Answer::NotReceived(ReceiveError::Stopped),
        Answer::Message(Opcode::Stop, 0),
        Answer::Message(Opcode::Data, 128),
        Answer::Message(Opcode::Error, 0),
        Answer::Bytes(pattern(128)),
        Answer::Sent(1),
        Answer::Sent(2),
        Answer::Taken(vec![pattern(64)]),
        Answer::Taken(vec![pattern(0), pattern(128)]),
    ] {
        assert!(answers.contains(&expected), "{expected:?} is not in {answers:?}");
    }
}

/// Everything that stands in shared memory, each with values that are near a border of some rule.
fn corruptions() -> Vec<(bool, u64, u64)> {
    let layout = layout();
    let mut corruptions = Vec::new();
    for counter in (0..6).map(|line| line * 64) {
        for value in [0, 1, 2, 3, 4, 5, 1 << 31, (1 << 31) + 2, u64::from(u32::MAX), u64::from(u32::MAX) - 1]
        {
            corruptions.push((true, counter, value));
        }
    }
    let words = [
        vec![0, 1, 2, 3, 4, 5, 6, 1 << 32 | 1, u64::MAX],
        vec![0, 1, 2, 3, 4, 1 << 32 | 1, u64::MAX],
        vec![0, 1, 127, 128, 129, 255, 256, 257, 383, 384, u64::MAX, u64::MAX - 127],
        vec![0, 1, 64, 127, 128, 129, 1 << 32, u64::MAX, u64::MAX - 255],
    ];
    for ring in [layout.input_ring(), layout.output_ring()] {
        for slot in 0..DEPTH {
            for (word, values) in (0..).zip(&words) {
                corruptions.extend(values.iter().map(|&value| (false, ring + slot * 32 + word * 8, value)));
            }
        }
    }
    corruptions
}

#[test]
fn whatever_a_hostile_peer_writes_and_when_an_end_answers_or_ends_with_the_first_cause() {
    let mut causes = HashMap::new();
    for victim in [Side::L3, Side::L2] {
        let clean_steps = steps(victim);
        for at in 0..clean_steps {
            for (is_counter, offset, value) in corruptions() {
                let memory = new_memory();
                let number = Cell::new(0);
                // Watched refuses every access outside the parts.
                let before: Before<'_> = Box::new(|memory, _| {
                    if number.replace(number.get() + 1) == at {
                        if is_counter {
                            let value = u32::try_from(value).unwrap();
                            memory.counter(offset).store(value, Ordering::Relaxed);
                        } else {
                            memory.word(offset).store(value, Ordering::Relaxed);
                        }
                    }
                    Ok(())
                });
                let mut first = None;
                let played = play(&memory, victim, before, |ends, side, _, answer| {
                    if side != victim {
                        return;
                    }
                    let poison = ends.poison(victim);
                    if let Some(cause) = first {
                        assert_eq!(poison, Some(cause), "the first cause is kept");
                        let refused = match answer {
                            Answer::NotSent(SendError::Poisoned(found))
                            | Answer::NotReceived(ReceiveError::Poisoned(found)) => Some(found),
                            _ => None,
                        };
                        // Calls on messages that never came are not made.
                        assert!(refused == Some(cause) || answer == Answer::Done, "{answer:?}");
                    } else if let Some(cause) = poison {
                        first = Some(cause);
                        let flag = memory.counter(flags(victim).0).load(Ordering::Relaxed);
                        assert_eq!(flag, 1, "{cause:?} is told to the other side");
                        *causes.entry((victim == Side::L2, std::mem::discriminant(&cause))).or_insert(0) += 1;
                    }
                });
                // Waiting for a message that does not come any more takes more looks than the script takes when all is well.
                assert!(played < clean_steps + 200);
            }
        }
    }
    // Sequence, opcode, place and count at both ends; STOP in the output and STOP with bytes, which one end each can see. A handle
    // that is not current comes of messages that another one stood for.
    assert!(causes.len() >= 10, "{causes:?}");
}

/// An access that fails changes nothing, so the same call goes through when it is made again, and of a batch that stopped in the middle
/// the rest; only a counter that may have been stored ends the queue.
#[test]
fn a_memory_that_fails_at_any_access_changes_nothing_or_ends_the_queue() {
    let clean = clean_answers();
    for victim in [Side::L3, Side::L2] {
        for at in 0..steps(victim) {
            let memory = new_memory();
            let (number, failed) = (Cell::new(0), Cell::new(None));
            let before: Before<'_> = Box::new(|_, step| {
                if number.replace(number.get() + 1) == at {
                    failed.set(Some(step));
                    return Err(AccessError::driver(507_899));
                }
                Ok(())
            });
            let mut answers = Vec::new();
            let mut ended = None;
            play(&memory, victim, before, |ends, side, call, answer| {
                let error = AccessError::driver(507_899);
                let answer = match answer {
                    Answer::NotSent(SendError::Access(found))
                    | Answer::NotReceived(ReceiveError::Access(found)) => {
                        assert_eq!((side, found), (victim, error));
                        ends.play(side, call)
                    }
                    Answer::Sent(sent) if Answer::Sent(sent) != clean[answers.len()] => {
                        match ends.play(side, call.rest(sent)) {
                            Answer::Sent(more) => Answer::Sent(sent + more),
                            other => other,
                        }
                    }
                    Answer::Taken(mut taken) if Answer::Taken(taken.clone()) != clean[answers.len()] => {
                        match ends.play(side, call.rest(taken.len())) {
                            Answer::Taken(more) => {
                                taken.extend(more);
                                Answer::Taken(taken)
                            }
                            other => other,
                        }
                    }
                    other => other,
                };
                ended = ended.or(ends.poison(victim));
                answers.push(answer);
            });
            match failed.get().unwrap() {
                Step::Store(counter, _) => {
                    let error = AccessError::driver(507_899);
                    assert_eq!(ended, Some(Poison::Store { counter, error }));
                }
                _ => {
                    assert_eq!(ended, None, "step {at} of {victim:?}: {failed:?}");
                    assert_eq!(answers, clean, "step {at} of {victim:?}: {failed:?}");
                }
            }
        }
    }
}

#[test]
fn a_side_that_gives_up_at_any_access_is_seen_by_every_waiting_call_and_does_not_end_the_other() {
    let mut seen = 0;
    for victim in [Side::L3, Side::L2] {
        let (own, peer) = flags(victim);
        for at in 0..steps(victim) {
            let memory = new_memory();
            let number = Cell::new(0);
            let before: Before<'_> = Box::new(|memory, _| {
                if number.replace(number.get() + 1) == at {
                    memory.counter(peer).store(77, Ordering::Relaxed);
                }
                Ok(())
            });
            play(&memory, victim, before, |ends, side, call, answer| {
                if side != victim {
                    return;
                }
                assert_eq!(ends.poison(victim), None);
                assert_eq!(memory.counter(own).load(Ordering::Relaxed), 0);
                let waits = matches!(
                    call,
                    Call::EnqueueWithin(_)
                        | Call::Stop
                        | Call::DequeueWithin
                        | Call::ReceiveWithin
                        | Call::SendWithin(_)
                );
                let told =
                    [Answer::NotSent(SendError::PeerAborted), Answer::NotReceived(ReceiveError::PeerAborted)];
                if told.contains(&answer) {
                    seen += 1;
                    assert!(memory.counter(peer).load(Ordering::Relaxed) != 0);
                } else if waits && ends.play(side, call) == answer {
                    // Made again, the call starts after the flag was set, if it was.
                    let flag = memory.counter(peer).load(Ordering::Relaxed);
                    assert_eq!(flag, 0, "{call:?} did not see it");
                }
            });
        }
    }
    assert!(seen > 500, "{seen}");
}

#[test]
fn a_waiting_call_sees_the_flag_long_before_its_limit() {
    struct Aborting<'a>(Counted, &'a AtomicMemory, u64);
    impl bufabi_core::region::Clock for Aborting<'_> {
        fn now(&mut self) -> Duration {
            self.0.now()
        }
        fn pause(&mut self, watch: bufabi_core::region::Watch, left: Duration) {
            self.0.pause(watch, left);
            if self.0.pauses == 3 {
                self.1.counter(self.2).store(1, Ordering::Relaxed);
            }
        }
    }
    let hour = Duration::from_secs(3600);
    let memory = new_memory();
    let mut l3 = L3End::new(layout(), &memory, [0; 2]).unwrap();
    let mut clock = Aborting(Counted::default(), &memory, counters::L2_ABORT);
    assert_eq!(l3.peek(hour, &mut clock), Err(ReceiveError::PeerAborted));
    assert_eq!(clock.0.pauses, 3);
    let memory = new_memory();
    let mut l2 = L2End::<_, _, 2>::new(layout(), &memory, [0; 2]).unwrap();
    l2.try_send(Kind::Data, &[0; 128]).unwrap();
    let mut clock = Aborting(Counted::default(), &memory, counters::L3_ABORT);
    assert_eq!(l2.send(Kind::Data, &[0], hour, &mut clock), Err(SendError::PeerAborted));
    assert_eq!(clock.0.pauses, 3);
    assert_eq!(memory.counter(counters::L2_ABORT).load(Ordering::Relaxed), 0);
}

#[test]
fn giving_up_is_told_and_kept_and_cleanup_works() {
    let memory = new_memory();
    let mut l3 = L3End::new(layout(), &memory, [0; 2]).unwrap();
    l3.abort().unwrap();
    assert_eq!(l3.try_enqueue(Kind::Data, &[]), Err(SendError::Poisoned(Poison::Aborted)));
    assert_eq!(l3.try_peek(), Err(ReceiveError::Poisoned(Poison::Aborted)));
    // Also a batch of none.
    assert_eq!(l3.try_enqueue_all(Kind::Data, [[0; 1]; 0]), Err(SendError::Poisoned(Poison::Aborted)));
    let none = l3.try_dequeue_each(&mut [], 0, |_, _| {});
    assert_eq!(none, Err(ReceiveError::Poisoned(Poison::Aborted)));
    assert_eq!(l3.release_all(&[]), Err(ReceiveError::Poisoned(Poison::Aborted)));
    let mut l2 = L2End::<_, _, 1>::new(layout(), &memory, [0; 2]).unwrap();
    assert_eq!(l2.peer_aborted(), Ok(true));
    assert_eq!(l2.try_receive(), Err(ReceiveError::PeerAborted));
    assert_eq!(l2.poison(), None);
    l3.abort().unwrap();
    assert!(
        std::ptr::eq(l3.into_access(), &raw const memory)
            || l2.into_access().word(0).load(Ordering::Relaxed) == 0
    );
}

/// What an end does to memory, access by access: nothing is read twice, and nothing before it is known to be there.
#[test]
fn every_access_of_a_message_in_its_order() {
    let memory = new_memory();
    let (sent, received) = (std::cell::RefCell::new(Vec::new()), std::cell::RefCell::new(Vec::new()));
    let l3_memory: Memory<'_> = Watched::new(
        &memory,
        Box::new(|_, step| {
            sent.borrow_mut().push(step);
            Ok(())
        }),
    );
    let l2_memory: Memory<'_> = Watched::new(
        &memory,
        Box::new(|_, step| {
            received.borrow_mut().push(step);
            Ok(())
        }),
    );
    let mut l3 = L3End::new(layout(), &l3_memory, [0; 2]).unwrap();
    let mut l2 = L2End::<_, _, 1>::new(layout(), &l2_memory, [0; 2]).unwrap();
    l3.try_enqueue(Kind::Data, &[7; 8]).unwrap();
    let (slot, bytes) = (Place { offset: 0, nbytes: 32 }, Place { offset: 128, nbytes: 8 });
    assert_eq!(
        sent.take(),
        [
            Step::Write(bytes),
            Step::Publish(bytes),
            Step::Write(Place { offset: 8, nbytes: 24 }),
            Step::Write(Place { offset: 0, nbytes: 8 }),
            Step::Publish(slot),
            Step::Store(counters::INPUT_TAIL, 1),
        ]
    );
    let message = l2.try_receive().unwrap();
    l2.read_into(message.handle(), &mut [0; 8]).unwrap();
    l2.release(message.handle()).unwrap();
    assert_eq!(
        received.take(),
        [
            Step::Load(counters::INPUT_TAIL),
            Step::Observe(slot),
            Step::Read(slot),
            Step::Observe(bytes),
            Step::Read(bytes),
            Step::Publish(Place::NOTHING),
            Step::Store(counters::INPUT_HEAD, 1),
        ]
    );
    assert!(l3.try_enqueue(Kind::Data, &[0; 129]).is_err());
    assert_eq!(sent.take(), [], "what can never be sent touches nothing");
    l3.try_enqueue(Kind::Data, &[]).unwrap();
    sent.take();
    l3.try_enqueue(Kind::Data, &[]).unwrap();
    let steps = sent.take();
    assert_eq!(steps[..2], [Step::Load(counters::INPUT_HEAD), Step::Observe(Place::NOTHING)]);
}
