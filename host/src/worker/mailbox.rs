//! The memory between a parent and one lane to a worker: one request and one reply, each in cache lines that only one side writes.
//!
//! What costs time between two processors is each line that goes from one to the other. So what a message carries follows its fields
//! at once: a request of scalars alone, and the reply to one with up to eight tensors, is one line. That line is written last, since
//! the other side looks at it all the time, and would take it away before all of it is there.
//!
//! A leaf has one lane. A worker that has workers of its own has one for each leaf below it, so that tasks for all of them are
//! under way at once; all lanes to one worker share the doorbell in each direction.
//!
//! Either side spins for a while before it sleeps, and says so by a flag, so that the other one makes no system call while it
//! spins. No message is slept through:
//!
//! - who posts stores the message, then its number (release), then passes a SeqCst fence, then looks at the other's flag, and
//!   rings if it is set;
//! - who waits sets the flag, then passes a SeqCst fence, then looks at the number (acquire), and sleeps only if it is the old one.
//!
//! Of two SeqCst fences one comes first. If the poster's does, whoever waits sees the number behind its own fence and does not
//! sleep. If the waiter's does, the poster sees the flag and rings, and a doorbell that was rung before anybody sleeps on it
//! wakes the next one who does. A flag that is seen too long costs one ring.
//!
//! Either side copies out what the other one wrote, once, checks the copy, and uses the copy.

use core::mem::offset_of;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};

use bufabi_core::wire::blob::{ByteSource, RawBlobHeader};
use bufabi_core::wire::chip_args::{MAX_SCALARS, MAX_TENSORS};
use bufabi_core::{Code, RawTensor};

use super::call::MAX_PIECE;
use crate::memory::Mapping;
use crate::memory::mapping::OutOfRange;
use crate::sys::OsError;

/// Bytes of the largest blob: 256 tensors and 128 scalars.
pub(super) const MAX_BLOB: usize = RawBlobHeader::SIZE
    .saturating_add(RawTensor::SIZE.saturating_mul(MAX_TENSORS))
    .saturating_add(size_of::<u64>().saturating_mul(MAX_SCALARS));

/// Bytes of what a reply says: why a task failed, or who a leaf is.
pub(super) const MAX_SAID: usize = 256;

/// Bytes of an answer about a chip's memory: what one copy carries.
pub(super) const MAX_ANSWER: usize = MAX_PIECE;

/// The number of a lane's first request: who the leaf is.
pub(super) const FIRST_REQUEST: u32 = 1;

/// What the parent writes.
#[repr(C, align(128))]
struct RequestLines {
    sequence: AtomicU32,
    /// The parent sleeps, or is about to.
    is_parent_asleep: AtomicU32,
    kind: AtomicU32,
    kernel: AtomicU32,
    task: AtomicU64,
    member: AtomicU32,
    blob_bytes: AtomicU32,
    /// The worker shall end. It is told so on the first of its lanes, whether or not that has a request.
    is_told_to_end: AtomicU32,
    _padding: u32,
    blob: [AtomicU64; MAX_BLOB / 8],
}

/// What the worker writes.
#[repr(C, align(128))]
struct ReplyLines {
    sequence: AtomicU32,
    /// The worker sleeps, or is about to.
    is_worker_asleep: AtomicU32,
    code: AtomicI32,
    argument: AtomicU32,
    task: AtomicU64,
    bytes_copied: AtomicU64,
    nanoseconds: AtomicU64,
    resolution_count: AtomicU32,
    said_bytes: AtomicU32,
    hops: AtomicU32,
    answer_bytes: AtomicU32,
    resolutions: [AtomicU64; MAX_TENSORS / 8],
    said: [AtomicU64; MAX_SAID / 8],
    answer: [AtomicU64; MAX_ANSWER / 8],
}

/// The whole memory. All zero bits are an idle mailbox.
#[repr(C)]
struct Shared {
    request: RequestLines,
    reply: ReplyLines,
}

/// Bytes that go from one processor to another at once.
const LINE: usize = 64;

/// Where a request's blob starts, and the reply's resolutions.
const BLOB: usize = offset_of!(Shared, request.blob);
const RESOLUTIONS: usize = offset_of!(Shared, reply.resolutions);

/// Bytes of either that lie in the line of the fields before them.
const BLOB_IN_LINE: usize = LINE.saturating_sub(BLOB % LINE);
const RESOLUTIONS_IN_LINE: usize = LINE.saturating_sub(RESOLUTIONS % LINE);
const _: () = {
    assert!(BLOB < LINE && BLOB_IN_LINE >= RawBlobHeader::SIZE);
    assert!(RESOLUTIONS.saturating_sub(offset_of!(Shared, reply)) < LINE && RESOLUTIONS_IN_LINE >= 8);
};

