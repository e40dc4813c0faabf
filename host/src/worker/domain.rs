//! Communication domains: windows on several chips, all of them or none.

use std::time::Instant;

use bufabi_core::Identity;
use zerocopy::IntoBytes;

use super::call::Wanted;
use super::hello::Hello;
use super::mailbox::{MAX_ANSWER, MAX_BLOB, MemoryCall};
use super::memory::{DeviceBuffer, UNDO_LIMIT};
use super::memory_error::{DomainError, MemoryError};
use super::reply::WorkerId;
use super::workers::{Late, Workers};
use crate::device::memory::WindowPart;
use crate::sys::memfd;
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
    /// [`DomainError`]; nothing is left behind then.
    pub fn create_domain(
        &mut self,
        chips: &[WorkerId],
        parts: &[WindowPart],
        until: Instant,
    ) -> Result<Domain, DomainError> {
        if parts.len() > MAX_PARTS {
            return Err(MemoryError::TooManyParts { parts: parts.len(), limit: MAX_PARTS }.into());
        }
        let wanted: Vec<Wanted> =
            parts.iter().map(|part| Wanted::new(part.nbytes, part.access, Admission::Listed)).collect();
        let of_machine =
            |worker: &&WorkerId| self.links.hello(worker.0).is_some_and(Hello::has_machine_memory);
        check_memory(chips.iter().filter(of_machine).count(), parts, memfd::available())?;
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
                    return Err(DomainError::of(worker, error));
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
    /// [`DomainError`]: [`MemoryError::Busy`], or that of the first chip that could not; the others have.
    pub fn free_domain(&mut self, domain: &Domain, until: Instant) -> Result<(), DomainError> {
        let identities: Vec<Identity> = domain.windows.iter().flatten().map(DeviceBuffer::identity).collect();
        self.revoke(&identities)?;
        let mut result = Ok(());
        for window in &domain.windows {
            let taken = self.take_back(window, until);
            result = result.and(taken);
        }
        result
    }

    fn take_back(&mut self, window: &[DeviceBuffer], until: Instant) -> Result<(), DomainError> {
        let Some(first) = window.first() else { return Ok(()) };
        let (chip, identity) = (first.worker(), first.identity().encode());
        let taken = self.call(chip, MemoryCall::FreeWindow, identity.as_bytes(), until);
        if let Err(MemoryError::TimedOut { worker }) = taken {
            self.late.push(Late { worker, call: MemoryCall::FreeWindow, identity: first.identity() });
        }
        taken.map(drop).map_err(|error| DomainError::of(chip, error))
    }
}

/// The windows of so many chips that take their memory from the machine fit into what it has left. Each alone would be refused late, when
/// the ones before it have filled the machine.
fn check_memory(chips: usize, parts: &[WindowPart], available: Option<u64>) -> Result<(), MemoryError> {
    let window = parts.iter().fold(0_u64, |total, part| total.saturating_add(part.nbytes));
    let requested = window.saturating_mul(u64::try_from(chips).unwrap_or(u64::MAX));
    match available {
        Some(available) if requested > available => Err(MemoryError::NoMemory { requested, available }),
        Some(_) | None => Ok(()),
    }
}

/// Time to undo something, whatever was left of the time to do it.
fn later(until: Instant) -> Instant {
    let now = Instant::now();
    until.max(now.checked_add(UNDO_LIMIT).unwrap_or(now))
}

#[cfg(test)]
mod tests {
    use bufabi_core::Access;

    use super::*;

    #[test]
    fn windows_that_do_not_fit_together_are_refused_before_the_first_is_asked_for() {
        let parts = [(3 << 30), 7].map(|nbytes| WindowPart { nbytes, access: Access::Read });
        let whole = 3 * ((3 << 30) + 7);
        assert_eq!(check_memory(3, &parts, Some(whole)), Ok(()));
        let refused = MemoryError::NoMemory { requested: whole, available: whole - 1 };
        assert_eq!(check_memory(3, &parts, Some(whole - 1)), Err(refused));
        assert_eq!(check_memory(0, &parts, Some(0)), Ok(()));
        assert_eq!(check_memory(9, &parts, None), Ok(()));
        let most = WindowPart { nbytes: u64::MAX, access: Access::Read };
        let refused = MemoryError::NoMemory { requested: u64::MAX, available: 5 };
        assert_eq!(check_memory(2, &[most, most], Some(5)), Err(refused));
    }
}
