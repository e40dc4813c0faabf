//! Memory of chips, which their worker processes own: each call goes to the chip, and is recorded in this process.

use core::ffi::c_void;

use bufabi_core::wire::identity::RawIdentity;
use bufabi_core::{Code, Descriptor, Identity, RawDescriptor};
use zerocopy::{FromBytes, Immutable};

use super::boundary::{answer, noted};
use super::buffer::deadline;
use super::handle::{Kind, Table};
use super::number;
use super::orchestrator::{OrchestratorHandle, with, worker_id};
use super::parameter::{Out, OutSlice, apart_from, given, given_slice, span_of, span_of_slice};
use super::status::Status;
use super::vmm::admission;
use crate::device::memory::WindowPart;
use crate::worker::{DeviceBuffer, Domain, DomainError, MemoryError, WorkerId};

/// Windows of several chips, with buffers at the same places. 0 is none.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct DomainHandle {
    /// Nothing to be read into.
    pub token: u64,
}

/// A buffer of a domain, on each of its chips.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct WindowPartFields {
    /// Its bytes.
    pub nbytes: u64,
    /// What it grants: READ 0, WRITE 1, READWRITE 2.
    pub access: i32,
    /// 0.
    pub reserved: u32,
}

/// Domains.
static DOMAINS: Table<Domain> = Table::new(Kind::Domain);

fn code(error: &MemoryError) -> Code {
    noted(error.code(), error)
}

/// Allocates `nbytes` bytes on a chip, which grant `access`: DEVICE_MALLOC. Their content is whatever lies there.
///
/// # Safety
/// `descriptor` points to a descriptor that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_device_malloc(
    orchestrator: OrchestratorHandle,
    worker: u32,
    nbytes: u64,
    access: i32,
    nanoseconds: u64,
    descriptor: *mut RawDescriptor,
) -> Status {
    answer("device_malloc", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(descriptor) }?;
        let (access, until) = (number::access(access)?, deadline(nanoseconds));
        with(orchestrator, |orchestrator| {
            let buffer = orchestrator.workers_mut().malloc(worker_id(worker), nbytes, access, until);
            out.set(*buffer.map_err(|error| code(&error))?.descriptor().raw());
            Ok(())
        })
    })
}

/// Allocates `nbytes` bytes that a chip owns, zero, which grant `access` to every process that imports them by handle: VMM_SHAREABLE.
/// `admission` is one of `BUFABI_ADMISSION_...`.
///
/// # Safety
/// `descriptor` points to a descriptor that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_device_create_shareable(
    orchestrator: OrchestratorHandle,
    worker: u32,
    nbytes: u64,
    access: i32,
    admission: i32,
    nanoseconds: u64,
    descriptor: *mut RawDescriptor,
) -> Status {
    answer("device_create_shareable", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(descriptor) }?;
        let (access, admission) = (number::access(access)?, self::admission(admission)?);
        let until = deadline(nanoseconds);
        with(orchestrator, |orchestrator| {
            let workers = orchestrator.workers_mut();
            let buffer = workers.create_shareable(worker_id(worker), nbytes, access, admission, until);
            out.set(*buffer.map_err(|error| code(&error))?.descriptor().raw());
            Ok(())
        })
    })
}

/// Lets workers import what the chip `worker` exports by handle.
///
/// # Safety
/// `descriptor` points to a descriptor, and `leaves` to `leaf_count` numbers of workers, that nobody writes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_device_permit(
    orchestrator: OrchestratorHandle,
    worker: u32,
    descriptor: *const RawDescriptor,
    leaves: *const u32,
    leaf_count: usize,
    nanoseconds: u64,
) -> Status {
    answer("device_permit", || {
        // SAFETY: the caller's promise above.
        let descriptor = unsafe { given(descriptor) }?;
        // SAFETY: the caller's promise above.
        let leaves = unsafe { given_slice(leaves, leaf_count) }?;
        let descriptor = Descriptor::from_raw(descriptor).map_err(|error| noted(error.code(), &error))?;
        let buffer = DeviceBuffer::new(worker_id(worker), descriptor.to_owned());
        let leaves: Vec<WorkerId> = leaves.iter().map(|&leaf| worker_id(leaf)).collect();
        let until = deadline(nanoseconds);
        with(orchestrator, |orchestrator| {
            orchestrator.workers_mut().permit(&buffer, &leaves, until).map_err(|error| code(&error))
        })
    })
}

