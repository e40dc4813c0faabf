//! What a descriptor of VMM_SHAREABLE claims: everything that an importer has to go by.

use core::num::NonZeroU64;

use bufabi_core::wire::body::Body;
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::wire::record::Holds;
use bufabi_core::{Access, Descriptor, DescriptorError, Identity, RawDescriptor};

use super::VmmError;

/// A descriptor's claim about memory that is shared by handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shareable {
    /// The allocation's name.
    pub identity: Identity,
    /// What the owner grants.
    pub access: Access,
    /// Bytes of the backing, the first ones of those that are mapped.
    pub nbytes: u64,
    /// The exporter's device.
    pub device_id: i32,
    /// The driver's handle.
    pub handle: NonZeroU64,
    /// Bytes to map, at least `nbytes`.
    pub mapping_bytes: u64,
}

impl Shareable {
    /// What a descriptor claims.
    ///
    /// # Errors
    /// [`VmmError::NotShareable`] for one of another backend, [`VmmError::DeviceUnknown`].
    pub fn from_descriptor<H: Holds<RawDescriptor>>(descriptor: &Descriptor<H>) -> Result<Self, VmmError> {
        let DescriptorFields { identity, access, nbytes, body, .. } = descriptor.fields();
        let Body::VmmShareable { device_id, shareable_handle: handle, mapping_bytes } = body else {
            return Err(VmmError::NotShareable { backend_kind: body.backend_kind() });
        };
        if device_id < 0 {
            return Err(VmmError::DeviceUnknown { device_id });
        }
        Ok(Self { identity, access, nbytes, device_id, handle, mapping_bytes })
    }

    /// The descriptor that makes the claim. `owner_worker_path_id` is for people who read logs; 0 is none.
    ///
    /// # Errors
    /// [`DescriptorError::BodyShareableMapping`] when fewer bytes are mapped than the backing has.
    pub fn descriptor(&self, owner_worker_path_id: u32) -> Result<Descriptor, DescriptorError> {
        let Self { identity, access, nbytes, .. } = *self;
        let body = self.body();
        Descriptor::new(&DescriptorFields { identity, access, nbytes, owner_worker_path_id, body })
    }

    /// What the descriptor says of the backend.
    #[must_use]
    pub const fn body(&self) -> Body {
        let Self { device_id, handle: shareable_handle, mapping_bytes, .. } = *self;
        Body::VmmShareable { device_id, shareable_handle, mapping_bytes }
    }
}
