//! Tasks on a device in QEMU: our firmware on a bare machine, driven through the memory that it shares with this process.
#![expect(clippy::unwrap_used, reason = "what a test cannot build or run fails it")]
#![expect(clippy::arithmetic_side_effects, clippy::indexing_slicing, reason = "test arithmetic")]

mod run;

use std::cell::Cell;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bufabi_core::wire::blob::{self, encoded_size};
use bufabi_core::wire::body::Body;
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{
    Access, Blob, ChipStorageTaskArgs, Code, DType, Descriptor, Identity, OwnerInstanceId, Tensor, View,
};
use bufabi_host::device::{
    Device, DeviceError, DeviceRange, Launch, LaunchError, QemuDevice, QemuError, QemuOptions, Resolved,
};
use bufabi_host::kernels::{Call, Kernel, StandardKernels};
use bufabi_host::memory::Operand;
use bufabi_host::sys::process::Process;
use bufabi_host::worker::{KernelError, Kernels};
use bufabi_tests::device::{device_firmware, panics, rust_firmware};
use bufabi_tests::random::Random;

/// Linux's numbers of the two signals that no program can catch.
const KILL: i32 = 9;
const STOP: i32 = 19;

fn builds() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("firmware")
}

fn options() -> QemuOptions {
    QemuOptions::with_firmware(device_firmware(&builds()).unwrap())
}

/// A tensor on the device, and what lies behind it.
#[derive(Clone, Copy)]
struct Argument {
    tensor: Tensor,
    backing: DeviceRange,
}

impl Argument {
    fn new(buffer_id: u64, backing: DeviceRange, view: &View) -> Self {
        let identity = Identity::new(OwnerInstanceId([9; 8]), buffer_id, NonZeroU32::MIN);
        let body = Body::DeviceMalloc { base: NonZeroU64::new(backing.address).unwrap() };
        let DeviceRange { nbytes, access, .. } = backing;
        let fields = DescriptorFields { identity, access, nbytes, owner_worker_path_id: 0, body };
        Self { tensor: Tensor::new(&Descriptor::new(&fields).unwrap(), view).unwrap(), backing }
    }
}

fn launch(
    device: &QemuDevice,
    call: Call,
    arguments: &[Argument],
    scalars: &[u64],
) -> Result<(), LaunchError> {
    let tensors: Vec<Tensor> = arguments.iter().map(|argument| argument.tensor).collect();
    let mut bytes = vec![0; encoded_size(tensors.len(), scalars.len()).unwrap()];
    blob::encode(&tensors, scalars, &mut bytes).unwrap();
    let backings: Vec<Resolved> =
        arguments.iter().map(|argument| Resolved::Device(argument.backing)).collect();
    let chip_arguments = Box::new(ChipStorageTaskArgs::EMPTY);
    let blob = Blob::from_bytes(&bytes).unwrap();
    device.launch(&Launch {
        kernel: call.number(),
        blob: &blob,
        arguments: &chip_arguments,
        backings: &backings,
    })
}

fn range(device: &QemuDevice, nbytes: u64) -> DeviceRange {
    DeviceRange { address: device.malloc(nbytes).unwrap(), nbytes, access: Access::ReadWrite }
}

fn below(random: &mut Random, end: usize) -> usize {
    usize::try_from(random.below(u64::try_from(end).unwrap())).unwrap()
}

/// A view of `shape` whose dimensions lie in a random order, with gaps.
fn strided(random: &mut Random, dtype: DType, shape: &[u32]) -> View {
    let mut order: Vec<usize> = (0..shape.len()).collect();
    for place in (1..order.len()).rev() {
        order.swap(place, below(random, place + 1));
    }
    let mut strides = vec![1; shape.len()];
    let mut step = 1;
    for dim in order {
        strides[dim] = step;
        step = step * shape[dim] + u32::try_from(below(random, 3)).unwrap();
    }
    let offset = u64::from(dtype.size()) * random.below(4);
    View::new(offset, dtype, shape, &strides, 1 << 20).unwrap()
}

