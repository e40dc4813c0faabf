//! `bufabi pingpong` and `bufabi stream`: what the message queue does between two processes, or between this one and firmware in an
//! emulated machine, by message size.

mod host;
mod other;
mod plot;
mod task;
mod times;

use std::io::{self, Write, stdout};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use self::host::{LIMIT, Talk};
use self::other::Purpose;
use self::plot::{Curve, Plot, Unit};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::table::write_table;
use crate::terminal::tell;

/// How long the other side may take to stop once a signal came.
const SOON: Duration = Duration::from_secs(1);

/// Round trips of messages between two processes over one region, by message size.
///
/// The other process attaches to the region by its two descriptors and answers each message with itself. Each side looks for a while and
/// then sleeps until the other one stores.
#[derive(Args)]
#[command(after_help = "Examples:
  bufabi pingpong
  bufabi pingpong --sizes 8,64,512 --milliseconds 1000
  bufabi pingpong --spin 0                       both sides sleep at once
  bufabi pingpong --firmware queue.elf           the other side is a bare program in QEMU
  bufabi pingpong --svg > round-trips.svg")]
pub(crate) struct PingPong {
    #[command(flatten)]
    options: Options,
}

/// Messages one way between two processes over one region, as fast as they go, by message size.
///
/// The other process attaches to the region by its two descriptors, copies each message out and drops it.
#[derive(Args)]
#[command(after_help = "Examples:
  bufabi stream
  bufabi stream --batch 1                        each message is announced by itself
  bufabi stream --firmware queue.elf             the other side is a bare program in QEMU
  bufabi stream --svg > throughput.svg")]
pub(crate) struct Stream {
    #[command(flatten)]
    options: Options,
    /// Messages that are announced at once, at most.
    #[arg(long, value_name = "MESSAGES", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    batch: u16,
}

#[derive(Args)]
struct Options {
    /// Bytes of the messages.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=65_536),
          default_value = "8,32,64,256,1024,4096,16384,65536")]
    sizes: Vec<u32>,
    /// How long each size is measured.
    #[arg(long, value_name = "NUMBER", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=600_000))]
    milliseconds: u32,
    /// How long a side looks before it sleeps, in microseconds.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 50)]
    spin: u32,
    /// A bare aarch64 program, the other side of the queue, which runs in QEMU: docs/embedding-firmware.md builds one.
    #[arg(long, value_name = "IMAGE")]
    firmware: Option<PathBuf>,
    #[command(flatten)]
    form: Form,
}

/// How results are written; as a table if nothing else is asked for.
#[derive(Args)]
#[group(multiple = false)]
struct Form {
    /// One JSON object.
    #[arg(long)]
    json: bool,
    /// A picture.
    #[arg(long)]
    svg: bool,
}

impl Options {
    /// Starts the other side, measures each size, and ends both sides, also when a signal asks for it.
    fn measure<T>(
        &self,
        purpose: Purpose,
        mut measure: impl FnMut(&mut Talk<'_>, u32, Duration) -> Result<T, Failure>,
    ) -> Result<Vec<(u32, T)>, Failure> {
        if cfg!(debug_assertions) {
            tell(format_args!("bufabi: built without optimisation: these figures say little\n"));
        }
        let largest = self.sizes.iter().copied().max().unwrap_or(0);
        let spin = Duration::from_micros(u64::from(self.spin));
        // Before the other process, which then leaves it to this one what a key of the terminal ends.
        let interrupt = Interrupt::on_signals()?;
        let firmware = self.firmware.as_deref();
        let mut talk = Talk::start(purpose, u64::from(largest), spin, firmware, &interrupt)?;
        let each = |&size: &u32| Ok((size, measure(&mut talk, size, self.limit())?));
        let results: Result<Vec<_>, Failure> = self.sizes.iter().map(each).collect();
        if let Err(interrupted) = interrupt.check() {
            // Whoever does not stop in time learns from the end of this process.
            let _ = talk.finish(SOON);
            return Err(interrupted);
        }
        let results = results?;
        talk.finish(LIMIT)?;
        interrupt.check()?;
        Ok(results)
    }

    fn limit(&self) -> Duration {
        Duration::from_millis(u64::from(self.milliseconds))
    }

    /// Who the other side is, for a title.
    const fn other(&self) -> &'static str {
        if self.firmware.is_some() { "firmware in QEMU" } else { "another process" }
    }
}

