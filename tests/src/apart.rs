//! Cases that run in a process each, which has a single thread, and is killed past a limit: what a test of forks needs.

use std::env;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A case: its name is a sentence.
pub struct Case {
    /// What it is called.
    pub name: String,
    /// What it does; it panics when something is not as it should be.
    pub run: Box<dyn Fn()>,
}

impl Case {
    /// A case of that name.
    pub fn new(name: impl Into<String>, run: impl Fn() + 'static) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

/// Names the case to the process that runs it.
const CASE: &str = "BUFABI_TEST_CASE";

/// Runs the cases whose names contain any of the arguments, each in a process of its own, and says how they ended.
pub fn main(cases: &[Case], limit: Duration) -> ExitCode {
    if let Ok(name) = env::var(CASE) {
        for case in cases.iter().filter(|case| case.name == name) {
            (case.run)();
        }
        return ExitCode::SUCCESS;
    }
    let parts: Vec<String> = env::args().skip(1).filter(|part| !part.starts_with('-')).collect();
    let wanted = |name: &str| parts.is_empty() || parts.iter().any(|part| name.contains(part.as_str()));
    let (mut passed, mut failed) = (0_u32, 0_u32);
    for Case { name, .. } in cases.iter().filter(|case| wanted(&case.name)) {
        match run_apart(name, limit) {
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
fn run_apart(name: &str, limit: Duration) -> Result<(), String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .env(CASE, name)
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let start = Instant::now();
    while start.elapsed() < limit {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(status.to_string()),
            None => thread::sleep(Duration::from_millis(2)),
        }
    }
    child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
    Err(format!("it hung for {limit:?}"))
}

/// How often to do something: `plain` times, or `long` times where full counts were asked for.
#[must_use]
pub fn count(plain: u32, long: u32) -> u32 {
    if env::var("BUFABI_LONG").is_ok_and(|value| value == "1") { long } else { plain }
}
