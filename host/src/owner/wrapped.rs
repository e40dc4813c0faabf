//! Buffers that somebody else allocated, named here by the identity that they have there.

use core::fmt;
use core::num::NonZeroU64;
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bufabi_core::owner_table::OwnerError;
use bufabi_core::wire::body::Body;
use bufabi_core::{Access, Code, DType, Descriptor, Identity, OwnerInstanceId, Tensor, View};

use super::{Buffer, CreateError, Endpoint, Made, OwnError, ReleaseError, tensor};
use crate::memory::{InheritedRegion, Mapping, Sharing};
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
pub struct Wrapped(Name);

/// Where a wrapped buffer's identity comes from.
#[derive(Debug)]
enum Name {
    /// This endpoint gave it out.
    Minted(Buffer),
    /// It is the one that the buffer has where it was allocated.
    Given(Given),
}

#[derive(Debug)]
struct Given {
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
        self.check_creator()?;
        let identity = shareable.identity;
        if shareable.nbytes == 0 {
            return Err(CreateError::NbytesZero.into());
        }
        if identity.owner_instance_id() == self.owner_instance_id() {
            return Err(WrapError::Own { identity });
        }
        let descriptor = shareable.descriptor(owner_worker_path_id).map_err(CreateError::Descriptor)?;
        let mut live = self.0.wraps.live();
        if live.contains_key(&identity) {
            return Err(WrapError::Wrapped { identity });
        }
        live.insert(identity, Wrap { descriptor, holds: 0, is_closing: false, is_abandoned: false });
        drop(live);
        Ok(Wrapped(Name::Given(Given { endpoint: self.clone(), descriptor })))
    }

    /// Names `nbytes` bytes from `offset` on of memory that processes forked since then have inherited: FORK_SHM if they share
    /// it, FORK_COW, for reading alone, if they have copies.
    ///
    /// # Errors
    /// [`WrapError`].
    pub fn wrap_fork_inherited(
        &self,
        region: &InheritedRegion,
        offset: u64,
        nbytes: u64,
        access: Access,
    ) -> Result<Wrapped, WrapError> {
        if region.owner() != self.owner_instance_id() {
            return Err(WrapError::OtherOwner { found: region.owner(), asked: self.owner_instance_id() });
        }
        let memory = region.shared_memory();
        let outside = WrapError::OutOfRange { offset, nbytes, size: memory.nbytes() };
        let start = usize::try_from(offset).map_err(|_| outside)?;
        let length = usize::try_from(nbytes).map_err(|_| outside)?;
        let mapping = Mapping::part(memory, start, length, Access::ReadWrite, None).map_err(|_| outside)?;
        let base = NonZeroU64::new(mapping.address()).ok_or(outside)?;
        let body = match region.sharing() {
            Sharing::Shared => Body::ForkShm { base },
            Sharing::Copied => Body::ForkCow { base },
        };
        self.wrap(nbytes, access, Made { body, mapping: Some(mapping), resource: None })
    }

    /// Names memory that somebody else allocated on this endpoint's chip, by its device address.
    ///
    /// # Errors
    /// [`WrapError`].
    pub fn wrap_device_malloc(
        &self,
        base: NonZeroU64,
        nbytes: u64,
        access: Access,
    ) -> Result<Wrapped, WrapError> {
        check_addresses(base, nbytes)?;
        self.wrap(nbytes, access, Made { body: Body::DeviceMalloc { base }, mapping: None, resource: None })
    }

    /// Names a part of a communication domain's window on this endpoint's chip, by its device address.
    ///
    /// # Errors
    /// [`WrapError`].
    pub fn wrap_vmm_window(
        &self,
        base: NonZeroU64,
        nbytes: u64,
        access: Access,
    ) -> Result<Wrapped, WrapError> {
        check_addresses(base, nbytes)?;
        self.wrap(nbytes, access, Made { body: Body::VmmWindow { base }, mapping: None, resource: None })
    }

    /// Gives out an identity for what somebody else made.
    fn wrap(&self, nbytes: u64, access: Access, made: Made) -> Result<Wrapped, WrapError> {
        Ok(Wrapped(Name::Minted(self.own(nbytes, access, |_| Ok::<_, CreateError>(made))?)))
    }
}

