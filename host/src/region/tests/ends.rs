//! The other side's process ends, or the memory is taken away: what was sent is still received, and everybody learns of it.

use std::process::{Child, Command};

use super::*;
use crate::sys::process::Process;

/// A queue whose both ends this process has, and another process that its host watches.
fn with_a_watched_process(
    work: impl FnOnce(L3End<RegionMemory, [u64; 4]>, L2End<RegionMemory, [u64; 4], 2>, SleepingClock, Child),
) {
    let (endpoint, consumer) = (endpoint(), Consumer::new(None).unwrap());
    let layout = QueueLayout::new(4, 128, 128).unwrap();
    let provided = ProvidedRegion::create(&endpoint, layout.payload_bytes(), layout.counter_bytes()).unwrap();
    let attached = attach(&consumer, &provided);
    let (here, there) = (provided.memory().unwrap(), attached.memory().unwrap());
    let other = Command::new("sleep").arg("1000").spawn().unwrap();
    let peer = Process::open(i32::try_from(other.id()).unwrap()).unwrap();
    let clock = SleepingClock::new(&here).unwrap().watching(&peer).unwrap();
    let task = L2End::new(layout, there, [0; 4]).unwrap();
    work(L3End::new(layout, here, [0; 4]).unwrap(), task, clock, other);
}

fn end(mut process: Child) {
    process.kill().and_then(|()| process.wait()).unwrap();
}

#[test]
fn what_was_sent_before_the_end_is_received_after_somebody_else_learnt_of_the_end() {
    with_a_watched_process(|mut host, mut task, mut clock, other| {
        task.try_send(Kind::Data, &[1]).unwrap();
        task.try_send(Kind::Error, &[2]).unwrap();
        while host.try_enqueue(Kind::Data, &[]).is_ok() {}
        end(other);
        let died = Code::WorkerDied;
        // Who waits for room learns of it, and nothing more is sent.
        assert_eq!(host.enqueue(Kind::Data, &[], LIMIT, &mut clock).unwrap_err().code(), died);
        assert_eq!(host.enqueue(Kind::Data, &[], Duration::ZERO, &mut clock).unwrap_err().code(), died);
        let mut out = [0];
        assert_eq!(host.dequeue_into(&mut out, LIMIT, &mut clock), Ok((Opcode::Data, 1)));
        assert_eq!(out, [1]);
        assert_eq!(host.try_dequeue_into(&mut out), Ok((Opcode::Error, 1)));
        assert_eq!(out, [2]);
        assert_eq!(host.peek(LIMIT, &mut clock).unwrap_err().code(), died);
        assert_eq!(host.try_peek().unwrap_err().code(), died);
    });
}

#[test]
fn who_spins_learns_of_the_end_long_before_it_would_sleep() {
    with_a_watched_process(|mut host, _, clock, other| {
        let mut clock = clock.spinning(LIMIT);
        end(other);
        let start = Instant::now();
        assert_eq!(host.peek(LIMIT, &mut clock).unwrap_err().code(), Code::WorkerDied);
        assert!(start.elapsed() < LIMIT / 2, "{:?}", start.elapsed());
    });
}

#[test]
fn who_only_ever_looks_learns_of_the_end() {
    with_a_watched_process(|mut host, _, mut clock, other| {
        end(other);
        let start = Instant::now();
        let answer = loop {
            match host.peek(Duration::ZERO, &mut clock) {
                Err(ReceiveError::TimedOut) if start.elapsed() < LIMIT => thread::yield_now(),
                answer => break answer,
            }
        };
        assert_eq!(answer.unwrap_err().code(), Code::WorkerDied);
    });
}
