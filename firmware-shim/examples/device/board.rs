//! The machine from its start to its end: what the start code jumps to, and how it is switched off.

// Its panic handler is the image's.
use bufabi_firmware as _;

use core::arch::asm;
use core::ptr::{read_volatile, with_exposed_provenance, with_exposed_provenance_mut, write_volatile};
use core::sync::atomic::{AtomicU32, Ordering};

use bufabi_core::Code;
use bufabi_core::import_table::ImportBucket;
use bufabi_core::queue::L2End;
use bufabi_device::mailbox::{
    DEPTH, FAULT, GAVE_UP, IS_FAULTED, RawFault, RawStart, START, Start, TOOK_AN_EXCEPTION,
};
use bufabi_device::tasks::{Tasks, serve};
use zerocopy::little_endian::U64;

use super::clock::GuestClock;
use super::memory::Ram;
use super::queue::QueueMemory;

core::arch::global_asm!(include_str!("start.S"));

/// Ranges that the host can have given out at a time.
const ALLOCATIONS: usize = 4096;
/// Identities that are remembered.
const IMPORTS: usize = 1024;

/// An address as a number that a pointer is made of.
pub(crate) fn place(address: u64) -> usize {
    usize::try_from(address).unwrap_or(0)
}

/// Where the start code jumps to.
#[unsafe(no_mangle)]
extern "C" fn board_main() -> ! {
    if let Err(code) = run() {
        // A code is a small positive number.
        let syndrome = u64::from(code.number().cast_unsigned());
        report(GAVE_UP, RawFault { syndrome: U64::new(syndrome), ..RawFault::default() });
    }
    power_off()
}

fn run() -> Result<(), Code> {
    let record = with_exposed_provenance::<RawStart>(place(START));
    // SAFETY: the page is memory of this machine, any bytes are a record, its alignment is 1, and the host wrote it before the start.
    let raw = unsafe { read_volatile(record) };
    let start = Start::decode(&raw).map_err(|error| error.code())?;
    // SAFETY: the record was checked to put the heap behind everything else, and the host wrote it, which made this machine's memory.
    let ram = unsafe { Ram::new(start.heap) };
    // SAFETY: as above; the queue's parts lie between the report and the heap.
    let memory = unsafe { QueueMemory::new(start.queue.region()) };
    let mut queue = L2End::new(start.queue.layout(), memory, [0_u64; DEPTH]).map_err(|error| error.code())?;
    let mut tasks = Tasks::<ALLOCATIONS, IMPORTS, { ImportBucket::count_for(IMPORTS) }>::new(&start);
    serve(&mut tasks, &ram, &mut queue, &mut GuestClock::start())
}

/// Where an exception ends.
#[unsafe(no_mangle)]
extern "C" fn board_fault(syndrome: u64, address: u64, instruction: u64) -> ! {
    report(
        TOOK_AN_EXCEPTION,
        RawFault {
            syndrome: U64::new(syndrome),
            address: U64::new(address),
            instruction: U64::new(instruction),
        },
    );
    power_off()
}

/// Tells the host why this is the end.
fn report(kind: u32, fault: RawFault) {
    // SAFETY: the report's page is memory of this machine that nobody else writes; the record's alignment is 1.
    unsafe { write_volatile(with_exposed_provenance_mut(place(FAULT)), fault) };
    // SAFETY: as above, at a multiple of 64; the host reads it by atomics too.
    let word = unsafe { AtomicU32::from_ptr(with_exposed_provenance_mut(place(IS_FAULTED))) };
    word.store(kind, Ordering::Release);
}

/// Switches the machine off: its process ends.
fn power_off() -> ! {
    /// SYSTEM_OFF of PSCI 0.2.
    const SYSTEM_OFF: u64 = 0x8400_0008;
    loop {
        // SAFETY: the call takes a number, and does not come back when it works; when it does not, it changes registers that
        // nobody uses behind it.
        unsafe { asm!("hvc #0", in("x0") SYSTEM_OFF, clobber_abi("C")) };
    }
}
