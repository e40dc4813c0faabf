//! Physical memory at device addresses: the steps up, the steps down in reverse, and what is kept when one of them fails.

use std::sync::Arc;

use bufabi_core::Access;

use super::{OrderFault, VmmDriver, VmmError};
use crate::sys::process::current_pid;

/// Physical memory that is mapped at a range of addresses, or what is left of it when a step down has failed. Dropping it takes the
/// steps down that have not been taken, but not in a fork of the process.
#[derive(Debug)]
pub(super) struct Placement<D: VmmDriver> {
    driver: Arc<D>,
    physical: Option<D::Physical>,
    range: Option<D::Range>,
    is_mapped: bool,
    creator: u32,
}

impl<D: VmmDriver> Placement<D> {
    /// Reserves, maps and sets access. After a failing step those before it are undone in reverse, the physical memory's
    /// freeing included, and the first error is the one reported.
    pub(super) fn new(
        driver: &Arc<D>,
        physical: D::Physical,
        mapping_bytes: u64,
        access: Access,
    ) -> Result<Self, VmmError> {
        let mut placement = Self {
            driver: Arc::clone(driver),
            physical: Some(physical),
            range: None,
            is_mapped: false,
            creator: current_pid(),
        };
        // On an error, dropping `placement` takes the steps down.
        let mut range = driver.reserve(mapping_bytes)?;
        let mapped = match &placement.physical {
            Some(physical) => driver.map(&mut range, physical),
            None => Err(VmmError::Order(OrderFault::NotMapped)),
        };
        placement.is_mapped = mapped.is_ok();
        let range = placement.range.insert(range);
        mapped?;
        driver.set_access(range, access)?;
        Ok(placement)
    }

    /// The physical memory, until it is freed.
    pub(super) const fn physical(&self) -> Option<&D::Physical> {
        self.physical.as_ref()
    }

    /// The range, while memory is mapped there.
    pub(super) fn range(&self) -> Result<&D::Range, VmmError> {
        self.check_creator()?;
        match &self.range {
            Some(range) if self.is_mapped => Ok(range),
            Some(_) | None => Err(VmmError::Order(OrderFault::NotMapped)),
        }
    }

    /// The range, for changing it, while memory is mapped there.
    pub(super) fn range_mut(&mut self) -> Result<&mut D::Range, VmmError> {
        self.check_creator()?;
        match &mut self.range {
            Some(range) if self.is_mapped => Ok(range),
            Some(_) | None => Err(VmmError::Order(OrderFault::NotMapped)),
        }
    }

    /// The range with what is mapped there, which the caller takes down from now on. The physical memory is given up.
    pub(super) fn take_range(&mut self) -> Result<D::Range, VmmError> {
        self.range()?;
        self.free_physical()?;
        self.is_mapped = false;
        self.range.take().ok_or(VmmError::Order(OrderFault::NotMapped))
    }

    /// Unmaps, releases and frees: each step that has not succeeded before, also when another one fails, but addresses are
    /// never released while memory is mapped there. Reports the first error.
    pub(super) fn take_down(&mut self) -> Result<(), VmmError> {
        self.check_creator()?;
        let mut result = Ok(());
        if self.is_mapped {
            let unmapped = self.range.as_mut().map_or(Ok(()), |range| self.driver.unmap(range));
            self.is_mapped = unmapped.is_err();
            result = result.and(unmapped);
        }
        if !self.is_mapped
            && let Some(range) = self.range.take()
            && let Err((range, error)) = self.driver.release(range)
        {
            self.range = Some(range);
            result = result.and(Err(error));
        }
        result.and(self.free_physical())
    }

    /// Frees the physical memory, if it has not been: early, that is deferred until the mapping goes.
    pub(super) fn free_physical(&mut self) -> Result<(), VmmError> {
        self.check_creator()?;
        match self.physical.take().map(|physical| self.driver.free_physical(physical)) {
            None | Some(Ok(())) => Ok(()),
            Some(Err((physical, error))) => {
                self.physical = Some(physical);
                Err(error)
            }
        }
    }

    /// This is the process that made it.
    pub(super) fn check_creator(&self) -> Result<(), VmmError> {
        check_creator(self.creator)
    }
}

/// This is that process, and not a fork of it.
pub(super) fn check_creator(creator: u32) -> Result<(), VmmError> {
    match current_pid() {
        current if current == creator => Ok(()),
        current => Err(VmmError::Forked { creator, current }),
    }
}

impl<D: VmmDriver> Drop for Placement<D> {
    fn drop(&mut self) {
        // Nobody is left who could be told, and a fork has nothing to take down.
        let _ = self.take_down();
    }
}
