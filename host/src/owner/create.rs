//! Making what an endpoint owns: the identity is given out first, since what is made may have to know it, and taken back if
//! nothing is made.

use core::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bufabi_core::owner_table::OwnerTableFull;
use bufabi_core::wire::body::Body;
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{Access, Descriptor, Identity};

use super::backing::Backing;
use super::{Buffer, CreateError, Endpoint, Made};
use crate::shm;
use crate::vmm::{Admission, MemfdDriver};

impl Endpoint {
    /// Owns what `make` makes for an identity of its own: `nbytes` bytes that grant `access`. Nobody can name it before it is
    /// made, and while it is made the endpoint can do other things.
    ///
    /// # Errors
    /// [`CreateError`], and those of `make`; what was made is dropped then, and the identity means nothing.
    pub fn own<E: From<CreateError>>(
        &self,
        nbytes: u64,
        access: Access,
        make: impl FnOnce(Identity) -> Result<Made, E>,
    ) -> Result<Buffer, E> {
        self.check_creator()?;
        if nbytes == 0 {
            return Err(CreateError::NbytesZero.into());
        }
        let inserted = self.table().insert(Backing::IN_THE_MAKING);
        let identity = inserted.map_err(full)?;
        let entry = Entry { endpoint: self, identity };
        Ok(entry.fill(make(identity)?, nbytes, access)?)
    }

    /// As [`own`](Self::own), two at once or none. The second one's `buffer_id` is one more than the first one's.
    ///
    /// # Errors
    /// As [`own`](Self::own).
    pub fn own_pair<E: From<CreateError>>(
        &self,
        nbytes: [u64; 2],
        access: Access,
        mut make: impl FnMut(Identity, u64) -> Result<Made, E>,
    ) -> Result<[Buffer; 2], E> {
        self.check_creator()?;
        if nbytes.contains(&0) {
            return Err(CreateError::NbytesZero.into());
        }
        let inserted = self.table().insert_pair([Backing::IN_THE_MAKING; 2]);
        let [first, second] = inserted.map_err(full)?.map(|identity| Entry { endpoint: self, identity });
        let [first_nbytes, second_nbytes] = nbytes;
        let first_made = make(first.identity, first_nbytes)?;
        let second_made = make(second.identity, second_nbytes)?;
        // If the second one fails, the first one goes with its handle.
        Ok([first.fill(first_made, first_nbytes, access)?, second.fill(second_made, second_nbytes, access)?])
    }

    /// Makes two buffers of POSIX shared memory, zero, for reading and writing, both or none. The second one's `buffer_id` is one
    /// more than the first one's.
    ///
    /// # Errors
    /// [`CreateError`]; nothing is left behind then.
    pub fn create_pair(&self, nbytes: [u64; 2]) -> Result<[Buffer; 2], CreateError> {
        self.own_pair(nbytes, Access::ReadWrite, |_, nbytes| make_object(nbytes))
    }

    /// As [`create_pair`](Self::create_pair), of software device memory. `driver` is this endpoint's.
    ///
    /// # Errors
    /// [`CreateError`]; nothing is left behind then.
    pub fn create_shareable_pair(
        &self,
        driver: &Arc<MemfdDriver>,
        nbytes: [u64; 2],
        admission: Admission,
    ) -> Result<[Buffer; 2], CreateError> {
        let access = Access::ReadWrite;
        self.own_pair(nbytes, access, |identity, nbytes| {
            super::shareable::make_export(driver, identity, nbytes, access, admission)
        })
    }
}

impl Endpoint {
    /// This is the process that made the endpoint.
    pub(crate) fn check_creator(&self) -> Result<(), CreateError> {
        self.check_process().map_err(|(creator, here)| CreateError::Forked { creator, here })
    }
}

/// A new POSIX shared-memory object.
pub(super) fn make_object(nbytes: u64) -> Result<Made, CreateError> {
    let (name, mapping) = shm::create(nbytes).map_err(CreateError::Shm)?;
    let body = Body::PosixShm { name: name.name() };
    Ok(Made { body, mapping: Some(mapping), resource: Some(Box::new(name)) })
}

fn full<T>(error: OwnerTableFull<T>) -> CreateError {
    CreateError::Full { capacity: error.capacity }
}

/// An identity that was given out, and means nothing until what it stands for is made. Dropped before, it is taken back.
struct Entry<'a> {
    endpoint: &'a Endpoint,
    identity: Identity,
}

impl Entry<'_> {
    fn fill(self, made: Made, nbytes: u64, access: Access) -> Result<Buffer, CreateError> {
        let Self { endpoint, identity } = self;
        let fields = DescriptorFields { identity, access, nbytes, owner_worker_path_id: 0, body: made.body };
        let descriptor = Descriptor::new(&fields).map_err(CreateError::Descriptor)?;
        let mapping = made.mapping.map(Arc::new);
        let mut table = endpoint.table();
        let entered = table.get_mut(identity).map_err(|error| CreateError::Own(error.into()))?;
        *entered = Backing {
            descriptor: Some(descriptor),
            mapping: mapping.clone(),
            resource: made.resource,
            is_abandoned: false,
        };
        let unfound = endpoint.0.is_withdrawn.load(Ordering::Relaxed).then(|| entered.resource.take());
        drop(table);
        drop(unfound);
        // It means something now.
        let _ = ManuallyDrop::new(self);
        Ok(Buffer::new(endpoint.clone(), descriptor, mapping))
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let mut table = self.endpoint.table();
        // It is in the table, and nobody can have held it.
        let _ = table.begin_release(self.identity);
        drop(table.finish_release(self.identity));
    }
}
