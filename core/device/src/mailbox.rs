//! Where a device and its host find each other in the device's memory: a start record, a report, and a message queue.
//!
//! The memory is that of QEMU's `virt` machine. The host holds it as a file whose byte 0 is at [`MEMORY_BASE`], and writes the
//! [`Start`] record before the machine starts; nobody writes it afterwards. The queue is the one of [`bufabi_core::queue`], the
//! device its L2 end, and all order between the two comes from its counters. The report has words that the device alone writes.
//!
//! | address | what | who writes it |
//! |---|---|---|
//! | [`MEMORY_BASE`] | what the machine itself puts there | QEMU, before the start |
//! | [`IMAGE`] | the firmware and its stack | QEMU, then the device |
//! | [`START`] | the start record | the host, before the start |
//! | [`REPORT`] | progress and fault | the device |
//! | [`COUNTER`], [`PAYLOAD`] | the queue | both, each its own lines |
//! | [`HEAP`] | memory for the host to give out | both, in the order of the messages |

use core::fmt;

use bufabi_core::Code;
use bufabi_core::queue::{QueueLayout, QueueView, QueueViewError};
use bufabi_core::region::{Part, RegionView};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The memory's first address.
pub const MEMORY_BASE: u64 = 0x4000_0000;
/// Where the firmware is loaded and starts.
pub const IMAGE: u64 = MEMORY_BASE + 0x8_0000;
/// The start record, on a page of its own. The firmware and its stack end before it.
pub const START: u64 = MEMORY_BASE + 0x30_0000;
/// The report, on a page of its own.
pub const REPORT: u64 = START + 0x1000;
/// The queue's counters, on a page of their own.
pub const COUNTER: u64 = START + 0x2000;
/// The queue's rings and arenas.
pub const PAYLOAD: u64 = START + 0x3000;
/// Memory that the host gives out: from here to the end.
pub const HEAP: u64 = MEMORY_BASE + 0x40_0000;

/// Slots of each of the queue's rings.
pub const DEPTH: usize = 4;
/// Bytes of requests that can be under way: more than the largest one.
pub const INPUT_ARENA: u64 = 0x1_0000;
/// Bytes of replies that can be under way.
pub const OUTPUT_ARENA: u64 = 0x1000;

/// A 32-bit count in the report, which grows while the device works: one that stands still belongs to a device that hangs.
pub const PROGRESS: u64 = REPORT;
/// A 32-bit word in the report: not 0 once the [`RawFault`] behind it says why the device ended.
pub const IS_FAULTED: u64 = REPORT + 64;
/// What [`IS_FAULTED`] is when the processor took an exception.
pub const TOOK_AN_EXCEPTION: u32 = 1;
/// What [`IS_FAULTED`] is when the firmware gave up: the number of a [`Code`] stands where an exception has its syndrome.
pub const GAVE_UP: u32 = 2;
/// Why the device ended: a [`RawFault`].
pub const FAULT: u64 = REPORT + 72;

/// "L2DV" and the version, major and minor: the high half of a start record's first word and the low.
pub const MAGIC_VERSION: u64 = 0x4c32_4456_0001_0000;

/// The start record's bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawStart {
    /// [`MAGIC_VERSION`].
    pub magic_version: U64,
    /// The twelve scalars of the queue.
    pub queue: [U64; QueueView::SCALARS],
    /// The first address of the memory that the host gives out.
    pub heap_base: U64,
    /// Bytes of it.
    pub heap_nbytes: U64,
    /// Random and secret: what the device's table of identities is seeded with.
    pub seed: [U64; 2],
}

/// What the processor says of the exception that ended the firmware.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct RawFault {
    /// Its syndrome: ESR_EL1.
    pub syndrome: U64,
    /// The address that it is about: FAR_EL1.
    pub address: U64,
    /// The instruction that took it: ELR_EL1.
    pub instruction: U64,
}

const _: () = {
    assert!(size_of::<RawStart>() == 136);
    assert!(core::mem::offset_of!(RawStart, queue) == 8);
    assert!(core::mem::offset_of!(RawStart, heap_base) == 104);
    assert!(core::mem::offset_of!(RawStart, heap_nbytes) == 112);
    assert!(core::mem::offset_of!(RawStart, seed) == 120);
    assert!(size_of::<RawFault>() == 24);
    assert!(core::mem::offset_of!(RawFault, address) == 8);
    assert!(core::mem::offset_of!(RawFault, instruction) == 16);
};

/// A start record that was checked. It does not prove that there is memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The queue, in the device's addresses.
    pub queue: QueueView,
    /// The memory that the host gives out.
    pub heap: Part,
    /// What the table of identities is seeded with.
    pub seed: [u64; 2],
}

