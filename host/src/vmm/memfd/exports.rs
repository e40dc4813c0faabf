//! What an owner exports: handles, what is behind each, and which processes may import it.

use core::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use super::protocol::Refusal;
use crate::sys::OsError;
use crate::sys::process::Process;
use crate::sys::random::random_bytes;
use crate::vmm::{Admission, AllocationRequest, Shareable, VmmError};

/// Handles that can be exported at once: each keeps a file descriptor open, and systems give a process about that many.
const CAPACITY: u32 = 1 << 16;

/// What is behind a handle.
#[derive(Debug)]
struct Export {
    shareable: Shareable,
    file: Arc<OwnedFd>,
    /// `None` lets anyone in.
    whitelist: Option<Vec<Arc<Process>>>,
}

/// The handles that are exported. A handle is a slot in its low half, and a random number, never 0, in its high half.
#[derive(Debug, Default)]
pub(super) struct Exports {
    slots: Vec<Option<Export>>,
    vacant: Vec<u32>,
    /// Every process on a whitelist, so that many handles share one descriptor of it.
    processes: Vec<Arc<Process>>,
}

/// A handle's slot.
const fn slot(handle: u64) -> usize {
    let [a, b, c, d, ..] = handle.to_le_bytes();
    let slot = u32::from_le_bytes([a, b, c, d]);
    // The host's machines have 64 bits.
    #[expect(clippy::as_conversions, reason = "u32 fits in usize, and From is not const")]
    {
        slot as usize
    }
}

impl Exports {
    /// Exports memory under a new handle.
    pub(super) fn insert(
        &mut self,
        file: Arc<OwnedFd>,
        request: &AllocationRequest,
        device_id: i32,
        mapping_bytes: u64,
    ) -> Result<NonZeroU64, VmmError> {
        let AllocationRequest { identity, nbytes, access, admission } = *request;
        let slot = match self.vacant.last() {
            Some(slot) => *slot,
            None => u32::try_from(self.slots.len()).unwrap_or(CAPACITY),
        };
        if slot >= CAPACITY {
            return Err(VmmError::ExportsFull { capacity: CAPACITY });
        }
        let handle = new_handle(slot)?;
        let whitelist = match admission {
            Admission::Listed => Some(Vec::new()),
            Admission::Anyone => None,
        };
        let shareable = Shareable { identity, access, nbytes, device_id, handle, mapping_bytes };
        let export = Some(Export { shareable, file, whitelist });
        match self.vacant.pop().and_then(|_| self.slots.get_mut(self::slot(handle.get()))) {
            Some(vacant) => *vacant = export,
            None => self.slots.push(export),
        }
        Ok(handle)
    }

    /// Ends imports of a handle.
    pub(super) fn remove(&mut self, handle: NonZeroU64) -> Result<(), VmmError> {
        self.get(handle.get()).ok_or(VmmError::HandleUnknown { handle })?;
        let index = slot(handle.get());
        if let Some(export) = self.slots.get_mut(index) {
            *export = None;
        }
        self.vacant.extend(u32::try_from(index));
        self.forget_processes();
        Ok(())
    }

    /// Puts processes on a handle's whitelist: all of them, or none when one cannot be.
    pub(super) fn permit(&mut self, handle: NonZeroU64, pids: &[i32]) -> Result<(), VmmError> {
        self.get(handle.get()).ok_or(VmmError::HandleUnknown { handle })?;
        let processes = pids.iter().map(|pid| self.process(*pid)).collect::<Result<Vec<_>, _>>();
        let export = self.slots.get_mut(slot(handle.get())).and_then(Option::as_mut);
        if let (Ok(processes), Some(Export { whitelist: Some(list), .. })) = (&processes, export) {
            list.retain(|listed| is_running(listed));
            for process in processes {
                if !list.iter().any(|listed| Arc::ptr_eq(listed, process)) {
                    list.push(Arc::clone(process));
                }
            }
        }
        self.forget_processes();
        processes.map(|_| ())
    }

    /// What is behind a handle, for that process.
    pub(super) fn consent(&self, handle: u64, pid: i32) -> Result<(Shareable, Arc<OwnedFd>), Refusal> {
        let export = self.get(handle).ok_or(Refusal::HandleUnknown)?;
        // A process that still runs has kept its number all the time, so the one that has it now is the one that was listed.
        let is_listed =
            |list: &Vec<Arc<Process>>| list.iter().any(|listed| listed.pid() == pid && is_running(listed));
        if export.whitelist.as_ref().is_none_or(is_listed) {
            Ok((export.shareable, Arc::clone(&export.file)))
        } else {
            Err(Refusal::NotPermitted)
        }
    }

    fn get(&self, handle: u64) -> Option<&Export> {
        let export = self.slots.get(slot(handle))?.as_ref()?;
        (export.shareable.handle.get() == handle).then_some(export)
    }

