//! `bufabi run`: the buffers, worker processes and tasks of a graph file, for real.

mod buffers;
mod on_chips;
mod outputs;
mod report;
mod schedule;
mod tree;

use std::io::{self, Write, stdout};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bufabi_host::kernels::StandardKernels;
use bufabi_host::orchestrator::Orchestrator;
use bufabi_host::owner::Endpoint;
use bufabi_host::sys::event::deadline;
use bufabi_host::worker::{WaitPolicy, Workers};
use clap::Args;

use crate::failure::Failure;
use crate::graph::{Graph, Purpose};
use crate::interrupt::Interrupt;
use buffers::Buffers;
use on_chips::Chips;
use report::Report;

/// How long workers that have nothing to do may take to end.
const STOP_LIMIT: Duration = Duration::from_secs(1);

/// Runs a task graph: makes its buffers, starts its worker processes, runs its tasks, writes its outputs, and tells who mapped
/// what.
///
/// Each task starts as soon as those that it waits for are done and its worker is free.
#[derive(Args)]
#[command(
    after_help = "Exit status: 1 when an output differs from what was expected, or a rule, a right or a range is broken;
2 when a file cannot be read or a name is unknown; 3 when the machine or a worker process failed.

Examples:
  bufabi run examples/gram.json
  bufabi run examples/gram.json --json | jq '.tasks[].args[].identity'"
)]
pub(crate) struct Run {
    /// The graph file; docs/graph-files.md says what is in it.
    graph: PathBuf,
    /// One JSON object instead of tables.
    #[arg(long)]
    json: bool,
    /// Seconds to wait at most for the next task to finish, and for a chip to do what it is asked.
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    timeout: u64,
}

impl Run {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let start = Instant::now();
        let graph = Graph::load(&self.graph, Purpose::Run)?;
        let interrupt = Interrupt::on_signals()?;

        let in_file = |failure: Failure| failure.in_file(&self.graph);
        let endpoint = Endpoint::new().map_err(Failure::machine)?;
        let mut buffers = Buffers::before_workers(&graph, &endpoint, &interrupt).map_err(in_file)?;
        let specs = tree::specs(&graph.workers).map_err(in_file)?;
        let workers = Workers::spawn(&endpoint, &specs, &StandardKernels, WaitPolicy::default())
            .map_err(Failure::machine)?;
        workers.watch_interrupt(interrupt.fd()).map_err(Failure::machine)?;
        interrupt.check_woken()?;
        let capacities = schedule::capacities(&graph);
        let mut orchestrator =
            Orchestrator::with_capacities(workers, &capacities).map_err(Failure::machine)?;
        let limit = Duration::from_secs(self.timeout);
        let workers = orchestrator.workers_mut();
        let mut chips = Chips { graph: &graph, workers, interrupt: &interrupt, limit };
        buffers.after_workers(&endpoint, &mut chips).map_err(in_file)?;
        let finished = schedule::run(&graph, &mut orchestrator, &buffers, &interrupt, limit)?;
        let workers = orchestrator.workers_mut();
        let mut chips = Chips { graph: &graph, workers, interrupt: &interrupt, limit };
        buffers.take_from_chips(&mut chips).map_err(in_file)?;
        let mut report = Report::new(&graph, orchestrator.workers(), &buffers, finished);
        orchestrator.stop(deadline(STOP_LIMIT));

        let at = |failure: Failure, index| failure.at(&format!("outputs[{index}]")).in_file(&self.graph);
        // All are compared before the first is written: it may be what another one is compared with.
        for (index, output) in graph.outputs.iter().enumerate() {
            interrupt.check()?;
            let outcome = outputs::compare(output, &buffers).map_err(|failure| at(failure, index))?;
            report.add_output(output, outcome);
        }
        for (index, output) in graph.outputs.iter().enumerate() {
            interrupt.check()?;
            outputs::write(output, &buffers).map_err(|failure| at(failure, index))?;
        }
        buffers.release()?;
        report.finish(start.elapsed());
        let mut out = io::BufWriter::new(stdout().lock());
        let written = if self.json { report.write_json(&mut out) } else { report.write_text(&mut out) };
        let verdict = match report.difference() {
            Some(difference) => Err(Failure::broken(difference).in_file(&self.graph)),
            None => Ok(()),
        };
        Failure::conclude(written.and_then(|()| out.flush()), verdict)
    }
}
