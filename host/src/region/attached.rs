//! The side that attaches to a region that another process made.

use std::sync::Arc;
use std::time::Instant;

use bufabi_core::region::{AccessError, RegionParts};
use bufabi_core::{Code, Descriptor};

use super::error::{AttachError, CloseError};
use super::gate::Gate;
use super::memory::{Parts, RegionMemory};
use super::part::CopiedPart;
use crate::consumer::{Consumer, ImportError};
use crate::vmm::imports::Import;
use crate::vmm::{Imports, VmmDriver};

/// A region that this process attached to, through one of its consumers or through a device's driver.
#[derive(Debug)]
pub struct AttachedRegion<'a> {
    /// Whose mappings they are; `None` where they go with their last user, and when they were let go.
    consumer: Option<Lender<'a>>,
    memory: Option<Parts>,
    gate: Arc<Gate>,
    parts: RegionParts,
}

/// The consumer through which a region was attached to.
#[derive(Debug)]
enum Lender<'a> {
    Lent(&'a Consumer),
    Shared(Arc<Consumer>),
}

impl Lender<'_> {
    fn consumer(&self) -> &Consumer {
        match self {
            Self::Lent(consumer) => consumer,
            Self::Shared(consumer) => consumer,
        }
    }
}

impl<'a> AttachedRegion<'a> {
    /// Maps both parts or none. That they belong together is checked before anything is mapped.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(
        consumer: &'a Consumer,
        payload: &Descriptor,
        counter: &Descriptor,
    ) -> Result<Self, AttachError> {
        Self::through(Lender::Lent(consumer), payload, counter)
    }

    /// As [`attach`](Self::attach), of a region that keeps its consumer.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach_shared(
        consumer: Arc<Consumer>,
        payload: &Descriptor,
        counter: &Descriptor,
    ) -> Result<Self, AttachError> {
        Self::through(Lender::Shared(consumer), payload, counter)
    }

    fn through(lender: Lender<'a>, payload: &Descriptor, counter: &Descriptor) -> Result<Self, AttachError> {
        let parts = check(payload, counter)?;
        let consumer = lender.consumer();
        let import = |descriptor| consumer.import(descriptor).map_err(AttachError::Import);
        let payload_mapping = import(payload)?.into_mapping();
        let counter_mapping = match import(counter) {
            Ok(import) => import.into_mapping(),
            Err(error) => {
                drop(payload_mapping);
                // Somebody else may use it; then it stays.
                let _ = consumer.release(payload.identity());
                return Err(error);
            }
        };
        let memory = Some(Parts::Mapped([payload_mapping, counter_mapping]));
        Ok(Self { consumer: Some(lender), memory, gate: Arc::default(), parts })
    }

    /// As [`attach`](Self::attach), to device memory that this process's CPU does not map: the driver copies what is read and written,
    /// and a wait looks again after longer and longer pauses.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach_copying<D>(
        imports: &Imports<D>,
        payload: &Descriptor,
        counter: &Descriptor,
    ) -> Result<Self, AttachError>
    where
        D: VmmDriver<Physical: Send + Sync, Range: Send + Sync> + Send + Sync + 'static,
    {
        let parts = check(payload, counter)?;
        let import = |descriptor: &Descriptor| -> Result<Arc<Import<D>>, AttachError> {
            imports.import(descriptor).map(Arc::new).map_err(AttachError::Driver)
        };
        let memory: [Arc<dyn CopiedPart>; 2] = [import(payload)?, import(counter)?];
        Ok(Self { consumer: None, memory: Some(Parts::Copied(memory)), gate: Arc::default(), parts })
    }

    /// The identities of both parts.
    #[must_use]
    pub const fn parts(&self) -> RegionParts {
        self.parts
    }

    /// The region's bytes, for one user. As many as are there must be dropped before the region closes.
    ///
    /// # Errors
    /// [`AccessError`] once the region was closed.
    pub fn memory(&self) -> Result<RegionMemory, AccessError> {
        let closed = AccessError::new(Code::Released, 0);
        RegionMemory::enter(self.memory.as_ref().ok_or(closed)?, &self.gate)
    }

    /// Refuses whatever is begun from now on, waits until `until` for what is under way, and lets go of both parts; both are tried.
    /// It can be called again.
    ///
    /// # Errors
    /// [`CloseError`]; what was done stays done.
    pub fn close(&mut self, until: Instant) -> Result<(), CloseError> {
        self.gate.shut(Code::Released, 0);
        let users = self.gate.wait(until);
        if users > 0 {
            return Err(CloseError::InUse { users });
        }
        self.memory = None;
        let Some(lender) = &self.consumer else { return Ok(()) };
        let parts = [self.parts.payload(), self.parts.counter()];
        let [payload, counter] = parts.map(|part| match lender.consumer().release(part) {
            // Somebody else of this process uses it as well, and is who lets it go.
            Err(ImportError::ViewsAlive { .. }) => Ok(()),
            released => released,
        });
        payload.and(counter).map_err(CloseError::Drop)?;
        // What is mapped for somebody else from now on is not this region's to drop.
        self.consumer = None;
        Ok(())
    }
}

/// Two descriptors are the parts of a region that can be read and written.
fn check(payload: &Descriptor, counter: &Descriptor) -> Result<RegionParts, AttachError> {
    let parts = RegionParts::check(payload, counter).map_err(AttachError::Parts)?;
    for descriptor in [payload, counter] {
        let (identity, access) = (descriptor.identity(), descriptor.access());
        if !(access.reads() && access.writes()) {
            return Err(AttachError::NotShared { identity, access });
        }
    }
    if counter.nbytes() == 0 || !counter.nbytes().is_multiple_of(4) {
        return Err(AttachError::CounterSize { found: counter.nbytes() });
    }
    Ok(parts)
}
