//! An owner's promises: what a release refuses, what it takes down, and what a fork or a drop leaves alone.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use bufabi_core::owner_table::OwnerError;
use bufabi_core::wire::body::Body;
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{Code, DType};

use super::*;

fn path(descriptor: &Descriptor) -> String {
    let Body::PosixShm { name } = descriptor.body() else { panic!("{descriptor:?}") };
    format!("/dev/shm/{name}")
}

fn tensor_of(buffer: &Buffer) -> Tensor {
    buffer.row_major(0, DType::Uint8, &[16]).unwrap()
}

#[test]
fn a_buffer_has_an_identity_a_descriptor_and_views() {
    let endpoint = Endpoint::new().unwrap();
    let mut first = endpoint.create_buffer(100, Access::Read).unwrap();
    let second = endpoint.create_buffer(100, Access::ReadWrite).unwrap();
    let descriptor = first.descriptor().unwrap();
    assert_eq!((descriptor.nbytes(), descriptor.access()), (100, Access::Read));
    assert_eq!((first.identity().buffer_id(), second.identity().buffer_id()), (1, 2));
    assert_eq!(first.identity().owner_instance_id(), endpoint.owner_instance_id());
    let view = first.strided(4, DType::Float32, &[3, 2], &[8, 1]).unwrap();
    assert_eq!((view.view().end(), view.descriptor() == descriptor), (76, true));
    assert_eq!(first.row_major(4, DType::Float32, &[25]).unwrap_err().code(), Code::OutOfBounds);
    assert!(Path::new(&path(&descriptor)).exists());

    first.release().unwrap();
    assert!(!Path::new(&path(&descriptor)).exists());
    assert!(first.mapping().is_none());
    assert_eq!(first.descriptor().unwrap_err().code(), Code::Stale);
    assert_eq!(first.release().unwrap_err().code(), Code::Stale);
    assert_eq!(endpoint.own_mapping(&descriptor).unwrap_err().code(), Code::Stale);
    let again = endpoint.create_buffer(1, Access::Read).unwrap();
    assert_eq!((again.identity().buffer_id(), again.identity().generation().get()), (1, 2));
    assert_eq!(endpoint.live(), 2);
}

#[test]
fn no_bytes_and_too_many_are_refused() {
    let endpoint = Endpoint::with_capacity(1).unwrap();
    assert_eq!(endpoint.create_buffer(0, Access::Read).unwrap_err().code(), Code::NbytesZero);
    let huge = endpoint.create_buffer(u64::MAX, Access::Read).unwrap_err();
    assert_eq!(huge.code(), Code::NbytesTooLarge);
    let kept = endpoint.create_buffer(1, Access::Read).unwrap();
    let full = endpoint.create_buffer(1, Access::Read).unwrap_err();
    assert_eq!(full, CreateError::Full { capacity: 1 });
    drop(kept);
    assert!(endpoint.create_buffer(1, Access::Read).is_ok());
}

#[test]
fn a_release_is_refused_while_a_task_holds_it_and_changes_nothing() {
    let endpoint = Endpoint::new().unwrap();
    let mut buffer = endpoint.create_buffer(64, Access::ReadWrite).unwrap();
    let tensor = tensor_of(&buffer);
    let identity = buffer.identity();
    let holds = endpoint.hold(&[tensor, tensor]).unwrap();
    assert_eq!(buffer.release(), Err(ReleaseError::Owner(OwnerError::Busy { identity, holds: 2 })));
    assert!(buffer.mapping().is_some());
    assert!(endpoint.hold(&[tensor_of(&buffer)]).is_ok());
    drop(holds);
    assert_eq!(buffer.release(), Ok(()));
    assert_eq!(endpoint.hold(&[tensor]).unwrap_err().1.code(), Code::Stale);
}

#[test]
fn holding_is_all_or_none_and_forged_claims_are_refused() {
    let endpoint = Endpoint::new().unwrap();
    let mut buffer = endpoint.create_buffer(64, Access::Read).unwrap();
    let other = endpoint.create_buffer(64, Access::Read).unwrap();
    let mut fields = other.descriptor().unwrap().fields();
    fields.access = Access::ReadWrite;
    let forged = Descriptor::new(&fields).unwrap();
    let forged = tensor(&forged, &tensor_of(&other).view()).unwrap();
    let (index, error) = endpoint.hold(&[tensor_of(&buffer), forged]).unwrap_err();
    let expected = OwnError::Conflict { identity: other.identity(), fields: FieldSet::ACCESS };
    assert_eq!((index, error), (1, expected));
    assert_eq!(buffer.release(), Ok(()));
    // Somebody else's is not ours to hold.
    let stranger = Endpoint::new().unwrap();
    assert!(stranger.hold(&[tensor_of(&other)]).is_ok());
}

