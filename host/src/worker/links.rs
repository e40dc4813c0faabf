//! A parent's side of its workers, whoever the parent is: their processes, the lanes to the leaves below them, what is under way
//! on each lane, and whose end that was.

use core::mem::ManuallyDrop;
use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use bufabi_core::{Code, OwnerInstanceId};

use super::death::Death;
use super::error::SpawnError;
use super::failure::Failure;
use super::hello::Hello;
use super::kernel::Kernels;
use super::mailbox::{MAX_SAID, Mailbox, RawReply, Request, RequestKind};
use super::serve::{Inherited, serve_chip, serve_sub};
use super::wait::{Spin, Waited, wait};
use super::{WaitPolicy, WorkerKind, WorkerSpec, host};
use crate::device::DeviceKind;
use crate::sys::OsError;
use crate::sys::event::{Doorbell, Watch};
use crate::sys::process::{Ending, Process, current_pid, fork};

/// How long dropping workers waits for them before it kills them.
pub(super) const STOP_LIMIT: Duration = Duration::from_secs(1);

/// How long all workers together may take to say who they are.
const START_LIMIT: Duration = Duration::from_secs(10);

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
    /// Starts a process for each worker, and returns when each leaf below has said who it is. `above` is the path of the worker
    /// that this process is.
    pub(super) fn spawn<K: Kernels + ?Sized>(
        above: Option<&str>,
        specs: &[WorkerSpec],
        kernels: &K,
        policy: WaitPolicy,
    ) -> Result<Self, SpawnError> {
        let (watch, doorbell) = (Watch::new()?, Doorbell::new()?);
        watch.add_doorbell(&doorbell, DOORBELL)?;
        let mut links = Self {
            creator: current_pid(),
            links: Vec::with_capacity(specs.len()),
            lanes: Vec::new(),
            watch,
            doorbell,
            first: 0,
            over: VecDeque::new(),
        };
        let parent = Process::current()?;
        let mut device_id = 0_i32;
        for spec in specs {
            links.start(above, spec, device_id, kernels, policy, &parent)?;
            if matches!(spec.kind, WorkerKind::Chip | WorkerKind::Device(_)) {
                device_id = device_id.saturating_add(1);
            }
        }
        links.greet()?;
        Ok(links)
    }

    fn start<K: Kernels + ?Sized>(
        &mut self,
        above: Option<&str>,
        spec: &WorkerSpec,
        device_id: i32,
        kernels: &K,
        policy: WaitPolicy,
        parent: &Process,
    ) -> Result<(), SpawnError> {
        let path = join(above, &spec.name);
        let (place, first) = (self.links.len(), self.lanes.len());
        let mut leaves = Vec::new();
        spec.kind.leaves(&path, &mut leaves);
        let mailboxes = leaves.iter().map(|_| Mailbox::new()).collect::<Result<Vec<_>, _>>()?;
        let doorbell = Doorbell::new()?;
        let (links, lanes, parent_doorbell) = (&mut self.links, &mut self.lanes, &self.doorbell);
        let process = fork(|| {
            // What belongs to the other workers: here, only descriptors are closed.
            links.clear();
            lanes.clear();
            let (lanes, doorbell, path) = (mailboxes.as_slice(), &doorbell, path.as_str());
            let inherited = Inherited { path, lanes, doorbell, parent_doorbell, parent, policy };
            match &spec.kind {
                WorkerKind::Chip => serve_chip(inherited, device_id, &DeviceKind::default(), kernels),
                WorkerKind::Device(kind) => serve_chip(inherited, device_id, kind, kernels),
                WorkerKind::Sub => serve_sub(inherited, kernels),
                WorkerKind::Host { workers } => host::serve(inherited, workers, kernels),
            }
        })?;
        let lanes = first..first.saturating_add(leaves.len());
        let is_host = matches!(spec.kind, WorkerKind::Host { .. });
        // From here on it is ended when something fails.
        self.links.push(Link { path, process, doorbell, lanes, is_host, ending: None });
        for (path, mailbox) in leaves.into_iter().zip(mailboxes) {
            mailbox.leave_out_of_forks()?;
            self.lanes.push(Lane {
                path,
                link: place,
                mailbox,
                sequence: 0,
                work: None,
                hello: None,
                leaf: None,
                is_orphan: false,
                death: None,
            });
        }
        let Some(link) = self.links.last() else { return Ok(()) };
        Ok(self.watch.add_process(link.process.as_fd(), link_token(place))?)
    }

    /// Has every leaf say who it is.
    fn greet(&mut self) -> Result<(), SpawnError> {
        let kind = RequestKind::Hello.to_wire();
        let hello = Request { kind, kernel: 0, task: 0, member: 0, blob_bytes: 0 };
        (0..self.lanes.len()).try_for_each(|lane| self.send(lane, &hello, &[]))?;
        let now = Instant::now();
        let until = now.checked_add(START_LIMIT).unwrap_or(now);
        let mut spin = Spin::new(Duration::ZERO);
        for index in 0..self.lanes.len() {
            let reply = self.await_hello(index, &mut spin, until)?;
            let Some(lane) = self.lanes.get_mut(index) else { break };
            let said = &mut [0; MAX_SAID];
            let said = reply.said(&lane.mailbox, said).ok_or(SpawnError::MessageBroken)?;
            if let Some(code) = Code::from_number(reply.code).filter(|&code| code != Code::Ok) {
                let failure = Failure::new(code, None, &String::from_utf8_lossy(said));
                return Err(SpawnError::Leaf { worker: lane.path.clone(), failure });
            }
            let hello = Hello::read(said);
            let hello = hello.ok_or(SpawnError::MessageBroken)?;
            lane.hello = Some(hello);
            if self.links.get(lane.link).is_some_and(|link| link.is_host) {
                lane.leaf = Some(Process::open(hello.pid.get())?);
            }
        }
        Ok(())
    }

    fn await_hello(&mut self, index: usize, spin: &mut Spin, until: Instant) -> Result<RawReply, SpawnError> {
        loop {
            let Some(lane) = self.lanes.get(index) else { return Err(SpawnError::MessageBroken) };
            let mut ended = Vec::new();
            let waited = wait(
                spin,
                &self.watch,
                Some(until),
                || lane.mailbox.reply(lane.sequence),
                |is_asleep| lane.mailbox.set_parent_asleep(is_asleep),
                [],
                |token| ended.extend(Some(token).filter(|&token| is_end(token))),
            );
            let link = lane.link;
            if let Waited::Ready(reply) = waited? {
                return Ok(reply);
            }
            for token in ended {
                self.note(token)?;
            }
            let ended = self.links.iter().find_map(|link| Some((link.process.pid(), link.ending?)));
            if let Some((pid, ending)) = ended {
                return Err(SpawnError::Died { pid, ending });
            }
            if Instant::now() >= until {
                let pid = self.links.get(link).map_or(0, |link| link.process.pid());
                return Err(SpawnError::TimedOut { pid });
            }
        }
    }

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
            Waited::Ready(Found::Reply(lane, reply)) => self.take(lane, Ok(reply)),
            Waited::Woken => {}
            Waited::TimedOut => return Ok(Next::TimedOut),
        }
        Ok(self.over.pop_front().map_or(Next::Woken, Next::Over))
    }

    /// Takes what was under way off a lane.
    fn take(&mut self, lane: usize, outcome: Result<RawReply, Death>) {
        if let Some(work) = self.lanes.get_mut(lane).and_then(|lane| lane.work.take()) {
            self.first = lane.saturating_add(1);
            self.over.push_back(Over { lane, work, outcome });
        }
    }

    /// A process has ended, a worker's or that of a leaf that outlived the one above it.
    fn note(&mut self, token: u64) -> Result<(), OsError> {
        if let Some(lane) = token.checked_sub(LEAVES) {
            return self.note_leaf(usize::try_from(lane).unwrap_or(usize::MAX));
        }
        let place = usize::try_from(token).unwrap_or(usize::MAX);
        let Some(link) = self.links.get_mut(place) else { return Ok(()) };
        let ending = match link.process.ended() {
            Ok(Some(ending)) => ending,
            Ok(None) => return Ok(()),
            // Something else in this process waited for it.
            Err(error) if error.errno == libc::ECHILD => Ending::Unknown,
            Err(error) => return Err(error),
        };
        link.ending = Some(ending);
        self.watch.remove(link.process.as_fd())?;
        let death = Death { worker: link.path.clone(), pid: link.process.pid(), ending };
        for lane in link.lanes.clone() {
            let Some(entry) = self.lanes.get_mut(lane) else { continue };
            let death = entry.death.get_or_insert_with(|| death.clone()).clone();
            let reply = entry.mailbox.reply(entry.sequence);
            match &entry.leaf {
                // Until it has ended too, it may touch what its task names, and is there.
                Some(leaf) if reply.is_none() || entry.work.is_none() => {
                    self.watch.add_process(leaf.as_fd(), leaf_token(lane))?;
                    entry.is_orphan = true;
                }
                Some(_) | None => self.take(lane, reply.ok_or(death)),
            }
        }
        Ok(())
    }

    fn note_leaf(&mut self, lane: usize) -> Result<(), OsError> {
        let Some(entry) = self.lanes.get_mut(lane) else { return Ok(()) };
        if let Some(leaf) = &entry.leaf {
            self.watch.remove(leaf.as_fd())?;
        }
        entry.is_orphan = false;
        if let Some(death) = entry.death.clone() {
            self.take(lane, Err(death));
        }
        Ok(())
    }

    /// In the process that started them: ends all. Who has nothing to do is told to, a leaf in the middle of something is killed. After `until` all are killed.
    pub(super) fn end(&mut self, until: Instant) {
        for link in self.links.iter().filter(|link| link.ending.is_none()) {
            let mut lanes = self.lanes.get(link.lanes.clone()).unwrap_or_default().iter();
            let told = match lanes.as_slice().first() {
                Some(first) if link.is_host || lanes.all(|lane| lane.work.is_none()) => {
                    first.mailbox.tell_to_end();
                    link.doorbell.ring()
                }
                Some(_) | None => link.process.send(libc::SIGKILL),
            };
            if told.is_err() {
                // It has ended, or it is ours to kill.
                let _ = link.process.send(libc::SIGKILL);
            }
        }
        self.await_ends(until);
        for link in self.links.iter().filter(|link| link.ending.is_none()) {
            let _ = link.process.send(libc::SIGKILL);
        }
        let soon = Instant::now().checked_add(STOP_LIMIT).unwrap_or(until);
        self.await_ends(soon);
    }

    /// Waits until every process has ended, or the time comes.
    fn await_ends(&mut self, until: Instant) {
        while self.links.iter().any(|link| link.ending.is_none())
            || self.lanes.iter().any(|lane| lane.is_orphan)
        {
            let mut ended = Vec::new();
            let woken = self.watch.wait(Some(until), |token| ended.push(token));
            for token in ended.into_iter().filter(|&token| is_end(token)) {
                // A task that was still under way is abandoned with its worker.
                let _ = self.note(token);
            }
            if !woken.unwrap_or(false) {
                return;
            }
        }
    }
}

impl<W> Drop for Links<W> {
    fn drop(&mut self) {
        if current_pid() != self.creator {
            return;
        }
        let now = Instant::now();
        self.end(now.checked_add(STOP_LIMIT).unwrap_or(now));
        // What is under way on a leaf that has not ended even now may still touch what it holds.
        for lane in &mut self.lanes {
            let ended = self.links.get(lane.link).is_some_and(|link| link.ending.is_some());
            if !ended || lane.is_orphan {
                let _kept = ManuallyDrop::new(lane.work.take());
            }
        }
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

/// A worker's path.
fn join(above: Option<&str>, name: &str) -> String {
    above.map_or_else(|| name.to_owned(), |above| format!("{above}/{name}"))
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
