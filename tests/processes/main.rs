//! Real processes: each case runs in one of its own, which has a single thread, and is killed past a limit.
//!
//! `cargo test -p bufabi-tests --test processes [PART OF A NAME]...`
#![expect(clippy::unwrap_used, clippy::panic, reason = "what a test does not find as it should fails it")]
#![expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]

#[expect(clippy::indexing_slicing, reason = "what a test does not find as it should fails it")]
mod device;
#[expect(clippy::indexing_slicing, reason = "what a test does not find as it should fails it")]
mod domain;
mod inherited;
#[expect(clippy::indexing_slicing, reason = "what a test does not find as it should fails it")]
mod orchestrator;
#[expect(clippy::indexing_slicing, reason = "what a test does not find as it should fails it")]
mod races;
mod region;
mod shm;
mod support;
mod tree;
mod workers;

use std::process::ExitCode;
use std::time::Duration;

use bufabi_tests::apart;

/// A case: its name is a sentence.
type Case = (&'static str, fn());

/// How long a case may take before it counts as hanging; ten times that in a long run, in which some do ten times as much.
const LIMIT: Duration = Duration::from_secs(60);

/// `BUFABI_LONG=1`: a long run.
pub(crate) fn is_long() -> bool {
    std::env::var("BUFABI_LONG").is_ok_and(|long| long == "1")
}

fn main() -> ExitCode {
    let cases = [
        workers::CASES,
        shm::CASES,
        inherited::CASES,
        region::CASES,
        tree::CASES,
        orchestrator::CASES,
        races::CASES,
        device::CASES,
        domain::CASES,
    ]
    .concat();
    let cases: Vec<_> = cases.into_iter().map(|(name, run)| apart::Case::new(name, run)).collect();
    apart::main(&cases, if is_long() { LIMIT * 10 } else { LIMIT })
}