/// Device addresses end before 2^64.
fn check_addresses(base: NonZeroU64, nbytes: u64) -> Result<(), WrapError> {
    match base.get().checked_add(nbytes) {
        Some(_) => Ok(()),
        None => Err(WrapError::Addresses { base, nbytes }),
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
    fn known(&self) -> &Descriptor {
        match &self.0 {
            Name::Minted(buffer) => buffer.known(),
            Name::Given(given) => &given.descriptor,
        }
    }

    /// Its name.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.known().identity()
    }

    /// Its size, bytes.
    #[must_use]
    pub fn nbytes(&self) -> u64 {
        self.known().nbytes()
    }

    /// The memory, for loads and stores whatever is granted to others; `None` for memory of a device, and once its release has
    /// begun.
    #[must_use]
    pub fn mapping(&self) -> Option<&Mapping> {
        match &self.0 {
            Name::Minted(buffer) => buffer.mapping(),
            Name::Given(_) => None,
        }
    }

    /// What a consumer needs to reach it.
    ///
    /// # Errors
    /// [`OwnError::Owner`] once its release has begun.
    pub fn descriptor(&self) -> Result<Descriptor, OwnError> {
        match &self.0 {
            Name::Minted(buffer) => buffer.descriptor(),
            Name::Given(Given { endpoint, descriptor }) => {
                endpoint.0.wraps.check_live(descriptor.identity())?;
                Ok(*descriptor)
            }
        }
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
        tensor(&self.descriptor()?, view)
    }

    /// Names it no longer. The memory stays as it is.
    ///
    /// # Errors
    /// [`ReleaseError`]: while tasks or views hold it nothing changes; after a success it says that it is closing or stale.
    pub fn release(&mut self) -> Result<(), ReleaseError> {
        match &mut self.0 {
            Name::Minted(buffer) => buffer.release(),
            Name::Given(given) => {
                given.check_process()?;
                given.endpoint.0.wraps.release(given.descriptor.identity())
            }
        }
    }

    /// As [`release`](Self::release), but waits until `until` for the tasks that hold it. Nothing new comes from it from now on.
    ///
    /// # Errors
    /// As [`release`](Self::release), and [`ReleaseError::TimedOut`].
    pub fn release_when_idle(&mut self, until: Instant) -> Result<(), ReleaseError> {
        match &mut self.0 {
            Name::Minted(buffer) => buffer.release_when_idle(until),
            Name::Given(given) => {
                given.check_process()?;
                given.endpoint.0.wraps.release_when_idle(given.descriptor.identity(), until)
            }
        }
    }
}

impl Given {
    fn check_process(&self) -> Result<(), ReleaseError> {
        self.endpoint.check_process().map_err(|(creator, here)| ReleaseError::Forked { creator, here })
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        if self.endpoint.check_process().is_ok() {
            self.endpoint.0.wraps.abandon(self.descriptor.identity());
        }
    }
}

/// Why a buffer was not wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrapError {
    /// No identity can be given out for it, or its descriptor would break a rule.
    Create(CreateError),
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
    /// The region was mapped for another endpoint.
    OtherOwner {
        /// Which one.
        found: OwnerInstanceId,
        /// This one.
        asked: OwnerInstanceId,
    },
    /// The bytes do not lie in the region.
    OutOfRange {
        /// The first one.
        offset: u64,
        /// How many.
        nbytes: u64,
        /// Bytes of the region.
        size: u64,
    },
    /// The addresses pass 2^64.
    Addresses {
        /// The first one.
        base: NonZeroU64,
        /// How many.
        nbytes: u64,
    },
}

impl WrapError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Create(error) => error.code(),
            Self::Wrapped { .. } => Code::WrappedAlready,
            Self::Own { .. } => Code::WrapOwn,
            Self::OtherOwner { .. } => Code::WrapOwner,
            Self::OutOfRange { .. } => Code::WrapRange,
            Self::Addresses { .. } => Code::AddressOverflow,
        }
    }
}

impl From<CreateError> for WrapError {
    fn from(error: CreateError) -> Self {
        Self::Create(error)
    }
}

