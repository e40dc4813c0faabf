//! How workers come to be: forked one after another, and each leaf heard of before the first is used.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use bufabi_core::Code;

use super::{DOORBELL, Lane, Link, Links, is_end, link_token};
use crate::device::DeviceKind;
use crate::sys::OsError;
use crate::sys::event::{Doorbell, Watch};
use crate::sys::process::{Process, current_pid, fork};
use crate::worker::error::SpawnError;
use crate::worker::failure::Failure;
use crate::worker::hello::Hello;
use crate::worker::kernel::Kernels;
use crate::worker::mailbox::{Mailbox, RawReply, Request, RequestKind};
use crate::worker::serve::{Inherited, serve_chip, serve_sub};
use crate::worker::wait::{Spin, Waited, wait};
use crate::worker::{WaitPolicy, WorkerKind, WorkerSpec, host};

/// How long all workers together may take to say who they are.
const START_LIMIT: Duration = Duration::from_secs(10);

impl<W> Links<W> {
    /// Starts a process for each worker, and returns when each leaf below has said who it is. `above` is the path of the worker
    /// that this process is.
    pub(in super::super) fn spawn<K: Kernels + ?Sized>(
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
        let mut life = || {
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
        };
        let mut forked = None;
        kernels.around_fork(&mut || forked = Some(fork(|| kernels.in_fork(&mut life))));
        // Whoever does not call what it is given starts no process.
        let process = forked.ok_or(OsError { call: "fork", errno: libc::ECANCELED })??;
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
            let hello = self.hello_in(index, &reply)?;
            let Some(lane) = self.lanes.get_mut(index) else { break };
            lane.hello = Some(hello);
            if self.links.get(lane.link).is_some_and(|link| link.is_host) {
                lane.leaf = match Process::open(hello.pid.get()) {
                    // It has ended since. The worker above it says how to whoever asks it for something.
                    Err(error) if error.errno == libc::ESRCH => None,
                    opened => Some(opened?),
                };
            }
        }
        Ok(())
    }

    /// Who a leaf says that it is, or why it, or the worker above it, does not start.
    fn hello_in(&self, lane: usize, reply: &RawReply) -> Result<Hello, SpawnError> {
        let lane = self.lanes.get(lane).ok_or(SpawnError::MessageBroken)?;
        let said = reply.said(&lane.mailbox).ok_or(SpawnError::MessageBroken)?;
        let Some(code) = Code::from_number(reply.code).filter(|&code| code != Code::Ok) else {
            return Hello::read(&said).ok_or(SpawnError::MessageBroken);
        };
        // A host worker answers this for itself: when it starts, all of its leaves have.
        let host = self.links.get(lane.link).filter(|link| link.is_host);
        let worker = host.map_or(&lane.path, |host| &host.path).clone();
        Err(SpawnError::Leaf { worker, failure: Failure::new(code, None, &String::from_utf8_lossy(&said)) })
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
            let ended = self.links.iter().find_map(|link| Some((link, link.ending?)));
            if let Some((link, ending)) = ended {
                // It may have said why, on the first of its lanes.
                let lane = link.lanes.start;
                let reply = self.lanes.get(lane).and_then(|entry| entry.mailbox.reply(entry.sequence));
                reply.map_or(Ok(()), |reply| self.hello_in(lane, &reply).map(drop))?;
                return Err(SpawnError::Died { pid: link.process.pid(), ending });
            }
            if Instant::now() >= until {
                let pid = self.links.get(link).map_or(0, |link| link.process.pid());
                return Err(SpawnError::TimedOut { pid });
            }
        }
    }
}

/// A worker's path.
fn join(above: Option<&str>, name: &str) -> String {
    above.map_or_else(|| name.to_owned(), |above| format!("{above}/{name}"))
}
