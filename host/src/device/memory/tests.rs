//! What an identity of a chip's memory means, and for how long.

use core::num::NonZeroU32;

use bufabi_core::owner_table::{LookupError, OwnerError};
use bufabi_core::wire::backend::BackendKind;
use bufabi_core::{Code, DType, Identity, Tensor, View};

use super::*;
use crate::backend::vmm_shareable::VmmShareable;
use crate::consumer::{Consumer, DEFAULT_CAPACITY};
use crate::device::testing::{Asked, OPTIONS, REFUSED, Stubborn, simulated};
use crate::owner::OwnError;
use crate::sys::random::random_bytes;
use crate::vmm::VmmDriver;

fn stale(identity: Identity) -> OwnError {
    let (buffer_id, generation) = (identity.buffer_id(), identity.generation());
    OwnError::Owner(OwnerError::Lookup(LookupError::Stale { buffer_id, generation, latest: generation }))
}

fn base(descriptor: &Descriptor) -> u64 {
    address(&descriptor.body()).unwrap()
}

#[test]
fn a_freed_handle_stays_dead_when_its_address_is_given_out_again() {
    let device = simulated(OPTIONS);
    let mut memory = DeviceMemory::new(&device, 0).unwrap();
    let old = memory.malloc(5000, Access::ReadWrite).unwrap();
    assert_eq!(old.backend_kind(), BackendKind::DeviceMalloc);
    assert_eq!(memory.range(&old).unwrap().address, base(&old));
    memory.free(old.identity()).unwrap();
    assert_eq!(memory.range(&old), Err(NameError::Own(stale(old.identity()))));

    let new = memory.malloc(5000, Access::ReadWrite).unwrap();
    assert_eq!(base(&new), base(&old), "the address is given out again");
    assert_ne!(new.identity(), old.identity());
    for error in [
        memory.range(&old).unwrap_err().code(),
        memory.copy_to(old.identity(), 0, &[1]).unwrap_err().code(),
        memory.copy_from(old.identity(), 0, &mut [0]).unwrap_err().code(),
        memory.free(old.identity()).unwrap_err().code(),
        memory.permit(old.identity(), &[]).unwrap_err().code(),
    ] {
        assert_eq!(error, Code::Stale);
    }
    memory.copy_to(new.identity(), 0, &[1]).unwrap();
}

#[test]
fn a_descriptor_counts_only_as_the_owner_knows_it() {
    let device = simulated(OPTIONS);
    let mut memory = DeviceMemory::new(&device, 0).unwrap();
    let read = memory.malloc(5000, Access::Read).unwrap();
    let fields = read.fields();
    let other = NonZeroU64::new(base(&read) + 4096).unwrap();
    for forged in [
        DescriptorFields { access: Access::ReadWrite, ..fields },
        DescriptorFields { nbytes: 5001, ..fields },
        DescriptorFields { body: Body::DeviceMalloc { base: other }, ..fields },
        DescriptorFields { body: Body::VmmWindow { base: NonZeroU64::new(base(&read)).unwrap() }, ..fields },
    ] {
        let forged = Descriptor::new(&forged).unwrap();
        assert_eq!(memory.range(&forged).unwrap_err().code(), Code::ImportConflict);
    }
    let identity = Identity::new(OwnerInstanceId([9; 8]), 1, NonZeroU32::MIN);
    let foreign = Descriptor::new(&DescriptorFields { identity, ..fields }).unwrap();
    let here = memory.owner_instance_id();
    assert_eq!(memory.range(&foreign), Err(NameError::OtherChip { identity, here }));
    assert_eq!(memory.range(&foreign).unwrap_err().code(), Code::DeviceOtherChip);
}

