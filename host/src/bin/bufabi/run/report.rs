//! What a run tells when it is over: buffers and who mapped them, tasks and how they got at their arguments, outputs.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use bufabi_core::wire::backend::{AddressSpace, BackendKind};
use bufabi_host::consumer::Resolution;
use bufabi_host::worker::{Reply, Workers};
use serde_json::{Value, json};

use super::buffers::Buffers;
use super::outputs::Outcome;
use super::schedule::Finished;
use crate::graph::{self, Graph, Output};
use crate::table::{counted, write_table};
use crate::terminal::Plain;

/// All that is told of a run.
pub(super) struct Report<'a> {
    graph: &'a Graph,
    process: u32,
    buffers: Vec<BufferRow>,
    tasks: Vec<TaskRow>,
    outputs: Vec<(&'a Output, Outcome)>,
    elapsed: Duration,
}

struct BufferRow {
    identity: String,
    backend: BackendKind,
    /// The chip that owns it, and its process; none of the run's own.
    chip: Option<(String, i32)>,
    /// Bytes that were copied to it and from it, outside of tasks.
    copied: u64,
    /// Workers that reached it.
    mapped_by: Vec<Reached>,
}

struct TaskRow {
    task: usize,
    member: usize,
    reply: Reply,
    worker: String,
    pid: i32,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        graph: &'a Graph,
        workers: &Workers,
        buffers: &Buffers,
        mut finished: Vec<Finished>,
    ) -> Self {
        let row = |(index, entry): (usize, &graph::Buffer)| BufferRow {
            identity: buffers.identity(index).map_or_else(String::new, |identity| identity.to_string()),
            backend: entry.backend,
            chip: buffers.chip(index).map(|chip| {
                (workers.name(chip).unwrap_or_default().to_owned(), workers.pid(chip).unwrap_or(0))
            }),
            copied: buffers.copied(index),
            mapped_by: Vec::new(),
        };
        let mut buffers: Vec<BufferRow> = graph.buffers.iter().enumerate().map(row).collect();
        finished.sort_by_key(|finished| finished.task);
        let mut tasks = Vec::new();
        for Finished { task, replies } in finished {
            let members = graph.tasks.get(task).map_or(&[][..], |task| &task.members);
            for (place, (member, reply)) in members.iter().zip(replies).enumerate() {
                let worker = member.worker.and_then(|worker| graph.workers.get(worker));
                let worker = worker.map_or_else(String::new, |worker| worker.path.clone());
                let pid = workers.find(&worker).and_then(|worker| workers.pid(worker)).unwrap_or(0);
                for (argument, &resolution) in member.arguments.iter().zip(&reply.resolutions) {
                    if let Some(buffer) = buffers.get_mut(argument.buffer) {
                        buffer.note(&worker, pid, resolution);
                    }
                }
                tasks.push(TaskRow { task, member: place, reply, worker, pid });
            }
        }
        let process = std::process::id();
        Self { graph, process, buffers, tasks, outputs: Vec::new(), elapsed: Duration::ZERO }
    }

    pub(super) fn add_output(&mut self, output: &'a Output, outcome: Outcome) {
        self.outputs.push((output, outcome));
    }

    pub(super) fn finish(&mut self, elapsed: Duration) {
        self.elapsed = elapsed;
    }

    /// How the first output that is not as expected differs.
    pub(super) fn difference(&self) -> Option<String> {
        self.outputs.iter().enumerate().find_map(|(index, (_, outcome))| match outcome {
            Outcome::Differs(difference) => Some(format!("outputs[{index}]: {difference}")),
            Outcome::Written | Outcome::Equal => None,
        })
    }

    /// Bytes that were copied, on the way of tasks to their arguments and to chips and back.
    fn bytes_copied(&self) -> u64 {
        let by_tasks = self.tasks.iter().map(|row| row.reply.bytes_copied);
        by_tasks.chain(self.buffers.iter().map(|row| row.copied)).fold(0, u64::saturating_add)
    }

    pub(super) fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        let titles = ["buffer", "identity", "backend", "bytes", "copied", "mapped by"];
        let mut rows = vec![titles.map(str::to_owned)];
        for (buffer, row) in self.graph.buffers.iter().zip(&self.buffers) {
            let mut mapped_by = match &row.chip {
                Some((chip, pid)) => format!("owner {chip} ({pid})"),
                None => format!("owner ({}) once", self.process),
            };
            for Reached { worker, pid, how, times } in &row.mapped_by {
                let is_owner = row.chip.as_ref().is_some_and(|(chip, _)| chip == worker);
                match (how, times) {
                    _ if is_owner => continue,
                    (Resolution::Inherited, _) => {
                        mapped_by.push_str(&format!(", {worker} ({pid}) inherited"))
                    }
                    (_, 1) => mapped_by.push_str(&format!(", {worker} ({pid}) once")),
                    (_, times) => mapped_by.push_str(&format!(", {worker} ({pid}) {times} times")),
                }
            }
            rows.push([
                buffer.name.clone(),
                row.identity.clone(),
                row.backend.name().to_owned(),
                buffer.nbytes.to_string(),
                row.copied.to_string(),
                mapped_by,
            ]);
        }
        write_table(out, &rows, [false, false, false, true, true, false])?;
        out.write_all(b"\n")?;

        let titles =
            ["task", "worker", "argument", "tag", "identity", "backend", "resolved", "copied", "time"];
        let mut rows = vec![titles.map(str::to_owned)];
        for row in &self.tasks {
            self.add_task_rows(row, &mut rows);
        }
        write_table(out, &rows, [false, false, false, false, false, false, false, true, true])?;
        out.write_all(b"\n")?;

        for (output, outcome) in &self.outputs {
            let name = self.graph.buffers.get(output.buffer).map_or("", |buffer| buffer.name.as_str());
            write!(out, "{}", Plain(name))?;
            if let Some(path) = &output.npy {
                write!(out, " written to {}", Plain(path.display()))?;
            }
            let comma = if output.npy.is_some() { "," } else { "" };
            match (outcome, &output.expect) {
                (Outcome::Equal, Some(path)) => {
                    write!(out, "{comma} equals {} bit for bit", Plain(path.display()))?;
                }
                (Outcome::Differs(difference), _) => write!(out, "{comma} {}", Plain(difference))?,
                (Outcome::Equal | Outcome::Written, _) => {}
            }
            out.write_all(b"\n")?;
        }
        let tasks = counted(self.graph.tasks.len(), "task", "tasks");
        let workers = counted(self.graph.workers.len(), "worker", "workers");
        let copied = counted(self.bytes_copied(), "byte", "bytes");
        writeln!(out, "{tasks} on {workers}: {copied} copied, {:.3} s", self.elapsed.as_secs_f64())
    }

    fn add_task_rows(&self, row: &TaskRow, rows: &mut Vec<[String; 9]>) {
        let TaskRow { reply, worker, pid, .. } = row;
        let Some(task) = self.graph.tasks.get(row.task) else { return };
        let Some(member) = task.members.get(row.member) else { return };
        let name = if task.is_group { format!("{}[{}]", task.name, row.member) } else { task.name.clone() };
        let time = format!("{:.1} us", reply.duration.as_secs_f64() * 1e6);
        let mut first = [name, format!("{worker} ({pid})"), reply.bytes_copied.to_string(), time];
        let blank = || first.each_mut().map(std::mem::take);
        let mut heads = std::iter::repeat_with(blank);
        let mut add = |argument: [String; 5]| {
            let [task, worker, copied, time] = heads.next().unwrap_or_default();
            let [name, tag, identity, backend, resolved] = argument;
            rows.push([task, worker, name, tag, identity, backend, resolved, copied, time]);
        };
        if member.arguments.is_empty() {
            add(Default::default());
        }
        let forwarders = row.forwarders().collect::<Vec<_>>().join(", ");
        for (argument, &resolution) in member.arguments.iter().zip(&reply.resolutions) {
            let buffer = self.graph.buffers.get(argument.buffer).map_or("", |buffer| buffer.name.as_str());
            let row = self.buffers.get(argument.buffer);
            let identity = row.map_or_else(String::new, |row| row.identity.clone());
            let backend = row.map_or(BackendKind::PosixShm, |row| row.backend);
            let tag = argument.tag.name().to_ascii_lowercase();
            let mut how = resolved(resolution, backend).to_owned();
            if !forwarders.is_empty() {
                how = format!("forwarded by {forwarders}, {how}");
            }
            add([buffer.to_owned(), tag, identity, backend.name().to_owned(), how]);
        }
    }

    pub(super) fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        let buffers: Vec<Value> = self
            .graph
            .buffers
            .iter()
            .zip(&self.buffers)
            .map(|(buffer, row)| {
                let mapped_by = row.mapped_by.iter().map(|Reached { worker, pid, how, times }| {
                    json!({"worker": worker, "process": pid, "how": resolved(*how, buffer.backend), "times": times})
                });
                json!({
                    "name": buffer.name,
                    "identity": row.identity,
                    "backend": row.backend.name(),
                    "nbytes": buffer.nbytes,
                    "owner": row.chip.as_ref().map_or(i64::from(self.process), |(_, pid)| i64::from(*pid)),
                    "chip": row.chip.as_ref().map(|(chip, _)| chip),
                    "bytes_copied": row.copied,
                    "mapped_by": mapped_by.collect::<Vec<_>>(),
                })
            })
            .collect();
        // JSON holds no name that is not Unicode.
        let text = |path: &PathBuf| path.display().to_string();
        let outputs: Vec<Value> = self
            .outputs
            .iter()
            .map(|(output, outcome)| {
                let (equal, difference) = match outcome {
                    Outcome::Written => (None, None),
                    Outcome::Equal => (Some(true), None),
                    Outcome::Differs(difference) => (Some(false), Some(difference)),
                };
                json!({
                    "buffer": self.graph.buffers.get(output.buffer).map(|buffer| &buffer.name),
                    "npy": output.npy.as_ref().map(text),
                    "expect": output.expect.as_ref().map(text),
                    "equal": equal,
                    "difference": difference,
                })
            })
            .collect();
        let value = json!({
            "buffers": buffers,
            "tasks": self.tasks.iter().filter_map(|row| self.task_json(row)).collect::<Vec<_>>(),
            "outputs": outputs,
            "bytes_copied": self.bytes_copied(),
            "seconds": self.elapsed.as_secs_f64(),
        });
        writeln!(out, "{value:#}")
    }

    fn task_json(&self, row: &TaskRow) -> Option<Value> {
        let TaskRow { reply, worker, pid, .. } = row;
        let task = self.graph.tasks.get(row.task)?;
        let member = task.members.get(row.member)?;
        let arguments = member.arguments.iter().zip(&reply.resolutions);
        let arguments: Vec<Value> = arguments
            .filter_map(|(argument, &resolution)| {
                let buffer = self.buffers.get(argument.buffer)?;
                Some(json!({
                    "buffer": self.graph.buffers.get(argument.buffer).map(|buffer| &buffer.name),
                    "tag": argument.tag.name().to_ascii_lowercase(),
                    "identity": buffer.identity,
                    "backend": buffer.backend.name(),
                    "resolved": resolved(resolution, buffer.backend),
                }))
            })
            .collect();
        Some(json!({
            "task": task.name,
            "member": task.is_group.then_some(row.member),
            "kernel": task.kernel.map(|kernel| kernel.name()),
            "worker": worker,
            "process": pid,
            "forwarded_by": row.forwarders().collect::<Vec<_>>(),
            "args": arguments,
            "bytes_copied": reply.bytes_copied,
            "seconds": reply.duration.as_secs_f64(),
        }))
    }
}

