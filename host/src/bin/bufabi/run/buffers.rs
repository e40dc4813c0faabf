//! The buffers of a run: made where the file says, filled with their arrays, read when all is done, let go.
//!
//! What workers inherit is there and filled before they are; memory of chips is there after them, since they own it.

use std::io::{self, Read};

use bufabi_core::wire::backend::BackendKind;
use bufabi_core::{Access, Identity, Tensor, View};
use bufabi_host::heap::{self, ForkHeap};
use bufabi_host::memory::{InheritedRegion, Mapping, Operand, Sharing};
use bufabi_host::owner::{Buffer, Endpoint, OwnError, ReleaseError, Wrapped};
use bufabi_host::worker::{Domain, WorkerId};

use super::on_chips::{Chips, OnChip};
use crate::failure::Failure;
use crate::graph::{self, Graph};
use crate::interrupt::Interrupt;
use crate::npy::Array;

/// Bytes of an array that are read at once.
const PIECE: usize = 1 << 18;

/// The buffers of a graph, in its order.
pub(super) struct Buffers {
    made: Vec<Option<Made>>,
    domains: Vec<Domain>,
}

/// A buffer that is there.
enum Made {
    /// This process's own.
    Own(Buffer),
    /// Memory of this process that its workers have copies of. The region is in the table of what they inherit as long as it lives.
    Copied { wrapped: Wrapped, _region: InheritedRegion },
    /// Memory of a chip.
    OnChip(OnChip),
}

impl Buffers {
    /// Makes and fills what workers inherit.
    pub(super) fn before_workers(
        graph: &Graph,
        endpoint: &Endpoint,
        interrupt: &Interrupt,
    ) -> Result<Self, Failure> {
        let mut made = Vec::new();
        let mut heap = None;
        for (index, entry) in graph.buffers.iter().enumerate() {
            let one = match entry.backend {
                BackendKind::ForkShm => {
                    let heap = match &heap {
                        Some(heap) => heap,
                        None => heap.insert(heap_for(graph, endpoint).map_err(|failure| at(failure, index))?),
                    };
                    let buffer = heap.create_buffer(entry.nbytes, entry.access).map_err(Failure::machine);
                    buffer.map(|buffer| Some(Made::Own(buffer)))
                }
                BackendKind::ForkCow => copied(endpoint, entry).map(Some),
                BackendKind::PosixShm
                | BackendKind::RemoteSidecar
                | BackendKind::VmmWindow
                | BackendKind::DeviceMalloc
                | BackendKind::VmmShareable => Ok(None),
            };
            let one = one
                .and_then(|one| one.as_ref().map_or(Ok(()), |one| one.fill(entry, interrupt)).map(|()| one));
            made.push(one.map_err(|failure| at(failure, index))?);
        }
        Ok(Self { made, domains: Vec::new() })
    }

    /// Makes and fills the others.
    pub(super) fn after_workers(
        &mut self,
        endpoint: &Endpoint,
        chips: &mut Chips<'_>,
    ) -> Result<(), Failure> {
        let (on_chips, domains) = chips.allocate()?;
        self.domains = domains;
        let entries = chips.graph.buffers.iter();
        for (index, ((entry, place), on_chip)) in entries.zip(&mut self.made).zip(on_chips).enumerate() {
            let filled = match (on_chip, &place) {
                (_, Some(_)) => continue,
                (Some(mut on_chip), None) => {
                    let filled = fill_on_chip(&mut on_chip, entry, chips);
                    let permitted = filled.and_then(|()| chips.permit(index, &on_chip.buffer));
                    permitted.map(|()| Made::OnChip(on_chip))
                }
                (None, None) => {
                    let buffer = endpoint.create_buffer(entry.nbytes, entry.access).map_err(Failure::machine);
                    buffer.map(Made::Own).and_then(|one| one.fill(entry, chips.interrupt).map(|()| one))
                }
            };
            *place = Some(filled.map_err(|failure| at(failure, index))?);
        }
        Ok(())
    }

