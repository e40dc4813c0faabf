//! What a leaf's process does from its fork to its end: wait for a request, do it, answer.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use bufabi_core::wire::blob::ByteSource;
use bufabi_core::wire::chip_args::MAX_TENSORS;
use bufabi_core::wire::identity::RawIdentity;
use bufabi_core::{Blob, Code, OwnerInstanceId};
use zerocopy::little_endian::I32;
use zerocopy::{FromZeros, IntoBytes};

use super::failure::Failure;
use super::hello::Hello;
use super::kernel::Kernels;
use super::mailbox::{FIRST_REQUEST, MAX_BLOB, Mailbox, MemoryCall, RawReply, Request, RequestKind};
use super::reply::resolution_number;
use super::wait::{Spin, Waited, wait};
use super::{WaitPolicy, chip, sub};
use crate::backend;
use crate::backend::vmm_shareable::VmmShareable;
use crate::consumer::{Consumer, DEFAULT_CAPACITY, Import};
use crate::device::{Chip, DeviceKind};
use crate::memory::mapping::bytes_copied;
use crate::sys::event::{Doorbell, Watch};
use crate::sys::process::{Process, current_pid, set_name};
use crate::sys::random::random_bytes;
use crate::sys::{OsError, fault, parent as parents};
use crate::vmm::memfd::MemfdOptions;
use crate::vmm::{MemfdDriver, VmmDriver};

/// Exit statuses of a worker process, other than 0 for one that was told to stop or whose parent ended.
pub(super) mod status {
    /// The operating system refused something that a worker cannot do without.
    pub(in super::super) const MACHINE: i32 = 3;
    /// The mailbox held something that no parent writes.
    pub(in super::super) const MESSAGE_BROKEN: i32 = 4;
}

/// What a worker process has of its parent.
#[derive(Clone, Copy)]
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

/// What a leaf is, and what it has of its own.
#[expect(clippy::large_enum_variant, reason = "there is one in a process")]
enum Leaf<'a> {
    Chip(Chip<'a>),
    Sub {
        consumer: Consumer,
        driver: Arc<MemfdDriver>,
        imports: Vec<Import>,
    },
    /// A chip whose device is not to be had: it says why to whoever asks anything.
    Missing(Failure),
}

impl Leaf<'_> {
    /// A sub-worker that reaches what any process on this machine can reach, software device memory too.
    fn sub() -> Result<Self, OsError> {
        let owner = OwnerInstanceId(random_bytes()?);
        let driver = Arc::new(MemfdDriver::new(owner, 0, MemfdOptions::default()));
        let mut backends = backend::of_host();
        backends.push(Box::new(VmmShareable::new(Arc::clone(&driver))));
        let consumer = Consumer::with_backends(None, backends, DEFAULT_CAPACITY)?;
        Ok(Self::Sub { consumer, driver, imports: Vec::new() })
    }

    /// The first argument of the last task whose object shrank under it.
    fn damaged_argument(&self) -> Option<usize> {
        match self {
            Self::Chip(chip) => chip.damaged_argument(),
            Self::Sub { imports, .. } => imports.iter().position(|import| import.is_damaged()),
            Self::Missing(_) => None,
        }
    }

    /// How the arguments of the last task were resolved, which are let go of.
    fn take_resolutions(&mut self) -> heapless::Vec<u8, MAX_TENSORS> {
        match self {
            Self::Chip(chip) => {
                let resolutions = chip.resolutions().iter().copied().map(resolution_number).collect();
                chip.forget_task();
                resolutions
            }
            Self::Sub { imports, .. } => {
                imports.drain(..).map(|import| resolution_number(import.resolution())).collect()
            }
            Self::Missing(_) => heapless::Vec::new(),
        }
    }

    fn hello(&self) -> Result<Hello, Failure> {
        let (peer, owner, memory) = match self {
            Self::Chip(chip) => {
                let memory = chip.memory();
                let kind = if memory.is_machine_memory() { 2 } else { 1 };
                (memory.peer_number(), Some(memory.owner_instance_id()), kind)
            }
            Self::Sub { driver, .. } => (driver.peer_number(), None, 0),
            Self::Missing(failure) => return Err(failure.clone()),
        };
        let pid = current_pid().cast_signed();
        Ok(Hello {
            pid: I32::new(pid),
            peer: I32::new(peer.unwrap_or(pid)),
            memory: I32::new(memory),
            owner_instance_id: owner.map_or([0; 8], |owner| owner.0),
        })
    }
}