#[test]
fn frees_tell_freed_already_from_anothers_and_from_what_never_was() {
    let (first_device, second_device) = (simulated(OPTIONS), simulated(OPTIONS));
    let mut memory = DeviceMemory::new(&first_device, 0).unwrap();
    let mut other = DeviceMemory::new(&second_device, 1).unwrap();
    let mine = memory.malloc(1, Access::Read).unwrap().identity();
    let theirs = other.malloc(1, Access::Read).unwrap().identity();
    memory.free(mine).unwrap();
    assert_eq!(memory.free(mine), Err(FreeError::Own(stale(mine))));
    let (found, asked) = (other.owner_instance_id(), memory.owner_instance_id());
    let foreign = OwnError::Owner(OwnerError::Lookup(LookupError::OtherOwner { found, asked }));
    assert_eq!(memory.free(theirs), Err(FreeError::Own(foreign)));
    let never = Identity::new(asked, 77, NonZeroU32::MIN);
    let (buffer_id, generation) = (77, NonZeroU32::MIN);
    let unknown = OwnError::Owner(OwnerError::Lookup(LookupError::NeverExisted { buffer_id, generation }));
    assert_eq!(memory.free(never), Err(FreeError::Own(unknown)));
    assert_eq!((memory.live(), other.live()), (0, 1));
    // The same numbers, but another generation than the one that lives.
    let next = Identity::new(found, theirs.buffer_id(), NonZeroU32::new(2).unwrap());
    assert_eq!(other.free(next).unwrap_err().code(), Code::NeverExisted);
    other.free(theirs).unwrap();
}

#[test]
fn what_the_device_does_not_take_back_is_revoked_lost_and_never_comes_again() {
    let device = Stubborn::new(OPTIONS);
    let mut memory = DeviceMemory::new(&device, 0).unwrap();
    let lost = memory.malloc(5000, Access::ReadWrite).unwrap();
    let identity = lost.identity();
    device.refuse(Some(0));
    let leaked = FreeError::Leaked { identity, nbytes: 5000, error: REFUSED };
    assert_eq!(memory.free(identity), Err(leaked));
    assert_eq!(leaked.code(), Code::DeviceLeaked);
    assert_eq!(memory.leaked(), Leaked { allocations: 1, nbytes: 5000 });
    assert_eq!(memory.range(&lost), Err(NameError::Own(stale(identity))));
    assert_eq!(memory.free(identity), Err(FreeError::Own(stale(identity))));
    assert_eq!(*device.asked.borrow(), [Asked::Free], "the device is asked once");
    device.refuse(None);
    while let Ok(next) = memory.malloc(4096, Access::ReadWrite) {
        assert!(!(base(&lost)..base(&lost) + 8192).contains(&base(&next)));
    }
    let live = device.allocations.get();
    drop(memory);
    assert_eq!(device.allocations.get(), 1, "all but the lost one of {live} went with their owner");
}

#[test]
fn what_cannot_be_recorded_is_given_back() {
    let device = Stubborn::new(OPTIONS);
    let endpoint = Endpoint::with_capacity(1).unwrap();
    let mut memory = DeviceMemory::of_endpoint(&device, 0, endpoint);
    let first = memory.malloc(1, Access::Read).unwrap();
    let full = AllocateError::Create(CreateError::Full { capacity: 1 });
    assert_eq!(memory.malloc(1, Access::Read), Err(full));
    assert_eq!((device.allocations.get(), memory.live()), (1, 1));
    memory.free(first.identity()).unwrap();
    // What cannot be given back on the way is counted.
    let kept = memory.malloc(1, Access::Read).unwrap();
    device.refuse(Some(1));
    assert_eq!(memory.malloc(100, Access::Read), Err(full));
    assert_eq!(memory.leaked(), Leaked { allocations: 1, nbytes: 100 });
    assert!(memory.range(&kept).is_ok());
}

