//! One suite over every backing that an endpoint can own or name: made, shared with another process, used, released, refused.
//!
//! Each case runs in a process of its own for each kind of backing, and a timer's signals interrupt whatever call it makes, in
//! the forks that it shares with too. `cargo test -p bufabi-tests --test conformance [PART OF A NAME]...`
#![expect(clippy::unwrap_used, clippy::panic, reason = "what a test does not find as it should fails it")]
#![expect(clippy::indexing_slicing, reason = "what a test does not find as it should fails it")]
#![expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]

mod cycles;
mod kinds;
mod limits;
mod peer;
mod rules;
mod workers;

use std::process::ExitCode;
use std::time::Duration;

use bufabi_host::sys::interruption::Interruptions;
use bufabi_tests::apart::{self, Case};

use self::kinds::Kind;
use self::peer::BEAT;

/// A case for each kind.
type ForEach = (&'static str, fn(Kind));

/// How long a case may take before it counts as hanging.
const LIMIT: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    let of_each = [rules::CASES, limits::CASES, cycles::CASES].concat();
    let mut cases = Vec::new();
    for kind in kinds::ALL {
        let of_workers = if workers::KINDS.contains(&kind) { workers::CASES } else { &[] };
        for (name, run) in of_each.iter().chain(of_workers).copied() {
            cases.push(Case::new(format!("{}_{name}", kind.name()), move || interrupted(|| run(kind))));
        }
    }
    apart::main(&cases, LIMIT)
}

/// Runs something while signals come, and sees to it that they came.
fn interrupted(run: impl FnOnce()) {
    let interruptions = Interruptions::begin(BEAT).unwrap();
    run();
    while Interruptions::count() == 0 {
        std::thread::yield_now();
    }
    drop(interruptions);
}
