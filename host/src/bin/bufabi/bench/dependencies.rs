//! What dependencies cost: a lookup with few and with many live views, each further edge, a whole submit.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use bufabi_core::dependencies::{Argument, Capacities, Policy, Storage, Tracker};
use bufabi_core::{DType, Identity, KeyedHash, OwnerInstanceId, Tag, View};
use bufabi_host::orchestrator::TrackerMemory;

use super::session::{Goal, Session};
use super::wire::view;
use crate::failure::Failure;

/// Bytes of a row of the array that tiles are cut out of: 1,024 tiles of 64 bytes.
const PITCH: u32 = 1 << 16;
/// Arguments of a task, each on a buffer of its own.
const ARGUMENTS: u32 = 64;

fn argument(buffer: u32, view: View, tag: Tag) -> Argument {
    let identity = Identity::new(OwnerInstanceId([5; 8]), buffer.into(), NonZeroU32::MIN);
    Argument { identity, nbytes: 1 << 40, view, tag, rank: buffer }
}

fn tracker(tasks: usize) -> Tracker<TrackerMemory> {
    let capacities = Capacities {
        entries: tasks.saturating_add(8192),
        pieces: tasks.saturating_mul(2).saturating_add(8192),
        ..Capacities::for_tasks(tasks.saturating_add(64), 128)
    };
    Tracker::new(Policy::Full, KeyedHash::new([1, 2]), Storage::allocate(&capacities))
}

/// What is live in a backing.
#[derive(Clone, Copy)]
enum Kind {
    Ranges,
    Tiles,
}

/// The view in that place, moved by a part of itself so that it meets up to two ranges, or four tiles.
fn place(kind: Kind, place: u64, moved: u64) -> Result<View, Failure> {
    let (column, row) = (place & 1023, place >> 10);
    match kind {
        Kind::Ranges => view((place << 12).saturating_add(moved << 8), DType::Uint8, &[4096], &[1]),
        Kind::Tiles => {
            let rows = (row << 4).saturating_add(moved).saturating_mul(PITCH.into());
            let offset = rows.saturating_add(column << 6).saturating_add(moved);
            view(offset, DType::Uint8, &[16, 64], &[PITCH, 1])
        }
    }
}

pub(super) fn lookups(session: &mut Session) -> Result<(), Failure> {
    for (name, goal, kind, count) in [
        ("dependency lookup, 1 live range", 40.0, Kind::Ranges, 1_u64),
        ("dependency lookup, 64 live ranges", 100.0, Kind::Ranges, 64),
        ("dependency lookup, 100,000 live ranges", 1000.0, Kind::Ranges, 100_000),
        ("dependency lookup, 1 live tile", 40.0, Kind::Tiles, 1),
        ("dependency lookup, 64 live tiles", 100.0, Kind::Tiles, 64),
        ("dependency lookup, 100,000 live tiles", 1000.0, Kind::Tiles, 100_000),
    ] {
        if !session.wants(&[name]) {
            continue;
        }
        // A prime that divides no count: each place once, in an order without a pattern.
        let scattered = |index: u64| index.wrapping_mul(7919).checked_rem(count).unwrap_or(0);
        let mut tracker = tracker(usize::try_from(count).unwrap_or(0));
        for index in 0..count {
            let written = argument(0, place(kind, scattered(index), 0)?, Tag::Output);
            tracker.submit(index, [written]).map_err(Failure::machine)?;
        }
        let question = |index: u64| Ok(argument(0, place(kind, scattered(index), index & 7)?, Tag::Input));
        let questions: Vec<Argument> = (0..4096).map(question).collect::<Result<_, Failure>>()?;
        let mut next = questions.iter().cycle();
        session.copy(name, Goal::AtMost(goal), size_of::<Argument>(), 64, || {
            let mut edges = 0_usize;
            for question in next.by_ref().take(64) {
                edges = edges.saturating_add(tracker.look_up([*black_box(question)]).map_or(0, <[_]>::len));
            }
            edges
        });
    }
    further_edges(session)
}

fn further_edges(session: &mut Session) -> Result<(), Failure> {
    let mut tracker = tracker(128);
    for index in 0..128 {
        let written = argument(0, place(Kind::Ranges, index, 0)?, Tag::Output);
        tracker.submit(index, [written]).map_err(Failure::machine)?;
    }
    let all = argument(0, view(0, DType::Float32, &[128 * 1024], &[1])?, Tag::Output);
    session.copy("each further edge", Goal::AtMost(15.0), size_of::<u64>(), 128, || {
        tracker.look_up([*black_box(&all)]).map(<[_]>::len)
    });
    Ok(())
}

/// Submits of tasks of 64 arguments on 64 buffers. Their ends, between the passes, are not in the time.
pub(super) fn submits(session: &mut Session) -> Result<(), Failure> {
    for (name, goal, tags) in [
        ("submit, per argument, reads with no writer", 20.0, [Tag::Input].as_slice()),
        ("submit, per argument, write-read pairs", 60.0, &[Tag::Output, Tag::Input]),
        (
            "submit, per argument, read-write chains",
            90.0,
            &[
                Tag::Input,
                Tag::Output,
                Tag::Input,
                Tag::Output,
                Tag::Input,
                Tag::Output,
                Tag::Input,
                Tag::Output,
            ],
        ),
    ] {
        let of =
            |tag| (0..ARGUMENTS).map(move |buffer| Ok(argument(buffer, place(Kind::Ranges, 3, 0)?, tag)));
        let tasks: Vec<Vec<Argument>> =
            tags.iter().map(|&tag| of(tag).collect()).collect::<Result<_, Failure>>()?;
        let mut tracker = tracker(64);
        let per = ARGUMENTS.saturating_mul(u32::try_from(tags.len()).unwrap_or(1));
        let nbytes = size_of::<Argument>().saturating_mul(usize::try_from(per).unwrap_or(1));
        let mut handles = Vec::with_capacity(tasks.len());
        session.timed(name, Goal::AtMost(goal), nbytes, per, |count| {
            let mut total = Duration::ZERO;
            for _ in 0..count {
                let start = Instant::now();
                for arguments in &tasks {
                    if let Ok(submitted) = tracker.submit(1, black_box(arguments).iter().copied()) {
                        handles.push(submitted.handle);
                    }
                }
                total = total.saturating_add(start.elapsed());
                for handle in handles.drain(..) {
                    // Each was given out a moment ago.
                    let _ = tracker.finish(handle, |_| ());
                }
            }
            total
        });
    }
    Ok(())
}
