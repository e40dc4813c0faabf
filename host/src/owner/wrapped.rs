//! Buffers that somebody else allocated, named here by the identity that they have there.

use core::fmt;
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bufabi_core::owner_table::OwnerError;
use bufabi_core::{Code, DType, Descriptor, DescriptorError, Identity, Tensor, View};

use super::{Endpoint, OwnError, ReleaseError, tensor};
use crate::vmm::Shareable;

/// What an endpoint wraps.
#[derive(Debug, Default)]
pub(super) struct Wraps {
    live: Mutex<HashMap<Identity, Wrap>>,
    /// Told whenever no task holds some wrapped buffer any more.
    idle: Condvar,
}

#[derive(Debug)]
struct Wrap {
    descriptor: Descriptor,
    holds: u32,
    /// Nothing new comes from it.
    is_closing: bool,
    /// Nobody is left who could release it: that is up to the last task that holds it.
    is_abandoned: bool,
}

/// A name for a buffer that somebody else allocated. It makes tensors of it; releasing it frees nothing, since the memory is its
/// allocator's.
#[derive(Debug)]
pub struct Wrapped {
    endpoint: Endpoint,
    descriptor: Descriptor,
}

impl Endpoint {
    /// Names device memory that somebody else allocated and exports. The identity is the one that it has there; none is minted.
    ///
    /// # Errors
    /// [`WrapError`].
    pub fn wrap_vmm_shareable(
        &self,
        shareable: &Shareable,
        owner_worker_path_id: u32,
    ) -> Result<Wrapped, WrapError> {
        self.check_process().map_err(|(creator, here)| WrapError::Forked { creator, here })?;
        let identity = shareable.identity;
        if identity.owner_instance_id() == self.owner_instance_id() {
            return Err(WrapError::Own { identity });
        }
        let descriptor = shareable.descriptor(owner_worker_path_id).map_err(WrapError::Descriptor)?;
        let mut live = self.0.wraps.live();
        if live.contains_key(&identity) {
            return Err(WrapError::Wrapped { identity });
        }
        live.insert(identity, Wrap { descriptor, holds: 0, is_closing: false, is_abandoned: false });
        drop(live);
        Ok(Wrapped { endpoint: self.clone(), descriptor })
    }
}

impl Wraps {
    fn live(&self) -> MutexGuard<'_, HashMap<Identity, Wrap>> {
        // Every step on the table is whole, so a panic elsewhere leaves it as it should be.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task names it; says whether it is wrapped at all.
    pub(super) fn hold(&self, descriptor: &Descriptor) -> Result<bool, OwnError> {
        let identity = descriptor.identity();
        let mut live = self.live();
        let Some(wrap) = live.get_mut(&identity) else { return Ok(false) };
        if wrap.is_closing {
            return Err(OwnerError::Closing { identity }.into());
        }
        let fields = wrap.descriptor.differences(descriptor);
        if !fields.is_empty() {
            return Err(OwnError::Conflict { identity, fields });
        }
        wrap.holds = wrap.holds.saturating_add(1);
        Ok(true)
    }

    /// A task that named it is done.
    pub(super) fn unhold(&self, identity: Identity) {
        let mut live = self.live();
        let Some(wrap) = live.get_mut(&identity) else { return };
        wrap.holds = wrap.holds.saturating_sub(1);
        if wrap.holds == 0 {
            if wrap.is_abandoned {
                live.remove(&identity);
            }
            self.idle.notify_all();
        }
    }

    fn check_live(&self, identity: Identity) -> Result<(), OwnError> {
        match self.live().get(&identity) {
            Some(wrap) if !wrap.is_closing => Ok(()),
            Some(_) | None => Err(OwnerError::Closing { identity }.into()),
        }
    }

    fn release(&self, identity: Identity) -> Result<(), ReleaseError> {
        let mut live = self.live();
        match live.get(&identity).map(|wrap| wrap.holds) {
            Some(0) => {
                live.remove(&identity);
                Ok(())
            }
            Some(holds) => Err(ReleaseError::Owner(OwnerError::Busy { identity, holds })),
            None => Err(ReleaseError::Owner(OwnerError::Closing { identity })),
        }
    }

