//! What the host costs: an import that is there already, a first one, a task to another process and back; beside the bare machine.

use std::hint::{black_box, spin_loop};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bufabi_core::wire::body::{Body, ShmName};
use bufabi_core::{Access, Descriptor};
use bufabi_host::consumer::Consumer;
use bufabi_host::memory::{Mapping, Operand};
use bufabi_host::owner::{Buffer, Endpoint};
use bufabi_host::sys::event::deadline;
use bufabi_host::sys::parent::end_with;
use bufabi_host::sys::process::{Process, fork};
use bufabi_host::sys::shm::{self, Open};
use bufabi_host::sys::{OsError, futex};
use bufabi_host::worker::{
    KernelError, Kernels, TaskRequest, WaitPolicy, WorkerId, WorkerKind, WorkerSpec, Workers,
};

use super::session::{Goal, Session};
use crate::failure::Failure;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest that a side sleeps before it looks again.
const SLEEP: Duration = Duration::from_millis(100);
/// Where the two numbers of a partner lie: in lines of their own.
const ASKED: usize = 0;
const ANSWERED: usize = 256;

/// A kernel that does nothing.
struct Nothing;

impl Kernels for Nothing {
    fn run(&self, _: u32, _: &[Operand<'_>], _: &[u64]) -> Result<(), KernelError> {
        Ok(())
    }
}

/// How the two sides of a partner wait.
#[derive(Clone, Copy)]
enum Wait {
    Spin,
    Futex,
}

impl Wait {
    /// Waits until a number is another one; `None` when it is not and `is_over` says that it never will be. That is asked only now and
    /// then: no answer that comes takes so many looks.
    fn change(self, number: &AtomicU32, last: u32, mut is_over: impl FnMut() -> bool) -> Option<u32> {
        loop {
            for _ in 0..self.looks() {
                let now = number.load(Ordering::Acquire);
                if now != last {
                    return Some(now);
                }
                match self {
                    Self::Spin => spin_loop(),
                    // It looks again, whatever ended the sleep.
                    Self::Futex => {
                        let _ = futex::sleep(number, last, SLEEP);
                    }
                }
            }
            if is_over() {
                return None;
            }
        }
    }

    const fn looks(self) -> u32 {
        match self {
            Self::Spin => 1 << 20,
            Self::Futex => 8,
        }
    }

    fn tell(self, number: &AtomicU32, value: u32) {
        number.store(value, Ordering::Release);
        if let Self::Futex = self {
            // One that is not woken sees it after its sleep.
            let _ = futex::wake(number);
        }
    }
}

/// Two numbers, and a process that answers every change of the first by the same change of the second.
struct Partner {
    memory: Mapping,
    process: Process,
    wait: Wait,
    last: u32,
    /// It has ended, or its answer is missing.
    is_lost: bool,
}

impl Partner {
    fn new(wait: Wait) -> Result<Self, Failure> {
        let memory = Mapping::inherited(4096).map_err(Failure::machine)?;
        let parent = Process::current().map_err(Failure::machine)?;
        let process = fork(|| {
            // Left alone it would wait, and spin, for ever.
            if end_with(&parent).is_err() {
                return 1;
            }
            let (Some(asked), Some(answered)) = (memory.atomic_u32(ASKED), memory.atomic_u32(ANSWERED))
            else {
                return 1;
            };
            let mut last = 0;
            while let Some(next) = wait.change(asked, last, || false) {
                last = next;
                wait.tell(answered, last);
            }
            0
        });
        let process = process.map_err(Failure::machine)?;
        Ok(Self { process, memory, wait, last: 0, is_lost: false })
    }

    fn exchange(&mut self) {
        let Self { memory, process, wait, last, is_lost } = self;
        if let (false, Some(asked), Some(answered)) =
            (*is_lost, memory.atomic_u32(ASKED), memory.atomic_u32(ANSWERED))
        {
            // No clock is looked at while all goes well: it would be measured too.
            let mut until = None;
            let is_over = || {
                let now = Instant::now();
                now >= *until.get_or_insert_with(|| deadline(PATIENCE))
                    || process.has_ended_by(now).unwrap_or(true)
            };
            wait.tell(asked, last.wrapping_add(1));
            match wait.change(answered, *last, is_over) {
                Some(answer) => *last = answer,
                None => *is_lost = true,
            }
        }
    }

