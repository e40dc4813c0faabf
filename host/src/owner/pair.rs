//! Two buffers in one step: the parts of a region.

use std::sync::Arc;

use bufabi_core::owner_table::InsertError;
use bufabi_core::wire::body::Body;
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{Access, Descriptor, Identity};

use super::{Backing, Buffer, CreateError, Endpoint};
use crate::shm;
use crate::vmm::{Admission, AllocationRequest, MemfdDriver};

impl Endpoint {
    /// Makes two buffers of POSIX shared memory, zero, for reading and writing, both or none. The second one's `buffer_id` is one
    /// more than the first one's.
    ///
    /// # Errors
    /// [`CreateError`]; nothing is left behind then.
    pub fn create_pair(&self, nbytes: [u64; 2]) -> Result<[Buffer; 2], CreateError> {
        self.check_process().map_err(|(creator, here)| CreateError::Forked { creator, here })?;
        let [first, second] = nbytes.map(|nbytes| shm::create(nbytes).map_err(CreateError::Shm));
        let mut made = [first?, second?].into_iter().zip(nbytes);
        self.enter_pair(|identity| {
            // There is one for each of the two identities.
            let Some(((name, mapping), nbytes)) = made.next() else {
                return Err(CreateError::Full { capacity: 0 });
            };
            let body = Body::PosixShm { name: name.name() };
            let access = Access::ReadWrite;
            let fields = DescriptorFields { identity, access, nbytes, owner_worker_path_id: 0, body };
            let descriptor = Descriptor::new(&fields).map_err(CreateError::Descriptor)?;
            let mapping = Some(Arc::new(mapping));
            Ok(Backing { descriptor, mapping, name: Some(name), export: None, is_abandoned: false })
        })
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
        self.check_process().map_err(|(creator, here)| CreateError::Forked { creator, here })?;
        let mut sizes = nbytes.into_iter();
        self.enter_pair(|identity| {
            let nbytes = sizes.next().unwrap_or(0);
            let request = AllocationRequest { identity, nbytes, access: Access::ReadWrite, admission };
            let (mapping, export) = driver.create_export(&request).map_err(CreateError::Vmm)?;
            let descriptor = export.shareable().descriptor(0).map_err(CreateError::Descriptor)?;
            let (mapping, export) = (Some(Arc::new(mapping)), Some(export));
            Ok(Backing { descriptor, mapping, name: None, export, is_abandoned: false })
        })
    }

    /// Gives out two identities and enters what `make` makes for the first one and then for the second one, or nothing.
    fn enter_pair(
        &self,
        mut make: impl FnMut(Identity) -> Result<Backing, CreateError>,
    ) -> Result<[Buffer; 2], CreateError> {
        let mut table = self.table();
        let inserted = table.insert_pair_with(|[first, second]| Ok([make(first)?, make(second)?]));
        let identities = inserted.map_err(|error| match error {
            InsertError::Full { capacity } => CreateError::Full { capacity },
            InsertError::Make(error) => error,
        })?;
        let [first, second] = identities.map(|identity| {
            let backing = table.live(identity).map_err(|error| CreateError::Own(error.into()))?;
            // What was just made is mapped.
            let mapping = backing.mapping.clone().ok_or(CreateError::Full { capacity: 0 })?;
            Ok(Buffer::new(self.clone(), backing.descriptor, mapping))
        });
        drop(table);
        Ok([first?, second?])
    }
}