    fn release_when_idle(&self, identity: Identity, until: Instant) -> Result<(), ReleaseError> {
        let mut live = self.live();
        loop {
            let wrap = live.get_mut(&identity);
            let wrap = wrap.ok_or(ReleaseError::Owner(OwnerError::Closing { identity }))?;
            wrap.is_closing = true;
            let holds = wrap.holds;
            if holds == 0 {
                live.remove(&identity);
                return Ok(());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ReleaseError::TimedOut { identity, holds });
            }
            live = self.idle.wait_timeout(live, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn abandon(&self, identity: Identity) {
        let mut live = self.live();
        if let Some(wrap) = live.get_mut(&identity) {
            (wrap.is_closing, wrap.is_abandoned) = (true, true);
            if wrap.holds == 0 {
                live.remove(&identity);
            }
        }
    }
}

impl Wrapped {
    /// Its name.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.descriptor.identity()
    }

    /// Its size, bytes.
    #[must_use]
    pub fn nbytes(&self) -> u64 {
        self.descriptor.nbytes()
    }

    /// What a consumer needs to reach it.
    ///
    /// # Errors
    /// [`OwnError::Owner`] once its release has begun.
    pub fn descriptor(&self) -> Result<Descriptor, OwnError> {
        self.endpoint.0.wraps.check_live(self.identity())?;
        Ok(self.descriptor)
    }

    /// A dense row-major view of it from `byte_offset` on, as a task argument.
    ///
    /// # Errors
    /// [`OwnError::View`] with the first broken rule; [`OwnError::Owner`] once its release has begun.
    pub fn row_major(&self, byte_offset: u64, dtype: DType, shapes: &[u32]) -> Result<Tensor, OwnError> {
        let view = View::row_major(byte_offset, dtype, shapes, self.nbytes()).map_err(OwnError::View)?;
        self.tensor(&view)
    }

    /// A view of it, as a task argument.
    ///
    /// # Errors
    /// As [`row_major`](Self::row_major).
    pub fn tensor(&self, view: &View) -> Result<Tensor, OwnError> {
        self.endpoint.0.wraps.check_live(self.identity())?;
        tensor(&self.descriptor, view)
    }

    /// Names it no longer. The memory stays as it is.
    ///
    /// # Errors
    /// [`ReleaseError::Owner`]: while tasks hold it nothing changes; after a success it says that it is closing.
    pub fn release(&mut self) -> Result<(), ReleaseError> {
        self.check_process()?;
        self.endpoint.0.wraps.release(self.identity())
    }

    /// As [`release`](Self::release), but waits until `until` for the tasks that hold it. Nothing new comes from it from now on.
    ///
    /// # Errors
    /// As [`release`](Self::release), and [`ReleaseError::TimedOut`].
    pub fn release_when_idle(&mut self, until: Instant) -> Result<(), ReleaseError> {
        self.check_process()?;
        self.endpoint.0.wraps.release_when_idle(self.identity(), until)
    }

    fn check_process(&self) -> Result<(), ReleaseError> {
        self.endpoint.check_process().map_err(|(creator, here)| ReleaseError::Forked { creator, here })
    }
}

impl Drop for Wrapped {
    fn drop(&mut self) {
        if self.endpoint.check_process().is_ok() {
            self.endpoint.0.wraps.abandon(self.identity());
        }
    }
}

/// Why a buffer was not wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrapError {
    /// The descriptor would break a rule.
    Descriptor(DescriptorError),
    /// It is wrapped already.
    Wrapped {
        /// Which one.
        identity: Identity,
    },
    /// The identity is one that this endpoint gives out itself.
    Own {
        /// Which one.
        identity: Identity,
    },
    /// This is a fork of the process that made the endpoint.
    Forked {
        /// The process that made it.
        creator: u32,
        /// This process.
        here: u32,
    },
}

impl WrapError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Descriptor(error) => error.code(),
            Self::Wrapped { .. } => Code::WrappedAlready,
            Self::Own { .. } => Code::WrapOwn,
            Self::Forked { .. } => Code::Forked,
        }
    }
}

impl fmt::Display for WrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptor(error) => error.fmt(f),
            Self::Wrapped { identity } => write!(f, "{identity} is wrapped already"),
            Self::Own { identity } => write!(f, "{identity} is this endpoint's own: it is not wrapped"),
            Self::Forked { creator, here } => {
                write!(f, "only process {creator}, which made the endpoint, may do that, not its fork {here}")
            }
        }
    }
}

impl std::error::Error for WrapError {}

#[cfg(test)]
mod tests {
    use core::num::{NonZeroU32, NonZeroU64};
    use core::time::Duration;

    use bufabi_core::wire::descriptor::FieldSet;
    use bufabi_core::{Access, OwnerInstanceId};

    use super::*;

    fn shareable(buffer_id: u64) -> Shareable {
        Shareable {
            identity: Identity::new(OwnerInstanceId([7; 8]), buffer_id, NonZeroU32::new(3).unwrap()),
            access: Access::Read,
            nbytes: 5000,
            device_id: 1,
            handle: NonZeroU64::new(11).unwrap(),
            mapping_bytes: 1 << 21,
        }
    }

