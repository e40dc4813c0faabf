//! Buffers of a run that lie on chips: allocated by the chips that own them, filled and read by copies, which are counted.

use std::time::Duration;

use bufabi_core::View;
use bufabi_core::wire::backend::BackendKind;
use bufabi_host::device::memory::WindowPart;
use bufabi_host::memory::Mapping;
use bufabi_host::sys::event::deadline;
use bufabi_host::vmm::Admission;
use bufabi_host::worker::{DeviceBuffer, Domain, DomainError, MemoryError, WorkerId, Workers};

use crate::failure::Failure;
use crate::graph::{self, Graph};
use crate::interrupt::Interrupt;

/// Bytes that are copied at once, between two looks at whether the run is to end.
const PIECE: usize = 1 << 18;

/// A buffer on a chip.
pub(super) struct OnChip {
    pub(super) buffer: DeviceBuffer,
    /// What of it the outputs name, brought here when all tasks are done.
    pub(super) here: Option<Mapping>,
    /// Bytes that were copied to the chip and back.
    pub(super) copied: u64,
}

/// The chips of a run, and what is asked of them.
pub(super) struct Chips<'a> {
    pub(super) graph: &'a Graph,
    pub(super) workers: &'a mut Workers,
    pub(super) interrupt: &'a Interrupt,
    /// How long a chip may take for what it is asked.
    pub(super) limit: Duration,
}

