//! The queue's side of it: an L3 end here, an L2 end in the other process, over POSIX shared memory.

use std::hint::{black_box, spin_loop};
use std::time::{Duration, Instant};

use bufabi_core::Descriptor;
use bufabi_core::queue::{Handle, Kind, L2End, L3End, QueueLayout, ReceiveError, SendError};
use bufabi_host::consumer::Consumer;
use bufabi_host::owner::Endpoint;
use bufabi_host::region::{AttachedRegion, ProvidedRegion, RegionMemory};

use crate::{BATCH, Peer, say, timed};

pub(crate) const DEPTH: usize = 1024;

fn layout() -> QueueLayout {
    QueueLayout::new(DEPTH as u64, 64 * DEPTH as u64, 64 * DEPTH as u64).expect("a layout")
}

/// A region that this process made, and what tells the other one of it.
pub(crate) struct Shared {
    _endpoint: Endpoint,
    pub(crate) region: ProvidedRegion,
    pub(crate) told: String,
}

impl Shared {
    pub(crate) fn new(payload_bytes: u64, counter_bytes: u64) -> Self {
        let endpoint = Endpoint::new().expect("an endpoint");
        let region = ProvidedRegion::create(&endpoint, payload_bytes, counter_bytes).expect("a region");
        let descriptors = region.descriptors().expect("a live region");
        let hex = |descriptor: &Descriptor| -> String {
            descriptor.encode().iter().map(|byte| format!("{byte:02x}")).collect()
        };
        let told = format!("{} {}", hex(&descriptors[0]), hex(&descriptors[1]));
        Self { _endpoint: endpoint, region, told }
    }
}

/// Attaches to the region that it was told of, for as long as `work` takes.
pub(crate) fn attached<T>(told: &[&str], work: impl FnOnce(&AttachedRegion<'_>) -> T) -> T {
    let parse = |hex: &str| {
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        Descriptor::decode(&bytes).expect("a descriptor")
    };
    let consumer = Consumer::new(None).expect("a consumer");
    let region = AttachedRegion::attach(&consumer, &parse(told[0]), &parse(told[1])).expect("a region");
    work(&region)
}

type Host = L3End<RegionMemory, Vec<u64>>;
type Task<const N: usize> = L2End<RegionMemory, Vec<u64>, N>;

fn host() -> (Shared, Host) {
    let layout = layout();
    let shared = Shared::new(layout.payload_bytes(), layout.counter_bytes());
    let memory = shared.region.memory().expect("a live region");
    (shared, L3End::new(layout, memory, vec![0; DEPTH]).expect("an end"))
}

fn task<const N: usize>(region: &AttachedRegion<'_>) -> Task<N> {
    let memory = region.memory().expect("a live region");
    L2End::new(layout(), memory, vec![0; DEPTH]).expect("an end")
}

pub(crate) fn one_way(messages: u64) -> Duration {
    let (shared, mut end) = host();
    let peer = Peer::start(&format!("queue-sink {messages} {}", shared.told));
    timed(peer, || {
        for count in 0..messages {
            let bytes = [count.to_le_bytes(); 4];
            while let Err(error) = end.try_enqueue(Kind::Data, bytes.as_flattened()) {
                assert!(matches!(error, SendError::Full(_)), "{error}");
                spin_loop();
            }
        }
    })
}

pub(crate) fn sink(messages: u64, told: &[&str]) {
    attached(told, |region| {
        let mut end = task::<1>(region);
        say("ready");
        let mut bytes = [0; 32];
        for _ in 0..messages {
            let message = loop {
                match end.try_receive() {
                    Ok(message) => break message,
                    Err(ReceiveError::Empty) => spin_loop(),
                    Err(error) => panic!("{error}"),
                }
            };
            end.read_into(message.handle(), &mut bytes).expect("its bytes");
            black_box(&bytes);
            end.release(message.handle()).expect("its release");
        }
        say("done");
    });
}

pub(crate) fn one_way_in_batches(messages: u64) -> Duration {
    let (shared, mut end) = host();
    let peer = Peer::start(&format!("queue-sink-batches {messages} {}", shared.told));
    timed(peer, || {
        let mut count = 0;
        while count < messages {
            let room = (messages - count).min(BATCH as u64);
            let batch = (count..count + room).map(|count| Bytes([count.to_le_bytes(); 4]));
            match end.try_enqueue_all(Kind::Data, batch) {
                Ok(sent) => count += sent as u64,
                Err(SendError::Full(_)) => spin_loop(),
                Err(error) => panic!("{error}"),
            }
        }
    })
}

struct Bytes([[u8; 8]; 4]);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self.0.as_flattened()
    }
}

pub(crate) fn sink_in_batches(messages: u64, told: &[&str]) {
    attached(told, |region| {
        let mut end = task::<BATCH>(region);
        say("ready");
        let (mut bytes, mut count) = ([0; 32], 0);
        let mut held = [Handle::from_number(0); BATCH];
        while count < messages {
            let mut holds = 0;
            while let Some(slot) = held.get_mut(holds) {
                let message = match end.try_receive() {
                    Ok(message) => message,
                    Err(ReceiveError::Empty) => break,
                    Err(error) => panic!("{error}"),
                };
                end.read_into(message.handle(), &mut bytes).expect("its bytes");
                black_box(&bytes);
                *slot = message.handle();
                holds += 1;
            }
            if holds == 0 {
                spin_loop();
                continue;
            }
            end.release_all(&held[..holds]).expect("their release");
            count += holds as u64;
        }
        say("done");
    });
}

pub(crate) fn round_trips(trips: u64) -> Duration {
    let (shared, mut end) = host();
    let peer = Peer::start(&format!("queue-echo {trips} {}", shared.told));
    let start = Instant::now();
    let mut bytes = [5; 64];
    for _ in 0..trips {
        end.try_enqueue(Kind::Data, &bytes).expect("room");
        while let Err(error) = end.try_dequeue_into(&mut bytes) {
            assert_eq!(error, ReceiveError::Empty);
            spin_loop();
        }
    }
    let took = start.elapsed();
    peer.finish();
    took
}

pub(crate) fn echo(trips: u64, told: &[&str]) {
    attached(told, |region| {
        let mut end = task::<1>(region);
        say("ready");
        let mut bytes = [0; 64];
        for _ in 0..trips {
            let message = loop {
                match end.try_receive() {
                    Ok(message) => break message,
                    Err(ReceiveError::Empty) => spin_loop(),
                    Err(error) => panic!("{error}"),
                }
            };
            end.read_into(message.handle(), &mut bytes).expect("its bytes");
            end.try_send(Kind::Data, &bytes).expect("room");
            end.release(message.handle()).expect("its release");
        }
        say("done");
    });
}