impl fmt::Display for WrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(error) => error.fmt(f),
            Self::Wrapped { identity } => write!(f, "{identity} is wrapped already"),
            Self::Own { identity } => write!(f, "{identity} is this endpoint's own: it is not wrapped"),
            Self::OtherOwner { found, asked } => {
                write!(f, "the memory is endpoint {found}'s, and this is endpoint {asked}")
            }
            Self::OutOfRange { offset, nbytes, size } => {
                write!(f, "{nbytes} bytes from {offset} on do not lie within the {size} bytes of the region")
            }
            Self::Addresses { base, nbytes } => {
                write!(f, "{nbytes} bytes from {base:#x} on pass the last address")
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
    fn what_has_no_identity_yet_is_given_one_and_never_freed() {
        let endpoint = Endpoint::new().unwrap();
        let owner = endpoint.owner_instance_id();
        let base = NonZeroU64::new(1 << 40).unwrap();
        let mut device = endpoint.wrap_device_malloc(base, 100, Access::Write).unwrap();
        let window = endpoint.wrap_vmm_window(base, 100, Access::Read).unwrap();
        assert_eq!(device.descriptor().unwrap().body(), Body::DeviceMalloc { base });
        assert_eq!(window.descriptor().unwrap().body(), Body::VmmWindow { base });
        assert_ne!(device.identity(), window.identity());
        assert!(device.mapping().is_none());
        let tensor = device.row_major(0, DType::Uint8, &[100]).unwrap();
        let holds = endpoint.hold(&[tensor]).unwrap();
        assert_eq!(device.release().unwrap_err().code(), Code::Busy);
        drop(holds);
        device.release().unwrap();
        assert_eq!(device.descriptor().unwrap_err().code(), Code::Stale);

        let region = InheritedRegion::new(owner, 4096, Sharing::Copied).unwrap();
        let mut copied = endpoint.wrap_fork_inherited(&region, 96, 4000, Access::Read).unwrap();
        copied.mapping().unwrap().write(3999, &[7]).unwrap();
        let Body::ForkCow { base } = copied.descriptor().unwrap().body() else { panic!("{copied:?}") };
        assert_eq!(base.get(), region.memory().address() + 96);
        copied.release().unwrap();
        let mut last = [0];
        region.memory().read(4095, &mut last).unwrap();
        assert_eq!(last, [7], "it frees nothing");
        let shared = InheritedRegion::new(owner, 4096, Sharing::Shared).unwrap();
        let whole = endpoint.wrap_fork_inherited(&shared, 0, 4096, Access::ReadWrite).unwrap();
        assert!(matches!(whole.descriptor().unwrap().body(), Body::ForkShm { .. }));
        drop(shared);
        whole.mapping().unwrap().write(4095, &[1]).unwrap();
        drop((whole, window));
        assert_eq!(endpoint.live(), 0);
    }

    #[test]
    fn a_wrap_of_what_does_not_lie_there_is_refused_and_leaves_nothing() {
        let endpoint = Endpoint::new().unwrap();
        let region = InheritedRegion::new(endpoint.owner_instance_id(), 4096, Sharing::Copied).unwrap();
        let wrap = |offset, nbytes, access| {
            endpoint.wrap_fork_inherited(&region, offset, nbytes, access).unwrap_err()
        };
        let outside = |offset, nbytes| WrapError::OutOfRange { offset, nbytes, size: 4096 };
        for (offset, nbytes) in [(0, 4097), (1, 4096), (4097, 1), (u64::MAX, 1), (1, u64::MAX)] {
            assert_eq!(wrap(offset, nbytes, Access::Read), outside(offset, nbytes));
        }
        assert_eq!(wrap(0, 0, Access::Read).code(), Code::NbytesZero);
        for access in [Access::Write, Access::ReadWrite] {
            assert_eq!(wrap(0, 4096, access).code(), Code::ForkCowAccess);
        }
        let other = Endpoint::new().unwrap();
        let refused = other.wrap_fork_inherited(&region, 0, 1, Access::Read).unwrap_err();
        let (found, asked) = (endpoint.owner_instance_id(), other.owner_instance_id());
        assert_eq!(refused, WrapError::OtherOwner { found, asked });
        let base = NonZeroU64::MAX;
        for refused in [
            endpoint.wrap_device_malloc(base, 1, Access::Read),
            endpoint.wrap_vmm_window(base, 1, Access::Read),
        ] {
            assert_eq!(refused.unwrap_err(), WrapError::Addresses { base, nbytes: 1 });
        }
        let zero = endpoint.wrap_device_malloc(NonZeroU64::MIN, 0, Access::Read).unwrap_err();
        assert_eq!(zero.code(), Code::NbytesZero);
        let zero = endpoint.wrap_vmm_shareable(&Shareable { nbytes: 0, ..shareable(1) }, 0).unwrap_err();
        assert_eq!(zero.code(), Code::NbytesZero);
        assert_eq!(endpoint.live(), 0);
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
