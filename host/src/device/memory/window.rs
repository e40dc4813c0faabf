//! A chip's window of a communication domain, and the buffers that are carved from it: VMM_WINDOW.
//!
//! Every chip of a domain has a window of one layout, so that a buffer has the same offset in each of them.

use core::cell::Cell;
use core::num::NonZeroU64;

use bufabi_core::wire::body::Body;
use bufabi_core::{Access, Descriptor, Identity};

use super::{AllocateError, DeviceMemory, FreeError, Live, Place};
use crate::device::DeviceError;
use crate::owner::CreateError;
use crate::space::SpaceError;

/// Where buffers of a window start: at multiples of so many bytes from its first one, which is itself a multiple.
pub const WINDOW_ALIGNMENT: u64 = 1024;

/// A buffer of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowPart {
    /// Bytes, at least 1.
    pub nbytes: u64,
    /// What it grants.
    pub access: Access,
}

/// A window, and what was carved from it.
#[derive(Debug)]
pub(super) struct Window {
    /// What the device gave for it.
    address: u64,
    nbytes: u64,
    buffers: Vec<Identity>,
}

/// Offsets of a window's buffers, in order, and the window's bytes. The same for every chip. A window that would pass 2^64 has as many bytes
/// as no device gives.
fn layout(parts: &[WindowPart]) -> Result<(Vec<u64>, u64), AllocateError> {
    let mut offsets = Vec::with_capacity(parts.len());
    let mut end = 0_u64;
    for part in parts {
        if part.nbytes == 0 {
            return Err(AllocateError::Device(DeviceError::Space(SpaceError::NbytesZero)));
        }
        let start = end.checked_next_multiple_of(WINDOW_ALIGNMENT).unwrap_or(u64::MAX);
        offsets.push(start);
        end = start.saturating_add(part.nbytes);
    }
    Ok((offsets, end))
}

impl DeviceMemory<'_> {
    /// Takes a window of a communication domain, makes it zero, and carves one buffer for each part from it, in order. Nobody can
    /// name any of them before all are there.
    ///
    /// # Errors
    /// [`AllocateError`], with [`SpaceError::NbytesZero`] for no parts; nothing is left behind then.
    pub fn create_window(&mut self, parts: &[WindowPart]) -> Result<Vec<Descriptor>, AllocateError> {
        let (offsets, nbytes) = layout(parts)?;
        // A device whose allocations are aligned to less gives as much more.
        let slack = WINDOW_ALIGNMENT.saturating_sub(self.device.alignment());
        let taken = nbytes.saturating_add(if nbytes == 0 { 0 } else { slack });
        self.check_process()?;
        let address = self.device.malloc(taken)?;
        match self.carve(address, nbytes, &offsets, parts) {
            Ok(carved) => {
                let (descriptors, live): (Vec<Descriptor>, Vec<Live>) = carved.into_iter().unzip();
                let buffers: Vec<Identity> = descriptors.iter().map(Descriptor::identity).collect();
                self.live.extend(buffers.iter().copied().zip(live));
                if let Some(&first) = buffers.first() {
                    self.windows.insert(first, Window { address, nbytes: taken, buffers });
                }
                Ok(descriptors)
            }
            Err(error) => {
                // The first error is the one reported; a second one is counted.
                let _ = self.give_back(address, taken);
                Err(error)
            }
        }
    }

    /// The buffers of a window that is zero. Those that were made go with the first one that cannot be.
    fn carve(
        &self,
        address: u64,
        nbytes: u64,
        offsets: &[u64],
        parts: &[WindowPart],
    ) -> Result<Vec<(Descriptor, Live)>, AllocateError> {
        let base = NonZeroU64::new(address).ok_or(AllocateError::AddressZero)?.get();
        // What the device gave does not wrap.
        let base = base.checked_next_multiple_of(WINDOW_ALIGNMENT).unwrap_or(base);
        if !self.device.has_machine_memory() {
            self.device.zero(base, nbytes)?;
        }
        let mut first = None;
        let mut carved = Vec::with_capacity(parts.len());
        for (offset, part) in offsets.iter().zip(parts) {
            // Offsets lie within what the device gave.
            let base = NonZeroU64::new(base.saturating_add(*offset)).ok_or(AllocateError::AddressZero)?;
            let buffer = self.own(Body::VmmWindow { base }, part.nbytes, part.access)?;
            let descriptor = buffer.descriptor().map_err(CreateError::Own)?;
            let first = *first.get_or_insert(buffer.identity());
            let live = Live { buffer, place: Place::Window { first }, is_named: Cell::new(false) };
            carved.push((descriptor, live));
        }
        Ok(carved)
    }

    /// Frees a window with all of its buffers, one of which is named. Nobody can name any of them any more when the memory is
    /// given back.
    ///
    /// # Errors
    /// As [`free`](Self::free), and [`FreeError::NotInDomain`].
    pub fn free_window(&mut self, identity: Identity) -> Result<(), FreeError> {
        self.endpoint.lookup(identity).map_err(FreeError::Own)?;
        let not_in_domain = FreeError::NotInDomain { identity };
        let Some(Place::Window { first }) = self.live.get(&identity).map(|live| live.place) else {
            return Err(not_in_domain);
        };
        let Some(window) = self.windows.get(&first) else { return Err(not_in_domain) };
        self.endpoint.check_idle(&window.buffers).map_err(FreeError::Release)?;
        for buffer in &window.buffers {
            if let Some(live) = self.live.get_mut(buffer) {
                live.buffer.release().map_err(FreeError::Release)?;
                self.live.remove(buffer);
            }
        }
        let Some(Window { address, nbytes, .. }) = self.windows.remove(&first) else {
            return Err(not_in_domain);
        };
        self.give_back(address, nbytes).map_err(|error| FreeError::Leaked { identity, nbytes, error })
    }
}