    /// The process that has that number now.
    fn process(&mut self, pid: i32) -> Result<Arc<Process>, VmmError> {
        let known = self.processes.iter().find(|known| known.pid() == pid && is_running(known));
        if let Some(known) = known {
            return Ok(Arc::clone(known));
        }
        let process = Arc::new(Process::open(pid).map_err(|error| match error.errno {
            libc::ESRCH => VmmError::PeerEnded { pid },
            _ => VmmError::Os(error),
        })?);
        self.processes.push(Arc::clone(&process));
        Ok(process)
    }

    /// Closes the descriptors of processes that are on no whitelist any more.
    fn forget_processes(&mut self) {
        self.processes.retain(|process| Arc::strong_count(process) > 1);
    }
}

/// A process has not ended.
fn is_running(process: &Process) -> bool {
    // A descriptor that cannot be asked counts as ended, which only refuses.
    process.has_ended_by(Instant::now()).is_ok_and(|has_ended| !has_ended)
}

/// A handle for a slot: guessing it takes as many tries as there are random numbers, and it is never 0.
fn new_handle(slot: u32) -> Result<NonZeroU64, OsError> {
    loop {
        let random = u64::from(u32::from_le_bytes(random_bytes()?));
        if random != 0
            && let Some(handle) = NonZeroU64::new((random << 32) | u64::from(slot))
        {
            return Ok(handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;

    use bufabi_core::{Access, Identity, OwnerInstanceId};

    use super::*;
    use crate::sys::memfd::{self, Pages};
    use crate::sys::process::current_pid;

    fn request(admission: Admission) -> AllocationRequest {
        let identity = Identity::new(OwnerInstanceId([7; 8]), 9, NonZeroU32::MIN);
        AllocationRequest { identity, nbytes: 5000, access: Access::Read, admission }
    }

    fn insert(exports: &mut Exports, admission: Admission) -> NonZeroU64 {
        let file = Arc::new(memfd::create(c"test", Pages::Ordinary).unwrap());
        exports.insert(file, &request(admission), 3, 1 << 21).unwrap()
    }

    #[test]
    fn a_slot_is_used_again_under_another_handle() {
        let mut exports = Exports::default();
        let first = insert(&mut exports, Admission::Anyone);
        let second = insert(&mut exports, Admission::Anyone);
        assert_eq!((slot(first.get()), slot(second.get())), (0, 1));
        let (shareable, _) = exports.consent(first.get(), 0).unwrap();
        assert_eq!((shareable.handle, shareable.device_id, shareable.mapping_bytes), (first, 3, 1 << 21));
        exports.remove(first).unwrap();
        assert_eq!(exports.remove(first), Err(VmmError::HandleUnknown { handle: first }));
        let third = insert(&mut exports, Admission::Anyone);
        assert_eq!(slot(third.get()), 0);
        assert_ne!(third, first);
        for unknown in [first.get(), 0, u64::MAX, second.get() ^ (1 << 63), 5] {
            assert_eq!(exports.consent(unknown, 0).unwrap_err(), Refusal::HandleUnknown, "{unknown:#x}");
        }
        assert!(exports.consent(second.get(), 0).is_ok() && exports.consent(third.get(), 0).is_ok());
    }

    #[test]
    fn only_listed_processes_that_still_run_are_let_in() {
        let here = current_pid().cast_signed();
        let mut exports = Exports::default();
        let handle = insert(&mut exports, Admission::Listed);
        assert_eq!(exports.consent(handle.get(), here).unwrap_err(), Refusal::NotPermitted);
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let child_pid = child.id().cast_signed();
        exports.permit(handle, &[here, child_pid]).unwrap();
        assert!(exports.consent(handle.get(), here).is_ok());
        assert!(exports.consent(handle.get(), child_pid).is_ok());
        assert_eq!(exports.consent(handle.get(), 0).unwrap_err(), Refusal::NotPermitted);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(
            exports.consent(handle.get(), child_pid).unwrap_err(),
            Refusal::NotPermitted,
            "whoever has its number next is somebody else"
        );
        let gone = exports.permit(handle, &[here, child_pid]);
        assert_eq!(gone, Err(VmmError::PeerEnded { pid: child_pid }));
    }

    #[test]
    fn many_handles_share_one_descriptor_of_a_process() {
        let here = current_pid().cast_signed();
        let mut exports = Exports::default();
        let handles: Vec<_> = (0..20).map(|_| insert(&mut exports, Admission::Listed)).collect();
        for handle in &handles {
            exports.permit(*handle, &[here, here]).unwrap();
            exports.permit(*handle, &[here]).unwrap();
        }
        assert_eq!(exports.processes.len(), 1);
        assert_eq!(Arc::strong_count(&exports.processes[0]), 21, "once on each whitelist");
        for handle in handles {
            exports.remove(handle).unwrap();
        }
        assert_eq!(exports.processes.len(), 0);
    }
}