impl Inherited<'_> {
    /// Makes this process a worker's: it ends with its parent and on SIGTERM, and leaves what the terminal says to its parent.
    pub(super) fn settle(&self) -> Result<(), OsError> {
        parents::end_with(self.parent)?;
        parents::leave_interrupts_to_parent()?;
        parents::end_when_told_to()?;
        set_name(self.path.rsplit('/').next().unwrap_or(self.path))
    }

    /// Says why this worker does not start, as the reply to the first request on its first lane, whether that has come or not: it
    /// asks who the leaf is. The status to exit with comes back.
    pub(super) fn give_up(&self, failure: &Failure) -> i32 {
        let Failure { code, text, .. } = failure;
        let said_bytes = u32::try_from(text.len()).unwrap_or(0);
        let reply = RawReply { said_bytes, ..RawReply::of_code(0, *code, None) };
        if let Some(mailbox) = self.lanes.first() {
            // A failure's text fits, and the parent is woken by this process's end.
            let _ = mailbox.post_reply(FIRST_REQUEST, &reply, &[], text.as_bytes(), &[]);
        }
        status::MACHINE
    }
}

/// The whole life of a sub-worker; its exit status comes back.
pub(super) fn serve_sub<K: Kernels + ?Sized>(inherited: Inherited<'_>, kernels: &K) -> i32 {
    serve(inherited, inherited.settle().and_then(|()| Leaf::sub()), kernels)
}

/// The whole life of a chip; its exit status comes back.
pub(super) fn serve_chip<K: Kernels + ?Sized>(
    inherited: Inherited<'_>,
    device_id: i32,
    kind: &DeviceKind,
    kernels: &K,
) -> i32 {
    if let Err(error) = inherited.settle() {
        return serve(inherited, Err(error), kernels);
    }
    let device = kind.open(device_id, kernels);
    let leaf = match &device {
        Ok(device) => Chip::new(&**device, device_id).map(Leaf::Chip),
        Err(error) => Ok(Leaf::Missing(Failure::new(error.code(), None, error))),
    };
    serve(inherited, leaf, kernels)
}

fn serve<K: Kernels + ?Sized>(inherited: Inherited<'_>, leaf: Result<Leaf<'_>, OsError>, kernels: &K) -> i32 {
    match leaf.and_then(|leaf| Server::start(inherited, leaf, kernels)) {
        // Nobody is left to tell but who looks at the exit status.
        Ok(server) => server.run().unwrap_or(status::MACHINE),
        Err(error) => inherited.give_up(&Failure::new(error.code(), None, &error)),
    }
}

struct Server<'a, K: ?Sized> {
    inherited: Inherited<'a>,
    leaf: Leaf<'a>,
    /// The one lane.
    mailbox: &'a Mailbox,
    kernels: &'a K,
    watch: Watch,
    spin: Spin,
    /// The number of the last request that was answered.
    answered: u32,
    scratch: Box<[u8]>,
    /// What this process had copied when it saw the request.
    copied_before: u64,
}

/// The parent's end, among what the watch tells; the other token is the doorbell.
const PARENT_ENDED: u64 = 1;

