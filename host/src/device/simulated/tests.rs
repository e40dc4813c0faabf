//! A simulated chip alone: its addresses, its bytes, and what its kernels reach.

use bufabi_core::wire::blob;
use bufabi_core::wire::body::Body;
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{Blob, ChipStorageTaskArgs, DType, Descriptor, Identity, OwnerInstanceId, Tensor};

use core::num::NonZeroU32;

use super::*;
use crate::consumer::Consumer;
use crate::device::DeviceRange;
use crate::kernels::{Call, Kernel, StandardKernels};
use crate::owner::Endpoint;

const OPTIONS: SimulatedChipOptions =
    SimulatedChipOptions { device_id: 0, nbytes: 1 << 20, reaches_host_memory: true };

fn chip() -> SimulatedChip<'static, StandardKernels> {
    SimulatedChip::new(&StandardKernels, OPTIONS).unwrap()
}

/// The number of C = A.
fn copy() -> u32 {
    Call { kernel: Kernel::Copy, accumulate: false }.number()
}

fn range(address: u64, nbytes: u64, access: Access) -> Resolved {
    Resolved::Device(DeviceRange { address, nbytes, access })
}

/// A task over whole backings of bytes, as what runs on the chip.
fn launch(
    chip: &SimulatedChip<'_, StandardKernels>,
    kernel: u32,
    backings: &[Resolved],
) -> Result<(), LaunchError> {
    let tensors: Vec<Tensor> = backings.iter().zip(1..).map(|(backing, id)| tensor(backing, id)).collect();
    launch_on(chip, kernel, &tensors, backings, |backing| backing.address())
}

fn tensor(backing: &Resolved, id: u64) -> Tensor {
    let identity = Identity::new(OwnerInstanceId([1; 8]), id, NonZeroU32::MIN);
    let fields = DescriptorFields {
        identity,
        access: backing.access(),
        nbytes: backing.nbytes(),
        owner_worker_path_id: 0,
        body: Body::DeviceMalloc { base: core::num::NonZeroU64::new(backing.address()).unwrap() },
    };
    let descriptor = Descriptor::new(&fields).unwrap();
    let elements = u32::try_from(backing.nbytes()).unwrap();
    let view = View::row_major(0, DType::Uint8, &[elements], backing.nbytes()).unwrap();
    Tensor::new(&descriptor, &view).unwrap()
}

fn launch_on(
    chip: &SimulatedChip<'_, StandardKernels>,
    kernel: u32,
    tensors: &[Tensor],
    backings: &[Resolved],
    address: impl Fn(&Resolved) -> u64,
) -> Result<(), LaunchError> {
    let mut bytes = vec![0; blob::encoded_size(tensors.len(), 0).unwrap()];
    blob::encode(tensors, &[], &mut bytes).unwrap();
    let blob = Blob::from_bytes(&bytes).unwrap();
    let mut arguments = Box::new(ChipStorageTaskArgs::EMPTY);
    arguments.materialize(&blob, |index, _| Ok::<u64, ()>(address(&backings[index]))).unwrap();
    chip.launch(&Launch { kernel, blob: &blob, arguments: &arguments, backings })
}

#[test]
fn an_address_of_a_chip_is_no_address_of_a_process_and_none_of_another_chip() {
    let mut addresses: Vec<u64> = (0..256)
        .map(|device_id| {
            let chip =
                SimulatedChip::new(&StandardKernels, SimulatedChipOptions { device_id, ..OPTIONS }).unwrap();
            let address = chip.malloc(1).unwrap();
            // x86-64, of 48 bits and of 57: all the bits above must be equal.
            for bits in [47, 56] {
                let above = address >> bits;
                assert!(above != 0 && above != u64::MAX >> bits, "{address:#x}");
            }
            // aarch64 without its top byte: bit 55 says that it is the kernel's.
            assert_eq!(address >> 55 & 1, 1);
            assert!(address.is_multiple_of(chip.alignment()));
            address
        })
        .collect();
    addresses.dedup_by_key(|address| *address >> CHIP_SHIFT);
    assert_eq!(addresses.len(), 256);
}

