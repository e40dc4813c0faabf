//! One endpoint incarnation: what it owns, what holds it, and what it takes to let go of it.

mod buffer;
mod error;
mod pair;
mod shareable;
#[cfg(test)]
mod tests;
mod wrapped;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bufabi_core::owner_table::{InsertError, OwnerError, OwnerSlot, OwnerTable};
use bufabi_core::wire::body::Body;
use bufabi_core::wire::descriptor::{DescriptorFields, FieldSet};
use bufabi_core::{Access, Descriptor, Identity, OwnerInstanceId, RawTensor, Tensor};

pub use buffer::Buffer;
pub(crate) use error::conflict;
pub use error::{CreateError, OwnError, ReleaseError, ReleaseFailure};
pub use wrapped::{WrapError, Wrapped};

use self::wrapped::Wraps;
use crate::memory::Mapping;
use crate::shm::{self, OwnedName};
use crate::sys::OsError;
use crate::sys::process::current_pid;
use crate::sys::random::random_bytes;
use crate::vmm::memfd::MemfdExport;

/// Identities that an endpoint has alive at once, unless its maker says otherwise.
pub const DEFAULT_CAPACITY: usize = 65_536;

/// An endpoint incarnation. It belongs to the process that made it; clones are the same endpoint.
#[derive(Clone, Debug)]
pub struct Endpoint(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    creator: u32,
    owner_instance_id: OwnerInstanceId,
    table: Mutex<Table>,
    /// Told whenever nothing holds some buffer any more.
    idle: Condvar,
    wraps: Wraps,
}

type Table = OwnerTable<Backing, Box<[OwnerSlot<Backing>]>>;

/// What stands behind an identity.
#[derive(Debug)]
struct Backing {
    descriptor: Descriptor,
    /// `None` once it was unmapped.
    mapping: Option<Arc<Mapping>>,
    /// `None` once it was unlinked.
    name: Option<OwnedName>,
    /// `None` for what has no handle, and once it was revoked.
    export: Option<MemfdExport>,
    /// Nobody is left who could release it: that is up to the last task that holds it.
    is_abandoned: bool,
}

impl Endpoint {
    /// A new incarnation, of this process alone.
    ///
    /// # Errors
    /// [`OsError`] when no random bytes can be had.
    pub fn new() -> Result<Self, OsError> {
        Self::with_capacity(DEFAULT_CAPACITY)
    }

