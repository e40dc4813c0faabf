//! Clocks for tests: one that only passes when it is asked to, and the machine's.

use std::time::{Duration, Instant};

use bufabi_core::region::{Clock, Watch};

/// Each pause takes a millisecond, and is counted; nothing really waits.
#[derive(Debug, Default)]
pub struct Counted {
    /// Pauses so far.
    pub pauses: u64,
}

impl Clock for Counted {
    fn now(&mut self) -> Duration {
        Duration::from_millis(self.pauses)
    }

    fn pause(&mut self, _: Watch, _: Duration) {
        self.pauses = self.pauses.saturating_add(1);
    }
}

/// The machine's clock. A pause gives the processor to whoever else wants it.
#[derive(Debug)]
pub struct Machine {
    start: Instant,
    turns: u32,
}

impl Machine {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Self { start: Instant::now(), turns: 0 }
    }
}

impl Clock for Machine {
    fn now(&mut self) -> Duration {
        self.start.elapsed()
    }

    fn pause(&mut self, _: Watch, _: Duration) {
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(64) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}