impl Start {
    /// The record of a machine with `memory_nbytes` bytes; `None` when that leaves none to give out, or passes the last address.
    #[must_use]
    pub fn for_memory(memory_nbytes: u64, seed: [u64; 2]) -> Option<Self> {
        let end = MEMORY_BASE.checked_add(memory_nbytes)?;
        let heap = Part { base: HEAP, nbytes: end.checked_sub(HEAP).filter(|&nbytes| nbytes > 0)? };
        let depth = u64::try_from(DEPTH).ok()?;
        let layout = QueueLayout::new(depth, INPUT_ARENA, OUTPUT_ARENA).ok()?;
        let payload = Part { base: PAYLOAD, nbytes: layout.payload_bytes() };
        let counter = Part { base: COUNTER, nbytes: layout.counter_bytes() };
        let region = RegionView::new(1, payload, counter).ok()?;
        let queue = QueueView::new(region, layout).ok()?;
        Some(Self { queue, heap, seed })
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> RawStart {
        RawStart {
            magic_version: U64::new(MAGIC_VERSION),
            queue: self.queue.to_scalars().map(U64::new),
            heap_base: U64::new(self.heap.base),
            heap_nbytes: U64::new(self.heap.nbytes),
            seed: self.seed.map(U64::new),
        }
    }

    /// Checks a record that was copied out.
    ///
    /// # Errors
    /// [`StartError`], in the order of its variants.
    pub fn decode(raw: &RawStart) -> Result<Self, StartError> {
        // The minor version is not compared.
        let found = raw.magic_version.get();
        if found >> 16 != MAGIC_VERSION >> 16 {
            return Err(StartError::Version { found });
        }
        let queue = QueueView::from_scalars(raw.queue.map(U64::get)).map_err(StartError::Queue)?;
        let region = queue.region();
        let heap = Part { base: raw.heap_base.get(), nbytes: raw.heap_nbytes.get() };
        for part in [region.payload(), region.counter()] {
            let end = part.base.checked_add(part.nbytes);
            if part.base < COUNTER || end.is_none_or(|end| end > HEAP) {
                return Err(StartError::QueuePlace { found: part });
            }
        }
        if heap.base < HEAP || heap.nbytes == 0 || heap.base.checked_add(heap.nbytes).is_none() {
            return Err(StartError::Heap { found: heap });
        }
        Ok(Self { queue, heap, seed: raw.seed.map(U64::get) })
    }
}

/// Why a device does not start on a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError {
    /// Another program's, or a major version that is not spoken here.
    Version {
        /// The first word.
        found: u64,
    },
    /// The queue's scalars break a rule.
    Queue(QueueViewError),
    /// A part of the queue lies where something else does.
    QueuePlace {
        /// The part.
        found: Part,
    },
    /// The memory to be given out is empty, or lies where something else does.
    Heap {
        /// That memory.
        found: Part,
    },
}

impl StartError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Version { .. } => Code::DeviceFirmware,
            Self::Queue(error) => error.code(),
            Self::QueuePlace { .. } | Self::Heap { .. } => Code::DeviceAllocation,
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { found } => {
                write!(f, "a start record begins with {MAGIC_VERSION:#x}, found {found:#x}")
            }
            Self::Queue(error) => error.fmt(f),
            Self::QueuePlace { found: Part { base, nbytes } } => {
                write!(f, "{nbytes} bytes from {base:#x} on are no place for a queue")
            }
            Self::Heap { found: Part { base, nbytes } } => {
                write!(f, "{nbytes} bytes from {base:#x} on are not memory to be given out")
            }
        }
    }
}

impl core::error::Error for StartError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_each_broken_rule_is_named() {
        let start = Start::for_memory(64 << 20, [3, 4]).unwrap();
        assert_eq!(start.heap, Part { base: 0x4040_0000, nbytes: 60 << 20 });
        let raw = start.encode();
        assert_eq!(Start::decode(&raw), Ok(start));
        let broken = |change: fn(&mut RawStart)| {
            let mut raw = raw;
            change(&mut raw);
            Start::decode(&raw).unwrap_err()
        };
        assert_eq!(broken(|raw| raw.magic_version = U64::ZERO), StartError::Version { found: 0 });
        assert!(matches!(broken(|raw| raw.queue[7] = U64::new(3)), StartError::Queue(_)));
        let part = Part { base: START, nbytes: 384 };
        assert_eq!(broken(|raw| raw.queue[4] = U64::new(START)), StartError::QueuePlace { found: part });
        let heap = Part { base: START, nbytes: 60 << 20 };
        assert_eq!(broken(|raw| raw.heap_base = U64::new(START)), StartError::Heap { found: heap });
        let heap = Part { base: HEAP, nbytes: u64::MAX };
        assert_eq!(broken(|raw| raw.heap_nbytes = U64::MAX_VALUE), StartError::Heap { found: heap });
        let mut minor = raw;
        minor.magic_version = U64::new(MAGIC_VERSION | 7);
        assert_eq!(Start::decode(&minor), Ok(start), "minor is not compared");
    }

    #[test]
    fn a_machine_without_memory_to_give_out_has_no_record() {
        assert_eq!(Start::for_memory(4 << 20, [0; 2]), None);
        assert_eq!(Start::for_memory(u64::MAX, [0; 2]), None);
        assert!(Start::for_memory((4 << 20) | 1, [0; 2]).is_some());
    }

    #[test]
    fn everything_has_a_place_of_its_own() {
        let queue = Start::for_memory(8 << 20, [0; 2]).unwrap().queue.region();
        const { assert!(FAULT + 24 <= COUNTER) };
        assert!(COUNTER + queue.counter().nbytes <= PAYLOAD);
        assert!(PAYLOAD + queue.payload().nbytes <= HEAP);
    }
}
