//! How workers end: by themselves, and that is noted and told to whoever waits for them, or because their parent is done.

use core::mem::ManuallyDrop;
use std::os::fd::AsFd;
use std::time::Instant;

use super::{LEAVES, Links, STOP_LIMIT, is_end, leaf_token};
use crate::sys::OsError;
use crate::sys::process::{Ending, current_pid};
use crate::worker::death::Death;

impl<W> Links<W> {
    /// A process has ended, a worker's or that of a leaf that outlived the one above it.
    pub(super) fn note(&mut self, token: u64) -> Result<(), OsError> {
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
            if let Some(leaf) = &entry.leaf {
                self.watch.add_process(leaf.as_fd(), leaf_token(lane))?;
                entry.is_orphan = true;
            }
            let over = match entry.mailbox.reply(entry.sequence) {
                Some(reply) => self.take(lane, Ok(reply)),
                None if !entry.is_orphan => self.take(lane, Err(death)),
                // Until the leaf has ended too, it may touch what its task names.
                None => None,
            };
            self.over.extend(over);
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
            let over = self.take(lane, Err(death));
            self.over.extend(over);
        }
        Ok(())
    }

    /// In the process that started them: ends all. Who has nothing to do is told to, a leaf in the middle of something is killed. After `until` all are killed.
    pub(in super::super) fn end(&mut self, until: Instant) {
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
        // First the workers, then the leaves that have outlived the ones above them and do not end by themselves.
        for _ in 0..2 {
            let workers = self.links.iter().filter(|link| link.ending.is_none()).map(|link| &link.process);
            let orphans =
                self.lanes.iter().filter(|lane| lane.is_orphan).filter_map(|lane| lane.leaf.as_ref());
            for process in workers.chain(orphans) {
                let _ = process.send(libc::SIGKILL);
            }
            let soon = Instant::now().checked_add(STOP_LIMIT).unwrap_or(until);
            self.await_ends(soon);
        }
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
