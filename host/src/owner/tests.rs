//! An owner's promises: what a release refuses, what it takes down, and what a fork or a drop leaves alone.

use std::path::Path;
use std::thread;
use std::time::Duration;

use bufabi_core::wire::body::Body;
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
