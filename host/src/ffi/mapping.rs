//! Memory that this process has mapped, for as long as C uses it.

use core::ffi::c_void;
use std::sync::Arc;

use bufabi_core::{Access, Code, Tag, rights};
use zerocopy::{FromBytes, Immutable};

use super::argument::Span;
use super::boundary::{answer, noted};
use super::handle::{Kind, Table};
use super::parameter::{Out, OutSlice, apart_from, given_slice, span_of_slice};
use super::status::Status;
use crate::memory::Mapping;
use crate::memory::mapping::OutOfRange;

/// A mapping that somebody uses: it stays until the handle is released. 0 is none.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct MappingHandle {
    /// Nothing to be read into.
    pub token: u64,
}

#[derive(Debug)]
struct Used {
    mapping: Arc<Mapping>,
    access: Access,
}

static TABLE: Table<Used> = Table::new(Kind::Mapping);

/// Bytes that are copied at once.
const CHUNK: usize = 4096;

impl Used {
    /// The owner grants what the tag needs.
    fn check(&self, tag: Tag) -> Result<(), Code> {
        rights::check(self.access, tag).map_err(|error| noted(error.code(), &error))
    }

    /// The range lies within it, so that all of it is copied or nothing.
    fn check_range(&self, offset: usize, length: usize) -> Result<(), Code> {
        let nbytes = usize::try_from(self.mapping.nbytes()).unwrap_or(usize::MAX);
        match nbytes.checked_sub(offset) {
            Some(room) if length <= room => Ok(()),
            Some(_) | None => Err(noted(Code::AddressNotMapped, &OutOfRange { offset, length, nbytes })),
        }
    }

    /// The bytes of it.
    fn span(&self) -> Option<Span> {
        let nbytes = usize::try_from(self.mapping.nbytes()).ok()?;
        Span::check(self.mapping.base().as_ptr(), nbytes, 1).ok()
    }
}

/// Enters a use of a mapping, with what may be done there.
pub(super) fn insert(mapping: Arc<Mapping>, access: Access) -> Result<MappingHandle, Code> {
    Ok(MappingHandle { token: TABLE.insert(Used { mapping, access })? })
}

/// Where it lies, how many bytes it has, and what may be done there: READ 0, WRITE 1, READWRITE 2. A store to what is only to be
/// read faults, or is a fault that nobody sees. The address is good until the handle is released, whatever else is.
///
/// Cooperating tasks write only what the edges between them allow; all others may write at any moment.
///
/// # Safety
/// `address`, `nbytes` and `access` each point to what may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_mapping_address(
    mapping: MappingHandle,
    address: *mut *mut c_void,
    nbytes: *mut usize,
    access: *mut i32,
) -> Status {
    answer("mapping_address", || {
        // SAFETY: the caller's promise above.
        let address = unsafe { Out::new(address) }?;
        // SAFETY: the caller's promise above.
        let nbytes = unsafe { Out::new(nbytes) }?;
        // SAFETY: the caller's promise above.
        let access = unsafe { Out::new(access) }?;
        apart_from(&[address.span(), nbytes.span(), access.span()], &[])?;
        let used = TABLE.get(mapping.token)?;
        address.set(used.mapping.base().as_ptr().cast());
        nbytes.set(usize::try_from(used.mapping.nbytes()).unwrap_or(usize::MAX));
        access.set(i32::from(used.access.to_wire()));
        Ok(())
    })
}

/// Copies the `nbytes` bytes from `offset` on to `out`, each read once. It is refused when the owner grants no reading.
///
/// # Safety
/// `out` points to `nbytes` bytes that may be written, and which are not of the mapping itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_mapping_read(
    mapping: MappingHandle,
    offset: usize,
    out: *mut c_void,
    nbytes: usize,
) -> Status {
    answer("mapping_read", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { OutSlice::new(out.cast::<u8>(), nbytes) }?;
        let used = TABLE.get(mapping.token)?;
        used.check(Tag::Input)?;
        apart_from(&[out.span()], &[used.span()])?;
        used.check_range(offset, nbytes)?;
        let mut chunk = [0; CHUNK];
        let mut copied = 0_usize;
        while copied < nbytes {
            let chunk = chunk.get_mut(..nbytes.saturating_sub(copied).min(CHUNK)).unwrap_or_default();
            let from = offset.saturating_add(copied);
            used.mapping.read(from, chunk).map_err(|error| noted(Code::AddressNotMapped, &error))?;
            out.set_from(copied, chunk);
            copied = copied.saturating_add(chunk.len());
        }
        Ok(())
    })
}

/// Copies the `nbytes` bytes at `bytes` to the place from `offset` on. It is refused when the owner grants no writing.
///
/// # Safety
/// `bytes` points to `nbytes` bytes that nobody writes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_mapping_write(
    mapping: MappingHandle,
    offset: usize,
    bytes: *const c_void,
    nbytes: usize,
) -> Status {
    answer("mapping_write", || {
        // SAFETY: the caller's promise above.
        let bytes = unsafe { given_slice(bytes.cast::<u8>(), nbytes) }?;
        let used = TABLE.get(mapping.token)?;
        used.check(Tag::Output)?;
        apart_from(&[used.span()], &[span_of_slice(bytes)])?;
        used.mapping.write(offset, bytes).map_err(|error| noted(Code::AddressNotMapped, &error))
    })
}

/// Ends this use of the mapping.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_mapping_release(mapping: MappingHandle) -> Status {
    answer("mapping_release", || TABLE.remove(mapping.token).map(drop))
}