#[test]
fn copies_keep_to_the_direction_and_the_bytes_of_the_one_allocation() {
    let device = simulated(OPTIONS);
    let mut memory = DeviceMemory::new(&device, 0).unwrap();
    let both = memory.malloc(100, Access::ReadWrite).unwrap().identity();
    let read = memory.malloc(100, Access::Read).unwrap().identity();
    let write = memory.malloc(100, Access::Write).unwrap().identity();
    let before = crate::memory::mapping::bytes_copied();
    memory.copy_to(both, 40, &[7; 60]).unwrap();
    let mut found = [0; 60];
    memory.copy_from(both, 40, &mut found).unwrap();
    assert_eq!(found, [7; 60]);
    assert!(crate::memory::mapping::bytes_copied() - before >= 120);
    memory.copy_from(read, 0, &mut found).unwrap();
    memory.copy_to(write, 0, &found).unwrap();
    let (granted, needed) = (Access::Read, Access::Write);
    assert_eq!(memory.copy_to(read, 0, &found), Err(CopyError::Denied { granted, needed }));
    let (granted, needed) = (Access::Write, Access::Read);
    assert_eq!(memory.copy_from(write, 0, &mut found), Err(CopyError::Denied { granted, needed }));
    for (offset, length) in [(41, 60), (100, 1), (u64::MAX, 1), (u64::MAX - 10, 60)] {
        let refused = Err(CopyError::OutOfRange { offset, length, nbytes: 100 });
        let length = usize::try_from(length).unwrap();
        assert_eq!(memory.copy_to(both, offset, &found[..length]), refused);
        assert_eq!(memory.copy_from(both, offset, &mut found[..length]), refused);
    }
    memory.copy_to(both, 100, &[]).unwrap();
}

#[test]
fn first_content_is_written_whatever_is_granted_until_somebody_could_have_seen_it() {
    let device = simulated(OPTIONS);
    for access in [Access::Read, Access::Write, Access::ReadWrite] {
        let mut memory = DeviceMemory::new(&device, 0).unwrap();
        let part = WindowPart { nbytes: 100, access };
        let [malloc, window, shareable] = [
            memory.malloc(100, access).unwrap(),
            memory.create_window(&[part]).unwrap()[0],
            memory.create_shareable(100, access, Admission::Listed).unwrap(),
        ];
        let anyone = memory.create_shareable(100, access, Admission::Anyone).unwrap().identity();
        assert_eq!(memory.fill(anyone, 0, &[1]), Err(CopyError::Named { identity: anyone }));
        for made in [malloc, window, shareable] {
            let identity = made.identity();
            memory.fill(identity, 0, &[1; 60]).unwrap();
            memory.fill(identity, 60, &[2; 40]).unwrap();
            let refused = CopyError::OutOfRange { offset: 41, length: 60, nbytes: 100 };
            assert_eq!(memory.fill(identity, 41, &[3; 60]), Err(refused));
            // What is refused names nothing.
            let mut found = [0; 100];
            let forged = DescriptorFields { nbytes: 99, ..made.fields() };
            assert_eq!(
                memory.shared_range(&Descriptor::new(&forged).unwrap()).unwrap_err().code(),
                Code::ImportConflict
            );
            assert!(memory.copy_from(identity, 1, &mut found).is_err());
            memory.fill(identity, 60, &[4; 40]).unwrap();
            if access.reads() {
                memory.copy_from(identity, 0, &mut found).unwrap();
                assert_eq!((&found[..60], &found[60..]), (&[1; 60][..], &[4; 40][..]));
            } else if made.backend_kind() == BackendKind::VmmShareable {
                memory.shared_range(&made).unwrap();
            } else {
                memory.range(&made).unwrap();
            }
            assert_eq!(memory.fill(identity, 0, &[5]), Err(CopyError::Named { identity }));
            assert_eq!(memory.copy_to(identity, 0, &[5]).is_ok(), access.writes());
        }
        let exported = memory.create_shareable(100, access, Admission::Listed).unwrap().identity();
        memory.permit(exported, &[]).unwrap();
        assert_eq!(memory.fill(exported, 0, &[1]).unwrap_err().code(), Code::DeviceNamed);
    }
}

const PARTS: [WindowPart; 3] = [
    WindowPart { nbytes: 1500, access: Access::ReadWrite },
    WindowPart { nbytes: 1, access: Access::Read },
    WindowPart { nbytes: 4096, access: Access::Write },
];

