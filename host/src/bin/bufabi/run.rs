//! `bufabi run`: the buffers, worker processes and tasks of a graph file, for real.

mod buffers;
mod interrupt;
mod outputs;
mod report;
mod schedule;

use std::io::{self, Write, stdout};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bufabi_core::wire::backend::BackendKind;
use bufabi_host::kernels::StandardKernels;
use bufabi_host::orchestrator::Orchestrator;
use bufabi_host::owner::Endpoint;
use bufabi_host::worker::{self, WaitPolicy, WorkerSpec, Workers};
use clap::Args;

use crate::failure::Failure;
use crate::graph::{self, Graph, Purpose, WorkerKind};
use buffers::Buffers;
use interrupt::Interrupt;
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
    /// The graph file.
    graph: PathBuf,
    /// One JSON object instead of tables.
    #[arg(long)]
    json: bool,
    /// Seconds to wait at most for the next task to finish.
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    timeout: u64,
}

impl Run {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let start = Instant::now();
        let graph = Graph::load(&self.graph, Purpose::Run)?;
        refuse_unknown_kinds(&graph).map_err(|failure| failure.in_file(&self.graph))?;
        let interrupt = Interrupt::on_signals()?;

        let in_file = |failure: Failure| failure.in_file(&self.graph);
        let endpoint = Endpoint::new().map_err(Failure::machine)?;
        let mut buffers = Buffers::before_workers(&graph, &endpoint, &interrupt).map_err(in_file)?;
        let specs = specs(&graph.workers, None);
        let workers = Workers::spawn(&endpoint, &specs, &StandardKernels, WaitPolicy::default())
            .map_err(Failure::machine)?;
        let capacities = schedule::capacities(&graph);
        let mut orchestrator =
            Orchestrator::with_capacities(workers, &capacities).map_err(Failure::machine)?;
        buffers.after_workers(&graph, &endpoint, &interrupt).map_err(in_file)?;
        let limit = Duration::from_secs(self.timeout);
        let finished = schedule::run(&graph, &mut orchestrator, &buffers, &interrupt, limit)?;
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

/// The moment so long from now, or in a century if that comes first: the clock counts no further than a few of them.
fn deadline(after: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    let now = Instant::now();
    now.checked_add(after.min(CENTURY)).unwrap_or(now)
}

/// What this program's processes cannot do is refused before anything is made.
fn refuse_unknown_kinds(graph: &Graph) -> Result<(), Failure> {
    for (index, buffer) in graph.buffers.iter().enumerate() {
        let kind = buffer.backend;
        if !matches!(kind, BackendKind::PosixShm | BackendKind::ForkShm | BackendKind::ForkCow) {
            let message = format!("run makes no {} buffers", kind.name().to_ascii_lowercase());
            return Err(Failure::usage(message).at(&format!("buffers[{index}].backend")));
        }
    }
    Ok(())
}

/// The workers right below the one of that path, with those below them.
fn specs(workers: &[graph::Worker], above: Option<&str>) -> Vec<WorkerSpec> {
    let name = |worker: &graph::Worker| match above {
        Some(above) => worker.path.strip_prefix(above)?.strip_prefix('/').map(str::to_owned),
        None => Some(worker.path.clone()),
    };
    let below = workers.iter().filter_map(|worker| Some((worker, name(worker)?)));
    below
        .filter(|(_, name)| !name.contains('/'))
        .map(|(worker, name)| WorkerSpec {
            name,
            kind: match worker.kind {
                WorkerKind::Chip => worker::WorkerKind::Chip,
                WorkerKind::Sub => worker::WorkerKind::Sub,
                WorkerKind::Host => worker::WorkerKind::Host { workers: specs(workers, Some(&worker.path)) },
            },
        })
        .collect()
}
