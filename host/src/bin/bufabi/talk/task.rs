//! The other process: a task's end of the queue, attached by the region's two descriptors alone.

use std::time::Duration;

use bufabi_core::Descriptor;
use bufabi_core::queue::{Handle, Kind, L2End, Opcode, QueueLayout, ReceiveError};
use bufabi_host::consumer::Consumer;
use bufabi_host::region::{AttachedRegion, RegionMemory, SleepingClock};
use bufabi_host::sys::event::deadline;
use bufabi_host::sys::process::Process;

use super::host::LIMIT;
use super::other::Purpose;
use crate::failure::Failure;

/// Messages that are held at once.
const WINDOW: usize = 64;

type Task = L2End<RegionMemory, Vec<u64>, WINDOW>;

/// Serves until STOP, or until the other side has ended.
pub(super) fn run(
    layout: QueueLayout,
    payload: &Descriptor,
    counter: &Descriptor,
    parent: &Process,
    purpose: Purpose,
    spin: Duration,
) -> Result<(), Failure> {
    let consumer = Consumer::new(None).map_err(Failure::machine)?;
    let mut region = AttachedRegion::attach(&consumer, payload, counter).map_err(Failure::machine)?;
    let memory = region.memory().map_err(Failure::machine)?;
    let clock = SleepingClock::new(&memory).map_err(Failure::machine)?;
    let mut clock = clock.watching(parent).map_err(Failure::machine)?.spinning(spin);
    let marks = vec![0; usize::try_from(layout.depth()).map_err(Failure::machine)?];
    let mut end = Task::new(layout, memory, marks).map_err(Failure::machine)?;
    let room = usize::try_from(layout.input_arena().nbytes).map_err(Failure::machine)?;
    let mut bytes = vec![0; room];
    match purpose {
        Purpose::Echo => echo(&mut end, &mut clock, &mut bytes)?,
        Purpose::Sink => sink(&mut end, &mut clock, &mut bytes)?,
    }
    drop((end, clock));
    region.close(deadline(LIMIT)).map_err(Failure::machine)
}

fn echo(end: &mut Task, clock: &mut SleepingClock, bytes: &mut [u8]) -> Result<(), Failure> {
    while !end.is_drained() {
        let message = end.receive(LIMIT, clock).map_err(Failure::machine)?;
        let nbytes = end.read_into(message.handle(), bytes).map_err(Failure::machine)?;
        if message.opcode() != Opcode::Stop {
            let bytes = bytes.get(..nbytes).unwrap_or_default();
            end.send(Kind::Data, bytes, LIMIT, clock).map_err(Failure::machine)?;
        }
        end.release(message.handle()).map_err(Failure::machine)?;
    }
    Ok(())
}

fn sink(end: &mut Task, clock: &mut SleepingClock, bytes: &mut [u8]) -> Result<(), Failure> {
    let mut held = [Handle::from_number(0); WINDOW];
    while !end.is_drained() {
        let (mut holds, mut is_asked) = (0_usize, false);
        while let Some(slot) = held.get_mut(holds) {
            // It waits for the first one alone.
            let received = if holds == 0 { end.receive(LIMIT, clock) } else { end.try_receive() };
            let message = match received {
                Ok(message) => message,
                Err(ReceiveError::Empty | ReceiveError::WindowFull { .. } | ReceiveError::Stopped)
                    if holds > 0 =>
                {
                    break;
                }
                Err(error) => return Err(Failure::machine(error)),
            };
            end.read_into(message.handle(), bytes).map_err(Failure::machine)?;
            is_asked |= message.opcode() == Opcode::Error;
            *slot = message.handle();
            holds = holds.saturating_add(1);
        }
        end.release_all(held.get(..holds).unwrap_or_default()).map_err(Failure::machine)?;
        if is_asked {
            end.send(Kind::Data, &[], LIMIT, clock).map_err(Failure::machine)?;
        }
    }
    Ok(())
}
