//! What a worker process does from its fork to its end: wait for a request, do it, answer.

use std::os::fd::AsFd;
use std::time::Instant;

use bufabi_core::wire::blob::ByteSource;
use bufabi_core::wire::identity::RawIdentity;
use bufabi_core::{Blob, ChipStorageTaskArgs, Code};
use zerocopy::{FromZeros, IntoBytes};

use super::failure::Failure;
use super::kernel::Kernels;
use super::mailbox::{MAX_BLOB, Mailbox, RawReply, Request, RequestKind};
use super::reply::resolution_number;
use super::wait::{Spin, Waited, wait};
use super::{WaitPolicy, WorkerKind, chip, sub};
use crate::consumer::{Consumer, Import};
use crate::memory::mapping::bytes_copied;
use crate::sys::event::{Doorbell, Watch};
use crate::sys::process::{Process, set_name};
use crate::sys::{OsError, fault, parent as parents};

/// Exit statuses of a worker process, other than 0 for one that was told to stop or whose parent ended.
mod status {
    /// The operating system refused something that a worker cannot do without.
    pub(super) const MACHINE: i32 = 3;
    /// The mailbox held something that no parent writes.
    pub(super) const MESSAGE_BROKEN: i32 = 4;
}

/// What a worker process has of its parent.
pub(super) struct Inherited<'a> {
    pub(super) name: &'a str,
    pub(super) kind: WorkerKind,
    pub(super) mailbox: &'a Mailbox,
    /// Rung by the parent.
    pub(super) doorbell: &'a Doorbell,
    /// Rung by this process.
    pub(super) parent_doorbell: &'a Doorbell,
    pub(super) parent: &'a Process,
    pub(super) policy: WaitPolicy,
}

/// The worker's whole life; its exit status comes back.
pub(super) fn serve<K: Kernels + ?Sized>(inherited: Inherited<'_>, kernels: &K) -> i32 {
    match Server::start(inherited, kernels).and_then(Server::run) {
        Ok(status) => status,
        // Nobody is left to tell but who looks at the exit status.
        Err(_) => status::MACHINE,
    }
}

struct Server<'a, K: ?Sized> {
    inherited: Inherited<'a>,
    kernels: &'a K,
    consumer: Consumer,
    watch: Watch,
    spin: Spin,
    /// The number of the last request that was answered.
    answered: u32,
    scratch: Box<[u8]>,
    arguments: Box<ChipStorageTaskArgs>,
    imports: Vec<Import>,
    /// What this process had copied when it saw the request.
    copied_before: u64,
}

/// The parent's end, among what the watch tells; the other token is the doorbell.
const PARENT_ENDED: u64 = 1;

impl<'a, K: Kernels + ?Sized> Server<'a, K> {
    fn start(inherited: Inherited<'a>, kernels: &'a K) -> Result<Self, OsError> {
        parents::end_with(inherited.parent)?;
        parents::leave_interrupts_to_parent()?;
        fault::survive_shrinking_objects()?;
        set_name(inherited.name)?;
        let watch = Watch::new()?;
        watch.add_doorbell(inherited.doorbell, 0)?;
        watch.add_process(inherited.parent.as_fd(), PARENT_ENDED)?;
        Ok(Self {
            kernels,
            consumer: Consumer::new(None)?,
            watch,
            spin: Spin::new(inherited.policy.spin),
            answered: 0,
            scratch: vec![0; MAX_BLOB].into_boxed_slice(),
            arguments: Box::new(ChipStorageTaskArgs::EMPTY),
            imports: Vec::new(),
            copied_before: 0,
            inherited,
        })
    }

    fn run(mut self) -> Result<i32, OsError> {
        loop {
            let Some(sequence) = self.next()? else { return Ok(0) };
            let start = Instant::now();
            self.copied_before = bytes_copied();
            let request = self.inherited.mailbox.request();
            // Requests follow one another, and each is answered before the next.
            if sequence != self.answered.wrapping_add(1) {
                return Ok(status::MESSAGE_BROKEN);
            }
            let result = match RequestKind::from_wire(request.kind) {
                Some(RequestKind::Run) => self.run_task(&request),
                Some(RequestKind::Release) => self.release(&request),
                Some(RequestKind::Stop) => return Ok(0),
                None => return Ok(status::MESSAGE_BROKEN),
            };
            self.answer(sequence, &request, start, result)?;
        }
    }

