//! Both ends of the message queue over one memory in which a hostile peer writes: against a first-in first-out model while nothing
//! is corrupted, and against what must hold in any case afterwards.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

use bufabi_core::queue::{
    COUNTER_BYTES, Handle, Kind, L2End, L3End, Message, Poison, QueueLayout, ReceiveError, Reservation,
    SendError, counters,
};
use bufabi_core::region::{AccessError, Clock, Place, RegionAccess, Watch};

/// Bytes of each arena.
const ARENA: u64 = 128;

/// Slots of each ring.
const DEPTH: u64 = 4;

/// Inputs that L2 holds at most.
const WINDOW: usize = 2;

/// Calls that a byte chooses from.
const CALLS: u8 = 20;

/// Memory that refuses to be reached outside its parts, and that is corrupted just before one of the accesses to come.
struct Memory {
    payload: RefCell<Vec<u8>>,
    counters: RefCell<Vec<u32>>,
    /// In how many accesses, and what is written then.
    next: Cell<Option<(u8, Corruption)>>,
    is_corrupted: Cell<bool>,
}

#[derive(Clone, Copy)]
struct Corruption {
    /// Which word, counters and rings in turn.
    word: u8,
    value: u64,
}

impl Memory {
    fn corrupt(&self, Corruption { word, value }: Corruption) {
        self.is_corrupted.set(true);
        let rings = DEPTH * 2 * 4;
        let word = u64::from(word) % (6 + rings);
        if word < 6 {
            self.counters.borrow_mut()[index(word * 16)] = value as u32;
        } else {
            let at = index((word - 6) * 8);
            self.payload.borrow_mut()[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
    }

    fn step(&self) {
        match self.next.get() {
            Some((0, corruption)) => {
                self.next.set(None);
                self.corrupt(corruption);
            }
            Some((accesses, corruption)) => self.next.set(Some((accesses - 1, corruption))),
            None => {}
        }
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl RegionAccess for Memory {
    fn payload_bytes(&self) -> u64 {
        self.payload.borrow().len() as u64
    }

    fn counter_bytes(&self) -> u64 {
        COUNTER_BYTES
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), AccessError> {
        self.step();
        out.copy_from_slice(&self.payload.borrow()[index(offset)..][..out.len()]);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.step();
        self.payload.borrow_mut()[index(offset)..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn load(&self, offset: u64) -> Result<u32, AccessError> {
        self.step();
        Ok(self.counters.borrow()[index(offset / 4)])
    }

    fn store(&self, offset: u64, value: u32) -> Result<(), AccessError> {
        self.step();
        self.counters.borrow_mut()[index(offset / 4)] = value;
        Ok(())
    }

    fn publish(&self, _: Place) -> Result<(), AccessError> {
        Ok(())
    }

    fn observe(&self, _: Place) -> Result<(), AccessError> {
        Ok(())
    }
}

/// Each pause takes a millisecond.
struct Pauses(u64);

impl Clock for Pauses {
    fn now(&mut self) -> Duration {
        Duration::from_millis(self.0)
    }

    fn pause(&mut self, _: Watch, _: Duration) {
        self.0 += 1;
        assert!(self.0 <= 3, "waited past the limit");
    }
}

const LIMIT: Duration = Duration::from_millis(3);

/// The model of one direction, good while nothing is corrupted.
#[derive(Default)]
struct Direction {
    sent: VecDeque<Vec<u8>>,
}

struct Run<'a> {
    memory: &'a Memory,
    l3: L3End<&'a Memory, [u64; 4]>,
    l2: L2End<&'a Memory, [u64; 4], WINDOW>,
    inputs: Direction,
    outputs: Direction,
    held: Vec<(Handle, Vec<u8>)>,
    reservation: Option<(Reservation, Vec<u8>)>,
    /// A caller did what none may do.
    is_misused: bool,
    serial: u8,
}

/// Plays any bytes as calls of both ends and writes of a hostile peer.
pub fn queue(bytes: &[u8]) {
    let layout = QueueLayout::new(DEPTH, ARENA, ARENA).expect("a legal layout");
    let memory = Memory {
        payload: RefCell::new(vec![0; index(layout.payload_bytes())]),
        counters: RefCell::new(vec![0; index(COUNTER_BYTES / 4)]),
        next: Cell::new(None),
        is_corrupted: Cell::new(false),
    };
    let mut run = Run {
        memory: &memory,
        l3: L3End::new(layout, &memory, [0; 4]).expect("a legal end"),
        l2: L2End::new(layout, &memory, [0; 4]).expect("a legal end"),
        inputs: Direction::default(),
        outputs: Direction::default(),
        held: Vec::new(),
        reservation: None,
        is_misused: false,
        serial: 0,
    };
    let mut words = bytes.chunks_exact(2);
    while let Some(&[call, argument]) = words.next().and_then(|word| word.first_chunk()) {
        let before = (run.l3.poison(), run.l2.poison());
        if call % CALLS == 15 {
            let Some(next) = words.next() else { break };
            run.arm(next[0], argument, next[1]);
        } else {
            run.call(call, argument);
        }
        run.check(before);
    }
    // Cleanup always works.
    let Run { l3, l2, .. } = run;
    assert!(std::ptr::eq(l3.into_access(), l2.into_access()));
}

impl Run<'_> {
    /// The peer will write some value near a border, in so many accesses.
    fn arm(&self, accesses: u8, word: u8, value: u8) {
        let borders = [0, 1, 2, 3, 4, 127, 128, 255, 256, 383, 384, 511, 512, 1 << 31, u64::MAX, 1 << 32];
        let value = borders[usize::from(value / 16)].wrapping_add_signed(i64::from(value % 16) - 8);
        self.memory.next.set(Some((accesses, Corruption { word, value })));
    }

    fn message(&mut self, nbytes: u8) -> Vec<u8> {
        self.serial = self.serial.wrapping_add(1);
        vec![self.serial; usize::from(nbytes) % 140]
    }

    /// Nothing went wrong so far that anything may come of.
    fn is_clean(&self) -> bool {
        !self.memory.is_corrupted.get() && !self.is_misused
    }

    fn call(&mut self, call: u8, argument: u8) {
        let mut clock = Pauses(0);
        let mut out = [0; ARENA as usize];
        match call % CALLS {
            0 | 1 => {
                let bytes = self.message(argument);
                let outcome = if call % CALLS == 0 {
                    self.l3.try_enqueue(Kind::Data, &bytes)
                } else {
                    self.l3.enqueue(Kind::Error, &bytes, LIMIT, &mut clock)
                };
                self.sent(outcome, bytes, true);
            }
            2 | 3 => {
                let bytes = self.message(argument);
                let outcome = if call % CALLS == 2 {
                    self.l2.try_send(Kind::Data, &bytes)
                } else {
                    self.l2.send(Kind::Error, &bytes, LIMIT, &mut clock)
                };
                self.sent(outcome, bytes, false);
            }
            4 => {
                let _ = self.l3.request_stop(LIMIT, &mut clock);
            }
            5 | 6 => {
                let outcome = if call % CALLS == 5 {
                    self.l3.try_dequeue_into(&mut out)
                } else {
                    self.l3.dequeue_into(&mut out[..usize::from(argument) % 129], LIMIT, &mut clock)
                };
                if let Ok((_, nbytes)) = outcome {
                    let expected = self.outputs.sent.pop_front();
                    assert!(!self.is_clean() || expected.as_deref() == Some(&out[..nbytes]));
                }
            }
            7 => self.peek(&mut out),
            8 | 9 => {
                let outcome = if call % CALLS == 8 {
                    self.l2.try_receive()
                } else {
                    self.l2.receive(LIMIT, &mut clock)
                };
                if let Ok(message) = outcome {
                    inside(&message, DEPTH * 64);
                    let expected = match message.opcode() {
                        bufabi_core::queue::Opcode::Stop => Vec::new(),
                        _ => self.inputs.sent.pop_front().unwrap_or_default(),
                    };
                    assert!(!self.is_clean() || message.nbytes() == expected.len() as u64);
                    self.held.push((message.handle(), expected));
                    assert!(self.held.len() <= WINDOW + 1);
                }
            }
            10 | 11 if !self.held.is_empty() => {
                let which = usize::from(argument) % self.held.len();
                let (handle, expected) = self.held[which].clone();
                if let Ok(nbytes) = self.l2.read_into(handle, &mut out) {
                    assert!(!self.is_clean() || out[..nbytes] == expected);
                }
                if self.l2.release(handle).is_ok() {
                    self.held.swap_remove(which);
                }
            }
            12 => self.reserve(argument),
            13 => self.finish(argument),
            14 if argument < 8 => {
                // What no caller may do: a handle that is, most of the time, not current.
                self.is_misused = true;
                let _ = self.l2.release(Handle::from_number(u64::from(argument)));
                self.held.retain(|(handle, _)| handle.number() != u64::from(argument));
            }
            14 if argument == 255 => {
                self.is_misused = true;
                self.l3.abort().expect("memory that does not fail");
            }
            16 | 17 => self.send_several(call % CALLS == 16, argument),
            18 => self.take_several(argument),
            19 => self.release_several(argument),
            _ => {}
        }
    }

    fn sent(&mut self, outcome: Result<(), SendError>, bytes: Vec<u8>, is_input: bool) {
        let direction = if is_input { &mut self.inputs } else { &mut self.outputs };
        match outcome {
            Ok(()) => direction.sent.push_back(bytes),
            Err(SendError::TooLarge { .. }) => assert!(bytes.len() as u64 > ARENA),
            // Inputs that L2 holds have their bytes in the arena still, and so has a message that was only looked at.
            Err(SendError::Full(_) | SendError::TimedOut(_)) if self.is_clean() => {
                let is_empty = if is_input {
                    self.inputs.sent.is_empty() && self.held.is_empty()
                } else {
                    self.outputs.sent.is_empty()
                };
                assert!(!is_empty, "a legal message was refused by an empty queue");
            }
            Err(_) => {}
        }
    }

    /// Up to three messages with one publication, of sizes that differ.
    fn send_several(&mut self, is_input: bool, argument: u8) {
        let sizes = [argument, argument / 2, argument.wrapping_mul(7)];
        let mut messages: Vec<Vec<u8>> = sizes.map(|nbytes| self.message(nbytes)).into();
        messages.truncate(usize::from(argument) % 4);
        let outcome = if is_input {
            self.l3.try_enqueue_all(Kind::Data, &messages)
        } else {
            self.l2.try_send_all(Kind::Data, &messages)
        };
        let sent = match outcome {
            Ok(sent) => sent,
            Err(error) => {
                // Of a batch of none, an end that has ended says so.
                let poison = if is_input { self.l3.poison() } else { self.l2.poison() };
                assert!(!messages.is_empty() || poison.is_some());
                if !messages.is_empty() {
                    self.sent(Err(error), messages.swap_remove(0), is_input);
                }
                return;
            }
        };
        assert!(sent <= messages.len() && (sent > 0 || messages.is_empty()));
        let direction = if is_input { &mut self.inputs } else { &mut self.outputs };
        let rest = messages.split_off(sent);
        direction.sent.extend(messages);
        // What stopped it stops it again, alone.
        if let Some(stopped) = rest.into_iter().next() {
            let was_clean = self.is_clean();
            let again = if is_input {
                self.l3.try_enqueue(Kind::Data, &stopped)
            } else {
                self.l2.try_send(Kind::Data, &stopped)
            };
            assert!(!was_clean || !self.is_clean() || again.is_err());
            self.sent(again, stopped, is_input);
        }
    }

    fn take_several(&mut self, argument: u8) {
        let (mut out, mut taken) = ([0; ARENA as usize], Vec::new());
        let (at_most, capacity) = (usize::from(argument) % 4, if argument >= 128 { 16 } else { out.len() });
        let each = |_, bytes: &[u8]| taken.push(bytes.to_vec());
        let outcome = self.l3.try_dequeue_each(&mut out[..capacity], at_most, each);
        assert!(taken.len() <= at_most);
        if let Ok(count) = outcome {
            assert_eq!(count, taken.len());
        }
        for bytes in taken {
            let expected = self.outputs.sent.pop_front();
            assert!(!self.is_clean() || expected == Some(bytes));
        }
        if self.is_clean() && outcome.is_ok_and(|count| count < at_most) {
            let next = self.outputs.sent.front();
            assert!(next.is_none_or(|next| next.len() > capacity), "it stopped before it had to");
        }
    }

    /// All that L2 holds, in any order, with one publication; now and then one twice, which no caller may do.
    fn release_several(&mut self, argument: u8) {
        let mut handles: Vec<Handle> = self.held.iter().map(|(handle, _)| *handle).collect();
        if argument % 2 == 1 {
            handles.reverse();
        }
        if let (Some(&first), true) = (handles.first(), argument >= 250) {
            self.is_misused = true;
            handles.insert(1, first);
        }
        let outcome = self.l2.release_all(&handles);
        assert!(!self.is_clean() || outcome.is_ok());
        if outcome.is_ok() {
            assert!(handles.len() == self.held.len(), "a message was given back twice");
            self.held.clear();
        }
    }

    fn peek(&mut self, out: &mut [u8]) {
        if let Ok(message) = self.l3.try_peek() {
            inside(&message, DEPTH * 64 + ARENA);
            if let Ok(nbytes) = self.l3.read_into(message.handle(), out) {
                let expected = self.outputs.sent.front().map(Vec::as_slice);
                assert!(!self.is_clean() || expected == Some(&out[..nbytes]));
            }
        }
    }

    fn reserve(&mut self, nbytes: u8) {
        let bytes = self.message(nbytes);
        if let Ok(reservation) = self.l2.try_reserve(bytes.len() as u64) {
            let place = reservation.place();
            let end = place.offset + place.nbytes;
            assert!(
                place.nbytes == 0 || (place.offset >= DEPTH * 64 + ARENA && end <= DEPTH * 64 + 2 * ARENA)
            );
            self.reservation = Some((reservation, bytes));
        }
    }

    fn finish(&mut self, argument: u8) {
        let Some((reservation, mut bytes)) = self.reservation.take() else { return };
        if argument % 4 == 0 {
            let _ = self.l2.cancel(&reservation);
            return;
        }
        let written = self.l2.write(&reservation, 0, &bytes);
        bytes.truncate(bytes.len() / usize::from(argument % 4));
        let committed = written.and_then(|()| self.l2.commit(&reservation, Kind::Data, bytes.len() as u64));
        assert!(!self.is_clean() || committed.is_ok());
        if committed.is_ok() {
            self.outputs.sent.push_back(bytes);
        }
    }

    /// What holds after every call.
    fn check(&mut self, before: (Option<Poison>, Option<Poison>)) {
        let now = (self.l3.poison(), self.l2.poison());
        if self.is_clean() {
            assert_eq!(now, (None, None), "ended in normal use");
        }
        for (before, now) in [(before.0, now.0), (before.1, now.1)] {
            assert!(before.is_none() || before == now, "the first cause is kept");
        }
        if let (None, Some(_)) = (before.0, now.0) {
            assert_ne!(self.memory.counters.borrow()[index(counters::L3_ABORT / 4)], 0);
        }
        if let (None, Some(_)) = (before.1, now.1) {
            assert_ne!(self.memory.counters.borrow()[index(counters::L2_ABORT / 4)], 0);
        }
        if let Some(poison) = now.1 {
            assert_eq!(self.l2.try_receive(), Err(ReceiveError::Poisoned(poison)));
            assert_eq!(self.l2.try_send(Kind::Data, &[]), Err(SendError::Poisoned(poison)));
            assert_eq!(self.l2.try_send_all(Kind::Data, [[0; 1]; 0]), Err(SendError::Poisoned(poison)));
            assert_eq!(self.l2.release_all(&[]), Err(ReceiveError::Poisoned(poison)));
        }
        if let Some(poison) = now.0 {
            assert_eq!(self.l3.try_peek(), Err(ReceiveError::Poisoned(poison)));
            let none = self.l3.try_dequeue_each(&mut [], 0, |_, _| {});
            assert_eq!(none, Err(ReceiveError::Poisoned(poison)));
        }
    }
}

/// A message that was handed out lies inside its arena.
fn inside(message: &Message, arena: u64) {
    let Place { offset, nbytes } = message.place();
    let ends_inside = offset.checked_add(nbytes).is_some_and(|end| end <= arena + ARENA);
    assert!(if nbytes == 0 { offset == 0 } else { offset >= arena && ends_inside }, "{message:?}");
}
