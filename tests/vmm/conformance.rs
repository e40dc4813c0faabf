//! What both drivers do, to the same commands: one suite, and the few answers in which they may differ.

use crate::peer::{Peer, new_owner};
use crate::stand_in::World;

/// The drivers, and what each says where it has words of its own.
enum Driver {
    Memfd,
    Acl(World),
}

impl Driver {
    fn each() -> [Self; 2] {
        [Self::Memfd, Self::Acl(World::new())]
    }

    /// A peer with that device.
    fn start(&self, device: u32) -> Peer {
        match self {
            Self::Memfd => Peer::start(&["memfd", &new_owner(), &device.to_string()], &[]),
            Self::Acl(world) => world.start(device, &[]).0,
        }
    }

    /// A peer that is not permitted. The Ascend driver's number for it stands for several causes, so none is named.
    fn not_permitted(&self) -> &'static str {
        match self {
            Self::Memfd => "vmm_not_permitted",
            Self::Acl(_) => "vmm_driver_call",
        }
    }

    /// A handle that was revoked, or never was.
    fn unknown(&self) -> &'static str {
        match self {
            Self::Memfd => "vmm_handle_unknown",
            Self::Acl(_) => "vmm_driver_call",
        }
    }

    /// An owner that is gone.
    fn gone(&self) -> &'static str {
        match self {
            Self::Memfd => "vmm_owner_gone",
            Self::Acl(_) => "vmm_driver_call",
        }
    }
}