impl PingPong {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Self { options } = self;
        let results = options.measure(Purpose::Echo, |talk, size, limit| talk.round_trips(size, limit))?;
        let mut out = io::BufWriter::new(stdout().lock());
        let Form { json, svg } = options.form;
        if json {
            let sizes: Vec<_> = results
                .iter()
                .map(|(size, trips)| {
                    json!({"bytes": size, "round_trips": trips.count, "median_ns": trips.median,
                           "p99_ns": trips.p99, "slowest_ns": trips.slowest})
                })
                .collect();
            serde_json::to_writer(&mut out, &json!({"with": options.other(), "sizes": sizes}))
                .map_err(io::Error::from)
                .and_then(|()| out.write_all(b"\n"))
        } else if svg {
            let curve = |name, of: fn(&host::Trips) -> u64| Curve {
                name,
                points: results.iter().map(|(size, trips)| (f64::from(*size), float(of(trips)))).collect(),
            };
            let plot = Plot {
                title: format!("Round trips to {} and back", options.other()),
                unit: Unit::Nanoseconds,
                curves: vec![
                    curve("median", |trips| trips.median),
                    curve("99 of 100 take no longer", |trips| trips.p99),
                ],
            };
            plot.write(&mut out)
        } else {
            let mut rows = vec![
                ["bytes", "round trips", "median, ns", "99 of 100, ns", "slowest, ns"].map(str::to_owned),
            ];
            rows.extend(results.iter().map(|(size, trips)| {
                [u64::from(*size), trips.count, trips.median, trips.p99, trips.slowest]
                    .map(|number| number.to_string())
            }));
            write_table(&mut out, &rows, [true; 5])
        }
        .and_then(|()| out.flush())
        .map_err(Failure::output)
    }
}

impl Stream {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Self { options, batch } = self;
        let at_once = usize::from(batch);
        let results =
            options.measure(Purpose::Sink, |talk, size, limit| talk.stream(size, at_once, limit))?;
        let mut out = io::BufWriter::new(stdout().lock());
        let Form { json, svg } = options.form;
        if json {
            let sizes: Vec<_> = results
                .iter()
                .map(|(size, flow)| {
                    json!({"bytes": size, "messages": flow.count, "each_ns": flow.each(),
                           "messages_per_s": flow.per_second(), "bytes_per_s": flow.per_second() * f64::from(*size)})
                })
                .collect();
            serde_json::to_writer(&mut out, &json!({"with": options.other(), "batch": batch, "sizes": sizes}))
                .map_err(io::Error::from)
                .and_then(|()| out.write_all(b"\n"))
        } else if svg {
            let points = results.iter().map(|(size, flow)| (f64::from(*size), flow.per_second())).collect();
            let plot = Plot {
                title: format!("Messages to {}, announced up to {batch} at once", options.other()),
                unit: Unit::PerSecond,
                curves: vec![Curve { name: "messages a second", points }],
            };
            plot.write(&mut out)
        } else {
            let mut rows = vec![["bytes", "messages", "each, ns", "messages/s", "MB/s"].map(str::to_owned)];
            rows.extend(results.iter().map(|(size, flow)| {
                let (each, per_second) = (flow.each(), flow.per_second());
                let megabytes = per_second * f64::from(*size) / 1e6;
                [
                    size.to_string(),
                    flow.count.to_string(),
                    format!("{each:.1}"),
                    format!("{per_second:.0}"),
                    format!("{megabytes:.1}"),
                ]
            }));
            write_table(&mut out, &rows, [true; 5])
        }
        .and_then(|()| out.flush())
        .map_err(Failure::output)
    }
}

/// A count as a number to plot or divide.
#[expect(clippy::as_conversions, reason = "a measured number needs no more than 53 bits")]
const fn float(count: u64) -> f64 {
    count as f64
}
