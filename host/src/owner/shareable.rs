//! Buffers of device memory that other processes import by handle.

use std::sync::Arc;

use bufabi_core::{Access, Identity};

use super::{Buffer, CreateError, Endpoint, Made};
use crate::vmm::{Admission, AllocationRequest, MemfdDriver};

impl Endpoint {
    /// Makes a buffer of software device memory: `nbytes` bytes, zero, that grants `access` to whoever imports it. `driver` is
    /// this endpoint's; it permits importers by the handle in the descriptor, and its broker serves them.
    ///
    /// # Errors
    /// [`CreateError`]; nothing is left behind then.
    pub fn create_shareable(
        &self,
        driver: &Arc<MemfdDriver>,
        nbytes: u64,
        access: Access,
        admission: Admission,
    ) -> Result<Buffer, CreateError> {
        self.own(nbytes, access, |identity| make_export(driver, identity, nbytes, access, admission))
    }
}

/// Software device memory with a handle, whose broker's answer names the identity.
pub(super) fn make_export(
    driver: &Arc<MemfdDriver>,
    identity: Identity,
    nbytes: u64,
    access: Access,
    admission: Admission,
) -> Result<Made, CreateError> {
    let request = AllocationRequest { identity, nbytes, access, admission };
    let (mapping, export) = driver.create_export(&request).map_err(CreateError::Vmm)?;
    let body = export.shareable().body();
    Ok(Made { body, mapping: Some(mapping), resource: Some(Box::new(export)) })
}

#[cfg(test)]
mod tests {
    use bufabi_core::wire::body::Body;
    use bufabi_core::{Code, DType};

    use super::*;
    use crate::backend::vmm_shareable::VmmShareable;
    use crate::consumer::{Consumer, Resolution};
    use crate::vmm::memfd::{Broker, MemfdOptions};
    use crate::vmm::{VmmDriver, VmmError};

    fn endpoint() -> (Endpoint, Arc<MemfdDriver>) {
        let endpoint = Endpoint::new().unwrap();
        let driver = MemfdDriver::new(endpoint.owner_instance_id(), 3, MemfdOptions::default());
        (endpoint, Arc::new(driver))
    }

    fn consumer(endpoint: &Endpoint, driver: &Arc<MemfdDriver>) -> Consumer {
        let backend = Box::new(VmmShareable::new(Arc::clone(driver)));
        Consumer::with_backends(Some(endpoint.clone()), vec![backend], 4).unwrap()
    }

    #[test]
    fn a_shareable_buffer_is_ones_own_here_and_imported_elsewhere() {
        let (owner, driver) = endpoint();
        let _broker = Broker::new(&driver).unwrap().spawn().unwrap();
        let mut buffer = owner.create_shareable(&driver, 5000, Access::ReadWrite, Admission::Listed).unwrap();
        let descriptor = buffer.descriptor().unwrap();
        let Body::VmmShareable { device_id: 3, shareable_handle, mapping_bytes: 0x20_0000 } =
            descriptor.body()
        else {
            panic!("{descriptor:?}")
        };
        buffer.mapping().unwrap().write(10, b"device").unwrap();
        let own = consumer(&owner, &driver).import(&descriptor).unwrap();
        assert_eq!(own.resolution(), Resolution::Own);
        drop(own);
        let (other, other_driver) = endpoint();
        let elsewhere = consumer(&other, &other_driver);
        assert_eq!(elsewhere.import(&descriptor).unwrap_err().code(), Code::VmmNotPermitted);
        driver.permit(shareable_handle, &[other_driver.peer_number().unwrap()]).unwrap();
        let import = elsewhere.import(&descriptor).unwrap();
        let mut found = [0; 6];
        import.read(10, &mut found).unwrap();
        assert_eq!(&found, b"device");
        // A task holds it; then it goes, its mappings elsewhere do not.
        let tensor = buffer.row_major(0, DType::Uint8, &[5000]).unwrap();
        let holds = owner.hold(&[tensor]).unwrap();
        assert_eq!(buffer.release().unwrap_err().code(), Code::Busy);
        drop(holds);
        buffer.release().unwrap();
        assert!(buffer.release().is_err() && owner.live() == 0);
        import.read(10, &mut found).unwrap();
        let handle = shareable_handle;
        assert_eq!(driver.revoke(handle), Err(VmmError::HandleUnknown { handle }), "it was revoked");
        assert_eq!(
            consumer(&endpoint().0, &endpoint().1).import(&descriptor).unwrap_err().code(),
            Code::VmmHandleUnknown
        );
    }

    #[test]
    fn what_cannot_be_made_leaves_no_identity() {
        let (owner, driver) = endpoint();
        let (_, foreign) = endpoint();
        let make = |driver, nbytes| owner.create_shareable(driver, nbytes, Access::Read, Admission::Anyone);
        assert_eq!(make(&driver, 0).unwrap_err().code(), Code::NbytesZero);
        assert_eq!(make(&driver, 1 << 50).unwrap_err().code(), Code::NoSpace);
        assert_eq!(make(&foreign, 5000).unwrap_err().code(), Code::VmmMismatch);
        assert_eq!(owner.live(), 0);
        let buffer = make(&driver, 5000).unwrap();
        assert_eq!(buffer.identity().buffer_id(), 1);
        drop(buffer);
        assert_eq!(owner.live(), 0);
    }
}