#[test]
fn bytes_come_back_as_they_were_copied_and_only_from_memory_of_the_chip() {
    let chip = chip();
    let first = chip.malloc(5000).unwrap();
    let second = chip.malloc(100).unwrap();
    let pattern: Vec<u8> = (0..=250).cycle().take(5000).collect();
    chip.copy_to(first, &pattern).unwrap();
    let mut found = vec![1; 5000];
    chip.copy_from(first, &mut found).unwrap();
    assert_eq!(found, pattern);
    chip.copy_from(second, &mut found[..100]).unwrap();
    assert_eq!(found[..100], [0; 100]);
    chip.zero(first + 1, 4998).unwrap();
    chip.copy_from(first, &mut found).unwrap();
    assert_eq!((found[0], found[4999]), (pattern[0], pattern[4999]));
    assert_eq!(found[1..4999], [0; 4998]);

    let end = chip.heap.base + OPTIONS.nbytes;
    chip.copy_to(end - 1, &[7]).unwrap();
    for (address, nbytes) in
        [(end - 1, 2), (end, 1), (chip.heap.base - 1, 1), (0, 1), (u64::MAX, 2), (chip.heap.base, 2 << 20)]
    {
        let refused = DeviceError::OutOfRange { address, nbytes };
        assert_eq!(chip.zero(address, nbytes), Err(refused));
        let mut bytes = vec![0; usize::try_from(nbytes).unwrap()];
        assert_eq!(chip.copy_to(address, &bytes), Err(refused));
        assert_eq!(chip.copy_from(address, &mut bytes), Err(refused));
        assert_eq!(refused.code(), bufabi_core::Code::DeviceAddress);
    }
}

#[test]
fn freed_memory_goes_back_to_the_machine_and_comes_again_as_zeros() {
    let chip = chip();
    assert!(chip.memory.get().is_none(), "the chip's memory costs nothing until it is given out");
    let taken = || chip.memory.get().unwrap().file.taken();
    let address = chip.malloc(100_000).unwrap();
    assert!(taken() >= 100_000);
    chip.copy_to(address, &[9; 100_000]).unwrap();
    chip.free(address).unwrap();
    assert_eq!(taken(), 0);
    assert_eq!(chip.free(address), Err(DeviceError::Space(crate::space::SpaceError::NotLive { address })));
    let whole = chip.malloc(OPTIONS.nbytes).unwrap();
    assert_eq!(whole, address);
    let mut found = vec![1; 100_000];
    chip.copy_from(whole, &mut found).unwrap();
    assert!(found.iter().all(|&byte| byte == 0));
    let full = chip.malloc(1).unwrap_err();
    assert_eq!(full.code(), bufabi_core::Code::SpaceFull);
    assert_eq!(chip.malloc(0).unwrap_err().code(), bufabi_core::Code::NbytesZero);
}

#[test]
fn a_kernel_reaches_the_memory_of_its_task_and_no_other() {
    let chip = chip();
    let [from, to] = [chip.malloc(64).unwrap(), chip.malloc(64).unwrap()];
    chip.copy_to(from, &[5; 64]).unwrap();
    let backings = [range(from, 64, Access::Read), range(to, 64, Access::Write)];
    launch(&chip, copy(), &backings).unwrap();
    let mut found = [0; 64];
    chip.copy_from(to, &mut found).unwrap();
    assert_eq!(found, [5; 64]);

    let denied = launch(&chip, copy(), &[range(from, 64, Access::Read), range(to, 64, Access::Read)]);
    assert!(matches!(
        denied,
        Err(LaunchError::Kernel(crate::worker::KernelError::Denied { operand: 1, .. }))
    ));
    // Arguments that point one byte past what stands behind them.
    let tensors = [tensor(&backings[0], 1), tensor(&backings[1], 2)];
    let past = launch_on(&chip, copy(), &tensors, &backings, |backing| backing.address() + 1);
    assert_eq!(past, Err(LaunchError::NotMapped { argument: 0, address: from + 1 }));
    // What is no memory of the chip, whatever the worker says of it.
    let foreign = range(chip.heap.base - 64, 64, Access::ReadWrite);
    let outside = launch(&chip, copy(), &[foreign, range(to, 64, Access::Write)]);
    assert_eq!(outside, Err(LaunchError::NotMapped { argument: 0, address: chip.heap.base - 64 }));
}

#[test]
fn only_a_chip_that_reaches_host_memory_computes_in_it() {
    let endpoint = Endpoint::new().unwrap();
    let buffer = endpoint.create_buffer(64, Access::Read).unwrap();
    buffer.mapping().unwrap().write(0, &[3; 64]).unwrap();
    let consumer = Consumer::new(None).unwrap();
    let import = consumer.import(&buffer.descriptor().unwrap()).unwrap();
    for reaches_host_memory in [true, false] {
        let options = SimulatedChipOptions { reaches_host_memory, ..OPTIONS };
        let chip = SimulatedChip::new(&StandardKernels, options).unwrap();
        let to = chip.malloc(64).unwrap();
        let backings = [Resolved::Host(import.clone()), range(to, 64, Access::Write)];
        let launched = launch(&chip, copy(), &backings);
        let mut found = [0; 64];
        chip.copy_from(to, &mut found).unwrap();
        if reaches_host_memory {
            assert_eq!((launched, found), (Ok(()), [3; 64]));
        } else {
            let not_mapped = LaunchError::NotMapped { argument: 0, address: import.address() };
            assert_eq!((launched, found), (Err(not_mapped), [0; 64]));
        }
    }
}