    /// The number of the next request; `None` when the parent has ended.
    fn next(&mut self) -> Result<Option<u32>, OsError> {
        let mailbox = self.inherited.mailbox;
        let answered = self.answered;
        let ready = || Some(mailbox.request_sequence()).filter(|&sequence| sequence != answered);
        let asleep = |is_asleep| mailbox.set_worker_asleep(is_asleep);
        let parent = self.inherited.parent.pid();
        loop {
            let mut parent_ended = false;
            let waited = wait(&mut self.spin, &self.watch, None, ready, asleep, [parent], |token| {
                parent_ended |= token == PARENT_ENDED
            })?;
            match waited {
                Waited::Ready(sequence) => return Ok(Some(sequence)),
                Waited::Woken | Waited::TimedOut if parent_ended => return Ok(None),
                Waited::Woken | Waited::TimedOut => {}
            }
        }
    }

    fn run_task(&mut self, request: &Request) -> Result<(), Failure> {
        self.imports.clear();
        let source = self.inherited.mailbox.blob(request);
        let blob = Blob::copy_from(&source, &mut self.scratch)
            .map_err(|error| Failure::new(error.code(), None, &error))?;
        let (kernel, imports) = (request.kernel, &mut self.imports);
        let replaced = fault::replaced_pages();
        let result = match self.inherited.kind {
            WorkerKind::Chip => {
                chip::run(self.kernels, kernel, &self.consumer, &blob, &mut self.arguments, imports)
            }
            WorkerKind::Sub => sub::run(self.kernels, kernel, &self.consumer, &blob, imports),
        };
        if fault::replaced_pages() == replaced {
            return result;
        }
        let argument = imports.iter().position(|import| import.is_damaged());
        let text = "the object shrank under the task, which read zeros in its place";
        Err(Failure::new(Code::BackingShrank, argument, &text))
    }

    fn release(&mut self, request: &Request) -> Result<(), Failure> {
        self.imports.clear();
        let mut identity = RawIdentity::new_zeroed();
        let source = self.inherited.mailbox.blob(request);
        source.copy_out(0, identity.as_mut_bytes());
        let Some(identity) = identity.decode() else {
            return Err(Failure::new(Code::Generation, None, &"no identity has generation 0"));
        };
        self.consumer.release(identity).map_err(|error| Failure::new(error.code(), None, &error))
    }

    fn answer(
        &mut self,
        sequence: u32,
        request: &Request,
        start: Instant,
        result: Result<(), Failure>,
    ) -> Result<(), OsError> {
        let mut resolutions = heapless::Vec::<u8, 256>::new();
        for import in self.imports.drain(..) {
            // There are at most 256.
            let _ = resolutions.push(resolution_number(import.resolution()));
        }
        let failure = result.err();
        let text = failure.as_ref().map_or("", |failure| failure.text.as_str());
        let argument = failure.as_ref().and_then(|failure| failure.argument);
        let reply = RawReply {
            code: failure.as_ref().map_or(0, |failure| failure.code.number()),
            argument: argument.and_then(|index| u32::try_from(index).ok()).unwrap_or(u32::MAX),
            task: request.task,
            bytes_copied: bytes_copied().wrapping_sub(self.copied_before),
            nanoseconds: u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
            resolution_count: u32::try_from(resolutions.len()).unwrap_or(0),
            text_bytes: u32::try_from(text.len()).unwrap_or(0),
        };
        self.answered = sequence;
        let posted = self.inherited.mailbox.post_reply(sequence, &reply, &resolutions, text.as_bytes());
        // Both texts fit: their types say so.
        if posted.unwrap_or(true) { self.inherited.parent_doorbell.ring() } else { Ok(()) }
    }
}
