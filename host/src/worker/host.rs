//! A worker that has workers of its own: it hands each request on to the leaf that it is for, and the reply back. It maps nothing.
//!
//! Lane i from the parent is lane i to the leaves below, so requests for different leaves never wait for one another.

use std::os::fd::AsFd;
use std::time::Instant;

use bufabi_core::Code;
use zerocopy::IntoBytes;

use super::WorkerSpec;
use super::death::Death;
use super::error::SpawnError;
use super::failure::Failure;
use super::kernel::Kernels;
use super::links::{FIRST_OTHER, Links, Next, Over, STOP_LIMIT};
use super::mailbox::{RawReply, RequestKind};
use super::reexport::Reexport;
use super::serve::{Inherited, status};
use super::wait::Spin;
use crate::sys::OsError;

/// The whole life of a worker that has workers; its exit status comes back.
pub(super) fn serve<K: Kernels + ?Sized>(
    inherited: Inherited<'_>,
    workers: &[WorkerSpec],
    kernels: &K,
) -> i32 {
    match Host::start(inherited, workers, kernels) {
        // Nobody is left to tell but who looks at the exit status.
        Ok(host) => host.run().unwrap_or(status::MACHINE),
        Err(error) => inherited.give_up(&Failure::new(error.code(), None, &error)),
    }
}

/// A request that was handed on.
#[derive(Debug)]
struct Forwarded {
    /// Its number on the lane from the parent.
    sequence: u32,
    task: u64,
}

struct Host<'a> {
    inherited: Inherited<'a>,
    links: Links<Forwarded>,
    spin: Spin,
    /// The number of the last request that was taken from each lane.
    taken: Vec<u32>,
    reexport: Reexport,
}

/// Among what the watch tells: the parent's doorbell.
const RUNG: u64 = FIRST_OTHER;
/// The parent's end.
const PARENT_ENDED: u64 = FIRST_OTHER.saturating_add(1);

/// What the parent wants.
enum Wanted {
    /// The request of that number on that lane.
    Request { lane: usize, sequence: u32 },
    /// That this worker ends.
    End,
}

impl<'a> Host<'a> {
    fn start<K: Kernels + ?Sized>(
        inherited: Inherited<'a>,
        workers: &[WorkerSpec],
        kernels: &K,
    ) -> Result<Self, SpawnError> {
        inherited.settle()?;
        // The lanes from the parent are not the leaves' business.
        inherited.lanes.iter().try_for_each(|mailbox| mailbox.leave_out_of_forks())?;
        let links = Links::spawn(Some(inherited.path), workers, kernels, inherited.policy)?;
        links.watch().add_doorbell(inherited.doorbell, RUNG)?;
        links.watch().add_process(inherited.parent.as_fd(), PARENT_ENDED)?;
        Ok(Self {
            taken: vec![0; inherited.lanes.len()],
            spin: Spin::new(inherited.policy.spin),
            reexport: Reexport::new(),
            links,
            inherited,
        })
    }

    fn run(mut self) -> Result<i32, OsError> {
        loop {
            let (lanes, taken) = (self.inherited.lanes, &self.taken);
            let mut parent_ended = false;
            let next = self.links.next(
                &mut self.spin,
                None,
                || {
                    if lanes.first().is_some_and(|mailbox| mailbox.is_told_to_end()) {
                        return Some(Wanted::End);
                    }
                    let mut pairs = lanes.iter().zip(taken).enumerate();
                    pairs.find_map(|(lane, (mailbox, &taken))| {
                        let sequence = mailbox.request_sequence();
                        (sequence != taken).then_some(Wanted::Request { lane, sequence })
                    })
                },
                |is_asleep| lanes.iter().for_each(|mailbox| mailbox.set_worker_asleep(is_asleep)),
                |token| parent_ended |= token == PARENT_ENDED,
            )?;
            match next {
                Next::Over(over) => self.hand_back(over)?,
                Next::Ready(Wanted::Request { lane, sequence }) => {
                    let expected = self.taken.get(lane).map(|taken| taken.wrapping_add(1));
                    // Requests of one lane follow one another, and each is answered before the next.
                    if expected != Some(sequence) || self.links.work(lane).is_some() {
                        return Ok(status::MESSAGE_BROKEN);
                    }
                    self.hand_on(lane, sequence)?;
                }
                Next::Ready(Wanted::End) => {
                    let now = Instant::now();
                    self.links.end(now.checked_add(STOP_LIMIT).unwrap_or(now));
                    return Ok(0);
                }
                // The workers below are ended as this one's are dropped.
                Next::Woken | Next::TimedOut if parent_ended => return Ok(0),
                Next::Woken | Next::TimedOut => {}
            }
        }
    }