/// A field of a descriptor in hex, as a little-endian number.
fn field(descriptor: &str, offset: usize, width: usize) -> u64 {
    let bytes = bufabi_tests::unhex(descriptor).unwrap();
    let field = bytes.get(offset..).and_then(|rest| rest.get(..width)).unwrap();
    field.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

#[test]
fn a_backing_is_rounded_up_zero_and_named_by_its_descriptor() {
    for driver in Driver::each() {
        let mut owner = driver.start(3);
        let descriptor = owner.ok("share 7 2 5000 readwrite listed");
        assert_eq!(descriptor.len(), 2 * 88);
        assert_eq!(field(&descriptor, 4, 1), 6, "VMM_SHAREABLE");
        assert_eq!((field(&descriptor, 16, 8), field(&descriptor, 24, 4)), (7, 2), "identity");
        assert_eq!(field(&descriptor, 40, 8), 5000, "nbytes");
        assert_eq!(field(&descriptor, 56, 4), 3, "device");
        assert_ne!(field(&descriptor, 64, 8), 0, "handle");
        assert_eq!(field(&descriptor, 72, 8), 2 << 20, "mapping_bytes");
        assert_eq!(owner.ok("read own 7 0 5000"), "00".repeat(5000));
        let larger = owner.ok("share 8 1 2097153 readwrite listed");
        assert_eq!(field(&larger, 72, 8), 4 << 20);
        assert_eq!(owner.error("share 9 1 0 readwrite listed").0, "nbytes_zero");
        assert_eq!(owner.error("share 9 1 18446744073709551615 readwrite listed").0, "nbytes_too_large");
    }
}

#[test]
fn two_processes_share_what_either_writes() {
    for driver in Driver::each() {
        let (mut owner, mut importer) = (driver.start(0), driver.start(1));
        let descriptor = owner.ok("share 1 1 5000 readwrite listed");
        let peer = importer.number();
        assert_eq!(importer.error(&format!("import {descriptor}")).0, driver.not_permitted());
        owner.ok(&format!("permit 1 {peer}"));
        assert_eq!(importer.ok(&format!("import {descriptor}")), "0 1");
        owner.ok("write own 1 4998 c0de");
        assert_eq!(importer.ok("read import 0 4996 4"), "0000c0de");
        importer.ok("write import 0 0 0102030405060708");
        assert_eq!(owner.ok("read own 1 0 9"), "010203040506070800");
        for command in ["read import 0 4999 2", "read import 0 5001 0", "write import 0 4999 0000"] {
            assert_eq!(importer.error(command).0, "vmm_out_of_range", "{command}");
        }
        assert_eq!(owner.error("read own 1 4999 2").0, "vmm_out_of_range");
    }
}

#[test]
fn a_process_imports_an_identity_once_and_counts_above_that() {
    for driver in Driver::each() {
        let (mut owner, mut importer) = (driver.start(0), driver.start(0));
        let descriptor = owner.ok("share 1 1 5000 readwrite anyone");
        assert_eq!(importer.ok(&format!("import {descriptor}")), "0 1");
        assert_eq!(importer.ok(&format!("import {descriptor}")), "1 2");
        importer.ok("write import 0 9 ab");
        importer.ok("drop 0");
        assert_eq!(importer.ok("read import 1 9 1"), "ab", "it is mapped as long as one uses it");
        let mut other = bufabi_tests::unhex(&descriptor).unwrap();
        other[3] = 0;
        let other: String = other.iter().map(|byte| format!("{byte:02x}")).collect();
        let (code, text) = importer.error(&format!("import {other}"));
        assert_eq!(code, "vmm_descriptor_differs");
        assert!(text.ends_with("access"), "{text}");
        importer.ok("drop 1");
        assert_eq!(importer.ok(&format!("import {descriptor}")), "2 1");
    }
}

#[test]
fn importers_are_held_to_what_the_owner_grants() {
    for driver in Driver::each() {
        let (mut owner, mut importer) = (driver.start(0), driver.start(0));
        let reading = owner.ok("share 1 1 5000 read anyone");
        let writing = owner.ok("share 2 1 5000 write anyone");
        owner.ok("write own 1 0 77");
        importer.ok(&format!("import {reading}"));
        importer.ok(&format!("import {writing}"));
        assert_eq!(importer.ok("read import 0 0 1"), "77");
        let (code, text) = importer.error("write import 0 0 00");
        assert_eq!(code, "vmm_denied");
        assert_eq!(text, "WRITE was asked for, but the owner grants READ");
        importer.ok("write import 1 0 88");
        assert_eq!(importer.error("read import 1 0 1").0, "vmm_denied");
        assert_eq!(owner.ok("read own 2 0 1"), "88");
        match driver {
            // A store faults, whoever makes it.
            Driver::Memfd => assert_eq!(importer.ok("permissions 0"), "r--s"),
            // The driver knows no read-only mappings.
            Driver::Acl(_) => assert_eq!(importer.ok("permissions 0"), "rw-s"),
        }
        assert_eq!(importer.ok("permissions 1"), "rw-s");
    }
}

#[test]
fn ones_own_handle_is_not_imported() {
    for driver in Driver::each() {
        let mut owner = driver.start(0);
        let descriptor = owner.ok("share 1 1 5000 readwrite anyone");
        assert_eq!(owner.error(&format!("import {descriptor}")).0, "vmm_own_handle");
    }
}

#[test]
fn whitelist_and_no_whitelist_exclude_each_other() {
    for driver in Driver::each() {
        let mut owner = driver.start(0);
        owner.ok("share 1 1 5000 readwrite anyone");
        let (code, text) = owner.error("permit 1 1");
        assert_eq!(
            (code.as_str(), text.as_str()),
            ("vmm_order", "the handle was exported without a whitelist")
        );
    }
}

#[test]
fn revoking_ends_imports_and_leaves_mappings() {
    for driver in Driver::each() {
        let (mut owner, mut first, mut second) = (driver.start(0), driver.start(0), driver.start(0));
        let descriptor = owner.ok("share 1 1 5000 readwrite anyone");
        first.ok(&format!("import {descriptor}"));
        owner.ok("revoke 1");
        owner.ok("revoke 1");
        assert_eq!(second.error(&format!("import {descriptor}")).0, driver.unknown());
        owner.ok("write own 1 0 5a");
        assert_eq!(first.ok("read import 0 0 1"), "5a");
        owner.ok("release 1");
        owner.ok("release 1");
        assert_eq!(owner.error("read own 1 0 1").0, "vmm_order");
        first.ok("write import 0 1 a5");
        assert_eq!(first.ok("read import 0 0 2"), "5aa5", "the memory lives while it is mapped");
        first.ok("drop 0");
        assert_eq!(first.error(&format!("import {descriptor}")).0, driver.unknown());
    }
}

#[test]
fn an_owners_death_takes_nothing_away_and_is_told() {
    for driver in Driver::each() {
        let (mut owner, mut first, mut second) = (driver.start(0), driver.start(0), driver.start(0));
        let descriptor = owner.ok("share 1 1 5000 readwrite anyone");
        first.ok(&format!("import {descriptor}"));
        owner.ok("write own 1 0 5a");
        owner.kill();
        assert_eq!(first.ok("read import 0 0 1"), "5a");
        let begin = std::time::Instant::now();
        assert_eq!(second.error(&format!("import {descriptor}")).0, driver.gone());
        assert!(begin.elapsed() < std::time::Duration::from_secs(1));
    }
}

#[test]
fn a_descriptor_of_a_device_that_cannot_be_is_refused() {
    for driver in Driver::each() {
        let (mut owner, mut importer) = (driver.start(0), driver.start(0));
        let descriptor = owner.ok("share 1 1 5000 readwrite anyone");
        let mut bytes = bufabi_tests::unhex(&descriptor).unwrap();
        bytes[56..60].copy_from_slice(&[0xff; 4]);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(importer.error(&format!("import {hex}")).0, "vmm_device_unknown");
    }
}

#[test]
fn a_stale_generation_and_every_other_forged_field_are_refused_by_name() {
    let (mut owner, mut importer) = (Driver::Memfd.start(0), Driver::Memfd.start(0));
    let descriptor = owner.ok("share 1 2 5000 readwrite anyone");
    let unhexed = bufabi_tests::unhex(&descriptor).unwrap();
    for (offset, value, field) in [
        (3, 0, "access"),
        (16, 9, "buffer_id"),
        (24, 1, "generation"),
        (56, 1, "device_id"),
        // 4 MiB, where the owner has 2.
        (74, 0x40, "mapping_bytes"),
    ] {
        let mut bytes = unhexed.clone();
        bytes[offset] = value;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let (code, text) = importer.error(&format!("import {hex}"));
        assert_eq!(code, "vmm_mismatch", "{field}");
        assert!(text.starts_with(&format!("{field}: the descriptor claims")), "{text}");
    }
    for (offset, code) in [(8, "vmm_owner_gone"), (64, "vmm_handle_unknown"), (71, "vmm_handle_unknown")] {
        let mut bytes = unhexed.clone();
        bytes[offset] ^= 1;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(importer.error(&format!("import {hex}")).0, code, "byte {offset}");
    }
    importer.ok(&format!("import {descriptor}"));
}

#[test]
fn cycles_leave_memory_open_files_and_mappings_as_they_were() {
    let cycles =
        if std::env::var_os("BUFABI_LONG").is_some_and(|long| long == "1") { 100_000 } else { 2_000 };
    for driver in Driver::each() {
        let (mut owner, mut importer) = (driver.start(0), driver.start(0));
        let peer = importer.number();
        let mut cycle = |id: u32| {
            let descriptor = owner.ok(&format!("share {id} 1 5000 readwrite listed"));
            owner.ok(&format!("permit {id} {peer}"));
            let answer = importer.ok(&format!("import {descriptor}"));
            let key = answer.split(' ').next().unwrap().to_owned();
            importer.ok(&format!("write import {key} 0 5a"));
            assert_eq!(owner.ok(&format!("read own {id} 0 1")), "5a");
            importer.ok(&format!("drop {key}"));
            owner.ok(&format!("free {id}"));
            [owner.pid(), importer.pid()]
        };
        let pids = (1..=100).map(&mut cycle).last().unwrap();
        let before = pids.map(resident_kibibytes);
        let counts = pids.map(open_files_and_mappings);
        (101..=cycles).map(&mut cycle).for_each(drop);
        assert_eq!(pids.map(open_files_and_mappings), counts);
        for (before, after) in before.into_iter().zip(pids.map(resident_kibibytes)) {
            assert!(after <= before.saturating_add(1024), "{before} KiB, then {after}");
        }
    }
}

fn resident_kibibytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

fn open_files_and_mappings(pid: u32) -> (usize, usize) {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    (files, maps.lines().count())
}
