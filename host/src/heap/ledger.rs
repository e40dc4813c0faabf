//! What is live in a heap, where the processes that inherited the heap can see it: an identity that was released resolves in
//! none of them, whatever lies at its address by now.

use bufabi_core::{Access, Descriptor, Identity};

use super::ALIGNMENT;
use crate::memory::Mapping;
use crate::memory::inherited::Ledger;
use crate::sys::OsError;

/// Three words for every place where a slab can start: `buffer_id`, generation and access, bytes. All are 0 where none does.
///
/// Only the owner writes it. Its forks read it to refuse, and their own rights in the heap do not come from it.
#[derive(Debug)]
pub(super) struct SlabLedger(Mapping);

const LINE: usize = 24;

impl SlabLedger {
    /// One for a heap of `nbytes` bytes.
    pub(super) fn new(nbytes: usize) -> Result<Self, OsError> {
        let places = nbytes.div_ceil(alignment());
        let too_large = OsError { call: "mmap", errno: libc::ENOMEM };
        Mapping::inherited(places.checked_mul(LINE).ok_or(too_large)?).map(Self)
    }

    pub(super) fn enter(&self, offset: usize, identity: Identity, nbytes: u64, access: Access) {
        self.write(offset, &line(identity, nbytes, access));
    }

    pub(super) fn strike(&self, offset: usize) {
        self.write(offset, &[0; LINE]);
    }

    fn write(&self, offset: usize, line: &[u8; LINE]) {
        // A slab lies in the heap, which has a line for every place.
        let _ = place(offset).map(|at| self.0.write(at, line));
    }
}

impl Ledger for SlabLedger {
    fn agrees(&self, descriptor: &Descriptor, offset: usize) -> bool {
        let mut found = [0; LINE];
        let read = place(offset).map(|at| self.0.read(at, &mut found));
        read.is_some_and(|read| read.is_ok())
            && found == line(descriptor.identity(), descriptor.nbytes(), descriptor.access())
    }
}

fn alignment() -> usize {
    usize::try_from(ALIGNMENT).unwrap_or(usize::MAX)
}

/// Where the line of a place is.
fn place(offset: usize) -> Option<usize> {
    if offset.is_multiple_of(alignment()) { offset.checked_div(alignment())?.checked_mul(LINE) } else { None }
}

fn line(identity: Identity, nbytes: u64, access: Access) -> [u8; LINE] {
    let generation = u64::from(identity.generation().get());
    let words = [identity.buffer_id(), generation << 8 | u64::from(access.to_wire()), nbytes];
    let mut line = [0; LINE];
    line.as_chunks_mut::<8>().0.iter_mut().zip(words).for_each(|(at, word)| *at = word.to_le_bytes());
    line
}