impl Chips<'_> {
    /// Allocates what the file places on chips, a buffer for each of its entries, none for one of the host. The windows come first: each
    /// of a domain is there, or none.
    pub(super) fn allocate(&mut self) -> Result<(Vec<Option<OnChip>>, Vec<Domain>), Failure> {
        let mut made: Vec<Option<OnChip>> = self.graph.buffers.iter().map(|_| None).collect();
        let domains = self.windows(&mut made)?;
        for (index, entry) in self.graph.buffers.iter().enumerate() {
            let buffer = match entry.backend {
                BackendKind::DeviceMalloc => self.malloc(entry).map(Some),
                BackendKind::VmmShareable => self.shareable(entry).map(Some),
                BackendKind::VmmWindow
                | BackendKind::PosixShm
                | BackendKind::ForkShm
                | BackendKind::ForkCow
                | BackendKind::RemoteSidecar => Ok(None),
            };
            let buffer = buffer.map_err(|failure| failure.at(&format!("buffers[{index}]")))?;
            if let (Some(buffer), Some(place)) = (buffer, made.get_mut(index)) {
                *place = Some(OnChip { buffer, here: None, copied: 0 });
            }
        }
        Ok((made, domains))
    }

    /// The chip that owns a buffer.
    fn owner(&self, entry: &graph::Buffer) -> Result<WorkerId, Failure> {
        let path = entry.worker.and_then(|worker| self.graph.workers.get(worker));
        let leaf = path.and_then(|worker| self.workers.find(&worker.path));
        leaf.ok_or_else(|| Failure::machine(format!("{:?} has no chip", entry.name)))
    }

    fn malloc(&mut self, entry: &graph::Buffer) -> Result<DeviceBuffer, Failure> {
        let chip = self.owner(entry)?;
        self.workers
            .malloc(chip, entry.nbytes, entry.access, deadline(self.limit))
            .map_err(|error| self.not_to_be_had(error))
    }

    /// Allocates what other chips import, once they may.
    fn shareable(&mut self, entry: &graph::Buffer) -> Result<DeviceBuffer, Failure> {
        let chip = self.owner(entry)?;
        let (nbytes, access, listed) = (entry.nbytes, entry.access, Admission::Listed);
        let made = self.workers.create_shareable(chip, nbytes, access, listed, deadline(self.limit));
        made.map_err(|error| self.not_to_be_had(error))
    }

    /// Lets those chips import a buffer that have a task which names it.
    pub(super) fn permit(&mut self, index: usize, buffer: &DeviceBuffer) -> Result<(), Failure> {
        if buffer.descriptor().backend_kind() != BackendKind::VmmShareable {
            return Ok(());
        }
        let members = self.graph.tasks.iter().flat_map(|task| &task.members);
        let users = members.filter(|member| member.arguments.iter().any(|argument| argument.buffer == index));
        let paths = users.filter_map(|member| Some(&self.graph.workers.get(member.worker?)?.path));
        let mut leaves: Vec<WorkerId> = paths.filter_map(|path| self.workers.find(path)).collect();
        leaves.retain(|&leaf| leaf != buffer.worker());
        leaves.sort_unstable();
        leaves.dedup();
        if leaves.is_empty() {
            return Ok(());
        }
        self.workers.permit(buffer, &leaves, deadline(self.limit)).map_err(|error| self.refused(error))
    }

    /// Carves windows: chips whose windows have the same parts are one domain.
    fn windows(&mut self, made: &mut [Option<OnChip>]) -> Result<Vec<Domain>, Failure> {
        /// The chips of a domain, each with the places of its buffers in the file.
        type Members = Vec<(WorkerId, Vec<usize>)>;
        let mut chips: Members = Vec::new();
        for (index, entry) in self.graph.buffers.iter().enumerate() {
            if entry.backend == BackendKind::VmmWindow {
                let chip = self.owner(entry)?;
                match chips.iter_mut().find(|(other, _)| *other == chip) {
                    Some((_, places)) => places.push(index),
                    None => chips.push((chip, vec![index])),
                }
            }
        }
        let parts_of = |places: &[usize]| -> Vec<WindowPart> {
            let entries = places.iter().filter_map(|&place| self.graph.buffers.get(place));
            entries.map(|entry| WindowPart { nbytes: entry.nbytes, access: entry.access }).collect()
        };
        let mut groups: Vec<(Vec<WindowPart>, Members)> = Vec::new();
        for (chip, places) in chips {
            let parts = parts_of(&places);
            match groups.iter_mut().find(|(other, _)| *other == parts) {
                Some((_, members)) => members.push((chip, places)),
                None => groups.push((parts, vec![(chip, places)])),
            }
        }
        let mut domains = Vec::new();
        for (parts, members) in groups {
            let chips: Vec<WorkerId> = members.iter().map(|&(chip, _)| chip).collect();
            let first = members.first().and_then(|(_, places)| places.first().copied()).unwrap_or(0);
            let domain = self.workers.create_domain(&chips, &parts, deadline(self.limit));
            let domain = domain.map_err(|error| {
                self.not_to_be_had(self.with_chip(error)).at(&format!("buffers[{first}]"))
            })?;
            for ((_, places), window) in members.iter().zip(domain.windows()) {
                for (&place, &buffer) in places.iter().zip(window) {
                    if let Some(place) = made.get_mut(place) {
                        *place = Some(OnChip { buffer, here: None, copied: 0 });
                    }
                }
            }
            domains.push(domain);
        }
        Ok(domains)
    }

    /// Writes first content of a buffer, which nobody has named yet.
    pub(super) fn fill(&mut self, to: &mut OnChip, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        let (chip, identity) = (to.buffer.worker(), to.buffer.identity());
        self.workers
            .fill(chip, identity, offset, bytes, deadline(self.limit))
            .map_err(|error| self.refused(error))?;
        to.count(bytes.len());
        Ok(())
    }

    /// Brings what the outputs name of a buffer, if any of them does.
    pub(super) fn fetch(&mut self, index: usize, from: &mut OnChip) -> Result<(), Failure> {
        let outputs = self.graph.outputs.iter().filter(|output| output.buffer == index);
        let bounds = outputs.map(|output| bounds(&output.view));
        let Some((start, end)) = bounds.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))) else {
            return Ok(());
        };
        // Of its whole size, so that views mean the same in it; only what is written to takes memory.
        let length = usize::try_from(from.buffer.nbytes()).map_err(Failure::machine)?;
        let here = Mapping::inherited(length).map_err(Failure::machine)?;
        let (chip, identity) = (from.buffer.worker(), from.buffer.identity());
        let mut piece = vec![0; PIECE];
        let mut offset = start;
        while offset < end {
            self.interrupt.check()?;
            let left = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
            let bytes = piece.get_mut(..left.min(PIECE)).unwrap_or_default();
            self.workers
                .copy_from(chip, identity, offset, bytes, deadline(self.limit))
                .map_err(|error| self.refused(error))?;
            here.write(usize::try_from(offset).map_err(Failure::machine)?, bytes)
                .map_err(Failure::machine)?;
            from.count(bytes.len());
            offset = offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        }
        from.here = Some(here);
        Ok(())
    }

    /// Gives a buffer that is no part of a domain back to its chip. Whoever imported it drops it.
    pub(super) fn free(&mut self, buffer: &DeviceBuffer) -> Result<(), Failure> {
        let kept = self
            .workers
            .free(buffer.worker(), buffer.identity(), deadline(self.limit))
            .map_err(|error| self.refused(error))?;
        let Some(kept) = kept.into_iter().next() else { return Ok(()) };
        let name = self.workers.name(kept.worker).unwrap_or_default();
        let why = kept.why.map_or_else(|| "it does not say why".to_owned(), |why| why.to_string());
        Err(Failure::machine(format!("{name} keeps what it imported: {why}")))
    }

    /// A buffer cannot be made: the file asks for nothing that is not legal, so the machine lacks something, of whatever kind it is.
    fn not_to_be_had(&self, error: impl ToString) -> Failure {
        self.interrupt.check().err().unwrap_or_else(|| Failure::machine(error))
    }

    /// A chip does not do what it is asked.
    fn refused(&self, error: MemoryError) -> Failure {
        let failure = || Failure::of_fault(error.code().fault(), error);
        self.interrupt.check().err().unwrap_or_else(failure)
    }

    /// Gives the windows of a domain back to their chips.
    pub(super) fn free_domain(&mut self, domain: &Domain) -> Result<(), Failure> {
        self.workers.free_domain(domain, deadline(self.limit)).map_err(|error| {
            let failure = || Failure::of_fault(error.code().fault(), self.with_chip(error.clone()));
            self.interrupt.check().err().unwrap_or_else(failure)
        })
    }

    /// What a chip of a domain says, behind its path.
    fn with_chip(&self, error: DomainError) -> String {
        let DomainError { chip, error } = error;
        let path = chip.and_then(|chip| self.workers.name(chip));
        path.map_or_else(|| error.to_string(), |path| format!("{path}: {error}"))
    }
}

impl OnChip {
    fn count(&mut self, bytes: usize) {
        self.copied = self.copied.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
    }
}

fn bounds(view: &View) -> (u64, u64) {
    (view.byte_offset(), view.end())
}