    /// Brings what outputs name of memory of chips, and gives it back to them: from now on chips need not live.
    pub(super) fn take_from_chips(&mut self, chips: &mut Chips<'_>) -> Result<(), Failure> {
        let on_chips = self.made.iter_mut().enumerate().filter_map(|(index, made)| match made {
            Some(Made::OnChip(on_chip)) => Some((index, on_chip)),
            Some(Made::Own(_) | Made::Copied { .. }) | None => None,
        });
        for (index, on_chip) in on_chips {
            chips.fetch(index, on_chip).map_err(|failure| at(failure, index))?;
            let is_in_domain = on_chip.buffer.descriptor().backend_kind() == BackendKind::VmmWindow;
            if !is_in_domain {
                chips.free(&on_chip.buffer).map_err(|failure| at(failure, index))?;
            }
        }
        self.domains.drain(..).try_for_each(|domain| chips.free_domain(&domain))
    }

    fn get(&self, index: usize) -> Result<&Made, Failure> {
        self.made.get(index).and_then(Option::as_ref).ok_or_else(|| Failure::machine("the buffer is gone"))
    }

    /// The identity of a buffer.
    pub(super) fn identity(&self, index: usize) -> Option<Identity> {
        self.made.get(index)?.as_ref().map(Made::identity)
    }

    /// The chip that owns a buffer; none of this process's own.
    pub(super) fn chip(&self, index: usize) -> Option<WorkerId> {
        match self.made.get(index)?.as_ref()? {
            Made::OnChip(on_chip) => Some(on_chip.buffer.worker()),
            Made::Own(_) | Made::Copied { .. } => None,
        }
    }

    /// Bytes that were copied to a buffer and from it, outside of tasks.
    pub(super) fn copied(&self, index: usize) -> u64 {
        match self.made.get(index).and_then(Option::as_ref) {
            Some(Made::OnChip(on_chip)) => on_chip.copied,
            Some(Made::Own(_) | Made::Copied { .. }) | None => 0,
        }
    }

    /// A view of a buffer, as a task argument.
    pub(super) fn tensor(&self, index: usize, view: &View) -> Result<Tensor, OwnError> {
        let backend_kind = BackendKind::RemoteSidecar;
        let made = self.made.get(index).and_then(Option::as_ref);
        made.ok_or(OwnError::NotMapped { backend_kind })?.tensor(view)
    }

    /// The elements of a buffer that a view names.
    pub(super) fn operand(&self, index: usize, view: View) -> Result<Operand<'_>, Failure> {
        let gone = || Failure::machine("the buffer is gone");
        let operand = self.get(index)?.mapping().ok_or_else(gone)?.operand(view);
        operand.map_err(|error| Failure::broken(error.to_string()))
    }

    /// Lets go of all of them, trying each, and reports the first error.
    pub(super) fn release(self) -> Result<(), Failure> {
        let mut released = Ok(());
        for one in self.made.into_iter().flatten() {
            released = released.and(one.release().map_err(Failure::machine));
        }
        released
    }
}

fn at(failure: Failure, index: usize) -> Failure {
    failure.at(&format!("buffers[{index}]"))
}

/// A heap that has room for all buffers that lie in it, each at a multiple of its alignment.
fn heap_for(graph: &Graph, endpoint: &Endpoint) -> Result<ForkHeap, Failure> {
    let shared = graph.buffers.iter().filter(|entry| entry.backend == BackendKind::ForkShm);
    let nbytes = shared.fold(0_u64, |total, entry| {
        let room = entry.nbytes.checked_next_multiple_of(heap::ALIGNMENT).unwrap_or(u64::MAX);
        total.saturating_add(room)
    });
    let heap = ForkHeap::new(endpoint, nbytes);
    heap.map_err(|error| Failure::machine(format!("a heap of {nbytes} bytes for all of its kind: {error}")))
}