#[test]
fn a_windows_buffers_are_aligned_and_zero_and_lie_alike_on_every_chip() {
    let (first_device, second_device) = (Stubborn::new(OPTIONS), Stubborn::new(OPTIONS));
    let mut offsets = Vec::new();
    for device in [&first_device, &second_device] {
        let mut memory = DeviceMemory::new(device, 0).unwrap();
        let _before = memory.malloc(5, Access::Read).unwrap();
        let buffers = memory.create_window(&PARTS).unwrap();
        let start = base(&buffers[0]);
        for (buffer, part) in buffers.iter().zip(PARTS) {
            assert_eq!(buffer.backend_kind(), BackendKind::VmmWindow);
            assert!(base(buffer).is_multiple_of(WINDOW_ALIGNMENT));
            assert_eq!((buffer.nbytes(), buffer.access()), (part.nbytes, part.access));
            let mut found = vec![1; usize::try_from(part.nbytes).unwrap()];
            device.copy_from(base(buffer), &mut found).unwrap();
            assert!(found.iter().all(|&byte| byte == 0));
        }
        offsets.push(buffers.iter().map(|buffer| base(buffer) - start).collect::<Vec<_>>());
    }
    assert_eq!(offsets, [[0, 2048, 3072], [0, 2048, 3072]]);
}

#[test]
fn a_window_is_there_with_all_of_its_buffers_or_not_at_all() {
    let device = Stubborn::new(OPTIONS);
    let mut memory = DeviceMemory::new(&device, 0).unwrap();
    // The device's part: taking and making zero.
    for call in 0..2 {
        device.refuse(Some(call));
        assert_eq!(memory.create_window(&PARTS), Err(AllocateError::Device(REFUSED)));
        assert_eq!((device.allocations.get(), memory.live(), memory.endpoint.live()), (0, 0, 0));
    }
    device.refuse(None);
    // The owner's part: a name for each.
    for capacity in 0..3 {
        let endpoint = Endpoint::with_capacity(capacity).unwrap();
        let mut memory = DeviceMemory::of_endpoint(&device, 0, endpoint);
        let full = AllocateError::Create(CreateError::Full { capacity: u32::try_from(capacity).unwrap() });
        assert_eq!(memory.create_window(&PARTS), Err(full));
        assert_eq!((device.allocations.get(), memory.live(), memory.endpoint.live()), (0, 0, 0));
    }
    // What cannot be taken back on the way down is counted, and the first error is the one reported.
    device.refuse(Some(1));
    let mut asked = 0;
    let error = memory.create_window(&PARTS).unwrap_err();
    asked += device.asked.borrow().len();
    assert_eq!((error, asked), (AllocateError::Device(REFUSED), 3));
    for parts in [&[][..], &[WindowPart { nbytes: 0, access: Access::Read }]] {
        assert_eq!(memory.create_window(parts).unwrap_err().code(), Code::NbytesZero);
    }
    let huge = WindowPart { nbytes: u64::MAX, access: Access::Read };
    assert_eq!(memory.create_window(&[huge, huge]).unwrap_err().code(), Code::SpaceFull);
    assert_eq!(memory.live(), 0);
}

