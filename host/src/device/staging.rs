//! Host buffers in the memory of a device that does not reach them: copied in before a task, and what it wrote copied back after it.
//!
//! A buffer has one place on the device, under whatever identity it came, and keeps it from task to task: what is copied are the
//! bytes that a task reads, in one piece for each identity, and the elements that it writes.

use std::collections::HashMap;

use bufabi_core::{Access, Identity, View};
use bufabi_device::kernel::{Bits, LINE, for_each_line};

use super::{Device, DeviceError, DeviceMemory, DeviceRange};
use crate::consumer::Import;
use crate::memory::mapping::count_copied;
use crate::memory::{Operand, Strided};
use crate::pieces::pieces;

/// Bytes that are copied at a time.
const PIECE: usize = 1 << 20;

/// The places that host buffers have on a device.
#[derive(Debug, Default)]
pub(super) struct Staging {
    places: HashMap<Identity, Place>,
    /// Counts tasks: what the one under way uses is not given up.
    task: u64,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    address: u64,
    nbytes: u64,
    used_by: u64,
}

/// A tensor of a task whose host buffer has a place on the device.
#[derive(Debug)]
pub(super) struct Staged {
    /// Which one, from 0.
    pub(super) index: usize,
    pub(super) identity: Identity,
    pub(super) import: Import,
    pub(super) address: u64,
    pub(super) view: View,
    /// What the kernel does with it.
    pub(super) needs: Option<Access>,
}

impl Staging {
    /// A new task: what earlier ones used may be given up for it.
    pub(super) const fn begin(&mut self) {
        self.task = self.task.wrapping_add(1);
    }

    /// A host buffer's place, given to it now if it has none. When the device has no more memory, those of other tasks go.
    pub(super) fn place(
        &mut self,
        memory: &mut DeviceMemory<'_>,
        identity: Identity,
        import: &Import,
    ) -> Result<DeviceRange, DeviceError> {
        let (nbytes, access, used_by) = (import.nbytes(), import.access(), self.task);
        match self.places.get_mut(&identity) {
            Some(place) if place.nbytes == nbytes => {
                place.used_by = used_by;
                return Ok(DeviceRange { address: place.address, nbytes, access });
            }
            // Its mapping had made room since, and it comes again with another size, whoever lied.
            Some(_) => self.release(memory, identity)?,
            None => {}
        }
        let device = memory.device();
        let address = match device.malloc(nbytes) {
            Err(_) if self.evict(memory) => device.malloc(nbytes)?,
            other => other?,
        };
        self.places.insert(identity, Place { address, nbytes, used_by });
        Ok(DeviceRange { address, nbytes, access })
    }

    /// Gives up the places that the task under way does not use, and says whether there were any. What the device does not take back
    /// is counted as leaked.
    pub(super) fn evict(&mut self, memory: &mut DeviceMemory<'_>) -> bool {
        let task = self.task;
        let before = self.places.len();
        self.places.retain(|_, place| {
            let is_used = place.used_by == task;
            if !is_used {
                let _ = memory.give_back(place.address, place.nbytes);
            }
            is_used
        });
        self.places.len() < before
    }

    /// Gives up a buffer's place.
    pub(super) fn release(
        &mut self,
        memory: &mut DeviceMemory<'_>,
        identity: Identity,
    ) -> Result<(), DeviceError> {
        let place = self.places.remove(&identity);
        place.map_or(Ok(()), |place| memory.give_back(place.address, place.nbytes))
    }
}

impl Staged {
    /// What may be written is read as well, if the kernel does not say that it writes all of it, whatever the owner grants: what it
    /// leaves as it is comes back as it was. The kernel itself has the owner's right alone.
    fn is_read(&self) -> bool {
        self.needs.is_some_and(Access::reads) && (self.import.access().reads() || self.is_written())
    }

    fn is_written(&self) -> bool {
        self.needs.is_some_and(Access::writes) && self.import.access().writes()
    }
}

