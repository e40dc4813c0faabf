//! What a run tells a script.

use std::io::{self, Write};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Reached, Report, TaskRow, resolved};
use crate::run::outputs::Outcome;

impl Report<'_> {
    pub(in crate::run) fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
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
