//! Copies are exact whatever their range, and a part of a mapping is no more than that.

use std::sync::atomic::AtomicU8;

use super::*;

#[test]
fn copies_of_every_small_range_and_alignment_are_exact() {
    let mapping = Mapping::inherited(64).unwrap();
    let pattern: Vec<u8> = (1..=64).collect();
    for start in 0..24 {
        for length in 0..=40 {
            mapping.write(0, &[0; 64]).unwrap();
            mapping.write(start, &pattern[..length]).unwrap();
            let mut all = [0xff; 64];
            mapping.read(0, &mut all).unwrap();
            let mut expected = [0; 64];
            expected[start..][..length].copy_from_slice(&pattern[..length]);
            assert_eq!(all, expected, "{start}, {length}");
            let mut part = vec![0; length];
            mapping.read(start, &mut part).unwrap();
            assert_eq!(part, pattern[..length], "{start}, {length}");
        }
    }
}

#[test]
fn copies_of_a_backing_count_and_copies_of_control_memory_do_not() {
    // Other tests copy at the same time, and only ever more.
    let control = Mapping::inherited(1 << 20).unwrap();
    let (_name, backing) = crate::shm::create(1 << 20).unwrap();
    let before = bytes_copied();
    backing.write(0, &[1; 1 << 20]).unwrap();
    backing.read(0, &mut [0; 1 << 20]).unwrap();
    assert!(bytes_copied() - before >= 2 << 20);
    control.write(0, &[1; 8]).unwrap();
    assert!(control.registration.is_none());
}

#[test]
fn a_part_keeps_its_whole_and_allows_no_more() {
    struct Told(Arc<AtomicU8>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.store(1, Ordering::Relaxed);
        }
    }
    let (_name, whole) = crate::shm::create(4096).unwrap();
    let whole = Arc::new(whole);
    let told = Arc::new(AtomicU8::new(0));
    let place = Box::new(Told(Arc::clone(&told)));
    let part = Mapping::part(&whole, 100, 50, Access::Read, Some(place)).unwrap();
    assert_eq!((part.address(), part.nbytes()), (whole.address() + 100, 50));
    whole.write(149, &[7]).unwrap();
    let mut byte = [0];
    drop(whole);
    part.read(49, &mut byte).unwrap();
    assert_eq!(byte, [7]);
    assert!(part.write(0, &byte).is_err() && part.clear(0, 1).is_err());
    assert!(part.read(50, &mut byte).is_err() && !part.is_damaged());
    let part = Arc::new(part);
    let wider = Mapping::part(&part, 0, 50, Access::ReadWrite, None).unwrap();
    assert_eq!(wider.access(), Access::Read);
    assert!(Mapping::part(&part, 1, 50, Access::Read, None).is_err());
    drop(part);
    assert_eq!(told.load(Ordering::Relaxed), 0);
    wider.unmap().unwrap();
    assert_eq!(told.load(Ordering::Relaxed), 1);
}

#[test]
fn every_small_range_is_cleared_exactly() {
    let mapping = Mapping::copied(64).unwrap();
    for start in 0..24 {
        for length in 0..=40 {
            mapping.write(0, &[9; 64]).unwrap();
            mapping.clear(start, length).unwrap();
            let mut all = [1; 64];
            mapping.read(0, &mut all).unwrap();
            let mut expected = [9; 64];
            expected[start..][..length].fill(0);
            assert_eq!(all, expected, "{start}, {length}");
        }
    }
    assert!(mapping.clear(60, 5).is_err());
}

#[test]
fn a_range_past_the_end_is_refused_with_its_numbers() {
    let mapping = Mapping::inherited(8).unwrap();
    let refused = OutOfRange { offset: 7, length: 2, nbytes: 8 };
    assert_eq!(mapping.read(7, &mut [0; 2]), Err(refused));
    assert_eq!(mapping.write(7, &[0; 2]), Err(refused));
    assert_eq!(mapping.write(usize::MAX, &[0; 2]).unwrap_err().nbytes, 8);
    assert!(mapping.read(8, &mut []).is_ok());
    assert!(mapping.atomic_u32(4).is_some());
    assert!(mapping.atomic_u32(6).is_none());
    assert!(mapping.atomic_u32(8).is_none());
}

#[test]
fn a_mapping_that_is_only_to_be_written_is_not_read_but_by_what_carries_its_bytes() {
    let (name, whole) = crate::shm::create(8).unwrap();
    whole.write(0, &[5; 8]).unwrap();
    let mapping = crate::shm::open(name.name(), 8, Access::Write).unwrap();
    let mut found = [0; 2];
    let refused = OutOfRange { offset: 6, length: 2, nbytes: 0 };
    assert_eq!(mapping.read(6, &mut found), Err(refused));
    assert_eq!((mapping.read(7, &mut found).unwrap_err().nbytes, found), (8, [0; 2]));
    mapping.write(6, &[7]).unwrap();
    mapping.carry(6, &mut found).unwrap();
    assert_eq!(found, [7, 5]);
}

#[test]
fn a_number_that_is_reached_by_atomics_is_aligned_wherever_its_mapping_starts() {
    let whole = Arc::new(Mapping::inherited(64).unwrap());
    let part = Mapping::part(&whole, 3, 60, Access::ReadWrite, None).unwrap();
    assert!(part.atomic_u32(0).is_none() && part.atomic_u32(4).is_none());
    part.atomic_u32(1).unwrap().store(7, Ordering::Relaxed);
    assert_eq!(whole.atomic_u32(4).unwrap().load(Ordering::Relaxed), 7);
    let read = Mapping::part(&whole, 4, 60, Access::Read, None).unwrap();
    assert!(read.atomic_u32(0).is_none());
}

#[test]
fn a_store_to_what_is_only_to_be_read_ends_the_process() {
    use crate::sys::process::Ending;
    use crate::sys::testing::in_fork;
    let (name, writer) = crate::shm::create(4096).unwrap();
    let reader = crate::shm::open(name.name(), 4096, Access::Read).unwrap();
    let store = |base: NonNull<u8>| {
        in_fork(|| {
            // SAFETY: the byte lies in a mapping that is there as long as the test runs. That the page may refuse the store,
            // and end this fork, is what is seen.
            unsafe { base.as_ptr().write_volatile(7) };
            0
        })
    };
    assert_eq!(store(reader.base()), Ending::Killed { signal: libc::SIGSEGV });
    assert_eq!(store(writer.base()), Ending::Exited { status: 0 });
    let mut byte = [0];
    reader.read(0, &mut byte).unwrap();
    assert_eq!(byte, [7]);
}
