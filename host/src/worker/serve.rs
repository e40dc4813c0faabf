//! What a leaf's process does from its fork to its end: wait for a request, do it, answer.

use std::os::fd::AsFd;
use std::time::Instant;

use bufabi_core::wire::blob::ByteSource;
use bufabi_core::wire::identity::RawIdentity;
use bufabi_core::{Blob, ChipStorageTaskArgs, Code};
use zerocopy::little_endian::I32;
use zerocopy::{FromZeros, IntoBytes};

use super::failure::Failure;
use super::hello::Hello;
use super::kernel::Kernels;
use super::mailbox::{MAX_BLOB, MAX_SAID, Mailbox, RawReply, Request, RequestKind};
use super::reply::resolution_number;
use super::wait::{Spin, Waited, wait};
use super::{WaitPolicy, chip, sub};
use crate::consumer::{Consumer, Import};
use crate::memory::mapping::bytes_copied;
use crate::sys::event::{Doorbell, Watch};
use crate::sys::process::{Process, current_pid, set_name};
use crate::sys::{OsError, fault, parent as parents};

/// Exit statuses of a worker process, other than 0 for one that was told to stop or whose parent ended.
pub(super) mod status {
    /// The operating system refused something that a worker cannot do without.
    pub(in super::super) const MACHINE: i32 = 3;
    /// The mailbox held something that no parent writes.
    pub(in super::super) const MESSAGE_BROKEN: i32 = 4;
}

/// What a worker process has of its parent.
pub(super) struct Inherited<'a> {
    /// This worker's path.
    pub(super) path: &'a str,
    /// One for each leaf below, or for itself.
    pub(super) lanes: &'a [Mailbox],
    /// Rung by the parent.
    pub(super) doorbell: &'a Doorbell,
    /// Rung by this process.
    pub(super) parent_doorbell: &'a Doorbell,
    pub(super) parent: &'a Process,
    pub(super) policy: WaitPolicy,
}

/// What a leaf is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Leaf {
    Chip,
    Sub,
}

impl Inherited<'_> {
    /// Makes this process a worker's: it ends with its parent and on SIGTERM, and leaves what the terminal says to its parent.
    pub(super) fn settle(&self) -> Result<(), OsError> {
        parents::end_with(self.parent)?;
        parents::leave_interrupts_to_parent()?;
        parents::end_when_told_to()?;
        set_name(self.path.rsplit('/').next().unwrap_or(self.path))
    }
}

/// The whole life of a leaf; its exit status comes back.
pub(super) fn serve<K: Kernels + ?Sized>(inherited: Inherited<'_>, kind: Leaf, kernels: &K) -> i32 {
    match Server::start(inherited, kind, kernels).and_then(Server::run) {
        Ok(status) => status,
        // Nobody is left to tell but who looks at the exit status.
        Err(_) => status::MACHINE,
    }
}

struct Server<'a, K: ?Sized> {
    inherited: Inherited<'a>,
    kind: Leaf,
    /// The one lane.
    mailbox: &'a Mailbox,
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
    fn start(inherited: Inherited<'a>, kind: Leaf, kernels: &'a K) -> Result<Self, OsError> {
        inherited.settle()?;
        fault::survive_shrinking_objects()?;
        let none = OsError { call: "mmap", errno: libc::EINVAL };
        let mailbox = inherited.lanes.first().ok_or(none)?;
        let watch = Watch::new()?;
        watch.add_doorbell(inherited.doorbell, 0)?;
        watch.add_process(inherited.parent.as_fd(), PARENT_ENDED)?;
        Ok(Self {
            kind,
            mailbox,
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
            let request = self.mailbox.request();
            // Requests follow one another, and each is answered before the next.
            if sequence != self.answered.wrapping_add(1) {
                return Ok(status::MESSAGE_BROKEN);
            }
            let result = match RequestKind::from_wire(request.kind) {
                Some(RequestKind::Run) => self.run_task(&request).map(|()| Said::new()),
                Some(RequestKind::Release) => self.release(&request).map(|()| Said::new()),
                Some(RequestKind::Hello) => Ok(hello()),
                None => return Ok(status::MESSAGE_BROKEN),
            };
            self.answer(sequence, &request, start, result)?;
        }
    }

    /// The number of the next request; `None` when the parent has ended, or wants this worker to.
    fn next(&mut self) -> Result<Option<u32>, OsError> {
        let mailbox = self.mailbox;
        let answered = self.answered;
        let ready = || {
            let sequence = Some(mailbox.request_sequence()).filter(|&sequence| sequence != answered);
            sequence.map(Some).or_else(|| mailbox.is_told_to_end().then_some(None))
        };
        let asleep = |is_asleep| mailbox.set_worker_asleep(is_asleep);
        let parent = self.inherited.parent.pid();
        loop {
            let mut parent_ended = false;
            let waited = wait(&mut self.spin, &self.watch, None, ready, asleep, [parent], |token| {
                parent_ended |= token == PARENT_ENDED
            })?;
            match waited {
                Waited::Ready(sequence) => return Ok(sequence),
                Waited::Woken | Waited::TimedOut if parent_ended => return Ok(None),
                Waited::Woken | Waited::TimedOut => {}
            }
        }
    }

    fn run_task(&mut self, request: &Request) -> Result<(), Failure> {
        self.imports.clear();
        let source = self.mailbox.blob(request);
        let blob = Blob::copy_from(&source, &mut self.scratch)
            .map_err(|error| Failure::new(error.code(), None, &error))?;
        let (kernel, imports) = (request.kernel, &mut self.imports);
        let replaced = fault::replaced_pages();
        let result = match self.kind {
            Leaf::Chip => {
                chip::run(self.kernels, kernel, &self.consumer, &blob, &mut self.arguments, imports)
            }
            Leaf::Sub => sub::run(self.kernels, kernel, &self.consumer, &blob, imports),
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
        let source = self.mailbox.blob(request);
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
        result: Result<Said, Failure>,
    ) -> Result<(), OsError> {
        let mut resolutions = heapless::Vec::<u8, 256>::new();
        for import in self.imports.drain(..) {
            // There are at most 256.
            let _ = resolutions.push(resolution_number(import.resolution()));
        }
        let (code, argument, said) = match &result {
            Ok(said) => (Code::Ok, None, said.as_slice()),
            Err(Failure { code, argument, text }) => (*code, *argument, text.as_bytes()),
        };
        let reply = RawReply {
            code: code.number(),
            argument: argument.and_then(|index| u32::try_from(index).ok()).unwrap_or(u32::MAX),
            task: request.task,
            bytes_copied: bytes_copied().wrapping_sub(self.copied_before),
            nanoseconds: u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
            resolution_count: u32::try_from(resolutions.len()).unwrap_or(0),
            said_bytes: u32::try_from(said.len()).unwrap_or(0),
            hops: 0,
        };
        self.answered = sequence;
        let posted = self.mailbox.post_reply(sequence, &reply, &resolutions, said);
        // Both fit: their types say so.
        if posted.unwrap_or(true) { self.inherited.parent_doorbell.ring() } else { Ok(()) }
    }
}

/// What a good answer says, if it was not a task that was asked for.
type Said = heapless::Vec<u8, MAX_SAID>;

fn hello() -> Said {
    let hello = Hello { pid: I32::new(current_pid().cast_signed()) };
    hello.as_bytes().iter().copied().collect()
}
