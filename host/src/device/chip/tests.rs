//! Tasks on a chip: which memory they may name, and what is copied for a device that does not reach host memory.

use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{Access, Code, DType, Descriptor, Tensor, View};

use super::*;
use crate::device::memory::{NameError, WindowPart};
use crate::device::testing::{Asked, OPTIONS, REFUSED, Stubborn, copy, run, simulated, whole};
use crate::device::{LaunchError, SimulatedChip, SimulatedChipOptions};
use crate::kernels::{Call, Kernel};
use crate::memory::{Operand, Strided};
use crate::owner::{Buffer, Endpoint};
use crate::vmm::Admission;
use crate::worker::{KernelError, Kernels};

const APART: SimulatedChipOptions = SimulatedChipOptions { reaches_host_memory: false, ..OPTIONS };

fn buffer(endpoint: &Endpoint, nbytes: u64, access: Access, byte: u8) -> (Buffer, Descriptor) {
    let buffer = endpoint.create_buffer(nbytes, access).unwrap();
    buffer.mapping().unwrap().write(0, &vec![byte; usize::try_from(nbytes).unwrap()]).unwrap();
    let descriptor = buffer.descriptor().unwrap();
    (buffer, descriptor)
}

fn content(buffer: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(buffer.nbytes()).unwrap()];
    buffer.mapping().unwrap().read(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_task_names_memory_that_is_live_on_the_very_chip_it_goes_to() {
    let (first_device, second_device) =
        (simulated(OPTIONS), simulated(SimulatedChipOptions { device_id: 1, ..OPTIONS }));
    let mut chip = Chip::new(&first_device, 0).unwrap();
    let mut other = Chip::new(&second_device, 1).unwrap();
    let from = chip.allocate(|memory| memory.malloc(64, Access::ReadWrite)).unwrap();
    let part = WindowPart { nbytes: 64, access: Access::ReadWrite };
    let to = chip.allocate(|memory| memory.create_window(&[part])).unwrap()[0];
    let foreign = other.allocate(|memory| memory.malloc(64, Access::ReadWrite)).unwrap();
    chip.memory().copy_to(from.identity(), 0, &[5; 64]).unwrap();
    run(&mut chip, copy(), &[whole(&from), whole(&to)]).unwrap();
    assert_eq!(chip.resolutions(), [Resolution::Own; 2]);
    let mut found = [0; 64];
    chip.memory().copy_from(to.identity(), 0, &mut found).unwrap();
    assert_eq!(found, [5; 64]);

    let here = chip.memory().owner_instance_id();
    let error = ResolveError::Name(NameError::OtherChip { identity: foreign.identity(), here });
    let refused = run(&mut chip, copy(), &[whole(&from), whole(&foreign)]).unwrap_err();
    assert_eq!(refused, RunError::Resolve { argument: 1, error });
    assert_eq!((refused.code(), refused.argument()), (Code::DeviceOtherChip, Some(1)));
    assert_eq!(chip.resolutions(), [Resolution::Own]);
    // A window of the other chip at the very offset of ours.
    let theirs = other.allocate(|memory| memory.create_window(&[part])).unwrap()[0];
    assert_eq!(
        run(&mut chip, copy(), &[whole(&theirs), whole(&to)]).unwrap_err().code(),
        Code::DeviceOtherChip
    );
    chip.free(from.identity()).unwrap();
    let again = chip.allocate(|memory| memory.malloc(64, Access::ReadWrite)).unwrap();
    assert_eq!(again.body(), from.body(), "the address is given out again");
    let dead = run(&mut chip, copy(), &[whole(&from), whole(&to)]).unwrap_err();
    assert_eq!((dead.code(), dead.argument()), (Code::Stale, Some(0)));
}

#[test]
fn a_chip_that_reaches_host_memory_copies_nothing() {
    let endpoint = Endpoint::new().unwrap();
    let (_from, from) = buffer(&endpoint, 64, Access::Read, 3);
    let (to, to_descriptor) = buffer(&endpoint, 64, Access::Write, 0);
    let device = Stubborn::new(OPTIONS);
    let mut chip = Chip::new(&device, 0).unwrap();
    run(&mut chip, copy(), &[whole(&from), whole(&to_descriptor)]).unwrap();
    assert_eq!(*device.asked.borrow(), [Asked::Launch]);
    assert_eq!(chip.resolutions(), [Resolution::MappedNow; 2]);
    assert_eq!(content(&to), [3; 64]);
}

#[test]
fn host_buffers_are_copied_to_a_chip_that_does_not_reach_them_once_for_each_identity_and_back_where_written()
{
    let endpoint = Endpoint::new().unwrap();
    let (_from, from) = buffer(&endpoint, 64, Access::ReadWrite, 3);
    let (to, to_descriptor) = buffer(&endpoint, 32, Access::Write, 0);
    let device = Stubborn::new(APART);
    let mut chip = Chip::new(&device, 0).unwrap();
    // Two views of one buffer are read, and another buffer is written.
    let halves = [0, 32].map(|offset| {
        let view = View::row_major(offset, DType::Uint8, &[32], 64).unwrap();
        Tensor::new(&from, &view).unwrap()
    });
    let add = Call { kernel: Kernel::Add, accumulate: false }.number();
    let tensors = [halves[0], halves[1], whole(&to_descriptor)];
    run(&mut chip, add, &tensors).unwrap();
    let copies = [Asked::CopyTo, Asked::Launch, Asked::CopyFrom];
    assert_eq!(*device.asked.borrow(), [&[Asked::Malloc(64), Asked::Malloc(32)][..], &copies].concat());
    assert_eq!(content(&to), [6; 32]);
    device.refuse(None);
    run(&mut chip, add, &tensors).unwrap();
    assert_eq!(*device.asked.borrow(), copies, "a buffer keeps its place");
    assert_eq!(chip.resolutions(), [Resolution::AlreadyMapped; 3]);
    // What a kernel does nothing with is not copied.
    device.refuse(None);
    run(&mut chip, Call { kernel: Kernel::None, accumulate: false }.number(), &tensors).unwrap();
    assert_eq!(*device.asked.borrow(), [Asked::Launch]);
    // A right that is not granted is none on the device either.
    let denied = run(&mut chip, copy(), &[halves[0], whole(&from)]);
    assert!(matches!(
        denied,
        Err(RunError::Launch(LaunchError::Kernel(
            KernelError::Shape { .. } | KernelError::SelfOverlap { .. }
        )))
    ));
    let (_read, read) = buffer(&endpoint, 32, Access::Read, 9);
    let denied = run(&mut chip, copy(), &[halves[0], whole(&read)]).unwrap_err();
    assert_eq!((denied.code(), denied.argument()), (Code::Denied, Some(1)));
    // Released, a buffer has no place any more.
    let before = device.allocations.get();
    chip.release(from.identity()).unwrap();
    chip.release(to_descriptor.identity()).unwrap();
    assert_eq!(device.allocations.get(), before - 2);
    chip.release(from.identity()).unwrap();
}

#[test]
fn only_the_elements_that_a_task_wrote_are_copied_back() {
    let endpoint = Endpoint::new().unwrap();
    let (_from, from) = buffer(&endpoint, 48, Access::Read, 3);
    let (to, to_descriptor) = buffer(&endpoint, 400, Access::ReadWrite, 0x11);
    let device = Stubborn::new(APART);
    let mut chip = Chip::new(&device, 0).unwrap();
    let dense = View::row_major(0, DType::Int16, &[4, 6], 48).unwrap();
    let steps = View::new(2, DType::Int16, &[4, 6], &[30, 3], 400).unwrap();
    let tensors = [Tensor::new(&from, &dense).unwrap(), Tensor::new(&to_descriptor, &steps).unwrap()];
    run(&mut chip, copy(), &tensors).unwrap();
    let mut expected = vec![0x11; 400];
    for row in 0..4 {
        for column in 0..6 {
            let at = 2 + 2 * (30 * row + 3 * column);
            expected[at..at + 2].fill(3);
        }
    }
    assert_eq!(content(&to), expected);
    // One that adds to what is there reads it first, gaps and all.
    let sum = Call { kernel: Kernel::SumRows, accumulate: true }.number();
    let (sums, sums_descriptor) = buffer(&endpoint, 16, Access::ReadWrite, 0);
    sums.mapping().unwrap().write(0, &[1, 0, 0x22, 0x22, 2, 0]).unwrap();
    let rows = View::new(0, DType::Int16, &[2], &[2], 16).unwrap();
    let two = View::row_major(0, DType::Int16, &[2, 3], 48).unwrap();
    let tensors = [Tensor::new(&from, &two).unwrap(), Tensor::new(&sums_descriptor, &rows).unwrap()];
    run(&mut chip, sum, &tensors).unwrap();
    let added = 3_u16 * 0x0303;
    let [first, second] = [1 + added, 2 + added].map(u16::to_le_bytes);
    assert_eq!(content(&sums)[..6], [first[0], first[1], 0x22, 0x22, second[0], second[1]]);
}

/// Kernel 0 writes 7 to its operand's first byte, and says nothing about what it needs.
#[derive(Debug)]
struct FirstByte;

impl Kernels for FirstByte {
    fn run(&self, _: u32, operands: &[Operand<'_>], _: &[u64]) -> Result<(), KernelError> {
        Strided::<u8>::new(&operands[0]).unwrap().store(0, 1, &[7]);
        Ok(())
    }
}

#[test]
fn what_a_kernel_may_write_and_did_not_comes_back_as_it_was() {
    let endpoint = Endpoint::new().unwrap();
    let device = SimulatedChip::new(&FirstByte, APART).unwrap();
    for access in [Access::Write, Access::ReadWrite, Access::Read] {
        let mut chip = Chip::new(&device, 0).unwrap();
        let (to, descriptor) = buffer(&endpoint, 64, access, 0x11);
        run(&mut chip, 0, &[whole(&descriptor)]).unwrap();
        let first = if access.writes() { 7 } else { 0x11 };
        assert_eq!(content(&to), [&[first][..], &[0x11; 63]].concat());
    }
}

#[test]
fn what_fails_on_the_way_leaves_the_host_as_it_was() {
    let endpoint = Endpoint::new().unwrap();
    let (_from, from) = buffer(&endpoint, 64, Access::Read, 3);
    let (to, to_descriptor) = buffer(&endpoint, 64, Access::Write, 0x11);
    // Two places, a copy in, the launch, and a copy back.
    for call in 0..5 {
        let device = Stubborn::new(APART);
        let mut chip = Chip::new(&device, 0).unwrap();
        device.refuse(Some(call));
        let result = run(&mut chip, copy(), &[whole(&from), whole(&to_descriptor)]);
        let expected = match call {
            0 | 1 => RunError::Resolve { argument: call, error: ResolveError::Device(REFUSED) },
            3 => RunError::Launch(LaunchError::Device(REFUSED)),
            _ => RunError::Staging(REFUSED),
        };
        assert_eq!(result, Err(expected));
        assert_eq!(device.asked.borrow().len(), call + 1, "nothing is done after a refusal");
        assert_eq!(content(&to), [0x11; 64]);
        device.refuse(None);
        run(&mut chip, copy(), &[whole(&from), whole(&to_descriptor)]).unwrap();
        assert_eq!(content(&to), [3; 64]);
        to.mapping().unwrap().write(0, &[0x11; 64]).unwrap();
        drop(chip);
        assert_eq!(device.allocations.get(), 0);
    }
}

#[test]
fn what_stands_in_for_host_buffers_makes_room_for_what_is_needed_now() {
    let endpoint = Endpoint::new().unwrap();
    let device = Stubborn::new(APART);
    let mut chip = Chip::new(&device, 0).unwrap();
    let half = OPTIONS.nbytes / 2;
    let buffers: Vec<_> = (0..3).map(|byte| buffer(&endpoint, half, Access::ReadWrite, byte)).collect();
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        run(&mut chip, copy(), &[whole(&buffers[from].1), whole(&buffers[to].1)]).unwrap();
        assert_eq!(device.allocations.get(), 2, "there is room for two");
    }
    let all = vec![0; usize::try_from(half).unwrap()];
    assert!(buffers.iter().all(|(buffer, _)| content(buffer) == all));
    let taken = chip.allocate(|memory| memory.malloc(OPTIONS.nbytes, Access::Read)).unwrap();
    let full = chip.allocate(|memory| memory.malloc(1, Access::Read)).unwrap_err();
    assert_eq!(full.code(), Code::SpaceFull);
    let three = run(&mut chip, copy(), &[whole(&buffers[0].1), whole(&buffers[1].1)]).unwrap_err();
    assert_eq!((three.code(), three.argument()), (Code::SpaceFull, Some(0)));
    chip.free(taken.identity()).unwrap();
    run(&mut chip, copy(), &[whole(&buffers[0].1), whole(&buffers[1].1)]).unwrap();
}

#[test]
fn what_comes_again_with_another_size_has_another_place() {
    let endpoint = Endpoint::new().unwrap();
    let device = Stubborn::new(APART);
    let mut chip = Chip::new(&device, 0).unwrap();
    let (_small, small) = buffer(&endpoint, 64, Access::ReadWrite, 1);
    let (_from, from) = buffer(&endpoint, 4096, Access::Read, 2);
    let (large, honest) = buffer(&endpoint, 4096, Access::ReadWrite, 3);
    run(&mut chip, copy(), &[whole(&small), whole(&small)]).unwrap();
    // The small one's name for the large one's bytes, once the chip has forgotten what it said before.
    chip.forget_task();
    assert_eq!(chip.consumer().evict_unused(), 1);
    let lie = Descriptor::new(&DescriptorFields { identity: small.identity(), ..honest.fields() }).unwrap();
    device.refuse(None);
    run(&mut chip, copy(), &[whole(&from), whole(&lie)]).unwrap();
    assert_eq!(device.asked.borrow()[1..3], [Asked::Free, Asked::Malloc(4096)]);
    assert_eq!(content(&large), [2; 4096]);
}

#[test]
fn memory_that_one_chip_shares_by_handle_is_read_by_its_own_tasks_and_by_those_of_others() {
    for options in [OPTIONS, APART] {
        let (first_device, second_device) =
            (simulated(options), simulated(SimulatedChipOptions { device_id: 1, ..options }));
        let mut owner = Chip::new(&first_device, 0).unwrap();
        let mut other = Chip::new(&second_device, 1).unwrap();
        let shared = owner
            .allocate(|memory| memory.create_shareable(64, Access::ReadWrite, Admission::Listed))
            .unwrap();
        owner.memory().copy_to(shared.identity(), 0, &[8; 64]).unwrap();
        for (chip, resolution) in [(&mut owner, Resolution::Own), (&mut other, Resolution::MappedNow)] {
            let to = chip.allocate(|memory| memory.malloc(64, Access::ReadWrite)).unwrap();
            if resolution != Resolution::Own {
                let refused = run(chip, copy(), &[whole(&shared), whole(&to)]).unwrap_err();
                assert_eq!((refused.code(), refused.argument()), (Code::VmmNotPermitted, Some(0)));
                continue;
            }
            run(chip, copy(), &[whole(&shared), whole(&to)]).unwrap();
            assert_eq!(chip.resolutions(), [resolution, Resolution::Own]);
            let mut found = [0; 64];
            chip.memory().copy_from(to.identity(), 0, &mut found).unwrap();
            assert_eq!(found, [8; 64]);
        }
        let peer = other.memory().peer_number().unwrap();
        owner.memory().permit(shared.identity(), &[peer]).unwrap();
        let from = other.allocate(|memory| memory.malloc(64, Access::ReadWrite)).unwrap();
        other.memory().copy_to(from.identity(), 0, &[9; 64]).unwrap();
        run(&mut other, copy(), &[whole(&from), whole(&shared)]).unwrap();
        assert_eq!(other.resolutions(), [Resolution::Own, Resolution::MappedNow]);
        let mut found = [0; 64];
        owner.memory().copy_from(shared.identity(), 0, &mut found).unwrap();
        assert_eq!(found, [9; 64]);
        owner.free(shared.identity()).unwrap();
        assert_eq!(owner.free(shared.identity()).unwrap_err().code(), Code::Stale);
        let dead = run(&mut owner, copy(), &[whole(&shared), whole(&shared)]).unwrap_err();
        assert_eq!((dead.code(), dead.argument()), (Code::Stale, Some(0)));
    }
}
