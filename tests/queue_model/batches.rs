//! Several messages with one publication, on both ends: as many as the model takes one by one, and what stopped them.

use std::sync::atomic::Ordering;

use bufabi_core::queue::{Handle, Kind, Opcode, QueueLayout, ReceiveError, SendError, counters};

use crate::direction::Direction;
use crate::world::{World, bytes, length};

/// The messages of a batch: that size, half of it, seven bytes and so on, starting anywhere.
fn batch(seed: u64, count: usize, nbytes: u64) -> Vec<Vec<u8>> {
    let sizes = [nbytes, nbytes / 2, 7, 0, nbytes / 3];
    let first = usize::try_from(seed).unwrap();
    (0..count).map(|at| bytes(seed, sizes[(first + at) % sizes.len()])).collect()
}

impl World<'_> {
    pub(crate) fn enqueue_all(&mut self, layout: QueueLayout, count: usize, nbytes: u64) {
        let messages = batch(self.sent, count, nbytes);
        let outcome = self.host.try_enqueue_all(Kind::Data, &messages);
        let expected = self.sent_all(layout, messages, true);
        assert_eq!(outcome, expected);
    }

    pub(crate) fn send_all(&mut self, layout: QueueLayout, count: usize, nbytes: u64) {
        let messages = batch(self.sent, count, nbytes);
        let outcome = self.task.try_send_all(Kind::Error, &messages);
        let expected = self.sent_all(layout, messages, false);
        assert_eq!(outcome, expected);
    }

    /// What a batch comes to when its messages are sent one by one. What did not fit, the end refuses again, with that reason.
    fn sent_all(
        &mut self,
        layout: QueueLayout,
        messages: Vec<Vec<u8>>,
        is_input: bool,
    ) -> Result<usize, SendError> {
        let mut sent = 0;
        for message in messages {
            let nbytes = length(&message);
            let refusal = if is_input { self.input.refusal(nbytes) } else { self.output_refusal(nbytes) };
            if let Some(refusal) = refusal {
                self.refused += 1;
                let again = if is_input {
                    self.host.try_enqueue(Kind::Data, &message)
                } else {
                    self.task.try_send(Kind::Error, &message)
                };
                assert_eq!(again, Err(refusal));
                return if sent == 0 { Err(refusal) } else { Ok(sent) };
            }
            let (ring, opcode) = if is_input {
                (layout.input_ring(), Opcode::Data)
            } else {
                (layout.output_ring(), Opcode::Error)
            };
            let place = self.announced(ring, if is_input { &self.input } else { &self.output });
            let direction = if is_input { &mut self.input } else { &mut self.output };
            direction.sent(opcode, message, place);
            (sent, self.sent) = (sent + 1, self.sent + 1);
        }
        Ok(sent)
    }

    pub(crate) fn dequeue_each(&mut self, at_most: usize) {
        let (mut out, mut taken) = ([0; 2048], Vec::new());
        let outcome = self.host.try_dequeue_each(&mut out, at_most, |opcode, bytes| {
            taken.push((opcode, bytes.to_vec()));
        });
        let expected = at_most.min(self.output.flight.len());
        match outcome {
            Err(error) => assert_eq!((error, expected == 0 && at_most > 0), (ReceiveError::Empty, true)),
            Ok(count) => assert_eq!((count, taken.len()), (expected, expected)),
        }
        for message in taken {
            let sent = &self.output.flight[0];
            assert_eq!(message, (sent.opcode, sent.bytes.clone()));
            self.output.received = self.output.received.max(1);
            self.output.released(0);
        }
    }

    pub(crate) fn release_all(&mut self, from: usize) {
        let held = self.input.held();
        let order = (0..held.len()).map(|at| held[(at + from) % held.len()]);
        let handles: Vec<Handle> = order.map(|index| self.input.flight[index].handle.unwrap()).collect();
        self.task.release_all(&handles).unwrap();
        for index in held.into_iter().rev() {
            self.input.released(index);
        }
    }

    /// Between two calls each side has told the other of all that it sent and gave back, and of no more.
    pub(crate) fn check_told(&self) {
        let told = |counter, expected: u64| {
            let found = self.memory.counter(counter).load(Ordering::Relaxed);
            assert_eq!(u64::from(found), expected & 0xffff_ffff, "the counter at {counter}");
        };
        let head = |direction: &Direction| {
            direction.count.wrapping_sub(u64::try_from(direction.flight.len()).unwrap())
        };
        told(counters::INPUT_TAIL, self.input.count);
        told(counters::INPUT_HEAD, head(&self.input));
        told(counters::OUTPUT_TAIL, self.output.count);
        told(counters::OUTPUT_HEAD, head(&self.output));
    }
}
