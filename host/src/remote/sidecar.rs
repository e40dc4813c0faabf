//! What travels beside a task for each of its remote tensors.

use bufabi_core::wire::backend::{AddressSpace, BackendKind};
use bufabi_core::wire::body::Body;
use bufabi_core::{Access, Descriptor, Identity, Tensor};

use super::error::{RemoteError, SidecarError};
use super::transport::Registration;

/// Bytes that may travel in a sidecar itself: a page, which costs less to send along than to fetch.
pub const MAX_INLINE: usize = 4096;

/// Where the bytes of a remote tensor are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sidecar {
    /// Memory of a host or of a chip, as the tensor says.
    pub address_space: AddressSpace,
    /// The backing: its owner, number and generation, as the tensor says.
    pub identity: Identity,
    /// The first byte of the backing that can be reached.
    pub byte_offset: u64,
    /// How many can be, from there on.
    pub nbytes: u64,
    /// How.
    pub reach: Reach,
}

/// How the bytes of a sidecar are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// By a transport of the owner's machine.
    Remote {
        /// The address of the first byte there.
        address: u64,
        /// What the transport there gave out for it.
        remote_key: u64,
    },
    /// They are here. The backing grants READ only.
    Inline(Box<[u8]>),
}

impl Sidecar {
    /// For all of a backing, which a transport has made reachable.
    pub(super) fn registered(descriptor: &Descriptor, registration: &Registration) -> Self {
        let &Registration { address, remote_key, nbytes } = registration;
        Self {
            address_space: descriptor.address_space(),
            identity: descriptor.identity(),
            byte_offset: 0,
            nbytes,
            reach: Reach::Remote { address, remote_key },
        }
    }

    /// For the bytes of a tensor's view, which are these.
    pub(super) fn inline(tensor: &Tensor, bytes: &[u8]) -> Self {
        let descriptor = tensor.descriptor();
        Self {
            address_space: descriptor.address_space(),
            identity: descriptor.identity(),
            byte_offset: tensor.view().byte_offset(),
            nbytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            reach: Reach::Inline(bytes.into()),
        }
    }

    /// Sidecar and tensor speak of the same bytes, and the sidecar holds together.
    ///
    /// # Errors
    /// The first way in which that is not so.
    pub fn check(&self, tensor: &Tensor) -> Result<(), SidecarError> {
        let (descriptor, view) = (tensor.descriptor(), tensor.view());
        let (found, expected) = (self.address_space, descriptor.address_space());
        if found != expected {
            return Err(SidecarError::AddressSpace { expected, found });
        }
        let (found, expected) = (self.identity, descriptor.identity());
        if found != expected {
            return Err(SidecarError::Identity { expected, found });
        }
        let &Self { byte_offset, nbytes, .. } = self;
        let backing = descriptor.nbytes();
        let end = byte_offset.checked_add(nbytes).filter(|&end| end <= backing);
        let end = end.ok_or(SidecarError::Range { byte_offset, nbytes, backing })?;
        if view.byte_offset() < byte_offset || view.end() > end {
            let view = [view.byte_offset(), view.end()];
            return Err(SidecarError::View { view, reached: [byte_offset, end] });
        }
        match &self.reach {
            &Reach::Remote { address, .. } => {
                address.checked_add(nbytes).ok_or(SidecarError::Address { address, nbytes }).map(drop)
            }
            Reach::Inline(bytes) => {
                let found = bytes.len();
                if descriptor.access() != Access::Read {
                    return Err(SidecarError::InlineAccess { granted: descriptor.access() });
                }
                if found > MAX_INLINE {
                    return Err(SidecarError::InlineSize { found, limit: MAX_INLINE });
                }
                if u64::try_from(found) != Ok(nbytes) {
                    return Err(SidecarError::InlineLength { expected: nbytes, found });
                }
                Ok(())
            }
        }
    }
}

/// The tensor as it travels to another machine: identity, rights, size and view are kept, and how to reach it is not.
///
/// # Errors
/// [`RemoteError::Descriptor`], [`RemoteError::View`].
pub fn remote_tensor(tensor: &Tensor) -> Result<Tensor, RemoteError> {
    let descriptor = tensor.descriptor();
    let mut fields = descriptor.fields();
    fields.body = Body::RemoteSidecar { address_space: descriptor.address_space() };
    let descriptor = Descriptor::new(&fields).map_err(RemoteError::Descriptor)?;
    Tensor::new(&descriptor, &tensor.view()).map_err(RemoteError::View)
}

/// The tensor's backing is on another machine.
pub(crate) fn is_remote(tensor: &Tensor) -> bool {
    tensor.descriptor().backend_kind() == BackendKind::RemoteSidecar
}
