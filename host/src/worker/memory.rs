//! The parent's side of device memory: each call goes to the chip that owns it, and what comes of it is recorded here.

use std::time::{Duration, Instant};

use bufabi_core::wire::backend::BackendKind;
use bufabi_core::{Access, DType, Descriptor, Identity, Tensor, View, ViewError};
use zerocopy::IntoBytes;

use super::call::{MAX_PIECE, Piece, Wanted, permission, read_descriptors};
use super::error::{SubmitError, WaitError};
use super::mailbox::{MAX_BLOB, MemoryCall, RequestKind};
use super::memory_error::MemoryError;
use super::records::{Record, TaskHolds};
use super::reply::{KeptImport, TaskFailure, WorkerId};
use super::workers::{Late, Workers};
use crate::vmm::Admission;

/// How long what was made may take to be undone, when the time for making it is over.
pub(super) const UNDO_LIMIT: Duration = Duration::from_secs(1);
const _: () = assert!(MAX_PIECE.saturating_add(size_of::<Piece>()) <= MAX_BLOB);

/// Memory of a chip. It is freed by its owner's chip alone, when that is asked to; dropping this does nothing.
#[derive(Clone, Copy, Debug)]
pub struct DeviceBuffer {
    worker: WorkerId,
    descriptor: Descriptor,
}

impl DeviceBuffer {
    /// Memory that somebody says is that chip's. It is a claim, which the chip judges.
    #[must_use]
    pub const fn new(worker: WorkerId, descriptor: Descriptor) -> Self {
        Self { worker, descriptor }
    }

    /// The chip.
    #[must_use]
    pub const fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Its name.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.descriptor.identity()
    }

    /// Its size, bytes.
    #[must_use]
    pub fn nbytes(&self) -> u64 {
        self.descriptor.nbytes()
    }

    /// What names it on the wire.
    #[must_use]
    pub const fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// A view of it, as a task argument.
    ///
    /// # Errors
    /// [`ViewError`]: the first broken rule.
    pub fn tensor(&self, view: &View) -> Result<Tensor, ViewError> {
        Tensor::new(&self.descriptor, view)
    }

    /// A dense row-major view of it from `byte_offset` on, as a task argument.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn row_major(&self, byte_offset: u64, dtype: DType, shapes: &[u32]) -> Result<Tensor, ViewError> {
        self.tensor(&View::row_major(byte_offset, dtype, shapes, self.nbytes())?)
    }
}

impl Workers {
    /// Allocates `nbytes` bytes on a chip, which grant `access`: DEVICE_MALLOC. Their content is whatever lies there.
    ///
    /// # Errors
    /// [`MemoryError`]; nothing is left behind then.
    pub fn malloc(
        &mut self,
        chip: WorkerId,
        nbytes: u64,
        access: Access,
        until: Instant,
    ) -> Result<DeviceBuffer, MemoryError> {
        let wanted = Wanted::new(nbytes, access, Admission::Listed);
        self.allocate(chip, MemoryCall::Malloc, wanted, until)
    }

    /// Allocates what a dense tensor takes on a chip, to be read and written there.
    ///
    /// # Errors
    /// As [`malloc`](Self::malloc), and [`MemoryError::View`].
    pub fn alloc_child(
        &mut self,
        chip: WorkerId,
        shape: &[u32],
        dtype: DType,
        until: Instant,
    ) -> Result<DeviceBuffer, MemoryError> {
        let view = View::row_major(0, dtype, shape, u64::MAX).map_err(MemoryError::View)?;
        self.malloc(chip, view.extent(), Access::ReadWrite, until)
    }

    /// Allocates `nbytes` bytes that a chip owns, zero, which grant `access` to every process that imports them by handle:
    /// VMM_SHAREABLE.
    ///
    /// # Errors
    /// [`MemoryError`]; nothing is left behind then.
    pub fn create_shareable(
        &mut self,
        chip: WorkerId,
        nbytes: u64,
        access: Access,
        admission: Admission,
        until: Instant,
    ) -> Result<DeviceBuffer, MemoryError> {
        let wanted = Wanted::new(nbytes, access, admission);
        self.allocate(chip, MemoryCall::CreateShareable, wanted, until)
    }

