//! The other side's counts: how far each can have gone on, and that not one step more is believed.

use std::sync::atomic::Ordering;

use bufabi_core::queue::{Full, Kind, L2End, L3End, Poison, ReceiveError, SendError, counters};

use crate::script::{layout, new_memory};

/// Around what could be, and where signs and the 32 bits end.
const FOUND: [u32; 9] = [0, 1, 2, 3, 4, 1 << 30, 1 << 31, u32::MAX - 1, u32::MAX];

fn poison(counter: u64, found: u32, before: u32, at_most: u32) -> Poison {
    Poison::Count { counter, found, before, at_most }
}

#[test]
fn a_head_goes_on_by_at_most_what_was_sent() {
    for sent in 1..=2_u32 {
        for found in FOUND {
            let memory = new_memory();
            let mut l3 = L3End::new(layout(), &memory, [0; 2]).unwrap();
            for _ in 0..sent {
                l3.try_enqueue(Kind::Data, &[1; 64]).unwrap();
            }
            memory.counter(counters::INPUT_HEAD).store(found, Ordering::Relaxed);
            // It needs the whole arena, so the head is looked at.
            let outcome = l3.try_enqueue(Kind::Data, &[2; 128]);
            let expected = if found > sent {
                let poison = poison(counters::INPUT_HEAD, found, 0, sent);
                Err(SendError::Poisoned(poison))
            } else if found == sent {
                Ok(())
            } else {
                Err(SendError::Full(if sent - found == 2 { Full::Ring } else { Full::Arena }))
            };
            assert_eq!(outcome, expected, "{found} of {sent}");
        }
    }
}

#[test]
fn a_tail_goes_on_by_at_most_the_free_slots() {
    for sent in 0..=2_u32 {
        for released in 0..=sent {
            for found in FOUND {
                let memory = new_memory();
                let mut l3 = L3End::new(layout(), &memory, [0; 2]).unwrap();
                let mut l2 = L2End::<_, _, 2>::new(layout(), &memory, [0; 2]).unwrap();
                for number in 0..sent {
                    l3.try_enqueue(Kind::Data, &[]).unwrap();
                    let handle = l2.try_receive().unwrap().handle();
                    if number < released {
                        l2.release(handle).unwrap();
                    }
                }
                memory.counter(counters::INPUT_TAIL).store(found, Ordering::Relaxed);
                let (outcome, at_most) = (l2.try_receive().map(drop), 2 - (sent - released));
                if found == sent {
                    assert_eq!(outcome, Err(ReceiveError::Empty));
                } else if found > sent && found - sent <= at_most {
                    // It could be, but nothing was sent: the slot says so.
                    let is_sequence = matches!(outcome, Err(ReceiveError::Poisoned(Poison::Sequence { .. })));
                    assert!(is_sequence, "{found}: {outcome:?}");
                } else {
                    let poison = poison(counters::INPUT_TAIL, found, sent, at_most);
                    assert_eq!(outcome, Err(ReceiveError::Poisoned(poison)));
                }
            }
        }
    }
}
