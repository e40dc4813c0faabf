//! Copies into and out of a chip's buffers: which way the owner grants, and which bytes lie in the one buffer.

use bufabi_core::wire::backend::BackendKind;
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{Access, Identity};

use super::{CopyError, DeviceMemory, address};
use crate::device::DeviceError;
use crate::memory::Mapping;
use crate::memory::mapping::{OutOfRange, count_copied};
use crate::owner::OwnError;

impl DeviceMemory<'_> {
    /// Writes first content of a buffer, from `offset` on, whatever its owner grants: that is part of its creation, and over when a task
    /// has named it, when others may import it, or when it was copied from.
    ///
    /// # Errors
    /// [`CopyError`]: it has been named already, or not all of the bytes lie in that one buffer; nothing was written then.
    pub fn fill(&self, identity: Identity, offset: u64, bytes: &[u8]) -> Result<(), CopyError> {
        let fields = self.fields(identity)?;
        if self.live.get(&identity).is_none_or(|live| live.is_named.get()) {
            return Err(CopyError::Named { identity });
        }
        self.write(&fields, offset, bytes)
    }

    /// Copies bytes into a buffer, from `offset` on.
    ///
    /// # Errors
    /// [`CopyError`]: the owner grants no writing, or not all of the bytes lie in that one buffer; nothing was copied then.
    pub fn copy_to(&self, identity: Identity, offset: u64, bytes: &[u8]) -> Result<(), CopyError> {
        let fields = self.fields(identity)?;
        check_direction(fields.access, Access::Write)?;
        self.write(&fields, offset, bytes)
    }

    fn write(&self, fields: &DescriptorFields, offset: u64, bytes: &[u8]) -> Result<(), CopyError> {
        match self.first_byte(fields, offset, bytes.len())? {
            Some(address) => {
                self.device.copy_to(address, bytes)?;
                count_copied(bytes.len());
            }
            None => {
                let (mapping, start) = self.mapped(fields.identity, offset)?;
                mapping.write(start, bytes).map_err(|error| out_of_range(offset, error))?;
            }
        }
        Ok(())
    }

    /// Copies bytes out of a buffer, from `offset` on.
    ///
    /// # Errors
    /// [`CopyError`]: the owner grants no reading, or not all of the bytes lie in that one buffer; nothing was copied then.
    pub fn copy_from(&self, identity: Identity, offset: u64, out: &mut [u8]) -> Result<(), CopyError> {
        let fields = self.fields(identity)?;
        check_direction(fields.access, Access::Read)?;
        let first = self.first_byte(&fields, offset, out.len())?;
        self.note_named(identity);
        match first {
            Some(address) => {
                self.device.copy_from(address, out)?;
                count_copied(out.len());
            }
            None => {
                let (mapping, start) = self.mapped(identity, offset)?;
                mapping.read(start, out).map_err(|error| out_of_range(offset, error))?;
            }
        }
        Ok(())
    }

    /// What a copy's buffer is.
    fn fields(&self, identity: Identity) -> Result<DescriptorFields, CopyError> {
        self.check_process()?;
        Ok(self.endpoint.lookup(identity).map_err(CopyError::Own)?.fields())
    }

    /// The device address where a copy starts, if its bytes lie in the buffer; `None` for memory that is mapped instead.
    fn first_byte(
        &self,
        fields: &DescriptorFields,
        offset: u64,
        length: usize,
    ) -> Result<Option<u64>, CopyError> {
        let DescriptorFields { identity, nbytes, ref body, .. } = *fields;
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        if nbytes.checked_sub(offset).is_none_or(|room| length > room) {
            return Err(CopyError::OutOfRange { offset, length, nbytes });
        }
        let base = match address(body) {
            Some(base) => Some(base),
            None => self.sharing.address(identity).map_err(DeviceError::Vmm)?,
        };
        // An allocation does not wrap.
        Ok(base.map(|base| base.saturating_add(offset)))
    }

    fn mapped(&self, identity: Identity, offset: u64) -> Result<(&Mapping, usize), CopyError> {
        let mapping = self.live.get(&identity).and_then(|live| live.buffer.mapping());
        let backend_kind = BackendKind::VmmShareable;
        let mapping = mapping.ok_or(CopyError::Own(OwnError::NotMapped { backend_kind }))?;
        // It was compared with the size of something that is mapped.
        Ok((mapping, usize::try_from(offset).unwrap_or(usize::MAX)))
    }
}

fn check_direction(granted: Access, needed: Access) -> Result<(), CopyError> {
    if granted.grants(needed) { Ok(()) } else { Err(CopyError::Denied { granted, needed }) }
}

fn out_of_range(offset: u64, error: OutOfRange) -> CopyError {
    let number = |value: usize| u64::try_from(value).unwrap_or(u64::MAX);
    CopyError::OutOfRange { offset, length: number(error.length), nbytes: number(error.nbytes) }
}