/// Memory of its own, of which every worker has a copy.
fn copied(endpoint: &Endpoint, entry: &graph::Buffer) -> Result<Made, Failure> {
    let length = usize::try_from(entry.nbytes).map_err(Failure::machine)?;
    let region = InheritedRegion::new(endpoint.owner_instance_id(), length, Sharing::Copied);
    let region =
        region.map_err(|error| Failure::machine(format!("{length} bytes to inherit a copy of: {error}")))?;
    let wrapped = endpoint.wrap_fork_inherited(&region, 0, entry.nbytes, Access::Read);
    Ok(Made::Copied { wrapped: wrapped.map_err(Failure::machine)?, _region: region })
}

impl Made {
    fn identity(&self) -> Identity {
        match self {
            Self::Own(buffer) => buffer.identity(),
            Self::Copied { wrapped, .. } => wrapped.identity(),
            Self::OnChip(on_chip) => on_chip.buffer.identity(),
        }
    }

    fn tensor(&self, view: &View) -> Result<Tensor, OwnError> {
        match self {
            Self::Own(buffer) => buffer.tensor(view),
            Self::Copied { wrapped, .. } => wrapped.tensor(view),
            Self::OnChip(on_chip) => on_chip.buffer.tensor(view).map_err(OwnError::View),
        }
    }

    /// Its bytes here. Those of a chip are here once they were brought.
    fn mapping(&self) -> Option<&Mapping> {
        match self {
            Self::Own(buffer) => buffer.mapping(),
            Self::Copied { wrapped, .. } => wrapped.mapping(),
            Self::OnChip(on_chip) => on_chip.here.as_ref(),
        }
    }

    /// Fills it with its array, if it has one.
    fn fill(&self, entry: &graph::Buffer, interrupt: &Interrupt) -> Result<(), Failure> {
        let mapping = self.mapping().ok_or_else(|| Failure::machine("the buffer is gone"))?;
        read_array(entry, interrupt, |offset, bytes| {
            let offset = usize::try_from(offset).map_err(Failure::machine)?;
            mapping.write(offset, bytes).map_err(Failure::machine)
        })
    }

    fn release(self) -> Result<(), ReleaseError> {
        match self {
            Self::Own(mut buffer) => buffer.release(),
            Self::Copied { mut wrapped, .. } => wrapped.release(),
            // It was given back to its chip.
            Self::OnChip(_) => Ok(()),
        }
    }
}

/// Fills a buffer on a chip with its array, if it has one, before anybody may name it: whatever it grants to tasks.
fn fill_on_chip(to: &mut OnChip, entry: &graph::Buffer, chips: &mut Chips<'_>) -> Result<(), Failure> {
    let interrupt = chips.interrupt;
    read_array(entry, interrupt, |offset, bytes| chips.fill(to, offset, bytes))
}

/// Reads a buffer's array, some bytes at a time, each with the offset of the first.
fn read_array(
    entry: &graph::Buffer,
    interrupt: &Interrupt,
    mut each: impl FnMut(u64, &[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Some(path) = &entry.npy else { return Ok(()) };
    let unreadable = |error: io::Error| Failure::usage(format!("{}: {error}", path.display())).at("npy");
    let mut data = Array::open(path).and_then(Array::into_data).map_err(unreadable)?;
    let mut piece = vec![0; PIECE];
    let mut offset = 0_u64;
    loop {
        interrupt.check()?;
        let count = data.read(&mut piece).map_err(unreadable)?;
        if count == 0 {
            break;
        }
        let bytes = piece.get(..count).unwrap_or_default();
        // The array may have grown since its size was taken; the file is not followed then.
        each(offset, bytes)?;
        offset = offset.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
    }
    if offset == entry.nbytes {
        return Ok(());
    }
    let message = format!("{} bytes were promised, {offset} came", entry.nbytes);
    Err(Failure::usage(format!("{}: {message}", path.display())).at("npy"))
}