impl TaskRow {
    /// The paths of the host workers that handed it on, from the top.
    fn forwarders(&self) -> impl Iterator<Item = &str> {
        let ends = self.worker.match_indices('/').map(|(end, _)| end);
        let hops = usize::try_from(self.reply.hops).unwrap_or(usize::MAX);
        ends.take(hops).filter_map(|end| self.worker.get(..end))
    }
}

/// A worker that reached a buffer.
struct Reached {
    worker: String,
    pid: i32,
    /// How it did first.
    how: Resolution,
    /// How often it mapped it.
    times: usize,
}

impl BufferRow {
    /// A worker got at it.
    fn note(&mut self, worker: &str, pid: i32, how: Resolution) {
        let place = match self.mapped_by.iter().position(|reached| reached.worker == worker) {
            Some(place) => place,
            None => {
                self.mapped_by.push(Reached { worker: worker.to_owned(), pid, how, times: 0 });
                self.mapped_by.len().saturating_sub(1)
            }
        };
        if how == Resolution::MappedNow
            && let Some(reached) = self.mapped_by.get_mut(place)
        {
            reached.times = reached.times.saturating_add(1);
        }
    }
}

/// How an argument was come by, in words.
fn resolved(resolution: Resolution, backend: BackendKind) -> &'static str {
    match resolution {
        Resolution::MappedNow => "mapped now",
        Resolution::AlreadyMapped => "already mapped",
        Resolution::Inherited => "inherited",
        Resolution::Own if backend.address_space() == Some(AddressSpace::Device) => "device",
        Resolution::Own => "own",
    }
}
