//! A parent's side of its workers, whoever the parent is: their processes, the lanes to the leaves below them, what is under way
//! on each lane, and whose end that was.

mod ends;
mod start;

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use bufabi_core::OwnerInstanceId;

use super::death::Death;
use super::hello::Hello;
use super::mailbox::{Mailbox, RawReply, Request};
use super::wait::{Spin, Waited, wait};
use crate::sys::OsError;
use crate::sys::event::{Doorbell, Watch};
use crate::sys::process::{Ending, Process};

/// How long dropping workers waits for them before it kills them.
pub(super) const STOP_LIMIT: Duration = Duration::from_secs(1);

/// Where the tokens of leaves begin that outlived the worker above them; those of processes, by their places, begin at 0.
const LEAVES: u64 = 1 << 32;
/// The first token that is not the end of a process.
pub(super) const FIRST_OTHER: u64 = 1 << 33;
/// The doorbell's.
const DOORBELL: u64 = u64::MAX;

/// The processes that a parent forked, and the lanes to the leaves below them. `W` is what is known of a request under way.
#[derive(Debug)]
pub(super) struct Links<W> {
    creator: u32,
    links: Vec<Link>,
    lanes: Vec<Lane<W>>,
    /// Watches the processes' ends, the doorbell, and what else their parent waits for.
    watch: Watch,
    /// Rung by every worker.
    doorbell: Doorbell,
    /// The lane to look at first, so that none waits behind another for ever.
    first: usize,
    /// What was over together with something else.
    over: VecDeque<Over<W>>,
}

/// A process.
#[derive(Debug)]
struct Link {
    path: String,
    process: Process,
    doorbell: Doorbell,
    lanes: Range<usize>,
    /// It has workers of its own, which end in their own time.
    is_host: bool,
    ending: Option<Ending>,
}

/// The way to one leaf.
#[derive(Debug)]
struct Lane<W> {
    path: String,
    link: usize,
    mailbox: Mailbox,
    /// The number of the last request.
    sequence: u32,
    work: Option<W>,
    hello: Option<Hello>,
    /// The leaf's process, if it is not this one's child.
    leaf: Option<Process>,
    /// The worker above the leaf has ended, and the leaf not yet.
    is_orphan: bool,
    death: Option<Death>,
}

/// A request that is over.
#[derive(Debug)]
pub(super) struct Over<W> {
    pub(super) lane: usize,
    pub(super) work: W,
    /// The reply, or whose end prevented one.
    pub(super) outcome: Result<RawReply, Death>,
}

/// What ended a wait.
pub(super) enum Next<W, T> {
    /// A request is over.
    Over(Over<W>),
    /// What else was waited for.
    Ready(T),
    /// Something else happened; it was told.
    Woken,
    /// The time came.
    TimedOut,
}