#[test]
fn a_windows_buffers_go_together() {
    let device = Stubborn::new(OPTIONS);
    let mut memory = DeviceMemory::new(&device, 0).unwrap();
    let alone = memory.malloc(1, Access::Read).unwrap().identity();
    let buffers = memory.create_window(&PARTS).unwrap();
    for buffer in &buffers {
        let identity = buffer.identity();
        assert_eq!(memory.free(identity), Err(FreeError::InDomain { identity }));
        assert!(memory.range(buffer).is_ok());
    }
    assert_eq!(memory.free_window(alone), Err(FreeError::NotInDomain { identity: alone }));
    // A task that names the last one keeps all of them.
    let view = View::row_major(0, DType::Uint8, &[4096], 4096).unwrap();
    let holds = memory.endpoint.hold(&[Tensor::new(&buffers[2], &view).unwrap()]).unwrap();
    assert_eq!(memory.free_window(buffers[0].identity()).unwrap_err().code(), Code::Busy);
    assert!(buffers.iter().all(|buffer| memory.range(buffer).is_ok()));
    drop(holds);
    memory.free_window(buffers[1].identity()).unwrap();
    for buffer in &buffers {
        assert_eq!(memory.range(buffer), Err(NameError::Own(stale(buffer.identity()))));
        assert_eq!(memory.free_window(buffer.identity()), Err(FreeError::Own(stale(buffer.identity()))));
    }
    assert_eq!((memory.live(), device.allocations.get()), (1, 1));
    let buffers = memory.create_window(&PARTS).unwrap();
    device.refuse(Some(0));
    let identity = buffers[2].identity();
    let nbytes = 3072 + 4096;
    assert_eq!(memory.free_window(identity), Err(FreeError::Leaked { identity, nbytes, error: REFUSED }));
    assert_eq!(memory.leaked(), Leaked { allocations: 1, nbytes });
    assert_eq!(memory.live(), 1);
}

#[test]
fn memory_that_is_shared_by_handle_is_imported_by_whom_the_chip_permits() {
    let device = simulated(OPTIONS);
    let mut memory = DeviceMemory::new(&device, 3).unwrap();
    let plain = memory.malloc(1, Access::Read).unwrap().identity();
    let shared = memory.create_shareable(5000, Access::ReadWrite, Admission::Listed).unwrap();
    assert_eq!(shared.backend_kind(), BackendKind::VmmShareable);
    memory.copy_to(shared.identity(), 4990, b"shared").unwrap();
    let refused = memory.copy_to(shared.identity(), 4995, b"shared").unwrap_err();
    assert_eq!(refused.code(), Code::DeviceRange);

    let owner = OwnerInstanceId(random_bytes().unwrap());
    let driver = Arc::new(MemfdDriver::new(owner, 1, MemfdOptions::default()));
    let peer = driver.peer_number().unwrap();
    let backend = Box::new(VmmShareable::new(driver));
    let elsewhere = Consumer::with_backends(None, vec![backend], DEFAULT_CAPACITY).unwrap();
    assert_eq!(elsewhere.import(&shared).unwrap_err().code(), Code::VmmNotPermitted);
    assert_eq!(memory.permit(plain, &[peer]).unwrap_err().code(), Code::VmmOrder);
    memory.permit(shared.identity(), &[peer]).unwrap();
    let import = elsewhere.import(&shared).unwrap();
    let mut found = [0; 6];
    import.read(4990, &mut found).unwrap();
    assert_eq!(&found, b"shared");
    memory.free(shared.identity()).unwrap();
    assert_eq!(memory.copy_from(shared.identity(), 0, &mut found).unwrap_err().code(), Code::Stale);
    import.read(4990, &mut found).unwrap();
    assert_eq!(&found, b"shared", "mappings stay");
}

#[test]
fn what_somebody_else_allocated_is_named_and_not_freed() {
    let device = simulated(OPTIONS);
    let mut memory = DeviceMemory::new(&device, 0).unwrap();
    let address = device.malloc(64).unwrap();
    let base = NonZeroU64::new(address).unwrap();
    let wrapped = memory.endpoint().wrap_device_malloc(base, 64, Access::ReadWrite).unwrap();
    let identity = wrapped.identity();
    let range = memory.range(&wrapped.descriptor().unwrap()).unwrap();
    assert_eq!(range, DeviceRange { address, nbytes: 64, access: Access::ReadWrite });
    memory.copy_to(identity, 0, &[4; 64]).unwrap();
    assert_eq!(memory.free(identity), Err(FreeError::Wrapped { identity }));
    drop(wrapped);
    assert_eq!(memory.copy_to(identity, 0, &[4; 64]).unwrap_err().code(), Code::Stale);
    drop(memory);
    let mut found = [0; 64];
    device.copy_from(address, &mut found).unwrap();
    assert_eq!(found, [4; 64]);
    device.free(address).unwrap();
}