/// Frees memory of a chip by its name: refused while a task that is not over names it, and then nothing has changed. From then on
/// nobody can name it. Workers that had imported it are told to drop it; `*kept_count` is how many may still have it.
///
/// # Safety
/// `identity` points to an identity that nobody writes during the call, `kept_count` to a size_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_device_free(
    orchestrator: OrchestratorHandle,
    worker: u32,
    identity: *const RawIdentity,
    nanoseconds: u64,
    kept_count: *mut usize,
) -> Status {
    answer("device_free", || {
        // SAFETY: the caller's promise above.
        let raw = unsafe { given(identity) }?;
        // SAFETY: the caller's promise above.
        let kept = unsafe { Out::new(kept_count) }?;
        apart_from(&[kept.span()], &[span_of(raw)])?;
        let (identity, until) = (decode(raw)?, deadline(nanoseconds));
        with(orchestrator, |orchestrator| {
            let freed = orchestrator.workers_mut().free(worker_id(worker), identity, until);
            kept.set(freed.map_err(|error| code(&error))?.len());
            Ok(())
        })
    })
}

/// Copies `nbytes` bytes into memory of a chip, from `offset` on, behind everything that the chip was asked for before. What its owner does
/// not grant, or what does not lie in the one allocation, is refused before the first byte.
///
/// # Safety
/// `identity` points to an identity, and `bytes` to `nbytes` bytes, that nobody writes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_device_copy_to(
    orchestrator: OrchestratorHandle,
    worker: u32,
    identity: *const RawIdentity,
    offset: u64,
    bytes: *const c_void,
    nbytes: usize,
    nanoseconds: u64,
) -> Status {
    answer("device_copy_to", || {
        // SAFETY: the caller's promise above.
        let identity = unsafe { given(identity) }?;
        // SAFETY: the caller's promise above.
        let bytes = unsafe { given_slice(bytes.cast::<u8>(), nbytes) }?;
        let (identity, until) = (decode(identity)?, deadline(nanoseconds));
        with(orchestrator, |orchestrator| {
            let copied =
                orchestrator.workers_mut().copy_to(worker_id(worker), identity, offset, bytes, until);
            copied.map_err(|error| code(&error))
        })
    })
}

/// Copies `nbytes` bytes out of memory of a chip, from `offset` on, as `bufabi_device_copy_to` copies into it.
///
/// # Safety
/// `identity` points to an identity that nobody writes during the call, `out` to `nbytes` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_device_copy_from(
    orchestrator: OrchestratorHandle,
    worker: u32,
    identity: *const RawIdentity,
    offset: u64,
    out: *mut c_void,
    nbytes: usize,
    nanoseconds: u64,
) -> Status {
    answer("device_copy_from", || {
        // SAFETY: the caller's promise above.
        let raw = unsafe { given(identity) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { OutSlice::new(out.cast::<u8>(), nbytes) }?;
        apart_from(&[out.span()], &[span_of(raw)])?;
        let (identity, until) = (decode(raw)?, deadline(nanoseconds));
        with(orchestrator, |orchestrator| {
            let workers = orchestrator.workers_mut();
            // In pieces: the size is the caller's word, and memory for all of it is not there before the chip has judged it.
            let mut piece = vec![0; nbytes.min(PIECE)];
            let mut copied = 0_usize;
            loop {
                let piece = piece.get_mut(..nbytes.saturating_sub(copied).min(PIECE)).unwrap_or_default();
                let at = offset.saturating_add(u64::try_from(copied).unwrap_or(u64::MAX));
                workers
                    .copy_from(worker_id(worker), identity, at, piece, until)
                    .map_err(|error| code(&error))?;
                out.set_from(copied, piece);
                copied = copied.saturating_add(piece.len());
                if copied >= nbytes {
                    return Ok(());
                }
            }
        })
    })
}

/// Bytes of a copy out of a chip that are kept at once.
const PIECE: usize = 1 << 20;

/// Pieces of device memory that are live, on all chips.
///
/// # Safety
/// `live` points to a size_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_device_live(orchestrator: OrchestratorHandle, live: *mut usize) -> Status {
    answer("device_live", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(live) }?;
        with(orchestrator, |orchestrator| {
            out.set(orchestrator.workers().device_buffers());
            Ok(())
        })
    })
}

