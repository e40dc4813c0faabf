//! Waiting for the other side of a region: spin for a while, then sleep until it stores what is waited for, or look again after longer
//! and longer pauses where the memory allows no such sleep.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use bufabi_core::region::{AccessError, Clock, Watch};

use super::memory::RegionMemory;
use crate::sys::affinity::only_processor;
use crate::sys::event::Watch as Events;
use crate::sys::process::Process;
use crate::sys::{OsError, futex};

/// How long to spin before sleeping, unless told otherwise: about what it takes to wake somebody who sleeps.
pub const DEFAULT_SPIN: Duration = Duration::from_micros(50);

/// The longest sleep: the other side need not know of sleepers.
const LONGEST_SLEEP: Duration = Duration::from_millis(1);

/// The first sleep where nobody wakes the sleeper; each one that finds nothing doubles it.
const FIRST_SLEEP: Duration = Duration::from_micros(50);

/// Between two looks at whether the other side is alive.
const LIVENESS: Duration = Duration::from_millis(100);

/// Looks at the counter between two looks at the clock.
const LOOKS: u32 = 32;

/// The other side's process, and what tells of its end.
#[derive(Debug)]
struct Peer {
    events: Events,
    /// It is watched as long as this copy is open: the caller's may be closed.
    _descriptor: OwnedFd,
    pid: i32,
}

/// The machine's clock, and a sleep on a region's counter. Threads that wait for one side at the same time have a clone each.
#[derive(Clone, Debug)]
pub struct SleepingClock {
    memory: Arc<RegionMemory>,
    start: Instant,
    spin: Duration,
    peer: Option<Arc<Peer>>,
    alive_at: Instant,
    /// What is waited for, and since when.
    waiting: Option<(Watch, Instant)>,
    sleep: Duration,
}

impl SleepingClock {
    /// A clock for whoever waits for the other side of `memory`.
    ///
    /// # Errors
    /// [`AccessError`] when the region is closed.
    pub fn new(memory: &RegionMemory) -> Result<Self, AccessError> {
        let now = Instant::now();
        // Who has one processor and does not know the other side's may spin in its way.
        let is_bound = only_processor(None).ok().flatten().is_some();
        Ok(Self {
            memory: Arc::new(memory.another()?),
            start: now,
            spin: if is_bound { Duration::ZERO } else { DEFAULT_SPIN },
            peer: None,
            alive_at: now,
            waiting: None,
            sleep: FIRST_SLEEP,
        })
    }

    /// Spins for so long before it sleeps.
    #[must_use]
    pub const fn spinning(mut self, spin: Duration) -> Self {
        self.spin = spin;
        self
    }

    /// Looks every 100 ms, while it waits or is asked by calls that do not, whether the other side's process is alive. When it has
    /// ended, what it sent before is still received; whatever else is begun in this process is refused with its number. Who shares its only processor with it does not spin.
    ///
    /// # Errors
    /// [`OsError`] when the process cannot be watched.
    pub fn watching(mut self, peer: &Process) -> Result<Self, OsError> {
        let events = Events::new()?;
        let descriptor = peer.as_fd().try_clone_to_owned();
        let descriptor = descriptor.map_err(|error| OsError::from_io("fcntl", &error))?;
        events.add_process(descriptor.as_fd(), 0)?;
        self.peer = Some(Arc::new(Peer { events, _descriptor: descriptor, pid: peer.pid() }));
        let here = only_processor(None).ok().flatten();
        let is_shared = here.is_some() && only_processor(Some(peer.pid())).ok().flatten() == here;
        self.spin = if is_shared { Duration::ZERO } else { DEFAULT_SPIN };
        Ok(self)
    }

    /// It is worth another look. A counter that is not mapped tells so only to who looks.
    fn has_changed(&self, watch: Watch) -> bool {
        self.memory.word(watch.counter).is_none_or(|word| word.load(Ordering::Relaxed) != watch.seen)
            || self.memory.is_shut()
    }

    fn look_at_peer(&mut self, now: Instant) {
        if now.saturating_duration_since(self.alive_at) < LIVENESS {
            return;
        }
        self.alive_at = now;
        // Its end is told again and again. What cannot be asked is no sign of it.
        if let Some(peer) = &self.peer
            && peer.events.wait(Some(now), |_| {}).unwrap_or(false)
        {
            self.memory.peer_died(peer.pid);
        }
    }

    /// Sleeps until the counter changes, for at most `limit`; where nobody can, for that long.
    fn sleep(&self, watch: Watch, limit: Duration) {
        let Some(word) = self.memory.word(watch.counter) else {
            std::thread::sleep(limit);
            return;
        };
        let flag = watch.sleep_flag.and_then(|flag| self.memory.word(flag));
        if let Some(flag) = flag {
            // It counts: one who wakes up leaves it set for another thread of this side that sleeps on.
            flag.fetch_add(1, Ordering::Relaxed);
            // The flag stands before the counter is looked at once more, here and in the kernel.
            fence(Ordering::SeqCst);
        }
        if !self.has_changed(watch) {
            // What it cannot do it need not: the caller looks again.
            let _ = futex::sleep(word, watch.seen, limit);
        }
        if let Some(flag) = flag {
            flag.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Clock for SleepingClock {
    fn now(&mut self) -> Duration {
        self.start.elapsed()
    }

    fn pause(&mut self, watch: Watch, left: Duration) {
        let now = Instant::now();
        let since = match self.waiting {
            Some((waited, since)) if waited == watch => since,
            _ => {
                self.waiting = Some((watch, now));
                self.sleep = FIRST_SLEEP;
                now
            }
        };
        if now.saturating_duration_since(since) < self.spin.min(left) {
            for _ in 0..LOOKS {
                if self.has_changed(watch) {
                    return;
                }
                core::hint::spin_loop();
            }
            self.look_at_peer(now);
            return;
        }
        let is_woken = watch.sleep_flag.is_some() && self.memory.allows_sleeping();
        let longest = if is_woken { LONGEST_SLEEP } else { self.sleep };
        self.sleep(watch, longest.min(left));
        self.sleep = self.sleep.saturating_mul(2).min(LONGEST_SLEEP);
        self.look_at_peer(now);
    }

    fn glance(&mut self) {
        if self.peer.is_some() {
            self.look_at_peer(Instant::now());
        }
    }
}
