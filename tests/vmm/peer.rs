//! One peer process, and what it answers.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// No answer takes longer, on the slowest machine.
const LIMIT: Duration = Duration::from_secs(30);

/// A peer process. Dropping it ends it.
pub(crate) struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    output: Receiver<String>,
}

/// An owner's eight bytes in hex, another one at each call and in each run.
pub(crate) fn new_owner() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{:08x}{number:08x}", std::process::id())
}

impl Peer {
    /// A peer that is ready.
    pub(crate) fn start(arguments: &[&str], environment: &[(&str, OsString)]) -> Self {
        let (peer, first) = Self::start_any(arguments, environment);
        assert_eq!(first, "ok ready");
        peer
    }

    /// A peer, and its first word: it may say that it cannot start.
    pub(crate) fn start_any(arguments: &[&str], environment: &[(&str, OsString)]) -> (Self, String) {
        Self::start_program(env!("CARGO_BIN_EXE_vmm-peer"), arguments, environment)
    }

    /// A peer at one end of a region, that is ready.
    pub(crate) fn start_region(arguments: &[&str], environment: &[(&str, OsString)]) -> Self {
        let program = env!("CARGO_BIN_EXE_region-peer");
        let (peer, first) = Self::start_program(program, arguments, environment);
        assert_eq!(first, "ok ready");
        peer
    }

    fn start_program(program: &str, arguments: &[&str], environment: &[(&str, OsString)]) -> (Self, String) {
        let mut child = Command::new(program)
            .args(arguments)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, output) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let input = child.stdin.take();
        let peer = Self { child, input, output };
        let first = peer.output.recv_timeout(LIMIT).unwrap();
        (peer, first)
    }

    /// What it answers to a command.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.output.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("no answer to {command}"))
    }

    /// Begins a command, whose answer is heard later.
    pub(crate) fn tell(&mut self, command: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{command}").unwrap();
    }

    /// The answer to the command that was begun.
    pub(crate) fn heard(&self) -> String {
        self.output.recv_timeout(LIMIT).unwrap()
    }

    /// What it answers to a command that succeeds, its `ok` aside.
    pub(crate) fn ok(&mut self, command: &str) -> String {
        let answer = self.ask(command);
        let Some(rest) = answer.strip_prefix("ok ") else { panic!("{command}: {answer}") };
        rest.to_owned()
    }

    /// The code and the text of the error that it answers.
    pub(crate) fn error(&mut self, command: &str) -> (String, String) {
        let answer = self.ask(command);
        let Some((code, text)) = answer.strip_prefix("error ").and_then(|rest| rest.split_once(' ')) else {
            panic!("{command}: {answer}")
        };
        (code.to_owned(), text.to_owned())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its number to owners.
    pub(crate) fn number(&mut self) -> String {
        self.ok("number")
    }

    /// Open files and mappings.
    pub(crate) fn count(&mut self) -> String {
        self.ok("count")
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it as the end of its input does, destructors and all.
    pub(crate) fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
