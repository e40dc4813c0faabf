//! Limits that are reached: file descriptors and mappings, on each side. Each is its own error, nothing stays open, and nothing
//! hangs.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::peer::{Peer, new_owner};

fn start() -> Peer {
    Peer::start(&["memfd", &new_owner(), "0"], &[])
}

/// Lets a process open that many more files. The system's limit is one of numbers, of which any below it may be free.
fn limit_files(peer: &Peer, more: usize) {
    let pid = peer.pid().to_string();
    let taken = taken_numbers(peer);
    let limit = (0..).filter(|number| !taken.contains(number)).nth(more).unwrap();
    // The soft limit alone: it goes up again.
    let limit = format!("--nofile={limit}:");
    assert!(Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap().success());
}

/// The numbers of a process's open files.
fn taken_numbers(peer: &Peer) -> Vec<usize> {
    let entries = std::fs::read_dir(format!("/proc/{}/fd", peer.pid())).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect()
}

#[test]
fn an_importer_without_file_descriptors_says_so_wherever_it_runs_out() {
    let (mut owner, mut importer) = (start(), start());
    let descriptor = owner.ok("share 1 1 5000 readwrite anyone");
    let files = taken_numbers(&importer);
    // The socket, the owner's process, the memory.
    for (more, call) in [(0, "socket"), (1, "pidfd_open"), (2, "recvmsg")] {
        limit_files(&importer, more);
        let (code, text) = importer.error(&format!("import {descriptor}"));
        assert_eq!(code, "no_file_descriptor", "{more} more");
        assert!(text.starts_with(&format!("{call}: EMFILE")), "{text}");
        limit_files(&importer, 1000);
        assert_eq!(taken_numbers(&importer), files);
    }
    limit_files(&importer, 3);
    importer.ok(&format!("import {descriptor}"));
    limit_files(&importer, 1000);
    assert_eq!(taken_numbers(&importer), files, "a mapping needs none");
}

#[test]
fn an_owner_without_file_descriptors_turns_importers_away_and_goes_on() {
    let (mut owner, mut importer) = (start(), start());
    let descriptor = owner.ok("share 1 1 5000 readwrite anyone");
    owner.ok("share 2 1 5000 readwrite listed");
    let files = taken_numbers(&owner);
    limit_files(&owner, 0);
    let begin = Instant::now();
    let (code, text) = importer.error(&format!("import {descriptor}"));
    assert_eq!(code, "no_file_descriptor");
    assert!(text.starts_with("the process of the owner ") && text.ends_with(" left"), "{text}");
    assert!(begin.elapsed() < Duration::from_secs(1));
    let peer = importer.number();
    assert_eq!(owner.error(&format!("permit 2 {peer}")).0, "no_file_descriptor");
    assert_eq!(owner.error("share 3 1 5000 readwrite anyone").0, "no_file_descriptor");
    limit_files(&owner, 1000);
    assert_eq!(taken_numbers(&owner), files);
    importer.ok(&format!("import {descriptor}"));
    owner.ok(&format!("permit 2 {peer}"));
}

#[test]
fn a_process_without_mappings_says_so() {
    let (mut owner, mut importer) = (start(), start());
    let descriptor = owner.ok("share 1 1 5000 readwrite anyone");
    let before = (owner.count(), importer.count());
    for peer in [&mut owner, &mut importer] {
        peer.ok("fill-maps");
    }
    let (code, text) = importer.error(&format!("import {descriptor}"));
    assert_eq!(code, "no_address_space", "{text}");
    assert!(text.starts_with("mmap: ENOMEM"), "{text}");
    assert_eq!(owner.error("share 2 1 5000 readwrite anyone").0, "no_address_space");
    for peer in [&mut owner, &mut importer] {
        peer.ok("empty-maps");
    }
    assert_eq!((owner.count(), importer.count()), before);
    importer.ok(&format!("import {descriptor}"));
    owner.ok("share 2 1 5000 readwrite anyone");
}