    #[test]
    fn a_wrap_uses_the_identity_that_it_is_given_and_mints_none() {
        let endpoint = Endpoint::new().unwrap();
        let wrapped = endpoint.wrap_vmm_shareable(&shareable(9), 4).unwrap();
        assert_eq!((wrapped.identity(), wrapped.nbytes()), (shareable(9).identity, 5000));
        let descriptor = wrapped.descriptor().unwrap();
        assert_eq!(Shareable::from_descriptor(&descriptor), Ok(shareable(9)));
        assert_eq!(descriptor.owner_worker_path_id(), 4);
        assert_eq!(endpoint.live(), 0);
        let identity = shareable(9).identity;
        let again = endpoint.wrap_vmm_shareable(&shareable(9), 0).unwrap_err();
        assert_eq!((again, again.code()), (WrapError::Wrapped { identity }, Code::WrappedAlready));
        let identity = Identity::new(endpoint.owner_instance_id(), 1, NonZeroU32::MIN);
        let own = endpoint.wrap_vmm_shareable(&Shareable { identity, ..shareable(1) }, 0).unwrap_err();
        assert_eq!((own, own.code()), (WrapError::Own { identity }, Code::WrapOwn));
        let small = Shareable { mapping_bytes: 4999, ..shareable(10) };
        assert_eq!(endpoint.wrap_vmm_shareable(&small, 0).unwrap_err().code(), Code::BodyShareableMapping);
    }

    #[test]
    fn a_wrap_is_busy_while_a_task_names_it_and_gone_once_it_was_released() {
        let endpoint = Endpoint::new().unwrap();
        let mut wrapped = endpoint.wrap_vmm_shareable(&shareable(9), 0).unwrap();
        let identity = wrapped.identity();
        let view = wrapped.row_major(0, DType::Uint8, &[5000]).unwrap();
        let holds = endpoint.hold(&[view]).unwrap();
        let busy = ReleaseError::Owner(OwnerError::Busy { identity, holds: 1 });
        assert_eq!(wrapped.release(), Err(busy));
        assert!(wrapped.descriptor().is_ok(), "a refusal changes nothing");
        let timed_out = ReleaseError::TimedOut { identity, holds: 1 };
        assert_eq!(wrapped.release_when_idle(Instant::now()), Err(timed_out));
        let closing = OwnError::Owner(OwnerError::Closing { identity });
        assert_eq!(wrapped.descriptor().unwrap_err(), closing);
        assert!(matches!(endpoint.hold(&[view]), Err((0, error)) if error == closing));
        drop(holds);
        wrapped.release_when_idle(Instant::now()).unwrap();
        assert_eq!(wrapped.release(), Err(ReleaseError::Owner(OwnerError::Closing { identity })));
        assert_eq!(wrapped.row_major(0, DType::Uint8, &[1]).unwrap_err(), closing);
        drop(endpoint.wrap_vmm_shareable(&shareable(9), 0).unwrap());
    }

    #[test]
    fn a_task_that_claims_something_else_is_refused_and_holds_nothing() {
        let endpoint = Endpoint::new().unwrap();
        let wrapped = endpoint.wrap_vmm_shareable(&shareable(9), 0).unwrap();
        let mut other = endpoint.wrap_vmm_shareable(&shareable(10), 0).unwrap();
        let forged = Shareable { access: Access::ReadWrite, ..shareable(9) }.descriptor(0).unwrap();
        let view = View::row_major(0, DType::Uint8, &[5000], 5000).unwrap();
        let tensors = [other.tensor(&view).unwrap(), tensor(&forged, &view).unwrap()];
        let (index, error) = endpoint.hold(&tensors).unwrap_err();
        let conflict = OwnError::Conflict { identity: wrapped.identity(), fields: FieldSet::ACCESS };
        assert_eq!((index, error), (1, conflict));
        other.release().unwrap();
        // Somebody else's that nobody wraps here is nobody's business here.
        let unknown = tensor(&shareable(11).descriptor(0).unwrap(), &view).unwrap();
        assert!(endpoint.hold(&[unknown]).is_ok());
    }

    #[test]
    fn what_was_dropped_goes_with_the_last_task_and_a_waiter_is_told() {
        let endpoint = Endpoint::new().unwrap();
        let wrapped = endpoint.wrap_vmm_shareable(&shareable(9), 0).unwrap();
        let holds = endpoint.hold(&[wrapped.row_major(0, DType::Uint8, &[1]).unwrap()]).unwrap();
        drop(wrapped);
        assert!(endpoint.wrap_vmm_shareable(&shareable(9), 0).is_err(), "a task still names it");
        drop(holds);
        let mut wrapped = endpoint.wrap_vmm_shareable(&shareable(9), 0).unwrap();
        let holds = endpoint.hold(&[wrapped.row_major(0, DType::Uint8, &[1]).unwrap()]).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                drop(holds);
            });
            let until = Instant::now().checked_add(Duration::from_secs(10)).unwrap();
            wrapped.release_when_idle(until).unwrap();
        });
    }
}