#[test]
fn a_release_is_refused_while_a_view_is_alive() {
    let endpoint = Endpoint::new().unwrap();
    let mut buffer = endpoint.create_buffer(64, Access::ReadWrite).unwrap();
    let view = endpoint.own_mapping(&buffer.descriptor().unwrap()).unwrap();
    let identity = buffer.identity();
    assert_eq!(buffer.release(), Err(ReleaseError::ViewsAlive { identity, views: 1 }));
    assert!(buffer.descriptor().is_ok());
    // Waiting for tasks does not mend that, and changes as little.
    let later = Instant::now() + Duration::from_secs(10);
    assert_eq!(buffer.release_when_idle(later), Err(ReleaseError::ViewsAlive { identity, views: 1 }));
    assert!(buffer.descriptor().is_ok());
    drop(view);
    assert_eq!(buffer.release(), Ok(()));
}

#[test]
fn a_release_when_idle_waits_within_its_limit_and_nothing_new_comes() {
    let endpoint = Endpoint::new().unwrap();
    let mut buffer = endpoint.create_buffer(64, Access::ReadWrite).unwrap();
    let tensor = tensor_of(&buffer);
    let holds = endpoint.hold(&[tensor]).unwrap();
    let soon = Instant::now() + Duration::from_millis(5);
    let identity = buffer.identity();
    assert_eq!(buffer.release_when_idle(soon), Err(ReleaseError::TimedOut { identity, holds: 1 }));
    assert_eq!(buffer.descriptor().unwrap_err().code(), Code::Closing);
    assert_eq!(endpoint.hold(&[tensor]).unwrap_err().1.code(), Code::Closing);
    let finisher = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        drop(holds);
    });
    assert_eq!(buffer.release_when_idle(Instant::now() + Duration::from_secs(10)), Ok(()));
    finisher.join().unwrap();
    assert_eq!(endpoint.live(), 0);
}

#[test]
fn a_dropped_buffer_goes_with_the_last_task_that_holds_it() {
    let endpoint = Endpoint::new().unwrap();
    let buffer = endpoint.create_buffer(64, Access::ReadWrite).unwrap();
    let name = path(&buffer.descriptor().unwrap());
    let holds = endpoint.hold(&[tensor_of(&buffer)]).unwrap();
    drop(buffer);
    assert!(Path::new(&name).exists());
    assert_eq!(endpoint.live(), 1);
    drop(holds);
    assert!(!Path::new(&name).exists());
    assert_eq!(endpoint.live(), 0);
}

