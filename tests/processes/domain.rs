//! Communication domains over chips in processes of their own: on all of them or on none.

use bufabi_core::wire::body::Body;
use bufabi_core::{Access, Code, Tag};
use bufabi_host::device::memory::{WINDOW_ALIGNMENT, WindowPart};
use bufabi_host::owner::Endpoint;
use bufabi_host::sys::process::{Ending, Process};
use bufabi_host::worker::{DeviceBuffer, DomainError, MemoryError, WorkerKind};

use crate::Case;
use crate::device::{MIB, chip, copy_task, get, is_free, malloc, numbers, put, reported, tree};
use crate::support::{died, soon, spawn, spec};
use crate::tree::host;

pub(crate) const CASES: &[Case] = &[
    ("a_domain_is_on_all_of_its_chips_or_on_none", domain_all_or_none),
    ("a_domains_buffers_are_aligned_alike_and_zero_and_go_together", domain_together),
];

fn domain_all_or_none() {
    let endpoint = Endpoint::new().unwrap();
    let specs = [
        chip("chip0", MIB, true),
        host("l3", vec![chip("chip1", MIB, true)]),
        chip("small", 8192, true),
        chip("gone", MIB, true),
        spec("sub", WorkerKind::Sub),
    ];
    let mut workers = spawn(&endpoint, &specs);
    let [chip0, chip1, small, gone, sub] =
        ["chip0", "l3/chip1", "small", "gone", "sub"].map(|path| workers.find(path).unwrap());
    let parts = [WindowPart { nbytes: 10_000, access: Access::ReadWrite }; 3];
    let pid = workers.pid(gone).unwrap();
    Process::open(pid).unwrap().send(9).unwrap();
    for place in 0..3 {
        let mut chips = vec![chip0, chip1];
        chips.insert(place, small);
        let full = workers.create_domain(&chips, &parts, soon()).unwrap_err();
        assert_eq!((full.chip, reported(full.error)), (Some(small), Code::SpaceFull));
        chips[place] = gone;
        let failed = workers.create_domain(&chips, &parts, soon()).unwrap_err();
        let error = MemoryError::Failed(died("gone", pid, Ending::Killed { signal: 9 }));
        assert_eq!(failed, DomainError { chip: Some(gone), error });
        chips[place] = sub;
        let failed = workers.create_domain(&chips, &parts, soon()).unwrap_err();
        assert_eq!(failed, MemoryError::NotAChip { worker: sub }.into());
        assert_eq!(workers.device_buffers(), 0);
        is_free(&mut workers, chip0);
        is_free(&mut workers, chip1);
    }
    let many = vec![parts[0]; 257];
    let refused = workers.create_domain(&[chip0], &many, soon()).unwrap_err();
    assert_eq!(refused, MemoryError::TooManyParts { parts: 257, limit: 256 }.into());
    let domain = workers.create_domain(&[chip0], &vec![WindowPart { nbytes: 1, ..parts[0] }; 256], soon());
    assert_eq!(domain.unwrap().windows()[0].len(), 256);
}

fn domain_together() {
    let (_endpoint, mut workers, [chip0, chip1, _]) = tree();
    // What lies there from before is not zero.
    for chip in [chip0, chip1] {
        let dirty = malloc(&mut workers, chip, MIB);
        put(&mut workers, &dirty, &vec![0xff; 1 << 20]);
        workers.free(chip, dirty.identity(), soon()).unwrap();
    }
    let before = malloc(&mut workers, chip1, 4096);
    let parts = [1500, 1, 5000].map(|nbytes| WindowPart { nbytes, access: Access::ReadWrite });
    let domain = workers.create_domain(&[chip0, chip1], &parts, soon()).unwrap();
    let base = |buffer: &DeviceBuffer| {
        let Body::VmmWindow { base } = buffer.descriptor().body() else { panic!("{buffer:?}") };
        base.get()
    };
    for window in domain.windows() {
        for (buffer, part) in window.iter().zip(parts) {
            assert_eq!((buffer.nbytes(), base(buffer) % WINDOW_ALIGNMENT), (part.nbytes, 0));
            assert!(get(&mut workers, buffer).iter().all(|&byte| byte == 0));
        }
    }
    for window in domain.windows() {
        let offsets: Vec<u64> = window.iter().map(|buffer| base(buffer) - base(&window[0])).collect();
        assert_eq!(offsets, [0, 2048, 3072]);
    }
    let buffer = domain.windows()[0][1];
    let identity = buffer.identity();
    assert_eq!(workers.free(chip0, identity, soon()).unwrap_err(), MemoryError::InDomain { identity });
    workers.free_domain(&domain, soon()).unwrap();
    let refused = workers.submit(chip0, &copy_task(&[numbers(&domain.windows()[0][0]); 2], &[Tag::NoDep; 2]));
    assert_eq!(refused.unwrap_err().code(), Code::DeviceNotLive);
    let twice = workers.free_domain(&domain, soon()).unwrap_err();
    assert_eq!((twice.chip, reported(twice.error)), (Some(chip0), Code::Stale));
    assert_eq!(get(&mut workers, &before).len(), 4096);
    is_free(&mut workers, chip0);
}