/// A request's fields, as they were copied out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// See [`RequestKind`].
    pub(super) kind: u32,
    /// Which kernel.
    pub(super) kernel: u32,
    /// The submitter's number for the task.
    pub(super) task: u64,
    /// Which member of its group, from 0.
    pub(super) member: u32,
    /// Bytes of the blob.
    pub(super) blob_bytes: u32,
}

/// What a parent asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// Run a task.
    Run,
    /// Drop what was imported under the identity that the blob holds.
    Release,
    /// Say who you are: a [`Hello`](super::hello::Hello).
    Hello,
    /// Do something with the memory that you own: the blob says what.
    Memory(MemoryCall),
}

/// What a parent asks about the memory that a chip owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryCall {
    /// Allocate: a [`Wanted`](super::call::Wanted). The answer is a descriptor.
    Malloc,
    /// As that, exported by handle.
    CreateShareable,
    /// A window: one for each buffer. The answer is as many descriptors.
    CreateWindow,
    /// Free what the identity names.
    Free,
    /// Free the window to which the identity belongs.
    FreeWindow,
    /// A [`Piece`](super::call::Piece), and its bytes.
    CopyTo,
    /// As that, of what nobody has named yet.
    Fill,
    /// A [`Piece`](super::call::Piece). The answer is its bytes.
    CopyFrom,
    /// An identity, and the numbers of processes that may import it.
    Permit,
}

impl MemoryCall {
    const fn to_wire(self) -> u32 {
        match self {
            Self::Malloc => 16,
            Self::CreateShareable => 17,
            Self::CreateWindow => 18,
            Self::Free => 19,
            Self::FreeWindow => 20,
            Self::CopyTo => 21,
            Self::CopyFrom => 22,
            Self::Permit => 23,
            Self::Fill => 24,
        }
    }

    const fn from_wire(number: u32) -> Option<Self> {
        Some(match number {
            16 => Self::Malloc,
            17 => Self::CreateShareable,
            18 => Self::CreateWindow,
            19 => Self::Free,
            20 => Self::FreeWindow,
            21 => Self::CopyTo,
            22 => Self::CopyFrom,
            23 => Self::Permit,
            24 => Self::Fill,
            _ => return None,
        })
    }
}

impl RequestKind {
    pub(super) const fn to_wire(self) -> u32 {
        match self {
            Self::Run => 1,
            Self::Release => 2,
            Self::Hello => 3,
            Self::Memory(call) => call.to_wire(),
        }
    }

    pub(super) const fn from_wire(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Run),
            2 => Some(Self::Release),
            3 => Some(Self::Hello),
            _ => match MemoryCall::from_wire(number) {
                Some(call) => Some(Self::Memory(call)),
                None => None,
            },
        }
    }
}

/// A reply's fields, as they were copied out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawReply {
    /// The number of an error, or 0.
    pub(super) code: i32,
    /// The argument that it is about; `u32::MAX` is none.
    pub(super) argument: u32,
    /// The task that it answers.
    pub(super) task: u64,
    /// Bytes that the worker copied to get at its arguments.
    pub(super) bytes_copied: u64,
    /// From seeing the request to replying.
    pub(super) nanoseconds: u64,
    /// Arguments whose resolution is told.
    pub(super) resolution_count: u32,
    /// Bytes of what it says.
    pub(super) said_bytes: u32,
    /// Workers that handed the request on, and the reply back.
    pub(super) hops: u32,
    /// Bytes of its answer about a chip's memory.
    pub(super) answer_bytes: u32,
}

impl RawReply {
    /// A code alone, and the argument that it is about, in answer to that task.
    pub(super) fn of_code(task: u64, code: Code, argument: Option<usize>) -> Self {
        Self {
            code: code.number(),
            argument: argument.and_then(|index| u32::try_from(index).ok()).unwrap_or(u32::MAX),
            task,
            bytes_copied: 0,
            nanoseconds: 0,
            resolution_count: 0,
            said_bytes: 0,
            hops: 0,
            answer_bytes: 0,
        }
    }

