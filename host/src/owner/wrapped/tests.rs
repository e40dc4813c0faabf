//! Names for what somebody else allocated: given or minted, held and released, and never freed.

use core::num::NonZeroU32;
use core::time::Duration;

use bufabi_core::owner_table::OwnerError;
use bufabi_core::wire::descriptor::FieldSet;
use bufabi_core::{Access, Code, OwnerInstanceId};

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
fn a_name_that_was_released_is_nothing_to_a_later_name_of_the_same_identity() {
    let endpoint = Endpoint::new().unwrap();
    let mut first = endpoint.wrap_vmm_shareable(&shareable(9), 0).unwrap();
    first.release().unwrap();
    let mut second = endpoint.wrap_vmm_shareable(&shareable(9), 0).unwrap();
    assert_eq!(first.descriptor().unwrap_err().code(), Code::Closing);
    assert_eq!(first.release().unwrap_err().code(), Code::Closing);
    let soon = Instant::now().checked_add(Duration::from_millis(1)).unwrap();
    assert_eq!(first.release_when_idle(soon).unwrap_err().code(), Code::Closing);
    drop(first);
    second.descriptor().unwrap();
    second.release_when_idle(soon).unwrap();
    let third = endpoint.wrap_vmm_shareable(&shareable(9), 0).unwrap();
    drop(second);
    third.descriptor().unwrap();
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
    let wrap =
        |offset, nbytes, access| endpoint.wrap_fork_inherited(&region, offset, nbytes, access).unwrap_err();
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
    for refused in
        [endpoint.wrap_device_malloc(base, 1, Access::Read), endpoint.wrap_vmm_window(base, 1, Access::Read)]
    {
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
