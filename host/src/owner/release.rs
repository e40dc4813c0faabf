//! Letting go of what an endpoint owns: refused while it is used, now or when it no longer is.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use bufabi_core::Identity;
use bufabi_core::owner_table::OwnerError;

use super::backing::Remains;
use super::{Endpoint, ReleaseError};
use crate::memory::Mapping;

impl Endpoint {
    /// Lets go of a buffer: deciding and closing are one step; unmapping and freeing each happen at most once, and both are tried.
    /// `kept` is the mapping that the buffer itself holds; it is gone after the first attempt that was not refused.
    pub(super) fn release(
        &self,
        identity: Identity,
        kept: &mut Option<Arc<Mapping>>,
    ) -> Result<(), ReleaseError> {
        self.check_process().map_err(|(creator, here)| ReleaseError::Forked { creator, here })?;
        let mut table = self.table();
        let owned = table.get(identity).map_err(|error| ReleaseError::Owner(error.into()))?;
        if owned.holds > 0 {
            return Err(ReleaseError::Owner(OwnerError::Busy { identity, holds: owned.holds }));
        }
        // The table's own count, the buffer's while it has it, and one for each view that is alive. None can be added while
        // the table is locked, since a view comes from the table or from the buffer, which is borrowed here.
        let ours = usize::from(kept.is_some()).saturating_add(1);
        let views = owned.value.mapping.as_ref().map_or(0, |mapping| {
            // The last user's loads and stores come before what follows.
            fence(Ordering::Acquire);
            Arc::strong_count(mapping).saturating_sub(ours)
        });
        if views > 0 {
            return Err(ReleaseError::ViewsAlive { identity, views });
        }
        let backing = table.begin_release(identity).map_err(ReleaseError::Owner)?;
        *kept = None;
        // It is closing: nobody else comes near it, and the table need not wait for the operating system.
        let mut remains = Remains::of(backing);
        drop(table);
        let taken_down = remains.take_down();
        let mut table = self.table();
        match taken_down {
            Ok(()) => table.finish_release(identity).map(drop).map_err(ReleaseError::Owner),
            Err(failure) => {
                if let Ok(backing) = table.get_mut(identity) {
                    (backing.mapping, backing.resource) = (remains.mapping, remains.resource);
                }
                Err(ReleaseError::Failed { identity, failure })
            }
        }
    }

    /// No task holds any of these now: releasing them one after another is not refused half-way.
    ///
    /// # Errors
    /// [`ReleaseError::Owner`] for the first that is held, or not alive.
    pub(crate) fn check_idle(&self, identities: &[Identity]) -> Result<(), ReleaseError> {
        let table = self.table();
        identities.iter().try_for_each(|&identity| {
            match table.get(identity).map_err(|error| ReleaseError::Owner(error.into()))?.holds {
                0 => Ok(()),
                holds => Err(ReleaseError::Owner(OwnerError::Busy { identity, holds })),
            }
        })
    }

    /// As [`release`](Self::release), once no task holds it any more; nothing new comes from it while it waits, and then. What waiting for
    /// tasks does not mend, views that are alive, refuses it at once, and changes nothing.
    pub(super) fn release_when_idle(
        &self,
        identity: Identity,
        kept: &mut Option<Arc<Mapping>>,
        until: Instant,
    ) -> Result<(), ReleaseError> {
        let released = self.release(identity, kept);
        if !matches!(released, Err(ReleaseError::Owner(OwnerError::Busy { .. }))) {
            return released;
        }
        let mut table = self.table();
        let mut holds = table.begin_release_when_idle(identity).map_err(ReleaseError::Owner)?;
        while holds > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ReleaseError::TimedOut { identity, holds });
            }
            table = self.0.idle.wait(table, left);
            holds = table.get(identity).map_err(|error| ReleaseError::Owner(error.into()))?.holds;
        }
        drop(table);
        self.release(identity, kept)
    }

    /// The buffer is dropped without a release, or with one that did not get through: what can be taken down is, now or when the last
    /// task that holds it is done. Views that are alive keep the mapping.
    pub(super) fn abandon(&self, identity: Identity) {
        if self.check_process().is_err() {
            return;
        }
        let mut table = self.table();
        // An error says that it was released.
        let Ok(holds) = table.begin_release_when_idle(identity) else { return };
        if holds == 0 {
            let backing = table.finish_release(identity);
            drop(table);
            // Nobody is left who could be told.
            let _ = backing.map(|mut backing| Remains::of(&mut backing).take_down());
        } else if let Ok(backing) = table.get_mut(identity) {
            backing.is_abandoned = true;
        }
    }

    /// The process is about to end: takes back what others would find of it then, names and handles, whoever still has the buffers.
    /// Mappings and views stay. What is made from now on is found by nobody. In a fork of its maker nothing happens.
    pub fn withdraw(&self) {
        if self.check_process().is_err() {
            return;
        }
        let mut table = self.table();
        self.0.is_withdrawn.store(true, Ordering::Relaxed);
        let identities: Vec<Identity> = table.iter().map(|(identity, _)| identity).collect();
        let resources: Vec<_> = identities
            .into_iter()
            .filter_map(|identity| table.get_mut(identity).ok()?.resource.take())
            .collect();
        drop(table);
        for mut resource in resources {
            resource.revoke();
            // What is refused stays for a sweep.
            let _ = resource.free();
        }
    }

    /// Tasks that held these are done: whoever waits for that is told, and what was abandoned goes with its last task.
    pub(super) fn let_go(&self, identities: &[Identity]) {
        let mut abandoned = Vec::new();
        let mut is_one_idle = false;
        let mut table = self.table();
        for &identity in identities {
            if identity.owner_instance_id() != self.0.owner_instance_id {
                self.0.wraps.unhold(identity);
                continue;
            }
            if table.unhold(identity) == Ok(0) {
                if table.get(identity).is_ok_and(|owned| owned.value.is_abandoned) {
                    abandoned.extend(table.finish_release(identity));
                }
                is_one_idle = true;
            }
        }
        if is_one_idle {
            self.0.idle.tell(&table);
        }
        drop(table);
        for mut backing in abandoned {
            // Nobody is left who could be told.
            let _ = Remains::of(&mut backing).take_down();
        }
    }
}
