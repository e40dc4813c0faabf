//! The `bufabi` program: one command to a file. Results go to standard output, complaints to standard error.

mod bench;
mod check;
mod doctor;
mod edges;
mod failure;
mod graph;
mod inspect;
mod interrupt;
mod layout;
mod memory;
mod npy;
mod plan;
mod run;
mod table;
mod talk;
mod terminal;
mod whole_file;

use std::io::{Write, stdout};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use signal_hook::consts::SIGXFSZ;
use signal_hook::flag;

use failure::Failure;

/// Buffers that live in other processes and on other chips, and the tasks that use them.
///
/// Results go to standard output, complaints to standard error. Exit status: 0 success; 1 a rule, a right or a range is
/// broken, or an output differs from what was expected; 2 wrong usage, or a file that cannot be read; 3 the machine or a
/// process failed.
#[derive(Parser)]
#[command(
    name = "bufabi",
    version,
    max_term_width = 110,
    after_help = "Examples:
  bufabi run examples/gram.json                            runs a task graph across processes
  bufabi plan examples/gram.json --svg > gram.svg          draws which of its tasks wait for which
  bufabi inspect --hex 4253                                tells what a record says, and what is wrong with it
  cut -d' ' -f1 tests/vectors/tensors.txt | bufabi check tensors | sort | uniq -c
  bufabi layout --c > layout.h                             the wire's records for C
  bufabi gc                                                removes the shared memory that a crash left
  bufabi doctor                                            what this machine lacks, and what that means
  bufabi pingpong --svg > round-trips.svg                  draws what a message to another process and back takes"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Run),
    Plan(plan::Plan),
    Inspect(inspect::Inspect),
    Check(check::Check),
    Layout(layout::Layout),
    Ls(memory::Ls),
    Gc(memory::Gc),
    Doctor(doctor::Doctor),
    Bench(bench::Bench),
    Pingpong(talk::PingPong),
    Stream(talk::Stream),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(answer) => return tell_instead(&answer),
    };
    // A file that grows past its limit is an error of the call that makes it grow, and no longer the end of the program.
    if let Err(error) = flag::register(SIGXFSZ, Arc::default()) {
        return Failure::machine(format!("signal {SIGXFSZ}: {error}")).report();
    }
    let ended = match arguments.command {
        Command::Run(command) => command.run(),
        Command::Plan(command) => command.run(),
        Command::Inspect(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Layout(command) => command.run(),
        Command::Ls(command) => command.run(),
        Command::Gc(command) => command.run(),
        Command::Doctor(command) => command.run(),
        Command::Bench(command) => command.run(),
        Command::Pingpong(command) => command.run(),
        Command::Stream(command) => command.run(),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// What is told instead of a command's results: help and the version on standard output, wrong usage on standard error.
fn tell_instead(answer: &clap::Error) -> ExitCode {
    let printed = answer.print().and_then(|()| stdout().flush());
    match printed {
        Err(error) if !answer.use_stderr() => Failure::output(error).report(),
        // That nobody reads a complaint changes nothing about it.
        Ok(()) | Err(_) => ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(2)),
    }
}
