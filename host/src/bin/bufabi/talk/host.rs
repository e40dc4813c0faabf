//! This process's end of the queue, and what it measures.

use std::path::Path;
use std::time::{Duration, Instant};

use bufabi_core::queue::{Kind, L3End, QueueLayout, SendError};
use bufabi_core::region::{Clock, Watch};
use bufabi_host::region::{ProvidedRegion, RegionMemory, SleepingClock};
use bufabi_host::sys::event::deadline;

use super::float;
use super::other::{Other, Purpose};
use super::times::Times;
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// How long anything may take before it counts as hanging.
pub(super) const LIMIT: Duration = Duration::from_secs(30);

/// Slots of each ring: as many as the firmware has storage for.
const DEPTH: u64 = 1024;

/// A clock whose every limit is over once a signal came.
struct InterruptibleClock<'a> {
    clock: SleepingClock,
    interrupt: &'a Interrupt,
}

impl Clock for InterruptibleClock<'_> {
    fn now(&mut self) -> Duration {
        if self.interrupt.check().is_ok() { self.clock.now() } else { Duration::MAX }
    }

    fn pause(&mut self, watch: Watch, left: Duration) {
        self.clock.pause(watch, left);
    }

    fn glance(&mut self) {
        self.clock.glance();
    }
}

/// A queue with somebody at its other end.
pub(super) struct Talk<'a> {
    end: L3End<RegionMemory, Vec<u64>>,
    clock: InterruptibleClock<'a>,
    region: ProvidedRegion,
    other: Other,
    bytes: Vec<u8>,
}

/// Round trips of one size, in nanoseconds.
pub(super) struct Trips {
    pub(super) count: u64,
    pub(super) median: u64,
    pub(super) p99: u64,
    pub(super) slowest: u64,
}

/// Messages of one size, one way.
pub(super) struct Flow {
    pub(super) count: u64,
    pub(super) took: Duration,
}

impl Flow {
    /// Nanoseconds for each message.
    pub(super) fn each(&self) -> f64 {
        self.took.as_secs_f64() * 1e9 / float(self.count.max(1))
    }

    pub(super) fn per_second(&self) -> f64 {
        float(self.count) / self.took.as_secs_f64().max(1e-9)
    }
}

impl<'a> Talk<'a> {
    pub(super) fn start(
        purpose: Purpose,
        largest: u64,
        spin: Duration,
        firmware: Option<&Path>,
        interrupt: &'a Interrupt,
    ) -> Result<Self, Failure> {
        // Room for four of the largest, and for a ring of small ones.
        let arena = largest.saturating_mul(4).max(DEPTH.saturating_mul(64)).next_multiple_of(64);
        let layout = QueueLayout::new(DEPTH, arena, arena).map_err(Failure::machine)?;
        let (other, region) = match firmware {
            Some(image) => Other::firmware(layout, purpose, image)?,
            None => Other::process(layout, purpose, spin)?,
        };
        let memory = region.memory().map_err(Failure::machine)?;
        let clock = SleepingClock::new(&memory).map_err(Failure::machine)?;
        let clock = clock.watching(other.watched()).map_err(Failure::machine)?.spinning(spin);
        let clock = InterruptibleClock { clock, interrupt };
        let marks = vec![0; usize::try_from(DEPTH).map_err(Failure::machine)?];
        let end = L3End::new(layout, memory, marks).map_err(Failure::machine)?;
        let bytes = vec![0x5a; usize::try_from(largest).map_err(Failure::machine)?];
        Ok(Self { end, clock, region, other, bytes })
    }

    /// Sends messages of that size and waits for each one's answer, for so long.
    pub(super) fn round_trips(&mut self, size: u32, limit: Duration) -> Result<Trips, Failure> {
        let nbytes = usize::try_from(size).map_err(Failure::machine)?;
        let mut answer = vec![0; nbytes];
        let mut times = Times::new();
        let start = Instant::now();
        let mut before = start;
        // The first ones touch pages and caches for the first time.
        let mut warm_up = 10_u32;
        while before.saturating_duration_since(start) < limit || times.count() == 0 {
            let Self { end, clock, bytes, .. } = self;
            clock.interrupt.check()?;
            let message = bytes.get(..nbytes).unwrap_or_default();
            end.enqueue(Kind::Data, message, LIMIT, clock).map_err(Failure::machine)?;
            end.dequeue_into(&mut answer, LIMIT, clock).map_err(Failure::machine)?;
            let now = Instant::now();
            if warm_up > 0 {
                warm_up = warm_up.saturating_sub(1);
            } else {
                times
                    .add(u64::try_from(now.saturating_duration_since(before).as_nanos()).unwrap_or(u64::MAX));
            }
            before = now;
        }
        let (count, times) = (times.count(), times.sorted());
        Ok(Trips { count, median: times.at(1, 2), p99: times.at(99, 100), slowest: times.at(1, 1) })
    }

    /// Sends messages of that size for so long, at most `batch` at once, and waits until the other side has taken all.
    pub(super) fn stream(&mut self, size: u32, batch: usize, limit: Duration) -> Result<Flow, Failure> {
        let nbytes = usize::try_from(size).map_err(Failure::machine)?;
        self.flush()?;
        let (mut count, start) = (0_u64, Instant::now());
        while start.elapsed() < limit || count == 0 {
            self.clock.interrupt.check()?;
            // Between two looks at the time.
            for _ in 0..16 {
                let Self { end, bytes, .. } = self;
                let message = bytes.get(..nbytes).unwrap_or_default();
                match end.try_enqueue_all(Kind::Data, core::iter::repeat_n(message, batch)) {
                    Ok(sent) => count = count.saturating_add(u64::try_from(sent).unwrap_or(0)),
                    Err(SendError::Full(_)) => {
                        let Self { end, clock, bytes, .. } = self;
                        let message = bytes.get(..nbytes).unwrap_or_default();
                        end.enqueue(Kind::Data, message, LIMIT, clock).map_err(Failure::machine)?;
                        count = count.saturating_add(1);
                    }
                    Err(error) => return Err(Failure::machine(error)),
                }
            }
        }
        self.flush()?;
        Ok(Flow { count, took: start.elapsed() })
    }

    /// Waits until the other side has taken everything.
    fn flush(&mut self) -> Result<(), Failure> {
        let Self { end, clock, .. } = self;
        end.enqueue(Kind::Error, &[], LIMIT, clock).map_err(Failure::machine)?;
        let mut answer = [0; 16];
        end.dequeue_into(&mut answer, LIMIT, clock).map_err(Failure::machine)?;
        Ok(())
    }

    /// Ends both sides, each within that limit, whatever signals came.
    pub(super) fn finish(self, limit: Duration) -> Result<(), Failure> {
        let Self { mut end, clock: InterruptibleClock { mut clock, .. }, mut region, other, .. } = self;
        end.request_stop(limit, &mut clock).map_err(Failure::machine)?;
        other.wait(limit)?;
        drop((end, clock));
        region.close(deadline(limit)).map_err(Failure::machine)
    }
}