/// What a kernel leaves in the last backing on this machine.
fn computed_here(call: Call, backings: &[Vec<u8>], views: &[View], scalars: &[u64]) -> Vec<u8> {
    let mut backings = backings.to_vec();
    let last = backings.len() - 1;
    let operands: Vec<Operand<'_>> = backings
        .iter_mut()
        .zip(views)
        .enumerate()
        .map(|(index, (bytes, view))| {
            let access = if index == last { Access::ReadWrite } else { Access::Read };
            Operand::in_cells(Cell::from_mut(&mut bytes[..]).as_slice_of_cells(), *view, access).unwrap()
        })
        .collect();
    StandardKernels.run(call.number(), &operands, scalars).unwrap();
    drop(operands);
    backings.pop().unwrap()
}

fn computes(kernel: Kernel) -> bool {
    !matches!(kernel, Kernel::None | Kernel::Fill | Kernel::Copy)
}

#[test]
fn every_kernel_gives_the_same_bits_on_every_type_of_element() {
    let device = QemuDevice::start(&options()).unwrap();
    let mut random = Random::new(7);
    let mut identity = 0;
    for kernel in Kernel::ALL {
        for dtype in DType::ALL.iter().copied() {
            let carried = matches!(dtype, DType::Bool | DType::Fp8E4M3Fn | DType::Fp8E8M0 | DType::Fp4E2M1);
            if computes(kernel) && carried {
                continue;
            }
            for accumulate in [false, true] {
                if accumulate && !kernel.accumulates() {
                    continue;
                }
                let call = Call { kernel, accumulate };
                let dim = |random: &mut Random, most: usize| 1 + u32::try_from(below(random, most)).unwrap();
                let (m, k, n) = (dim(&mut random, 70), dim(&mut random, 140), dim(&mut random, 20));
                let shapes: Vec<Vec<u32>> = match kernel {
                    Kernel::MatMul => vec![vec![m, k], vec![k, n], vec![m, n]],
                    Kernel::SumRows => vec![vec![m, k], vec![m]],
                    Kernel::None => vec![vec![3]],
                    Kernel::Fill | Kernel::Copy | Kernel::Add | Kernel::Mul | Kernel::Scale => {
                        vec![vec![3, m, 2]; kernel.operands().unwrap()]
                    }
                };
                let views: Vec<View> =
                    shapes.iter().map(|shape| strided(&mut random, dtype, shape)).collect();
                let mut arguments = Vec::new();
                let mut backings = Vec::new();
                for view in &views {
                    // Small exponents, so that floats neither overflow nor are NaN.
                    let bytes: Vec<u8> =
                        (0..view.end() + 5).map(|_| random.next().to_le_bytes()[0] & 0x3f).collect();
                    let range = range(&device, view.end() + 5);
                    device.copy_to(range.address, &bytes).unwrap();
                    identity += 1;
                    arguments.push(Argument::new(identity, range, view));
                    backings.push(bytes);
                }
                let scalar = if dtype.size() == 1 { 0x2a } else { 0x3c01 };
                launch(&device, call, &arguments, &[scalar]).unwrap();
                let expected = computed_here(call, &backings, &views, &[scalar]);
                let mut found = vec![0; expected.len()];
                device.copy_from(arguments.last().unwrap().backing.address, &mut found).unwrap();
                assert!(found == expected, "{call:?} on {dtype}: {views:?}");
                for argument in arguments {
                    device.free(argument.backing.address).unwrap();
                }
            }
        }
    }
}