impl<'a, K: Kernels + ?Sized> Server<'a, K> {
    fn start(inherited: Inherited<'a>, leaf: Leaf<'a>, kernels: &'a K) -> Result<Self, OsError> {
        fault::survive_shrinking_objects()?;
        let none = OsError { call: "mmap", errno: libc::EINVAL };
        let mailbox = inherited.lanes.first().ok_or(none)?;
        let watch = Watch::new()?;
        watch.add_doorbell(inherited.doorbell, 0)?;
        watch.add_process(inherited.parent.as_fd(), PARENT_ENDED)?;
        Ok(Self {
            leaf,
            mailbox,
            kernels,
            watch,
            spin: Spin::new(inherited.policy.spin),
            answered: 0,
            scratch: vec![0; MAX_BLOB].into_boxed_slice(),
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
                Some(RequestKind::Run) => self.run_task(&request).map(|()| Good::Nothing),
                Some(RequestKind::Release) => self.release(&request).map(|()| Good::Nothing),
                Some(RequestKind::Hello) => self.leaf.hello().map(Good::Hello),
                Some(RequestKind::Memory(call)) => self.call(call, &request).map(Good::Answer),
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
        let source = self.mailbox.blob(request);
        let blob = Blob::copy_from(&source, &mut self.scratch)
            .map_err(|error| Failure::new(error.code(), None, &error))?;
        let kernel = request.kernel;
        let replaced = fault::replaced_pages();
        let result = match &mut self.leaf {
            Leaf::Chip(chip) => chip::run(chip, kernel, &blob),
            Leaf::Sub { consumer, imports, .. } => sub::run(self.kernels, kernel, consumer, &blob, imports),
            Leaf::Missing(failure) => Err(failure.clone()),
        };
        if fault::replaced_pages() == replaced {
            return result;
        }
        let text = "the object shrank under the task, which read zeros in its place";
        Err(Failure::new(Code::BackingShrank, self.leaf.damaged_argument(), &text))
    }

    fn release(&mut self, request: &Request) -> Result<(), Failure> {
        let mut identity = RawIdentity::new_zeroed();
        let source = self.mailbox.blob(request);
        source.copy_out(0, identity.as_mut_bytes());
        let Some(identity) = identity.decode() else {
            return Err(Failure::new(Code::Generation, None, &"no identity has generation 0"));
        };
        match &mut self.leaf {
            Leaf::Chip(chip) => {
                chip.release(identity).map_err(|error| Failure::new(error.code(), None, &error))
            }
            Leaf::Sub { consumer, .. } => {
                consumer.release(identity).map_err(|error| Failure::new(error.code(), None, &error))
            }
            Leaf::Missing(_) => Ok(()),
        }
    }

    /// Does what is asked about the memory of a chip, which a sub-worker has none of.
    fn call(&mut self, call: MemoryCall, request: &Request) -> Result<Vec<u8>, Failure> {
        let Leaf::Chip(chip) = &mut self.leaf else {
            return Err(Failure::new(Code::WorkerNotAChip, None, &"a sub-worker owns no device memory"));
        };
        let source = self.mailbox.blob(request);
        let asked = self.scratch.get_mut(..source.len()).unwrap_or_default();
        source.copy_out(0, asked);
        chip::call(chip, call, asked)
    }

    fn answer(
        &mut self,
        sequence: u32,
        request: &Request,
        start: Instant,
        result: Result<Good, Failure>,
    ) -> Result<(), OsError> {
        let resolutions = self.leaf.take_resolutions();
        let (code, argument, said, answer) = match &result {
            Ok(Good::Nothing) => (Code::Ok, None, &[][..], &[][..]),
            Ok(Good::Hello(hello)) => (Code::Ok, None, hello.as_bytes(), &[][..]),
            Ok(Good::Answer(answer)) => (Code::Ok, None, &[][..], answer.as_slice()),
            Err(Failure { code, argument, text }) => (*code, *argument, text.as_bytes(), &[][..]),
        };
        let reply = RawReply {
            bytes_copied: bytes_copied().wrapping_sub(self.copied_before),
            nanoseconds: u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
            resolution_count: u32::try_from(resolutions.len()).unwrap_or(0),
            said_bytes: u32::try_from(said.len()).unwrap_or(0),
            answer_bytes: u32::try_from(answer.len()).unwrap_or(0),
            ..RawReply::of_code(request.task, code, argument)
        };
        self.answered = sequence;
        let posted = self.mailbox.post_reply(sequence, &reply, &resolutions, said, answer);
        // All fit: no request can ask for a longer answer.
        if posted.unwrap_or(true) { self.inherited.parent_doorbell.ring() } else { Ok(()) }
    }
}

/// What a good answer says.
enum Good {
    Nothing,
    Hello(Hello),
    Answer(Vec<u8>),
}