#[test]
fn releases_that_race_with_holds_either_hold_or_are_refused() {
    let endpoint = Endpoint::new().unwrap();
    for _ in 0..200 {
        let mut buffer = endpoint.create_buffer(64, Access::ReadWrite).unwrap();
        let tensor = tensor_of(&buffer);
        let name = path(&buffer.descriptor().unwrap());
        let submitter = thread::spawn({
            let endpoint = endpoint.clone();
            move || endpoint.hold(&[tensor])
        });
        let released = buffer.release();
        let held = submitter.join().unwrap();
        match (released, held) {
            (Ok(()), Ok(holds)) => {
                // The hold came and... cannot have: it would be on memory that is gone.
                panic!("{holds:?} although it was released");
            }
            (Ok(()), Err((0, error))) => assert!(matches!(error.code(), Code::Stale | Code::Closing)),
            (Err(error), Ok(_holds)) => {
                assert_eq!(error.code(), Code::Busy);
                assert!(Path::new(&name).exists());
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(endpoint.live(), 0);
}

/// Memory of no process, that counts what is done to it and fails to go as often as it is told.
#[derive(Debug)]
struct Counted {
    counts: Arc<Mutex<Counts>>,
    failures: u32,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    revoked: u32,
    tried: u32,
    freed: u32,
    dropped: u32,
}

const REFUSED: FreeError = FreeError::Shm(crate::shm::ShmError::NbytesZero);

impl Resource for Counted {
    fn revoke(&mut self) {
        self.counts.lock().unwrap().revoked += 1;
    }

    fn free(&mut self) -> Result<(), FreeError> {
        self.counts.lock().unwrap().tried += 1;
        if self.failures > 0 {
            self.failures -= 1;
            return Err(REFUSED);
        }
        self.counts.lock().unwrap().freed += 1;
        Ok(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counts.lock().unwrap().dropped += 1;
    }
}

fn counted(failures: u32) -> (Arc<Mutex<Counts>>, Made) {
    let counts = Arc::default();
    let resource = Counted { counts: Arc::clone(&counts), failures };
    let body = Body::DeviceMalloc { base: std::num::NonZeroU64::MIN };
    (counts, Made { body, mapping: None, resource: Some(Box::new(resource)) })
}

#[test]
fn what_is_not_mapped_is_freed_once_and_a_failure_is_left_for_another_try() {
    let endpoint = Endpoint::new().unwrap();
    let (counts, made) = counted(2);
    let own = |made| endpoint.own(64, Access::ReadWrite, |_| Ok::<_, CreateError>(made));
    let mut buffer = own(made).unwrap();
    assert!(buffer.mapping().is_none());
    let descriptor = buffer.descriptor().unwrap();
    assert_eq!(descriptor.body(), Body::DeviceMalloc { base: std::num::NonZeroU64::MIN });
    let closing = endpoint.own_mapping(&descriptor).unwrap_err();
    assert_eq!(closing.code(), Code::NotResolvable, "it is alive, and no memory of this process");
    let holds = endpoint.hold(&[tensor_of(&buffer)]).unwrap();
    assert_eq!(buffer.release().unwrap_err().code(), Code::Busy);
    assert_eq!(*counts.lock().unwrap(), Counts::default());
    drop(holds);
    let identity = buffer.identity();
    let failure = ReleaseFailure { unmap: None, free: Some(REFUSED) };
    for _ in 0..2 {
        assert_eq!(buffer.release(), Err(ReleaseError::Failed { identity, failure }));
        assert_eq!(buffer.descriptor().unwrap_err().code(), Code::Closing);
    }
    assert_eq!(buffer.release(), Ok(()));
    assert_eq!(*counts.lock().unwrap(), Counts { revoked: 3, tried: 3, freed: 1, dropped: 1 });
    assert_eq!(buffer.release().unwrap_err().code(), Code::Stale);
    let (counts, made) = counted(0);
    let buffer = own(made).unwrap();
    let holds = endpoint.hold(&[tensor_of(&buffer)]).unwrap();
    drop(buffer);
    assert_eq!(*counts.lock().unwrap(), Counts::default());
    drop(holds);
    assert_eq!(*counts.lock().unwrap(), Counts { revoked: 1, tried: 1, freed: 1, dropped: 1 });
    assert_eq!(endpoint.live(), 0);
}

#[test]
fn an_identity_whose_making_fails_means_nothing_and_nobody_can_name_it_before() {
    let endpoint = Endpoint::new().unwrap();
    let other = Endpoint::new().unwrap().create_buffer(64, Access::Read).unwrap();
    let refused = endpoint.own(64, Access::Read, |identity| {
        let fields = DescriptorFields { identity, ..other.descriptor().unwrap().fields() };
        let early = Descriptor::new(&fields).unwrap();
        assert_eq!(endpoint.own_mapping(&early).unwrap_err().code(), Code::NeverExisted);
        let early = tensor(&early, &tensor_of(&other).view()).unwrap();
        assert_eq!(endpoint.hold(&[early]).unwrap_err().1.code(), Code::NeverExisted);
        assert_eq!(endpoint.live(), 1);
        // The endpoint does other things meanwhile.
        drop(endpoint.create_buffer(1, Access::Read).unwrap());
        Err(CreateError::Full { capacity: 7 })
    });
    assert_eq!(refused.unwrap_err(), CreateError::Full { capacity: 7 });
    assert_eq!(endpoint.live(), 0);
    // What was made for a descriptor that breaks a rule, or beside another that was not, is let go of.
    let (counts, mut made) = counted(0);
    made.body =
        Body::VmmShareable { device_id: 0, shareable_handle: std::num::NonZeroU64::MIN, mapping_bytes: 63 };
    let refused = endpoint.own(64, Access::Read, |_| Ok::<_, CreateError>(made)).unwrap_err();
    assert_eq!(refused.code(), Code::BodyShareableMapping);
    assert_eq!(counts.lock().unwrap().dropped, 1);
    let (counts, made) = counted(0);
    let mut first = Some(made);
    let refused = endpoint.own_pair([64, 1], Access::Read, |_, _| {
        first.take().ok_or(CreateError::NbytesTooLarge { nbytes: 1 })
    });
    assert_eq!(refused.unwrap_err().code(), Code::NbytesTooLarge);
    assert_eq!(counts.lock().unwrap().dropped, 1);
    assert_eq!(endpoint.live(), 0);
}
