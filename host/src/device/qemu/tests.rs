//! What can be seen without an emulator; the machine itself is tried by `tests/device`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use bufabi_core::Code;
use bufabi_device::mailbox::{FAULT, GAVE_UP, IS_FAULTED, MEMORY_BASE, RawFault, TOOK_AN_EXCEPTION};

use super::*;

fn options(emulator: &str, firmware: &str) -> QemuOptions {
    QemuOptions { emulator: PathBuf::from(emulator), ..QemuOptions::with_firmware(PathBuf::from(firmware)) }
}

#[test]
fn what_is_missing_is_named_with_what_to_do() {
    let started = |emulator, firmware| QemuDevice::start(&options(emulator, firmware)).unwrap_err();
    let error = started("no-such-emulator", "/no/such/firmware");
    assert_eq!(error.to_string(), "firmware /no/such/firmware: open: ENOENT, no such file or object");
    let error = started("no-such-emulator", "/proc/self/exe");
    assert_eq!(error, QemuError::NotFirmware { path: PathBuf::from("/proc/self/exe") });
    assert_eq!(error.code(), Code::DeviceMissing);
    let error = started("no-such-emulator", "/dev/null");
    assert_eq!(error, QemuError::NotFirmware { path: PathBuf::from("/dev/null") });
}

#[test]
fn a_machine_has_whole_mebibytes_and_some_to_give_out() {
    for nbytes in [0, 4 << 20, (5 << 20) | 1, (4 << 30) + (1 << 20)] {
        assert_eq!(GuestMemory::new(nbytes).unwrap_err(), QemuError::Memory { nbytes });
    }
    let memory = GuestMemory::new(5 << 20).unwrap();
    let memory = memory.file();
    assert_eq!(memory.heap().nbytes, 1 << 20);
    let (base, end) = (memory.heap().base, memory.heap().base + (1 << 20));
    memory.write(end - 3, b"abc").unwrap();
    let mut out = [0; 3];
    memory.read(end - 3, &mut out).unwrap();
    assert_eq!(&out, b"abc");
    for (address, nbytes) in [(end - 2, 3), (base - 1, 1), (0, 1), (u64::MAX, 1)] {
        let refused = DeviceError::OutOfRange { address, nbytes };
        assert_eq!(memory.zero(address, nbytes), Err(refused));
        assert_eq!(memory.discard(address, nbytes), Err(refused));
    }
    memory.zero(base, 1 << 20).unwrap();
    memory.read(end - 3, &mut out).unwrap();
    assert_eq!(out, [0; 3]);
}

#[test]
fn a_machine_that_has_ended_says_why_if_it_can() {
    let memory = GuestMemory::new(5 << 20).unwrap();
    assert_eq!(link::ended(&memory), DeviceError::Ended);
    let file = File::from(memory.file().as_fd().try_clone_to_owned().unwrap());
    let report = |kind: u32, syndrome: u64| {
        let fault =
            RawFault { syndrome: U64::new(syndrome), address: U64::new(0xf000), instruction: U64::new(8) };
        file.write_all_at(fault.as_bytes(), FAULT - MEMORY_BASE).unwrap();
        file.write_all_at(&kind.to_le_bytes(), IS_FAULTED - MEMORY_BASE).unwrap();
        link::ended(&memory)
    };
    let faulted = DeviceError::Faulted { syndrome: 0x9600_0010, address: 0xf000, instruction: 8 };
    assert_eq!(report(TOOK_AN_EXCEPTION, 0x9600_0010), faulted);
    let gave_up = |number: i32| report(GAVE_UP, u64::from(number.cast_unsigned()));
    assert_eq!(gave_up(Code::QueueDepth.number()), DeviceError::Firmware { code: Code::QueueDepth });
    assert_eq!(gave_up(99_999), DeviceError::Firmware { code: Code::MessageBroken });
}
