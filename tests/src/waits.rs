//! Every call that waits for the other side of a region, at either end, each made so that nobody but the other side's end ends it; and
//! the end that comes in the middle.

use std::fmt::Display;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bufabi_core::Code;
use bufabi_core::queue::{Kind, L2End, L3End, ReceiveError, SendError};
use bufabi_core::region::{Clock, Comparison, Region, RegionAccess, RegionError};
use bufabi_host::sys::OsError;
use bufabi_host::sys::process::Process;

/// Longer than any test runs.
const HOUR: Duration = Duration::from_secs(3600);

/// How long a wait is under way before the other side ends: past all spinning.
const UNDER_WAY: Duration = Duration::from_millis(30);

const SIGKILL: i32 = 9;

/// What a host waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the call of that name")]
pub enum HostWait {
    Peek,
    Dequeue,
    Enqueue,
    Reserve,
    Stop,
    Counter,
}

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the call of that name")]
pub enum TaskWait {
    Receive,
    Send,
    Reserve,
    Counter,
}

/// Why a wait came to its end: the error's code, and what it says.
pub type Learnt = (Code, String);

impl HostWait {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Peek, Self::Dequeue, Self::Enqueue, Self::Reserve, Self::Stop, Self::Counter];

    /// Waits at the host's end of a queue whose other side does nothing.
    pub fn wait<A: RegionAccess>(self, mut end: L3End<A, Vec<u64>>, clock: &mut impl Clock) -> Learnt {
        // Messages without bytes fill the ring, for STOP as well.
        while end.try_enqueue(Kind::Data, &[]).is_ok() {}
        match self {
            Self::Peek => received(end.peek(HOUR, clock)),
            Self::Dequeue => received(end.dequeue_into(&mut [0; 8], HOUR, clock)),
            Self::Enqueue => sent(end.enqueue(Kind::Data, &[], HOUR, clock)),
            Self::Reserve => sent(end.reserve(0, HOUR, clock)),
            Self::Stop => sent(end.request_stop(HOUR, clock)),
            Self::Counter => counted(end.into_access(), clock),
        }
    }
}

impl TaskWait {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Receive, Self::Send, Self::Reserve, Self::Counter];

    /// Waits at a task's end of a queue whose other side does nothing.
    pub fn wait<A: RegionAccess>(self, mut end: L2End<A, Vec<u64>, 1>, clock: &mut impl Clock) -> Learnt {
        // Bytes fill the arena before the ring is full.
        while end.try_send(Kind::Data, &[0; 512]).is_ok() {}
        match self {
            Self::Receive => received(end.receive(HOUR, clock)),
            Self::Send => sent(end.send(Kind::Data, &[0; 512], HOUR, clock)),
            Self::Reserve => sent(end.reserve(512, HOUR, clock)),
            Self::Counter => counted(end.into_access(), clock),
        }
    }
}

/// A counter that nobody makes negative.
fn counted<A: RegionAccess>(memory: A, clock: &mut impl Clock) -> Learnt {
    learnt(Region::new(memory).wait(0, Comparison::Less, 0, HOUR, clock), RegionError::code)
}

fn received<T>(outcome: Result<T, ReceiveError>) -> Learnt {
    learnt(outcome, ReceiveError::code)
}

fn sent<T>(outcome: Result<T, SendError>) -> Learnt {
    learnt(outcome, SendError::code)
}

fn learnt<T, E: Display + Copy>(outcome: Result<T, E>, code: fn(E) -> Code) -> Learnt {
    match outcome {
        Ok(_) => (Code::Internal, "nothing was to come".to_owned()),
        Err(error) => (code(error), error.to_string()),
    }
}

/// What everyone learns whose other side, the process of that number, has ended.
#[must_use]
pub fn died(pid: i32) -> Learnt {
    (Code::WorkerDied, format!("the other side of the region, process {pid}, has ended"))
}

/// Kills a process when whoever calls has waited for a while, and says when that was.
///
/// # Errors
/// [`OsError`] when there is no such process.
pub fn kill_soon(pid: i32) -> Result<JoinHandle<Instant>, OsError> {
    let process = Process::open(pid)?;
    Ok(thread::spawn(move || {
        thread::sleep(UNDER_WAY);
        let now = Instant::now();
        // Whoever waits for it finds out when it could not be done.
        let _ = process.send(SIGKILL);
        now
    }))
}
