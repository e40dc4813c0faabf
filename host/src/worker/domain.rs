//! Communication domains: windows on several chips, all of them or none.

use std::time::Instant;

use bufabi_core::Identity;
use zerocopy::IntoBytes;

use super::call::Wanted;
use super::mailbox::{MAX_ANSWER, MAX_BLOB, MemoryCall};
use super::memory::{DeviceBuffer, UNDO_LIMIT};
use super::memory_error::MemoryError;
use super::reply::WorkerId;
use super::workers::{Late, Workers};
use crate::device::memory::WindowPart;
use crate::vmm::Admission;

/// Buffers of one domain's window: their descriptors are one answer, and what is asked is one request.
const MAX_PARTS: usize = 256;
const _: () = {
    assert!(MAX_PARTS.saturating_mul(88) <= MAX_ANSWER);
    assert!(MAX_PARTS.saturating_mul(size_of::<Wanted>()) <= MAX_BLOB);
};

/// A communication domain: a window on each of several chips, all of one layout.
#[derive(Clone, Debug)]
pub struct Domain {
    windows: Vec<Vec<DeviceBuffer>>,
}

impl Domain {
    /// The buffers of each chip's window, in the order in which the chips and the buffers were named.
    #[must_use]
    pub fn windows(&self) -> &[Vec<DeviceBuffer>] {
        &self.windows
    }
}

impl Workers {
    /// Takes a window on each of the chips, zero, and carves a buffer for each part from each of them: VMM_WINDOW. All of it is there, or
    /// nothing.
    ///
    /// # Errors
    /// [`MemoryError`], that of the first chip that could not; nothing is left behind then.
    pub fn create_domain(
        &mut self,
        chips: &[WorkerId],
        parts: &[WindowPart],
        until: Instant,
    ) -> Result<Domain, MemoryError> {
        if parts.len() > MAX_PARTS {
            return Err(MemoryError::TooManyParts { parts: parts.len(), limit: MAX_PARTS });
        }
        let wanted: Vec<Wanted> =
            parts.iter().map(|part| Wanted::new(part.nbytes, part.access, Admission::Listed)).collect();
        let mut windows: Vec<Vec<DeviceBuffer>> = Vec::new();
        for &worker in chips {
            match self.window(worker, wanted.as_bytes(), parts.len(), until) {
                Ok(window) => windows.push(window),
                Err(error) => {
                    let soon = later(until);
                    for window in windows.iter().rev() {
                        // The first error is the one reported; what a chip does not take back it counts.
                        let _ = self.take_back(window, soon);
                    }
                    return Err(error);
                }
            }
        }
        // Nobody has seen any of them before.
        for buffer in windows.iter().flatten() {
            self.record(buffer, true);
        }
        Ok(Domain { windows })
    }

    fn window(
        &mut self,
        worker: WorkerId,
        wanted: &[u8],
        parts: usize,
        until: Instant,
    ) -> Result<Vec<DeviceBuffer>, MemoryError> {
        let answer = self.call(worker, MemoryCall::CreateWindow, wanted, until)?;
        let descriptors = self.descriptors(worker, &answer, parts)?;
        Ok(descriptors.into_iter().map(|descriptor| DeviceBuffer::new(worker, descriptor)).collect())
    }

    /// Frees a domain: refused while a task that is not over names any of its buffers, and then nothing has changed. From then on nobody
    /// can name any of them, and every chip is told to take its window back.
    ///
    /// # Errors
    /// [`MemoryError`], that of the first chip that could not; the others have.
    pub fn free_domain(&mut self, domain: &Domain, until: Instant) -> Result<(), MemoryError> {
        let identities: Vec<Identity> = domain.windows.iter().flatten().map(DeviceBuffer::identity).collect();
        self.revoke(&identities)?;
        let mut result = Ok(());
        for window in &domain.windows {
            let taken = self.take_back(window, until);
            result = result.and(taken);
        }
        result
    }

    fn take_back(&mut self, window: &[DeviceBuffer], until: Instant) -> Result<(), MemoryError> {
        let Some(first) = window.first() else { return Ok(()) };
        let identity = first.identity().encode();
        let taken = self.call(first.worker(), MemoryCall::FreeWindow, identity.as_bytes(), until);
        if let Err(MemoryError::TimedOut { worker }) = taken {
            self.late.push(Late { worker, call: MemoryCall::FreeWindow, identity: first.identity() });
        }
        taken.map(drop)
    }
}

/// Time to undo something, whatever was left of the time to do it.
fn later(until: Instant) -> Instant {
    let now = Instant::now();
    until.max(now.checked_add(UNDO_LIMIT).unwrap_or(now))
}
