//! Two processes of eight threads each import, read, release and evict the same identities, under a consumer that has room for
//! half of them. For a sanitizer, which sees whether two threads come near each other without an order between them.
#![expect(clippy::unwrap_used, reason = "what a test does not find as it should fails it")]
#![expect(clippy::indexing_slicing, reason = "what a test does not find as it should fails it")]
#![expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]

use std::env;
use std::io::{Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use bufabi_core::wire::record::Holds;
use bufabi_core::{Access, Code, Descriptor, RawDescriptor};
use bufabi_host::backend::{self};
use bufabi_host::consumer::Consumer;
use bufabi_host::owner::Endpoint;
use bufabi_tests::apart::count;
use bufabi_tests::random::Random;

const THREADS: u64 = 8;
const IDENTITIES: usize = 24;
/// More than threads can hold at once, and half of the identities.
const CAPACITY: usize = 12;
const NBYTES: u64 = 5000;

/// Says to a process that it is the second one; descriptors come by its standard input.
const SECOND: &str = "BUFABI_TEST_SECOND";

fn main() -> ExitCode {
    if env::var_os(SECOND).is_some() {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).unwrap();
        let records = bytes.chunks_exact(RawDescriptor::SIZE);
        work(&records.map(|record| Descriptor::decode(record).unwrap()).collect::<Vec<_>>(), 2);
        return ExitCode::SUCCESS;
    }
    let endpoint = Endpoint::with_capacity(64).unwrap();
    let buffers: Vec<_> =
        (0..IDENTITIES).map(|_| endpoint.create_buffer(NBYTES, Access::ReadWrite).unwrap()).collect();
    for (number, buffer) in (0..).zip(&buffers) {
        buffer.mapping().unwrap().write(0, &[number; 5000]).unwrap();
    }
    let descriptors: Vec<_> = buffers.iter().map(|buffer| buffer.descriptor().unwrap()).collect();
    let mut second =
        Command::new(env::current_exe().unwrap()).env(SECOND, "1").stdin(Stdio::piped()).spawn().unwrap();
    let encoded: Vec<u8> = descriptors.iter().flat_map(|descriptor| descriptor.encode()).collect();
    second.stdin.take().unwrap().write_all(&encoded).unwrap();
    work(&descriptors, 1);
    assert!(second.wait().unwrap().success());
    println!("test eight_threads_of_two_processes_import_release_and_evict_the_same_identities ... ok");
    println!("\ntest result: 1 passed; 0 failed;");
    ExitCode::SUCCESS
}

/// What a process does with all of its threads.
fn work(descriptors: &[Descriptor<impl Holds<RawDescriptor> + Sync>], seed: u64) {
    let consumer = Consumer::with_backends(None, backend::of_host(), CAPACITY).unwrap();
    thread::scope(|scope| {
        for index in 0..THREADS {
            let consumer = &consumer;
            scope.spawn(move || use_them(consumer, descriptors, Random::new(seed * 100 + index)));
        }
    });
    let counters = consumer.counters();
    assert!(counters.live <= u32::try_from(CAPACITY).unwrap());
    assert!(counters.imports > 0 && counters.evictions > 0, "{counters:?}");
    assert_eq!(consumer.close(), Ok(()));
    assert_eq!(consumer.counters().live, 0);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = maps.lines().filter(|line| line.contains("/dev/shm/bufabi")).count();
    assert_eq!(mapped, if seed == 1 { IDENTITIES } else { 0 }, "the owner's own are left");
}

/// What a thread does.
fn use_them(consumer: &Consumer, descriptors: &[Descriptor<impl Holds<RawDescriptor>>], mut random: Random) {
    for _ in 0..count(2_000, 20_000) {
        let which = usize::try_from(random.below(u64::try_from(descriptors.len()).unwrap())).unwrap();
        let descriptor = &descriptors[which];
        match random.below(8) {
            0 => match consumer.release(descriptor.identity()) {
                Ok(()) => {}
                Err(error) => assert_eq!(error.code(), Code::ViewsAlive),
            },
            1 => {
                consumer.evict_unused();
            }
            _ => {
                let import = consumer.import(descriptor).unwrap();
                let mut bytes = [0; 64];
                let offset = usize::try_from(random.below(4900)).unwrap();
                import.read(offset, &mut bytes).unwrap();
                assert!(bytes.iter().all(|&byte| usize::from(byte) == which), "{which}: {bytes:?}");
                if random.below(64) == 0 {
                    thread::sleep(Duration::from_micros(50));
                }
            }
        }
    }
}