impl<W> Links<W> {
    /// What else is watched: its tokens start at [`FIRST_OTHER`].
    pub(super) const fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Leaves, ended ones included.
    pub(super) fn len(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn find(&self, path: &str) -> Option<usize> {
        self.lanes.iter().position(|lane| lane.path == path)
    }

    pub(super) fn path(&self, lane: usize) -> Option<&str> {
        self.lanes.get(lane).map(|lane| lane.path.as_str())
    }

    pub(super) fn hello(&self, lane: usize) -> Option<&Hello> {
        self.lanes.get(lane)?.hello.as_ref()
    }

    /// The lane to the chip whose memory an endpoint owns.
    pub(super) fn chip(&self, owner: OwnerInstanceId) -> Option<usize> {
        let owns = |lane: &Lane<W>| lane.hello.as_ref().and_then(Hello::chip) == Some(owner);
        self.lanes.iter().position(owns)
    }

    pub(super) fn mailbox(&self, lane: usize) -> Option<&Mailbox> {
        self.lanes.get(lane).map(|lane| &lane.mailbox)
    }

    /// What is under way on a lane.
    pub(super) fn work(&self, lane: usize) -> Option<&W> {
        self.lanes.get(lane)?.work.as_ref()
    }

    /// Whose end, as far as is known, cut a leaf off.
    pub(super) fn death(&self, lane: usize) -> Option<&Death> {
        self.lanes.get(lane)?.death.as_ref()
    }

    /// The same, once the leaf itself has ended. Until then a request goes on its lane as ever and is over when the leaf is, which may
    /// still have mapped what it is asked to drop.
    pub(super) fn ended(&self, lane: usize) -> Option<&Death> {
        self.lanes.get(lane).filter(|lane| !lane.is_orphan)?.death.as_ref()
    }

    /// A reply told of a death further down.
    pub(super) fn learn_death(&mut self, lane: usize, death: &Death) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.death.get_or_insert_with(|| death.clone());
        }
    }

    /// Nothing is under way, and nothing that was over has not been told.
    pub(super) fn is_idle(&self) -> bool {
        self.over.is_empty() && self.busy().next().is_none()
    }

    /// The lanes with something under way.
    pub(super) fn busy(&self) -> impl Iterator<Item = (usize, &W)> {
        self.lanes.iter().enumerate().filter_map(|(lane, entry)| Some((lane, entry.work.as_ref()?)))
    }

    /// Puts a request on a lane that has none, and wakes the worker if it sleeps. The lane is busy from now on, even if the worker
    /// could not be woken.
    pub(super) fn post(
        &mut self,
        lane: usize,
        request: &Request,
        blob: &[u8],
        work: W,
    ) -> Result<(), OsError> {
        if let Some(entry) = self.lanes.get_mut(lane) {
            entry.work = Some(work);
        }
        self.send(lane, request, blob)
    }

    fn send(&mut self, lane: usize, request: &Request, blob: &[u8]) -> Result<(), OsError> {
        let Some(lane) = self.lanes.get_mut(lane) else { return Ok(()) };
        let request = Request { blob_bytes: u32::try_from(blob.len()).unwrap_or(0), ..*request };
        let is_asleep = lane.mailbox.post_request(lane.sequence, &request, blob);
        lane.sequence = lane.sequence.wrapping_add(1);
        // No blob is larger than the mailbox: the worker would then have been asked for nothing.
        match self.links.get(lane.link) {
            Some(link) if is_asleep.unwrap_or(true) => link.doorbell.ring(),
            Some(_) | None => Ok(()),
        }
    }

    /// Waits until `until` for a request that is over, or for what `ready` gives. `asleep` says to others than the workers that this
    /// process sleeps, or no longer does; `told` gets the tokens of what else is watched and has happened.
    pub(super) fn next<T>(
        &mut self,
        spin: &mut Spin,
        until: Option<Instant>,
        mut ready: impl FnMut() -> Option<T>,
        asleep: impl Fn(bool),
        mut told: impl FnMut(u64),
    ) -> Result<Next<W, T>, OsError> {
        if let Some(over) = self.over.pop_front() {
            return Ok(Next::Over(over));
        }
        let mut ended = Vec::new();
        let (lanes, first) = (&self.lanes, self.first);
        let waited = wait(
            spin,
            &self.watch,
            until,
            || match find_reply(lanes, first) {
                Some((lane, reply)) => Some(Found::Reply(lane, reply)),
                None => ready().map(Found::Else),
            },
            |is_asleep| {
                busy(lanes).for_each(|(_, lane)| lane.mailbox.set_parent_asleep(is_asleep));
                asleep(is_asleep);
            },
            self.links.iter().map(|link| link.process.pid()),
            |token| if is_end(token) { ended.push(token) } else { told(token) },
        )?;
        for token in ended {
            self.note(token)?;
        }
        match waited {
            Waited::Ready(Found::Else(ready)) => return Ok(Next::Ready(ready)),
            Waited::Ready(Found::Reply(lane, reply)) => {
                if let Some(over) = self.take(lane, Ok(reply)) {
                    return Ok(Next::Over(over));
                }
            }
            Waited::Woken => {}
            Waited::TimedOut => return Ok(Next::TimedOut),
        }
        Ok(self.over.pop_front().map_or(Next::Woken, Next::Over))
    }

    /// Takes what was under way off a lane.
    fn take(&mut self, lane: usize, outcome: Result<RawReply, Death>) -> Option<Over<W>> {
        let work = self.lanes.get_mut(lane)?.work.take()?;
        self.first = lane.saturating_add(1);
        Some(Over { lane, work, outcome })
    }
}

/// What a look at all that is waited for found.
enum Found<T> {
    Reply(usize, RawReply),
    Else(T),
}

/// The lanes that owe a reply, with their places.
fn busy<W>(lanes: &[Lane<W>]) -> impl Iterator<Item = (usize, &Lane<W>)> {
    lanes.iter().enumerate().filter(|(_, lane)| lane.work.is_some())
}

/// A reply that is there, looking at the lane `first` first.
fn find_reply<W>(lanes: &[Lane<W>], first: usize) -> Option<(usize, RawReply)> {
    let reply = |(index, lane): (usize, &Lane<W>)| Some((index, lane.mailbox.reply(lane.sequence)?));
    let found = busy(lanes).filter(|&(index, _)| index >= first).find_map(reply);
    found.or_else(|| busy(lanes).filter(|&(index, _)| index < first).find_map(reply))
}

fn link_token(place: usize) -> u64 {
    u64::try_from(place).unwrap_or(DOORBELL)
}

fn leaf_token(lane: usize) -> u64 {
    u64::try_from(lane).unwrap_or(DOORBELL).saturating_add(LEAVES)
}

/// The token is that of a process's end.
const fn is_end(token: u64) -> bool {
    token < FIRST_OTHER
}
