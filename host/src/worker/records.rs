//! What a parent knows of the memory that chips below it own: which identities are live, on which chip, and what names them.
//!
//! The chips know it themselves and check every task; what is recorded here is refused earlier, before anything is sent.

use core::fmt;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bufabi_core::wire::backend::BackendKind;
use bufabi_core::{Code, Descriptor, Identity, OwnerInstanceId, RawTensor, Tensor};

use super::reply::WorkerId;
use crate::owner::{Holds, OwnError};

/// Why a task may not name device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceNameError {
    /// It is memory of another chip than the one that the task goes to, or the task goes to no chip.
    OtherChip {
        /// Whose it is; `None` for a chip that is not among these workers, or an incarnation that has ended.
        owner: Option<WorkerId>,
        /// Where the task goes.
        target: WorkerId,
        /// Which memory.
        identity: Identity,
    },
    /// This process's own endpoint wrapped it, which is no chip: that such memory is there, and whose, only its chip can say.
    OfHost {
        /// Which memory.
        identity: Identity,
    },
    /// It is not live there: it was freed, or never existed.
    NotLive {
        /// The chip.
        owner: WorkerId,
        /// Which memory.
        identity: Identity,
    },
    /// The descriptor claims something else than the chip said.
    Claim(OwnError),
}

/// Device memory that is live.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) worker: WorkerId,
    pub(super) descriptor: Descriptor,
    /// Tasks that name it and are not over.
    pub(super) holds: u32,
    /// It goes with the others of its domain.
    pub(super) is_in_domain: bool,
}

/// The device memory that is live below a parent.
#[derive(Clone, Debug, Default)]
pub(super) struct Records(Arc<Mutex<HashMap<Identity, Record>>>);

/// What a task that is not over names, of this process's endpoint and of the chips below. Dropping it lets go.
#[derive(Debug)]
pub(super) struct TaskHolds {
    pub(super) _own: Holds,
    pub(super) _device: DeviceHolds,
}

/// What a task that is not over names of device memory. Dropping it lets go.
#[derive(Debug)]
pub(super) struct DeviceHolds {
    /// `None` when nothing is held.
    records: Option<Records>,
    identities: Vec<Identity>,
}

impl Records {
    fn lock(&self) -> MutexGuard<'_, HashMap<Identity, Record>> {
        // Every step on it is whole, so a panic elsewhere leaves it as it should be.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, record: Record) {
        self.lock().insert(record.descriptor.identity(), record);
    }

    pub(super) fn get(&self, identity: Identity) -> Option<Record> {
        self.lock().get(&identity).copied()
    }

    /// Takes records out, all or none: deciding and revoking are one step, so that no submit slips between.
    ///
    /// # Errors
    /// The first one that tasks hold, and how many.
    pub(super) fn revoke(&self, identities: &[Identity]) -> Result<(), (Identity, u32)> {
        let mut records = self.lock();
        for &identity in identities {
            if let Some(&Record { holds, .. }) = records.get(&identity)
                && holds > 0
            {
                return Err((identity, holds));
            }
        }
        for identity in identities {
            records.remove(identity);
        }
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// A task for `target` names these tensors: what they name of device memory is live where it has to be, and cannot be freed
    /// until the answer is dropped. All or none.
    ///
    /// # Errors
    /// The index of the first tensor that names memory that it may not, and why.
    pub(super) fn hold(
        &self,
        tensors: &[Tensor],
        target: WorkerId,
        here: OwnerInstanceId,
        owner: impl Fn(OwnerInstanceId) -> Option<WorkerId>,
    ) -> Result<DeviceHolds, (usize, DeviceNameError)> {
        let mut holds = DeviceHolds { records: None, identities: Vec::new() };
        for (index, tensor) in tensors.iter().enumerate() {
            let held = self.hold_one(tensor, target, here, &owner);
            if let Some(identity) = held.map_err(|error| (index, error))? {
                holds.records.get_or_insert_with(|| self.clone());
                holds.identities.push(identity);
            }
        }
        Ok(holds)
    }

    fn hold_one(
        &self,
        tensor: &Tensor<RawTensor>,
        target: WorkerId,
        here: OwnerInstanceId,
        owner: impl Fn(OwnerInstanceId) -> Option<WorkerId>,
    ) -> Result<Option<Identity>, DeviceNameError> {
        let descriptor = tensor.descriptor();
        let is_chips_own = match descriptor.backend_kind() {
            BackendKind::DeviceMalloc | BackendKind::VmmWindow => true,
            // Any process that is permitted may import it.
            BackendKind::VmmShareable => false,
            BackendKind::ForkShm
            | BackendKind::PosixShm
            | BackendKind::RemoteSidecar
            | BackendKind::ForkCow => return Ok(None),
        };
        let identity = descriptor.identity();
        if is_chips_own && identity.owner_instance_id() == here {
            return Err(DeviceNameError::OfHost { identity });
        }
        let owner = owner(identity.owner_instance_id());
        if is_chips_own && owner != Some(target) {
            return Err(DeviceNameError::OtherChip { owner, target, identity });
        }
        // What somebody else exports by handle is not recorded here.
        let Some(owner) = owner else { return Ok(None) };
        let mut records = self.lock();
        let record = records.get_mut(&identity).ok_or(DeviceNameError::NotLive { owner, identity })?;
        let fields = record.descriptor.differences(&descriptor);
        if !fields.is_empty() {
            return Err(DeviceNameError::Claim(OwnError::Conflict { identity, fields }));
        }
        record.holds = record.holds.saturating_add(1);
        Ok(Some(identity))
    }
}

impl DeviceNameError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::OtherChip { .. } | Self::OfHost { .. } => Code::DeviceOtherChip,
            Self::NotLive { .. } => Code::DeviceNotLive,
            Self::Claim(error) => error.code(),
        }
    }
}

impl fmt::Display for DeviceNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherChip { owner: Some(owner), target, identity } => write!(
                f,
                "{identity} is memory of worker number {}, and the task goes to number {}",
                owner.0, target.0
            ),
            Self::OtherChip { owner: None, target, identity } => write!(
                f,
                "{identity} is memory of a chip that is not there, and the task goes to worker number {}",
                target.0
            ),
            Self::OfHost { identity } => write!(
                f,
                "{identity} is device memory that this process has named, and only the chip that owns it can name it for tasks"
            ),
            Self::NotLive { owner, identity } => {
                write!(f, "{identity} is no live memory of worker number {}", owner.0)
            }
            Self::Claim(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DeviceNameError {}

impl Drop for DeviceHolds {
    fn drop(&mut self) {
        let Some(records) = &self.records else { return };
        let mut records = records.lock();
        for identity in &self.identities {
            if let Some(record) = records.get_mut(identity) {
                record.holds = record.holds.saturating_sub(1);
            }
        }
    }
}