/// Copies in what a task reads: for each buffer the bytes from the first to the last one that some tensor of it reads.
pub(super) fn copy_in(device: &dyn Device, staged: &[Staged]) -> Result<(), DeviceError> {
    for (index, first) in staged.iter().enumerate().filter(|(_, staged)| staged.is_read()) {
        let same = |other: &&Staged| other.identity == first.identity && other.is_read();
        if staged.iter().take(index).any(|other| same(&other)) {
            continue;
        }
        let views = staged.iter().filter(same).map(|staged| &staged.view);
        let (start, end) = views
            .fold((u64::MAX, 0), |(start, end), view| (start.min(view.byte_offset()), end.max(view.end())));
        in_pieces(start, end, |offset, piece| {
            // It lies within a mapping, and so within what a usize counts.
            let place = usize::try_from(offset).unwrap_or(usize::MAX);
            if first.import.carry(place, piece).is_err() {
                return Err(DeviceError::OutOfRange { address: offset, nbytes: length(piece) });
            }
            device.copy_to(first.address.saturating_add(offset), piece)
        })?;
    }
    Ok(())
}

/// Copies back what a task wrote: the elements of each tensor that it writes, and no byte between them.
pub(super) fn copy_back(device: &dyn Device, staged: &[Staged]) -> Result<(), DeviceError> {
    for written in staged.iter().filter(|staged| staged.is_written()) {
        let view = &written.view;
        if view.is_contiguous() {
            in_pieces(view.byte_offset(), view.end(), |offset, piece| {
                device.copy_from(written.address.saturating_add(offset), piece)?;
                let place = usize::try_from(offset).unwrap_or(usize::MAX);
                let out_of_range = DeviceError::OutOfRange { address: offset, nbytes: length(piece) };
                written.import.write(place, piece).map_err(|_| out_of_range)
            })?;
        } else {
            copy_elements_back(device, written)?;
        }
    }
    Ok(())
}

/// Hands out room for the bytes from `start` to `end` some at a time, until that fails.
fn in_pieces(
    start: u64,
    end: u64,
    mut each: impl FnMut(u64, &mut [u8]) -> Result<(), DeviceError>,
) -> Result<(), DeviceError> {
    let mut buffer = Vec::new();
    for (offset, length) in pieces(start..end, PIECE) {
        buffer.resize(length, 0);
        each(offset, &mut buffer)?;
    }
    Ok(())
}

fn length(piece: &[u8]) -> u64 {
    u64::try_from(piece.len()).unwrap_or(u64::MAX)
}

fn copy_elements_back(device: &dyn Device, written: &Staged) -> Result<(), DeviceError> {
    let (view, extent) = (&written.view, written.view.extent());
    let address = written.address.saturating_add(view.byte_offset());
    let out_of_range = DeviceError::OutOfRange { address, nbytes: extent };
    let mut copy = vec![0; usize::try_from(extent).map_err(|_| out_of_range)?];
    device.copy_from(address, &mut copy)?;
    let cells = core::cell::Cell::from_mut(copy.as_mut_slice()).as_slice_of_cells();
    let slots = (view.shape_slots(), view.stride_slots());
    let local = View::from_slots(0, u32::from(view.ndims()), view.dtype(), *slots.0, *slots.1, extent)
        .map_err(|_| out_of_range)?;
    let from = Operand::in_cells(cells, local, Access::Read).map_err(|_| out_of_range)?;
    let to = written.import.operand(*view).map_err(|_| out_of_range)?;
    match view.dtype().size() {
        1 => copy_elements::<u8>(&from, &to),
        2 => copy_elements::<u16>(&from, &to),
        4 => copy_elements::<u32>(&from, &to),
        _ => copy_elements::<u64>(&from, &to),
    }
    Ok(())
}

/// Copies the elements of one operand to another one of the same shape.
fn copy_elements<T: Bits>(from: &Operand<'_>, to: &Operand<'_>) {
    let (Some(from), Some(to)) = (Strided::<T>::new(from), Strided::<T>::new(to)) else { return };
    let mut line = [T::default(); LINE];
    for_each_line([&from, &to], true, |[from, to], length| {
        let line = line.get_mut(..length).unwrap_or_default();
        from.load(line);
        to.store(line);
        count_copied(size_of_val(line));
    });
}
