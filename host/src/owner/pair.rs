//! Two buffers in one step: the parts of a region.

use std::sync::Arc;

use bufabi_core::owner_table::InsertError;
use bufabi_core::wire::body::Body;
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{Access, Descriptor};

use super::{Backing, Buffer, CreateError, Endpoint};
use crate::shm;

impl Endpoint {
    /// Makes two buffers of POSIX shared memory, zero, for reading and writing, both or none. The second one's `buffer_id` is one
    /// more than the first one's.
    ///
    /// # Errors
    /// [`CreateError`]; nothing is left behind then.
    pub fn create_pair(&self, nbytes: [u64; 2]) -> Result<[Buffer; 2], CreateError> {
        self.check_process().map_err(|(creator, here)| CreateError::Forked { creator, here })?;
        let [first, second] = nbytes.map(|nbytes| shm::create(nbytes).map_err(CreateError::Shm));
        let made = [first?, second?].map(|(name, mapping)| (name, Arc::new(mapping)));
        let mut kept = None;
        let mut table = self.table();
        let inserted = table.insert_pair_with(|[first, second]| {
            let describe = |identity, name, nbytes| {
                let access = Access::ReadWrite;
                let body = Body::PosixShm { name };
                Descriptor::new(&DescriptorFields { identity, access, nbytes, owner_worker_path_id: 0, body })
            };
            let [(first_name, first_mapping), (second_name, second_mapping)] = made;
            let [first_nbytes, second_nbytes] = nbytes;
            let descriptors = [
                describe(first, first_name.name(), first_nbytes)?,
                describe(second, second_name.name(), second_nbytes)?,
            ];
            kept = Some((descriptors, [Arc::clone(&first_mapping), Arc::clone(&second_mapping)]));
            let [first, second] = descriptors;
            let backing = |descriptor, mapping, name| Backing {
                descriptor,
                mapping: Some(mapping),
                name: Some(name),
                export: None,
                is_abandoned: false,
            };
            Ok([backing(first, first_mapping, first_name), backing(second, second_mapping, second_name)])
        });
        drop(table);
        match (inserted, kept) {
            (Ok(_), Some(([first, second], [first_mapping, second_mapping]))) => Ok([
                Buffer::new(self.clone(), first, first_mapping),
                Buffer::new(self.clone(), second, second_mapping),
            ]),
            (Err(InsertError::Make(error)), _) => Err(CreateError::Descriptor(error)),
            (Err(InsertError::Full { capacity }), _) => Err(CreateError::Full { capacity }),
            // What was entered was made.
            (Ok(_), None) => Err(CreateError::Full { capacity: 0 }),
        }
    }
}