    /// Lets leaves import what a chip exports by handle.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub fn permit(
        &mut self,
        buffer: &DeviceBuffer,
        leaves: &[WorkerId],
        until: Instant,
    ) -> Result<(), MemoryError> {
        let peers = leaves.iter().map(|&worker| {
            let hello = self.links.hello(worker.0);
            hello.map(|hello| hello.peer.get()).ok_or(MemoryError::WorkerUnknown { worker })
        });
        let asked = permission(buffer.identity(), &peers.collect::<Result<Vec<_>, _>>()?);
        self.call(buffer.worker, MemoryCall::Permit, &asked, until).map(drop)
    }

    /// Frees memory of a chip by its name: refused while a task that is not over names it, and then nothing has changed. From then on
    /// nobody can name it, and the chip is told to take it back. Leaves that had imported it are told to drop it, and those that could
    /// not are named.
    ///
    /// # Errors
    /// [`MemoryError`]. The chip says whether it was freed already, is another owner's, or never existed.
    pub fn free(
        &mut self,
        chip: WorkerId,
        identity: Identity,
        until: Instant,
    ) -> Result<Vec<KeptImport>, MemoryError> {
        let record = self.records.get(identity).filter(|record| record.worker == chip);
        if let Some(record) = record {
            if record.is_in_domain {
                return Err(MemoryError::InDomain { identity });
            }
            self.revoke(&[identity])?;
        }
        let freed = self.call(chip, MemoryCall::Free, identity.encode().as_bytes(), until);
        if let Err(MemoryError::TimedOut { worker }) = freed {
            self.late.push(Late { worker, call: MemoryCall::Free, identity });
        }
        freed?;
        match record.map(|record| record.descriptor.backend_kind()) {
            Some(BackendKind::VmmShareable) => {
                self.release_imports(identity, until).map_err(MemoryError::Wait)
            }
            Some(_) | None => Ok(Vec::new()),
        }
    }

    /// Writes first content of memory of a chip, from `offset` on, whatever its owner grants to others: that is part of its creation,
    /// and over when a task has named it, when leaves may import it, or when it was copied from.
    ///
    /// # Errors
    /// [`MemoryError`]: the chip refuses before the first byte what has been named or does not lie in the one allocation; when the chip
    /// or the time ended, some bytes may have been written.
    pub fn fill(
        &mut self,
        chip: WorkerId,
        identity: Identity,
        offset: u64,
        bytes: &[u8],
        until: Instant,
    ) -> Result<(), MemoryError> {
        self.check_copy(chip, identity, offset, bytes.len(), None)?;
        self.write(chip, MemoryCall::Fill, identity, offset, bytes, until)
    }

    /// Copies bytes into memory of a chip, from `offset` on, behind everything that the chip was asked for before.
    ///
    /// # Errors
    /// [`MemoryError`]: the chip refuses before the first byte what its owner does not grant or what does not lie in the one
    /// allocation; when the chip or the time ended, some bytes may have been copied.
    pub fn copy_to(
        &mut self,
        chip: WorkerId,
        identity: Identity,
        offset: u64,
        bytes: &[u8],
        until: Instant,
    ) -> Result<(), MemoryError> {
        self.check_copy(chip, identity, offset, bytes.len(), Some(Access::Write))?;
        self.write(chip, MemoryCall::CopyTo, identity, offset, bytes, until)
    }

    fn write(
        &mut self,
        chip: WorkerId,
        call: MemoryCall,
        identity: Identity,
        offset: u64,
        bytes: &[u8],
        until: Instant,
    ) -> Result<(), MemoryError> {
        let mut asked = Vec::with_capacity(bytes.len().min(MAX_PIECE).saturating_add(size_of::<Piece>()));
        let mut at = offset;
        // Of nothing there is one piece too: the chip says whether the buffer is there.
        let nothing = bytes.is_empty().then_some(bytes);
        for piece in bytes.chunks(MAX_PIECE).chain(nothing) {
            let nbytes = u64::try_from(piece.len()).unwrap_or(u64::MAX);
            asked.clear();
            asked.extend_from_slice(Piece::new(identity, at, nbytes).as_bytes());
            asked.extend_from_slice(piece);
            self.call(chip, call, &asked, until)?;
            at = at.saturating_add(nbytes);
        }
        Ok(())
    }

    /// Copies bytes out of memory of a chip, from `offset` on, behind everything that the chip was asked for before.
    ///
    /// # Errors
    /// As [`copy_to`](Self::copy_to).
    pub fn copy_from(
        &mut self,
        chip: WorkerId,
        identity: Identity,
        offset: u64,
        out: &mut [u8],
        until: Instant,
    ) -> Result<(), MemoryError> {
        self.check_copy(chip, identity, offset, out.len(), Some(Access::Read))?;
        let mut at = offset;
        let nothing = out.is_empty().then_some(<&mut [u8]>::default());
        for piece in out.chunks_mut(MAX_PIECE).chain(nothing) {
            let nbytes = u64::try_from(piece.len()).unwrap_or(u64::MAX);
            let asked = Piece::new(identity, at, nbytes);
            let answer = self.call(chip, MemoryCall::CopyFrom, asked.as_bytes(), until)?;
            if answer.len() != piece.len() {
                return Err(MemoryError::Failed(TaskFailure::MessageBroken));
            }
            piece.copy_from_slice(&answer);
            at = at.saturating_add(nbytes);
        }
        Ok(())
    }

    /// A copy of several pieces is refused before its first one. What is not recorded here, the chip tells apart.
    fn check_copy(
        &self,
        chip: WorkerId,
        identity: Identity,
        offset: u64,
        length: usize,
        needed: Option<Access>,
    ) -> Result<(), MemoryError> {
        let Some(record) = self.records.get(identity).filter(|record| record.worker == chip) else {
            return Ok(());
        };
        let (granted, nbytes) = (record.descriptor.access(), record.descriptor.nbytes());
        if let Some(needed) = needed.filter(|&needed| !granted.grants(needed)) {
            return Err(MemoryError::Denied { granted, needed });
        }
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        if nbytes.checked_sub(offset).is_none_or(|room| length > room) {
            return Err(MemoryError::OutOfRange { offset, length, nbytes });
        }
        Ok(())
    }

    /// Pieces of device memory that are live, on all chips.
    #[must_use]
    pub fn device_buffers(&self) -> usize {
        self.records.len()
    }

    fn allocate(
        &mut self,
        worker: WorkerId,
        call: MemoryCall,
        wanted: Wanted,
        until: Instant,
    ) -> Result<DeviceBuffer, MemoryError> {
        let answer = self.call(worker, call, wanted.as_bytes(), until)?;
        let broken = MemoryError::Failed(TaskFailure::MessageBroken);
        let descriptor = self.descriptors(worker, &answer, 1)?.pop().ok_or(broken)?;
        let buffer = DeviceBuffer { worker, descriptor };
        self.record(&buffer, false);
        Ok(buffer)
    }

    pub(super) fn record(&self, buffer: &DeviceBuffer, is_in_domain: bool) {
        let DeviceBuffer { worker, descriptor } = *buffer;
        self.records.insert(Record { worker, descriptor, holds: 0, is_in_domain });
    }

    /// What a chip says that it made: its own, and as much as was asked for.
    pub(super) fn descriptors(
        &self,
        worker: WorkerId,
        answer: &[u8],
        count: usize,
    ) -> Result<Vec<Descriptor>, MemoryError> {
        let owner = self.links.hello(worker.0).and_then(super::hello::Hello::chip);
        let is_own = |descriptor: &Descriptor| Some(descriptor.identity().owner_instance_id()) == owner;
        read_descriptors(answer)
            .filter(|descriptors| descriptors.len() == count && descriptors.iter().all(is_own))
            .ok_or(MemoryError::Failed(TaskFailure::MessageBroken))
    }

    /// A task for `worker` names these tensors: what they name of this process's endpoint and of the chips below cannot be let go of
    /// until the answer is dropped, and is there for the task.
    pub(super) fn hold(&self, worker: WorkerId, tensors: &[Tensor]) -> Result<TaskHolds, SubmitError> {
        let own = self.endpoint.hold(tensors);
        let own = own.map_err(|(argument, error)| SubmitError::Own { argument, error })?;
        let device = self.records.hold(tensors, worker, self.endpoint.owner_instance_id(), |owner| {
            self.links.chip(owner).map(WorkerId)
        });
        let device = device.map_err(|(argument, error)| SubmitError::Device { argument, error })?;
        Ok(TaskHolds { _own: own, _device: device })
    }

    pub(super) fn revoke(&self, identities: &[Identity]) -> Result<(), MemoryError> {
        self.records.revoke(identities).map_err(|(identity, holds)| MemoryError::Busy { identity, holds })
    }

    /// Asks a chip, when it has done what it was asked before, and waits for its answer.
    pub(super) fn call(
        &mut self,
        worker: WorkerId,
        call: MemoryCall,
        asked: &[u8],
        until: Instant,
    ) -> Result<Vec<u8>, MemoryError> {
        let hello = self.links.hello(worker.0).ok_or(MemoryError::WorkerUnknown { worker })?;
        if hello.chip().is_none() {
            return Err(MemoryError::NotAChip { worker });
        }
        self.settle(worker, until)?;
        self.undo_late(worker);
        let answers = self.ask(&[worker], RequestKind::Memory(call), asked, until);
        match answers.map_err(MemoryError::Wait)?.pop() {
            Some((_, Some(answer))) => answer.map_err(MemoryError::Failed),
            Some((_, None)) | None => Err(MemoryError::TimedOut { worker }),
        }
    }

    /// Waits until a chip has answered what somebody gave up waiting for: what it made may be in the way of what is asked now.
    fn settle(&mut self, worker: WorkerId, until: Instant) -> Result<(), MemoryError> {
        while self.has_question(worker) {
            match self.next_answer(until) {
                Ok(()) => {}
                Err(WaitError::TimedOut { .. } | WaitError::Interrupted) => {
                    return Err(MemoryError::TimedOut { worker });
                }
                Err(error) => return Err(MemoryError::Wait(error)),
            }
        }
        Ok(())
    }

    /// A chip made something, but whoever asked for it had given up waiting: nobody will ever name it.
    pub(super) fn note_late(
        &mut self,
        worker: WorkerId,
        kind: RequestKind,
        answer: Result<Vec<u8>, TaskFailure>,
    ) {
        let call = match kind {
            RequestKind::Memory(MemoryCall::Malloc | MemoryCall::CreateShareable) => MemoryCall::Free,
            RequestKind::Memory(MemoryCall::CreateWindow) => MemoryCall::FreeWindow,
            RequestKind::Memory(
                MemoryCall::Free
                | MemoryCall::FreeWindow
                | MemoryCall::CopyTo
                | MemoryCall::Fill
                | MemoryCall::CopyFrom
                | MemoryCall::Permit,
            )
            | RequestKind::Run
            | RequestKind::Release
            | RequestKind::Hello => return,
        };
        let Ok(answer) = answer else { return };
        if let Some(first) = read_descriptors(&answer).as_deref().and_then(<[_]>::first) {
            self.late.push(Late { worker, call, identity: first.identity() });
        }
    }

    /// Tells chips to take back what nobody waited for: the one that is asked something now, and those that have nothing to do.
    fn undo_late(&mut self, asked_now: WorkerId) {
        let now = Instant::now();
        let until = now.checked_add(UNDO_LIMIT).unwrap_or(now);
        for late in core::mem::take(&mut self.late) {
            let Late { worker, call, identity } = late;
            if worker == asked_now || !self.is_busy(worker) {
                let identity = identity.encode();
                let asked = self.ask(&[worker], RequestKind::Memory(call), identity.as_bytes(), until);
                let is_answered = asked.is_ok_and(|asked| asked.iter().all(|(_, answer)| answer.is_some()));
                // What it was told it does, in its own time.
                if is_answered || self.has_question(worker) {
                    continue;
                }
            }
            self.late.push(late);
        }
    }
}