    /// As [`new`](Self::new), with so many identities alive at once.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_capacity(capacity: usize) -> Result<Self, OsError> {
        let owner_instance_id = OwnerInstanceId(random_bytes()?);
        let slots = core::iter::repeat_with(OwnerSlot::default).take(capacity).collect();
        Ok(Self(Arc::new(Shared {
            creator: current_pid(),
            owner_instance_id,
            table: Mutex::new(OwnerTable::new(owner_instance_id, slots)),
            idle: Condvar::new(),
            wraps: Wraps::default(),
        })))
    }

    /// Its name, the first part of every identity that it gives out.
    #[must_use]
    pub fn owner_instance_id(&self) -> OwnerInstanceId {
        self.0.owner_instance_id
    }

    /// Makes a buffer: a POSIX shared-memory object of `nbytes` bytes, zero, that grants `access` to its consumers.
    ///
    /// # Errors
    /// [`CreateError`]; nothing is left behind then.
    pub fn create_buffer(&self, nbytes: u64, access: Access) -> Result<Buffer, CreateError> {
        self.check_process().map_err(|(creator, here)| CreateError::Forked { creator, here })?;
        let (name, mapping) = shm::create(nbytes).map_err(CreateError::Shm)?;
        let mapping = Arc::new(mapping);
        let kept = Arc::clone(&mapping);
        let mut table = self.table();
        let identity = table.insert_with(|identity| {
            let body = Body::PosixShm { name: name.name() };
            let fields = DescriptorFields { identity, access, nbytes, owner_worker_path_id: 0, body };
            let descriptor = Descriptor::new(&fields)?;
            Ok(Backing {
                descriptor,
                mapping: Some(mapping),
                name: Some(name),
                export: None,
                is_abandoned: false,
            })
        });
        let identity = identity.map_err(|error| match error {
            InsertError::Full { capacity } => CreateError::Full { capacity },
            InsertError::Make(error) => CreateError::Descriptor(error),
        })?;
        let descriptor = table.get(identity).map(|owned| owned.value.descriptor);
        drop(table);
        let descriptor = descriptor.map_err(|error| CreateError::Own(error.into()))?;
        Ok(Buffer::new(self.clone(), descriptor, kept))
    }

    /// Buffers that are alive, those whose release has begun included.
    #[must_use]
    pub fn live(&self) -> u32 {
        self.table().len()
    }

    /// A task names these tensors: those of this endpoint, and those that it wraps, cannot be released until the answer is
    /// dropped. All or none.
    ///
    /// # Errors
    /// The index of the first tensor that is not to be had any more, or never was, and why.
    pub fn hold(&self, tensors: &[Tensor]) -> Result<Holds, (usize, OwnError)> {
        let mut holds = Holds { endpoint: self.clone(), identities: Vec::new() };
        let mut table = self.table();
        for (index, tensor) in tensors.iter().enumerate() {
            let descriptor = tensor.descriptor();
            let identity = descriptor.identity();
            let held = if identity.owner_instance_id() == self.0.owner_instance_id {
                check_claim(&table, &descriptor.to_owned())
                    .and_then(|()| table.hold(identity).map_err(OwnError::Owner))
                    .map(|_| true)
            } else {
                self.0.wraps.hold(&descriptor.to_owned())
            };
            match held {
                Ok(true) => holds.identities.push(identity),
                // Somebody else's, and not wrapped here.
                Ok(false) => {}
                Err(error) => {
                    drop(table);
                    return Err((index, error));
                }
            }
        }
        Ok(holds)
    }

    /// The mapping behind a descriptor of this endpoint: its consumers in this process use the owner's own.
    ///
    /// # Errors
    /// [`OwnError`]: what is no longer, or never was, or is claimed otherwise than the owner knows it.
    pub fn own_mapping(&self, descriptor: &Descriptor) -> Result<Arc<Mapping>, OwnError> {
        let table = self.table();
        check_claim(&table, descriptor)?;
        let identity = descriptor.identity();
        let backing = table.live(identity)?;
        backing.mapping.clone().ok_or(OwnError::Owner(OwnerError::Closing { identity }))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Every step on the table is whole, so a panic elsewhere leaves it as it should be.
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This is the process that made the endpoint; else both numbers.
    fn check_process(&self) -> Result<(), (u32, u32)> {
        let here = current_pid();
        if here == self.0.creator { Ok(()) } else { Err((self.0.creator, here)) }
    }

    /// Descriptor and tensors come only from what is alive.
    fn check_live(&self, identity: Identity) -> Result<(), OwnError> {
        self.table().live(identity)?;
        Ok(())
    }

    /// Lets go of a buffer: deciding and closing are one step, unmapping and unlinking each happen at most once, and both are tried.
    /// `kept` is the mapping that the buffer itself holds; it is gone after the first attempt that was not refused.
    fn release(&self, identity: Identity, kept: &mut Option<Arc<Mapping>>) -> Result<(), ReleaseError> {
        self.check_process().map_err(|(creator, here)| ReleaseError::Forked { creator, here })?;
        let mut table = self.table();
        let owned = table.get(identity).map_err(|error| ReleaseError::Owner(error.into()))?;
        if owned.holds > 0 {
            return Err(ReleaseError::Owner(OwnerError::Busy { identity, holds: owned.holds }));
        }
        // The table's own count, the buffer's while it has it, and one for each view that is alive. None can be added while
        // the table is locked, since a view comes from the table or from the buffer, which is borrowed here.
        let ours = usize::from(kept.is_some()).saturating_add(1);
        let views = owned.value.mapping.as_ref().map_or(0, |mapping| {
            // The last user's loads and stores come before what follows.
            std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
            Arc::strong_count(mapping).saturating_sub(ours)
        });
        if views > 0 {
            return Err(ReleaseError::ViewsAlive { identity, views });
        }
        let backing = table.begin_release(identity).map_err(ReleaseError::Owner)?;
        *kept = None;
        backing.export = None;
        // It is closing: nobody else comes near it, and the table need not wait for the operating system.
        let (mut mapping, mut name) = (backing.mapping.take(), backing.name.take());
        drop(table);
        let taken_down = take_down(&mut mapping, &mut name);
        let mut table = self.table();
        match taken_down {
            Ok(()) => table.finish_release(identity).map(drop).map_err(ReleaseError::Owner),
            Err(failure) => {
                if let Ok(backing) = table.get_mut(identity) {
                    (backing.mapping, backing.name) = (mapping, name);
                }
                Err(ReleaseError::Failed { identity, failure })
            }
        }
    }

    /// As [`release`](Self::release), once no task holds it any more; nothing new comes from it from now on.
    fn release_when_idle(
        &self,
        identity: Identity,
        kept: &mut Option<Arc<Mapping>>,
        until: Instant,
    ) -> Result<(), ReleaseError> {
        self.check_process().map_err(|(creator, here)| ReleaseError::Forked { creator, here })?;
        let mut table = self.table();
        let mut holds = table.begin_release_when_idle(identity).map_err(ReleaseError::Owner)?;
        while holds > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ReleaseError::TimedOut { identity, holds });
            }
            let waited = self.0.idle.wait_timeout(table, left);
            table = waited.unwrap_or_else(PoisonError::into_inner).0;
            holds = table.get(identity).map_err(|error| ReleaseError::Owner(error.into()))?.holds;
        }
        drop(table);
        self.release(identity, kept)
    }

    /// The buffer is dropped without a release, or with one that did not get through: what can be taken down is, now or when the last
    /// task that holds it is done. Views that are alive keep the mapping.
    fn abandon(&self, identity: Identity) {
        if self.check_process().is_err() {
            return;
        }
        let mut table = self.table();
        match table.begin_release_when_idle(identity) {
            Ok(0) => drop(table.finish_release(identity)),
            Ok(_) => {
                if let Ok(backing) = table.get_mut(identity) {
                    backing.is_abandoned = true;
                }
            }
            // It was released.
            Err(_) => {}
        }
    }
}

