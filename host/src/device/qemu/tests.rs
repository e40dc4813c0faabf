//! What can be seen without an emulator; the machine itself is tried by `tests/device`.

use std::path::PathBuf;

use bufabi_core::Code;

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
