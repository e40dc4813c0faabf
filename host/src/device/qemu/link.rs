//! One request to the machine and its reply, for a limited time: a machine that ends, hangs or breaks what a queue is gets no
//! further request.

use std::time::{Duration, Instant};

use bufabi_core::Code;
use bufabi_core::queue::{Kind, L3End, Opcode, ReceiveError};
use bufabi_core::region::{Clock, Watch};
use bufabi_device::mailbox::{DEPTH, TOOK_AN_EXCEPTION};
use bufabi_device::message::{Answer, RawReply};

use super::memory::{GuestMemory, QueueMemory};
use crate::device::DeviceError;
use crate::sys::OsError;
use crate::sys::event::deadline;
use crate::sys::process::Process;

/// How long it looks for a reply before it sleeps.
const SPIN: Duration = Duration::from_micros(50);
/// How long it sleeps between two looks: the machine cannot ring.
const SLEEP: Duration = Duration::from_millis(1);
/// Looks at the queue between two looks at the clock.
const LOOKS: u32 = 32;
/// How long a machine that was told to stop, or killed, has for it.
const STOPPING: Duration = Duration::from_secs(2);

/// This side's end of the queue.
pub(super) type Queue = L3End<QueueMemory, [u64; DEPTH]>;

/// This side's end of the queue, and the machine's process.
pub(super) struct Link {
    queue: Queue,
    process: Process,
    patience: Duration,
    /// The number of the last request.
    number: u64,
    /// Why there is no further request.
    ended: Option<DeviceError>,
}

/// A queue whose other side has no request under way always has room: it is never waited for.
struct NoTime;

impl Clock for NoTime {
    fn now(&mut self) -> Duration {
        Duration::ZERO
    }

    fn pause(&mut self, _: Watch, _: Duration) {}
}

impl Link {
    /// This side's end of the queue, before there is a machine.
    pub(super) fn queue(memory: &GuestMemory) -> Result<Queue, DeviceError> {
        L3End::new(memory.start().queue.layout(), memory.queue(), [0; DEPTH])
            .map_err(|error| DeviceError::Firmware { code: error.code() })
    }

    /// Waits until the machine says that it has started; else it is killed.
    pub(super) fn open(
        memory: &GuestMemory,
        queue: Queue,
        process: Process,
        patience: Duration,
    ) -> Result<Self, DeviceError> {
        let mut link = Self { queue, process, patience, number: 0, ended: None };
        match link.reply(memory) {
            Ok(Ok(())) => Ok(link),
            Ok(Err(refusal)) => Err(link.end(DeviceError::Firmware { code: refusal.code })),
            Err(error) => Err(error),
        }
    }

    /// Sends a request, whose bytes `write` gives piece by piece for its number, and waits for the answer.
    pub(super) fn ask(
        &mut self,
        memory: &GuestMemory,
        nbytes: usize,
        write: impl FnOnce(u64, &mut dyn FnMut(&[u8]) -> Result<(), Code>) -> Result<(), Code>,
    ) -> Result<Answer, DeviceError> {
        if let Some(error) = self.ended {
            return Err(error);
        }
        self.number = self.number.wrapping_add(1);
        if let Err(code) = self.send(nbytes, write) {
            return Err(self.end(DeviceError::Firmware { code }));
        }
        self.reply(memory)
    }

    fn send(
        &mut self,
        nbytes: usize,
        write: impl FnOnce(u64, &mut dyn FnMut(&[u8]) -> Result<(), Code>) -> Result<(), Code>,
    ) -> Result<(), Code> {
        let nbytes = u64::try_from(nbytes).unwrap_or(u64::MAX);
        let (number, queue) = (self.number, &mut self.queue);
        let reservation = queue.try_reserve(nbytes).map_err(|error| error.code())?;
        let mut written = 0_u64;
        write(number, &mut |piece| {
            let start = written;
            written = written.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
            queue.write(&reservation, start, piece).map_err(|error| error.code())
        })?;
        queue.commit(&reservation, Kind::Data, nbytes).map_err(|error| error.code())
    }

