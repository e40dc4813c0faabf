//! What a run tells a person: a table of buffers, one of tasks and their arguments, and a line for each output.

use std::io::{self, Write};

use bufabi_core::wire::backend::BackendKind;
use bufabi_host::consumer::Resolution;

use super::{BufferRow, Reached, Report, TaskRow, resolved};
use crate::run::outputs::Outcome;
use crate::table::{counted, write_table};
use crate::terminal::Plain;

impl Report<'_> {
    pub(in crate::run) fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        self.write_buffers(out)?;
        out.write_all(b"\n")?;
        self.write_tasks(out)?;
        out.write_all(b"\n")?;
        self.write_outputs(out)?;
        let tasks = counted(self.graph.tasks.len(), "task", "tasks");
        let workers = counted(self.graph.workers.len(), "worker", "workers");
        let copied = counted(self.bytes_copied(), "byte", "bytes");
        writeln!(out, "{tasks} on {workers}: {copied} copied, {:.3} s", self.elapsed.as_secs_f64())
    }

    fn write_buffers(&self, out: &mut impl Write) -> io::Result<()> {
        let titles = ["buffer", "identity", "backend", "bytes", "copied", "mapped by"];
        let mut rows = vec![titles.map(str::to_owned)];
        for (buffer, row) in self.graph.buffers.iter().zip(&self.buffers) {
            rows.push([
                buffer.name.clone(),
                row.identity.clone(),
                row.backend.name().to_owned(),
                buffer.nbytes.to_string(),
                row.copied.to_string(),
                self.reached(row),
            ]);
        }
        write_table(out, &rows, [false, false, false, true, true, false])
    }

    /// Who owns a buffer, and who reached it, how often.
    fn reached(&self, row: &BufferRow) -> String {
        let mut told = match &row.chip {
            Some((chip, pid)) => format!("owner {chip} ({pid})"),
            None => format!("owner ({}) once", self.process),
        };
        for Reached { worker, pid, how, times } in &row.mapped_by {
            if row.chip.as_ref().is_some_and(|(chip, _)| chip == worker) {
                continue;
            }
            let times = match (how, times) {
                (Resolution::Inherited, _) => "inherited".to_owned(),
                (_, 1) => "once".to_owned(),
                (_, times) => format!("{times} times"),
            };
            told.push_str(&format!(", {worker} ({pid}) {times}"));
        }
        told
    }

    fn write_tasks(&self, out: &mut impl Write) -> io::Result<()> {
        let titles =
            ["task", "worker", "argument", "tag", "identity", "backend", "resolved", "copied", "time"];
        let mut rows = vec![titles.map(str::to_owned)];
        for row in &self.tasks {
            self.add_task_rows(row, &mut rows);
        }
        write_table(out, &rows, [false, false, false, false, false, false, false, true, true])
    }

    fn write_outputs(&self, out: &mut impl Write) -> io::Result<()> {
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
        Ok(())
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
}
