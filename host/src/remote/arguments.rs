//! The arguments of a task for another machine: every tensor with its sidecar, both written when it is added.

use bufabi_core::task_args::Scratch;
use bufabi_core::{Submission, Tag, TaskArgs, Tensor};

use super::error::RemoteError;
use super::sidecar::{Reach, Sidecar, is_remote, remote_tensor};
use super::transport::{Registration, Transport};
use crate::owner::{Endpoint, Holds};

/// Collects a task's arguments for a worker on another machine: tensors first, then scalars.
#[derive(Debug, Default)]
pub struct RemoteArgs {
    arguments: Box<TaskArgs>,
    /// One place for each tensor.
    sidecars: Vec<Option<Sidecar>>,
    /// The tensors as they were here, with their places: what is held.
    local: Vec<(usize, Tensor)>,
}

/// A task for another machine that passed all checks. What it names here cannot be released as long as this lives.
#[derive(Debug)]
pub struct RemoteTask<'a> {
    /// Tensors, all remote, tags and scalars.
    pub submission: Submission<'a>,
    /// A sidecar for each tensor, in order.
    pub sidecars: Vec<&'a Sidecar>,
    holds: Holds,
}

impl RemoteTask<'_> {
    /// What keeps from being released what the task names here, for those who keep the rest of it themselves.
    #[must_use]
    pub fn into_holds(self) -> Holds {
        self.holds
    }
}

impl RemoteArgs {
    /// No arguments.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tensor whose backing a transport has made reachable, all of it, and says its index. From now on it is remote.
    ///
    /// # Errors
    /// [`RemoteError`]: also when what is registered is not the backing. Nothing was added then.
    pub fn add_registered(
        &mut self,
        tensor: &Tensor,
        tag: Tag,
        registration: &Registration,
    ) -> Result<usize, RemoteError> {
        let sidecar = Sidecar::registered(&tensor.descriptor().to_owned(), registration);
        self.add(tensor, tag, sidecar)
    }

    /// Adds a tensor of which nobody writes anything, with the bytes of its view, and says its index. From now on it is remote.
    ///
    /// # Errors
    /// As [`add_registered`](Self::add_registered); the owner must grant READ alone, and the bytes are those of the view's extent, at
    /// most [`MAX_INLINE`](super::MAX_INLINE).
    pub fn add_inline(&mut self, tensor: &Tensor, tag: Tag, bytes: &[u8]) -> Result<usize, RemoteError> {
        self.add(tensor, tag, Sidecar::inline(tensor, bytes))
    }

    /// Adds a tensor as it came from somewhere else, with the sidecar that came with it. Whether the two go together is seen
    /// when the task is submitted.
    ///
    /// # Errors
    /// [`RemoteError::Add`]; nothing was added then.
    pub fn add_received(
        &mut self,
        tensor: &Tensor,
        tag: Tag,
        sidecar: Option<Sidecar>,
    ) -> Result<usize, RemoteError> {
        let index = self.arguments.add_tensor(tensor, tag).map_err(RemoteError::Add)?;
        self.sidecars.push(sidecar);
        Ok(index)
    }

    /// Adds a scalar behind those that are there and says its index among them.
    ///
    /// # Errors
    /// [`RemoteError::Add`].
    pub fn add_scalar(&mut self, scalar: u64) -> Result<usize, RemoteError> {
        self.arguments.add_scalar(scalar).map_err(RemoteError::Add)
    }

    /// Changes a tensor's tag. Whether its owner grants what the new one needs is seen when the task is submitted.
    ///
    /// # Errors
    /// [`RemoteError::Add`].
    pub fn set_tag(&mut self, index: usize, tag: Tag) -> Result<(), RemoteError> {
        self.arguments.set_tag(index, tag).map_err(RemoteError::Add)
    }

    /// Checks them as they are now: every tensor is remote and has its sidecar, the two agree, a transport is there for those whose
    /// bytes do not travel along, limits, rights and clashes are as for any task, and what is `endpoint`'s is there and held.
    ///
    /// # Errors
    /// The first of [`RemoteError`] that applies; nothing has changed.
    pub fn submit<const N: usize>(
        &self,
        endpoint: &Endpoint,
        transport: Option<&dyn Transport>,
        scratch: &mut Scratch<N>,
    ) -> Result<RemoteTask<'_>, RemoteError> {
        let mut sidecars = Vec::with_capacity(self.sidecars.len());
        for (argument, (tensor, sidecar)) in self.arguments.tensors().iter().zip(&self.sidecars).enumerate() {
            let descriptor = tensor.descriptor();
            let backend_kind = descriptor.backend_kind();
            let sidecar = match (is_remote(tensor), sidecar) {
                (true, Some(sidecar)) => sidecar,
                (true, None) => return Err(RemoteError::SidecarMissing { argument }),
                (false, Some(_)) => return Err(RemoteError::SidecarUnexpected { argument, backend_kind }),
                (false, None) => return Err(RemoteError::Local { argument, backend_kind }),
            };
            sidecar.check(tensor).map_err(|error| RemoteError::Sidecar { argument, error })?;
            if transport.is_none() && matches!(sidecar.reach, Reach::Remote { .. }) {
                return Err(RemoteError::TransportMissing { argument, identity: descriptor.identity() });
            }
            sidecars.push(sidecar);
        }
        let submission = self.arguments.submit(scratch).map_err(RemoteError::Arguments)?;
        let local: Vec<Tensor> = self.local.iter().map(|(_, tensor)| *tensor).collect();
        let holds = endpoint.hold(&local).map_err(|(place, error)| {
            let argument = self.local.get(place).map_or(place, |&(argument, _)| argument);
            RemoteError::Own { argument, error }
        })?;
        Ok(RemoteTask { submission, sidecars, holds })
    }

    fn add(&mut self, tensor: &Tensor, tag: Tag, sidecar: Sidecar) -> Result<usize, RemoteError> {
        let argument = self.sidecars.len();
        let remote = remote_tensor(tensor)?;
        sidecar.check(&remote).map_err(|error| RemoteError::Sidecar { argument, error })?;
        let index = self.add_received(&remote, tag, Some(sidecar))?;
        self.local.push((index, *tensor));
        Ok(index)
    }
}