#[test]
fn the_device_checks_again_what_its_host_says() {
    let device = QemuDevice::start(&options()).unwrap();
    let copy = Call { kernel: Kernel::Copy, accumulate: false };
    let view = View::row_major(0, DType::Uint8, &[16], 16).unwrap();
    let (a, b) = (range(&device, 16), range(&device, 16));
    let (from, to) = (Argument::new(1, a, &view), Argument::new(2, b, &view));
    launch(&device, copy, &[from, to], &[]).unwrap();
    let refused = |code, argument| Err(LaunchError::Refused { code, argument: Some(argument) });
    // An identity that comes back with another descriptor, or from another place.
    let mut other = from;
    other.backing.address += 1;
    assert_eq!(launch(&device, copy, &[other, to], &[]), refused(Code::ImportConflict, 0));
    let larger = Argument::new(1, DeviceRange { nbytes: 17, ..a }, &view);
    assert_eq!(launch(&device, copy, &[larger, to], &[]), refused(Code::ImportConflict, 0));
    // Memory that was never given out, given back, or is not all of one allocation.
    let beyond = DeviceRange { address: a.address + 16, ..a };
    let found = launch(&device, copy, &[from, Argument::new(3, beyond, &view)], &[]);
    assert_eq!(found, refused(Code::DeviceAllocation, 1));
    device.free(b.address).unwrap();
    assert_eq!(launch(&device, copy, &[from, to], &[]), refused(Code::DeviceAllocation, 1));
    assert_eq!(device.free(b.address).unwrap_err().code(), Code::NotAllocated);
    // What the kernel does not take is said in full.
    let read_only = Argument::new(4, DeviceRange { access: Access::Read, ..a }, &view);
    let denied = KernelError::Denied { operand: 1, granted: Access::Read, needed: Access::Write };
    assert_eq!(launch(&device, copy, &[from, read_only], &[]), Err(LaunchError::Kernel(denied)));
    assert_eq!(device.malloc(1 << 40).unwrap_err().code(), Code::SpaceFull);
    launch(&device, copy, &[from, Argument::new(5, a, &view)], &[]).unwrap();
}

/// Stops a process, and waits until all of its threads stand still: on a busy machine some run on for a moment.
fn stop(pid: i32) {
    Process::open(pid).unwrap().send(STOP).unwrap();
    let stands = || {
        let mut threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        threads.all(|thread| {
            let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
            stat.rsplit(") ").next().unwrap().starts_with('T')
        })
    };
    let begin = Instant::now();
    while !stands() {
        assert!(begin.elapsed() < Duration::from_secs(20), "it never stood still");
        std::thread::yield_now();
    }
}

#[test]
fn a_machine_that_is_killed_is_told_of_at_once_and_one_that_hangs_after_its_limit() {
    let device = QemuDevice::start(&options()).unwrap();
    Process::open(device.pid()).unwrap().send(KILL).unwrap();
    assert_eq!(device.malloc(1), Err(DeviceError::Ended));
    assert_eq!(device.malloc(1), Err(DeviceError::Ended), "nothing is asked of it any more");

    let patience = Duration::from_millis(300);
    let slow = QemuOptions { patience, ..options() };
    let device = loop {
        // On a busy machine it may take longer to start than it may hang.
        match QemuDevice::start(&slow) {
            Ok(device) => break device,
            Err(QemuError::Device(DeviceError::TimedOut { .. })) => {}
            Err(error) => panic!("{error}"),
        }
    };
    stop(device.pid());
    assert_eq!(device.malloc(1), Err(DeviceError::TimedOut { milliseconds: 300 }));
    assert!(Process::open(device.pid()).is_err(), "it is gone, stopped as it was");
}

/// Ticks of processor time, a hundred in a second, that a process has used.
fn ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn no_path_of_the_firmware_panics() {
    let image = device_firmware(&builds()).unwrap();
    assert_eq!(panics(&image).unwrap(), [""; 0]);
}

#[test]
fn an_idle_device_sleeps() {
    let device = QemuDevice::start(&options()).unwrap();
    let before = ticks(device.pid());
    // Nothing is waited for: this is the time in which one that spins would be seen.
    std::thread::sleep(Duration::from_secs(1));
    let used = ticks(device.pid()) - before;
    assert!(used < 50, "{used} of 100 ticks");
}

#[test]
fn firmware_that_is_none_of_ours_does_not_start() {
    let firmware = rust_firmware(&builds()).unwrap();
    let options =
        QemuOptions { patience: Duration::from_millis(1500), ..QemuOptions::with_firmware(firmware) };
    let error = QemuDevice::start(&options).unwrap_err();
    assert_eq!(error, QemuError::Device(DeviceError::TimedOut { milliseconds: 1500 }));
    let missing = QemuOptions { emulator: "no-such-emulator".into(), ..options };
    let error = QemuDevice::start(&missing).unwrap_err();
    assert_eq!(error, QemuError::EmulatorMissing { path: "no-such-emulator".into() });
    assert!(error.to_string().contains("install it"), "{error}");
}