    /// Hands a request on, or answers it when that is not for the leaf to do.
    fn hand_on(&mut self, lane: usize, sequence: u32) -> Result<(), OsError> {
        let Some(mailbox) = self.inherited.lanes.get(lane) else { return Ok(()) };
        if let Some(taken) = self.taken.get_mut(lane) {
            *taken = sequence;
        }
        let request = mailbox.request();
        let forwarded = Forwarded { sequence, task: request.task };
        if request.kind == RequestKind::Hello.to_wire()
            && let Some(hello) = self.links.hello(lane).copied()
        {
            return self.answer(
                lane,
                &forwarded,
                &RawReply::of_code(request.task, Code::Ok, None),
                hello.as_bytes(),
            );
        }
        if let Some(death) = self.links.ended(lane).cloned() {
            return self.answer_death(lane, &forwarded, &death);
        }
        match self.reexport.write(request.kind, &mailbox.blob(&request)) {
            Ok(blob) => self.links.post(lane, &request, blob, forwarded),
            Err(failure) => {
                let reply = RawReply::of_code(request.task, failure.code, failure.argument);
                self.answer(lane, &forwarded, &reply, failure.text.as_bytes())
            }
        }
    }

    /// Hands a reply back, as one that came by way of this worker.
    fn hand_back(&mut self, over: Over<Forwarded>) -> Result<(), OsError> {
        let Over { lane, work, outcome } = over;
        let reply = match outcome {
            Ok(reply) => reply,
            Err(death) => return self.answer_death(lane, &work, &death),
        };
        let Some(mailbox) = self.links.mailbox(lane) else { return Ok(()) };
        let whole = reply.said(mailbox).zip(reply.resolutions(mailbox));
        let whole = whole.zip(reply.answer(mailbox));
        let Some(((said, resolutions), answer)) = whole.filter(|_| reply.task == work.task) else {
            let text = "the reply contradicts itself, or the request";
            let reply = RawReply::of_code(work.task, Code::MessageBroken, None);
            return self.answer(lane, &work, &reply, text.as_bytes());
        };
        if reply.code == Code::WorkerDied.number()
            && let Some(death) = Death::decode(&said)
        {
            self.links.learn_death(lane, &death);
        }
        let reply = RawReply { hops: reply.hops.saturating_add(1), ..reply };
        self.post(lane, &work, &reply, &resolutions, &said, &answer)
    }

    fn answer_death(&self, lane: usize, work: &Forwarded, death: &Death) -> Result<(), OsError> {
        self.answer(lane, work, &RawReply::of_code(work.task, Code::WorkerDied, None), &death.encode())
    }

    fn answer(&self, lane: usize, work: &Forwarded, reply: &RawReply, said: &[u8]) -> Result<(), OsError> {
        let said_bytes = u32::try_from(said.len()).unwrap_or(0);
        self.post(lane, work, &RawReply { said_bytes, ..*reply }, &[], said, &[])
    }

    fn post(
        &self,
        lane: usize,
        work: &Forwarded,
        reply: &RawReply,
        resolutions: &[u8],
        said: &[u8],
        answer: &[u8],
    ) -> Result<(), OsError> {
        let Some(mailbox) = self.inherited.lanes.get(lane) else { return Ok(()) };
        let posted = mailbox.post_reply(work.sequence, reply, resolutions, said, answer);
        // All fit: they were read out of a mailbox, or their types say so.
        if posted.unwrap_or(true) { self.inherited.parent_doorbell.ring() } else { Ok(()) }
    }
}