/// Unmaps and unlinks what is not yet, trying both; what failed is left for another try.
fn take_down(mapping: &mut Option<Arc<Mapping>>, name: &mut Option<OwnedName>) -> Result<(), ReleaseFailure> {
    // Nobody else has the mapping, which the caller has checked.
    let unmap = mapping.take().and_then(Arc::into_inner).and_then(|last| last.unmap().err());
    let unmap = unmap.map(|(last, error)| {
        *mapping = Some(Arc::new(last));
        error
    });
    let unlink = name.as_mut().and_then(|name| name.unlink().err());
    if unlink.is_none() {
        *name = None;
    }
    if unmap.is_none() && unlink.is_none() { Ok(()) } else { Err(ReleaseFailure { unmap, unlink }) }
}

/// A descriptor of this endpoint says what the endpoint knows.
fn check_claim(table: &Table, descriptor: &Descriptor) -> Result<(), OwnError> {
    let identity = descriptor.identity();
    let known = &table.live(identity)?.descriptor;
    let fields: FieldSet = known.differences(descriptor);
    if fields.is_empty() { Ok(()) } else { Err(OwnError::Conflict { identity, fields }) }
}

/// What a task that is not finished names of one endpoint. Dropping it lets go.
#[derive(Debug)]
pub struct Holds {
    endpoint: Endpoint,
    identities: Vec<Identity>,
}

impl Drop for Holds {
    fn drop(&mut self) {
        if self.identities.is_empty() || self.endpoint.check_process().is_err() {
            return;
        }
        let mut table = self.endpoint.table();
        for &identity in &self.identities {
            if identity.owner_instance_id() != self.endpoint.0.owner_instance_id {
                self.endpoint.0.wraps.unhold(identity);
                continue;
            }
            if table.unhold(identity) == Ok(0) {
                let is_abandoned = table.get(identity).is_ok_and(|owned| owned.value.is_abandoned);
                if is_abandoned {
                    drop(table.finish_release(identity));
                }
                self.endpoint.0.idle.notify_all();
            }
        }
    }
}

/// A view of a buffer, as a task argument.
fn tensor(descriptor: &Descriptor, view: &bufabi_core::View) -> Result<Tensor<RawTensor>, OwnError> {
    Tensor::new(descriptor, view).map_err(OwnError::View)
}
