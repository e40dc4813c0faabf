//! iceoryx2's publish-subscribe, without loss and without waiting for events.

use std::hint::{black_box, spin_loop};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use iceoryx2::config::Config;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::publish_subscribe::PortFactory;

use crate::queue::DEPTH;
use crate::{Peer, say, timed};

type Service<T> = PortFactory<ipc::Service, T, ()>;

/// Where iceoryx2 keeps its files. By itself it leaves some, so each run has a folder and a prefix of its own, which go with it.
struct Place {
    name: String,
}

impl Place {
    fn new(what: &str) -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { name: format!("bufabi-bench-{}-{number}-{what}", std::process::id()) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(folder(&self.name)).expect("its folder");
        for file in std::fs::read_dir("/dev/shm").expect("shared memory") {
            let file = file.expect("a file");
            if file.file_name().to_string_lossy().starts_with(&self.name) {
                std::fs::remove_file(file.path()).expect("its end");
            }
        }
    }
}

fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(name)
}

fn node(name: &str) -> Node<ipc::Service> {
    set_log_level(LogLevel::Error);
    let mut config = Config::default();
    config.global.prefix = name.try_into().expect("a prefix");
    let folder = folder(name);
    config.global.set_root_path(&folder.to_str().expect("a path").try_into().expect("a path"));
    NodeBuilder::new().config(&config).create::<ipc::Service>().expect("a node")
}

fn service<T: std::fmt::Debug + ZeroCopySend>(node: &Node<ipc::Service>, name: &str) -> Service<T> {
    node.service_builder(&name.try_into().expect("a name"))
        .publish_subscribe::<T>()
        .enable_safe_overflow(false)
        .subscriber_max_buffer_size(DEPTH)
        .max_publishers(1)
        .max_subscribers(1)
        .open_or_create()
        .expect("a service")
}

fn publisher<T: std::fmt::Debug + ZeroCopySend>(service: &Service<T>) -> Publisher<ipc::Service, T, ()> {
    let builder =
        service.publisher_builder().backpressure_strategy(BackpressureStrategy::RetryUntilDelivered);
    builder.create().expect("a publisher")
}

fn subscriber<T: std::fmt::Debug + ZeroCopySend>(service: &Service<T>) -> Subscriber<ipc::Service, T, ()> {
    service.subscriber_builder().buffer_size(DEPTH).create().expect("a subscriber")
}

fn publish<T: std::fmt::Debug + ZeroCopySend>(publisher: &Publisher<ipc::Service, T, ()>, message: T) {
    let sample = publisher.loan_uninit().expect("a sample");
    sample.write_payload(message).send().expect("its delivery");
}

fn take<T: std::fmt::Debug + ZeroCopySend + Copy>(subscriber: &Subscriber<ipc::Service, T, ()>) -> T {
    loop {
        if let Some(sample) = subscriber.receive().expect("a subscriber") {
            return *sample.payload();
        }
        spin_loop();
    }
}

pub(crate) fn one_way(messages: u64) -> Duration {
    let place = Place::new("one-way");
    let (node, name) = (node(&place.name), &place.name);
    let service = service::<[u64; 4]>(&node, name);
    let publisher = publisher(&service);
    let peer = Peer::start(&format!("iceoryx-sink {messages} {name}"));
    timed(peer, || {
        for count in 0..messages {
            publish(&publisher, [count; 4]);
        }
    })
}

pub(crate) fn sink(messages: u64, name: &str) {
    let node = node(name);
    let service = service::<[u64; 4]>(&node, name);
    let subscriber = subscriber(&service);
    say("ready");
    for _ in 0..messages {
        black_box(take(&subscriber));
    }
    say("done");
}

pub(crate) fn round_trips(trips: u64) -> Duration {
    let place = Place::new("trip");
    let (node, name) = (node(&place.name), &place.name);
    let (there, back) =
        (service::<[u64; 8]>(&node, name), service::<[u64; 8]>(&node, &format!("{name}-back")));
    let (publisher, subscriber) = (publisher(&there), subscriber(&back));
    let peer = Peer::start(&format!("iceoryx-echo {trips} {name}"));
    let start = Instant::now();
    for trip in 0..trips {
        publish(&publisher, [trip; 8]);
        black_box(take(&subscriber));
    }
    let took = start.elapsed();
    publish(&publisher, [trips; 8]);
    peer.finish();
    took
}

pub(crate) fn echo(trips: u64, name: &str) {
    let node = node(name);
    let (there, back) =
        (service::<[u64; 8]>(&node, name), service::<[u64; 8]>(&node, &format!("{name}-back")));
    let (subscriber, publisher) = (subscriber(&there), publisher(&back));
    say("ready");
    for _ in 0..trips {
        publish(&publisher, take(&subscriber));
    }
    // An answer that was not taken yet goes with its publisher: this one stays until the other side says that it has them all.
    take(&subscriber);
    say("done");
}
