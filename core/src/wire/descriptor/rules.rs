//! The rules of a descriptor, in the order of the wire ABI.

use zerocopy::little_endian::U64;
use zerocopy::transmute;

use super::{DescriptorError, MAGIC, RawDescriptor};
use crate::rights::Access;
use crate::wire::backend::{AddressSpace, BackendKind};
use crate::wire::body::{BODY_SIZE, ShareableAndTail, is_name_byte};
use crate::wire::verdict::{Broken, First, Verdict};

/// All rules in the order of the wire ABI; the first broken one is the error.
#[inline]
pub(crate) fn check(raw: &RawDescriptor) -> Result<(), DescriptorError> {
    match rules::<Broken>(raw) {
        Ok(()) => Ok(()),
        Err(Broken) => first_broken(raw),
    }
}

/// The rules once more, for the error.
#[cold]
#[inline(never)]
fn first_broken(raw: &RawDescriptor) -> Result<(), DescriptorError> {
    rules::<First<DescriptorError>>(raw).map_err(|First(error)| error)
}

/// The rules once, for whatever becomes of a broken one.
#[inline]
pub(crate) fn rules<V: Verdict<DescriptorError>>(raw: &RawDescriptor) -> Result<(), V> {
    use DescriptorError as E;
    if raw.magic.get() != MAGIC {
        return Err(V::of(|| E::Magic { found: raw.magic.get() }));
    }
    let Some(space) = AddressSpace::from_wire(raw.address_space) else {
        return Err(V::of(|| E::AddressSpace { found: raw.address_space }));
    };
    let Some(access) = Access::from_wire(raw.access) else {
        return Err(V::of(|| E::Access { found: raw.access }));
    };
    let Some(backend_kind) = BackendKind::from_wire(raw.backend_kind) else {
        return Err(V::of(|| E::BackendKind { found: raw.backend_kind }));
    };
    let body_len = raw.body_len.get();
    if body_len > 32 {
        return Err(V::of(|| E::BodyLen { found: body_len }));
    }
    if raw.identity.generation.get() == 0 {
        return Err(V::of(|| E::Generation));
    }
    if backend_kind.address_space().is_some_and(|needed| needed != space) {
        return Err(V::of(|| E::Capability { backend_kind, found: space }));
    }
    let words: [U64; 4] = transmute!(raw.body);
    match backend_kind {
        BackendKind::ForkShm | BackendKind::VmmWindow | BackendKind::DeviceMalloc | BackendKind::ForkCow => {
            if backend_kind == BackendKind::ForkCow && access != Access::Read {
                return Err(V::of(|| E::ForkCowAccess { found: access }));
            }
            if body_len != 8 {
                return Err(V::of(|| E::BodyAddressLen { backend_kind, found: body_len }));
            }
            if words[0].get() == 0 {
                return Err(V::of(|| E::BodyNullBase { backend_kind }));
            }
            if words[1].get() | words[2].get() | words[3].get() != 0 {
                return Err(V::of(|| body_tail(raw)));
            }
        }
        BackendKind::PosixShm => {
            if body_len == 0 {
                return Err(V::of(|| E::BodyShmNameEmpty));
            }
            if !is_name_and_zero_tail(body_len, &raw.body) {
                return Err(V::of(|| body_name(raw)));
            }
        }
        BackendKind::VmmShareable => {
            if body_len != 24 {
                return Err(V::of(|| E::BodyShareableLen { found: body_len }));
            }
            let ShareableAndTail { shareable, tail } = transmute!(raw.body);
            if shareable.shareable_handle.get() == 0 {
                return Err(V::of(|| E::BodyShareableHandle));
            }
            if shareable.reserved0.get() != 0 {
                return Err(V::of(|| E::BodyShareableReserved { found: shareable.reserved0.get() }));
            }
            let (mapping_bytes, nbytes) = (shareable.mapping_bytes.get(), raw.nbytes.get());
            if mapping_bytes < nbytes {
                return Err(V::of(|| E::BodyShareableMapping { mapping_bytes, nbytes }));
            }
            if tail.get() != 0 {
                return Err(V::of(|| body_tail(raw)));
            }
        }
        BackendKind::RemoteSidecar => {
            if body_len != 0 {
                return Err(V::of(|| E::BodyRemoteNotEmpty { found: body_len }));
            }
            if words[0].get() | words[1].get() | words[2].get() | words[3].get() != 0 {
                return Err(V::of(|| body_tail(raw)));
            }
        }
    }
    Ok(())
}

/// 32 bytes of ones, then 32 of zeros: a window of 32 bytes from 32 - n on marks the first n.
const FIRST: [u8; 64] = {
    let mut mask = [0; 64];
    let (ones, _) = mask.split_at_mut(32);
    ones.copy_from_slice(&[0xff; 32]);
    mask
};

/// The first `body_len` bytes may stand in a name and the rest are zero. It looks at all 32 without a branch, so that the
/// compiler can take them at once.
#[inline]
fn is_name_and_zero_tail(body_len: u16, body: &[u8; BODY_SIZE]) -> bool {
    let start = BODY_SIZE.saturating_sub(usize::from(body_len));
    let Some(mask) = FIRST.get(start..).and_then(<[u8]>::first_chunk::<BODY_SIZE>) else {
        return false;
    };
    let wrong = body.iter().zip(mask).fold(0_u8, |wrong, (&byte, &in_name)| {
        let not_allowed = u8::from(is_name_byte(byte)).wrapping_sub(1);
        wrong | (not_allowed & in_name) | (byte & !in_name)
    });
    wrong == 0
}

/// The first byte of the name that it must not have; if there is none, the first of the tail that is not 0.
#[cold]
fn body_name(raw: &RawDescriptor) -> DescriptorError {
    let len = usize::from(raw.body_len.get());
    for (index, &found) in (0_u8..).zip(raw.body.iter().take(len)) {
        if !is_name_byte(found) {
            return DescriptorError::BodyShmNameChar { index, found };
        }
    }
    body_tail(raw)
}

/// The first byte past the body's end that is not 0.
#[cold]
fn body_tail(raw: &RawDescriptor) -> DescriptorError {
    let len = usize::from(raw.body_len.get());
    let (index, found) = (0_u8..).zip(raw.body).skip(len).find(|(_, byte)| *byte != 0).unwrap_or((32, 0));
    DescriptorError::BodyTail { index, found }
}