    /// What it says, copied out of the mailbox; `None` when it claims more bytes than there can be.
    #[inline]
    pub(super) fn said(&self, mailbox: &Mailbox) -> Option<heapless::Vec<u8, MAX_SAID>> {
        let mut out = heapless::Vec::new();
        out.resize(usize::try_from(self.said_bytes).ok()?, 0).ok()?;
        mailbox.read_said(&mut out).ok()?;
        Some(out)
    }

    /// Its answer about a chip's memory, copied out of the mailbox; `None` when it claims more bytes than there can be.
    pub(super) fn answer(&self, mailbox: &Mailbox) -> Option<Vec<u8>> {
        let length = usize::try_from(self.answer_bytes).ok().filter(|&length| length <= MAX_ANSWER)?;
        let mut out = vec![0; length];
        mailbox.read_answer(&mut out).ok()?;
        Some(out)
    }

    /// How each argument was resolved, as numbers, copied out of the mailbox; `None` when it claims more than there can be.
    #[inline]
    pub(super) fn resolutions(&self, mailbox: &Mailbox) -> Option<heapless::Vec<u8, MAX_TENSORS>> {
        let mut out = heapless::Vec::new();
        out.resize(usize::try_from(self.resolution_count).ok()?, 0).ok()?;
        mailbox.read_resolutions(&mut out).ok()?;
        Some(out)
    }
}

/// One lane's mailbox: made before its fork, and at the same address in both processes.
#[derive(Debug)]
pub(super) struct Mailbox(Mapping);

impl Mailbox {
    pub(super) fn new() -> Result<Self, OsError> {
        Mapping::inherited(size_of::<Shared>()).map(Self)
    }

    /// Once the worker is forked, the mailbox is nobody else's business.
    pub(super) fn leave_out_of_forks(&self) -> Result<(), OsError> {
        self.0.leave_out_of_forks()
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the mapping is that large, starts at a page, lives as long as it is borrowed, and can be written; every
        // field is atomic, for which any bytes are a value and any other writer is allowed.
        unsafe { self.0.base().cast().as_ref() }
    }

    // The parent's side.

    /// Posts the request that follows number `last`, its blob before it. Says whether the worker must be rung.
    pub(super) fn post_request(&self, last: u32, request: &Request, blob: &[u8]) -> Result<bool, OutOfRange> {
        let limit = OutOfRange { offset: 0, length: blob.len(), nbytes: MAX_BLOB };
        if blob.len() > MAX_BLOB {
            return Err(limit);
        }
        let (in_line, behind) = blob.split_at_checked(BLOB_IN_LINE).unwrap_or((blob, &[]));
        self.0.write(BLOB.saturating_add(BLOB_IN_LINE), behind)?;
        self.0.write(BLOB, in_line)?;
        let Shared { request: line, reply, .. } = self.shared();
        line.kind.store(request.kind, Ordering::Relaxed);
        line.kernel.store(request.kernel, Ordering::Relaxed);
        line.task.store(request.task, Ordering::Relaxed);
        line.member.store(request.member, Ordering::Relaxed);
        line.blob_bytes.store(request.blob_bytes, Ordering::Relaxed);
        line.sequence.store(last.wrapping_add(1), Ordering::Release);
        fence(Ordering::SeqCst);
        Ok(reply.is_worker_asleep.load(Ordering::Relaxed) != 0)
    }

    /// The reply to request number `sequence`, if it is there.
    #[inline]
    pub(super) fn reply(&self, sequence: u32) -> Option<RawReply> {
        let line = &self.shared().reply;
        if line.sequence.load(Ordering::Acquire) != sequence {
            return None;
        }
        Some(RawReply {
            code: line.code.load(Ordering::Relaxed),
            argument: line.argument.load(Ordering::Relaxed),
            task: line.task.load(Ordering::Relaxed),
            bytes_copied: line.bytes_copied.load(Ordering::Relaxed),
            nanoseconds: line.nanoseconds.load(Ordering::Relaxed),
            resolution_count: line.resolution_count.load(Ordering::Relaxed),
            said_bytes: line.said_bytes.load(Ordering::Relaxed),
            hops: line.hops.load(Ordering::Relaxed),
            answer_bytes: line.answer_bytes.load(Ordering::Relaxed),
        })
    }

    /// How each argument was resolved, for the first `out.len()` of them, at most 256.
    fn read_resolutions(&self, out: &mut [u8]) -> Result<(), OutOfRange> {
        self.0.read(RESOLUTIONS, out)
    }

    /// The first `out.len()` bytes, at most 256, of what the reply says.
    fn read_said(&self, out: &mut [u8]) -> Result<(), OutOfRange> {
        self.0.read(offset_of!(Shared, reply.said), out)
    }

