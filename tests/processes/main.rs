//! Real processes: each case runs in one of its own, which has a single thread, and is killed past a limit.
//!
//! `cargo test -p bufabi-tests --test processes [PART OF A NAME]...`
#![expect(clippy::unwrap_used, clippy::panic, reason = "what a test does not find as it should fails it")]
#![expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]

mod inherited;
#[expect(clippy::indexing_slicing, reason = "what a test does not find as it should fails it")]
mod orchestrator;
mod region;
mod shm;
mod support;
mod tree;
mod workers;

use std::env;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A case: its name is a sentence.
type Case = (&'static str, fn());

/// How long a case may take before it counts as hanging.
const LIMIT: Duration = Duration::from_secs(60);

/// Names the case to the process that runs it.
const CASE: &str = "BUFABI_TEST_CASE";

fn main() -> ExitCode {
    let cases: Vec<Case> =
        [workers::CASES, shm::CASES, inherited::CASES, region::CASES, tree::CASES, orchestrator::CASES]
            .concat();
    if let Ok(name) = env::var(CASE) {
        for (_, run) in cases.iter().filter(|(case, _)| *case == name) {
            run();
        }
        return ExitCode::SUCCESS;
    }
    let parts: Vec<String> = env::args().skip(1).filter(|part| !part.starts_with('-')).collect();
    let wanted = |name: &str| parts.is_empty() || parts.iter().any(|part| name.contains(part.as_str()));
    let (mut passed, mut failed) = (0_u32, 0_u32);
    for (name, _) in cases.iter().filter(|(name, _)| wanted(name)) {
        match run_apart(name) {
            Ok(()) => {
                println!("test {name} ... ok");
                passed = passed.saturating_add(1);
            }
            Err(why) => {
                println!("test {name} ... FAILED: {why}");
                failed = failed.saturating_add(1);
            }
        }
    }
    println!("\ntest result: {passed} passed; {failed} failed;");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a case in a process of its own.
fn run_apart(name: &str) -> Result<(), String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .env(CASE, name)
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let start = Instant::now();
    while start.elapsed() < LIMIT {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(status.to_string()),
            None => thread::sleep(Duration::from_millis(2)),
        }
    }
    child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
    Err(format!("it hung for {LIMIT:?}"))
}
