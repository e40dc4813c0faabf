//! On what memory and with what storage an end is attached at all.

use bufabi_core::queue::{AttachError, L2End, L3End, QueueLayout};
use bufabi_core::region::{AccessError, Place, RegionAccess};
use bufabi_tests::memory::AtomicMemory;

/// A memory that writes whole lines of `LINE` bytes back.
struct Lines<'a, const LINE: u64>(&'a AtomicMemory);

impl<const LINE: u64> RegionAccess for Lines<'_, LINE> {
    fn line(&self) -> u64 {
        LINE
    }

    fn payload_bytes(&self) -> u64 {
        self.0.payload_bytes()
    }

    fn counter_bytes(&self) -> u64 {
        self.0.counter_bytes()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), AccessError> {
        self.0.read(offset, out)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.0.write(offset, bytes)
    }

    fn load(&self, offset: u64) -> Result<u32, AccessError> {
        self.0.load(offset)
    }

    fn store(&self, offset: u64, value: u32) -> Result<(), AccessError> {
        self.0.store(offset, value)
    }

    fn publish(&self, place: Place) -> Result<(), AccessError> {
        self.0.publish(place)
    }

    fn observe(&self, place: Place) -> Result<(), AccessError> {
        self.0.observe(place)
    }
}

#[test]
fn an_end_is_attached_only_to_memory_and_storage_that_are_enough() {
    let layout = QueueLayout::new(4, 128, 128).unwrap();
    let attach = |payload_bytes, counter_bytes, marks: usize| {
        let memory = AtomicMemory::new(payload_bytes, counter_bytes);
        L3End::new(layout, &memory, vec![0; marks]).map(|_| ())
    };
    assert_eq!(attach(512, 384, 4), Ok(()));
    assert_eq!(attach(504, 384, 4), Err(AttachError::PayloadBytes { found: 504, needed: 512 }));
    assert_eq!(attach(512, 320, 4), Err(AttachError::CounterBytes { found: 320, needed: 384 }));
    assert_eq!(attach(512, 384, 3), Err(AttachError::Marks { found: 3, depth: 4 }));
    let memory = AtomicMemory::new(512, 384);
    assert!(L2End::<_, _, 4>::new(layout, &memory, [0; 4]).is_ok());
    let found = L2End::<_, _, 0>::new(layout, &memory, [0; 4]).err();
    assert_eq!(found, Some(AttachError::Window { found: 0, depth: 4 }));
    let found = L2End::<_, _, 5>::new(layout, &memory, [0; 4]).err();
    assert_eq!(found, Some(AttachError::Window { found: 5, depth: 4 }));
}

/// Where lines are written back whole, no line may have two writers: the rings of depth 1 share their first one.
#[test]
fn lines_that_both_sides_would_write_are_refused() {
    let memory = AtomicMemory::new(512, 384);
    for (depth, of_32, of_64) in [(1, true, false), (2, true, true), (4, true, true)] {
        let layout = QueueLayout::new(depth, 64, 64).unwrap();
        assert_eq!(L3End::new(layout, Lines::<32>(&memory), [0; 4]).is_ok(), of_32);
        assert_eq!(L3End::new(layout, Lines::<64>(&memory), [0; 4]).is_ok(), of_64);
        let found = L3End::new(layout, Lines::<128>(&memory), [0; 4]).err();
        let depth = layout.depth();
        assert_eq!(found, Some(AttachError::SharedLine { line: 128, depth }));
    }
}
