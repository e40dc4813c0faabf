//! The wrapped buffers whose identities come from elsewhere, and what holds them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bufabi_core::owner_table::OwnerError;
use bufabi_core::{Descriptor, Identity};

use crate::owner::idle::Idle;
use crate::owner::{OwnError, ReleaseError};

/// What an endpoint wraps.
#[derive(Debug, Default)]
pub(in crate::owner) struct Wraps {
    live: Mutex<HashMap<Identity, Wrap>>,
    /// Told whenever no task holds some wrapped buffer any more.
    idle: Idle,
}

#[derive(Debug)]
struct Wrap {
    descriptor: Descriptor,
    holds: u32,
    /// Nothing new comes from it.
    is_closing: bool,
    /// Nobody is left who could release it: that is up to the last task that holds it.
    is_abandoned: bool,
}

impl Wraps {
    fn live(&self) -> MutexGuard<'_, HashMap<Identity, Wrap>> {
        // Every step on the table is whole, so a panic elsewhere leaves it as it should be.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters what has that descriptor; says whether its identity was not there yet.
    pub(super) fn insert(&self, descriptor: Descriptor) -> bool {
        let mut live = self.live();
        let is_new = !live.contains_key(&descriptor.identity());
        if is_new {
            let wrap = Wrap { descriptor, holds: 0, is_closing: false, is_abandoned: false };
            live.insert(descriptor.identity(), wrap);
        }
        is_new
    }

    /// A task names it; says whether it is wrapped at all.
    pub(in crate::owner) fn hold(&self, descriptor: &Descriptor) -> Result<bool, OwnError> {
        let identity = descriptor.identity();
        let mut live = self.live();
        let Some(wrap) = live.get_mut(&identity) else { return Ok(false) };
        if wrap.is_closing {
            return Err(OwnerError::Closing { identity }.into());
        }
        let fields = wrap.descriptor.differences(descriptor);
        if !fields.is_empty() {
            return Err(OwnError::Conflict { identity, fields });
        }
        wrap.holds = wrap.holds.checked_add(1).ok_or(OwnerError::TooManyHolds { identity })?;
        Ok(true)
    }

    /// A task that named it is done.
    pub(in crate::owner) fn unhold(&self, identity: Identity) {
        let mut live = self.live();
        let Some(wrap) = live.get_mut(&identity) else { return };
        wrap.holds = wrap.holds.saturating_sub(1);
        if wrap.holds == 0 {
            if wrap.is_abandoned {
                live.remove(&identity);
            }
            self.idle.tell(&live);
        }
    }

    pub(super) fn check_live(&self, identity: Identity) -> Result<(), OwnError> {
        match self.live().get(&identity) {
            Some(wrap) if !wrap.is_closing => Ok(()),
            Some(_) | None => Err(OwnerError::Closing { identity }.into()),
        }
    }

    pub(super) fn release(&self, identity: Identity) -> Result<(), ReleaseError> {
        let mut live = self.live();
        match live.get(&identity).map(|wrap| wrap.holds) {
            Some(0) => {
                live.remove(&identity);
                Ok(())
            }
            Some(holds) => Err(ReleaseError::Owner(OwnerError::Busy { identity, holds })),
            None => Err(ReleaseError::Owner(OwnerError::Closing { identity })),
        }
    }

    pub(super) fn release_when_idle(&self, identity: Identity, until: Instant) -> Result<(), ReleaseError> {
        let mut live = self.live();
        loop {
            let wrap = live.get_mut(&identity);
            let wrap = wrap.ok_or(ReleaseError::Owner(OwnerError::Closing { identity }))?;
            wrap.is_closing = true;
            let holds = wrap.holds;
            if holds == 0 {
                live.remove(&identity);
                return Ok(());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ReleaseError::TimedOut { identity, holds });
            }
            live = self.idle.wait(live, left);
        }
    }

    pub(super) fn abandon(&self, identity: Identity) {
        let mut live = self.live();
        if let Some(wrap) = live.get_mut(&identity) {
            (wrap.is_closing, wrap.is_abandoned) = (true, true);
            if wrap.holds == 0 {
                live.remove(&identity);
            }
        }
    }
}