    /// The answer to the last request. It is waited for as long as the machine makes progress.
    fn reply(&mut self, memory: &GuestMemory) -> Result<Answer, DeviceError> {
        let start = Instant::now();
        let (mut progress, mut moved) = (memory.progress(), start);
        loop {
            for _ in 0..LOOKS {
                if let Some(answer) = self.try_reply()? {
                    return Ok(answer);
                }
                core::hint::spin_loop();
            }
            let now = Instant::now();
            if now.saturating_duration_since(start) < SPIN {
                continue;
            }
            let has_ended = self.process.has_ended_by(deadline(SLEEP));
            if has_ended.map_err(|error| self.end(DeviceError::Os(error)))? {
                // What it said last counts still.
                return match self.try_reply()? {
                    Some(answer) => Ok(answer),
                    None => Err(self.end(ended(memory))),
                };
            }
            let found = memory.progress();
            if found != progress {
                (progress, moved) = (found, now);
            } else if now.saturating_duration_since(moved) >= self.patience {
                let milliseconds = u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX);
                return Err(self.end(DeviceError::TimedOut { milliseconds }));
            }
        }
    }

    fn try_reply(&mut self) -> Result<Option<Answer>, DeviceError> {
        let mut message = [0; size_of::<RawReply>()];
        let broken = DeviceError::Firmware { code: Code::MessageBroken };
        match self.queue.try_dequeue_into(&mut message) {
            Ok((Opcode::Data, length)) => {
                let answer = message.get(..length).and_then(|bytes| RawReply::decode(bytes, self.number));
                answer.map(Some).ok_or_else(|| self.end(broken))
            }
            Ok((Opcode::Stop | Opcode::Error, _)) => Err(self.end(broken)),
            Err(ReceiveError::Empty) => Ok(None),
            // It is about to say why.
            Err(ReceiveError::PeerAborted) => Ok(None),
            Err(error) => Err(self.end(DeviceError::Firmware { code: error.code() })),
        }
    }

    /// Lets the machine go, since it cannot be relied on: no request comes behind.
    fn end(&mut self, error: DeviceError) -> DeviceError {
        let error = *self.ended.get_or_insert(error);
        self.kill();
        error
    }

    /// Kills the machine's process, if it is still there, and sees it end.
    fn kill(&self) {
        // It has ended when this fails.
        let _ = self.process.send(libc::SIGKILL);
        let _ = self.reap();
    }

    /// Waits for the process's end, for a limited time, and says whether it ended.
    fn reap(&self) -> Result<bool, OsError> {
        self.process.has_ended_by(deadline(STOPPING))?;
        Ok(self.process.ended()?.is_some())
    }

    /// The machine's process number.
    pub(super) fn pid(&self) -> i32 {
        self.process.pid()
    }
}

/// What a machine whose process has ended says of it.
pub(super) fn ended(memory: &GuestMemory) -> DeviceError {
    match memory.fault() {
        None => DeviceError::Ended,
        Some((TOOK_AN_EXCEPTION, fault)) => DeviceError::Faulted {
            syndrome: fault.syndrome.get(),
            address: fault.address.get(),
            instruction: fault.instruction.get(),
        },
        Some((_, fault)) => {
            let number = i32::try_from(fault.syndrome.get()).ok();
            DeviceError::Firmware { code: number.and_then(Code::from_number).unwrap_or(Code::MessageBroken) }
        }
    }
}

impl Drop for Link {
    /// Tells the machine to stop, and kills it if it does not.
    fn drop(&mut self) {
        if self.ended.is_some() {
            return;
        }
        let stopped = self.queue.request_stop(Duration::ZERO, &mut NoTime).is_ok();
        if !(stopped && self.reap().unwrap_or(false)) {
            self.kill();
        }
    }
}