/// Takes a window on each of the chips, zero, and carves a buffer for each part from each of them: VMM_WINDOW. All of it is there, or
/// nothing. The descriptors are written chip by chip, each in the order of the parts: there is room for `chip_count` times
/// `part_count` of them.
///
/// # Safety
/// `chips` points to `chip_count` numbers of workers and `parts` to `part_count` parts that nobody writes during the call, `descriptors` to
/// `capacity` descriptors and `domain` to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_domain_create(
    orchestrator: OrchestratorHandle,
    chips: *const u32,
    chip_count: usize,
    parts: *const WindowPartFields,
    part_count: usize,
    nanoseconds: u64,
    descriptors: *mut RawDescriptor,
    capacity: usize,
    domain: *mut DomainHandle,
) -> Status {
    answer("domain_create", || {
        // SAFETY: the caller's promise above.
        let chips = unsafe { given_slice(chips, chip_count) }?;
        // SAFETY: the caller's promise above.
        let parts = unsafe { given_slice(parts, part_count) }?;
        // SAFETY: the caller's promise above.
        let descriptors = unsafe { OutSlice::new(descriptors, capacity) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(domain) }?;
        apart_from(&[descriptors.span(), out.span()], &[span_of_slice(chips), span_of_slice(parts)])?;
        if chip_count.saturating_mul(part_count) > capacity {
            return Err(Code::BufferTooSmall);
        }
        let parts = parts
            .iter()
            .map(|part| Ok(WindowPart { nbytes: part.nbytes, access: number::access(part.access)? }));
        let parts: Vec<WindowPart> = parts.collect::<Result<_, Code>>()?;
        let chips: Vec<WorkerId> = chips.iter().map(|&chip| worker_id(chip)).collect();
        let until = deadline(nanoseconds);
        with(orchestrator, |orchestrator| {
            let domain = orchestrator.workers_mut().create_domain(&chips, &parts, until);
            let domain = domain.map_err(|error| noted(error.code(), &error))?;
            descriptors.fill(domain.windows().iter().flatten().map(|buffer| *buffer.descriptor().raw()));
            out.set(DomainHandle { token: DOMAINS.insert(domain)? });
            Ok(())
        })
    })
}

/// Frees a domain: refused while a task that is not over names any of its buffers, and then nothing has changed. From then on nobody can name
/// any of them, every chip is told to take its window back, and the handle is none.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_domain_free(
    orchestrator: OrchestratorHandle,
    domain: DomainHandle,
    nanoseconds: u64,
) -> Status {
    answer("domain_free", || {
        let until = deadline(nanoseconds);
        with(orchestrator, |orchestrator| {
            let windows = DOMAINS.get(domain.token)?;
            let freed = orchestrator.workers_mut().free_domain(&windows, until);
            if !matches!(freed, Err(DomainError { error: MemoryError::Busy { .. }, .. })) {
                DOMAINS.remove(domain.token)?;
            }
            freed.map_err(|error| noted(error.code(), &error))
        })
    })
}

fn decode(identity: &RawIdentity) -> Result<Identity, Code> {
    identity.decode().ok_or(Code::Generation)
}
