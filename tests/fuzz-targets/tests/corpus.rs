//! Every kept input, through the same function as in the fuzzer, on any toolchain.

use std::fs;
use std::path::Path;

fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut inputs = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        check(&fs::read(entry.unwrap().path()).unwrap());
        inputs += 1;
    }
    assert!(inputs >= 10, "{} has {inputs} inputs", folder.display());
}

#[test]
fn every_kept_descriptor_passes() {
    replay("descriptor", bufabi_fuzz::descriptor);
}

#[test]
fn every_kept_tensor_passes() {
    replay("tensor", bufabi_fuzz::tensor);
}

#[test]
fn every_kept_blob_passes() {
    replay("blob", bufabi_fuzz::blob);
}

#[test]
fn every_kept_pair_of_views_passes() {
    replay("overlap", bufabi_fuzz::overlap);
}

#[test]
fn every_kept_sequence_passes() {
    replay("dependencies", bufabi_fuzz::dependencies);
}

#[test]
fn every_kept_play_of_a_queue_passes() {
    replay("queue_peer", bufabi_fuzz::queue);
}
