//! VMM_SHAREABLE: device memory, imported by handle. This CPU reaches it where the driver is software; through the driver of a
//! device it would not, so a host's consumer has no such backend.

use std::sync::Arc;

use bufabi_core::Descriptor;
use bufabi_core::wire::backend::BackendKind;

use super::{Backend, ResolveError};
use crate::memory::Mapping;
use crate::vmm::MemfdDriver;

/// Reaches software device memory.
#[derive(Clone, Debug)]
pub struct VmmShareable {
    driver: Arc<MemfdDriver>,
}

impl VmmShareable {
    /// Imports through that driver.
    #[must_use]
    pub const fn new(driver: Arc<MemfdDriver>) -> Self {
        Self { driver }
    }
}

impl Backend for VmmShareable {
    fn kind(&self) -> BackendKind {
        BackendKind::VmmShareable
    }

    fn map(&self, descriptor: &Descriptor) -> Result<Mapping, ResolveError> {
        self.driver.map_import(descriptor).map_err(ResolveError::Vmm)
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;

    use bufabi_core::{Access, Code, DType, Identity, OwnerInstanceId, View};

    use super::*;
    use crate::consumer::{Consumer, Resolution};
    use crate::sys::random::random_bytes;
    use crate::vmm::memfd::{Broker, MemfdOptions};
    use crate::vmm::{Admission, AllocationRequest, SharedAllocation, VmmDriver};

    fn driver() -> Arc<MemfdDriver> {
        let owner = OwnerInstanceId(random_bytes().unwrap());
        Arc::new(MemfdDriver::new(owner, 0, MemfdOptions::default()))
    }

    fn allocate(driver: &Arc<MemfdDriver>, id: u64, access: Access) -> SharedAllocation<MemfdDriver> {
        let identity = Identity::new(driver.owner_instance_id(), id, NonZeroU32::MIN);
        let request = AllocationRequest { identity, nbytes: 5000, access, admission: Admission::Anyone };
        SharedAllocation::new(driver, &request).unwrap()
    }

    #[test]
    fn a_consumer_maps_once_what_the_owner_exports_and_only_its_bytes_are_reached() {
        let owner = driver();
        let _broker = Broker::new(&owner).unwrap().spawn().unwrap();
        let allocation = allocate(&owner, 1, Access::Read);
        allocation.copy_to(4996, &7_u32.to_le_bytes()).unwrap();
        let backend = Box::new(VmmShareable::new(driver()));
        let consumer = Consumer::with_backends(None, vec![backend], 4).unwrap();
        let descriptor = allocation.descriptor(0).unwrap();
        let import = consumer.import(&descriptor).unwrap();
        assert_eq!(import.resolution(), Resolution::MappedNow);
        assert_eq!(consumer.import(&descriptor).unwrap().resolution(), Resolution::AlreadyMapped);
        let mut found = [0; 4];
        import.read(4996, &mut found).unwrap();
        assert_eq!(u32::from_le_bytes(found), 7);
        assert_eq!(import.nbytes(), 5000);
        assert!(import.read(4997, &mut found).is_err());
        assert!(import.write(0, b"x").is_err());
        let view = View::row_major(0, DType::Int32, &[1250], 5000).unwrap();
        assert!(!import.operand(view).unwrap().access().writes());
        drop(import);
        consumer.release(descriptor.identity()).unwrap();
        assert_eq!(consumer.counters().live, 0);
    }

    #[test]
    fn a_refusal_leaves_the_consumer_as_it_was() {
        let owner = driver();
        let broker = Broker::new(&owner).unwrap().spawn().unwrap();
        let mut allocation = allocate(&owner, 1, Access::ReadWrite);
        let descriptor = allocation.descriptor(0).unwrap();
        allocation.revoke().unwrap();
        let backend = Box::new(VmmShareable::new(driver()));
        let consumer = Consumer::with_backends(None, vec![backend], 4).unwrap();
        assert_eq!(consumer.import(&descriptor).unwrap_err().code(), Code::VmmHandleUnknown);
        drop(broker);
        assert_eq!(consumer.counters().live, 0);
        let none = Consumer::new(None).unwrap();
        assert_eq!(none.import(&descriptor).unwrap_err().code(), Code::NotResolvable);
    }
}