    /// The first `out.len()` bytes, at most [`MAX_ANSWER`], of the answer.
    fn read_answer(&self, out: &mut [u8]) -> Result<(), OutOfRange> {
        self.0.read(offset_of!(Shared, reply.answer), out)
    }

    /// Tells the worker to end. It must be rung, whether it says that it sleeps or not.
    pub(super) fn tell_to_end(&self) {
        self.shared().request.is_told_to_end.store(1, Ordering::Release);
    }

    /// Says that the parent is about to sleep, or no longer does. Behind it comes a fence, and then a look at the reply.
    pub(super) fn set_parent_asleep(&self, is_asleep: bool) {
        self.shared().request.is_parent_asleep.store(u32::from(is_asleep), Ordering::Relaxed);
    }

    // The worker's side.

    /// The number of the last request.
    #[inline]
    pub(super) fn request_sequence(&self) -> u32 {
        self.shared().request.sequence.load(Ordering::Acquire)
    }

    /// The parent wants the worker to end.
    #[inline]
    pub(super) fn is_told_to_end(&self) -> bool {
        self.shared().request.is_told_to_end.load(Ordering::Acquire) != 0
    }

    /// The request whose number was seen.
    pub(super) fn request(&self) -> Request {
        let line = &self.shared().request;
        Request {
            kind: line.kind.load(Ordering::Relaxed),
            kernel: line.kernel.load(Ordering::Relaxed),
            task: line.task.load(Ordering::Relaxed),
            member: line.member.load(Ordering::Relaxed),
            blob_bytes: line.blob_bytes.load(Ordering::Relaxed),
        }
    }

    /// The request's blob, to be copied out.
    pub(super) fn blob(&self, request: &Request) -> BlobSource<'_> {
        let nbytes = usize::try_from(request.blob_bytes).unwrap_or(usize::MAX).min(MAX_BLOB);
        BlobSource { mailbox: self, nbytes }
    }

    /// Posts the reply to request number `sequence`. Says whether the parent must be rung.
    pub(super) fn post_reply(
        &self,
        sequence: u32,
        reply: &RawReply,
        resolutions: &[u8],
        said: &[u8],
        answer: &[u8],
    ) -> Result<bool, OutOfRange> {
        self.0.write(offset_of!(Shared, reply.said), said)?;
        self.0.write(offset_of!(Shared, reply.answer), answer)?;
        let (in_line, behind) =
            resolutions.split_at_checked(RESOLUTIONS_IN_LINE).unwrap_or((resolutions, &[]));
        self.0.write(RESOLUTIONS.saturating_add(RESOLUTIONS_IN_LINE), behind)?;
        self.0.write(RESOLUTIONS, in_line)?;
        let Shared { request, reply: line, .. } = self.shared();
        line.code.store(reply.code, Ordering::Relaxed);
        line.argument.store(reply.argument, Ordering::Relaxed);
        line.task.store(reply.task, Ordering::Relaxed);
        line.bytes_copied.store(reply.bytes_copied, Ordering::Relaxed);
        line.nanoseconds.store(reply.nanoseconds, Ordering::Relaxed);
        line.resolution_count.store(reply.resolution_count, Ordering::Relaxed);
        line.said_bytes.store(reply.said_bytes, Ordering::Relaxed);
        line.hops.store(reply.hops, Ordering::Relaxed);
        line.answer_bytes.store(reply.answer_bytes, Ordering::Relaxed);
        line.sequence.store(sequence, Ordering::Release);
        fence(Ordering::SeqCst);
        Ok(request.is_parent_asleep.load(Ordering::Relaxed) != 0)
    }

    /// Says that the worker is about to sleep, or no longer does. Behind it comes a fence, and then a look at the number.
    pub(super) fn set_worker_asleep(&self, is_asleep: bool) {
        self.shared().reply.is_worker_asleep.store(u32::from(is_asleep), Ordering::Relaxed);
    }
}

/// The blob in a lane's mailbox, which the parent may write at any moment.
pub(super) struct BlobSource<'a> {
    mailbox: &'a Mailbox,
    nbytes: usize,
}

impl ByteSource for BlobSource<'_> {
    fn len(&self) -> usize {
        self.nbytes
    }

    fn copy_out(&self, offset: usize, out: &mut [u8]) {
        let start = BLOB.saturating_add(offset);
        // The trait lets bytes of a range that is not there stay as they are.
        let _ = self.mailbox.0.read(start, out);
    }
}
