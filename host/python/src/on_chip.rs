//! What a chip's registry knows of the chip's own memory: it is mapped by nobody, and each identity has one descriptor.

use std::collections::{HashMap, VecDeque};

use bufabi_core::{Descriptor, Identity};
use bufabi_host::consumer::{DEFAULT_CAPACITY, ImportError};

/// The descriptors that a chip's registry has met, as many as it maps at most: the one that it met first makes room.
#[derive(Default)]
pub(crate) struct OnChip {
    known: HashMap<Identity, Descriptor>,
    /// In the order in which they came.
    met: VecDeque<Identity>,
    is_closed: bool,
}

impl OnChip {
    /// Takes a descriptor, which agrees with the one that its identity came with before.
    pub(crate) fn meet(&mut self, descriptor: &Descriptor) -> Result<(), ImportError> {
        if self.is_closed {
            return Err(ImportError::Closed);
        }
        let identity = descriptor.identity();
        if let Some(known) = self.known.get(&identity) {
            let fields = known.differences(descriptor);
            return if fields.is_empty() { Ok(()) } else { Err(ImportError::Conflict { identity, fields }) };
        }
        if self.met.len() >= DEFAULT_CAPACITY
            && let Some(first) = self.met.pop_front()
        {
            self.known.remove(&first);
        }
        self.known.insert(identity, *descriptor);
        self.met.push_back(identity);
        Ok(())
    }

    /// Drops what is known of an identity.
    pub(crate) fn forget(&mut self, identity: Identity) {
        if self.known.remove(&identity).is_some() {
            self.met.retain(|met| *met != identity);
        }
    }

    /// Drops all, and takes nothing any more.
    pub(crate) fn close(&mut self) {
        *self = Self { is_closed: true, ..Self::default() };
    }
}
