//! Time on this machine, and how an idle device sleeps: a short spin, then `wfi` until a timer of at most 1 ms rings.
//!
//! The host cannot ring: it is another program, and the memory is all that the two share. So a request is seen at most 1 ms late.
//! Interrupts stay masked: one that is pending ends `wfi` all the same, and none is ever taken.

use core::arch::asm;
use core::hint::spin_loop;
use core::ptr::{with_exposed_provenance_mut, write_volatile};
use core::time::Duration;

use bufabi_core::region::{Clock, Watch};

/// How long it looks for a change before it sleeps.
const SPIN_NANOSECONDS: u64 = 100_000;
/// How long it sleeps at most.
const SLEEP_NANOSECONDS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// The interrupt of the virtual timer of this processor.
const TIMER: u32 = 27;
/// The distributor: its control, and which of a processor's own interrupts are enabled.
const GICD_CTLR: usize = 0x0800_0000;
const GICD_ISENABLER0: usize = 0x0800_0100;
/// The processor's interface: its control, and from which priority on it is told.
const GICC_CTLR: usize = 0x0801_0000;
const GICC_PMR: usize = 0x0801_0004;

/// The processor's counter.
pub(crate) struct GuestClock {
    /// Counts in a second; not 0.
    frequency: u64,
    /// What it last waited for, and since when.
    waiting: Option<(Watch, u64)>,
}

impl GuestClock {
    /// Sets the timer's interrupt up, so that it can end a sleep.
    pub(crate) fn start() -> Self {
        for (register, value) in
            [(GICD_CTLR, 1), (GICD_ISENABLER0, 1 << TIMER), (GICC_PMR, 0xff), (GICC_CTLR, 1)]
        {
            // SAFETY: `virt` has its interrupt controller, a GICv2, at these addresses; nobody else uses it.
            unsafe { write_volatile(with_exposed_provenance_mut::<u32>(register), value) };
        }
        let frequency: u64;
        // SAFETY: it reads a register.
        unsafe { asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack)) };
        Self { frequency: frequency.max(1), waiting: None }
    }

    fn nanoseconds(&self) -> u64 {
        let count: u64;
        // SAFETY: it reads a register; the barrier keeps the read where it stands.
        unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) count, options(nostack)) };
        // In two steps, so that it wraps after centuries alone; the frequency is not 0.
        let seconds = count.checked_div(self.frequency).unwrap_or(0);
        let rest = count.wrapping_sub(seconds.wrapping_mul(self.frequency));
        let rest = rest.saturating_mul(SECOND).checked_div(self.frequency).unwrap_or(0);
        seconds.wrapping_mul(SECOND).wrapping_add(rest)
    }

    fn sleep(&self, nanoseconds: u64) {
        let counts = nanoseconds.saturating_mul(self.frequency) / SECOND;
        // SAFETY: the timer belongs to this clock alone. It is armed, the processor waits, and it is disarmed, which takes its interrupt
        // back: a timer that rang before the `wfi` is pending still, and ends it at once.
        unsafe {
            asm!(
                "msr cntv_tval_el0, {counts}",
                "msr cntv_ctl_el0, {on}",
                "isb",
                "wfi",
                "msr cntv_ctl_el0, xzr",
                "isb",
                counts = in(reg) counts,
                on = in(reg) 1_u64,
                options(nostack),
            );
        }
    }
}

impl Clock for GuestClock {
    fn now(&mut self) -> Duration {
        Duration::from_nanos(self.nanoseconds())
    }

    fn pause(&mut self, watch: Watch, left: Duration) {
        let now = self.nanoseconds();
        let since = match self.waiting {
            Some((waited_for, since)) if waited_for == watch => since,
            Some(_) | None => now,
        };
        self.waiting = Some((watch, since));
        if now.saturating_sub(since) < SPIN_NANOSECONDS {
            spin_loop();
            return;
        }
        let left = left.as_secs().saturating_mul(SECOND).saturating_add(u64::from(left.subsec_nanos()));
        self.sleep(left.min(SLEEP_NANOSECONDS));
    }
}