    /// Whether it has answered to the last.
    fn finish(self) -> Result<(), Failure> {
        if self.is_lost { Err(Failure::machine("the other process answers no more")) } else { Ok(()) }
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.send(libc::SIGKILL);
        let _ = self.process.has_ended_by(deadline(PATIENCE));
        let _ = self.process.ended();
    }
}

/// A task to another process and back. This process has one thread yet.
pub(super) fn round_trips(session: &mut Session) -> Result<(), Failure> {
    let endpoint = Endpoint::new().map_err(Failure::machine)?;
    for (name, spin, wait, beside, goal) in [
        (
            "a task to another process and back, both spinning",
            Duration::from_millis(100),
            Wait::Spin,
            "bare spin",
            Goal::Plus(400.0),
        ),
        (
            "a task to another process and back, both asleep",
            Duration::ZERO,
            Wait::Futex,
            "bare futex",
            Goal::Times(1.2),
        ),
    ] {
        if !session.wants(&[name]) {
            continue;
        }
        // Gone before the worker comes: who spins takes a processor, and there may be two.
        let mut partner = Partner::new(wait)?;
        let bare = session.before(|| partner.exchange());
        partner.finish()?;
        let spec = WorkerSpec { name: "bench".to_owned(), kind: WorkerKind::Sub };
        let workers = Workers::spawn(&endpoint, &[spec], &Nothing, WaitPolicy { spin });
        let mut workers = workers.map_err(Failure::machine)?;
        let empty = TaskRequest { task: 1, member: 0, kernel: 0, tensors: &[], tags: &[], scalars: &[] };
        let mut answer = Ok(());
        let mut round_trip = || {
            let submitted = workers.submit(WorkerId(0), &empty).map_err(Failure::machine);
            let came = submitted.and_then(|()| workers.wait(deadline(PATIENCE)).map_err(Failure::machine));
            if let Err(failure) = came {
                answer = Err(failure);
            }
        };
        session.after(name, goal, &mut round_trip, beside, bare);
        answer?;
    }
    Ok(())
}

pub(super) fn imports(session: &mut Session) -> Result<(), Failure> {
    let names = ["import of a mapped identity, 16 live", "first import of 1 MiB and its release"];
    if !session.wants(&names) {
        return Ok(());
    }
    let endpoint = Endpoint::new().map_err(Failure::machine)?;
    let consumer = Consumer::new(None).map_err(Failure::machine)?;
    let buffers: Vec<Buffer> = (0..16)
        .map(|_| endpoint.create_buffer(4096, Access::ReadWrite))
        .collect::<Result<_, _>>()
        .map_err(Failure::machine)?;
    let mut descriptors: Vec<Descriptor> = Vec::new();
    for buffer in &buffers {
        let descriptor = buffer.descriptor().map_err(Failure::machine)?;
        consumer.import(&descriptor).map_err(Failure::machine)?;
        descriptors.push(descriptor);
    }
    let mut next = descriptors.iter().cycle();
    let [mapped, first] = names;
    session.copy(mapped, Goal::AtMost(30.0), size_of::<Descriptor>(), 16, || {
        for descriptor in next.by_ref().take(16) {
            drop(black_box(consumer.import(black_box(descriptor))));
        }
    });

    const NBYTES: u64 = 1 << 20;
    let buffer = endpoint.create_buffer(NBYTES, Access::ReadWrite).map_err(Failure::machine)?;
    let descriptor = buffer.descriptor().map_err(Failure::machine)?;
    let Body::PosixShm { name } = descriptor.body() else {
        return Err(Failure::machine("a buffer of the host has no name"));
    };
    let import_and_release = || {
        drop(black_box(consumer.import(&descriptor)));
        consumer.release(descriptor.identity()).is_ok()
    };
    session.beside(first, Goal::Times(1.2), import_and_release, "open, map, unmap", || bare_import(&name));
    Ok(())
}

/// What an import and its release cannot do without: open, ask, map, close, unmap.
fn bare_import(name: &ShmName) -> Result<(), OsError> {
    let file = shm::open(name, Open::ReadWrite)?;
    let status = shm::status(file.as_fd())?;
    let nbytes = usize::try_from(status.nbytes).unwrap_or(0);
    let mapping = Mapping::of_file(file.as_fd(), nbytes, Access::ReadWrite)?;
    drop(file);
    mapping.unmap().map_err(|(_, error)| error)
}
