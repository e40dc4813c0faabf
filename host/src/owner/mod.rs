//! One endpoint incarnation: what it owns, what holds it, and what it takes to let go of it.

mod backing;
mod buffer;
mod create;
mod error;
mod idle;
mod release;
mod shareable;
#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]
mod tests;
mod wrapped;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bufabi_core::owner_table::{LookupError, OwnerSlot, OwnerTable};
use bufabi_core::wire::descriptor::FieldSet;
use bufabi_core::wire::record::Holds as Record;
use bufabi_core::{Access, Descriptor, Identity, OwnerInstanceId, RawDescriptor, RawTensor, Tensor};

pub use backing::{Made, Resource};
pub use buffer::Buffer;
pub(crate) use error::conflict;
pub use error::{CreateError, FreeError, OwnError, ReleaseError, ReleaseFailure};
pub use wrapped::{WrapError, Wrapped};

use self::backing::Backing;
use self::create::make_object;
use self::idle::Idle;
use self::wrapped::Wraps;
use crate::memory::Mapping;
use crate::sys::OsError;
use crate::sys::memory::slots;
use crate::sys::process::current_pid;
use crate::sys::random::random_bytes;

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
    idle: Idle,
    wraps: Wraps,
    /// Nobody is to find anything of it any more; changed while the table is locked.
    is_withdrawn: AtomicBool,
}

type Table = OwnerTable<Backing, Box<[OwnerSlot<Backing>]>>;

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
    /// As [`new`](Self::new), and ENOMEM when the machine has no memory for so many.
    pub fn with_capacity(capacity: usize) -> Result<Self, OsError> {
        let owner_instance_id = OwnerInstanceId(random_bytes()?);
        let slots = slots(capacity, OwnerSlot::default)?;
        Ok(Self(Arc::new(Shared {
            creator: current_pid(),
            owner_instance_id,
            table: Mutex::new(OwnerTable::new(owner_instance_id, slots)),
            idle: Idle::default(),
            wraps: Wraps::default(),
            is_withdrawn: AtomicBool::new(false),
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
        self.own(nbytes, access, |_| make_object(nbytes))
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
        if tensors.is_empty() {
            return Ok(Holds { endpoint: None, identities: Vec::new() });
        }
        let identities = Vec::with_capacity(tensors.len());
        let mut holds = Holds { endpoint: Some(self.clone()), identities };
        let mut table = self.table();
        for (index, tensor) in tensors.iter().enumerate() {
            let descriptor = tensor.descriptor();
            let identity = descriptor.identity();
            let held = if identity.owner_instance_id() == self.0.owner_instance_id {
                check_claim(&table, &descriptor)
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
    /// [`OwnError`]: what is no longer, or never was, or is claimed otherwise than the owner knows it, or is not mapped here.
    pub fn own_mapping(&self, descriptor: &Descriptor) -> Result<Arc<Mapping>, OwnError> {
        let table = self.table();
        check_claim(&table, descriptor)?;
        let identity = descriptor.identity();
        let mapping = table.live(identity)?.mapping.clone();
        mapping.ok_or(OwnError::NotMapped { backend_kind: descriptor.backend_kind() })
    }

    /// What an identity of this endpoint stands for, if it is alive.
    ///
    /// # Errors
    /// [`OwnError::Owner`]: it was released, is another owner's, or never existed.
    pub fn lookup(&self, identity: Identity) -> Result<Descriptor, OwnError> {
        known(&self.table(), identity)
    }

    /// A descriptor names something alive of this endpoint, and says what the endpoint knows.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup), and [`OwnError::Conflict`].
    pub fn check<H: Record<RawDescriptor>>(&self, descriptor: &Descriptor<H>) -> Result<(), OwnError> {
        check_claim(&self.table(), descriptor)
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
}

/// What stands behind an identity, unless it is still in the making: nobody can know it then.
fn known(table: &Table, identity: Identity) -> Result<Descriptor, OwnError> {
    let in_the_making =
        LookupError::NeverExisted { buffer_id: identity.buffer_id(), generation: identity.generation() };
    Ok(table.live(identity)?.descriptor.ok_or(in_the_making)?)
}

/// A descriptor of this endpoint says what the endpoint knows.
fn check_claim<H: Record<RawDescriptor>>(table: &Table, descriptor: &Descriptor<H>) -> Result<(), OwnError> {
    let identity = descriptor.identity();
    let fields: FieldSet = known(table, identity)?.differences(descriptor);
    if fields.is_empty() { Ok(()) } else { Err(OwnError::Conflict { identity, fields }) }
}

/// What a task that is not finished names of one endpoint. Dropping it lets go.
#[derive(Debug)]
pub struct Holds {
    /// `None` when nothing is held.
    endpoint: Option<Endpoint>,
    identities: Vec<Identity>,
}

impl Drop for Holds {
    fn drop(&mut self) {
        let endpoint = self.endpoint.as_ref().filter(|endpoint| endpoint.check_process().is_ok());
        if let Some(endpoint) = endpoint {
            endpoint.let_go(&self.identities);
        }
    }
}

/// A view of a buffer, as a task argument.
fn tensor(descriptor: &Descriptor, view: &bufabi_core::View) -> Result<Tensor<RawTensor>, OwnError> {
    Tensor::new(descriptor, view).map_err(OwnError::View)
}
